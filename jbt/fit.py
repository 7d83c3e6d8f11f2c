"""Maximum a posteriori and maximum likelihood estimates of one pool's parameters.

Newton's method with a safeguard that needs no objective: along a step d the logistic
likelihood is generalised self-concordant with constant m = max |change of any logit|
(Bach 2010; Sun & Tran-Dinh 2019), so the step length t = 1 if m <= 1, log(1 + m) / m
otherwise, decreases the objective for certain. Full steps are tried first, being faster on
ordinary pools; at the first one that does not shrink the gradient the safeguard is
switched on for good. It begins at the logits of win rates, where these are not far out.

By the same constant, a full step leaves an error of about m / 2 times the Newton decrement, which
is the distance to the optimum in posterior standard deviations: it ends with the step for which
that is below `tolerance`.

The constant that no comparison sees (theta + a) is fixed by adding the projection on it to
the Hessian, at the scale of the Hessian's diagonal. That leaves every step unchanged in
exact arithmetic (the gradient has no component there, as the mean of theta is kept at 0,
where the MAP's is too) and takes the worst-conditioned direction out of the arithmetic.

What `batch_last` runs works on many problems, the last axis; see `jbt.batching`.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt import cholesky, model
from jbt.batching import batch_last
from jbt.types import Comparisons, Design, Fit, Parameters, Prior, Status, Variant

MAX_STEPS = 64
"""Newton's default step limit. Ordinary pools take 3 to 6 steps; each step beyond moves a
separated item by about one logit."""

FAR = 4.0
"""Change of a logit by the first step from the win rates beyond which it begins again at zero."""

FLAT = 1e-10
"""Information left, as a fraction of what the same comparisons carry at even odds, below
which a direction of the MLE counts as flat or separated. A pair decided 10^6 to 1 keeps 4e-6."""

LONGEST_STRETCH = 8.0
"""How much longer than Newton's the steps towards an optimum at infinity may be."""

RIDGE = 1e-12
"""Ridge in the Hessian of an MLE, as a fraction of the information at even odds."""


def fit_map(
    comparisons: Comparisons,
    design: Design,
    prior: Prior,
    variant: Variant,
    *,
    start: Parameters | None = None,
    solver: str = "newton",
    max_steps: int | None = None,
    tolerance: float | None = None,
) -> Fit:
    """Maximum a posteriori estimate [Eq. S1].

    Args:
      comparisons: counts, [N, N].
      design: who owns what; its dtype decides the precision.
      prior: precisions of quality and of bias.
      variant: free coefficients, see `model.variant`.
      start: where to begin (warm start), default the win rates (`from_win_rates`); coefficients
        that the variant fixes stay there.
      solver: "newton", or "lbfgs" (the paper's, through jaxopt).
      max_steps: step limit, default 64 (newton) or 500 (lbfgs).
      tolerance: newton: error left, in posterior standard deviations, default 1e-4 in
        float32 and 1e-12 in float64. Rounding may leave up to a tenth of its root, in float32
        where the verdicts tell some 10^6 times as much as the prior; beyond 10^9, hardly a fit
        in float32 converges, and one that does may be further off.
        lbfgs: gradient norm, default 1e-2 in float32 and 1e-9 in float64.

    Returns:
      A `Fit`; theta of contents that are never shown is 0, the prior's mean. Status
      `CONVERGED`, `NOT_CONVERGED` or `NOT_FINITE`.

    Raises:
      ValueError: unknown solver; comparisons that do not fit the design.
    """
    _check(comparisons, design)
    if solver == "lbfgs":
        start = Parameters.zeros(design) if start is None else start
        return _lbfgs(comparisons, design.centred(), prior, variant, start, max_steps, tolerance)
    if solver != "newton":
        raise ValueError(f"unknown solver {solver!r}: one of newton, lbfgs")
    if tolerance is None:
        tolerance = 1e-4 if design.dtype == jnp.float32 else 1e-12
    newton = partial(
        _newton, limit=MAX_STEPS if max_steps is None else max_steps, tolerance=tolerance
    )
    precision, free = model.prior_precision(design, prior), model.free_mask(variant, design)
    beta = None if start is None else start.flat().astype(design.dtype)
    return batch_last(newton)(comparisons, design, precision, free, beta)


