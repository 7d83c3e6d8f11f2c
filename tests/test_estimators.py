"""Quality with c known or measured, against the joint fit and the joint likelihood."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt import estimators, identifiability, judges, model, pairs, pools
from jbt.fit import fit_mle
from jbt.types import Design, Judge, Pool, Prior, Status

aware, measured = jax.jit(estimators.bias_aware), jax.jit(estimators.measured)
mle = jax.jit(fit_mle)
with_bias, estimate_bias = jax.jit(estimators.with_bias), jax.jit(identifiability.estimate_bias)


def test_with_a_known_bias_the_rest_is_the_map_given_it(x64):
    made = pools.paired(jax.random.key(0), 8, spread=1.0)
    comparisons = verdicts(made, jnp.ones(1))
    prior = Prior()
    joint = aware(comparisons, made.design, prior)
    given = with_bias(comparisons, made.design, prior, joint.parameters.c)
    np.testing.assert_allclose(given.parameters.theta, joint.parameters.theta, atol=1e-8)
    np.testing.assert_allclose(given.parameters.kappa, joint.parameters.kappa, atol=1e-8)
    with pytest.raises(ValueError, match="one for each of 1 covariates"):
        with_bias(comparisons, made.design, prior, jnp.zeros(2))
    other = with_bias(comparisons, made.design, prior, -2.0)
    assert float(other.parameters.c[0]) == -2.0
    assert np.abs(other.parameters.theta - joint.parameters.theta).max() > 0.1
    assert other.status == Status.CONVERGED


@jax.jit
def verdicts(pool, bias):
    """Each ordered pair judged three times, afresh."""
    judge = Judge(bias, 0.3)
    probability = judges.verdict_probability(pool, judge)
    shown = 3 * pairs.every_pair(pool)
    return judges.fresh_comparisons(jax.random.key(1), probability, shown)


def shared_design(bias):
    """Two renderings of each content, whose covariates differ in as many ways as there are."""
    rng = np.random.default_rng(0)
    design = Design.build(rng.normal(size=(16, len(bias))), np.tile(np.arange(8), 2))
    return Pool(jnp.asarray(rng.normal(size=8)), design)


@pytest.mark.parametrize("bias", [[1.5], [1.5, -0.7]])
def test_measured_takes_c_from_the_joint_likelihood(bias, x64):
    pool, prior = shared_design(bias), Prior(1.0, 5.0)
    comparisons = verdicts(pool, jnp.asarray(bias))
    every = model.variant("bias_aware", pool.design)
    joint = mle(comparisons, pool.design, every)
    assert joint.status == Status.CONVERGED
    found = measured(comparisons, pool.design, prior)
    given = with_bias(comparisons, pool.design, prior, joint.parameters.c)
    assert found.status == Status.CONVERGED
    np.testing.assert_allclose(found.parameters.flat(), given.parameters.flat(), atol=1e-8)
    shrunk = aware(comparisons, pool.design, prior)
    assert (np.abs(found.parameters.c) > np.abs(shrunk.parameters.c)).all()


def test_what_cannot_be_measured_is_the_map_s(x64):
    """The renderings of a content differ in the first covariate alone, so that the second is any
    split with quality; and of one pool in nothing."""
    pool = shared_design([1.0, 1.0])
    x = np.array(pool.design.covariates)
    x[8:, 1] = x[:8, 1]
    prior = Prior()
    for told, covariates in ((True, x), (False, x[:, 1:])):
        design = Design.build(covariates, np.asarray(pool.design.content))
        d = design.n_covariates
        comparisons = verdicts(Pool(pool.quality, design), jnp.ones(d))
        mode = aware(comparisons, design, prior).parameters
        found = measured(comparisons, design, prior).parameters
        assert float(found.c[-1]) == pytest.approx(float(mode.c[-1]), abs=1e-12)
        if told:
            estimate = estimate_bias(comparisons, design)
            assert estimate.status == Status.CONVERGED
            assert float(found.c[0]) == pytest.approx(float(estimate.c), abs=1e-12)
            assert abs(float(found.c[0] - mode.c[0])) > 1e-3


def test_estimates_may_be_given_to_measured(x64):
    pool, prior = shared_design([1.0, 1.0]), Prior()
    comparisons = verdicts(pool, jnp.ones(2))
    estimate = estimate_bias(comparisons, pool.design)
    changed = jax.tree.map(lambda *leaves: jnp.stack(leaves), estimate, estimate)
    changed = jax.vmap(lambda e: dataclasses.replace(e, c=e.c + 1))(changed)
    found = measured(comparisons, pool.design, prior, changed)
    np.testing.assert_array_equal(found.parameters.c, [float(estimate.c) + 1] * 2)
    with pytest.raises(ValueError, match="one estimate for each of 2 covariates"):
        estimators.measured(comparisons, pool.design, prior, estimate)
    single = jax.tree.map(lambda leaf: leaf.astype("float32"), comparisons)
    design = Design.build(np.zeros((16, 1), "float32"), np.tile(np.arange(8), 2))
    with pytest.raises(ValueError, match="needs float64, got float32"):
        estimators.measured(single, design, prior)
