"""Whole runs of the active loop: a NumPy twin, a contract for all rules, reports, bad input."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support import twin
from support.active import (
    K,
    R,
    binary_task,
)

from jbt.acquisition import Loop, Task, run
from jbt.acquisition.runs import check
from jbt.types import Pool


@pytest.mark.heavy
def test_the_twin_picks_the_same_pairs(x64, same_key_again):
    """Every deterministic rule on frozen pools, naive and bias-aware inside, with either estimate
    of the membership; some of the pools with ties and graded verdicts."""
    n_pools = 12
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(1), i))(jnp.arange(n_pools))
    aware = jnp.arange(n_pools) % 4 > 0
    tasks = jax.vmap(lambda key, free: binary_task(key, free=free))(keys, aware)
    graded = np.random.default_rng(2).integers(0, 5, tasks.answers.shape) / 4
    graded[:, 2] = np.nan  # no answer, never asked
    answers = jnp.where((np.arange(n_pools) % 3 == 0)[:, None, None], graded, tasks.answers)
    tasks = jax.vmap(lambda t, a: dataclasses.replace(t, answers=a))(tasks, answers)
    for rule, membership in (
        *((name, "conditional") for name in DETERMINISTIC),
        *((f"{name}_fresh", "counted") for name in ("top_k_aware", "entropy_reduction")),
    ):
        twin.check(keys, tasks, Loop(rule, K, R, n_samples=200, membership=membership), 22)


DETERMINISTIC = (
    *("top_k_aware", "global_uncertainty", "no_variance", "no_informativeness"),
    *("entropy_only", "lucb", "round_robin", "entropy_reduction"),
)


@pytest.mark.heavy
@pytest.mark.parametrize("rule", ["thompson", "entropy_reduction_fresh"])
def test_contract_of_a_run(rule, same_key_again):
    """Never the diagonal nor padding, and with cached verdicts every pair once until all are
    asked; same key, same choice, whatever runs beside it."""
    n, real = 5, 4

    @jax.jit
    @jax.vmap
    def runs(key, items):
        task = binary_task(key, n)
        design = dataclasses.replace(task.design, item_mask=jnp.arange(n) < items)
        task = dataclasses.replace(task, design=design)
        return run(key, task, Loop(rule, 2, 3, n_samples=100), n * (n - 1))

    keys, items = jax.random.split(jax.random.key(5), 6), jnp.repeat(jnp.array([n, real]), 3)
    trace, again = runs(keys, items), runs(keys[::-1], items[::-1])
    for i in range(6):
        first, second, won = (np.asarray(v[i]) for v in jax.tree.leaves(trace.queries))
        every = sorted(itertools.permutations(range(items[i]), 2))
        assert sorted(zip(first, second, strict=True))[-len(every) :] == every
        assert (first[len(every) :] == -1).all()
        assert not won[len(every) :].any()
    assert_array_equal(trace.queries.first, again.queries.first[::-1])
    assert_array_equal(trace.queries.won, again.queries.won[::-1])
    assert (np.asarray(trace.status) == 0).all()


@pytest.mark.heavy
def test_a_score_that_is_not_finite_is_flagged_where_the_pair_is_available():
    def turns_nan(view, key):
        """NaN once more than 21 verdicts are in; -inf of every pair that is not available."""
        score = jnp.where(view.shown.sum() > 21, jnp.nan, view.probability)
        return jnp.where(view.available, score, -jnp.inf)

    task, loop = binary_task(jax.random.key(3)), Loop(turns_nan, K, R, n_samples=50)
    check(task.design, loop, np.array([52]))  # the trial problem has fewer verdicts
    trace = jax.jit(lambda: run(jax.random.key(1), task, loop, 52))()
    assert trace.status.tolist() == [0] * 5 + [2] * 8
    assert_array_equal(trace.queries.first == -1, np.arange(52) >= 22)


# --- bad input: before anything runs


def undefined(view, key):
    return jnp.log(view.shown)


def closest(view, key):
    theta = view.posterior.mean.theta
    return -jnp.abs(theta[:, None] - theta) - 1


def test_what_is_refused(same_key_again):
    task = binary_task(jax.random.key(0))
    pool, answers = Pool(task.quality, task.design), jnp.stack([task.answers] * 2, -1)
    two = Task.build(pool, answers)

    def start(task, rule, budget=16):
        jax.eval_shape(lambda: run(jax.random.key(1), task, Loop(rule, K), budget))

    for call, message in (
        (
            lambda: start(two, "top_k_aware", 113),
            r"56 ordered pairs.* once of each of 2 judges",
        ),
        (lambda: start(two, closest), r"closest returned a score below 0.*gain=False"),
        (lambda: start(task, undefined), "undefined returned a score that is not finite"),
        (lambda: Task.build(pool, 2 * task.answers), "between 0 and 1"),
        (lambda: Task.build(pool, answers, price=[1.0, -2.0]), "price must be above 0, got"),
        (
            lambda: Task.build(pool, answers, sharing=np.full((2, 2), np.nan)),
            "sharing must be finite",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
