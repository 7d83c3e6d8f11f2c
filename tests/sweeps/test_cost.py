"""The sweep on costs: prices by hand, its table from known curves."""

import math

import numpy as np
import pytest
from support.invented import invented, only

from jbt import twins
from jbt.acquisition import reports
from jbt.experiments.run import table_of
from sweeps.cost import CHEAP, DEAR, LABELS, REFIT_EVERY, VERDICT_PRICE, Cost

SMALL = Cost.at(pools=12, n_seeds=2, target=(0.6, 0.89, 0.93, 1.0))
CURVES = {(CHEAP, "bias_aware"): 1 / 870, (CHEAP, "naive"): 0.5 / 870, (DEAR, "naive"): 0.01}


def frontiers(s):
    """Recall rises by so much a verdict, up to 1, with every other pool 0.1 above or below; targets
    that are met in every pool: nothing is left open."""
    budget = np.array(reports(s.budget, REFIT_EVERY))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(3, s.pools))

    def steps(labels):
        return np.array(labels.displaced)[:, None, None] * signs

    def recall(labels):
        rates = [CURVES[case] for case in zip(labels.judge, labels.model, strict=True)]
        mean = np.minimum(np.outer(rates, budget), 1)
        return mean[..., None] + 0.1 * (-1) ** np.arange(s.pools)

    def targets(labels):
        aims = np.array([twins.aim_of(twins.known()[judge]) for judge in labels.judge])
        return aims[:, :, None] + 0.1 * steps(labels)

    return invented(s, recall=recall, targets=targets, steps=steps)


@pytest.fixture(scope="module")
def table():
    return table_of(SMALL, frontiers(SMALL))


def test_the_papers_prices_by_hand():
    assert VERDICT_PRICE[CHEAP] == pytest.approx(53.55e-6)  # 293 x 0.15 + 16 x 0.60 a million
    assert VERDICT_PRICE[DEAR] == pytest.approx(526.25e-6)
    assert pytest.approx(0.14) == LABELS


def test_the_table_of_known_curves(table):
    cheap = {"judge": CHEAP, "model": "bias_aware", "rule": "top_k_aware"}
    dear = {"judge": DEAR, "model": "naive", "rule": "top_k_aware"}
    at = {"quantity": "cost_to_reach", "target": 0.6}
    assert only(table, **cheap, **at).estimate == pytest.approx(0.6 * 870 * 53.55e-6)
    found = only(table, **dear, **at)
    assert found.estimate == pytest.approx(60 * 526.25e-6)
    assert found.ci_low < found.estimate < found.ci_high
    # Never reached: the naive cheap judge ends at 0.5.
    assert math.isnan(only(table, **{**cheap, "model": "naive"}, **at).estimate)
    # Anchors are paid by the pools that share them.
    cheaper = {**cheap, "target": 0.6, "quantity": "times_cheaper"}
    for sharing, labels in ((None, 0.0), (10, 0.014)):
        expected = 60 * 526.25e-6 / (0.6 * 870 * 53.55e-6 + labels)
        found = only(table, **cheaper, n_pools_sharing=sharing)
        assert found.estimate == pytest.approx(expected)
    gated = {"judge": CHEAP, "budget": 120, "n_pools_sharing": 10}
    alone = 120 * 53.55e-6
    total = only(table, **gated, quantity="cost").estimate
    assert total == pytest.approx(alone + 0.014)
    assert only(table, **gated, quantity="overhead").estimate == pytest.approx(total / alone)
    # The best budget of either half of the pools is the last, where both have their mean.
    best = only(table, **cheap, quantity="best_recall")
    assert best.estimate == pytest.approx(1.0)