def fit_mle(
    comparisons: Comparisons,
    design: Design,
    variant: Variant,
    *,
    start: Parameters | None = None,
    max_steps: int | None = None,
) -> Fit:
    """Maximum likelihood estimate, without a prior; mean theta of the shown contents is 0.

    Arguments and result as `fit_map`; default step limit 512. Status `DOES_NOT_EXIST` where the
    supremum is at infinity (separated comparisons: for plain Bradley-Terry, a win graph that
    is not strongly connected, Ford 1957) or not at a single point (disconnected contents, or
    a covariate that every item's own quality can absorb, Prop. 2), or where in float64 it
    cannot be told from such a case: less than `FLAT` of the information is left. Counts are
    taken to be of order 1 or more.

    Raises:
      ValueError: float32, which cannot tell a far optimum from one at infinity.
    """
    fit = fit_supremum(comparisons, design, variant, start=start, max_steps=max_steps)
    design = design.centred()
    free = model.free_mask(variant, design)
    scale = information_scale(comparisons.shown, design, free)
    information = model.score_and_information(fit.parameters, design, comparisons)[1]
    unique = _is_unique(information, scale, free, design)
    absent = ~unique & (fit.status != Status.NOT_FINITE)
    return dataclasses.replace(fit, status=jnp.where(absent, Status.DOES_NOT_EXIST, fit.status))


def fit_supremum(
    comparisons: Comparisons,
    design: Design,
    variant: Variant,
    *,
    start: Parameters | None = None,
    max_steps: int | None = None,
) -> Fit:
    """Parameters whose likelihood is within rounding of its supremum over the free parameters,
    whether that is attained at one point, along a line, or only in the limit.

    Arguments and result as `fit_map`; coefficients that the variant fixes stay at `start`. Default
    step limit 512. Where an item always wins its quality is stopped some 30 logits out, the
    supremum being nearer than 1e-12 nats by then.

    Raises:
      ValueError: float32, which cannot tell a far optimum from one at infinity.
    """
    if design.dtype != jnp.float64:
        raise ValueError(
            "likelihoods without a prior need float64, got float32: see jbt.runtime.precision"
        )
    _check(comparisons, design)
    newton = partial(
        _newton, limit=8 * MAX_STEPS if max_steps is None else max_steps, tolerance=1e-7
    )
    free = model.free_mask(variant, design)
    beta = None if start is None else start.flat().astype(design.dtype)
    return batch_last(newton)(comparisons, design, None, free, beta)


def information_scale(
    shown: Float[Array, "N N ..."], design: Design, free: Bool[Array, "P ..."]
) -> Float[Array, "P ..."]:
    """What the comparisons would tell about each parameter alone at even odds, which is the most
    they can; 1 for parameters that are fixed or never seen."""
    scale = jnp.einsum("ii...->i...", information_at_even_odds(shown, design))
    return jnp.where(free & (scale > 0), scale, 1)


def information_at_even_odds(
    shown: Float[Array, "N N ..."], design: Design
) -> Float[Array, "P P ..."]:
    """The information if every verdict were a coin flip: Z'Z / 4 for the design matrix Z of the
    comparisons made, one row a verdict."""
    return model.information(shown / 4, design)


def _is_unique(
    information: Float[Array, "P P"],
    scale: Float[Array, " P"],
    free: Bool[Array, " P"],
    design: Design,
) -> Bool[Array, ""]:
    """Whether every direction but the constant keeps a share of at least `FLAT` of its
    information at even odds, whose diagonal is `scale`."""
    constant = jnp.zeros_like(scale).at[: design.n_contents].set(design.content_mask())
    constant = constant * jnp.sqrt(scale)
    scaled = information / jnp.sqrt(scale[:, None] * scale)
    scaled = scaled + constant[:, None] * constant / (constant**2).sum()
    scaled = jnp.where(free[:, None] & free, scaled, jnp.eye(len(free), dtype=scaled.dtype))
    # Variances, not pivots: these cannot hide a flat direction that touches every parameter.
    chol = jnp.linalg.cholesky(scaled)
    variances = (jnp.linalg.inv(chol) ** 2).sum(0)
    return variances.max() < 1 / FLAT  # False for NaN, which an indefinite matrix gives


def _check(comparisons: Comparisons, design: Design) -> None:
    n, shape = design.n_items, comparisons.shown.shape
    if shape != (n, n) or comparisons.wins.shape != shape:
        raise ValueError(f"shown and wins must be [{n}, {n}] for this design, got {shape}")
    if comparisons.shown.dtype != design.dtype:
        found = f"{comparisons.shown.dtype} comparisons, {design.dtype} design"
        raise ValueError(f"comparisons and design must have one precision, got {found}")


class _State(NamedTuple):
    beta: Float[Array, "P B"]
    decrement: Float[Array, " B"]
    grad_norm: Float[Array, " B"]
    safeguard: Bool[Array, " B"]
    stretch: Float[Array, " B"]
    done: Bool[Array, " B"]
    steps: Int[Array, " B"]


