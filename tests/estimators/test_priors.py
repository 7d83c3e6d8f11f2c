"""Learned priors against dense algebra, SciPy and one another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from support import problems
from support.problems import D

from jbt.estimators import priors
from jbt.types import Prior, Status

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("x64")]

# Compiled once for all problems.
evidence, horseshoe, fixed_point = map(
    jax.jit, (priors.evidence, priors.horseshoe, priors.fixed_point)
)
ALL = [problems.random_problem(seed, shared=False, lam_range=(-1, 1)) for seed in range(0, 90, 3)]
SOME = [q for q in ALL if q.d == D][:4]


def learned(learn, q, lam_b, **options):
    comparisons, design, *_ = problems.padded(q, shared=False)
    return learn(comparisons, design, Prior(q.lam, lam_b), **options)


def dense_fit(q, lam_b):
    """The mode, the Hessian there and the objective."""
    precision = np.r_[np.full(q.n, q.lam), lam_b]
    free, zero = precision > 0, 0 * precision
    return problems.minimum(q.design_matrix(), *q.counts(), precision, free, zero)


def moments(q, lam_b):
    """Second moments of the biases."""
    mode, hessian, _ = dense_fit(q, lam_b)
    return (mode**2 + np.diag(np.linalg.inv(hessian)))[q.n :]


@pytest.mark.parametrize("q", SOME)
def test_evidence_is_the_optimum_of_the_dense_evidence(q):
    def lost(log_tau2):
        """Without the constants that tau^2 does not touch."""
        lam_b = np.full(D + 1, np.exp(-log_tau2))
        _, hessian, objective = dense_fit(q, lam_b)
        return objective + np.linalg.slogdet(hessian)[1] / 2 - np.log(lam_b).sum() / 2

    found = learned(evidence, q, 0.5)
    assert found.status == Status.CONVERGED
    best = minimize_scalar(lost, bounds=np.log([priors.SMALLEST_TAU2, priors.LARGEST_TAU2]))
    assert -np.log(found.prior.lam_b[0]) == pytest.approx(best.x, abs=5e-3)


@pytest.mark.parametrize("q", SOME)
def test_horseshoe_is_stationary_and_shrinks_the_small_more(q):
    found = learned(horseshoe, q, 0.5)
    assert found.status == Status.CONVERGED
    precision = np.asarray(found.prior.lam_b)
    second = moments(q, precision)[:-1]
    inverse = precision[:-1] / 0.5  # E[1 / s^2] of two inverse gammas, by their means
    auxiliary = 1 / (1 + inverse)
    assert_allclose(inverse, 1 / (auxiliary + 0.5 * second / 2), rtol=1e-3)
    assert precision[-1] == pytest.approx(0.5)  # kappa keeps its normal prior
    assert (np.argsort(precision[:-1]) == np.argsort(-second)).all()


@pytest.mark.parametrize("q", SOME)
@pytest.mark.parametrize("position", [True, False])
def test_fixed_point_is_the_naive_loop_for_one_tau2_and_for_one_of_c_alone(q, position):
    precision, change, rounds = np.full(D + 1, 0.1), np.inf, 0
    learns = slice(D + position)
    while change > 1e-4 and rounds < priors.MAX_ROUNDS:
        tau2 = moments(q, precision)[learns].mean()
        new = 1 / np.clip(tau2, priors.SMALLEST_TAU2, priors.LARGEST_TAU2)
        change, rounds = abs(np.log(new / precision[0])), rounds + 1
        precision[learns] = new
    found = learned(fixed_point, q, 0.1, position=jnp.array(position))
    assert_allclose(found.prior.lam_b, precision, rtol=1e-6)
    assert found.rounds == rounds
    assert (found.status == Status.CONVERGED) == (change <= 1e-4)
