"""Regions of judges: the misfit against a loop, its level on simulated studies, the search."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.stats import chi2

from jbt import twins
from jbt.simulation import pools
from jbt.simulation.judges import GATED, PUBLISHED
from jbt.simulation.simulate import stream
from jbt.twins import regions

LLAMA = PUBLISHED["llama"]
LIMIT = chi2.ppf(0.95, 5)


def test_misfits_are_those_of_a_loop():
    rng = default_rng(0)
    pools_of = rng.normal([1.8, 0.3, 0.5, 0.8, 0.6], 0.1, (3, 20, 5))
    found = regions.misfits(pools_of, LLAMA)
    for judge, t in zip(pools_of, found, strict=True):
        mean = judge.mean(0)
        variance = np.cov(judge.T) * (1 / 10 + 1 / 20) + np.eye(5) * 0.01**2 / 12
        inverse = np.linalg.inv(variance)
        values = []
        for correlation in np.linspace(0.22, 0.49, 2001):
            miss = mean - [1.78, 0.35, 0.50, 0.82, correlation]
            values.append(miss @ inverse @ miss)
        assert_allclose(t, min(values), rtol=1e-4)


def test_a_recall_of_one_says_that_all_pools_were_perfect():
    """By the chance of that where the other numbers agree, at the same limit."""
    target = dataclasses.replace(PUBLISHED["deepseek_chat"], bias_aware_recall=1.0)
    n = 400
    numbers = [target.c_hat, target.kappa_hat, target.naive_recall]
    rng = default_rng(0)
    pools_of = rng.normal([*numbers, 1.0, 0.35], [0.1, 0.1, 0.1, 0.0, 0.1], (1, n, 5))
    for share in (1.0, 0.5, 0.45):
        pools_of[0, :, 3] = np.where(np.arange(n) < share * n, 1.0, 0.8)
        (found,) = regions.misfits(pools_of, target)
        assert (found <= LIMIT) == (share**target.pools >= 0.025)
    pools_of[0, :, 3] = 1.0
    pools_of[0, :, 0] += 1.0
    assert regions.misfits(pools_of, target) > 3 * LIMIT


@pytest.mark.heavy
def test_statements_are_as_many_as_quality_says():
    pool = twins.paper_pool()(jax.random.key(0), {})
    held = np.asarray(pools.statements(jax.random.key(1), pool))
    assert held.shape == (30, 24)
    assert (held.sum(1) == 6).all()
    np.testing.assert_array_equal(held[:, :12].sum(1) - held[:, 12:].sum(1), pool.quality)
    assert held.any(0).all()


@pytest.mark.heavy
def test_errors_of_pairs_items_and_statements():
    key = jax.random.key(3)
    pool = twins.paper_pool()(stream(key, "pool"), {})

    def errors(**noise):
        condition = {"pair_noise": jnp.zeros(()), **{n: jnp.asarray(v) for n, v in noise.items()}}
        return np.asarray(twins.errors(key, pool, condition))

    assert (errors() == 0).all()
    of_items = errors(item_noise=2.0)
    # Errors of items are differences of one number an item; those of pairs are not.
    assert_allclose(of_items, of_items[:, :1] - of_items[:, :1].T, atol=1e-5)
    of_pairs = errors(pair_noise=2.0)
    assert np.abs(of_pairs - (of_pairs[:, :1] - of_pairs[:, :1].T)).max() > 1
    assert_allclose(of_pairs, -of_pairs.T)
    # Statements have errors, whose sums are those of items.
    e = np.asarray(jax.random.normal(stream(key, "statement noise"), (24,)))
    own = np.asarray(pools.statements(stream(key, "statements"), pool)) @ e
    assert_allclose(errors(statement_noise=1.0), own[:, None] - own, atol=1e-5)


def test_the_file_holds_judges_that_agree_with_what_is_printed():
    known = regions.read()
    assert set(known) == set(GATED)
    for name, members in known.items():
        assert [m.member for m in members] == list(range(len(members)))
        assert all(m.misfit <= LIMIT for m in members)
        assert members[0].misfit == min(m.misfit for m in members), name
        assert abs(members[0].c_hat - PUBLISHED[name].c_hat) < 0.1
        for parameter, (low, high) in regions.BOUNDS.items():
            values = [getattr(m, parameter) for m in members]
            assert low <= min(values) <= max(values) <= high
            assert len(set(values)) > 1
