"""The sweep on regions of judges: what it simulates, its table, bad settings."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.run import table_of
from jbt.simulation.simulate import simulate
from jbt.twins import regions
from sweeps import judge_regions
from sweeps.judge_regions import ALL, ESTIMATORS, PRESETS, SWEEP

SMALL = dataclasses.replace(PRESETS["smoke"], judge=("llama", "qwen"), budget=(120,)).decided()


def invented(s) -> xr.Dataset:
    """Recall of Llama's two members: top_k_aware 0.8 and 0.5, random 0.2 below; Qwen's alike, 0.1
    above."""
    groups = judge_regions.groups(s)
    labels = {k: [v for g in groups for v in g.labels[k]] for k in groups[0].labels}
    rows = []
    for judge, member, rule in zip(labels["judge"], labels["member"], labels["rule"], strict=True):
        level = (0.5 if member else 0.8) + 0.1 * (judge == "qwen")
        level -= 0.2 * (rule not in ("top_k_aware", "bias_aware"))
        at = [np.nan, level] if rule in ESTIMATORS else [level, np.nan]
        rows.append(np.tile(np.array(at)[:, None], (s.n_seeds, 1, s.pools)))
    dims = ("condition", SEEDS, "budget", "pool")
    coords = {k: ("condition", v) for k, v in labels.items()} | {"budget": [*s.budget, ALL]}
    noise = np.random.default_rng(0).normal(0, 1e-3, (s.n_seeds, len(s.budget) + 1, s.pools))
    return xr.Dataset({"recall": (dims, np.array(rows) + noise)}, coords)


def test_the_table_has_the_range_over_members():
    table = table_of(SWEEP, invented(SMALL), SMALL)

    def one(quantity, judge, rule="top_k_aware"):
        of = table[(table.quantity == quantity) & (table.judge == judge) & table.member.isna()]
        of = of[of.rule.isna() if rule is None else of.rule == rule]
        (value,) = set(of.estimate)
        return value

    assert one("recall_least", "llama") == pytest.approx(0.5, abs=2e-3)
    assert one("recall_largest", "llama") == pytest.approx(0.8, abs=2e-3)
    assert one("recall_largest", "qwen") == pytest.approx(0.9, abs=2e-3)
    assert one("recall_largest", "llama", "naive") == pytest.approx(0.6, abs=2e-3)
    assert one("delta_least", "llama", "random") == pytest.approx(-0.2, abs=2e-3)
    assert one("above_full_data_largest", "llama") == pytest.approx(0.0, abs=3e-3)
    # The paper's .81 for Llama: the first member's 0.8 is not it, to within 0.01, nor is 0.5.
    assert one("recall_members_consistent", "llama") in (0, 1)
    assert one("delta_members_consistent", "llama", "random") == 2
    assert one("members", "llama", None) == 2
    assert one("members_consistent_with_all", "llama", None) <= 1


@pytest.mark.heavy
def test_all_verdicts_are_those_of_the_regions():
    """The same pools and verdicts as in the search for the members."""
    s = dataclasses.replace(SMALL, pools=6)
    by_name = {group.name: group for group in judge_regions.groups(s)}
    parameters = np.array(
        [[getattr(m, n) for n in regions.BOUNDS] for m in judge_regions.members(s)]
    )
    expected = simulate(regions.observed(), regions.conditions(parameters), range(6))["observed"]
    for name, column in (("naive", 2), ("bias_aware", 3)):
        group = by_name[name]
        found = simulate(group.experiment, group.conditions, range(6))["recall"][..., -1]
        for seed in range(s.n_seeds):
            np.testing.assert_array_equal(found[:, :, seed], expected[:, :, column])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"judge": ("phi",)}, "judge must list some of"),
        ({"rule": ("random",)}, "rule must include top_k_aware"),
        ({"rule": ("top_k_aware", "top_k_aware")}, "lists a name twice"),
        ({"members": 0}, "members must be at least 1, got 0"),
        ({"budget": (870,)}, "budget"),
        ({"lam": 0.0}, "lam"),
    ],
)
def test_bad_settings(changes, problem):
    with pytest.raises(ValueError, match=problem):
        judge_regions.groups(dataclasses.replace(SMALL, **changes))
