"""Score tests against Pearson's chi squared, and their level."""

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import sparse, stats
from scipy.special import expit

from jbt.stats.score_tests import DRAWS, Residuals


def indicators(values):
    return sparse.csr_array((np.ones(len(values)), (np.arange(len(values)), values)))


CLUSTER, GROUP = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)


def drawn(rng, effect=0.0):
    """Verdicts, won with a chance of their cluster's own, and the effect of their group."""
    logit = rng.normal(size=40)[CLUSTER] + effect * (GROUP - 2.5) / 2.5
    return (rng.random(240) < expit(logit)) * 1.0


def of_mean(won, weight=1.0):
    """Verdicts of a weight beside one chance for all."""
    each = np.ones(len(won))
    return Residuals(
        sparse.csr_array(each[:, None]), weight * each, won, won.mean() / weight * each
    )


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.56)])
def test_two_groups_are_compared_as_by_pearson(shares):
    group = np.repeat([0, 1], 400)
    won = np.concatenate([np.arange(400) < share * 400 for share in shares]) * 1.0
    counts = stats.contingency.crosstab(group, won).count
    exact = stats.chi2_contingency(counts, correction=False).pvalue
    for cluster in (None, np.arange(800)):
        p = of_mean(won).p_value(indicators(group), default_rng(1), cluster)
        # Ties of the discrete statistic count for the hypothesis.
        assert abs(p - exact) < 4 * np.sqrt(exact * (1 - exact) / DRAWS) + 0.03


def test_the_level_is_kept():
    """Of groups of clusters, whose verdicts depend on each other; and effects are found."""
    p, found = (
        np.array(
            [
                of_mean(drawn(rng, effect)).p_value(indicators(group), rng, CLUSTER)
                for rng in map(default_rng, range(150))
            ]
        )
        for effect, group in ((0.0, CLUSTER % 6), (1.0, GROUP))
    )
    error = 4 * np.sqrt(0.05 * 0.95 / 150)
    assert (p < 0.05).mean() < 0.05 + error
    assert abs(p.mean() - 0.5) < 4 * np.sqrt(1 / 12 / 150) + 0.03
    assert (found < 0.05).mean() > 0.9


def test_verdicts_of_half_the_weight_give_the_same_p():
    group, p = np.repeat([0, 1], 60), []
    for weight in (1.0, 0.5):
        rng = default_rng(0)
        won = weight * (rng.random(120) < 0.4 + 0.2 * group)
        p.append(of_mean(won, weight).p_value(indicators(group), rng))
    assert p[0] == p[1] < 1
