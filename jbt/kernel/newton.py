"""Newton's method on many problems at once, the last axis; see `jbt.kernel.batching`.

The safeguard needs no objective: along a step d the logistic likelihood is generalised
self-concordant with constant m = max |change of any logit| (Bach 2010; Sun & Tran-Dinh 2019), so
the step length t = 1 if m <= 1, log(1 + m) / m otherwise, is certain to decrease the objective.
Full steps are tried first, as they are faster on ordinary pools; the first one that does not shrink
the gradient switches the safeguard on for good. The start is at the logits of win rates, where
these are not far out.

By the same constant, a full step leaves an error of about m / 2 times the Newton decrement, which
is the distance to the optimum in posterior standard deviations. The method ends with the step for
which this error is below `tolerance`.

No comparison depends on the constant of theta (theta + a). It is fixed by adding the projection on
it to the Hessian, at the scale of the Hessian's diagonal. That leaves every step unchanged in exact
arithmetic (the gradient has no component there, as the mean of theta is kept at 0, like the MAP's)
and takes the worst-conditioned direction out of the arithmetic.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt.kernel import cholesky, model, panel, rows
from jbt.types import (
    Design,
    Fit,
    Panel,
    Parameters,
    Rows,
    Status,
    Verdicts,
    flat,
    n_judges,
)

MAX_STEPS = 64
"""Default step limit. Ordinary pools take 3 to 6 steps; each further step moves a separated item by
about one logit."""

FAR = 4.0
"""Change of a logit by the first step beyond which the fit restarts at zero."""

LONGEST_STRETCH = 8.0
"""Largest factor on the length of Newton steps towards an optimum at infinity."""

RIDGE = 1e-12
"""Ridge in the Hessian of an MLE, as a fraction of the information at even odds."""


class _State(NamedTuple):
    beta: Float[Array, "P B"]
    decrement: Float[Array, " B"]
    grad_norm: Float[Array, " B"]
    safeguard: Bool[Array, " B"]
    stretch: Float[Array, " B"]
    done: Bool[Array, " B"]
    steps: Int[Array, " B"]


def newton(
    comparisons: Verdicts,
    design: Design,
    precision: Float[Array, "P ..."] | None,
    free: Bool[Array, "P ..."],
    start: Float[Array, "P ..."] | None,
    *,
    limit: int,
    tolerance: float,
) -> Fit:
    """Newton's method on the objective with these prior precisions, for B problems; those of all
    contents are the same.

    Without a prior (None), the tolerance applies to the decrement, a ridge in the Hessian alone
    keeps flat directions finite without moving the optimum, and steps towards an optimum at
    infinity are lengthened. There the loss decays exponentially: a full step divides it by e, and a
    step t times as long by exp(t); the decrement, which goes like the root of the loss, falls by
    exp(t / 2). As long as a small decrement falls at that rate or more slowly, each step is
    stretched twice as far as the last. At an ordinary optimum the decrement falls faster, and steps
    keep Newton's length.
    """
    design = design.centred()
    m, contents, judges = design.n_contents, design.content_mask(), n_judges(comparisons)
    chain = model.chain_of(design)  # built once, not at every step
    leaves = jax.tree.leaves((comparisons, design, precision, free, start))
    problems = jnp.broadcast_shapes(*(leaf.shape[-1:] for leaf in leaves))
    without_prior = precision is None
    if precision is None:
        precision = RIDGE * information_scale(_for_all(comparisons, problems), design, free)
    pull = 0 * precision if without_prior else precision

    def step(s: _State) -> _State:
        parameters = Parameters.unflat(s.beta, m, judges)
        gradient, information = model.score_and_information(parameters, design, comparisons, chain)
        gradient = jnp.where(free, gradient - pull * s.beta, 0)
        delta, half = cholesky.solve(
            _hessian(
                information,
                _trace(information, m, comparisons),
                precision,
                free,
                contents,
            ),
            gradient,
        )
        delta = jnp.where(free, delta, 0)
        decrement = jnp.sqrt((half**2).sum(0))
        grad_norm = jnp.sqrt((gradient**2).sum(0))
        change = Parameters.unflat(delta, m, judges)
        reach = _reach(change, design, comparisons)
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
            # A decrement that rounding keeps from falling is itself an error. Where the optimum is
            # far out, it is small long before the steps are, so these must be short as well.
            done = (decrement * reach <= 2 * tolerance) & (decrement <= 0.1 * tolerance**0.5)
            done &= reach <= 0.1
        beta = s.beta + length * delta
        if start is None or not without_prior:
            # Win rates of few or very unequal verdicts may lie far out, where full steps are too
            # long and safe ones too many, and so may a given start be. Full steps from zero avoid
            # both, but not where a coefficient is fixed elsewhere. A given start that is not finite
            # ends the fit as such.
            elsewhere = (~free & (s.beta != 0)).any(0)
            far = ~(reach <= FAR) if start is None else (reach > FAR) & ~elsewhere
            restart = (s.steps == 0) & far
            beta = jnp.where(restart, 0, beta)
            decrement, grad_norm = (jnp.where(restart, jnp.inf, v) for v in (decrement, grad_norm))
            done &= ~restart
        theta = jnp.where(contents, beta[:m], 0)
        # No comparison moves the constant of theta: at the mode its mean is 0.
        theta = jnp.where(contents, theta - theta.sum(0) / contents.sum(0), 0)
        beta = jnp.concatenate([theta, beta[m:]])
        return _State(beta, decrement, grad_norm, safeguard, stretch, done, s.steps + 1)

    def going(s: _State) -> Bool[Array, " B"]:
        # A NaN decrement ends the loop.
        return ~s.done & (s.steps < limit) & ~jnp.isnan(s.decrement)

    def step_if_active(s: _State) -> _State:
        active = going(s)
        return jax.tree.map(lambda new, old: jnp.where(active, new, old), step(s), s)

    inf = jnp.full(problems, jnp.inf, design.dtype)
    off, zero = jnp.zeros(problems, bool), jnp.zeros(problems, int)
    # From a start where verdicts look decided already, a full step could overshoot for good.
    careful = ~off if without_prior and start is not None else off
    beta = from_win_rates(comparisons, design, precision, free) if start is None else start
    beta = jnp.broadcast_to(beta, (len(free), *problems))
    first = _State(beta, inf, inf, careful, jnp.ones_like(inf), off, zero)
    end = jax.lax.while_loop(lambda s: going(s).any(), step_if_active, first)
    finite = jnp.isfinite(end.beta).all(0) & ~jnp.isnan(end.decrement)
    if not without_prior:  # a traced precision could not be refused, but has no mode
        finite &= (precision > 0).all(0)
    return result(end.beta, end.done, finite, end.steps, comparisons, design, pull, free)


def _for_all(comparisons: Verdicts, problems: tuple[Any, ...]) -> Verdicts:
    """The comparisons repeated for each problem, as problems may share them and differ in their
    designs."""
    if isinstance(comparisons, Panel):
        return dataclasses.replace(comparisons, verdicts=_for_all(comparisons.verdicts, problems))
    shown = comparisons.shown
    return dataclasses.replace(
        comparisons, shown=jnp.broadcast_to(shown, (*shown.shape[:-1], *problems))
    )


def _reach(change: Parameters, design: Design, comparisons: Verdicts) -> Float[Array, "..."]:
    """The largest change of any logit (for counts, of any pair of items, shown or not)."""
    if isinstance(comparisons, Panel):
        models = panel.each_judge(change, comparisons), panel.for_judges(design)
        return _reach(*models, comparisons.verdicts).max(0)
    if isinstance(comparisons, Rows):
        return jnp.abs(rows.logits(change, comparisons)).max(0)
    items, phi = design.item_mask, model.apparent_quality(change, design)
    spread = jnp.where(items, phi, -jnp.inf).max(0) - jnp.where(items, phi, jnp.inf).min(0)
    return spread + jnp.abs(change.kappa)


def from_win_rates(
    comparisons: Verdicts,
    design: Design,
    precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
) -> Float[Array, "P ..."]:
    """The start of Newton's method: theta and kappa at the logits of shares of wins, c at 0.

    Two wins and two losses are added to each share. A share averages over opponents, which shrinks
    its logit by about the root of 1 + v / 2, v the variance of the shrunk logits (a fit to MacKay's
    1 + pi/8 times the true variance, 1992). The prior shrinks it as it would at even odds.
    """
    won, asked, wins, shown = _wins(comparisons, design)
    discrimination = 1.0
    if isinstance(comparisons, Panel):
        s, sets = comparisons.discrimination, jnp.abs(comparisons.sharing)
        # A content gets the mean over its judges, with four verdicts added at discrimination 1; a
        # set of coefficients adds the judges that use it.
        discrimination = ((asked * s).sum(1) + 4) / (asked.sum(1) + 4)
        won, asked = won.sum(1), asked.sum(1)
        wins, shown = ((sets * v[:, None]).sum(0) for v in (wins, shown))

    def logit(won: Array, asked: Array, precision: Array) -> Array:
        return jnp.log((won + 2) / (asked - won + 2)) / (1 + 4 * precision / (asked + 1))

    contents, m = design.content_mask(), design.n_contents
    theta = logit(won, asked, precision[:m])
    mean = jnp.where(contents, theta, 0).sum(0) / contents.sum(0)
    theta = jnp.where(contents, theta - mean, 0)
    stretch = jnp.sqrt(1 + (theta**2).sum(0) / contents.sum(0) / 2)
    kappa_precision = Parameters.unflat(precision, m, n_judges(comparisons)).kappa
    kappa = stretch * logit(wins, shown, kappa_precision)
    c = jnp.zeros((design.n_covariates, *kappa.shape), kappa.dtype)
    return jnp.where(free, flat(stretch * theta / discrimination, c, kappa), 0)


def _wins(
    comparisons: Verdicts, design: Design
) -> tuple[Array, Array, Float[Array, "..."], Float[Array, "..."]]:
    """Wins and verdicts of each content; wins of the first shown, and verdicts of known order. For
    a panel with the judge as last axis."""
    if isinstance(comparisons, Panel):
        return _wins(comparisons.verdicts, panel.for_judges(design))
    shown, wins = comparisons.shown, comparisons.wins
    if isinstance(comparisons, Rows):
        won, asked = rows.won_and_asked(comparisons, design.n_contents)
        shown, wins = ((comparisons.ordered * v).sum(0) for v in (shown, wins))
        return won, asked, wins, shown
    won = wins.sum(1) + (shown - wins).sum(0)
    asked = shown.sum(1) + shown.sum(0)
    if design.content is not None:
        won, asked = ((design.ownership() * v[:, None]).sum(0) for v in (won, asked))
    return won, asked, wins.sum((0, 1)), shown.sum((0, 1))


def _trace(
    information: Float[Array, "P P ..."], m: int, comparisons: Verdicts
) -> Float[Array, "..."]:
    """The trace of theta's block, or more where a content meets itself; for a panel as if all
    discriminations were 1."""
    verdicts = comparisons.verdicts if isinstance(comparisons, Panel) else comparisons
    if isinstance(verdicts, Rows):
        return jnp.einsum("ii...->...", information[:m, :m])
    # The Laplacian's trace is twice the information about kappa, which is a single entry.
    kappas = [information[-h, -h] for h in range(1, 1 + (n_judges(comparisons) or 1))]
    return 2 * sum(kappas[1:], kappas[0])


def _hessian(
    information: Float[Array, "P P ..."],
    trace: Float[Array, "..."],
    precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
    contents: Bool[Array, "M ..."],
) -> Float[Array, "P P ..."]:
    """Hessian of the objective over the free parameters, with the constant of theta fixed, which
    leaves its mean as it is; identity in the rows and columns of fixed parameters, so that they
    never move."""
    p, m = len(free), len(contents)
    eye = jnp.eye(p, dtype=information.dtype)[:, :, None]
    scale = precision[:m].max(0) + trace / contents.sum(0)
    pinned = jnp.concatenate([contents, jnp.zeros((p - m, *contents.shape[1:]), bool)])
    gauge = jnp.where(pinned[:, None] & pinned, scale / contents.sum(0), 0)
    return jnp.where(free[:, None] & free, information + eye * precision + gauge, eye)


def result(
    beta: Float[Array, "P ..."],
    converged: Bool[Array, "..."],
    finite: Bool[Array, "..."],
    steps: Int[Array, "..."],
    comparisons: Verdicts,
    design: Design,
    precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
) -> Fit:
    """The fit at beta, with status, gradient norm and objective. The compiler drops them where they
    are not used."""
    parameters = Parameters.unflat(beta, design.n_contents, n_judges(comparisons))
    gradient = model.score(parameters, design, comparisons) - precision * beta
    gradient = jnp.where(free, gradient, 0)
    penalty = (precision * beta**2).sum(0) / 2
    objective = penalty - model.log_likelihood(parameters, design, comparisons)
    status = jnp.where(converged, Status.CONVERGED, Status.NOT_CONVERGED)
    status = jnp.where(finite, status, Status.NOT_FINITE)
    return Fit(parameters, status, steps, jnp.sqrt((gradient**2).sum(0)), objective)


def information_scale(
    comparisons: Verdicts, design: Design, free: Bool[Array, "P ..."]
) -> Float[Array, "P ..."]:
    """Information about each parameter alone at even odds, the most the comparisons can carry; 1
    for parameters that are fixed or in no comparison."""
    scale = jnp.einsum("ii...->i...", model.information_at_even_odds(comparisons, design))
    return jnp.where(free & (scale > 0), scale, 1)
