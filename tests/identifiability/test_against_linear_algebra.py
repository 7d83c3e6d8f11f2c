"""Ranks, null directions, profiles and prior-free estimates of random problems of one judge and of
several, beside singular values, linear programming and a slow optimum."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support import panels, problems
from support.marks import heavy
from support.problems import svd_rank

from jbt import identifiability
from jbt.types import Panel, Parameters, Status


def shown_of(verdicts):
    return verdicts if isinstance(verdicts, Panel) else np.asarray(verdicts.shown)


@jax.jit
@jax.vmap
def ranks(verdicts, design, variant):
    shown = verdicts if isinstance(verdicts, Panel) else verdicts.shown
    return identifiability.rank(design, shown, variant=variant)


@pytest.mark.parametrize(("kind", "count"), [(problems, 18), (panels, 12)])
def test_rank_and_directions_agree_with_an_svd(kind, count, x64):
    qs, nullities = [kind.any_problem(seed) for seed in range(count)], set()
    batch = kind.as_batch(qs, shared=True, dtype="float64")
    verdicts, design, _, variant = batch
    found = ranks(verdicts, design, variant)
    parts = identifiability.unidentified_parts(design, shown_of(verdicts), variant=variant)
    for i, q in enumerate(qs):
        verdicts, design, variant = q.unpadded()
        shown, z, free, m = shown_of(verdicts), q.design_matrix(), q.free(), q.items.m
        assert_array_equal(identifiability.comparison_matrix(design, shown), z)
        space = identifiability.null_space(design, shown, variant=variant)
        spread, n_judges = np.asarray(design.covariates).std(0), len(q.sharing)
        scale = np.r_[np.ones(m), np.repeat(spread, n_judges), np.ones(n_judges)]
        n_columns, rank = free.sum(), svd_rank((z / scale)[:, free])
        assert (space.rank, space.n_columns, found[i]) == (rank, n_columns, rank)
        directions = space.directions
        assert np.linalg.matrix_rank(directions) == space.nullity == n_columns - rank
        assert not directions[:, ~free].any()
        largest = np.abs(directions).max(1)
        assert (np.abs(z @ directions.T) <= 1e-11 * largest).all()
        # [d + 1, judges] of each judge, from the problem's.
        biases = (directions / largest[:, None])[:, m:].reshape(-1, len(spread) + 1, n_judges)
        moved = np.abs(biases @ q.sharing.T).max(0) > 1e-6
        assert_array_equal(parts["c"][i], moved[:-1].any(0))
        assert_array_equal(parts["kappa"][i], moved[-1])
        names = identifiability.prior_selected(design, shown, variant=variant)
        assert names == tuple(name for name, of in parts.items() if of[i].any())
        nullities.add(space.nullity)
        if i >= 12:
            continue
        # Rows of the same verdicts, padded; of a few, as each problem takes long.
        counts, items, _, its_variant = jax.tree.map(lambda v, i=i: v[i], batch)
        owner = kind.as_rows(counts, items)[::-1]
        listed = identifiability.null_space(*owner, variant=its_variant)
        assert (listed.rank, listed.names) == (rank, space.names)
        its_directions = listed.directions[:, kind.places(q)]
        assert_allclose(its_directions, directions, atol=1e-6 * largest.max(initial=0))
        assert identifiability.prior_selected(*owner, items, variant=its_variant) == names
        without_phi = identifiability.prior_selected(*owner, variant=its_variant)
        assert without_phi == tuple(name for name in names if name != "phi")
    assert len(nullities) > 2


def with_covariates(kind, seed, count):
    """Problems with covariates; of which, and of which judge, each is asked the coefficient, and
    where it stands among the problem's parameters."""
    drawn = (q for q in map(kind.any_problem, itertools.count(seed)) if q.items.d > 0)
    qs = list(itertools.islice(drawn, count))
    n_judges = len(qs[0].sharing)
    covariate = np.arange(count) % np.array([q.items.d for q in qs])
    judge = np.arange(count) % n_judges
    columns = [q.items.m for q in qs] + covariate * n_judges + judge
    return qs, covariate, judge, columns


@jax.jit
@jax.vmap
def profiles(verdicts, design, variant, covariate, judge, grid):
    return identifiability.profile(
        verdicts, design, grid, covariate=covariate, judge=judge, variant=variant
    )


