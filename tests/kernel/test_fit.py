import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from support import problems

from jbt import estimators, runtime
from jbt.kernel import model
from jbt.kernel.fit import fit_map, fit_mle
from jbt.simulation import judges, pairs, pools, theory
from jbt.types import Comparisons, Design, Judge, Parameters, Prior, Status, Variant

SEEDS = range(120)
MORE_SEEDS = range(120, 240)

# Compiled once for all problems of one shape.
fit_once = jax.jit(fit_map, static_argnames=("solver", "max_steps"))
fit_each = jax.jit(jax.vmap(fit_map))
mle_once = jax.jit(fit_mle)


def fit_batch(shared: bool, dtype: str, seeds: range):
    qs = [problems.random_problem(s, shared=shared) for s in seeds]
    with runtime.precision(dtype):
        comparisons, design, prior, variant = problems.as_batch(qs, shared=shared, dtype=dtype)
        fit = fit_each(comparisons, design, prior, variant)
        return qs, jax.device_get(fit)


@functools.cache
def optimum(seed: int, shared: bool):
    """By SciPy."""
    return problems.reference(problems.random_problem(seed, shared=shared))


def flat(q, fit, i):
    p = fit.parameters
    return np.r_[p.theta[i, : q.m], p.c[i, : q.d], p.kappa[i]]


EACH = [
    pytest.param(
        (shared, seeds), id=f"{'shared' if shared else 'unpaired'}-{seeds.start}", marks=marks
    )
    for seeds, marks in ((SEEDS, ()), (MORE_SEEDS, pytest.mark.heavy))
    for shared in (False, True)
]


@pytest.fixture(scope="module", params=EACH)
def float64_fits(request):
    return (*request.param, *fit_batch(request.param[0], "float64", request.param[1]))


def test_map_equals_scipy(float64_fits):
    shared, seeds, qs, fit = float64_fits
    assert (fit.status == Status.CONVERGED).all()
    assert {q.kind for q in qs} == set(problems.KINDS)
    for i, q in enumerate(qs):
        expected, _, _ = optimum(seeds[i], shared)
        np.testing.assert_allclose(flat(q, fit, i), expected, atol=1e-8, err_msg=f"{i} {q.kind}")
        # Padding and fixed parameters stay at zero.
        assert not fit.parameters.theta[i, q.m :].any()
        assert not fit.parameters.c[i, q.d :].any()


@pytest.mark.parametrize("float64_fits", EACH[::2], indirect=True)
def test_equation_3_holds_at_every_unpaired_map(float64_fits):
    _, _, qs, fit = float64_fits
    # Padded with the mean, which adds nothing to a sum of centred products.
    phi, x = np.zeros((len(qs), problems.N)), np.zeros((len(qs), problems.N, problems.D))
    for i, q in enumerate(qs):
        found = fit.parameters.theta[i, : q.n] + q.x[: q.n] @ fit.parameters.c[i]
        phi[i], x[i] = found.mean(), q.x[: q.n].mean(0)
        phi[i, : q.n], x[i, : q.n] = found, q.x[: q.n]
    lam, lam_b = np.array([(q.lam, q.lam_b) for q in qs]).T
    with runtime.precision("float64"):
        expected = jax.jit(jax.vmap(theory.map_bias))(phi, x, lam, lam_b)
    np.testing.assert_allclose(fit.parameters.c, expected, atol=1e-8)


@pytest.mark.parametrize("case", EACH)
def test_float32_is_close_to_float64(case):
    shared, seeds = case
    qs, single = fit_batch(shared, "float32", seeds)
    assert (single.status == Status.CONVERGED).all()
    assert single.parameters.theta.dtype == np.float32
    worst = 0.0
    for i, q in enumerate(qs):
        expected, hessian, _ = optimum(seeds[i], shared)
        error = np.abs(flat(q, single, i) - expected)
        if min(q.lam, q.lam_b) >= 0.1:
            worst = max(worst, error.max())
        else:
            sd = np.zeros_like(expected)
            sd[q.free()] = np.sqrt(np.diagonal(np.linalg.inv(hessian)))
            assert (error <= 1e-3 * sd).all(), (i, q.kind, (error / sd).max())
    assert worst < 1e-4


def test_grad_norm_and_objective_are_those_of_the_result(float64_fits):
    _, _, qs, fit = float64_fits
    assert fit.grad_norm.max() < 1e-6
    for i, q in enumerate(qs[:40]):
        z, (shown, wins) = q.design_matrix(), q.counts()
        b = flat(q, fit, i)
        logit = z @ b
        value = (shown * np.logaddexp(0, logit) - wins * logit).sum()
        value += (q.precision() * b * b).sum() / 2
        assert fit.objective[i] == pytest.approx(value, rel=1e-12)


