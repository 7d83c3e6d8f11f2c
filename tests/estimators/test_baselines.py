"""Quality with c known or measured, against the joint fit and the joint likelihood; baselines."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from jbt import estimators, identifiability
from jbt.estimators.reference import beside, correlated
from jbt.kernel import model
from jbt.kernel.fit import fit_supremum
from jbt.types import Comparisons, Design, Prior, Status

with_bias = jax.jit(estimators.with_bias)
measured = jax.jit(estimators.measured)
each_estimate = jax.jit(
    lambda *problem: jax.vmap(
        lambda d: identifiability.estimate_bias(*problem, covariate=d),
    )(jnp.arange(2))
)
mle = jax.jit(lambda c, design: fit_supremum(c, design, model.variant("bias_aware", design)))
fits = jax.jit(lambda *problem: (estimators.bias_aware(*problem), estimators.measured(*problem)))


def problem(d, x=None):
    """Two renderings of each of 8 contents, with covariates far from collinear; each ordered
    pair judged three times, afresh."""
    rng = default_rng(0)
    x = rng.normal(size=(16, d)) if x is None else x
    design = Design.build(x, np.tile(np.arange(8), 2))
    p = expit(np.subtract.outer(total := np.tile(rng.normal(size=8), 2) + x.sum(1), total) + 0.3)
    shown = 3 * (1 - np.eye(16))
    return Comparisons.build(shown, rng.binomial(shown.astype(int), p)), design, Prior(1, 5)


@pytest.mark.heavy
def test_measured_takes_c_from_the_joint_likelihood(x64):
    comparisons, design, prior = problem(2)
    shrunk, found = fits(comparisons, design, prior)
    joint = mle(comparisons, design)
    given = with_bias(comparisons, design, prior, joint.parameters.c)
    assert joint.status == found.status == Status.CONVERGED
    assert_allclose(found.parameters.flat(), given.parameters.flat(), atol=1e-8)
    assert (np.abs(found.parameters.c) > np.abs(shrunk.parameters.c)).all()
    # With the shrunk c known the rest is the MAP given it; estimates may be given too.
    again = with_bias(comparisons, design, prior, shrunk.parameters.c)
    assert_allclose(again.parameters.flat(), shrunk.parameters.flat(), atol=1e-8)
    estimates = each_estimate(comparisons, design)
    changed = jax.vmap(lambda each: dataclasses.replace(each, c=each.c + 1))(estimates)
    found = measured(comparisons, design, prior, changed)
    assert_array_equal(found.parameters.c, estimates.c + 1)


@pytest.mark.heavy
def test_what_cannot_be_measured_is_the_map_s(x64):
    """The renderings of a content differ in the first covariate alone: the second is any split with
    quality. Where they differ in nothing, nothing is measured."""
    x = default_rng(1).normal(size=(16, 2))
    x[8:, 1] = x[:8, 1]
    aware, found = fits(*problem(2, x))
    assert float(found.parameters.c[1]) == float(aware.parameters.c[1])
    estimates = each_estimate(*problem(2, x)[:2])
    assert estimates.status.tolist() == [Status.CONVERGED, Status.FLAT]
    assert float(found.parameters.c[0]) == pytest.approx(float(estimates.c[0]), abs=1e-12)
    assert abs(float(found.parameters.c[0] - aware.parameters.c[0])) > 1e-3
    x[8:] = x[:8]
    aware, found = fits(*problem(2, x))
    assert_array_equal(found.parameters.c, aware.parameters.c)


def test_majorities_by_hand():
    #  0 beats 1 both ways; 0 and 2 split; of 1 and 2 three verdicts, two for 2
    shown = jnp.array([[0.0, 1, 1], [1, 0, 1], [1, 2, 0]])
    wins = jnp.array([[0.0, 1, 1], [0, 0, 1], [1, 2, 0]])
    half = estimators.majority(Comparisons(shown, wins))
    assert_array_equal(half.shown, [[0, 1, 1], [1, 0, 1.5], [1, 1.5, 0]])
    assert_array_equal(half.wins, [[0, 1, 0.5], [0, 0, 0], [0.5, 1.5, 0]])
    dropped = estimators.majority(Comparisons(shown, wins), drop_ties=True)
    assert_array_equal(dropped.shown, [[0, 1, 0], [1, 0, 1.5], [0, 1.5, 0]])
    assert_array_equal(dropped.wins, [[0, 1, 0], [0, 0, 0], [0, 1.5, 0]])


@pytest.mark.heavy
def test_residuals_are_those_of_least_squares(x64):
    comparisons, design, prior = problem(2)
    mask = jnp.arange(16) < 13
    shown = comparisons.shown * mask[:, None] * mask
    comparisons = Comparisons(shown, comparisons.wins * (shown > 0))
    x = np.asarray(design.covariates)
    unpaired = Design(design.covariates, None, mask, 16)
    naive = np.asarray(jax.jit(estimators.naive)(comparisons, unpaired, prior).parameters.theta)
    residualised = jax.jit(estimators.residualised)
    found = residualised(comparisons, unpaired, prior).parameters
    a = np.c_[x[:13] - x[:13].mean(0), np.ones(13)]
    slopes = np.linalg.lstsq(a, naive[:13])[0]
    assert_allclose(found.c, slopes[:2], rtol=1e-10)
    assert_allclose(found.theta[:13], naive[:13] - a[:, :2] @ slopes[:2], atol=1e-12)
    constant = Design(0 * design.covariates + 3, None, mask, 16)
    same = residualised(comparisons, constant, prior).parameters
    assert_array_equal(same.theta, naive)
    assert_array_equal(same.c, [0, 0])


@pytest.mark.heavy
def test_what_is_refused(x64):
    comparisons, design, prior = problem(2)
    panel = beside(comparisons, comparisons)
    for call, message in (
        (estimators.residualised, "every item to be its own content"),
        (lambda *p: correlated(panel, *p[1:]), "every item is its own content"),
    ):
        with pytest.raises(ValueError, match=message):
            call(comparisons, design, prior)
