"""Printed memberships and certainties: precise, of any order of the contents, summing to k."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from jbt import runtime
from jbt.kernel import canonical
from jbt.kernel.laplace import gaussian
from jbt.types import Parameters

M, PADDING, SHARED = 7, 2, 2


@pytest.fixture(autouse=True)
def _float64():
    with runtime.precision("float64"):
        yield


@partial(jax.jit, static_argnames="k")
def printed(theta, precision, mask, draws, k):
    parameters = Parameters(theta, jnp.zeros(SHARED - 1), jnp.zeros(()))
    free = jnp.concatenate([mask, jnp.ones(SHARED, bool)])
    posterior = gaussian(parameters, precision, free)
    return (
        canonical.membership(posterior, k, mask, draws),
        canonical.certainty(posterior, k, mask, draws),
        canonical.drawn(posterior, mask, draws),
    )


def posterior(seed, *, tied=False):
    """theta, precision and mask of `M` contents, padding, and shared parameters."""
    rng = default_rng(seed)
    n = M + PADDING + SHARED
    root = rng.normal(size=(n, n)) / 2
    theta = np.where(np.arange(M + PADDING) < M, rng.normal(size=M + PADDING), 0)
    if tied:
        theta = np.round(theta)
    return theta, root @ root.T + np.eye(n), np.arange(M + PADDING) < M


def shuffled(theta, precision, mask, order):
    places = np.r_[order, len(order) + np.arange(SHARED)]
    return theta[order], precision[np.ix_(places, places)], mask[order]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("k", [1, 3])
def test_the_order_of_contents_and_parameters_has_no_effect(k, tied):
    draws = canonical.normals(M + PADDING)
    for seed in range(5):
        given = posterior(seed, tied=tied)
        p, certainty, quality = map(np.asarray, printed(*given, draws, k))
        order = default_rng(seed).permutation(M + PADDING)
        p_shuffled, certainty_shuffled, drawn = map(
            np.asarray, printed(*shuffled(*given, order), draws, k)
        )
        assert_allclose(p_shuffled, p[order], rtol=0, atol=1e-12)
        assert_allclose(certainty_shuffled, certainty, rtol=0, atol=1e-12)
        assert_allclose(drawn, quality[:, order], rtol=0, atol=1e-10)
        # Shared parameters, such as two judges' biases, in the other order.
        theta, precision, mask = given
        places = np.r_[: M + PADDING, M + PADDING + np.arange(SHARED)[::-1]]
        again, *_ = printed(theta, precision[np.ix_(places, places)], mask, draws, k)
        assert_allclose(again, p, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_it_is_the_share_of_very_many_draws(k):
    """Against 400,000 plain draws, to five of their standard errors and two of its own."""
    draws, n = canonical.normals(M + PADDING), 400_000
    theta, precision, mask = posterior(0)
    p, certainty, quality = map(np.asarray, printed(theta, precision, mask, draws, k))
    assert p.sum() == pytest.approx(k, abs=1e-12)
    assert (p[M:] == 0).all()
    real = np.r_[mask, np.ones(SHARED, bool)]
    covariance = np.linalg.inv(precision[np.ix_(real, real)])[:M, :M]
    plain = default_rng(0).multivariate_normal(theta[:M], covariance, n)
    top = np.isin(np.argsort(np.argsort(-plain)), range(k))
    tolerance = 5 * np.sqrt(0.25 / n) + 0.002
    assert_allclose(p[:M], top.mean(0), rtol=0, atol=tolerance)
    share = top[:, np.argsort(-theta[:M])[:k]].all(1).mean()
    assert certainty == pytest.approx(share, abs=tolerance)
    assert_allclose(quality.mean(0)[:M], theta[:M], atol=0.01)
    assert_allclose(np.cov(quality.T)[:M, :M], covariance, atol=0.02)


def test_a_posterior_that_is_not_finite_has_none():
    theta, precision, mask = posterior(0)
    p, certainty, _ = printed(theta, precision * np.nan, mask, canonical.normals(M + PADDING), 3)
    assert np.isnan(p[:M]).all()
    assert np.isnan(certainty)
