"""Answers made of statements, and covariates drawn again until they are balanced."""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jbt.simulation import pools
from sweeps import crossing

POOLS = 2000
BOUND = 0.12


def drawn(of, **options):
    """Quality [P, N], covariate [P, N] and its correlation [P] of many pools."""

    def one(key):
        pool = of(key, 30, **options)
        return pool.quality, pool.design.covariates[:, 0], pools.realised_correlation(pool)[0]

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(7), POOLS))
    return [np.asarray(v, float) for v in found]


@cache
def bank():
    return drawn(pools.statement_bank)


def shares_are(counts, expected):
    """Within 4.5 standard errors of a multinomial's shares."""
    error = np.sqrt(expected * (1 - expected) / counts.sum())
    return (np.abs(counts / counts.sum() - expected) < 4.5 * error).all()


def test_exactly_k_are_fully_correct_and_the_others_as_said():
    quality, x, realised = bank()
    assert ((quality == 6).sum(1) == 5).all()
    others = quality[quality < 6]
    levels, counts = np.unique(others, return_counts=True)
    assert_array_equal(levels, [-6, -4, -2, 0, 2, 4])
    assert shares_are(counts, np.full(6, 1 / 6))
    # The place of an item says nothing about whether it is fully correct.
    assert shares_are((quality == 6).sum(0), np.full(30, 1 / 30))
    assert quality.std() == pytest.approx(4.07, abs=0.02)
    assert set(np.unique(x)) == {0, 1}
    assert (x.sum(1) == 15).all()
    # Of a shuffle of balanced zeros and ones: 1 / (N - 1), whatever the qualities are.
    assert realised.var() == pytest.approx(1 / 29, rel=4 * np.sqrt(2 / POOLS))


def test_statements_drawn_from_the_bank():
    quality, _, _ = drawn(pools.statement_bank, k=3, others="drawn")
    levels, counts = np.unique(quality[quality < 6], return_counts=True)
    ways = np.array([math.comb(12, f) * math.comb(12, 6 - f) for f in range(6, 0, -1)])
    assert_array_equal(levels, [-6, -4, -2, 0, 2, 4])
    assert shares_are(counts, ways / ways.sum())


def test_a_bank_scaled_to_a_spread(same_key_again):
    quality, x, _ = bank()
    scaled, same, _ = drawn(pools.statement_bank, sd=jnp.float32(1.2))
    assert_array_equal(same, x)
    factor = scaled[0, 0] / quality[0, 0]
    np.testing.assert_allclose(scaled, factor * quality, rtol=1e-5, atol=1e-6)
    assert scaled.std() == pytest.approx(1.2, rel=0.01)


def test_k_may_be_traced_and_padding_is_left_out(same_key_again):
    mask = jnp.arange(12) < 9
    draw = jax.jit(lambda k: pools.statement_bank(jax.random.key(3), 12, k, item_mask=mask))
    few, many = draw(2), draw(4)
    for pool, k in ((few, 2), (many, 4)):
        assert (pool.quality[:9] == 6).sum() == k
        assert pool.design.covariates[:9].sum() == 4
        assert not pool.quality[9:].any()
        assert not pool.design.covariates[9:].any()
    stay = np.asarray(many.quality) < 6
    assert_array_equal(few.quality[stay], many.quality[stay])


@pytest.mark.heavy
def test_a_correlated_bank_is_near_the_correlation_asked_for():
    """Near, not equal, as quality is not Gaussian: a median split correlates more. At the largest
    correlation the latent is the quality itself, whose ties do not unbalance the elaboration."""
    for rho, covariate, told in (
        (0.6, "continuous", 0.6),
        (0.798, "binary", 0.85),
    ):
        _, x, realised = drawn(pools.statement_bank, rho=jnp.float32(rho), covariate=covariate)
        assert realised.mean() == pytest.approx(told, abs=0.012), (rho, covariate)
        assert covariate == "continuous" or (x.sum(1) == 15).all()
    assert realised.min() > 0.7


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["gaussian", "statement_bank"])
def test_covariates_are_drawn_again_until_they_keep_to_the_bound(kind):
    of = partial(
        pools.POOLS[kind],
        k=5,
        sd=jnp.float32(1.2),
        rho=jnp.float32(0.0),
        covariate="continuous" if kind == "gaussian" else "binary",
    )
    quality, x, realised = drawn(of)
    balanced, again, bounded = drawn(of, max_correlation=BOUND)
    assert (np.abs(bounded) < BOUND).all()
    assert_array_equal(balanced, quality)
    kept = np.abs(realised) < BOUND
    assert_array_equal(again[kept], x[kept])
    assert (again[~kept] != x[~kept]).any(1).all()


def test_a_bound_out_of_reach_ends_and_is_told():
    """Four items, two of them elaborate: the correlation has three values, of which with these
    qualities none is small."""
    quality = jnp.array([3.0, 1.0, 0.0, 0.5])
    score = (quality - quality.mean()) / quality.std()
    bounded = partial(pools.with_covariates, covariate="binary", max_correlation=0.01)
    pool = jax.jit(bounded)(jax.random.key(0), quality, score)
    assert jnp.isnan(pool.design.covariates).all()
    assert_array_equal(pool.quality, quality)
    assert jnp.isnan(pools.realised_correlation(pool)).all()


def test_a_sweep_refuses_a_bound_out_of_reach_before_it_runs():
    s = crossing.Crossing(pool="statement_bank", covariate="binary", max_correlation=BOUND)
    with pytest.raises(
        ValueError, match=r"= 0\.12 is out of reach at rho = 0\.75: 16 of 16 .* 1000"
    ):
        s.check()
