"""The jackknife over clusters: against a dense twin and explicit refits, and by
what their intervals cover."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from jbt.kernel.fit import fit_map
from jbt.kernel.listed import Listed
from jbt.stats import row_jackknife
from jbt.stats.row_jackknife import Groups
from jbt.types import Design, Parameters, Prior, Rows, Variant

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


def jackknife(mode, rows, cluster, m=M, free=None):
    """The inverse of the Hessian, and the jackknife.

    Args:
      free: a variant, default all are free.
    """
    listed, beta = Listed.of(rows, m), np.asarray(mode.flat())
    free = np.ones(len(beta), bool) if free is None else np.r_[np.ones(m, bool), free.c, free.kappa]
    inverse = listed.inverse_hessian(beta, np.full(len(beta), 0.05), free)
    groups = Groups.of(listed, np.asarray(cluster))
    return inverse, row_jackknife.jackknife(inverse, beta, listed, groups)


def explicit(rows):
    """The design matrix, a row a verdict."""
    identity = np.eye(M)
    owner = identity[np.asarray(rows.first)] - identity[np.asarray(rows.second)]
    return np.column_stack([owner, rows.difference, rows.ordered])


@pytest.mark.heavy
def test_the_jackknife_equals_a_loop_over_clusters(x64):
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
    inverse, found = jackknife(mode, rows, cluster)

    z, beta = explicit(rows), np.asarray(mode.flat())
    p = expit(z @ beta)
    weight, residual = shown * p * (1 - p), shown * (share - p)
    names = [g for g in np.unique(cluster) if shown[cluster == g].any()]
    within = [cluster == g for g in names]
    informations = np.array([(z[of].T * weight[of]) @ z[of] for of in within])
    scores = np.array([z[of].T @ residual[of] for of in within])
    hessian = informations.sum(0) + 0.05 * np.eye(M + D + 1)
    bread = np.linalg.inv(hessian)
    left_out = np.linalg.inv(hessian - informations)
    moves = np.einsum("gpq,gq->gp", left_out, scores)
    expected = (len(names) - 1) / len(names) * moves.T @ moves
    np.testing.assert_allclose(inverse, bread, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.covariance[:M, :M].sum(0), 0, atol=1e-12)  # mean 0
    # Each has the share of the prior that is left of its information.
    part = row_jackknife.prior_part(inverse, np.full(M + D + 1, 0.05))
    np.testing.assert_allclose(inverse - part, bread @ (hessian - 0.05 * np.eye(M + D + 1)) @ bread)

    # Degrees of freedom, of the coefficients.
    for at in range(M, M + D + 1):
        along = left_out[:, :, at]
        pushed = np.einsum("gpq,gq->gp", informations, along)
        part = (pushed * along).sum(1)
        kept = part - np.diagonal(pushed @ bread @ pushed.T)
        planned = kept.sum() ** 2 / (part * kept).sum()
        assert found.planned[at] == pytest.approx(planned, rel=1e-8)
        assert 0 < found.df[at] <= 1.001 * planned


def test_fixed_parameters_and_unseen_contents_do_not_vary(x64):
    rows, cluster = draw(2, 12)
    design = Design(jnp.zeros((M + 1, D)), None, jnp.arange(M + 1) < M, M + 1)
    variant = Variant(jnp.ones(D, bool), jnp.array(False))
    mode = fit(rows, design, PRIOR, variant).parameters
    inverse, found = jackknife(mode, rows, cluster, M + 1, free=variant)
    for matrix in (inverse, found.covariance):
        assert not matrix[[M, -1]].any()
        assert not matrix[:, [M, -1]].any()


def test_one_cluster_tells_nothing(x64):
    rows, _ = draw(0, 2)
    mode = Parameters(jnp.zeros(M), jnp.zeros(D), jnp.zeros(()))
    with pytest.raises(ValueError, match="needs 2 clusters, got 1"):
        jackknife(mode, rows, np.zeros(2 * EACH, int))


@pytest.mark.nightly
def test_one_step_equals_refits_without_each_cluster(x64):
    rows, cluster = draw(4, 60)
    cluster = np.minimum(cluster, 50)  # a sixth of all verdicts in one cluster
    design, variant = design_and_variant()
    mode = fit(rows, design, PRIOR, variant).parameters
    names = np.unique(cluster)
    kept = jnp.asarray(cluster != names[:, None], float)
    without = jax.vmap(
        lambda w: dataclasses.replace(rows, shown=rows.shown * w, wins=rows.wins * w)
    )
    refits = jax.jit(jax.vmap(lambda r: fit_map(r, design, PRIOR, variant).parameters.flat()))
    moved = np.asarray(refits(without(kept))) - np.asarray(mode.flat())
    n = len(names)
    refitted = np.sqrt(np.diagonal((n - 1) / n * moved.T @ moved))
    found = np.sqrt(np.diagonal(jackknife(mode, rows, cluster)[1].covariance))
    np.testing.assert_allclose(found, refitted, rtol=0.03)
