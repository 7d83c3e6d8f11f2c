"""The active loop: pick R pairs, ask the judge, refit; for one pool.

    task = Task.build(pool, judges.frozen_draw(verdicts_key, pool, judge))
    trace = run(key, task, Loop(rule="top_k_aware", k=5, refit_every=8), budget=120)
    trace.recall        # after 8, 16, ..., 120 verdicts

`run` is `init` and then `step`, one block of R picks after the other. Everything is traceable: vmap
`run` over keys for acquisition seeds, and leave pools to `jbt.simulate`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from jbt import judges, metrics, model, runtime
from jbt.acquisition import rules
from jbt.acquisition.rules import Rule, Score, View
from jbt.fit import fit_map
from jbt.laplace import laplace
from jbt.membership import check_k, membership, standard_normals
from jbt.types import (
    Comparisons,
    Design,
    Parameters,
    Pool,
    Posterior,
    Prior,
    Status,
    Variant,
    container,
)

PROTOCOLS = ("frozen", "stochastic")

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
    """frozen: each ordered pair is asked at most once. stochastic: any pair at any time."""
    n_samples: int = 1500
    """S, draws for the membership."""
    fresh_normals: bool = False
    """New standard normals at every refit, instead of the same throughout the run."""

    def __post_init__(self) -> None:
        rules.resolve(self.rule)
        for name in ("refit_every", "n_samples", "k"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.protocol not in PROTOCOLS:
            known = " or ".join(PROTOCOLS)
            raise ValueError(f"protocol must be {known}, got {self.protocol!r}")


@container
class Task:
    """What the loop works on: a pool whose judge can be asked, and the model inside."""

    quality: Float[Array, " M"]
    """True quality, for the recall alone."""
    design: Design
    answers: Float[Array, "N N"]
    """Probability that the first shown wins; 0 or 1 where a cached verdict answers, NaN where
    there is none and the pair cannot be asked."""
    prior: Prior
    variant: Variant
    """Free coefficients of the model inside, traced: naive and bias-aware are one kernel."""

    @classmethod
    def build(
        cls,
        pool: Pool,
        answers: Bool[Array, "N N"] | Float[Array, "N N"],
        *,
        model_name: str = "bias_aware",
        prior: Prior | None = None,
    ) -> Task:
        """A task from a pool and its judge: `judges.frozen_draw` or `frozen_argmax` for the frozen
        protocol, `judges.verdict_probability` for the stochastic one.

        In the frozen protocol answers strictly between 0 and 1 would be drawn when asked for, so
        that runs that share a judge would not share its verdicts: draw them first.

        Raises:
          ValueError: unknown model; answers of another shape, or outside 0..1 (NaN passes).
        """
        design = pool.design
        n = design.n_items
        if answers.shape != (n, n):
            raise ValueError(f"answers must be [{n}, {n}], got shape {answers.shape}")
        if not isinstance(answers, Tracer) and bool(((answers < 0) | (answers > 1)).any()):
            raise ValueError("answers must be probabilities, between 0 and 1")
        prior = Prior() if prior is None else prior
        answers = answers.astype(design.dtype)
        return cls(pool.quality, design, answers, prior, model.variant(model_name, design))


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
    """What was asked, in order. -1 and False where no pair was available."""

    first: Int[Array, " B"]
    second: Int[Array, " B"]
    won: Bool[Array, " B"]
    """Whether the first shown won."""


@container
class Trace:
    """A whole run."""

    budget: Int[Array, " T"]
    """Verdicts at each report, increasing: every multiple of R, and the budgets asked for."""
    recall: Float[Array, " T"]
    """Of the top k, at each report."""
    status: Int[Array, " T"]
    """A `Status` at each report."""
    queries: Queries
    parameters: Parameters
    """The last fit."""


def reports(budget: int | Sequence[int], refit_every: int) -> np.ndarray:
    """The budgets a run reports on: every refit up to the largest budget, and each budget.

    Raises:
      ValueError: no budget, or one that is no whole number.
    """
    asked = np.atleast_1d(np.asarray(budget))
    if not asked.size or not np.issubdtype(asked.dtype, np.integer):
        raise ValueError(f"budget must be one or more whole numbers, got {budget}")
    every = np.arange(refit_every, asked.max() + 1, refit_every, dtype=np.int64)
    return np.union1d(every, asked)


def run(
    key: Key[Array, ""],
    task: Task,
    loop: Loop,
    budget: int | Sequence[int],
) -> Trace:
    """Spend a budget of comparisons and report on the way.

    Args:
      key: of the run's own randomness: tie-breaks, the rule's draws, fresh verdicts.
      task: see `Task.build`.
      loop: rule, protocol, sizes.
      budget: verdicts (count), or several: the largest is spent, and all are reported. One
        that is no multiple of R gets a refit for the report alone.

    Returns:
      A `Trace`; look at its `status`. Once all pairs of a padded pool are asked, nothing more is.

    Raises:
      ValueError: a budget below R or beyond the pairs there are (frozen), k out of range, a
        rule that returns another shape or a score that is not finite on a trial problem.
    """
    at = reports(budget, loop.refit_every)
    check(task.design, loop, at)
    state = init(key, task, loop)
    blocks, rest = divmod(int(at[-1]), loop.refit_every)

    def block(state: State, _: None):
        state, queries = step(state, task, loop)
        return state, (queries, recall(state, task, loop), state.status)

    state, (queries, recalls, statuses) = jax.lax.scan(block, state, length=blocks)
    queries = jax.tree.map(lambda v: v.reshape(-1), queries)
    if rest:
        state, last = step(state, task, loop, picks=rest)
        queries = jax.tree.map(lambda *v: jnp.concatenate(v), queries, last)
        recalls = jnp.append(recalls, recall(state, task, loop))
        statuses = jnp.append(statuses, state.status)
    done = np.union1d(np.arange(1, blocks + 1) * loop.refit_every, at[-1:])
    for extra in np.setdiff1d(at, done):
        fitted = _refit(_replay(queries, int(extra), task), Parameters.zeros(task.design), task)
        where = int(np.searchsorted(done, extra))
        done = np.insert(done, where, extra)
        value = metrics.top_k_recall(
            fitted[0].theta, task.quality, loop.k, task.design.content_mask()
        )
        recalls = jnp.insert(recalls, where, value)
        statuses = jnp.insert(statuses, where, fitted[1])
    return Trace(jnp.asarray(at), recalls, statuses, queries, state.parameters)


def init(key: Key[Array, ""], task: Task, loop: Loop) -> State:
    """The state before the first verdict: nothing asked, the prior's mean. See `run`."""
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
        shuffle=jax.random.permutation(shuffle, p),
        signs=jax.random.rademacher(signs, (p,), design.dtype),
        priority=jax.random.permutation(priority, 1.0 * jnp.arange(m)).astype(design.dtype),
    )


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
    parameters, status = _refit(comparisons, state.parameters, task)
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
    _check_shape(rule, score, task.design.n_items)
    salt = jax.random.bits(for_ties, (), jnp.uint32)
    first, second, asked = choose(score, view.available, salt)
    won = judges.fresh_verdict(for_judge, task.answers, first, second) & asked
    items = jnp.arange(task.design.n_items)
    pair = (items == first)[:, None] & (items == second) & asked
    if rule.fresh:
        covariance = _after_asking(view, first, second, asked)
    comparisons = Comparisons(comparisons.shown + pair, comparisons.wins + (pair & won))
    undefined |= (~jnp.isfinite(score) & view.available).any()
    query = (jnp.where(asked, first, -1), jnp.where(asked, second, -1), won)
    return (comparisons, covariance, undefined), query


