"""One pool's active loop: pick R pairs by the posterior of the last fit, ask the judge, refit."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from jbt import judges, metrics, model, pairs
from jbt.acquisition import rules
from jbt.acquisition.rules import Rule, Score, View
from jbt.acquisition.task import PROTOCOLS, Task
from jbt.fit import fit_map
from jbt.laplace import laplace
from jbt.membership import (
    DRAWS,
    antithetic_normals,
    check_k,
    counted,
    membership,
    shifted,
    sobol_normals,
)
from jbt.types import Comparisons, Parameters, Pool, Posterior, Status, container

INIT, NORMALS = 2**32 - 1, 2**32 - 2
"""What a run's key is folded with for its tie-breaks and for fresh normals; its picks have the
number of the verdict."""


@dataclasses.dataclass(frozen=True)
class Loop:
    """How to run the loop: everything that, when changed, compiles again."""

    rule: str | Rule | Score = "top_k_aware"
    """A name in `rules.RULES`, a `Rule`, or a function `(view, key) -> scores [N, N]`."""
    k: int = 5
    """Size of the top set."""
    refit_every: int = 8
    """R, picks between refits."""
    protocol: str = "frozen"
    """One of `PROTOCOLS`."""
    n_samples: int | None = None
    """S, draws for the membership; None: 64, or 1500 if counted (`membership.DRAWS`)."""
    membership: str = "conditional"
    """`conditional`: the mean over S scrambled Sobol draws of each content's chance given the rest
    of the draw. `counted`: the paper's, the share of S antithetic normal draws that have it in
    their top k; it takes some 20 times as many draws."""
    fresh_normals: bool = False
    """New normals at every refit, instead of the same throughout the run."""

    def __post_init__(self) -> None:
        rules.resolve(self.rule)
        for name in ("refit_every", "n_samples", "k"):
            value = getattr(self, name)
            if value is not None and int(value) != value:
                raise ValueError(f"{name} must be a whole number, got {value}")
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.membership not in DRAWS:
            known = " or ".join(DRAWS)
            raise ValueError(f"membership must be {known}, got {self.membership!r}")
        if self.protocol not in PROTOCOLS:
            known = " or ".join(PROTOCOLS)
            raise ValueError(f"protocol must be {known}, got {self.protocol!r}")


@container
class State:
    """Where a run stands, between two blocks."""

    key: Key[Array, ""]
    """The run's own, the same throughout."""
    asked: Int[Array, ""]
    """Verdicts so far."""
    comparisons: Comparisons
    parameters: Parameters
    """The MAP of these comparisons."""
    status: Int[Array, ""]
    """A `Status`: of the fit, or `NOT_FINITE` if a score of the last block was not finite."""
    shuffle: Int[Array, " P"]
    signs: Float[Array, " P"]
    """All runs share one table of standard normals, which each permutes over the parameters
    and signs in its own way."""
    priority: Float[Array, " M"]
    """Decides between tied contents, in rules that rank them."""


@container
class Queries:
    """What was asked, in order. -1 and 0 where no pair was available."""

    first: Int[Array, " B"]
    second: Int[Array, " B"]
    won: Float[Array, " B"]
    """Share of the verdict that the first shown won: 1 or 0, a tie 0.5, graded anything between."""


def init(key: Key[Array, ""], task: Task, loop: Loop) -> State:
    """The state before the first verdict: nothing asked, the prior's mean.

    Args:
      key: of the run's own randomness: tie-breaks, the rule's draws, fresh verdicts.

    Raises:
      ValueError: k out of range.
    """
    design = task.design
    n, m, p = design.n_items, design.n_contents, design.n_contents + design.n_covariates + 1
    check_k(loop.k, m)
    shuffle, signs, priority = jax.random.split(jax.random.fold_in(key, INIT), 3)
    none = jnp.zeros((n, n), design.dtype)
    return State(
        key=key,
        asked=jnp.array(0),
        comparisons=Comparisons(none, none),
        parameters=Parameters.zeros(design),
        status=jnp.array(int(Status.CONVERGED)),
        shuffle=_random_order(shuffle, p),
        signs=jax.random.rademacher(signs, (p,), design.dtype),
        priority=_random_order(priority, m).astype(design.dtype),
    )


