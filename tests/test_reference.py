"""Which pairs a reference is shown, and what it tells beside a cheap judge."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import problems
import pytest

from jbt import estimators, judges, pairs, pools, reference
from jbt.types import Comparisons, Design, Judge, Pool, Prior, Status

N, K = 12, 3

# Compiled once, as each operation would be otherwise.
joint, correlated = jax.jit(reference.joint), jax.jit(reference.correlated)
bias_aware = jax.jit(estimators.bias_aware)


def rankings(naive, aware, content=None, mask=None):
    m = len(naive)
    content = np.arange(m) if content is None else np.asarray(content)
    design = Design.build(np.zeros((len(content), 1)), content, mask, m)
    pool = Pool(jnp.zeros(m), design)
    return reference.Rankings(pool, jnp.asarray(naive, float), jnp.asarray(aware, float), K)


def test_boundary_is_the_places_around_it_by_either_ranking():
    naive, aware = -np.arange(N), -np.roll(np.arange(N), 1)  # aware: item 1 best, ..., item 0 last
    allowed = np.asarray(reference.boundary(rankings(naive, aware)))
    # Boundary after place 3; three places on either side: naive items 0..5, aware items 1..6.
    near = np.isin(np.arange(N), range(7))
    assert (allowed == (near[:, None] & near & ~np.eye(N, dtype=bool))).all()


def test_disputed_pairs_are_ordered_differently():
    naive, aware = np.array([3.0, 2, 1, 0]), np.array([3.0, 1, 2, 2])
    allowed = np.asarray(reference.disputed(rankings(naive, aware)))
    want = np.zeros((4, 4))
    for i, j in ((1, 2), (1, 3)):  # 2 and 3 are tied in one ranking
        want[i, j] = want[j, i] = 1
    assert (allowed == want).all()
    assert not np.asarray(reference.disputed(rankings(naive, 2 * naive))).any()


def test_neither_padding_nor_renderings_of_one_content_are_shown():
    content, mask = [0, 1, 2, 3, 0, 1], [True] * 5 + [False]
    r = rankings([3.0, 2, 1, 0], [0.0, 1, 2, 3], content, mask)
    for place in reference.PLACEMENTS.values():
        allowed = np.asarray(place(r))
        assert not allowed[5].any()
        assert not allowed[:, 5].any()
        assert allowed[0, 4] == allowed[4, 0] == 0
        assert allowed[0, 1] == allowed[1, 0] == 1
        np.testing.assert_array_equal(allowed, allowed.T)


def test_asked_pairs_are_nested_and_none_twice():
    allowed = jnp.ones((N, N)) - jnp.eye(N)
    key = jax.random.key(0)
    each = [np.asarray(reference.asked(jax.random.clone(key), allowed, n)) for n in (0, 5, 30, 500)]
    assert [v.sum() for v in each] == [0, 5, 30, N * (N - 1)]
    for few, many in itertools.pairwise(each):
        assert (few <= many).all()
    assert all(v.max(initial=0) <= 1 for v in each)
    none = reference.asked(jax.random.clone(key), jnp.zeros((N, N)), 5)
    assert not np.asarray(none).any()


@pytest.fixture(scope="module")
def judged():
    """A pool whose quality goes with the covariate, on all of whose pairs both judges answered."""
    key = jax.random.key(1)
    one, two, three = jax.random.split(key, 3)
    pool = pools.gaussian(one, N, rho=jnp.asarray(0.7))
    every = pairs.every_pair(pool)
    cheap, trusted = (
        judges.reveal(judges.frozen_draw(k, pool, judge), every)
        for k, judge in (
            (two, Judge(jnp.full(1, 1.5), 0.3)),
            (three, Judge(jnp.zeros(1), 0.0, 2.0)),
        )
    )
    return pool, cheap, trusted


def test_without_reference_verdicts_joint_is_the_bias_aware_model(judged):
    pool, cheap, trusted = judged
    nothing = jax.tree.map(jnp.zeros_like, trusted)
    both = joint(reference.beside(cheap, nothing, 2.0), pool.design, Prior())
    alone = bias_aware(cheap, pool.design, Prior())
    assert both.status == Status.CONVERGED
    np.testing.assert_allclose(both.parameters.theta, alone.parameters.theta, atol=2e-4)
    np.testing.assert_allclose(both.parameters.c[:, 0], alone.parameters.c, atol=2e-4)
    assert not np.asarray(both.parameters.c[:, 1]).any()
    assert both.parameters.kappa[1] == 0
    mixed = reference.mixed(cheap, nothing)
    np.testing.assert_array_equal(mixed.wins, cheap.wins)


def test_a_reference_that_saw_everything_tells_the_bias(judged):
    """Which the prior would get wrong where quality goes with the covariate."""
    pool, cheap, trusted = judged
    both = joint(reference.beside(cheap, trusted, 2.0), pool.design, Prior())
    alone = bias_aware(cheap, pool.design, Prior())
    assert abs(both.parameters.c[0, 0] - 1.5) < abs(alone.parameters.c[0] - 1.5)


@pytest.mark.heavy
def test_known_judges_are_those_named(judged):
    pool, cheap, trusted = judged
    panel = reference.beside(cheap, trusted)
    swapped = reference.beside(trusted, cheap)
    last = joint(panel, pool.design, Prior())
    first = joint(swapped, pool.design, Prior(), known=jnp.array([True, False]))
    np.testing.assert_allclose(first.parameters.theta, last.parameters.theta, atol=2e-4)
    np.testing.assert_allclose(first.parameters.c[:, 1], last.parameters.c[:, 0], atol=2e-4)


def test_correlated_quality_is_the_model_written_out(judged, x64):
    """theta = x b + residual: its optimum over residual, b, c and kappa, and its Hessian."""
    pool, *counts = jax.tree.map(lambda v: v if v.dtype == bool else jnp.float64(v), judged)
    trusted = counts[1]
    few = jnp.asarray(np.random.default_rng(0).random((N, N)) < 0.2)
    trusted = jax.tree.map(lambda v: v * few, trusted)
    prior, s = Prior(0.8, 0.2), 2.0
    panel = reference.beside(counts[0], trusted, s)
    fit, covariance = correlated(panel, pool.design, prior)
    assert fit.status == Status.CONVERGED
    x = np.asarray(pool.design.covariates[:, 0])
    x = x - x.mean()
    rows, shown, wins = [], [], []
    for counted, factor, biased in ((counts[0], 1, 1), (trusted, s, 0)):
        for i, j in zip(*np.nonzero(np.asarray(counted.shown)), strict=True):
            e = np.eye(N)[i] - np.eye(N)[j]
            dx = x[i] - x[j]
            rows.append(np.r_[factor * e, factor * dx, biased * dx, biased])
            shown.append(counted.shown[i, j])
            wins.append(counted.wins[i, j])
    precision = np.r_[np.full(N, 0.8), 0.8 * x.var(), 0.2, 0.2]
    free, known = np.ones(N + 3, bool), np.zeros(N + 3)
    data = np.array(rows), np.array(shown), np.array(wins)
    beta, hessian, _ = problems.minimum(*data, precision, free, known)
    read = np.r_["1", np.eye(N), x[:, None], np.zeros((N, 2))]
    found = fit.parameters
    np.testing.assert_allclose(found.theta, read @ beta, atol=1e-8)
    np.testing.assert_allclose(found.c[0], [beta[N + 1], 0], atol=1e-8)
    np.testing.assert_allclose(found.kappa, [beta[N + 2], 0], atol=1e-8)
    exact = np.linalg.inv(hessian)
    np.testing.assert_allclose(covariance[:N, :N], read @ exact @ read.T, atol=1e-8)
    assert covariance[N, N] == pytest.approx(exact[N + 1, N + 1], abs=1e-8)
    assert np.abs(np.asarray(covariance)[N + 1]).max() < 1e-12  # the reference's, known


@pytest.mark.heavy
def test_correlated_quality_does_not_depend_on_the_units(judged):
    pool, cheap, trusted = judged
    panel = reference.beside(cheap, trusted, 2.0)
    one, _ = correlated(panel, pool.design, Prior(lam_b=1e-6))
    hundred = Design.build(100 * pool.design.covariates)
    other, _ = correlated(panel, hundred, Prior(lam_b=1e-6))
    np.testing.assert_allclose(other.parameters.theta, one.parameters.theta, atol=1e-3)
    np.testing.assert_allclose(100 * other.parameters.c, one.parameters.c, atol=1e-3)


def test_correlated_quality_needs_a_content_an_item():
    counts = Comparisons.build(np.ones((4, 4)) - np.eye(4), np.zeros((4, 4)))
    design = Design.build(np.arange(4.0), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="every item is its own content"):
        correlated(reference.beside(counts, counts), design, Prior())
