"""The sweep on regions of judges: what it simulates, its table, bad settings."""

import dataclasses

import numpy as np
import pytest

from jbt import twins
from jbt.experiments.run import table_of
from jbt.simulation import pairs
from jbt.simulation.simulate import simulate, stream
from jbt.twins import regions
from sweeps.judge_regions import ALL, FULL, SWEEP
from tests.support.invented import invented, only

SMALL = SWEEP.at("smoke", judge=("llama", "qwen"), budget=(120,)).decided()


def results(s):
    """Recall of Llama's two members: top_k_aware 0.8 and 0.5, random 0.2 below; Qwen's alike, 0.1
    above."""

    def level(labels):
        out = np.where(labels.member > 0, 0.5, 0.8) + 0.1 * (labels.judge == "qwen")
        out -= 0.2 * ~labels.rule.isin(["top_k_aware", "bias_aware"])
        out += 0.15 * (labels.rule == "naive_model_random")  # 0.05 below the other rule
        return np.array(out)[:, None, None, None]

    def runs(labels):
        of_all = labels.rule.isin(FULL).to_numpy()
        known = np.stack([~of_all, of_all], -1)
        return np.where(known[:, None, :, None], level(labels), np.nan)

    noise = np.random.default_rng(0).normal(0, 1e-3, (s.n_seeds, len(s.budget) + 1, s.pools))
    return invented(
        s,
        recall=lambda labels: runs(labels) + noise,
        share_at_boundary=lambda labels: runs(labels) / 4,
    )


def test_the_table_has_the_range_over_members():
    table = table_of(SMALL, results(SMALL))

    def one(quantity, judge, rule="top_k_aware", k=5):
        at = {"quantity": quantity, "judge": judge, "rule": rule, "k": k, "member": None}
        return only(table, **at).estimate

    assert one("recall_least", "llama") == pytest.approx(0.5, abs=2e-3)
    assert one("recall_largest", "qwen") == pytest.approx(0.9, abs=2e-3)
    assert one("recall_largest", "llama", "naive") == pytest.approx(0.6, abs=2e-3)
    assert one("delta_least", "llama", "random") == pytest.approx(-0.2, abs=2e-3)
    # A gain of 0.2, and with the naive model of -0.15.
    assert one("synergy_least", "llama") == pytest.approx(0.35, abs=2e-3)
    assert one("share_at_boundary_largest", "llama", "random") == pytest.approx(0.15, abs=1e-3)
    assert one("above_full_data_largest", "llama") == pytest.approx(0.0, abs=3e-3)
    assert one("members", "llama", None, None) == 2
    assert one("members_consistent_with_rules", "llama", None, None) <= 1


@pytest.mark.nightly
def test_the_unit_makes_as_many_pairs_uncertain_as_the_paper_says():
    member = regions.read()["llama"][3]  # with noise of pairs and items
    conditions = regions.conditions([member], twins.unit(regions.conditions([member])))

    def uncertain(key, condition):
        pool = twins.paper_pool()(stream(key, "pool"), condition)
        p = twins.probability(key, pool, condition)
        return {"share": ((p > 0.2) & (p < 0.8) & (pairs.every_pair(pool) > 0)).sum() / ALL}

    share = simulate(uncertain, conditions, range(64))["share"]
    assert share.mean() == pytest.approx(twins.UNCERTAIN, abs=1e-3)


@pytest.mark.heavy
def test_all_verdicts_are_those_of_the_regions():
    """The same pools and verdicts as in the search for the members."""
    s = dataclasses.replace(SMALL, pools=6)
    by_name = {group.name: group for group in s.groups()}
    expected = simulate(regions.observed, regions.conditions(s.simulated), range(6))["observed"]
    group = by_name["naive-bias_aware"]
    both = simulate(group.experiment, group.conditions, range(6))["recall"][..., -1]
    for found, column in zip(np.split(both, 2, axis=1), (2, 3), strict=True):
        for seed in range(s.n_seeds):
            np.testing.assert_array_equal(found[:, :, seed], expected[:, :, column])
