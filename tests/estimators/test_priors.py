"""Learned priors against dense algebra, SciPy and one another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from support import problems

from jbt import estimators
from jbt.estimators import priors
from jbt.simulation import judges, pairs, pools
from jbt.types import Judge, Prior, Status

N, POOLS = 12, 6
LEARNERS = {"evidence": priors.evidence, "horseshoe": priors.horseshoe}


@pytest.fixture(scope="module")
def learned():
    """Verdicts on pools with two covariates, and every learned prior with its fit."""

    def one(key, bias):
        first, second = jax.random.split(key)
        pool = pools.gaussian(first, N, sd=1.2, rho=jnp.zeros(2))
        oracle = judges.frozen_draw(second, pool, Judge(bias, 1.0 * (jnp.abs(bias).sum() > 0)))
        comparisons = judges.reveal(oracle, pairs.every_pair(pool))
        found = [learn(comparisons, pool.design, Prior(1.0, 0.5)) for learn in LEARNERS.values()]

        @jax.vmap
        def fit(lam_b):
            return estimators.bias_aware(comparisons, pool.design, Prior(1.0, lam_b))

        fits = fit(jnp.stack([each.prior.lam_b for each in found]))
        return comparisons, pool.design.covariates, found, fits

    with jax.enable_x64(True):
        bias = jnp.array([[3.0, 1.0]] * (POOLS - 1) + [[0.0, 0.0]])
        keys = jax.random.split(jax.random.key(1), POOLS)
        comparisons, x, found, fits = jax.device_get(jax.jit(jax.vmap(one))(keys, bias))
    each = [jax.tree.map(lambda v, i=i: v[:, i], fits) for i in range(len(LEARNERS))]
    return comparisons, x, dict(zip(LEARNERS, zip(found, each, strict=True), strict=True))


fixed_point = jax.jit(priors.fixed_point)


def rows(comparisons, x) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Design matrix, counts and wins of one pool whose pairs were shown once or not at all."""
    x = np.asarray(x)
    first, second = np.nonzero(np.asarray(comparisons.shown))
    eye = np.eye(N)
    z = np.concatenate(
        [eye[first] - eye[second], x[first] - x[second], np.ones((len(first), 1))], axis=1
    )
    return z, np.ones(len(z)), np.asarray(comparisons.wins)[first, second]


def pool(learned, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    comparisons, x, _ = learned
    return rows(jax.tree.map(lambda v: v[i], comparisons), x[i])


def dense_fit(z, shown, wins, precision: np.ndarray):
    """The mode, the Hessian there, and the objective."""
    free = np.ones(len(precision), bool)
    return problems.minimum(z, shown, wins, precision, free, np.zeros(len(precision)))


def evidence(learned, i: int, log_tau2: float) -> float:
    """Laplace evidence by dense algebra, without the constants that tau^2 does not touch."""
    precision = np.r_[np.ones(N), np.full(3, np.exp(-log_tau2))]
    _, hessian, objective = dense_fit(*pool(learned, i), precision)
    return np.log(precision[N:]).sum() / 2 - objective - np.linalg.slogdet(hessian)[1] / 2


@pytest.mark.heavy
def test_evidence_is_the_optimum_of_the_dense_evidence(learned):
    found, fit = learned[2]["evidence"]
    assert (found.status == Status.CONVERGED).all()
    # No bias is learned where there is none.
    assert float(found.prior.lam_b[-1, 0]) > 3 * float(found.prior.lam_b[:-1, 0].max())
    assert np.abs(np.asarray(fit.parameters.c[-1])).max() < 1
    for i in range(POOLS - 1):
        best = minimize_scalar(lambda r, i=i: -evidence(learned, i, r), bounds=(-6, 6))
        assert -np.log(float(found.prior.lam_b[i, 0])) == pytest.approx(best.x, abs=5e-3)


@pytest.mark.heavy
def test_horseshoe_is_stationary_and_shrinks_the_small_more(learned):
    found, fit = learned[2]["horseshoe"]
    assert (found.status == Status.CONVERGED).all()
    lam_b = 0.5
    for i in range(POOLS):
        precision = np.asarray(found.prior.lam_b[i])
        _, hessian, _ = dense_fit(*pool(learned, i), np.r_[np.ones(N), precision])
        variance = np.diag(np.linalg.inv(hessian))[N:-1]
        moments = np.asarray(fit.parameters.c[i]) ** 2 + variance
        inverse = precision[:2] / lam_b  # E[1 / s^2] of two inverse gammas, by their means
        auxiliary = 1 / (1 + inverse)
        assert_allclose(inverse, 1 / (auxiliary + lam_b * moments / 2), rtol=1e-3)
        assert precision[2] == pytest.approx(lam_b)  # kappa keeps its normal prior
        assert (np.argsort(precision[:2]) == np.argsort(-moments)).all()


@pytest.mark.heavy
def test_fixed_point_is_the_naive_loop_for_one_tau2_and_for_one_of_c_alone(x64):
    made = pools.gaussian(jax.random.key(2), N)
    oracle = judges.frozen_draw(jax.random.key(3), made, Judge(jnp.full(1, 0.5), 3.0))
    comparisons = judges.reveal(oracle, pairs.every_pair(made))
    verdicts = rows(comparisons, made.design.covariates)
    learned = []
    for position in (True, False):
        precision, change, rounds = np.r_[np.ones(N), 0.1, 0.1], np.inf, 0
        while change > 1e-4:
            b, hessian, _ = dense_fit(*verdicts, precision)
            moments = (b**2 + np.diag(np.linalg.inv(hessian)))[N:]
            new = 1 / (moments.mean() if position else moments[0])
            change, rounds = abs(np.log(new / precision[N])), rounds + 1
            precision[N : N + 1 + position] = new
        found = fixed_point(comparisons, made.design, Prior(), position=jnp.array(position))
        assert_allclose(found.prior.lam_b, precision[N:], rtol=1e-6)
        assert (int(found.status), int(found.rounds)) == (Status.CONVERGED, rounds)
        learned.append(precision[N])
    assert learned[0] < 0.8 * learned[1]  # a strong kappa widens the tau^2 it shares