def _newton(
    comparisons: Comparisons,
    design: Design,
    precision: Float[Array, "P ..."] | None,
    free: Bool[Array, "P ..."],
    start: Float[Array, "P ..."] | None,
    *,
    limit: int,
    tolerance: float,
) -> Fit:
    """Newton's method on the objective with these prior precisions, for B problems.

    Without a prior (None) the tolerance is of the decrement, and a ridge in the Hessian alone keeps
    flat directions finite without moving the optimum. Steps towards an optimum at infinity are
    lengthened then. There the loss decays exponentially, so that a full step divides it by e, and a
    step t times as long by exp(t); the decrement, which goes like the root of the loss, falls by
    exp(t / 2). As long as a small decrement falls at that rate or more slowly, each step is
    stretched twice as far as the last. At an ordinary optimum the decrement falls faster, and steps
    keep Newton's length.
    """
    design = design.centred()
    m, items, contents = design.n_contents, design.item_mask, design.content_mask()
    chain = model.chain_of(design)  # or every step would build it
    each = jax.tree.leaves((comparisons, design, precision, free, start))
    problems = jnp.broadcast_shapes(*(leaf.shape[-1:] for leaf in each))
    without_prior = precision is None
    if precision is None:
        shown = jnp.broadcast_to(comparisons.shown, (*comparisons.shown.shape[:2], *problems))
        precision = RIDGE * information_scale(shown, design, free)
    pull = 0 * precision if without_prior else precision

    def step(s: _State) -> _State:
        parameters = Parameters.unflat(s.beta, m)
        gradient, information = model.score_and_information(parameters, design, comparisons, chain)
        gradient = jnp.where(free, gradient - pull * s.beta, 0)
        delta, half = cholesky.solve(_hessian(information, precision, free, contents), gradient)
        delta = jnp.where(free, delta, 0)
        decrement = jnp.sqrt((half**2).sum(0))
        grad_norm = jnp.sqrt((gradient**2).sum(0))
        change = Parameters.unflat(delta, m)
        d_phi = model.apparent_quality(change, design)
        spread = jnp.where(items, d_phi, -jnp.inf).max(0) - jnp.where(items, d_phi, jnp.inf).min(0)
        reach = spread + jnp.abs(change.kappa)
        safeguard = s.safeguard | (grad_norm >= s.grad_norm)
        length = jnp.where(safeguard & (reach > 1), jnp.log1p(reach) / reach, 1)
        stretch = s.stretch
        if without_prior:
            done = decrement <= tolerance
            expected = jnp.exp(-stretch / 2) * s.decrement
            decays = (decrement > 0.8 * expected) & (decrement < s.decrement) & (decrement < 0.1)
            stretch = jnp.where(decays, jnp.minimum(2 * stretch, LONGEST_STRETCH), 1)
            length = length * stretch
        else:
            # A decrement that rounding keeps up is an error in itself. Where the optimum is far
            # out, it is small long before the steps are: they have to be short as well.
            done = (decrement * reach <= 2 * tolerance) & (decrement <= 0.1 * tolerance**0.5)
            done &= reach <= 0.1
        beta = s.beta + length * delta
        if start is None:
            # Win rates of few or very unequal comparisons may lie far out, where full steps are too
            # long and safe ones many. Full steps from zero are neither.
            begun_far = (s.steps == 0) & ~(reach <= FAR)
            beta = jnp.where(begun_far, 0, beta)
            decrement, grad_norm = (
                jnp.where(begun_far, jnp.inf, v) for v in (decrement, grad_norm)
            )
            done &= ~begun_far
        theta = jnp.where(contents, beta[:m], 0)
        theta = jnp.where(contents, theta - theta.sum(0) / contents.sum(0), 0)
        beta = jnp.concatenate([theta, beta[m:]])
        return _State(beta, decrement, grad_norm, safeguard, stretch, done, s.steps + 1)

    def going(s: _State) -> Bool[Array, " B"]:
        # A NaN decrement ends the loop.
        return ~s.done & (s.steps < limit) & ~jnp.isnan(s.decrement)

    def unless_ended(s: _State) -> _State:
        active = going(s)
        return jax.tree.map(lambda new, old: jnp.where(active, new, old), step(s), s)

    inf = jnp.full(problems, jnp.inf, design.dtype)
    no, none = jnp.zeros(problems, bool), jnp.zeros(problems, int)
    # From where verdicts look settled already, a full step could overshoot beyond return.
    careful = ~no if without_prior and start is not None else no
    beta = from_win_rates(comparisons, design, precision, free) if start is None else start
    beta = jnp.broadcast_to(beta, (len(free), *problems))
    first = _State(beta, inf, inf, careful, jnp.ones_like(inf), no, none)
    end = jax.lax.while_loop(lambda s: going(s).any(), unless_ended, first)
    finite = jnp.isfinite(end.beta).all(0) & ~jnp.isnan(end.decrement)
    if not without_prior:  # a traced precision could not be refused, but has no mode
        finite &= (precision > 0).all(0)
    return _result(end.beta, end.done, finite, end.steps, comparisons, design, pull, free)


