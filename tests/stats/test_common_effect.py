"""The covariance under a common effect of clusters: against dense matrices, and by simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from jbt.estimators import clusters
from jbt.kernel.fit import fit_map
from jbt.stats.common_effect import common_effect
from jbt.stats.row_jackknife import jackknife, planned_degrees
from jbt.types import Design, Prior, Rows, Variant

M, PRIOR = 6, Prior(0.5, 0.1)
fit = jax.jit(fit_map)


def drawn(seed, n_clusters=4, each=60, sd=0.0):
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), each)
    first = rng.integers(0, M, len(cluster))
    second = (first + rng.integers(1, M, len(cluster))) % M
    x = rng.normal(size=(len(cluster), 1))
    theta = np.linspace(0.8, -0.8, M) + sd * rng.normal(size=(n_clusters, M))
    logit = theta[cluster, first] - theta[cluster, second] + 0.5 * x[:, 0] + 0.2
    won = (rng.random(len(cluster)) < expit(logit)).astype(float)
    return Rows.build(first, second, x, won), cluster


def fitted(rows):
    design, variant = Design.of_contents(M, 1), Variant(jnp.ones(1, bool), jnp.asarray(True))
    mode = fit(rows, design, PRIOR, variant).parameters
    return mode, clusters.inverse_hessian(mode, rows, design, PRIOR, variant)


def dense(rows, cluster, mode):
    """Scores and information [clusters, P, ...] on the explicit design matrix."""
    z = np.eye(M)[np.asarray(rows.first)] - np.eye(M)[np.asarray(rows.second)]
    z = np.column_stack([z, rows.difference, rows.ordered])
    p = expit(z @ mode.as_numpy())
    parts = [z[cluster == g] for g in range(cluster.max() + 1)]
    weights = [(p * (1 - p))[cluster == g] for g in range(cluster.max() + 1)]
    left = [(np.asarray(rows.wins) - p)[cluster == g] for g in range(cluster.max() + 1)]
    scores = np.stack([a.T @ r for a, r in zip(parts, left, strict=True)])
    return scores, np.stack([(a.T * w) @ a for a, w in zip(parts, weights, strict=True)])


def test_it_equals_dense_matrices(x64):
    rows, cluster = drawn(0, sd=0.8)
    mode, inverse = fitted(rows)
    alone = jackknife(inverse, mode, rows, cluster)
    found = common_effect(inverse, mode, rows, cluster, alone)

    scores, information = dense(rows, cluster, mode)
    g, p = scores.shape
    # All residual scores as one vector: those of all clusters, less what fitting takes.
    remove = np.eye(g * p) - np.vstack(information) @ inverse @ np.tile(np.eye(p), g)
    residual = (remove @ scores.ravel()).reshape(g, p)[:, :M]
    theta = np.diag([1.0] * M + [0.0, 0.0])

    def expected(extra):
        block = np.zeros((g * p, g * p))
        for i, part in enumerate(information):
            block[i * p : i * p + p, i * p : i * p + p] = part @ theta @ part if extra else part
        diagonal = np.diagonal(remove @ block @ remove.T).reshape(g, p)[:, :M]
        return (diagonal / information[:, range(M), range(M)]).sum()

    observed = (residual**2 / information[:, range(M), range(M)]).sum()
    variance = (observed - expected(False)) / expected(True)
    assert variance > 0.1
    assert found.sd == pytest.approx(np.sqrt(variance), rel=1e-9)
    meat = information.sum(0) + variance * sum(part @ theta @ part for part in information)
    covariance = inverse @ meat @ inverse
    for d in (M, M + 1):  # c and kappa have at least the jackknife's variance
        columns = sum(np.outer(part[:, d], part[d]) for part in information)
        added = inverse @ columns @ inverse
        missing = alone.covariance[d, d] - covariance[d, d]
        covariance = covariance + max(0, missing / added[d, d]) * added
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8, atol=1e-12)
    assert (np.diagonal(found.covariance)[M:] >= np.diagonal(alone.covariance)[M:] - 1e-12).all()
    assert 5 < found.df < g * M


def test_the_common_sd_is_that_of_the_flattened_logits(x64):
    """Of 20 studies with 30 clusters and one sd; 4 standard errors. Averaged over effects, logits
    shrink by 1 / sqrt(1 + 0.346 v), v = 2 sd^2 their variance, and sd with them."""
    for sd in (0.0, 0.8):
        squares = []
        for seed in range(20):
            rows, cluster = drawn(seed, 30, 60, sd)
            mode, inverse = fitted(rows)
            alone = jackknife(inverse, mode, rows, cluster)
            squares.append(common_effect(inverse, mode, rows, cluster, alone).sd ** 2)
        error = np.std(squares) / np.sqrt(len(squares))
        flattened = sd**2 / (1 + 0.346 * 2 * sd**2)
        # Estimates are cut at 0.
        assert abs(np.mean(squares) - flattened) <= 4 * error + 0.02


def test_planned_degrees_of_copies_are_those_of_the_copied_rows(x64):
    rows, cluster = drawn(1)
    mode, inverse = fitted(rows)
    first, second = (np.tile(np.asarray(v), 3) for v in (rows.first, rows.second))
    x, won = np.tile(np.asarray(rows.difference), (3, 1)), np.tile(np.asarray(rows.wins), 3)
    copied = Rows.build(first, second, x, won)
    own = np.concatenate([cluster + 4 * i for i in range(3)])
    _, information = dense(rows, cluster, mode)
    precision = np.diag([0.5] * M + [0.1] * 2)
    wider = np.linalg.inv(3 * information.sum(0) + precision)
    copies = planned_degrees(wider, mode, rows, cluster, 3.0)
    np.testing.assert_allclose(copies, jackknife(wider, mode, copied, own).planned, rtol=1e-9)
    once = planned_degrees(inverse, mode, rows, cluster, 1.0)
    np.testing.assert_allclose(once, jackknife(inverse, mode, rows, cluster).planned, rtol=1e-9)
