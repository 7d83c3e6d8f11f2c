"""Rows of verdicts give the same results as counts of the same verdicts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import problems
from support.problems import random_rows

from jbt import identifiability
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
    """Verdicts and designs of twelve pools, and of counts and of rows what is `fitted`."""
    every = [problems.random_problem(seed, shared=True) for seed in range(12)]

    def of_one(*counts_and_prior):
        counts, prior = counts_and_prior[:2], counts_and_prior[2:]
        return [fitted(*data, *prior) for data in (counts, problems.rows_of_counts(*counts))]

    with jax.enable_x64(True):
        batch = problems.as_batch(every, shared=True, dtype="float64")
        return batch[:2], jax.jit(jax.vmap(of_one))(*batch)


def test_the_posterior_of_rows_is_that_of_the_counts(both):
    _, ((counted, its_mode, its_covariance), (listed, mode, covariance)) = both
    np.testing.assert_array_equal(listed.status, counted.status)
    assert (np.asarray(counted.status) == Status.CONVERGED).all()
    np.testing.assert_allclose(mode, its_mode, atol=1e-9)
    np.testing.assert_allclose(listed.objective, counted.objective, rtol=1e-12)
    np.testing.assert_allclose(covariance, its_covariance, atol=1e-9)


@pytest.mark.nightly
def test_what_the_verdicts_tell_is_the_same(both):
    """The prior-free estimate of c, its intervals and status, but for DISCONNECTED, which rows
    cannot tell from FLAT."""

    @jax.jit
    @jax.vmap
    def estimates(*counts):
        pairs = (counts, problems.rows_of_counts(*counts))
        return [identifiability.estimate_bias(*pair) for pair in pairs]

    with jax.enable_x64(True):
        counted, listed = jax.device_get(estimates(*both[0]))
    status = np.where(counted.status == Status.DISCONNECTED, Status.FLAT, counted.status)
    np.testing.assert_array_equal(listed.status, status)
    assert len(set(status.tolist())) > 1
    for name in ("c", "low", "high"):
        np.testing.assert_allclose(getattr(listed, name), getattr(counted, name), atol=1e-6)


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
    # Only rows of known order carry information about kappa.
    _, blind, _ = of_rows(dataclasses.replace(r, ordered=jnp.zeros_like(r.ordered)), prior)
    assert blind[-1] == 0
    assert abs(mode[-1]) > 0.01


@pytest.mark.heavy
def test_many_problems_at_once_share_what_they_share(x64):
    """Bootstrap weights on one set of rows, other owners of the qualities, and sets of rows of
    their own: as one by one."""
    one, prior = random_rows(6, 5, 20), Prior()
    times = np.random.default_rng(0).poisson(1, (3, len(one.shown))).astype(float)
    owners = jnp.stack([one.first, jnp.where(one.second == 0, 1, 0)])
    for function, values in (
        (lambda v: dataclasses.replace(one, shown=one.shown * v, wins=one.wins * v), times),
        (lambda v: dataclasses.replace(one, first=v), owners),
        (lambda r: r, jax.tree.map(lambda *v: jnp.stack(v), one, random_rows(7, 5, 20))),
    ):
        together = jax.vmap(lambda v, f=function: of_rows(f(v), prior)[1:])(values)
        for i in range(len(together[0])):
            alone = function(jax.tree.map(lambda v, i=i: jnp.asarray(v[i]), values))
            for found, expected in zip(together, of_rows(alone, prior)[1:], strict=True):
                np.testing.assert_allclose(found[i], expected, atol=1e-10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"first": [0.0, 1.0]}, "first must be integers"),
        ({"second": [-1, 0]}, "second must be integers from 0"),
        ({"share": [0.5, 1.2]}, "share must lie between"),
        ({"share": [0.5]}, "must be"),
        ({"difference": [[np.nan], [0]]}, "finite"),
        ({"weight": -1.0}, "negative"),
        ({"ordered": 0.5}, "true or false"),
    ],
)
def test_wrong_rows_are_refused(wrong, message):
    good = {"first": [0, 1], "second": [1, 2], "difference": [[1.0], [2.0]], "share": [1, 0]}
    with pytest.raises(ValueError, match=message):
        Rows.build(**(good | wrong))


def test_rows_must_fit_the_design(x64):
    design = Design.of_contents(5, 3)
    with pytest.raises(ValueError, match=r"differences must be \[20, 3\]"):
        fit.fit_map(random_rows(3, 5, 20), design, Prior(), model.variant("bias_aware", design))