def _random_order(key: Key[Array, ""], n: int) -> Int[Array, " n"]:
    """0..n-1 in random order: the ranks of random bits, of equal ones the first before the second.
    Counted, not sorted, as `jax.random.permutation` does: many short rows sort slowly."""
    bits, number = jax.random.bits(key, (n,), jnp.uint32), jnp.arange(n)
    tied = (bits == bits[:, None]) & (number < number[:, None])
    return ((bits < bits[:, None]) | tied).sum(1)


def look(state: State, task: Task, loop: Loop) -> View:
    """What the rule is given for the first pick of a block."""
    design = task.design.centred()
    posterior = laplace(state.parameters, state.comparisons, design, task.prior, task.variant)
    return View(
        design=design,
        posterior=posterior,
        covariance=posterior.covariance(),
        membership=_membership(posterior, state, task, loop),
        probability=jax.nn.sigmoid(model.logits(state.parameters, design)),
        shown=state.comparisons.shown,
        wins=state.comparisons.wins,
        available=_available(state.comparisons, task, loop),
        priority=state.priority,
        k=loop.k,
    )


def step(
    state: State, task: Task, loop: Loop, *, picks: int | None = None
) -> tuple[State, Queries]:
    """One block: R picks (or `picks`) by the posterior of the last fit, then a refit."""
    rule = rules.resolve(loop.rule)
    view = look(state, task, loop)
    pick = partial(_pick, view=view, rule=rule, state=state, task=task, loop=loop)
    carry = (state.comparisons, view.covariance, jnp.array(False))
    times = state.asked + jnp.arange(loop.refit_every if picks is None else picks)
    (comparisons, _, undefined), query = jax.lax.scan(pick, carry, times)
    queries = Queries(*query)
    parameters, status = refit(comparisons, state.parameters, task)
    state = dataclasses.replace(
        state,
        asked=state.asked + (queries.first >= 0).sum(),
        comparisons=comparisons,
        parameters=parameters,
        status=jnp.where(undefined, Status.NOT_FINITE, status),
    )
    return state, queries


def recall(state: State, task: Task, loop: Loop) -> Float[Array, ""]:
    """Top-k recall of the current estimate."""
    mask = task.design.content_mask()
    return metrics.top_k_recall(state.parameters.theta, task.quality, loop.k, mask)


def _pick(
    carry: tuple[Comparisons, Float[Array, "P P"], Bool[Array, ""]],
    time: Int[Array, ""],
    *,
    view: View,
    rule: Rule,
    state: State,
    task: Task,
    loop: Loop,
):
    comparisons, covariance, undefined = carry
    view = dataclasses.replace(
        view,
        shown=comparisons.shown,
        wins=comparisons.wins,
        available=_available(comparisons, task, loop),
        covariance=covariance,
    )
    key = jax.random.fold_in(state.key, time)
    for_rule, for_judge, for_ties = jax.random.split(key, 3)
    score = rule.score(view, for_rule)
    rules.check_shape(rule, score, task.design.n_items)
    salt = jax.random.bits(for_ties, (), jnp.uint32)
    first, second, asked = choose(score, view.available, salt)
    if loop.protocol == "frozen":
        won = task.answers[first, second]
    else:
        won = judges.fresh_verdict(for_judge, task.answers, first, second)
    won = jnp.where(asked, won, 0).astype(task.answers.dtype)
    items = jnp.arange(task.design.n_items)
    pair = (items == first)[:, None] & (items == second) & asked
    if rule.fresh:
        covariance = _after_asking(view, first, second, asked)
    comparisons = Comparisons(comparisons.shown + pair, comparisons.wins + jnp.where(pair, won, 0))
    undefined |= (~jnp.isfinite(score) & view.available).any()
    query = (jnp.where(asked, first, -1), jnp.where(asked, second, -1), won)
    return (comparisons, covariance, undefined), query


def _available(comparisons: Comparisons, task: Task, loop: Loop) -> Bool[Array, "N N"]:
    may_be = pairs.every_pair(Pool(task.quality, task.design)) > 0
    may_be &= ~jnp.isnan(task.answers)
    return may_be & (comparisons.shown == 0) if loop.protocol == "frozen" else may_be


