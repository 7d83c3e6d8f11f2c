"""Rows of verdicts give the same results as counts of the same verdicts."""

import jax
import numpy as np
import pytest
from support import problems
from support.problems import random_rows

from jbt.kernel import fit, laplace, model
from jbt.types import Design, Prior, Rows, Status


def fitted(data, design, prior, variant):
    """The MAP, its parameters flat, and the covariance around it."""
    found = fit.fit_map(data, design, prior, variant)
    around = laplace.laplace(found.parameters, data, design, prior, variant)
    return found, found.parameters.flat(), around.covariance()


@jax.jit
def of_rows(r, prior):
    """`fitted`, of small rows."""
    design = Design.of_contents(5, 2)
    return fitted(r, design, prior, model.variant("bias_aware", design))


@pytest.fixture(scope="module")
def both():
    """Of the counts and of the rows of twelve pools what is `fitted`."""
    every = [problems.random_problem(seed, shared=True) for seed in range(12)]

    def of_one(*counts_and_prior):
        counts, prior = counts_and_prior[:2], counts_and_prior[2:]
        return [fitted(*data, *prior) for data in (counts, problems.rows_of_counts(*counts))]

    with jax.enable_x64(True):
        return jax.jit(jax.vmap(of_one))(*problems.as_batch(every, shared=True, dtype="float64"))


def test_the_posterior_of_rows_is_that_of_the_counts(both):
    (counted, its_mode, its_covariance), (listed, mode, covariance) = both
    np.testing.assert_array_equal(listed.status, counted.status)
    assert (np.asarray(counted.status) == Status.CONVERGED).all()
    np.testing.assert_allclose(mode, its_mode, atol=1e-9)
    np.testing.assert_allclose(listed.objective, counted.objective, rtol=1e-12)
    np.testing.assert_allclose(covariance, its_covariance, atol=1e-9)


@pytest.mark.heavy
def test_the_posterior_is_that_of_the_design_matrix_where_some_orders_are_unknown(x64):
    r, prior = random_rows(5, 5, 20), Prior(0.3, 0.1)
    one = np.eye(5)
    z = np.column_stack([one[r.first] - one[r.second], r.difference, r.ordered])
    precision = np.r_[np.full(5, 0.3), np.full(3, 0.1)]
    problem = (z, np.asarray(r.shown), np.asarray(r.wins), precision)
    best, hessian, objective = problems.minimum(*problem, np.ones(8, bool), np.zeros(8))
    found, mode, covariance = of_rows(r, prior)
    assert found.status == Status.CONVERGED
    assert found.objective == pytest.approx(objective, rel=1e-12)
    np.testing.assert_allclose(mode, best, atol=1e-8)
    np.testing.assert_allclose(covariance, np.linalg.inv(hessian), atol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"second": [-1, 0]}, "second must be integers from 0"),
        ({"share": [0.5, 1.2]}, "share must lie between"),
        ({"difference": [[np.nan], [0]]}, "finite"),
        ({"weight": -1.0}, "negative"),
        ({"ordered": 0.5}, "true or false"),
    ],
)
def test_wrong_rows_are_refused(wrong, message):
    good = {"first": [0, 1], "second": [1, 2], "difference": [[1.0], [2.0]], "share": [1, 0]}
    with pytest.raises(ValueError, match=message):
        Rows.build(**(good | wrong))