def from_win_rates(
    comparisons: Comparisons,
    design: Design,
    precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
) -> Float[Array, "P ..."]:
    """Where Newton's method begins: theta and kappa at the logits of shares of wins, c at 0.

    Each share is taken with two wins and two losses more. A share averages over opponents, which
    shrinks its logit: by about the root of 1 + v / 2, v the variance of the shrunk logits (a fit to
    MacKay's 1 + pi/8 times the true variance, 1992). The prior shrinks it as it would at even odds.
    """
    shown, wins = comparisons.shown, comparisons.wins
    won = wins.sum(1) + (shown - wins).sum(0)
    asked = shown.sum(1) + shown.sum(0)
    if design.content is not None:
        won, asked = ((design.ownership() * v[:, None]).sum(0) for v in (won, asked))

    def logit(won: Array, asked: Array, precision: Array) -> Array:
        return jnp.log((won + 2) / (asked - won + 2)) / (1 + 4 * precision / (asked + 1))

    contents, m = design.content_mask(), design.n_contents
    theta = logit(won, asked, precision[:m])
    mean = jnp.where(contents, theta, 0).sum(0) / contents.sum(0)
    theta = jnp.where(contents, theta - mean, 0)
    stretch = jnp.sqrt(1 + (theta**2).sum(0) / contents.sum(0) / 2)
    kappa = stretch * logit(wins.sum((0, 1)), shown.sum((0, 1)), precision[-1])
    c = jnp.zeros((design.n_covariates, *kappa.shape), kappa.dtype)
    return jnp.where(free, jnp.concatenate([stretch * theta, c, kappa[None]]), 0)


def _hessian(
    information: Float[Array, "P P ..."],
    precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
    contents: Bool[Array, "M ..."],
) -> Float[Array, "P P ..."]:
    """Of the objective over the free parameters, the constant of theta fixed; identity in the rows
    and columns of the others, so that they never move."""
    p, m = len(free), len(contents)
    eye = jnp.eye(p, dtype=information.dtype)[:, :, None]
    # The Laplacian's trace is twice the information about kappa, less where a content meets itself;
    # divided by the contents it is the scale of the diagonal, which is all that is needed.
    scale = precision[:m].max(0) + 2 * information[-1, -1] / contents.sum(0)
    pinned = jnp.concatenate([contents, jnp.zeros((p - m, *contents.shape[1:]), bool)])
    gauge = jnp.where(pinned[:, None] & pinned, scale / contents.sum(0), 0)
    return jnp.where(free[:, None] & free, information + eye * precision + gauge, eye)


def _result(
    beta: Float[Array, "P ..."],
    converged: Bool[Array, "..."],
    finite: Bool[Array, "..."],
    steps: Int[Array, "..."],
    comparisons: Comparisons,
    design: Design,
    precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
) -> Fit:
    """What nobody reads of it, the compiler leaves out."""
    parameters = Parameters.unflat(beta, design.n_contents)
    gradient = model.score(parameters, design, comparisons) - precision * beta
    gradient = jnp.where(free, gradient, 0)
    penalty = (precision * beta**2).sum(0) / 2
    objective = penalty - model.log_likelihood(parameters, design, comparisons)
    status = jnp.where(converged, Status.CONVERGED, Status.NOT_CONVERGED)
    status = jnp.where(finite, status, Status.NOT_FINITE)
    return Fit(parameters, status, steps, jnp.sqrt((gradient**2).sum(0)), objective)


def _lbfgs(
    comparisons: Comparisons,
    design: Design,
    prior: Prior,
    variant: Variant,
    start: Parameters,
    max_steps: int | None,
    tolerance: float | None,
) -> Fit:
    import jaxopt  # no longer maintained, hence never on the default path

    free = model.free_mask(variant, design)
    tol = (1e-2 if design.dtype == jnp.float32 else 1e-9) if tolerance is None else tolerance
    m = design.n_contents

    def objective(beta: Float[Array, " P"]) -> Float[Array, ""]:
        parameters = Parameters.unflat(jnp.where(free, beta, start.flat()), m)
        likelihood = model.log_likelihood(parameters, design, comparisons)
        return -likelihood - model.log_prior(parameters, prior)

    run = jaxopt.LBFGS(objective, maxiter=500 if max_steps is None else max_steps, tol=tol).run(
        start.flat()
    )
    beta = jnp.where(free, jnp.asarray(run.params), start.flat())
    precision = model.prior_precision(design, prior)
    finite = jnp.isfinite(beta).all() & (precision > 0).all()
    converged, steps = run.state.error <= tol, run.state.iter_num
    return _result(beta, converged, finite, steps, comparisons, design, precision, free)
