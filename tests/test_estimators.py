"""Quality with c known or measured, against the joint fit and the joint likelihood."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from jbt import estimators, identifiability, judges, model, pairs, pools
from jbt.fit import fit_mle
from jbt.types import Comparisons, Design, Judge, Prior, Status


def test_with_a_known_bias_the_rest_is_the_map_given_it(x64):
    made = pools.paired(jax.random.key(0), 8, spread=1.0)
    oracle = judges.frozen_draw(jax.random.key(1), made, Judge(jnp.ones(1), 0.3))
    comparisons = judges.reveal(oracle, pairs.every_pair(made))
    prior = Prior()
    joint = estimators.bias_aware(comparisons, made.design, prior)
    given = estimators.with_bias(comparisons, made.design, prior, joint.parameters.c)
    np.testing.assert_allclose(given.parameters.theta, joint.parameters.theta, atol=1e-8)
    np.testing.assert_allclose(given.parameters.kappa, joint.parameters.kappa, atol=1e-8)
    with pytest.raises(ValueError, match="one for each of 1 covariates"):
        estimators.with_bias(comparisons, made.design, prior, jnp.zeros(2))
    other = estimators.with_bias(comparisons, made.design, prior, -2.0)
    assert float(other.parameters.c[0]) == -2.0
    assert np.abs(other.parameters.theta - joint.parameters.theta).max() > 0.1
    assert other.status == Status.CONVERGED


measured = jax.jit(estimators.measured)
fits = jax.jit(lambda *problem: (estimators.bias_aware(*problem), estimators.measured(*problem)))


def problem(d, x=None, dtype="float64"):
    """Two renderings of each of 8 contents, their covariates as told apart as can be; each ordered
    pair judged three times, afresh."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, d)) if x is None else x
    design = Design.build(x.astype(dtype), np.tile(np.arange(8), 2))
    p = expit(np.subtract.outer(total := np.tile(rng.normal(size=8), 2) + x.sum(1), total) + 0.3)
    shown = 3 * (1 - np.eye(16))
    return Comparisons.build(shown, rng.binomial(shown.astype(int), p), dtype), design, Prior(1, 5)


@pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_measured_takes_c_from_the_joint_likelihood(d, x64):
    comparisons, design, prior = problem(d)

    @jax.jit
    def expected():
        joint = fit_mle(comparisons, design, model.variant("bias_aware", design))
        return joint, estimators.with_bias(comparisons, design, prior, joint.parameters.c)

    shrunk, found = fits(comparisons, design, prior)
    joint, given = expected()
    assert joint.status == found.status == Status.CONVERGED
    np.testing.assert_allclose(found.parameters.flat(), given.parameters.flat(), atol=1e-8)
    assert (np.abs(found.parameters.c) > np.abs(shrunk.parameters.c)).all()


def test_what_cannot_be_measured_is_the_map_s(x64):
    """The renderings of a content differ in the first covariate alone: the second is any split with
    quality. Where they differ in nothing, nothing is measured."""
    x = np.random.default_rng(1).normal(size=(16, 2))
    x[8:, 1] = x[:8, 1]
    aware, found = fits(*problem(2, x))
    assert float(found.parameters.c[1]) == float(aware.parameters.c[1])
    estimate = identifiability.estimate_bias(*problem(2, x)[:2])
    assert estimate.status == Status.CONVERGED
    assert float(found.parameters.c[0]) == pytest.approx(float(estimate.c), abs=1e-12)
    assert abs(float(found.parameters.c[0] - aware.parameters.c[0])) > 1e-3
    aware, found = fits(*problem(1, x[:, 1:]))
    assert float(found.parameters.c[0]) == float(aware.parameters.c[0])


def test_estimates_may_be_given_to_measured(x64):
    comparisons, design, prior = problem(1)
    estimate = identifiability.estimate_bias(comparisons, design)
    changed = dataclasses.replace(estimate, c=estimate.c + 1)
    found = measured(comparisons, design, prior, jax.tree.map(lambda leaf: leaf[None], changed))
    assert float(found.parameters.c[0]) == float(estimate.c) + 1
    with pytest.raises(ValueError, match="one estimate for each of 1 covariates"):
        estimators.measured(comparisons, design, prior, estimate)
    with pytest.raises(ValueError, match="needs float64, got float32"):
        estimators.measured(*problem(1, dtype="float32"))
