"""One contract for every estimator of the registry, a user's own included."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt.estimators import ESTIMATORS
from jbt.types import Comparisons, Design, Prior, Status

N, PADDING = 6, 2
TOLERANCE = {"rtol": 0, "atol": 1e-7}


def problem(seed, padding=0):
    """Every ordered pair of six items judged once, and places without an item."""
    rng = np.random.default_rng(seed)
    n = N + padding
    shown, x = np.zeros((n, n)), np.zeros((n, 1))
    shown[:N, :N] = 1 - np.eye(N)
    wins = np.zeros((n, n))
    wins[:N, :N] = rng.binomial(1, 0.6, (N, N)) * shown[:N, :N]
    x[:N] = rng.normal(size=(N, 1))
    mask = jnp.arange(n) < N
    design = Design(jnp.asarray(x), None, mask, n)
    return Comparisons(jnp.asarray(shown), jnp.asarray(wins)), design, Prior(1.0, 0.1)


def moved(comparisons, design, order):
    """The same verdicts with the items in another order."""
    shown, wins = (v[order][:, order] for v in (comparisons.shown, comparisons.wins))
    return Comparisons(shown, wins), dataclasses.replace(
        design, covariates=design.covariates[order]
    )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_contract_of_an_estimator(name, x64):
    estimate = jax.jit(ESTIMATORS[name])
    comparisons, design, prior = problem(0)
    fit = estimate(comparisons, design, prior)
    theta, c, kappa = (getattr(fit.parameters, p) for p in ("theta", "c", "kappa"))
    assert theta.shape == (N,)
    assert c.shape == (1,)
    assert kappa.shape == ()
    assert fit.status == Status.CONVERGED
    assert np.isfinite([*theta, *c, kappa]).all()
    assert np.ptp(theta) > 0.1

    order = np.random.default_rng(1).permutation(N)  # the items' numbers mean nothing
    relabelled = estimate(*moved(comparisons, design, order), prior).parameters
    np.testing.assert_allclose(relabelled.theta, theta[order], **TOLERANCE)
    np.testing.assert_allclose(relabelled.c, c, **TOLERANCE)

    # Each verdict read with the second item as the first: quality stays, kappa turns its sign.
    turned = Comparisons(comparisons.shown.T, (comparisons.shown - comparisons.wins).T)
    swapped = estimate(turned, design, prior).parameters
    np.testing.assert_allclose(swapped.theta, theta, **TOLERANCE)
    np.testing.assert_allclose(swapped.kappa, -kappa, **TOLERANCE)

    # Each verdict turned: quality, c and kappa turn their signs.
    lost = Comparisons(comparisons.shown, comparisons.shown - comparisons.wins)
    opposite = estimate(lost, design, prior).parameters
    np.testing.assert_allclose(opposite.theta, -theta, **TOLERANCE)
    np.testing.assert_allclose(opposite.c, -c, **TOLERANCE)

    padded = estimate(*problem(0, PADDING)).parameters
    np.testing.assert_allclose(padded.theta[:N], theta, **TOLERANCE)
    np.testing.assert_allclose(padded.c, c, **TOLERANCE)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_batch_is_estimated_as_its_pools_are(name, x64):
    pools = [problem(seed) for seed in range(3)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pools)
    together = jax.jit(jax.vmap(ESTIMATORS[name]))(*batch)
    alone = jax.jit(ESTIMATORS[name])
    for i, pool in enumerate(pools):
        fit = alone(*pool)
        np.testing.assert_allclose(together.parameters.theta[i], fit.parameters.theta, **TOLERANCE)
        assert together.status[i] == fit.status