@pytest.mark.parametrize(("kind", "count"), [heavy(problems, 30), heavy(panels, 15)])
def test_the_profile_is_that_of_slow_fits(kind, count, x64):
    qs, covariate, judge, columns = with_covariates(kind, 1000, count)
    assert {q.items.kind for q in qs} == set(problems.KINDS)
    verdicts, design, _, variant = kind.as_batch(qs, shared=True, dtype="float64")
    grid = np.array([-1.5, 0.1, 0.8])
    which = map(jnp.asarray, (covariate, judge, np.tile(grid, (count, 1))))
    out = profiles(verdicts, design, variant, *which)
    assert (out.status == Status.CONVERGED).all()
    for i, q in enumerate(qs):
        free = q.free() & (np.arange(len(q.free())) != columns[i])
        for value, found in zip(grid, out.log_likelihood[i], strict=True):
            known = np.where(np.arange(len(free)) == columns[i], value, 0)
            problem = (q.design_matrix(), *q.counts(), np.zeros(len(free)))
            _, _, best = problems.minimum(*problem, free, known)
            assert -found == pytest.approx(best, abs=1e-8, rel=0)
    # Flat where the comparisons carry no evidence.
    ranges = np.ptp(np.asarray(out.log_likelihood), axis=1)
    assert min((ranges < 1e-9).sum(), (ranges > 1e-3).sum()) > count / 6


@jax.jit
@jax.vmap
def estimates(verdicts, design, variant, covariate, judge, start):
    return identifiability.estimate_bias(
        verdicts, design, covariate=covariate, judge=judge, variant=variant, start=start
    )


def estimated(kind, qs, covariate, judge, value=0.0):
    """The estimates in a batch; the coefficients known are `value`."""
    count, n_judges = len(qs), len(qs[0].sharing)
    verdicts, design, _, variant = kind.as_batch(qs, shared=True, dtype="float64")
    # The coefficient is free whatever the variant says of it.
    said = np.array(variant.c).reshape(count, -1, n_judges)
    said[np.arange(count), covariate, judge] = False
    variant = dataclasses.replace(variant, c=jnp.asarray(said.reshape(variant.c.shape)))
    start = jax.vmap(Parameters)(
        jnp.zeros((count, problems.M)),
        *(jnp.full(of.shape, value) for of in (variant.c, variant.kappa)),
    )
    which = map(jnp.asarray, (covariate, judge))
    return jax.device_get(estimates(verdicts, design, variant, *which, start))


@pytest.mark.heavy
def test_no_estimate_runs_away_where_covariates_differ_in_size(x64):
    """By factors of up to 10^4, so that some verdicts say next to nothing of c."""
    qs, covariate, judge, columns = with_covariates(problems, 9000, 80)
    for seed, q in enumerate(qs):
        q.x[: q.n] *= 10.0 ** np.random.default_rng(seed).uniform(-3, 1, (q.n, 1))
    status = estimated(problems, qs, covariate, judge).status
    converged = np.flatnonzero(status == Status.CONVERGED)
    for i in converged:
        z, free = qs[i].design_matrix(), qs[i].free()
        # The unit of c is that of the largest difference, or the tolerance would hide a direction.
        unit = max(1.0, np.abs(z[:, columns[i]]).max())
        at = int(free[: columns[i]].sum())
        assert problems.fate(z[:, free], *qs[i].counts(), at, unit) == "exists", i
    assert min(len(converged), (status == Status.SEPARATED).sum()) > 8


# The slowest problem of a batch holds up the others: those of these panels are quick.
@pytest.mark.parametrize(
    ("kind", "seed", "count"), [heavy(problems, 5000, 80), heavy(panels, 27000, 16)]
)
def test_the_estimate_is_that_of_slow_fits_and_exists_where_it_can(kind, seed, count, x64):
    qs, covariate, judge, columns = with_covariates(kind, seed, count)
    value, fates = 0.4, []
    out = estimated(kind, qs, covariate, judge, value)
    for i, (q, column) in enumerate(zip(qs, columns, strict=True)):
        z, (shown, wins), free = q.design_matrix(), q.counts(), q.free()
        free[column] = True
        fates.append(problems.fate(z[:, free], shown, wins, int(free[:column].sum())))
        assert out.status[i] in problems.STATUS[fates[i]]
        nobody = not shown[np.abs(z[:, column]) > 0].any()
        assert (out.status[i] == Status.NO_VERDICTS) <= nobody
        if fates[i] != "exists":
            assert np.isnan([out.c[i], out.low[i], out.wald_high[i]]).all()
            continue
        known = np.where(np.arange(len(free)) < q.items.m, 0, value)
        one = jax.tree.map(lambda v, i=i: v[i], out)
        problems.check_estimate(one, z, shown, wins, free, column, known)
    assert set(fates) == set(problems.STATUS)
    if kind is problems:  # some exist although the estimates of the qualities do not
        lonely = [q.kind in ("separated", "disconnected") for q in qs]
        assert (np.array(lonely) & (np.array(fates) == "exists")).sum() > 2
