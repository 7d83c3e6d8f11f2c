"""Run the active loop to the end of its budget, with reports on the way and checks before.

    task = Task.build(pool, judges.frozen_draw(verdicts_key, pool, judge))
    trace = run(key, task, Loop(rule="top_k_aware", k=5, refit_every=8), budget=120)
    trace.recall        # after 8, 16, ..., 120 verdicts

`run` is `init` and then one `step` after the other, each a block of R picks. Everything is
traceable: vmap `run` over keys for acquisition seeds; `jbt.simulation.simulate` maps over pools.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jbt import runtime
from jbt.acquisition.loop import Loop, State, init, look, recall, refit, step
from jbt.acquisition.panel_rules import PANEL_RULES, PanelRule, resolve
from jbt.acquisition.picks import Queries, bought, scores
from jbt.acquisition.rules import RULES, Rule, name_of
from jbt.acquisition.task import Task
from jbt.acquisition.views import View
from jbt.kernel import metrics
from jbt.kernel.membership import check_k
from jbt.simulation import pairs
from jbt.types import Comparisons, Design, Parameters, Pool, container


@container
class Trace:
    """A whole run."""

    budget: Int[Array, " T"]
    """Verdicts at each report, increasing: every multiple of R, and the budgets asked for."""
    recall: Float[Array, " T"]
    """Recall of the top k at each report."""
    status: Int[Array, " T"]
    """A `Status` at each report."""
    queries: Queries
    parameters: Parameters
    """The last fit."""
    cost: Float[Array, " T"]
    """Spending up to each report, in the unit of the prices; a single judge's verdicts cost 1."""


def reports(budget: int | Sequence[int], refit_every: int) -> np.ndarray:
    """The budgets a run reports on: every refit up to the largest budget, and each budget.

    Raises:
      ValueError: no budget, or one that is not a whole number.
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
      key: for the run's own randomness: tie-breaks, the rule's draws, fresh verdicts.
      task: see `Task.build`.
      loop: rule, protocol, sizes.
      budget: verdicts (count), or several counts: the largest is spent, and all are reported. One
        that is not a multiple of R gets a refit for its report alone. A purse may end the verdicts
        earlier; give a budget large enough to spend it.

    Returns:
      A `Trace`; look at its `status`. Once all pairs of a padded pool are asked, or no verdict can
      be paid any more, nothing is asked and the trace repeats its last values.

    Raises:
      ValueError: a budget below R or beyond the number of pairs (frozen), k out of range, a rule
        that returns a wrong shape, or a score that is not finite on a trial problem; with several
        judges, a score that is not a gain (`Rule.gain`).
    """
    budgets = reports(budget, loop.refit_every)
    check(task.design, loop, budgets, task.n_judges)
    state = init(key, task, loop)
    blocks, rest = divmod(int(budgets[-1]), loop.refit_every)

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
    reported = np.union1d(np.arange(1, blocks + 1) * loop.refit_every, budgets[-1:])
    for extra in np.setdiff1d(budgets, reported):
        counts = bought(queries, jnp.arange(len(queries.first)) < int(extra), task)
        fitted = refit(counts, Parameters.zeros(task.design, task.n_judges), task)
        value = metrics.top_k_recall(
            fitted[0].theta, task.quality, loop.k, task.design.content_mask()
        )
        reported = np.append(reported, extra)
        recalls, statuses = jnp.append(recalls, value), jnp.append(statuses, fitted[1])
    order = np.argsort(reported)
    return Trace(
        jnp.asarray(budgets),
        recalls[order],
        statuses[order],
        queries,
        state.parameters,
        _cost(queries, budgets, task),
    )


def _cost(queries: Queries, budgets: np.ndarray, task: Task) -> Float[Array, " T"]:
    """Cost of the first queries, as many as each budget says."""
    dtype = task.design.dtype
    so_far = (jnp.arange(len(queries.first)) < budgets[:, None]).astype(dtype)
    if queries.judge is None or task.panelists is None:
        return so_far @ (queries.first >= 0).astype(dtype)
    by_judge = queries.judge[:, None] == jnp.arange(task.n_judges)
    return task.panelists.spent(so_far @ by_judge.astype(dtype)).sum(-1)


def check(design: Design, loop: Loop, budgets: np.ndarray, n_judges: int | None = None) -> None:
    """Raise `ValueError` for a run that makes no sense; see `run`. `n_judges` is J, if several."""
    n = design.n_items
    check_k(loop.k, design.n_contents)
    least, asked, most = budgets.min(), budgets.max(), n * (n - 1) * (n_judges or 1)
    if least < loop.refit_every:
        raise ValueError(f"budget must be at least refit_every = {loop.refit_every}, got {least}")
    if loop.protocol == "frozen" and asked > most:
        by_judge = "" if n_judges is None else f" of each of {n_judges} judges"
        raise ValueError(
            f"{n} items have {n * (n - 1)} ordered pairs, each asked at most once{by_judge}: "
            f"a budget of {asked} needs a judge that may be asked again (stochastic)"
        )
    rule = resolve(loop.rule)
    known = isinstance(rule, Rule) and rule.family != "yours" and rule in RULES.values()
    if known or (n_judges is not None and rule in PANEL_RULES.values()):
        return
    if rule.tried:
        return
    # In another thread, because this one may be in the middle of tracing.
    m = None if design.content is None else design.n_contents
    with ThreadPoolExecutor(1) as thread:
        sizes = (n, m, design.n_covariates, n_judges, str(design.dtype))
        error = thread.submit(_try, rule, loop, *sizes).exception()
    # A rule that uses a value traced elsewhere cannot be tried outside its trace.
    if error is not None and "Tracer" not in f"{type(error).__name__} {error}":
        raise error


def _try(
    rule: Rule | PanelRule,
    loop: Loop,
    n: int,
    m: int | None,
    n_covariates: int,
    n_judges: int | None,
    dtype: str,
) -> None:
    """Score a trial problem of these sizes (m None: one content an item); see `run`."""
    with runtime.precision(dtype):
        keys = jax.random.split(jax.random.key(0), 4)
        x = jax.random.normal(keys[0], (n, n_covariates))
        content = None if m is None else jnp.arange(n) % m
        design = Design(x, content, jnp.ones(n, bool), m or n)
        pool = Pool(jnp.zeros(design.n_contents), design)
        shown = pairs.every_pair(pool)
        if n_judges is not None:
            shown = jnp.repeat(shown[:, :, None], n_judges, -1)
        shown = shown * jax.random.bernoulli(keys[1], 0.2, shown.shape)
        task = Task.build(pool, shown)
        state = init(keys[2], task, loop)
        state = dataclasses.replace(state, comparisons=Comparisons(shown, shown / 2))
        view = jax.jit(look, static_argnames="loop")(state, task, loop)
        score = np.asarray(scores(rule, view, keys[3]))
        asked = view.available if isinstance(view, View) else view.each(lambda v: v.available)
    score = score[np.asarray(asked)]
    if not np.isfinite(score).all():
        raise ValueError(
            f"{name_of(rule.score)} returned a score that is not finite on a trial problem"
        )
    needs_gain = n_judges is not None and isinstance(rule, Rule) and rule.gain
    # Rounding may put a gain of 0 slightly below 0.
    if needs_gain and (score < -1e-6 * np.abs(score).max()).any():
        raise ValueError(
            f"{name_of(rule.score)} returned a score below 0, which cannot be divided by a price: "
            "give Rule(..., gain=False) if it only ranks pairs"
        )
