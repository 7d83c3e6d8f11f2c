"""Fits of rows of verdicts against the design matrix, and rows that are refused."""

import jax
import numpy as np
import pytest
from support import problems
from support.problems import random_rows

from jbt.kernel import fit, laplace, model
from jbt.types import Design, Prior, Rows, Status


@jax.jit
def fitted(rows, prior):
    """The MAP, and the covariance around it."""
    design = Design.of_contents(5, 2)
    variant = model.variant("bias_aware", design)
    found = fit.fit_map(rows, design, prior, variant)
    around = laplace.laplace(found.parameters, rows, design, prior, variant)
    return found, around.covariance()


def test_the_posterior_is_that_of_the_design_matrix_where_some_orders_are_unknown(x64):
    r, prior = random_rows(5, 5, 20), Prior(0.3, 0.1)
    one = np.eye(5)
    z = np.column_stack([one[r.first] - one[r.second], r.difference, r.ordered])
    precision = np.r_[np.full(5, 0.3), np.full(3, 0.1)]
    problem = (z, np.asarray(r.shown), np.asarray(r.wins), precision)
    best, hessian, objective = problems.minimum(*problem, np.ones(8, bool), np.zeros(8))
    found, covariance = fitted(r, prior)
    assert found.status == Status.CONVERGED
    assert found.objective == pytest.approx(objective, rel=1e-12)
    np.testing.assert_allclose(found.parameters.flat(), best, atol=1e-8)
    np.testing.assert_allclose(covariance, np.linalg.inv(hessian), atol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"second": [-1, 0]}, "second must be integers from 0"),
        ({"difference": [[np.nan], [0]]}, "finite"),
        ({"ordered": 0.5}, "true or false"),
    ],
)
def test_wrong_rows_are_refused(wrong, message):
    good = {"first": [0, 1], "second": [1, 2], "difference": [[1.0], [2.0]], "share": [1, 0]}
    with pytest.raises(ValueError, match=message):
        Rows.build(**(good | wrong))
