"""Maximum a posteriori and maximum likelihood estimates of one pool's parameters.

Newton's method with a safeguard that needs no objective: along a step d the logistic
likelihood is generalised self-concordant with constant m = max |change of any logit|
(Bach 2010; Sun & Tran-Dinh 2019), so the step length t = 1 if m <= 1, log(1 + m) / m
otherwise, decreases the objective for certain. Full steps are tried first, being faster on
ordinary pools; at the first one that does not shrink the gradient the safeguard is
switched on for good. It ends when the Newton decrement, the distance to the optimum in
posterior standard deviations, is below `tolerance`; the last step is still taken.

The constant that no comparison sees (theta + a) is fixed by adding the projection on it to
the Hessian, at the scale of the Hessian's diagonal. That leaves every step unchanged in
exact arithmetic (the gradient has no component there, as the mean of theta is kept at 0,
where the MAP's is too) and takes the worst-conditioned direction out of the arithmetic.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt import model
from jbt.types import Comparisons, Design, Fit, Parameters, Prior, Status, Variant

MAX_STEPS = 64
"""Newton's default step limit. Ordinary pools take 5 to 8 steps; each step beyond moves a
separated item by about one logit."""

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
      start: where to begin (warm start), default zero; coefficients that the variant fixes
        stay there.
      solver: "newton", or "lbfgs" (the paper's, through jaxopt).
      max_steps: step limit, default 64 (newton) or 500 (lbfgs).
      tolerance: newton: decrement in posterior standard deviations, default 1e-3 in
        float32 and 1e-7 in float64 (the error left is of the order of its square).
        lbfgs: gradient norm, default 1e-2 in float32 and 1e-9 in float64.

    Returns:
      A `Fit`; theta of contents that are never shown is 0, the prior's mean. Status
      `CONVERGED`, `NOT_CONVERGED` or `NOT_FINITE`.

    Raises:
      ValueError: unknown solver; comparisons that do not fit the design.
    """
    _check(comparisons, design)
    design = design.centred()
    start = Parameters.zeros(design) if start is None else start
    if solver == "lbfgs":
        return _lbfgs(comparisons, design, prior, variant, start, max_steps, tolerance)
    if solver != "newton":
        raise ValueError(f"unknown solver {solver!r}: one of newton, lbfgs")
    precision = model.prior_precision(design, prior)
    end = _newton(comparisons, design, precision, variant, start, max_steps, tolerance)
    return _result(end, end.done, comparisons, design, prior, variant)


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
    scale = information_scale(comparisons, design, free)
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
    design = design.centred()
    # From where verdicts look settled already, a full step could overshoot beyond return.
    careful = start is not None
    start = Parameters.zeros(design) if start is None else start
    scale = information_scale(comparisons, design, model.free_mask(variant, design))
    # In the Hessian alone, so that a flat direction stays finite without moving the optimum.
    ridge = RIDGE * scale
    limit = 8 * MAX_STEPS if max_steps is None else max_steps
    end = _newton(
        comparisons,
        design,
        0 * ridge,
        variant,
        start,
        limit,
        None,
        ridge,
        careful=careful,
        follow_tails=True,
    )
    return _result(end, end.done, comparisons, design, None, variant)


def information_scale(
    comparisons: Comparisons, design: Design, free: Bool[Array, " P"]
) -> Float[Array, " P"]:
    """What the comparisons would tell about each parameter alone at even odds, which is the most
    they can; 1 for parameters that are fixed or never seen."""
    scale = jnp.diag(information_at_even_odds(comparisons, design))
    return jnp.where(free & (scale > 0), scale, 1)


def information_at_even_odds(comparisons: Comparisons, design: Design) -> Float[Array, "P P"]:
    """The information if every verdict were a coin flip: Z'Z / 4 for the design matrix Z of the
    comparisons made, one row a verdict."""
    return model.score_and_information(Parameters.zeros(design), design, comparisons)[1]


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
    # Variances, not pivots: these cannot hide a flat direction that touches every parameter.
    chol = jnp.linalg.cholesky(_fix(scaled, free))
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
    beta: Float[Array, " P"]
    decrement: Float[Array, ""]
    grad_norm: Float[Array, ""]
    safeguard: Bool[Array, ""]
    stretch: Float[Array, ""]
    done: Bool[Array, ""]
    steps: Int[Array, ""]


