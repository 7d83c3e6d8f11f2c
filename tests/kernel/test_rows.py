"""Rows of verdicts give the same results as counts of the same verdicts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit
from support import problems

from jbt import identifiability
from jbt.kernel import fit, laplace, model
from jbt.types import Design, Parameters, Prior, Rows, Status


@jax.jit
def of_rows(r, prior):
    """The MAP of small rows, flat, and its status."""
    design = Design.of_contents(5, 2)
    found = fit.fit_map(r, design, prior, model.variant("bias_aware", design))
    return found.parameters.flat(), found.status


@pytest.fixture(scope="module")
def both():
    """Twelve pools, and for counts and for rows: their MAPs and posteriors."""
    every = [problems.random_problem(seed, shared=True) for seed in range(12)]

    def of_one(comparisons, design, prior, variant):
        out = []
        for data, owner in ((comparisons, design), problems.rows_of_counts(comparisons, design)):
            found = fit.fit_map(data, owner, prior, variant)
            around = laplace.laplace(found.parameters, data, owner, prior, variant)
            out.append((found, found.parameters.flat(), around.covariance()))
        return out

    with jax.enable_x64(True):
        batch = problems.as_batch(every, shared=True, dtype="float64")
        return every, batch, jax.jit(jax.vmap(of_one))(*batch)


def test_the_posterior_of_rows_is_that_of_the_counts(both):
    _, _, ((counted, its_mode, its_covariance), (listed, mode, covariance)) = both
    np.testing.assert_array_equal(listed.status, counted.status)
    assert (np.asarray(counted.status) == Status.CONVERGED).all()
    np.testing.assert_allclose(mode, its_mode, atol=1e-9)
    np.testing.assert_allclose(listed.objective, counted.objective, rtol=1e-12)
    np.testing.assert_allclose(covariance, its_covariance, atol=1e-9)


@pytest.mark.nightly
def test_what_the_verdicts_tell_is_the_same(both):
    """The prior-free estimate of c, its intervals and status, but for DISCONNECTED, which rows
    cannot tell from FLAT."""
    _, (comparisons, design, _, _), _ = both

    @jax.jit
    @jax.vmap
    def estimates(comparisons, design):
        pairs = ((comparisons, design), problems.rows_of_counts(comparisons, design))
        return [identifiability.estimate_bias(*pair) for pair in pairs]

    with jax.enable_x64(True):
        counted, listed = jax.device_get(estimates(comparisons, design))
    status = np.where(counted.status == Status.DISCONNECTED, Status.FLAT, counted.status)
    np.testing.assert_array_equal(listed.status, status)
    assert len(set(status.tolist())) > 1
    for name in ("c", "low", "high"):
        np.testing.assert_allclose(getattr(listed, name), getattr(counted, name), atol=1e-6)


@pytest.mark.heavy
def test_null_directions_have_the_same_names(both):
    every, (comparisons, design, _, _), _ = both
    with jax.enable_x64(True):
        for i in range(len(every)):
            own, its = jax.tree.map(lambda v, i=i: v[i], (comparisons, design))
            counted = identifiability.null_space(its, np.asarray(own.shown))
            listing, owner = problems.rows_of_counts(own, its)
            listed = identifiability.null_space(owner, listing)
            assert listed.names == counted.names
            assert (listed.rank, listed.n_columns) == (counted.rank, counted.n_columns)
            scale = np.abs(counted.directions).max()
            np.testing.assert_allclose(listed.directions, counted.directions, atol=1e-6 * scale)
            names = identifiability.prior_selected(its, np.asarray(own.shown))
            unidentified = identifiability.prior_selected(owner, listing)
            assert unidentified == tuple(name for name in names if name != "phi")


@pytest.mark.heavy
def test_products_and_map_equal_scipy_where_some_orders_are_unknown(x64):
    r, prior, design = small_rows(5), Prior(0.3, 0.1), Design.of_contents(5, 2)
    one = np.eye(5)
    z = np.column_stack([one[r.first] - one[r.second], r.difference, r.ordered])
    shown, wins = np.asarray(r.shown), np.asarray(r.wins)
    beta = np.random.default_rng(4).normal(size=8)
    at, p = Parameters.unflat(jnp.asarray(beta), 5), expit(z @ beta)
    score, information = model.score_and_information(at, design, r)
    np.testing.assert_allclose(score, z.T @ (wins - shown * p), atol=1e-12)
    np.testing.assert_allclose(information, (z.T * (shown * p * (1 - p))) @ z, atol=1e-12)
    likelihood = (wins * log_expit(z @ beta) + (shown - wins) * log_expit(-z @ beta)).sum()
    np.testing.assert_allclose(model.log_likelihood(at, design, r), likelihood, rtol=1e-13)

    precision, free = np.r_[np.full(5, 0.3), np.full(3, 0.1)], np.ones(8, bool)
    best, *_ = problems.minimum(z, shown, wins, precision, free, np.zeros(8))
    found, status = of_rows(r, prior)
    assert status == Status.CONVERGED
    np.testing.assert_allclose(found, best, atol=1e-8)
    # Only rows of known order carry information about kappa.
    blind, _ = of_rows(dataclasses.replace(r, ordered=jnp.zeros_like(r.ordered)), prior)
    assert blind[-1] == 0
    assert abs(found[-1]) > 0.01


@pytest.mark.heavy
def test_many_problems_at_once_share_what_they_share(x64):
    """Bootstrap weights on one set of rows, other owners of the qualities, and sets of rows of
    their own: as one by one."""
    one, prior = small_rows(6), Prior()
    times = np.random.default_rng(0).poisson(1, (3, len(one.shown))).astype(float)
    owners = jnp.stack([one.first, jnp.where(one.second == 0, 1, 0)])
    for function, values in (
        (lambda v: dataclasses.replace(one, shown=one.shown * v, wins=one.wins * v), times),
        (lambda v: dataclasses.replace(one, first=v), owners),
        (lambda r: r, jax.tree.map(lambda *v: jnp.stack(v), one, small_rows(7))),
    ):
        together = jax.vmap(lambda v, f=function: of_rows(f(v), prior)[0])(values)
        for i, found in enumerate(together):
            alone = jax.tree.map(lambda v, i=i: jnp.asarray(v[i]), values)
            np.testing.assert_allclose(found, of_rows(function(alone), prior)[0], atol=1e-10)


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
        fit.fit_map(small_rows(3), design, Prior(), model.variant("bias_aware", design))


def small_rows(seed):
    """Twenty rows on five contents with two covariates: ties, weights, unknown orders, and a row
    that compares two renderings of one content."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 5, 20)
    second = (first + rng.integers(1, 5, 20)) % 5
    second[0] = first[0]
    share = rng.choice([0, 0.5, 0.8, 1], 20)
    return Rows.build(
        first,
        second,
        rng.normal(size=(20, 2)),
        share,
        weight=rng.integers(1, 4, 20),
        ordered=rng.random(20) < 0.6,
    )
