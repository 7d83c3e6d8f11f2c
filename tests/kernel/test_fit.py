import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support import panels, problems
from support.problems import D, M

from jbt import runtime
from jbt.kernel import model
from jbt.kernel.fit import fit_map, fit_supremum
from jbt.kernel.laplace import laplace
from jbt.simulation import theory
from jbt.types import Comparisons, Design, Parameters, Prior, Status

SEEDS = range(60)

# Compiled once for all problems of one shape.
fit_once = jax.jit(fit_map, static_argnames=("solver", "max_steps"))
supremum_once = jax.jit(fit_supremum)


@jax.jit
@jax.vmap
def fit_each(*problem):
    """The fit, and the covariance around it."""
    fit = fit_map(*problem)
    return fit, laplace(fit.parameters, *problem).covariance()


def fit_batch(kind, shared: bool, dtype: str, seeds: range):
    qs = [kind.any_problem(s, shared) for s in seeds]
    with runtime.precision(dtype):
        fit, covariance = jax.device_get(fit_each(*kind.as_batch(qs, shared=shared, dtype=dtype)))
        return qs, fit, problems.flat(fit.parameters), covariance


@functools.cache
def optimum(kind, shared: bool, seed: int):
    return problems.reference(kind.any_problem(seed, shared))


@pytest.mark.parametrize(
    ("kind", "shared"),
    [(problems, False), (problems, True), (panels, True)],
)
def test_map_is_the_optimum_of_the_explicit_design_matrix(kind, shared, x64):
    qs, fit, betas, covariances = fit_batch(kind, shared, "float64", SEEDS)
    assert (fit.status == Status.CONVERGED).all()
    assert fit.grad_norm.max() < 1e-6
    assert {q.items.kind for q in qs} == set(problems.KINDS)
    for i, q in enumerate(qs):
        expected = np.zeros(betas.shape[1])  # padding and fixed parameters stay at zero
        at = kind.places(q)
        expected[at], hessian, objective = optimum(kind, shared, i)
        assert_allclose(betas[i], expected, atol=1e-8, err_msg=f"{i} {q.items.kind}")
        assert fit.objective[i] == pytest.approx(objective, rel=1e-12)
        around, at = np.zeros_like(covariances[i]), at[q.free()]
        around[np.ix_(at, at)] = np.linalg.inv(hessian)
        assert_allclose(covariances[i], around, atol=1e-7 * np.abs(around).max())
        if kind is problems and not shared:  # Eq. 3
            x, c = q.x[: q.n, : q.d], betas[i, M : M + q.d]
            phi = 1 + betas[i, : q.n] + x @ c  # any constant does
            assert_allclose(
                theory.map_bias(*map(jnp.asarray, (phi, x)), q.lam, q.lam_b), c, atol=1e-7
            )


@pytest.mark.parametrize("shared", [False, True])
def test_float32_is_close_to_float64(shared):
    qs, fit, betas, _ = fit_batch(problems, shared, "float32", SEEDS)
    assert (fit.status == Status.CONVERGED).all()
    assert betas.dtype == np.float32
    for i, q in enumerate(qs):
        expected, hessian, _ = optimum(problems, shared, i)
        most = np.full(len(expected), 1e-4)
        if min(q.lam, q.lam_b) < 0.1:
            most[q.free()] = 1e-3 * np.sqrt(np.diagonal(np.linalg.inv(hessian)))
            most[~q.free()] = 0
        assert (np.abs(betas[i, problems.places(q)] - expected) <= most).all(), (i, q.kind)


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_fit_holds_a_nan_without_a_flag(dtype):
    """100,000 pools of every kind, prior precisions from 1e-3 to 1e3."""
    failed = 0
    for first in range(0, 100_000, 10_000):
        seeds = range(10**6 + first, 10**6 + first + 10_000)
        _, fit, betas, _ = fit_batch(problems, first % 20_000 == 0, dtype, seeds)
        converged = fit.status == Status.CONVERGED
        assert np.isfinite(betas[converged]).all()
        assert np.isfinite(fit.grad_norm[converged]).all()
        failed += (~converged).sum()
    assert failed < 10


def small_problem():
    q = problems.random_problem(6, shared=False)
    comparisons, design, _, variant = problems.padded(q, shared=False)
    return comparisons, design, Prior(1.0, 0.1), variant


@pytest.mark.heavy
def test_lbfgs_agrees_with_newton(x64):
    args = small_problem()
    newton, lbfgs = fit_once(*args), fit_once(*args, solver="lbfgs")
    assert lbfgs.status == Status.CONVERGED
    assert_allclose(lbfgs.parameters.flat(), newton.parameters.flat(), atol=1e-7)


