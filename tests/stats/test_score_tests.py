"""Score tests against Pearson's chi squared, and their level."""

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import sparse, stats

from jbt.stats.score_tests import DRAWS, Residuals


def indicators(values):
    return sparse.csr_array((np.ones(len(values)), (np.arange(len(values)), values)))


def test_the_residuals_of_a_refit_hold_nothing_of_its_columns():
    rng = default_rng(0)
    x = rng.normal(size=(50, 3))
    x[:, 2] = x[:, 0] - x[:, 1]  # columns depend on each other
    fit = Residuals(sparse.csr_array(x), np.ones(50), np.ones(50), rng.uniform(0.1, 0.9, 50))
    left = fit.after_refit(rng.normal(size=(50, 4)))
    np.testing.assert_allclose(x.T @ left, 0, atol=1e-6)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.56)])
def test_two_groups_are_compared_as_by_pearson(shares):
    group = np.repeat([0, 1], 400)
    won = np.concatenate([np.arange(400) < share * 400 for share in shares]) * 1.0
    fit = Residuals(
        sparse.csr_array(np.ones((800, 1))), np.ones(800), won, np.full(800, won.mean())
    )
    counts = [[won[group == g].sum(), 400 - won[group == g].sum()] for g in (0, 1)]
    exact = stats.chi2_contingency(counts, correction=False).pvalue
    for cluster in (None, np.arange(800)):
        p = fit.p_value(indicators(group), default_rng(1), cluster)
        # Ties of the discrete statistic count for the hypothesis.
        assert abs(p - exact) < 4 * np.sqrt(exact * (1 - exact) / DRAWS) + 0.03


def test_the_level_is_kept():
    """Effects of a group are tested across clusters, whose verdicts depend on each other."""
    p, found = [], []
    cluster, group = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
    for seed in range(150):
        rng = default_rng(seed)
        logit = rng.normal(size=40)[cluster]
        for values, effect in ((p, 0.0), (found, 1.0)):
            won = rng.random(240) < 1 / (1 + np.exp(-logit - effect * (group - 2.5) / 2.5))
            mean = np.full(240, won.mean())
            fit = Residuals(sparse.csr_array(np.ones((240, 1))), np.ones(240), won * 1.0, mean)
            values.append(fit.p_value(indicators(group), rng, cluster))
    error = 4 * np.sqrt(0.05 * 0.95 / 150)
    assert (np.array(p) < 0.05).mean() < 0.05 + error
    assert abs(np.mean(p) - 0.5) < 4 * np.sqrt(1 / 12 / 150) + 0.03
    assert (np.array(found) < 0.05).mean() > 0.9


def test_verdicts_of_half_the_weight_give_the_same_p():
    group, p = np.repeat([0, 1], 60), []
    for weight in (1.0, 0.5):
        rng = default_rng(0)
        won = weight * (rng.random(120) < 0.4 + 0.2 * group)
        one = sparse.csr_array(np.ones((120, 1)))
        fit = Residuals(one, np.full(120, weight), won, np.full(120, won.mean() / weight))
        p.append(fit.p_value(indicators(group), rng))
    assert p[0] == p[1] < 1


def test_dependence_within_clusters_is_found_by_independent_draws():
    p = []
    for seed in range(60):
        rng = default_rng(seed)
        cluster = np.repeat(np.arange(40), 6)
        won = rng.random(240) < 1 / (1 + np.exp(-rng.normal(size=40)[cluster]))
        mean = np.full(240, won.mean())
        fit = Residuals(sparse.csr_array(np.ones((240, 1))), np.ones(240), won * 1.0, mean)
        p.append(fit.p_value(indicators(cluster), rng))
    assert (np.array(p) < 0.05).mean() > 0.8
