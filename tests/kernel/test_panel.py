"""Several judges of the same items in one fit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit
from support import panels, problems
from support.panels import J

from jbt import estimators
from jbt.kernel import laplace, model
from jbt.kernel.fit import fit_map, fit_supremum
from jbt.types import Comparisons, Design, Panel, Parameters, Prior, Rows, Status, Variant

fit_each = jax.jit(jax.vmap(fit_map))
SEEDS = range(50)
MORE_SEEDS = range(50, 100)


def flat(q, parameters, i):
    """Problem i without padding."""
    m, d = q.items.m, q.items.d
    biases = np.concatenate([parameters.c[i, :d], parameters.kappa[i][None]])
    return np.r_[parameters.theta[i, :m], biases.ravel()]


def fitted(shared, seeds, dtype="float64"):
    qs = [
        panels.random_panel(s, shared=shared, n_judges=2 + s % 2, mixed=s % 3 == 0) for s in seeds
    ]
    with jax.enable_x64(dtype == "float64"):
        batch = panels.as_batch(qs, shared=shared, dtype=dtype)
        return qs, batch, jax.device_get(fit_each(*batch))


EACH = [
    pytest.param(
        (shared, seeds), id=f"{shared}-{seeds.start}", marks=[pytest.mark.heavy] * is_heavy
    )
    for shared, seeds, is_heavy in (
        (True, SEEDS, False),
        (False, SEEDS, True),
        (True, MORE_SEEDS, True),
        (False, MORE_SEEDS, True),
    )
]


@pytest.fixture(scope="module", params=EACH)
def fits(request):
    return fitted(*request.param)


def test_map_equals_scipy(fits):
    qs, _, found = fits
    assert (found.status == Status.CONVERGED).all()
    for i, q in enumerate(qs):
        want, _, objective = q.reference()
        np.testing.assert_allclose(flat(q, found.parameters, i), want, atol=1e-8)
        assert found.objective[i] == pytest.approx(objective, abs=1e-8)


@pytest.mark.heavy
def test_float32_is_that_within_its_error():
    qs, _, found = fitted(True, range(50), "float32")
    assert (found.status == Status.CONVERGED).all()
    for i, q in enumerate(qs):
        want, hessian, _ = q.reference()
        error = flat(q, found.parameters, i)[q.free()] - want[q.free()]
        assert np.sqrt(error @ hessian @ error) < 1e-2  # posterior standard deviations


@pytest.mark.heavy
def test_products_are_those_of_the_explicit_design_matrix(x64):
    q = panels.random_panel(3, shared=True, mixed=True)
    made, design, *_ = jax.tree.map(
        lambda v: v[0], panels.as_batch([q], shared=True, dtype="float64")
    )
    rng, z, (shown, wins) = np.random.default_rng(4), q.design_matrix(), q.counts()
    m, d = q.items.m, q.items.d
    theta, c, kappa = np.zeros(panels.M), np.zeros((panels.D, J)), rng.normal(size=J)
    theta[:m], c[:d] = rng.normal(size=m), rng.normal(size=(d, J))
    beta = np.r_[theta[:m], np.concatenate([c[:d], kappa[None]]).ravel()]
    p = expit(z @ beta)
    at = Parameters(jnp.asarray(theta), jnp.asarray(c), jnp.asarray(kappa))
    own = np.r_[np.arange(m), panels.M + np.arange(d * J), panels.M + panels.D * J + np.arange(J)]
    score, information = model.score_and_information(at, design, made)
    np.testing.assert_allclose(score[own], z.T @ (wins - shown * p), atol=1e-12)
    np.testing.assert_allclose(model.score(at, design, made), score, atol=1e-12)
    explicit = (z.T * (shown * p * (1 - p))) @ z
    np.testing.assert_allclose(information[np.ix_(own, own)], explicit, atol=1e-12)
    likelihood = (wins * log_expit(z @ beta) + (shown - wins) * log_expit(-z @ beta)).sum()
    np.testing.assert_allclose(model.log_likelihood(at, design, made), likelihood, rtol=1e-13)
    even = model.information_at_even_odds(made, design)[np.ix_(own, own)]
    np.testing.assert_allclose(even, (z.T * shown / 4) @ z, atol=1e-12)


def test_a_panel_of_one_is_that_judge(x64):
    qs = [problems.random_problem(s, shared=True) for s in range(24)]
    comparisons, design, prior, variant = problems.as_batch(qs, shared=True, dtype="float64")
    alone = fit_each(comparisons, design, prior, variant)

    def of_one(comparisons, design, prior, variant):
        made = jax.tree.map(lambda v: v[..., None], (comparisons, variant))
        panel = Panel(made[0], jnp.ones(1), jnp.ones((1, 1)))
        return fit_map(panel, design, prior, made[1])

    one = jax.jit(jax.vmap(of_one))(comparisons, design, prior, variant)
    np.testing.assert_allclose(one.parameters.theta, alone.parameters.theta, atol=1e-13)
    np.testing.assert_allclose(one.parameters.c[..., 0], alone.parameters.c, atol=1e-13)
    np.testing.assert_array_equal(one.steps, alone.steps)
    np.testing.assert_array_equal(one.status, alone.status)


def first_of(fits):
    """The first panel whose three judges all answered."""
    qs, batch, found = fits
    i = next(i for i, q in enumerate(qs) if all(v.shown.any() for v in q.judges))
    return qs[i], jax.tree.map(lambda v: v[i], batch), jax.tree.map(lambda v: v[i], found)


fit_one = jax.jit(fit_map)


def test_renamed_judges_give_the_renamed_result(fits, x64):
    _, (panel, design, prior, variant), found = first_of(fits)
    order = jnp.array([2, 0, 1])
    renamed = Panel(
        jax.tree.map(lambda v: v[..., order], panel.verdicts),
        panel.discrimination[order],
        panel.sharing[order][:, order],
    )
    other = Variant(variant.c[:, order], variant.kappa[order])
    again = fit_one(renamed, design, prior, other).parameters
    np.testing.assert_allclose(again.theta, found.parameters.theta, atol=1e-9)
    np.testing.assert_allclose(again.c, found.parameters.c[:, order], atol=1e-9)
    np.testing.assert_allclose(again.kappa, found.parameters.kappa[order], atol=1e-9)


def test_a_judge_without_verdicts_changes_nothing(x64):
    q = panels.random_panel(0, shared=False, n_judges=2)
    panel, design, prior, variant = jax.tree.map(
        lambda v: v[0], panels.as_batch([q], shared=False, dtype="float64")
    )
    panel = dataclasses.replace(panel, sharing=jnp.eye(J))
    two = Panel(
        jax.tree.map(lambda v: v[..., :2], panel.verdicts), panel.discrimination[:2], jnp.eye(2)
    )
    with_third = fit_one(panel, design, prior, variant).parameters
    without = fit_one(two, design, prior, Variant(variant.c[:, :2], variant.kappa[:2])).parameters
    np.testing.assert_allclose(with_third.theta, without.theta, atol=1e-12)
    np.testing.assert_allclose(with_third.c[:, :2], without.c, atol=1e-12)
    assert not np.asarray(with_third.c[:, 2]).any()
    assert with_third.kappa[2] == 0


def test_one_set_for_all_is_their_verdicts_counted_together(fits, x64):
    """At one discrimination; what is called mixing the judges as one."""
    _, (panel, design, prior, _), _ = first_of(fits)
    every = model.variant("bias_aware", design, J)
    shared = jnp.zeros((J, J)).at[:, 0].set(1)
    mixed = fit_one(Panel(panel.verdicts, jnp.ones(J), shared), design, prior, every)
    together = jax.tree.map(lambda v: v.sum(-1), panel.verdicts)
    one = fit_one(together, design, prior, model.variant("bias_aware", design))
    np.testing.assert_allclose(mixed.parameters.theta, one.parameters.theta, atol=1e-10)
    np.testing.assert_allclose(mixed.parameters.c[:, 0], one.parameters.c, atol=1e-10)
    assert not np.asarray(mixed.parameters.c[:, 1:]).any()


def test_estimators_take_a_panel(fits, x64):
    _, (panel, design, prior, _), _ = first_of(fits)
    for name, estimate in estimators.ESTIMATORS.items():
        found = jax.jit(estimate)(panel, design, prior)
        want = fit_one(panel, design, prior, model.variant(name, design, J))
        np.testing.assert_allclose(found.parameters.flat(), want.parameters.flat(), atol=1e-12)
    naive = jax.jit(estimators.naive)(panel, design, prior).parameters
    assert not np.asarray(naive.c).any()
    assert not np.asarray(naive.kappa).any()


def test_fixed_coefficients_stay_where_they_are_put(fits, x64):
    _, (panel, design, prior, _), _ = first_of(fits)
    every = model.variant("bias_aware", design, J)
    known = dataclasses.replace(
        Parameters.zeros(design, J),
        kappa=jnp.array([0.0, 0.7, 0.0]),
        c=jnp.zeros((panels.D, J)) + 0.3,
    )
    held = Variant(every.c.at[:, 0].set(False), every.kappa.at[1].set(False))
    found = jax.jit(lambda *a: fit_map(*a, start=known))(panel, design, prior, held).parameters
    assert found.kappa[1] == 0.7
    np.testing.assert_array_equal(found.c[:, 0], 0.3)


@pytest.mark.heavy
def test_rows_of_a_panel_are_its_counts(fits, x64):
    _, (panel, design, prior, variant), found = first_of(fits)
    of_counts = [
        problems.rows_of_counts(jax.tree.map(lambda v, g=g: v[..., g], panel.verdicts), design)
        for g in range(J)
    ]
    listed = Panel.build(
        [r for r, _ in of_counts], discrimination=panel.discrimination, sharing=panel.sharing
    )
    owner = of_counts[0][1]
    again = fit_one(listed, owner, prior, variant)
    np.testing.assert_allclose(again.parameters.flat(), found.parameters.flat(), atol=1e-9)
    around = [
        laplace.laplace(found.parameters, data, d, prior, variant).covariance()
        for data, d in ((listed, owner), (panel, design))
    ]
    np.testing.assert_allclose(*around, atol=1e-9)


@pytest.mark.heavy
def test_rows_of_many_panels_are_fitted_at_once(x64):
    """Some of their leaves shared, some not."""
    rng = np.random.default_rng(0)
    first, second = jnp.array([0, 1, 2, 0]), jnp.array([1, 2, 0, 2])
    share = jnp.asarray(rng.random((5, 4, 2)))
    difference = jnp.asarray(rng.normal(size=(4, 1)))
    design, prior = Design.of_contents(3, 1), Prior(1.0, 0.1)
    every = model.variant("bias_aware", design, 2)

    def of_one(share):
        judges = [
            Rows(first, second, difference, jnp.ones(4), jnp.ones(4), share[:, g]) for g in (0, 1)
        ]
        stacked = jax.tree.map(lambda *v: jnp.stack(v, -1), *judges)
        return fit_map(Panel(stacked, jnp.array([1.0, 2.0]), jnp.eye(2)), design, prior, every)

    together = jax.jit(jax.vmap(of_one))(share)
    for i in range(5):
        alone = jax.jit(of_one)(share[i])
        np.testing.assert_allclose(together.parameters.theta[i], alone.parameters.theta, atol=1e-12)
        np.testing.assert_allclose(together.parameters.c[i], alone.parameters.c, atol=1e-12)


def test_the_supremum_of_a_panel(fits, x64):
    """Without a prior, the score vanishes."""
    _, (panel, design, _, variant), _ = first_of(fits)
    top = jax.jit(fit_supremum)(panel, design, variant)
    assert top.status == Status.CONVERGED
    assert top.grad_norm < 1e-6


# --- bad input


def test_what_is_refused():
    counts = Comparisons.build(np.ones((3, 3)) - np.eye(3), np.zeros((3, 3)))
    other = Comparisons.build(np.ones((4, 4)) - np.eye(4), np.zeros((4, 4)))
    lines = Rows.build([0], [1], [[0.5]], [1.0])
    with pytest.raises(ValueError, match="at least one judge"):
        Panel.build([])
    with pytest.raises(ValueError, match="all counts or all rows"):
        Panel.build([counts, lines])
    with pytest.raises(ValueError, match=r"the same items, got counts \(3, 3\) and \(4, 4\)"):
        Panel.build([counts, other])
    with pytest.raises(ValueError, match="discrimination must be finite and above 0"):
        Panel.build([counts, counts], discrimination=[1.0, 0.0])
    with pytest.raises(ValueError, match=r"a number or \[2\]"):
        Panel.build([counts, counts], discrimination=[1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"sharing must be \[2, 2\]"):
        Panel.build([counts, counts], sharing=np.eye(3))
    design, prior = Design.build(np.zeros((3, 1))), Prior()
    panel = Panel.build([counts, counts])
    with pytest.raises(
        ValueError, match="a variant for one judge, but comparisons of a panel of 2"
    ):
        fit_map(panel, design, prior, model.variant("naive", design))
    every = model.variant("naive", design, 2)
    with pytest.raises(ValueError, match="a panel of 2, but comparisons of one judge"):
        fit_map(counts, design, prior, every)
    with pytest.raises(ValueError, match=r"must be \[4, 4\] for this design"):
        fit_map(panel, Design.build(np.zeros((4, 1))), prior, every)
