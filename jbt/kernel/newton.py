"""Newton's method on many problems at once, the last axis; see `jbt.kernel.batching`.

Its safeguard needs no objective: along a step d the logistic
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
"""Default step limit. Ordinary pools take 3 to 6 steps; each step beyond moves a
separated item by about one logit."""

FAR = 4.0
"""Change of a logit by the first step from the win rates beyond which it begins again at zero."""

LONGEST_STRETCH = 8.0
"""How much longer than Newton's the steps towards an optimum at infinity may be."""

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
    m, contents, judges = design.n_contents, design.content_mask(), n_judges(comparisons)
    chain = model.chain_of(design)  # or every step would build it
    each = jax.tree.leaves((comparisons, design, precision, free, start))
    problems = jnp.broadcast_shapes(*(leaf.shape[-1:] for leaf in each))
    without_prior = precision is None
    if precision is None:
        precision = RIDGE * information_scale(_of_all(comparisons, problems), design, free)
    pull = 0 * precision if without_prior else precision

    def step(s: _State) -> _State:
        parameters = Parameters.unflat(s.beta, m, judges)
        gradient, information = model.score_and_information(parameters, design, comparisons, chain)
        gradient = jnp.where(free, gradient - pull * s.beta, 0)
        delta, half = cholesky.solve(
            _hessian(information, _trace(information, m, comparisons), precision, free, contents),
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
            # A decrement that rounding keeps up is an error in itself. Where the optimum is far
            # out, it is small long before the steps are: they have to be short as well.
            done = (decrement * reach <= 2 * tolerance) & (decrement <= 0.1 * tolerance**0.5)
            done &= reach <= 0.1
        beta = s.beta + length * delta
        if start is None:
            # Win rates of few or very unequal verdicts may lie far out, where full steps are too
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
    return result(end.beta, end.done, finite, end.steps, comparisons, design, pull, free)


def _of_all(comparisons: Verdicts, problems: tuple[Any, ...]) -> Verdicts:
    """The comparisons as of each problem, where all may share them and differ in their designs."""
    if isinstance(comparisons, Panel):
        return dataclasses.replace(comparisons, verdicts=_of_all(comparisons.verdicts, problems))
    shown = comparisons.shown
    return dataclasses.replace(
        comparisons, shown=jnp.broadcast_to(shown, (*shown.shape[:-1], *problems))
    )


def _reach(change: Parameters, design: Design, comparisons: Verdicts) -> Float[Array, "..."]:
    """The largest change of any logit (of counts, by any pair of items, shown or not)."""
    if isinstance(comparisons, Panel):
        each = panel.each_judge(change, comparisons), panel.for_judges(design)
        return _reach(*each, comparisons.verdicts).max(0)
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
    """Where Newton's method begins: theta and kappa at the logits of shares of wins, c at 0.

    Each share is taken with two wins and two losses more. A share averages over opponents, which
    shrinks its logit: by about the root of 1 + v / 2, v the variance of the shrunk logits (a fit to
    MacKay's 1 + pi/8 times the true variance, 1992). The prior shrinks it as it would at even odds.
    """
    won, asked, wins, shown = _wins(comparisons, design)
    discrimination = 1.0
    if isinstance(comparisons, Panel):
        s, sets = comparisons.discrimination, jnp.abs(comparisons.sharing)
        # Of a content by its judges, two verdicts at discrimination 1 more; of a set by those
        # that have a part in it.
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
    of_kappa = Parameters.unflat(precision, m, n_judges(comparisons)).kappa
    kappa = stretch * logit(wins, shown, of_kappa)
    c = jnp.zeros((design.n_covariates, *kappa.shape), kappa.dtype)
    return jnp.where(free, flat(stretch * theta / discrimination, c, kappa), 0)


def _wins(
    comparisons: Verdicts, design: Design
) -> tuple[Array, Array, Float[Array, "..."], Float[Array, "..."]]:
    """How many of its verdicts each content won, and how many it has; how many the first shown
    won, and how many tell of that. Of a panel for each judge, as last axis."""
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
    """The sum of the diagonal that belongs to theta; where a content meets itself, or more; of a
    panel as if all discriminations were 1."""
    made = comparisons.verdicts if isinstance(comparisons, Panel) else comparisons
    if isinstance(made, Rows):
        return jnp.einsum("ii...->...", information[:m, :m])
    # The Laplacian's trace is twice the information about kappa, which is one number to read.
    of_kappa = [information[-h, -h] for h in range(1, 1 + (n_judges(comparisons) or 1))]
    return 2 * sum(of_kappa[1:], of_kappa[0])


def _hessian(
    information: Float[Array, "P P ..."],
    trace: Float[Array, "..."],
    precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
    contents: Bool[Array, "M ..."],
) -> Float[Array, "P P ..."]:
    """Of the objective over the free parameters, the constant of theta fixed; identity in the rows
    and columns of the others, so that they never move."""
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
    """The fit at beta, with status, gradient norm and objective. These cost nothing where nobody
    reads them, as the compiler leaves them out."""
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
    """What the comparisons would tell about each parameter alone at even odds, which is the most
    they can; 1 for parameters that are fixed or never seen."""
    scale = jnp.einsum("ii...->i...", model.information_at_even_odds(comparisons, design))
    return jnp.where(free & (scale > 0), scale, 1)
