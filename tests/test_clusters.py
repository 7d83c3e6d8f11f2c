"""Cluster-robust covariances: against a dense twin, and by what their intervals cover."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from jbt import clusters
from jbt.fit import fit_map
from jbt.laplace import laplace
from jbt.types import Design, Parameters, Prior, Rows, Status, Variant

M, D, EACH = 4, 2, 4
TRUTH = np.array([0.8, 0.2, -0.3, -0.7, 0.5, -0.4, 0.3])
PRIOR = Prior(0.05, 0.05)

fit = jax.jit(fit_map)


def design_and_variant():
    return Design.of_contents(M, D), Variant(jnp.ones(D, bool), jnp.array(True))


def draw(seed, n_clusters):
    """Clusters of verdicts on one pair of answers, all decided by the same draw, which is what a
    judge's repeats may be; and which cluster each is of."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, M, n_clusters)
    second = (first + rng.integers(1, M, n_clusters)) % M
    x = rng.normal(size=(n_clusters, D))
    logit = TRUTH[first] - TRUTH[second] + x @ TRUTH[M : M + D] + TRUTH[-1]
    won = (rng.random(n_clusters) < expit(logit)).astype(float)
    cluster = np.repeat(np.arange(n_clusters), EACH)
    return Rows.build(*(v[cluster] for v in (first, second, x, won))), cluster


def explicit(rows):
    """The design matrix, a row a verdict."""
    identity = np.eye(M)
    owner = identity[np.asarray(rows.first)] - identity[np.asarray(rows.second)]
    return np.column_stack([owner, rows.difference, rows.ordered])


@pytest.mark.heavy
def test_the_sandwich_equals_a_loop_over_clusters(x64):
    rows, cluster = draw(0, 12)
    # Repeats, orders that are not known, padding, and clusters numbered with gaps.
    rng = np.random.default_rng(1)
    n = len(cluster)
    shown = rng.integers(0, 4, n).astype(float)
    share = np.where(rng.random(n) < 0.3, 0.5, np.asarray(rows.wins))
    ordered = rng.random(n) < 0.6
    arrays = (rows.first, rows.second, rows.difference, share)
    rows = Rows.build(*map(np.asarray, arrays), weight=shown, ordered=ordered)
    cluster = 7 * cluster + 3

    design, variant = design_and_variant()
    mode = fit(rows, design, PRIOR, variant).parameters
    inverse = clusters.inverse_hessian(mode, rows, design, PRIOR, variant)
    found = clusters.sandwich(inverse, mode, rows, cluster)

    z, beta = explicit(rows), np.asarray(mode.flat())
    p = expit(z @ beta)
    hessian = np.diag(np.full(M + D + 1, 0.05))
    meat = np.zeros_like(hessian)
    names = [g for g in np.unique(cluster) if shown[cluster == g].any()]
    for g in names:
        score = np.zeros(M + D + 1)
        for r in np.flatnonzero(cluster == g):
            score += z[r] * shown[r] * (share[r] - p[r])
            hessian += shown[r] * p[r] * (1 - p[r]) * np.outer(z[r], z[r])
        meat += np.outer(score, score)
    bread = np.linalg.inv(hessian)
    expected = len(names) / (len(names) - 1) * bread @ meat @ bread
    np.testing.assert_allclose(inverse, bread, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[:M, :M].sum(0), 0, atol=1e-12)  # theta has mean 0
    posterior = laplace(mode, rows, design, PRIOR, variant).covariance()
    np.testing.assert_allclose(inverse, posterior, rtol=1e-9, atol=1e-12)
    # Each has the share of the prior that is left of its information.
    part = clusters.prior_part(inverse, np.full(M + D + 1, 0.05))
    np.testing.assert_allclose(inverse - part, bread @ (hessian - 0.05 * np.eye(M + D + 1)) @ bread)

    along = rng.normal(size=M + D + 1)
    told = [
        sum(shown[r] * p[r] * (1 - p[r]) * (z[r] @ bread @ along) ** 2 for r in np.flatnonzero(of))
        for of in (cluster == g for g in names)
    ]
    number = clusters.effective_number(along[None], inverse, mode, rows, cluster)
    np.testing.assert_allclose(number, np.sum(told) ** 2 / np.sum(np.square(told)), rtol=1e-9)
    weight = shown * p * (1 - p)
    each = np.array([(z[cluster == g, :M] ** 2).T @ weight[cluster == g] for g in names])
    number = clusters.effective_number_of_contents(mode, rows, cluster)
    np.testing.assert_allclose(number, each.sum(0) ** 2 / (each**2).sum(0), rtol=1e-9)


