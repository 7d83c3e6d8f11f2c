"""A whole run of the active loop, with its reports; and the checks before it.

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

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jbt import metrics, pairs, runtime
from jbt.acquisition import rules
from jbt.acquisition.loop import Loop, Queries, State, init, look, recall, refit, step
from jbt.acquisition.rules import Rule
from jbt.acquisition.task import Task
from jbt.membership import check_k
from jbt.types import Comparisons, Design, Parameters, Pool, container


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
        fitted = refit(_replay(queries, int(extra), task), Parameters.zeros(task.design), task)
        value = metrics.top_k_recall(
            fitted[0].theta, task.quality, loop.k, task.design.content_mask()
        )
        done = np.append(done, extra)
        recalls, statuses = jnp.append(recalls, value), jnp.append(statuses, fitted[1])
    order = np.argsort(done)
    return Trace(jnp.asarray(at), recalls[order], statuses[order], queries, state.parameters)


def _replay(queries: Queries, budget: int, task: Task) -> Comparisons:
    """The counts after the first `budget` queries."""
    items, dtype = jnp.arange(task.design.n_items), task.design.dtype
    # One row a query, zero where no pair was asked.
    first = (queries.first[:budget, None] == items).astype(dtype)
    second = (queries.second[:budget, None] == items).astype(dtype)
    return Comparisons(first.T @ second, (first * queries.won[:budget, None]).T @ second)


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
        shown = pairs.every_pair(pool)
        shown = shown * jax.random.bernoulli(keys[1], 0.2, shown.shape)
        task = Task.build(pool, shown)
        state = init(keys[2], task, loop)
        state = dataclasses.replace(state, comparisons=Comparisons(shown, shown / 2))
        view = jax.jit(look, static_argnames="loop")(state, task, loop)
        score = rule.score(view, keys[3])
    rules.check_shape(rule, score, n)
    if not bool((jnp.isfinite(score) | ~view.available).all()):
        name = getattr(rule.score, "__name__", "rule")
        raise ValueError(f"{name} returned a score that is not finite on a trial problem")
