"""Newton's method for any likelihood, against SciPy and against fits without a cluster."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit

from jbt import runtime
from jbt.estimators.any_likelihood import log_likelihood, maximise

PRECISION = np.array([1.0, 0.1, 2.0])


def term(beta, cluster):
    """A logistic regression with a product of two parameters, which is not concave."""
    x, share = cluster
    return log_likelihood(x @ beta[:2] + beta[1] * beta[2], share).sum()


fit = jax.jit(partial(maximise, term))


@pytest.fixture
def clusters():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 8, 2))
    z = x @ [0.7, -1.0] - 0.4 + rng.normal(size=(60, 1))
    return x, rng.binomial(1, expit(z)).astype(float)


@runtime.precision("float64")
def test_the_maximum_is_scipys(clusters):
    x, share = clusters

    def loss(beta):
        z = x @ beta[:2] + beta[1] * beta[2]
        return (PRECISION * beta**2).sum() / 2 - (share * z - np.logaddexp(0, z)).sum()

    expected = scipy.optimize.minimize(loss, np.zeros(3), tol=1e-12).x
    found = fit((jnp.asarray(x), jnp.asarray(share)), jnp.asarray(PRECISION))
    np.testing.assert_allclose(found.beta, expected, atol=2e-6)


@runtime.precision("float64")
def test_the_covariance_is_that_of_fits_without_each_cluster(clusters):
    x, share = map(jnp.asarray, clusters)
    weak = jnp.full(3, 1e-3)
    whole = fit((x, share), weak)
    kept = [np.delete(np.arange(60), i) for i in range(60)]
    moved = np.array([fit((x[k], share[k]), weak).beta for k in kept]) - whole.beta
    estimate, covariance = whole.unpulled()
    expected = 59 / 60 * moved.T @ moved
    unit = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # To first order, as a cluster is a sixtieth of the data; without CR3's leverages it is .05 off.
    np.testing.assert_allclose(covariance / unit, expected / unit, atol=0.04)
    without_prior = fit((x, share), jnp.full(3, 1e-9)).beta
    np.testing.assert_allclose(estimate, without_prior, atol=1e-5)
    pulled = fit((x, share), jnp.full(3, 0.3))
    error, pull = (np.abs(b - without_prior).max() for b in (pulled.unpulled()[0], pulled.beta))
    assert error < 0.1 * pull  # to first order