def _newton(
    comparisons: Comparisons,
    design: Design,
    precision: Float[Array, " P"],
    variant: Variant,
    start: Parameters,
    max_steps: int | None,
    tolerance: float | None,
    ridge: Float[Array, " P"] | float = 0.0,
    *,
    careful: bool = False,
    follow_tails: bool = False,
) -> _State:
    """Newton's method on the objective with these prior precisions.

    `careful` begins with the safeguard on.

    `follow_tails` lengthens the steps towards an optimum at infinity. There the loss decays
    exponentially, so that a full step divides it by e, and a step t times as long by exp(t); the
    decrement, which goes like the root of the loss, falls by exp(t / 2). As long as a small
    decrement falls at that rate or more slowly, each step is stretched twice as far as the last.
    At an ordinary optimum the decrement falls faster, and steps keep Newton's length.
    """
    dtype, m = design.dtype, design.n_contents
    limit = MAX_STEPS if max_steps is None else max_steps
    tol = (1e-3 if dtype == jnp.float32 else 1e-7) if tolerance is None else tolerance
    items, contents = design.item_mask, design.content_mask()

    def step(s: _State) -> _State:
        parameters = Parameters.unflat(s.beta, m)
        gradient, hessian = _gradient_and_hessian(
            parameters, comparisons, design, precision, variant, ridge
        )
        chol = jax.lax.linalg.cholesky(hessian, symmetrize_input=False)
        half = jax.lax.linalg.triangular_solve(chol, gradient[:, None], left_side=True, lower=True)
        delta = jax.lax.linalg.triangular_solve(
            chol, half, left_side=True, lower=True, transpose_a=True
        )[:, 0]
        delta = jnp.where(model.free_mask(variant, design), delta, 0)
        decrement = jnp.sqrt((half**2).sum())
        grad_norm = jnp.sqrt((gradient**2).sum())
        safeguard = s.safeguard | (grad_norm >= s.grad_norm)
        change = Parameters.unflat(delta, m)
        d_phi = model.apparent_quality(change, design)
        spread = jnp.where(items, d_phi, -jnp.inf).max() - jnp.where(items, d_phi, jnp.inf).min()
        reach = spread + jnp.abs(change.kappa)
        length = jnp.where(safeguard & (reach > 1), jnp.log1p(reach) / reach, 1)
        stretch = s.stretch
        if follow_tails:
            expected = jnp.exp(-stretch / 2) * s.decrement
            decays = (decrement > 0.8 * expected) & (decrement < s.decrement) & (decrement < 0.1)
            stretch = jnp.where(decays, jnp.minimum(2 * stretch, LONGEST_STRETCH), 1)
            length = length * stretch
        beta = s.beta + length * delta
        theta = beta[:m]
        theta = theta - jnp.where(contents, theta, 0).sum() / contents.sum()
        beta = beta.at[:m].set(jnp.where(contents, theta, 0))
        return _State(beta, decrement, grad_norm, safeguard, stretch, decrement <= tol, s.steps + 1)

    def going(s: _State) -> Bool[Array, ""]:
        # A NaN decrement compares False here and ends the loop.
        return ~s.done & (s.steps < limit) & ((s.steps == 0) | (s.decrement > tol))

    inf = jnp.asarray(jnp.inf, dtype)
    one = jnp.ones((), dtype)
    no, zero = jnp.array(False), jnp.array(0)
    first = _State(start.flat().astype(dtype), inf, inf, jnp.array(careful), one, no, zero)
    return jax.lax.while_loop(going, step, first)


def _gradient_and_hessian(
    parameters: Parameters,
    comparisons: Comparisons,
    design: Design,
    precision: Float[Array, " P"],
    variant: Variant,
    ridge: Float[Array, " P"] | float,
) -> tuple[Float[Array, " P"], Float[Array, "P P"]]:
    """Ascent gradient and Hessian of the objective over the free parameters, gauge added."""
    gradient, information = model.score_and_information(parameters, design, comparisons)
    free = model.free_mask(variant, design)
    gradient = jnp.where(free, gradient - precision * parameters.flat(), 0)
    hessian = information + jnp.diag(precision + ridge)
    m = design.n_contents
    contents = design.content_mask()
    scale = jnp.where(free, jnp.diag(hessian), 0)[:m].max() / contents.sum()
    gauge = scale * (contents[:, None] & contents)
    return gradient, _fix(hessian.at[:m, :m].add(gauge), free)


def _fix(hessian: Float[Array, "P P"], free: Bool[Array, " P"]) -> Float[Array, "P P"]:
    """Identity in the rows and columns of fixed parameters, so that they never move."""
    eye = jnp.eye(hessian.shape[0], dtype=hessian.dtype)
    return jnp.where(free[:, None] & free, hessian, eye)


def _result(
    end: _State,
    converged: Bool[Array, ""],
    comparisons: Comparisons,
    design: Design,
    prior: Prior | None,
    variant: Variant,
) -> Fit:
    parameters = Parameters.unflat(end.beta, design.n_contents)
    gradient = model.score(parameters, design, comparisons)
    objective = -model.log_likelihood(parameters, design, comparisons)
    if prior is not None:
        gradient = gradient - model.prior_precision(design, prior) * end.beta
        objective = objective - model.log_prior(parameters, prior)
    gradient = jnp.where(model.free_mask(variant, design), gradient, 0)
    grad_norm = jnp.sqrt((gradient**2).sum())
    finite = jnp.isfinite(grad_norm) & ~jnp.isnan(end.decrement)
    if prior is not None:  # a traced precision could not be refused, but has no mode
        finite &= jnp.asarray(prior.lam > 0) & (jnp.asarray(prior.lam_b) > 0).all()
    status = jnp.where(converged, Status.CONVERGED, Status.NOT_CONVERGED)
    status = jnp.where(finite, status, Status.NOT_FINITE)
    return Fit(parameters, status, end.steps, grad_norm, objective)


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
    end = _State(
        jnp.asarray(jnp.where(free, run.params, start.flat())),
        run.state.error,
        run.state.error,
        jnp.array(False),
        jnp.ones(()),
        run.state.error <= tol,
        run.state.iter_num,
    )
    return _result(end, end.done, comparisons, design, prior, variant)
