"""Membership against integration, and its threshold against sorting."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from jbt import laplace, membership, runtime
from jbt.types import Parameters


def by_integration(mean, covariance, k):
    """P(in the top k): sum over the top sets, and over which of its members is the least and
    which of the others the largest, of an orthant probability."""
    n = len(mean)
    p = np.zeros(n)
    for top in itertools.combinations(range(n), k):
        rest = [j for j in range(n) if j not in top]
        for least in top:
            for best in rest:
                rows = [(a, least) for a in top if a != least] + [(least, best)]
                rows += [(best, b) for b in rest if b != best]
                a = np.zeros((len(rows), n))
                for r, (high, low) in enumerate(rows):
                    a[r, high], a[r, low] = 1, -1
                # a @ theta > 0
                chance = multivariate_normal(-a @ mean, a @ covariance @ a.T).cdf(np.zeros(len(a)))
                p[list(top)] += chance
    return p


@pytest.mark.parametrize("k", [1, 2, 4])
def test_equals_enumeration_by_integration(k):
    rng = np.random.default_rng(k)
    a = rng.standard_normal((7, 7))
    precision = a @ a.T / 7 + np.eye(7) * 0.3
    mean = rng.standard_normal(5) * 0.8
    expected = by_integration(mean, np.linalg.inv(precision)[:5, :5], k)
    assert expected.sum() == pytest.approx(k, abs=1e-4)
    with runtime.precision("float64"):
        parameters = Parameters(jnp.asarray(mean), jnp.zeros(1), jnp.zeros(()))
        post = laplace.gaussian(parameters, jnp.asarray(precision), jnp.ones(7, bool))
        draws = 40_000
        normals = membership.standard_normals(draws, 7, "float64")
        p = np.asarray(membership.membership(post, k, jnp.ones(5, bool), normals))
    # Antithetic pairs do no worse than independent draws where membership is monotone.
    error = np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(p - expected) < 4 * error + 1e-4).all()
    assert p.sum() == pytest.approx(k)


@pytest.mark.parametrize("n", [5, 30])
def test_the_threshold_is_the_sorted_one(n):
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        with runtime.precision(dtype):
            values = rng.standard_normal((n, 200)) * rng.choice([1e-3, 1, 100], 200)
            values[:, :20] += 1e4
            values = jnp.asarray(values, dtype)
            for k in {1, 2, n // 2, n - 1}:
                expected = np.sort(values, 0)[-k]
                np.testing.assert_array_equal(membership.kth_largest(values, k), expected)
                np.testing.assert_array_equal(membership._bisect(values, k), expected)


def test_bisection_serves_large_k():
    rng = np.random.default_rng(0)
    values = jnp.asarray(rng.standard_normal((120, 50)), jnp.float32)
    assert membership.INSERTION_LIMIT < 120 * 40
    np.testing.assert_array_equal(membership.kth_largest(values, 40), np.sort(values, 0)[-40])


def test_padding_is_in_no_top_set():
    parameters = Parameters(jnp.array([0.0, 1.0, 9.0, -1.0]), jnp.zeros(0), jnp.zeros(()))
    free = jnp.array([True, True, False, True, True])
    post = laplace.gaussian(parameters, jnp.eye(5), free)
    mask = jnp.array([True, True, False, True])
    normals = membership.standard_normals(2000, 5, "float32")
    for k in (1, 2):
        p = membership.membership(post, k, mask, normals)
        assert p[2] == 0
        assert float(p.sum()) == pytest.approx(k, abs=1e-5)


def test_a_posterior_that_is_not_finite_has_no_membership():
    parameters = Parameters(jnp.zeros(3), jnp.zeros(0), jnp.zeros(()))
    post = laplace.gaussian(parameters, -jnp.eye(4), jnp.ones(4, bool))
    normals = membership.standard_normals(10, 4, "float32")
    assert np.isnan(membership.membership(post, 1, jnp.ones(3, bool), normals)).all()


def test_fewer_than_k_real_values():
    values = jnp.array([[1.0, -jnp.inf], [2.0, 0.0], [-jnp.inf, -jnp.inf]])
    for find in (membership.kth_largest, membership._bisect):
        np.testing.assert_array_equal(find(values, 2), [1, -np.inf])


def test_counts_samples_in_whole_chunks():
    for wanted in (1, 2, 7, 1500, 5000):
        chunks, p, pairs = membership.standard_normals(wanted, 3, "float32").shape
        assert p == 3
        assert wanted <= 2 * chunks * pairs <= wanted + 2 * chunks


def test_wrong_input():
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        membership.standard_normals(0, 3, "float32")
    parameters = Parameters(jnp.zeros(3), jnp.zeros(0), jnp.zeros(()))
    post = laplace.gaussian(parameters, jnp.eye(4), jnp.ones(4, bool))
    normals = membership.standard_normals(10, 4, "float32")
    for k in (0, 3):
        with pytest.raises(ValueError, match=r"k must lie in 1\.\.2"):
            membership.membership(post, k, jnp.ones(3, bool), normals)


def test_large_populations_agree_with_a_sort():
    n, k = 40, 30
    rng = np.random.default_rng(1)
    parameters = Parameters(
        jnp.asarray(rng.standard_normal(n), jnp.float32), jnp.zeros(0), jnp.zeros(())
    )
    post = laplace.gaussian(parameters, jnp.eye(n + 1) * 4, jnp.ones(n + 1, bool))
    normals = membership.standard_normals(600, n + 1, "float32")
    p = jax.jit(lambda q: membership.membership(q, k, jnp.ones(n, bool), normals))(post)
    z = np.concatenate(list(np.asarray(normals)), 1)[:n] / 2
    mean = np.asarray(parameters.theta)[:, None]
    draws = np.concatenate([mean + z, mean - z], 1)
    expected = (np.argsort(np.argsort(-draws, 0), 0) < k).mean(1)
    np.testing.assert_allclose(p, expected, atol=1e-6)
