"""The Laplace posterior against dense inverses and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import problems

from jbt import runtime
from jbt.kernel import fit, laplace, model
from jbt.types import Comparisons, Design, Parameters, Prior


@pytest.mark.parametrize("shared", [False, True])
def test_covariance_is_the_inverse_of_the_dense_hessian(shared):
    each = [problems.random_problem(s, shared=shared, lam_range=(-1, 1)) for s in range(60)]
    with runtime.precision("float64"):

        def posterior(c, d, prior, v):
            mode = fit.fit_map(c, d, prior, v).parameters
            return mode, laplace.laplace(mode, c, d, prior, v).covariance()

        batch = problems.as_batch(each, shared=shared, dtype="float64")
        modes, covariances = jax.jit(jax.vmap(posterior))(*batch)
    for q, theta, c, kappa, found in zip(
        each, modes.theta, modes.c, modes.kappa, np.asarray(covariances), strict=True
    ):
        z, (shown, _), free = q.design_matrix(), q.counts(), q.free()
        beta = np.r_[theta[: q.m], c[: q.d], kappa]
        p = 1 / (1 + np.exp(-z @ beta))
        hessian = (z.T * (shown * p * (1 - p))) @ z + np.diag(q.precision())
        expected = np.zeros_like(hessian)
        expected[np.ix_(free, free)] = np.linalg.inv(hessian[np.ix_(free, free)])
        full = np.zeros((problems.M + problems.D + 1,) * 2)
        at = np.r_[np.arange(q.m), problems.M + np.arange(q.d), problems.M + problems.D]
        full[np.ix_(at, at)] = expected
        np.testing.assert_allclose(found, full, atol=1e-8 * np.abs(full).max())


def test_without_comparisons_it_is_the_prior(x64):
    design = Design.build(np.ones((4, 1)) * np.arange(4.0)[:, None])
    none = Comparisons.build(np.zeros((4, 4)), np.zeros((4, 4)))
    v = model.variant("bias_aware", design)
    post = laplace.laplace(Parameters.zeros(design), none, design, Prior(2.0, 0.5), v)
    expected = np.diag([0.5, 0.5, 0.5, 0.5, 2, 2])
    np.testing.assert_allclose(post.covariance(), expected, atol=1e-15)


def test_exact_on_a_gaussian_model(x64):
    """Bayesian linear regression with known noise, solved on its observations."""
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((12, 5)), rng.standard_normal(12)
    noise, prior = rng.uniform(0.5, 2, 12), rng.uniform(0.5, 2, 5)
    # The textbook form conditions the joint Gaussian of parameters and observations.
    gram = z @ np.diag(1 / prior) @ z.T + np.diag(noise)
    gain = np.diag(1 / prior) @ z.T @ np.linalg.inv(gram)
    mean, covariance = gain @ y, np.diag(1 / prior) - gain @ z @ np.diag(1 / prior)
    mode = Parameters.unflat(jnp.asarray(mean), 3)
    precision = jnp.asarray((z.T / noise) @ z + np.diag(prior))
    post = laplace.gaussian(mode, precision, jnp.ones(5, bool))
    np.testing.assert_allclose(post.covariance(), covariance, atol=1e-12)


def test_the_factor_is_that_of_the_precision(x64):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 9))
    precision, free = a @ a.T, np.array([True, True, False, True, False])
    mode = Parameters.unflat(jnp.zeros(5), 3)
    factor = laplace.gaussian(mode, jnp.asarray(precision), jnp.asarray(free)).factor
    expected = np.where(free[:, None] & free, precision, np.eye(5))
    np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-12)
    np.testing.assert_array_equal(factor, np.tril(factor))


def test_an_improper_precision_is_nan_not_an_error(x64):
    mean = Parameters(jnp.zeros(2), jnp.zeros(1), jnp.zeros(()))
    post = laplace.gaussian(mean, jnp.diag(jnp.array([1.0, -1.0, 1.0, 1.0])), jnp.ones(4, bool))
    assert np.isnan(post.root).any()