def small_problem():
    q = problems.random_problem(6, shared=False)
    comparisons, design, _, variant = jax.tree.map(
        lambda v: v[0], problems.as_batch([q], shared=False, dtype="float64")
    )
    return comparisons, design, Prior(1.0, 0.1), variant


@pytest.mark.heavy
def test_lbfgs_agrees_with_newton(x64):
    args = small_problem()
    newton, lbfgs = fit_once(*args), fit_once(*args, solver="lbfgs")
    assert lbfgs.status == Status.CONVERGED
    np.testing.assert_allclose(lbfgs.parameters.flat(), newton.parameters.flat(), atol=1e-7)
    with pytest.raises(ValueError, match="newton, lbfgs"):
        fit_once(*args, solver="sgd")


def test_warm_start_reaches_the_same_optimum_in_fewer_steps(x64):
    args = small_problem()
    cold = fit_once(*args)
    warm = fit_once(*args, start=cold.parameters)
    assert warm.steps < cold.steps
    np.testing.assert_allclose(warm.parameters.flat(), cold.parameters.flat(), atol=1e-10)


def test_wild_starts_are_brought_back_by_the_safeguard(x64):
    comparisons, design, prior, variant = small_problem()
    cold = fit_once(comparisons, design, prior, variant)
    for seed in range(5):
        theta = 40 * jax.random.normal(jax.random.key(seed), (problems.M,))
        start = Parameters(theta * design.item_mask, jnp.zeros(problems.D), jnp.array(0.0))
        # Far out each step is worth a few logits, hence more of them than usual.
        fit = fit_once(comparisons, design, prior, variant, start=start, max_steps=1000)
        assert fit.status == Status.CONVERGED
        np.testing.assert_allclose(fit.parameters.flat(), cold.parameters.flat(), atol=1e-9)


def test_step_limit_and_bad_numbers_are_statuses(x64):
    comparisons, design, prior, variant = small_problem()
    assert fit_once(comparisons, design, prior, variant, max_steps=1).status == Status.NOT_CONVERGED
    poisoned = Comparisons(comparisons.shown, comparisons.wins.at[0, 1].set(jnp.nan))
    assert fit_once(poisoned, design, prior, variant).status == Status.NOT_FINITE
    assert mle_once(poisoned, design, variant).status == Status.NOT_FINITE


def test_no_verdicts_give_the_prior_mean(x64):
    comparisons, design, prior, variant = small_problem()
    empty = Comparisons(0 * comparisons.shown, 0 * comparisons.wins)
    fit = fit_once(empty, design, prior, variant)
    assert fit.status == Status.CONVERGED
    assert not fit.parameters.flat().any()
    assert mle_once(empty, design, variant).status == Status.DOES_NOT_EXIST