def _available(comparisons: Comparisons, task: Task, loop: Loop) -> Bool[Array, "N N"]:
    pairs = judges.every_pair(Pool(task.quality, task.design)) > 0
    pairs &= ~jnp.isnan(task.answers)
    return pairs & (comparisons.shown == 0) if loop.protocol == "frozen" else pairs


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
    # The pair's number in the low bits, so that one maximum finds it: argmax runs through a matrix
    # entry by entry. Pair 0 is on the diagonal, so 0 means none.
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


def _refit(
    comparisons: Comparisons, start: Parameters, task: Task
) -> tuple[Parameters, Int[Array, ""]]:
    start = Parameters(
        start.theta, jnp.where(task.variant.c, start.c, 0), start.kappa * task.variant.kappa
    )
    fit = fit_map(comparisons, task.design, task.prior, task.variant, start=start)
    return fit.parameters, fit.status


def _replay(queries: Queries, budget: int, task: Task) -> Comparisons:
    """The counts after the first `budget` queries."""
    first, second, won = (v[:budget] for v in (queries.first, queries.second, queries.won))
    asked = (first >= 0).astype(task.design.dtype)
    none = jnp.zeros((task.design.n_items,) * 2, task.design.dtype)
    return Comparisons(none.at[first, second].add(asked), none.at[first, second].add(asked * won))


