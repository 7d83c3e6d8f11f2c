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
from jbt.types import Panel, Status


def shown_of(verdicts):
    return verdicts if isinstance(verdicts, Panel) else np.asarray(verdicts.shown)


@pytest.mark.parametrize(("kind", "count"), [(problems, 18), (panels, 12)])
def test_rank_and_directions_agree_with_an_svd(kind, count, x64):
    qs, nullities = [kind.any_problem(seed) for seed in range(count)], set()
    batch = kind.as_batch(qs, shared=True, dtype="float64")
    for i, q in enumerate(qs):
        verdicts, design, variant = q.unpadded()
        shown, z, free, m = shown_of(verdicts), q.design_matrix(), q.free(), q.items.m
        assert_array_equal(identifiability.comparison_matrix(design, shown), z)
        space = identifiability.null_space(design, shown, variant=variant)
        spread, n_judges = np.asarray(design.covariates).std(0), len(q.sharing)
        scale = np.r_[np.ones(m), np.repeat(spread, n_judges), np.ones(n_judges)]
        n_columns, rank = free.sum(), svd_rank((z / scale)[:, free])
        assert (space.rank, space.n_columns) == (rank, n_columns)
        directions = space.directions
        assert np.linalg.matrix_rank(directions) == space.nullity == n_columns - rank
        assert not directions[:, ~free].any()
        largest = np.abs(directions).max(1)
        assert (np.abs(z @ directions.T) <= 1e-11 * largest).all()
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
    assert len(nullities) > 2


def test_what_is_not_identified_is_outside_the_span_of_the_rows(x64):
    """Of counts, many pools at once, and of rows."""
    qs, seen = [problems.any_problem(seed) for seed in range(18)], set()
    counts, design, *_ = problems.as_batch(qs, shared=True, dtype="float64")
    parts = identifiability.unidentified_parts(design, np.asarray(counts.shown))
    for i, q in enumerate(qs):
        z, unit = q.design_matrix(), np.eye(q.m + q.d + 1)
        phi = unit[q.content[: q.n]] + q.x[: q.n, : q.d] @ unit[q.m : -1]
        along = {"theta": unit[: q.m] - unit[0], "c": unit[q.m : -1], "kappa": unit[-1:]}
        along["phi"] = phi - phi[0]
        expected = {n: svd_rank(np.concatenate([z, v])) > svd_rank(z) for n, v in along.items()}
        # A covariate of the padding, in no comparison.
        expected["c"] |= q.d < problems.D
        assert {name: of[i] for name, of in parts.items()} == expected
        of_pool = jax.tree.map(lambda v, i=i: v[i], (counts, design))
        rows, _ = problems.as_rows(*of_pool)
        assert identifiability.unidentified_parts(of_pool[1], rows) == expected
        seen.add(tuple(expected.values()))
    assert len(seen) > 3


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
def estimates(verdicts, design, variant, covariate, judge):
    return identifiability.estimate_bias(
        verdicts, design, covariate=covariate, judge=judge, variant=variant
    )


def estimated(kind, qs, covariate, judge):
    """The estimates in a batch."""
    count, n_judges = len(qs), len(qs[0].sharing)
    verdicts, design, _, variant = kind.as_batch(qs, shared=True, dtype="float64")
    # The coefficient is free whatever the variant says of it.
    said = np.array(variant.c).reshape(count, -1, n_judges)
    said[np.arange(count), covariate, judge] = False
    variant = dataclasses.replace(variant, c=jnp.asarray(said.reshape(variant.c.shape)))
    which = map(jnp.asarray, (covariate, judge))
    return jax.device_get(estimates(verdicts, design, variant, *which))


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
    out, fates = estimated(kind, qs, covariate, judge), []
    for i, (q, column) in enumerate(zip(qs, columns, strict=True)):
        z, (shown, wins), free = q.design_matrix(), q.counts(), q.free()
        free[column] = True
        fates.append(problems.fate(z[:, free], shown, wins, int(free[:column].sum())))
        assert out.status[i] in problems.STATUS[fates[i]]
        nobody = not shown[np.abs(z[:, column]) > 0].any()
        assert (out.status[i] == Status.NO_VERDICTS) <= nobody
        if fates[i] != "exists":
            assert np.isnan([out.c[i], out.low[i], out.high[i]]).all()
            continue
        one = jax.tree.map(lambda v, i=i: v[i], out)
        problems.check_estimate(one, z, shown, wins, free, column)
    assert set(fates) == set(problems.STATUS)
    if kind is problems:  # some exist although the estimates of the qualities do not
        lonely = [q.kind in ("separated", "disconnected") for q in qs]
        assert (np.array(lonely) & (np.array(fates) == "exists")).sum() > 2
