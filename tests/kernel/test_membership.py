"""Both estimates of membership against integration, their thresholds against sorting."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from scipy.stats import multivariate_normal

from jbt import runtime
from jbt.kernel import laplace, membership
from jbt.types import Parameters

ESTIMATES = {
    "conditional": (membership.membership, membership.sobol_normals),
    "counted": (membership.counted, membership.antithetic_normals),
}


def by_integration(mean, covariance, k):
    """P(in the top k): sum over which of the others, fewer than k, are above, of an orthant
    probability."""
    n = len(mean)
    p = np.zeros(n)
    for i in range(n):
        ahead = np.delete(np.eye(n) - np.eye(n)[i], i, axis=0)
        for signs in itertools.product([1, -1], repeat=n - 1):
            if signs.count(1) < k:
                a = np.array(signs)[:, None] * ahead
                # P(a @ theta > 0). SciPy integrates by random points: a seed, and an error
                # that fifteen such sums keep below the tests' 1e-4.
                orthant = multivariate_normal(-a @ mean, a @ covariance @ a.T, seed=0, abseps=1e-6)
                p[i] += orthant.cdf(np.zeros(n - 1))
    return p


@functools.cache
def enumerated(k):
    """A posterior of five contents, and their memberships by integration."""
    rng = default_rng(k)
    a = rng.standard_normal((7, 7))
    precision = a @ a.T / 7 + np.eye(7) * 0.3
    mean = rng.standard_normal(5) * 0.8
    expected = by_integration(mean, np.linalg.inv(precision)[:5, :5], k)
    assert expected.sum() == pytest.approx(k, abs=1e-4)
    parameters = Parameters(jnp.asarray(mean), jnp.zeros(1), jnp.zeros(()))
    return laplace.gaussian(parameters, jnp.asarray(precision), jnp.ones(7, bool)), expected


@pytest.mark.parametrize("k", [1, 2, 4])
def test_equals_enumeration_by_integration(k):
    with runtime.precision("float64"):
        posterior, expected = enumerated(k)
        draws, mask = 2**15, jnp.ones(5, bool)
        for name, (estimate, table) in ESTIMATES.items():
            p = np.asarray(estimate(posterior, k, mask, table(draws, 7, "float64")))
            # Neither does worse than independent draws, where membership is monotone.
            error = np.sqrt(expected * (1 - expected) / draws)
            assert (np.abs(p - expected) < 4 * error + 1e-4).all(), name
            assert p.sum() == pytest.approx(k, abs=1e-9 if name == "counted" else 5e-3)


@pytest.mark.heavy
@pytest.mark.parametrize(("n", "k"), [(5, 1), (300, 290)])
def test_the_threshold_is_the_sorted_one(n, k):
    """Continuous values, ties at the threshold and everywhere, padding, close together; by
    insertion and by bisection, which serves large M k."""
    rng = default_rng(0)
    values = rng.standard_normal((n, 60)) * rng.choice([1e-3, 1, 100], 60)
    values[:, 10:20] = rng.integers(0, 4, (n, 10))
    values[:, 20:30] = 7
    values[rng.random((n, 60)) < 0.2] = -np.inf
    values[:, 30:40] = 1 + values[:, 30:40] * 1e-7
    values[k - 1 :, 40] = -np.inf  # fewer than k
    values[k:, 41] = -np.inf  # k and no more
    values[0, 42] = 1e30
    values = values.astype(np.float32)
    ordered = np.sort(values, 0)
    for kth in (membership.kth_largest, membership._bisect):
        assert_array_equal(jax.jit(kth, static_argnums=1)(values, k), ordered[-k])
    found = jax.jit(membership.boundary, static_argnums=1)(values, k)
    assert_array_equal(found, [ordered[-k], ordered[-k - 1]])


@pytest.mark.parametrize(("estimate", "table"), ESTIMATES.values(), ids=ESTIMATES)
def test_padding_is_in_no_top_set_and_what_is_not_finite_has_none(estimate, table):
    parameters = Parameters(jnp.array([0.0, 1.0, 9.0, -1.0]), jnp.zeros(0), jnp.zeros(()))
    free = jnp.array([True, True, False, True, True])
    mask, normals = jnp.array([True, True, False, True]), table(2000, 5, "float32")
    post = laplace.gaussian(parameters, jnp.eye(5), free)
    for k, tolerance in ((1, 5e-3), (3, 1e-5)):
        p = estimate(post, k, mask, normals)
        assert p[2] == 0
        assert float(p.sum()) == pytest.approx(k, abs=tolerance)
    improper = laplace.gaussian(parameters, -jnp.eye(5), jnp.ones(5, bool))
    assert np.isnan(estimate(improper, 1, jnp.ones(4, bool), normals)).all()


@pytest.mark.parametrize("k", [1, 2, 4])
def test_probability_of_a_set_equals_integration(k):
    """Every set of k, the best and the least likely; they sum to 1."""
    with runtime.precision("float64"):
        posterior, _ = enumerated(k)
        covariance, mean = np.asarray(posterior.covariance())[:5, :5], posterior.mean.theta
        normals, total = membership.sobol_normals(2**13, 7, "float64"), 0.0
        probability = jax.jit(membership.set_probability)
        # The orthant of many differences that share their contents is singular: count draws.
        draws = default_rng(0).multivariate_normal(mean, covariance, 200_000)
        for top in itertools.combinations(range(5), k):
            inside = np.isin(np.arange(5), top)
            lead = draws[:, inside].min(1) - draws[:, ~inside].max(1)
            for zone in (0.3, -0.3, 0.0):
                p = float(probability(posterior, inside, jnp.ones(5, bool), normals, zone=zone))
                assert p == pytest.approx((lead > -zone).mean(), abs=5 * (0.25 / 200_000) ** 0.5)
            total += p
            # A content that is not there is nobody's rival: as if it were far below.
            there = np.arange(5) != inside.argmin()
            assert probability(posterior, inside, there, normals, zone=0.0) >= p
        assert total == pytest.approx(1, abs=1e-3)
