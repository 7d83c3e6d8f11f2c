"""Several judges of the same items in one fit; `test_fit` has its optimum."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support import panels, problems
from support.panels import J

from jbt import estimators
from jbt.kernel import laplace, model
from jbt.kernel.fit import fit_map
from jbt.types import Comparisons, Design, Panel, Parameters, Prior, Rows, Variant

fit_each, fit_one = jax.jit(jax.vmap(fit_map)), jax.jit(fit_map)


@pytest.mark.heavy
def test_a_panel_of_one_is_that_judge(x64):
    qs = [problems.random_problem(s, shared=True) for s in range(24)]
    comparisons, design, prior, variant = problems.as_batch(qs, shared=True, dtype="float64")
    alone = fit_each(comparisons, design, prior, variant)

    def of_one(comparisons, design, prior, variant):
        made = jax.tree.map(lambda v: v[..., None], (comparisons, variant))
        panel = Panel(made[0], jnp.ones(1), jnp.ones((1, 1)))
        return fit_map(panel, design, prior, made[1])

    one = jax.jit(jax.vmap(of_one))(comparisons, design, prior, variant)
    both = (problems.flat(fit.parameters) for fit in (one, alone))
    assert_allclose(*both, atol=1e-13)
    assert_array_equal(one.steps, alone.steps)
    assert_array_equal(one.status, alone.status)


def a_panel():
    """A panel whose three judges all answered, and its design, prior and variant."""
    qs = (panels.any_problem(s, True) for s in itertools.count())
    return panels.padded(next(q for q in qs if all(v.shown.any() for v in q.judges)))


@pytest.mark.heavy
def test_estimators_take_a_panel_and_fixed_coefficients_stay_where_they_are_put(x64):
    panel, design, prior, _ = a_panel()
    for name, estimate in estimators.ESTIMATORS.items():
        found = jax.jit(estimate)(panel, design, prior).parameters
        want = fit_one(panel, design, prior, model.variant(name, design, J)).parameters
        assert_allclose(found.flat(), want.flat(), atol=1e-12)
        assert bool(found.c.any() | found.kappa.any()) == (name != "naive")
    every = model.variant("bias_aware", design, J)
    known = Parameters.unflat(jnp.full(panels.M + (panels.D + 1) * J, 0.3), panels.M, J)
    held = Variant(every.c.at[:, 0].set(False), every.kappa.at[1].set(False))
    found = jax.jit(lambda *a: fit_map(*a, start=known))(panel, design, prior, held).parameters
    assert found.kappa[1] == 0.3
    assert_array_equal(found.c[:, 0], 0.3)
    assert (found.c[: panels.D, 1:] != 0.3).all()


@pytest.mark.heavy
def test_rows_of_a_panel_are_its_counts(x64):
    panel, design, prior, variant = a_panel()
    found = fit_one(panel, design, prior, variant).parameters
    listed, owner = panels.as_rows(panel, design)
    again = fit_one(listed, owner, prior, variant)
    assert_allclose(again.parameters.flat(), found.flat(), atol=1e-9)
    around = [
        laplace.laplace(found, data, d, prior, variant).covariance()
        for data, d in ((listed, owner), (panel, design))
    ]
    assert_allclose(*around, atol=1e-9)


def test_what_is_refused():
    counts, other = (
        Comparisons.build(np.ones((n, n)) - np.eye(n), np.zeros((n, n))) for n in (3, 4)
    )
    lines, two = Rows.build([0], [1], [[0.5]], [1.0]), [counts, counts]
    design, panel = Design.build(np.zeros((3, 1))), Panel.build(two)
    larger, prior = Design.build(np.zeros((4, 1))), Prior()
    one, every = model.variant("naive", design), model.variant("naive", design, 2)
    for call, message in (
        (lambda: Panel.build([]), "at least one judge"),
        (lambda: Panel.build([counts, lines]), "all counts or all rows"),
        (lambda: Panel.build([counts, other]), r"same items, got counts \(3, 3\) and \(4, 4\)"),
        (
            lambda: Panel.build(two, discrimination=[1.0, 0.0]),
            "discrimination must be finite and above 0",
        ),
        (lambda: Panel.build(two, discrimination=[1.0, 1.0, 1.0]), r"a number or \[2\]"),
        (lambda: Panel.build(two, sharing=np.eye(3)), r"sharing must be \[2, 2\]"),
        (
            lambda: fit_map(panel, design, prior, one),
            "a variant for one judge, but comparisons of a panel of 2",
        ),
        (
            lambda: fit_map(counts, design, prior, every),
            "a panel of 2, but comparisons of one judge",
        ),
        (lambda: fit_map(panel, larger, prior, every), r"must be \[4, 4\] for this design"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