def mle_is_unique(q: problems.Problem) -> bool:
    """By linear programming: no direction but the constant leaves every verdict as likely or
    likelier (Albert & Anderson 1984)."""
    z, free = q.design_matrix()[:, q.free()], q.free()
    if len(z) == 0 or np.linalg.matrix_rank(z) < free.sum() - 1:
        return False
    rows, fixed = problems.decided_and_undecided(q)
    if not len(rows):
        return True
    bounds = [(-1, 1)] * z.shape[1]
    equal = {"A_eq": fixed, "b_eq": np.zeros(len(fixed))} if len(fixed) else {}
    best = linprog(-rows.sum(0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=bounds, **equal)
    return -best.fun < 1e-7


@pytest.mark.parametrize("count", [120, pytest.param(300, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("shared", [False, True])
def test_mle_exists_where_linear_programming_says_so(x64, shared, count):
    qs = [problems.random_problem(s, shared=shared) for s in range(400, 400 + count)]
    if not shared:  # with a free quality an item, c is never identified
        for q in qs[::2]:
            q.d = 0
    comparisons, design, _, variant = problems.as_batch(qs, shared=shared, dtype="float64")
    fit = jax.device_get(jax.jit(jax.vmap(fit_mle))(comparisons, design, variant))
    expected = np.array([mle_is_unique(q) for q in qs])
    assert count / 15 < expected.sum() < count - count / 15
    np.testing.assert_array_equal(fit.status == Status.CONVERGED, expected)
    np.testing.assert_array_equal(fit.status == Status.DOES_NOT_EXIST, ~expected)
    for i in np.flatnonzero(expected)[: count // 5]:
        q = qs[i]
        b, _, _ = problems.reference(q, penalised=False)
        b[: q.m] -= b[: q.m].mean()
        np.testing.assert_allclose(flat(q, fit, i), b, atol=1e-6)
        assert abs(fit.parameters.theta[i, : q.m].mean()) < 1e-12


def test_mle_of_a_strongly_connected_win_graph_survives_lopsided_counts(x64):
    design = Design.build(np.zeros((3, 0)))
    big = 1e6
    shown = np.array([[0, big, 1], [0, 0, big], [1, 0, 0]])
    wins = np.array([[0, big - 1, 1], [0, 0, big - 1], [0, 0, 0]])
    naive = model.variant("naive", design)
    fit = mle_once(Comparisons.build(shown, wins), design, naive)
    assert fit.status == Status.CONVERGED
    assert fit.grad_norm < 1e-6
    wins[0, 1] = big  # item 0 now never loses
    assert mle_once(Comparisons.build(shown, wins), design, naive).status == Status.DOES_NOT_EXIST


def test_uncentred_covariates_cost_nothing(x64):
    """Adding a constant to a covariate is invisible, also to the arithmetic."""
    q = problems.random_problem(8, shared=True)
    assert q.d
    args = jax.tree.map(lambda v: v[0], problems.as_batch([q], shared=True, dtype="float64"))
    comparisons, design, prior, variant = args
    x = jnp.round(design.covariates * 1024) / 1024  # so that the sum below is exact
    near = Design(x, design.content, design.item_mask, problems.M)
    far = Design(x + 2.0**30, design.content, design.item_mask, problems.M)
    expected = fit_once(comparisons, near, prior, variant).parameters.flat()
    moved = fit_once(comparisons, far, prior, variant)
    assert moved.status == Status.CONVERGED
    np.testing.assert_allclose(moved.parameters.flat(), expected, atol=1e-7)


def test_the_default_scenario_in_float32():
    rng = np.random.default_rng(5)
    n, shown = 30, 1 - np.eye(30)
    x = 100 + rng.normal(size=(n, 1))
    phi = 1.2 * rng.normal(size=n) + x[:, 0]
    wins = (rng.random((n, n)) < 1 / (1 + np.exp(phi - phi[:, None]))) * shown
    found = {}
    for dtype in ("float32", "float64"):
        with runtime.precision(dtype):
            design = Design.build(jnp.asarray(x, dtype))
            comparisons = Comparisons.build(shown, wins, dtype)
            variant = model.variant("bias_aware", design)
            found[dtype] = fit_once(comparisons, design, Prior(0.1, 0.1), variant).parameters.flat()
    np.testing.assert_allclose(found["float32"], found["float64"], atol=1e-4)


@pytest.mark.parametrize("lam_b", [1e-3, 1e-6, 1e-9, 1e-12])
def test_float32_follows_a_kappa_that_hardly_any_verdict_holds(lam_b):
    """The first shown always wins: kappa ends where 1 - p is far below the resolution of 1."""
    shown, found = 1 - np.eye(6), {}
    for dtype in ("float32", "float64"):
        with runtime.precision(dtype):
            design = Design.build(jnp.zeros((6, 0), dtype))
            comparisons = Comparisons.build(shown, shown, dtype)
            variant = model.variant("bias_aware", design)
            fit = fit_once(comparisons, design, Prior(1.0, lam_b), variant)
            assert fit.status == Status.CONVERGED
            found[dtype] = float(fit.parameters.kappa)
    assert found["float64"] > 5 - np.log10(lam_b)
    assert found["float32"] == pytest.approx(found["float64"], rel=1e-3)


def test_a_large_offset_of_a_covariate_costs_nothing_in_float32():
    rng = np.random.default_rng(3)
    n, shown = 6, 1 - np.eye(6)
    x = 64.0 * rng.integers(-4, 5, (n, 1))  # so that the sum with the offset is exact
    wins = (rng.random((n, n)) < 0.5) * shown
    near, far = (
        fit_once(
            Comparisons.build(shown, wins, "float32"),
            design,
            Prior(1.0, 1e-6),
            model.variant("bias_aware", design),
        )
        for design in (Design.build(jnp.asarray(v, "float32")) for v in (x, x + 2.0**29))
    )
    assert far.status == Status.CONVERGED
    np.testing.assert_allclose(far.parameters.flat(), near.parameters.flat(), atol=2e-6)


def test_counts_and_priors_that_do_not_fit(x64):
    comparisons, design, prior, variant = small_problem()
    one = jnp.ones((1, 1))
    with pytest.raises(ValueError, match=r"\[8, 8\]"):
        fit_once(Comparisons(one, one), design, prior, variant)
    single = jax.tree.map(lambda v: v.astype(jnp.float32), comparisons)
    with pytest.raises(ValueError, match="one precision"):
        fit_once(single, design, prior, variant)
    traced = jax.jit(lambda lam: fit_once(comparisons, design, Prior(lam, 0.1), variant).status)
    assert traced(0.0) == Status.NOT_FINITE
    assert fit_once(comparisons, design, prior, variant, max_steps=0).status == Status.NOT_CONVERGED


def test_mle_refuses_float32():
    design = Design.build(np.zeros((3, 0), np.float32))
    zero = jnp.zeros((3, 3))
    with pytest.raises(ValueError, match="float64"):
        mle_once(Comparisons(zero, zero), design, Variant(jnp.zeros(0, bool), jnp.array(False)))


def test_invariances(x64):
    comparisons, design, prior, variant = small_problem()
    variant = Variant(variant.c, jnp.array(True))
    fit = fit_once(comparisons, design, prior, variant)
    p = fit.parameters

    order = np.random.default_rng(0).permutation(problems.N)
    relabelled = fit_once(
        Comparisons(comparisons.shown[order][:, order], comparisons.wins[order][:, order]),
        Design(design.covariates[order], None, design.item_mask[order], problems.M),
        prior,
        variant,
    ).parameters
    np.testing.assert_allclose(relabelled.theta, p.theta[order], atol=1e-10)
    np.testing.assert_allclose(relabelled.c, p.c, atol=1e-10)

    swapped = fit_once(
        Comparisons(comparisons.shown.T, (comparisons.shown - comparisons.wins).T),
        design,
        prior,
        variant,
    ).parameters
    np.testing.assert_allclose(swapped.theta, p.theta, atol=1e-10)
    np.testing.assert_allclose(swapped.kappa, -p.kappa, atol=1e-10)
    assert abs(p.kappa) > 0.1


def test_padding_changes_nothing(x64):
    q = problems.random_problem(12, shared=True)
    assert q.n < problems.N
    comparisons, design, prior, variant = jax.tree.map(
        lambda v: v[0], problems.as_batch([q], shared=True, dtype="float64")
    )
    padded = fit_once(comparisons, design, prior, variant)
    n = q.n
    bare = fit_once(
        Comparisons.build(q.shown[:n, :n], q.wins[:n, :n]),
        Design.build(q.x[:n], q.content[:n]),
        prior,
        variant,
    )
    np.testing.assert_allclose(padded.parameters.theta[: q.m], bare.parameters.theta, atol=1e-12)
    np.testing.assert_allclose(padded.parameters.c, bare.parameters.c, atol=1e-12)
    junk = Design(
        jnp.where(design.item_mask[:, None], design.covariates, 1e3),
        design.content,
        design.item_mask,
        problems.M,
    )
    again = fit_once(comparisons, junk, prior, variant)
    np.testing.assert_allclose(again.parameters.flat(), padded.parameters.flat(), atol=1e-9)


def test_content_none_is_content_arange(x64):
    comparisons, design, prior, variant = small_problem()
    explicit = Design(design.covariates, jnp.arange(problems.N), design.item_mask, problems.M)
    a = fit_once(comparisons, design, prior, variant)
    b = fit_once(comparisons, explicit, prior, variant)
    np.testing.assert_allclose(a.parameters.flat(), b.parameters.flat(), atol=1e-12)
    assert a.status == b.status == Status.CONVERGED


def test_each_content_may_have_a_prior_of_its_own(x64):
    """The score is the prior's pull, with each content's precision."""
    pool = pools.gaussian(jax.random.key(0), 6)
    verdicts = judges.frozen_draw(jax.random.key(1), pool, Judge(jnp.ones(1), 0.3))
    comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
    lam = jnp.array([0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
    fit = estimators.bias_aware(comparisons, pool.design, Prior(lam, 0.1))
    beta = fit.parameters
    design = pool.design.centred()
    pull = jnp.concatenate([lam * beta.theta, 0.1 * beta.c, 0.1 * beta.kappa[None]])
    np.testing.assert_allclose(model.score(beta, design, comparisons), pull, atol=1e-8)
    assert fit.status == Status.CONVERGED
