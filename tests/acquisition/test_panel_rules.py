"""The active loop with several judges and prices: which judge is asked about which pair."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from support import twin

from jbt.acquisition import Loop, PanelRule, Task, run
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.simulation import judges, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Judge, Panel, Variant

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("x64", "same_key_again")]

N, K, R, J = 8, 3, 4, 2
POOLS, BUDGET = 6, 24
PRICE = (1.0, 3.0)
BUMP = 1 + 1e-3 * default_rng(0).random((N, N))


def unlike(view, key):
    """A rule whose scores are never tied."""
    return view.informativeness() * view.difference_variance() * BUMP


def unlike_for_price(panel, key):
    return panel.each(lambda view: unlike(view, key)) / panel.price


def two_judges(key):
    """A cheap judge with a bias, and one of twice its discrimination without a bias."""
    pool = pools.gaussian(stream(key, "pool"), N, sd=1.25, rho=jnp.asarray(0.3))
    both = Judge(jnp.full(1, 1.5), 0.35), Judge(jnp.zeros(1), 0.2, 2.0)
    each = [
        judges.frozen_draw(stream(key, f"verdicts {g}"), pool, judge)
        for g, judge in enumerate(both)
    ]
    free = jnp.array([True, False])
    terms = {"discrimination": jnp.array([1.0, 2.0]), "price": jnp.array(PRICE)}
    variant = Variant(free[None], jnp.ones(2, bool))
    return Task.build(pool, jnp.stack(each, -1), variant=variant, **terms)


def keys_of(seed):
    return jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(jnp.arange(POOLS))


tasks_of = jax.jit(jax.vmap(two_judges))


@functools.partial(jax.jit, static_argnames="rule")
def runs_by(rule, keys, tasks):
    """Runs with a report in the middle of a block."""
    loop = Loop(rule, K, R, n_samples=50)
    return jax.vmap(lambda key, task: run(key, task, loop, (10, BUDGET)))(keys, tasks)


def on(tasks, **terms):
    """The same tasks with other prices and the like, for all tasks or one each."""

    def each(name, value):
        old = getattr(tasks.panelists, name)
        return jnp.broadcast_to(jnp.asarray(value, old.dtype), old.shape)

    new = {name: each(name, value) for name, value in terms.items()}
    return changed(tasks, panelists=changed(tasks.panelists, **new))


def changed(batch, **new):
    """`dataclasses.replace` for containers with an axis in front."""
    return jax.vmap(lambda old, new: dataclasses.replace(old, **new))(batch, new)


def asked(trace):
    q = trace.queries
    return np.stack([q.first, q.second, q.judge], -1)


# --- the twin


def mixed_tasks():
    """Tasks of which some have common biases of both judges, a purse, graded or absent verdicts."""
    rng, number = default_rng(3), np.arange(POOLS)
    tasks = tasks_of(keys_of(2))
    graded = rng.integers(0, 5, tasks.answers.shape) / 4
    graded[:, 2, 3, 1] = np.nan
    answers = jnp.where((number % 2 == 0)[:, None, None, None], graded, tasks.answers)
    return on(
        changed(tasks, answers=answers),
        sharing=np.where((number % 3 == 1)[:, None, None], [[1, 0], [1, 0.5]], np.eye(2)),
        purse=np.where(number % 3 == 2, 22.3, np.inf),
        price=np.stack([np.ones(POOLS), np.exp(rng.normal(0.7, 0.5, POOLS))], 1),
    )


def test_the_twin_asks_the_same_of_the_same():
    """Rules of several judges, and those of one by gain, by gain with updates, and by rank."""
    keys, tasks, seen = keys_of(5), mixed_tasks(), np.zeros(J + 1)
    for rule in (
        *("escalation", "disputed", "top_k_aware"),
        *("top_k_aware_fresh", "entropy_reduction_fresh", "lucb", "round_robin"),
    ):
        queries = twin.check(keys, tasks, Loop(rule, K, R, n_samples=50), BUDGET)
        seen += np.bincount(queries.judge.ravel() + 1, minlength=J + 1)
    assert (seen[1:] > 20).all()


# --- prices and the purse


@pytest.mark.parametrize("rule", [PanelRule(unlike_for_price), "escalation"])
def test_a_judge_that_cannot_be_asked_changes_nothing(rule):
    """A judge that is too expensive, or has no answers."""
    keys, tasks = keys_of(4), tasks_of(keys_of(1))
    unanswered = changed(tasks, answers=tasks.answers.at[..., 1].set(jnp.nan))
    trace = runs_by(rule, keys, unanswered)
    assert not trace.queries.judge.any()
    assert_array_equal(trace.cost, trace.budget)
    dear, never = (runs_by(rule, keys, on(tasks, price=(1, price))) for price in (1e9, np.inf))
    assert not dear.queries.judge.any()
    for again in (never, dear) if rule == "escalation" else (never,):
        assert_array_equal(asked(again), asked(trace))
        assert_array_equal(again.parameters.theta, trace.parameters.theta)
    assert (runs_by(rule, keys, on(tasks, price=(np.inf, 3))).queries.judge == 1).all()


def test_reports_are_fits_of_the_verdicts_so_far():
    tasks = tasks_of(keys_of(7))
    trace = runs_by("escalation", keys_of(8), tasks)
    assert trace.budget[0].tolist() == [4, 8, 10, 12, 16, 20, 24]
    first, second, judge = np.moveaxis(asked(trace), -1, 0)
    at = np.arange(POOLS)[:, None], first, second, judge
    answers = np.asarray(tasks.answers)[at]
    assert_array_equal(trace.queries.won, answers)
    assert_allclose(trace.cost, np.cumsum(np.take(PRICE, judge), 1)[:, trace.budget[0] - 1])

    @jax.jit
    @jax.vmap
    def fitted(shown, wins, task):
        panel = Panel(Comparisons(shown, wins), jnp.array([1.0, 2.0]), jnp.eye(2))
        theta = fit_map(panel, task.design, task.prior, task.variant).parameters.theta
        return theta, metrics.top_k_recall(theta, task.quality, K)

    for t, budget in enumerate(trace.budget[0]):
        shown, wins = np.zeros((2, POOLS, N, N, J))
        here = tuple(of[:, :budget] for of in at[1:])
        np.add.at(shown, (at[0], *here), 1)
        wins[(at[0], *here)] = answers[:, :budget]
        assert shown.max() == 1  # each pair of each judge once
        theta, recall = fitted(shown, wins, tasks)
        assert_allclose(trace.recall[:, t], recall)
    assert_allclose(trace.parameters.theta, theta, atol=1e-9)