def choose(
    score: Float[Array, "N N"], available: Bool[Array, "N N"], salt: UInt32[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""], Bool[Array, ""]]:
    """The available pair of highest score: first, second, and whether there is one.

    Scores within 1e-5 (float32) or 1e-9 (float64) of the best, relatively, are tied: rounding
    must not decide. `salt`, new at every pick, decides. A score that is not finite is never
    chosen.
    """
    relative = 1e-5 if score.dtype == jnp.float32 else 1e-9
    score = jnp.where(available & jnp.isfinite(score), score, -jnp.inf)
    best = score.max()
    near = (score >= best - relative * jnp.abs(best)) & (score > -jnp.inf)
    # Every pair gets a 32-bit code: its number in the low bits, random bits above them. Of the tied
    # pairs the one with the largest code is taken, and the low bits of that maximum say which it
    # is. (An argmax would say so too, but goes through the matrix entry by entry.) Pair number 0 is
    # item 0 against itself, which is never available: a maximum of 0 means that no pair is.
    n = score.shape[0]
    low = jnp.uint32((1 << (n * n - 1).bit_length()) - 1)
    number = jnp.arange(n * n, dtype=jnp.uint32).reshape(n, n)
    code: Array = (scramble(number ^ salt) & ~low) | number
    at = jnp.where(near, code, 0).max()
    pair = (at & low).astype(jnp.int32)
    return pair // n, pair % n, at > 0


def scramble(h: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A one-to-one mixing of 32 bits in which any bit of the input flips each bit of the output
    about half the time (the finaliser of MurmurHash3)."""
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def _after_asking(
    view: View, first: Int[Array, ""], second: Int[Array, ""], asked: Bool[Array, ""]
) -> Float[Array, "P P"]:
    """The view's covariance with one more verdict's Fisher information (Sherman-Morrison)."""
    d = view.design
    owner = jnp.arange(d.n_items) if d.content is None else d.content
    contents = jnp.arange(d.n_contents)
    e = (contents == owner[first]) * 1.0 - (contents == owner[second])
    z = jnp.concatenate([e, d.covariates[first] - d.covariates[second], jnp.ones(1)])
    w = view.informativeness()[first, second] * asked
    along = view.covariance @ z.astype(view.covariance.dtype)
    return view.covariance - w / (1 + w * (z * along).sum()) * along[:, None] * along


def refit(
    comparisons: Comparisons, start: Parameters, task: Task
) -> tuple[Parameters, Int[Array, ""]]:
    """The MAP of these comparisons, begun at `start`, and its `Status`."""
    start = Parameters(
        start.theta, jnp.where(task.variant.c, start.c, 0), start.kappa * task.variant.kappa
    )
    fit = fit_map(comparisons, task.design, task.prior, task.variant, start=start)
    return fit.parameters, fit.status


def _membership(posterior: Posterior, state: State, task: Task, loop: Loop) -> Float[Array, " M"]:
    sizes = (loop.n_samples or DRAWS[loop.membership], len(state.shuffle), task.design.dtype)
    key = jax.random.fold_in(jax.random.fold_in(state.key, NORMALS), state.asked)

    def arrange(rows: Float[Array, "P M"]) -> Float[Array, "P M"]:
        # z @ (rows, permuted and signed) = (z, permuted back and signed) @ rows, without touching
        # the table. Permuting and mirroring coordinates leaves Sobol points as evenly spread: every
        # coordinate, and the coordinates taken together, are spread as evenly as before.
        return rows[state.shuffle] * state.signs[:, None]

    mask = task.design.content_mask()
    if loop.membership == "counted":
        normals = antithetic_normals(*sizes)
        if loop.fresh_normals:
            normals = jax.random.normal(key, normals.shape, normals.dtype)
        return counted(posterior, loop.k, mask, normals, arrange)
    normals = sobol_normals(*sizes)
    if loop.fresh_normals:
        normals = shifted(key, normals)
    return membership(posterior, loop.k, mask, normals, arrange)