def test_every_start_ends_at_the_optimum(x64):
    args = small_problem()
    cold = fit_once(*args)
    warm = fit_once(*args, start=cold.parameters)
    assert warm.steps < cold.steps
    assert_allclose(warm.parameters.flat(), cold.parameters.flat(), atol=1e-10)
    for seed in range(5):  # from a wild one the fit restarts at zero
        theta = 40 * jax.random.normal(jax.random.key(seed), (M,))
        start = Parameters(theta * args[1].item_mask, jnp.zeros(D), jnp.array(0.0))
        fit = fit_once(*args, start=start)
        assert fit.status == Status.CONVERGED
        assert fit.steps <= cold.steps + 2
        assert_allclose(fit.parameters.flat(), cold.parameters.flat(), atol=1e-9)


def test_what_a_variant_fixes_stays_as_the_start_has_it(x64):
    """Also where the first step is a long one."""
    comparisons, design, prior, _ = small_problem()
    variant = model.variant("position", design)
    for c in (0.5, 3.0):
        start = dataclasses.replace(Parameters.zeros(design), c=jnp.full(D, c))
        fit = fit_once(comparisons, design, prior, variant, start=start)
        assert fit.status == Status.CONVERGED
        assert_array_equal(fit.parameters.c, start.c)
        gradient, _ = model.score_and_information(fit.parameters, design, comparisons)
        theta, kappa = fit.parameters.theta, fit.parameters.kappa
        assert_allclose(gradient[:M], prior.lam * theta, atol=1e-7)
        assert_allclose(gradient[-1], prior.lam_b * kappa, atol=1e-7)


def test_what_goes_wrong_is_a_status(x64):
    comparisons, design, prior, variant = small_problem()
    for steps in (0, 1):
        fit = fit_once(comparisons, design, prior, variant, max_steps=steps)
        assert fit.status == Status.NOT_CONVERGED
    poisoned = Comparisons(comparisons.shown, comparisons.wins.at[0, 1].set(jnp.nan))
    assert fit_once(poisoned, design, prior, variant).status == Status.NOT_FINITE
    assert supremum_once(poisoned, design, variant).status == Status.NOT_FINITE
    traced = jax.jit(lambda lam: fit_once(comparisons, design, Prior(lam, 0.1), variant).status)
    assert traced(0.0) == Status.NOT_FINITE
    for value in (jnp.nan, jnp.inf):
        start = Parameters(jnp.zeros(M), jnp.full(D, value), jnp.array(0.0))
        fit = fit_once(comparisons, design, prior, variant, start=start)
        assert fit.status == Status.NOT_FINITE
    empty = jax.tree.map(jnp.zeros_like, comparisons)
    fit = fit_once(empty, design, prior, variant)
    assert fit.status == Status.CONVERGED
    assert not fit.parameters.flat().any()


def mle_is_unique(q: problems.Problem) -> bool:
    """By linear programming: no direction but the constant leaves every verdict as likely or
    likelier (Albert & Anderson 1984)."""
    z, (shown, wins) = q.design_matrix()[:, q.free()], q.counts()
    if problems.svd_rank(z) < z.shape[1] - 1:
        return False
    likelier = (1.0 * (wins == shown) - (wins == 0)) @ z
    return problems.furthest(likelier, z, shown, wins) < 1e-7


@pytest.mark.parametrize("shared", [False, True])
def test_the_supremum_is_the_optimum_where_linear_programming_says_that_there_is_one(x64, shared):
    count = 60
    qs = [problems.random_problem(s, shared=shared) for s in range(400, 400 + count)]
    if not shared:  # with a free quality an item, c is never identified
        for q in qs[::2]:
            q.d = 0
    comparisons, design, _, variant = problems.as_batch(qs, shared=shared, dtype="float64")
    fit = jax.device_get(jax.jit(jax.vmap(fit_supremum))(comparisons, design, variant))
    assert (fit.status == Status.CONVERGED).all()
    unique = np.array([mle_is_unique(q) for q in qs])
    assert count / 15 < unique.sum() < count - count / 15
    betas = problems.flat(fit.parameters)
    for i in np.flatnonzero(unique)[: count // 5]:
        q = qs[i]
        b, *_ = problems.reference(q, penalised=False)
        b[: q.m] -= b[: q.m].mean()
        assert_allclose(betas[i, problems.places(q)], b, atol=1e-6)
        assert abs(betas[i, : q.m].mean()) < 1e-12


def test_a_large_offset_of_a_covariate_costs_nothing(x64):
    rng = np.random.default_rng(3)
    shown, x = 1 - np.eye(6), rng.integers(-256, 257, (6, 1)) / 64.0
    verdicts = Comparisons.build(shown, (rng.random((6, 6)) < 0.5) * shown)
    designs = [Design.build(v) for v in (x, x + 2.0**30)]
    variant = model.variant("bias_aware", designs[0])
    near, far = (fit_once(verdicts, design, Prior(1.0, 1e-6), variant) for design in designs)
    assert far.status == Status.CONVERGED
    assert_allclose(far.parameters.flat(), near.parameters.flat(), atol=2e-6)
