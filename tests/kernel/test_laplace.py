"""The Laplace posterior against dense inverses and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import problems
from support.problems import D, M

from jbt import runtime
from jbt.kernel import fit, laplace
from jbt.types import Parameters


@pytest.mark.parametrize("shared", [False, True])
def test_covariance_is_the_inverse_of_the_dense_hessian(shared):
    each = [problems.random_problem(s, shared=shared, lam_range=(-1, 1)) for s in range(60)]
    with runtime.precision("float64"):

        def covariance(c, d, prior, v):
            mode = fit.fit_map(c, d, prior, v).parameters
            return laplace.laplace(mode, c, d, prior, v).covariance()

        batch = problems.as_batch(each, shared=shared, dtype="float64")
        covariances = jax.jit(jax.vmap(covariance))(*batch)
    for q, found in zip(each, np.asarray(covariances), strict=True):
        expected, at = np.zeros((M + D + 1,) * 2), problems.places(q)[q.free()]
        expected[np.ix_(at, at)] = np.linalg.inv(problems.reference(q)[1])
        assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


def test_exact_on_a_gaussian_model(x64):
    """Bayesian linear regression with known noise, solved on its observations; two parameters
    known."""
    rng = np.random.default_rng(0)
    free = np.array([True, True, False, True, False, True, True])
    z, y = rng.standard_normal((12, 7)) * free, rng.standard_normal(12)
    noise, prior = rng.uniform(0.5, 2, 12), rng.uniform(0.5, 2, 7)
    # The textbook form conditions the joint Gaussian of parameters and observations.
    of_prior = np.diag(free / prior)
    gain = of_prior @ z.T @ np.linalg.inv(z @ of_prior @ z.T + np.diag(noise))
    precision = (z.T / noise) @ z + np.diag(prior)
    mode = Parameters.unflat(jnp.asarray(gain @ y), 3)
    post = laplace.gaussian(mode, jnp.asarray(precision), jnp.asarray(free))
    assert_allclose(post.covariance(), of_prior - gain @ z @ of_prior, atol=1e-12)
    expected = np.where(free[:, None] & free, precision, np.eye(7))
    assert_allclose(post.factor @ post.factor.T, expected, atol=1e-12)
    np.testing.assert_array_equal(post.factor, np.tril(post.factor))


def test_an_improper_precision_is_nan_not_an_error(x64):
    mean = Parameters(jnp.zeros(2), jnp.zeros(1), jnp.zeros(()))
    post = laplace.gaussian(mean, jnp.diag(jnp.array([1.0, -1.0, 1.0, 1.0])), jnp.ones(4, bool))
    assert np.isnan(post.root).any()
