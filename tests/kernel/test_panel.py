"""Several judges of the same items in one fit; `test_fit` has its optimum."""

import itertools

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import panels

from jbt.kernel import laplace, model
from jbt.kernel.fit import fit_map
from jbt.types import Comparisons, Design, Panel, Prior, Rows

fit_one = jax.jit(fit_map)


def a_panel():
    """A panel whose three judges all answered, and its design, prior and variant."""
    qs = (panels.any_problem(s, True) for s in itertools.count())
    return panels.padded(next(q for q in qs if all(v.shown.any() for v in q.judges)))


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
    counts = Comparisons.build(np.ones((3, 3)) - np.eye(3), np.zeros((3, 3)))
    lines, two = Rows.build([0], [1], [[0.5]], [1.0]), [counts, counts]
    design, panel = Design.build(np.zeros((3, 1))), Panel.build(two)
    for call, message in (
        (lambda: Panel.build([counts, lines]), "all counts or all rows"),
        (
            lambda: Panel.build(two, discrimination=[1.0, 0.0]),
            "discrimination must be finite and above 0",
        ),
        (
            lambda: fit_map(panel, design, Prior(), model.variant("naive", design)),
            "a variant for one judge, but comparisons of a panel of 2",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