def _membership(posterior: Posterior, state: State, task: Task, loop: Loop) -> Float[Array, " M"]:
    normals = standard_normals(loop.n_samples, len(state.shuffle), task.design.dtype)
    if loop.fresh_normals:
        key = jax.random.fold_in(jax.random.fold_in(state.key, NORMALS), state.asked)
        normals = jax.random.normal(key, normals.shape, normals.dtype)
    # z @ (rows of root, permuted and signed) = (z, permuted back and signed) @ root, without
    # touching the table.
    root = posterior.root[state.shuffle] * state.signs[:, None]
    shuffled = dataclasses.replace(posterior, root=root)
    return membership(shuffled, loop.k, task.design.content_mask(), normals)


def check(design: Design, loop: Loop, budgets: np.ndarray) -> None:
    """Raise `ValueError` for a run that makes no sense; see `run`."""
    n = design.n_items
    check_k(loop.k, design.n_contents)
    least, asked = budgets.min(), budgets.max()
    if least < loop.refit_every:
        raise ValueError(f"budget must be at least refit_every = {loop.refit_every}, got {least}")
    if loop.protocol == "frozen" and asked > n * (n - 1):
        raise ValueError(
            f"{n} items have {n * (n - 1)} ordered pairs, each asked at most once: "
            f"a budget of {asked} needs a judge that may be asked again (stochastic)"
        )
    rule = rules.resolve(loop.rule)
    if rule in rules.RULES.values():
        return
    # In a thread of its own, as this one may be in the middle of tracing.
    m = None if design.content is None else design.n_contents
    with ThreadPoolExecutor(1) as thread:
        sizes = (n, m, design.n_covariates, str(design.dtype))
        error = thread.submit(_try, rule, loop, *sizes).exception()
    # A rule that uses a value traced elsewhere cannot be tried outside that trace.
    if error is not None and "Tracer" not in f"{type(error).__name__} {error}":
        raise error


def _try(rule: Rule, loop: Loop, n: int, m: int | None, n_covariates: int, dtype: str) -> None:
    """Score a trial problem of these sizes (m None: one content an item); see `run`."""
    with runtime.precision(dtype):
        keys = jax.random.split(jax.random.key(0), 4)
        x = jax.random.normal(keys[0], (n, n_covariates))
        content = None if m is None else jnp.arange(n) % m
        design = Design(x, content, jnp.ones(n, bool), m or n)
        pool = Pool(jnp.zeros(design.n_contents), design)
        shown = judges.every_pair(pool)
        shown = shown * jax.random.bernoulli(keys[1], 0.2, shown.shape)
        task = Task.build(pool, shown)
        state = init(keys[2], task, loop)
        state = dataclasses.replace(state, comparisons=Comparisons(shown, shown / 2))
        view = jax.jit(look, static_argnames="loop")(state, task, loop)
        score = rule.score(view, keys[3])
    _check_shape(rule, score, n)
    if not bool((jnp.isfinite(score) | ~view.available).all()):
        name = getattr(rule.score, "__name__", "rule")
        raise ValueError(f"{name} returned a score that is not finite on a trial problem")


def _check_shape(rule: Rule, score: Array, n: int) -> None:
    if jnp.shape(score) != (n, n):
        name = getattr(rule.score, "__name__", "rule")
        raise ValueError(f"{name} must return scores [{n}, {n}], got shape {jnp.shape(score)}")
