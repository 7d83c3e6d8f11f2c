"""Ranks, null directions and prior-free estimates of random problems of one judge and of several,
beside singular values, linear programming and a slow optimum."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
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


@pytest.mark.parametrize(("kind", "count"), [(problems, 18), (panels, 12), heavy(panels, 120)])
def test_rank_and_directions_agree_with_an_svd(kind, count, x64):
    qs, nullities = [kind.any_problem(seed) for seed in range(count)], set()
    verdicts, design, _, variant = kind.as_batch(qs, shared=True, dtype="float64")
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
    assert len(nullities) > 2


@jax.jit
@jax.vmap
def estimates(verdicts, design, variant, covariate, judge, start):
    return identifiability.estimate_bias(
        verdicts, design, covariate=covariate, judge=judge, variant=variant, start=start
    )


# The slowest problem of a batch holds up the others: those of the first panels are quick.
@pytest.mark.parametrize(
    ("kind", "seed", "count"),
    [
        heavy(problems, 5000, 80),
        *(heavy(panels, seed, 16) for seed in (27000, 0, 1000)),
    ],
)
def test_the_estimate_is_that_of_slow_fits_and_exists_where_it_can(kind, seed, count, x64):
    drawn = (q for q in map(kind.any_problem, itertools.count(seed)) if q.items.d > 0)
    qs, value = list(itertools.islice(drawn, count)), 0.4
    n_judges = len(qs[0].sharing)
    covariate = np.arange(count) % np.array([q.items.d for q in qs])
    judge = np.arange(count) % n_judges
    verdicts, design, _, variant = kind.as_batch(qs, shared=True, dtype="float64")
    # The coefficient is free whatever the variant says of it.
    said = np.array(variant.c).reshape(count, -1, n_judges)
    said[np.arange(count), covariate, judge] = False
    variant = dataclasses.replace(variant, c=jnp.asarray(said.reshape(variant.c.shape)))
    start = jax.vmap(Parameters)(
        jnp.zeros((count, problems.M)),
        *(jnp.full(of.shape, value) for of in (variant.c, variant.kappa)),
    )
    out = jax.device_get(
        estimates(verdicts, design, variant, *map(jnp.asarray, (covariate, judge)), start)
    )
    fates, unsettled = [], out.status == Status.NOT_CONVERGED
    assert unsettled.sum() <= (kind is panels and seed != 27000)  # optima at infinity take steps
    for i, q in enumerate(qs):
        column = q.items.m + covariate[i] * n_judges + judge[i]
        z, (shown, wins), free = q.design_matrix(), q.counts(), q.free()
        free[column] = True
        fates.append(problems.fate(z[:, free], shown, wins, int(free[:column].sum())))
        assert out.status[i] in problems.STATUS[fates[i]] or unsettled[i]
        nobody = not shown[np.abs(z[:, column]) > 0].any()
        assert (out.status[i] == Status.NO_VERDICTS) <= nobody
        if fates[i] != "exists" or unsettled[i]:
            assert np.isnan([out.c[i], out.low[i], out.wald_high[i]]).all()
            continue
        known = np.where(np.arange(len(free)) < q.items.m, 0, value)
        one = jax.tree.map(lambda v, i=i: v[i], out)
        problems.check_estimate(one, z, shown, wins, free, column, known)
    assert seed not in (5000, 27000) or set(fates) == set(problems.STATUS)
    if kind is problems:  # some exist although the estimates of the qualities do not
        lonely = [q.kind in ("separated", "disconnected") for q in qs]
        assert (np.array(lonely) & (np.array(fates) == "exists")).sum() > 2