def test_fixed_parameters_and_unseen_contents_do_not_vary(x64):
    rows, cluster = draw(2, 12)
    design = Design(jnp.zeros((M + 1, D)), None, jnp.arange(M + 1) < M, M + 1)
    variant = Variant(jnp.ones(D, bool), jnp.array(False))
    mode = fit(rows, design, PRIOR, variant).parameters
    inverse = clusters.inverse_hessian(mode, rows, design, PRIOR, variant)
    found = clusters.sandwich(inverse, mode, rows, cluster)
    for matrix in (inverse, found):
        assert not matrix[[M, -1]].any()
        assert not matrix[:, [M, -1]].any()


def test_one_cluster_tells_nothing(x64):
    rows, _ = draw(0, 2)
    mode = Parameters(jnp.zeros(M), jnp.zeros(D), jnp.zeros(()))
    with pytest.raises(ValueError, match="needs 2 clusters, got 1"):
        clusters.sandwich(np.eye(M + D + 1), mode, rows, np.zeros(2 * EACH, int))


@pytest.mark.heavy
def test_intervals_cover_where_verdicts_go_together(x64):
    """And those that take verdicts for independent do not."""
    n_clusters, n_studies = 250, 400
    design, variant = design_and_variant()
    drawn = [draw(seed, n_clusters) for seed in range(n_studies)]
    stacked = jax.tree.map(lambda *v: jnp.stack(v), *[rows for rows, _ in drawn])
    many = jax.jit(jax.vmap(lambda rows: fit_map(rows, design, PRIOR, variant)))(stacked)
    assert (np.asarray(many.status) == Status.CONVERGED).all()
    contrast = np.eye(M + D + 1)[[1, 3, 4, 5, 6]]  # two differences of models, c and kappa
    contrast[0, 0] = contrast[1, 2] = -1
    errors = []
    for i, (rows, cluster) in enumerate(drawn):
        mode = jax.tree.map(lambda v, i=i: v[i], many.parameters)
        inverse = clusters.inverse_hessian(mode, rows, design, PRIOR, variant)
        robust = clusters.sandwich(inverse, mode, rows, cluster)
        error = contrast @ (np.asarray(mode.flat()) - TRUTH)
        spread = [np.sqrt(np.diag(contrast @ v @ contrast.T)) for v in (robust, inverse)]
        errors.append(error / spread)
    covered = (np.abs(errors) < stats.t(n_clusters - 1).ppf(0.975)).mean(0)
    noise = np.sqrt(0.95 * 0.05 / n_studies)
    assert (np.abs(covered[0] - 0.95) < 4 * noise).all(), covered[0]
    assert (covered[1] < 0.8).all(), covered[1]


@pytest.mark.heavy
def test_the_bootstrap_agrees_with_the_sandwich(x64):
    rows, cluster = draw(3, 250)
    design, variant = design_and_variant()
    mode = fit(rows, design, PRIOR, variant).parameters
    inverse = clusters.inverse_hessian(mode, rows, design, PRIOR, variant)
    robust = np.sqrt(np.diag(clusters.sandwich(inverse, mode, rows, cluster)))
    given = mode, rows, design, PRIOR, variant, cluster
    draws = clusters.bootstrap(*given, resamples=200, seed=0)
    assert draws.shape == (200, M + D + 1)
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.std(0, ddof=1), robust, rtol=0.25)
    np.testing.assert_array_equal(draws, clusters.bootstrap(*given, resamples=200, seed=0))
    assert (draws != clusters.bootstrap(*given, resamples=200, seed=1)).any()
    # One resample by hand.
    drawn = np.random.default_rng([0, 250]).integers(0, 250, (64, 250))[0]
    again = np.concatenate([np.flatnonzero(cluster == g) for g in drawn])
    resampled = jax.tree.map(lambda v: jnp.asarray(np.asarray(v)[again]), rows)
    expected = fit(resampled, design, PRIOR, variant).parameters.flat()
    np.testing.assert_allclose(draws[0], expected, atol=1e-8)
