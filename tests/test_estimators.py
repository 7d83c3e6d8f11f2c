"""Quality with c known or measured, against the joint fit and the joint likelihood."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from jbt import estimators, identifiability, model
from jbt.fit import fit_mle
from jbt.types import Comparisons, Design, Prior, Status


@pytest.mark.heavy
def test_with_a_known_bias_the_rest_is_the_map_given_it(x64):
    comparisons, design, prior = problem(2)
    joint, _ = fits(comparisons, design, prior)
    given = with_bias(comparisons, design, prior, joint.parameters.c)
    np.testing.assert_allclose(given.parameters.theta, joint.parameters.theta, atol=1e-8)
    np.testing.assert_allclose(given.parameters.kappa, joint.parameters.kappa, atol=1e-8)
    with pytest.raises(ValueError, match="one for each of 2 covariates"):
        estimators.with_bias(comparisons, design, prior, -2.0)
    other = with_bias(comparisons, design, prior, jnp.array([-2.0, 1.0]))
    np.testing.assert_array_equal(other.parameters.c, [-2, 1])
    assert np.abs(other.parameters.theta - joint.parameters.theta).max() > 0.1
    assert other.status == Status.CONVERGED


with_bias = jax.jit(estimators.with_bias)
measured = jax.jit(estimators.measured)
each_estimate = jax.jit(
    lambda *problem: jax.vmap(
        lambda d: identifiability.estimate_bias(*problem, covariate=d),
    )(jnp.arange(2))
)
mle = jax.jit(lambda c, design: fit_mle(c, design, model.variant("bias_aware", design)))
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


@pytest.mark.heavy
@pytest.mark.parametrize("d", [1, 2])
def test_measured_takes_c_from_the_joint_likelihood(d, x64):
    comparisons, design, prior = problem(d)
    shrunk, found = fits(comparisons, design, prior)
    joint = mle(comparisons, design)
    given = with_bias(comparisons, design, prior, joint.parameters.c)
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
    estimates = each_estimate(*problem(2, x)[:2])
    assert estimates.status.tolist() == [Status.CONVERGED, Status.FLAT]
    assert float(found.parameters.c[0]) == pytest.approx(float(estimates.c[0]), abs=1e-12)
    assert abs(float(found.parameters.c[0] - aware.parameters.c[0])) > 1e-3
    x[8:] = x[:8]
    aware, found = fits(*problem(2, x))
    np.testing.assert_array_equal(found.parameters.c, aware.parameters.c)


def test_estimates_may_be_given_to_measured(x64):
    comparisons, design, prior = problem(2)
    estimates = each_estimate(comparisons, design)
    changed = jax.vmap(lambda each: dataclasses.replace(each, c=each.c + 1))(estimates)
    found = measured(comparisons, design, prior, changed)
    np.testing.assert_array_equal(found.parameters.c, estimates.c + 1)
    one = jax.tree.map(lambda leaf: leaf[:1], estimates)
    with pytest.raises(ValueError, match="one estimate for each of 2 covariates"):
        estimators.measured(comparisons, design, prior, one)
    with pytest.raises(ValueError, match="needs float64, got float32"):
        estimators.measured(*problem(1, dtype="float32"))
