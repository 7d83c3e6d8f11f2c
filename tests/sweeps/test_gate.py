"""What the sweep of gates makes of label sets: classes, power, counts."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from scipy.stats import beta

from jbt import gate
from jbt.experiments.table import Table
from jbt.simulation import simulate
from sweeps._shared import gate_rows
from sweeps.gate import Gate

SMOKE = Gate.at("smoke")
DIMS = ("judge", "pool", "row")


@pytest.fixture(scope="module")
def simulated():
    """Pools of the smoke preset, [pool, condition, ...]."""
    (group,) = SMOKE.groups()
    return simulate.simulate(group.experiment, group.conditions, range(12))


@pytest.mark.heavy
def test_recalls_and_rates_belong_together(simulated):
    """Where no label can be discordant nothing is enabled but by the paper's words, and true labels
    of all pairs decide as the counts do."""
    true = np.array(SMOKE.groups()[0].labels["noise"]) == 0
    simulated = {name: values[:, true] for name, values in simulated.items()}
    names = [name for name, _ in SMOKE.rules.names]
    rate = simulated["many_enable_rate"][:, :, gate.LABELS.index("pairs"), :, 0]  # all 45 pairs
    right, wrong = simulated["right"], simulated["wrong"]
    np.testing.assert_array_equal(rate[..., names.index("at_least")], right >= wrong)
    np.testing.assert_array_equal(rate[..., names.index("strict")], right > wrong)
    p = gate.p_value(right.astype(int), wrong.astype(int))
    np.testing.assert_array_equal(rate[..., names.index("sign")], p <= 0.05)
    # A census knows whether recall rises.
    rises = simulated["bias_aware_recall"] > simulated["naive_recall"] + 1e-6
    np.testing.assert_array_equal(simulated["census_rate"], rises)
    same = simulated["census_used"] == 0
    np.testing.assert_allclose(
        simulated["naive_recall"][same], simulated["bias_aware_recall"][same], atol=1e-6
    )
    # Recall rises where a draw of members favours bias-aware.
    ahead = simulated["right_member"] - simulated["wrong_member"]
    np.testing.assert_array_equal(ahead > 1e-6, rises)


@pytest.mark.heavy
def test_a_legitimate_covariate_leaves_the_verdicts_as_they_are():
    """Recall of wins alone is the same in every pool; the correction is for another covariate."""
    s = Gate.at("smoke", pool="statement_bank", legitimate="covariate", rho=(0.0, 0.79))
    (group,) = s.groups()
    out = simulate.simulate(group.experiment, group.conditions, range(12))
    naive, aware = (
        out[f"{name}_recall"][:, :4].reshape(-1, 2, 2) for name in ("naive", "bias_aware")
    )
    np.testing.assert_array_equal(naive[..., 0], naive[..., 1])
    assert (aware[..., 0] - naive[..., 0]).mean() > 0 > (aware[..., 1] - naive[..., 1]).mean()


def test_rates_are_ratios_over_pools():
    t = Table(Gate.columns, dataclasses.replace(SMOKE, seed=3))
    rng = np.random.default_rng(0)
    enable = rng.uniform(size=(2, 60, 1))
    inside = (rng.random((2, 60)) < 0.5).astype(float)
    rates, members = (
        xr.DataArray(v, dims=dims) for v, dims in ((enable, DIMS), (inside, DIMS[:2]))
    )
    gate_rows.add_rates(t, rates, members, rule="sign")
    table = t.frame().set_index("quantity")
    expected = (enable[..., 0] * inside).sum() / inside.sum()
    assert table.estimate["enable_rate"] == pytest.approx(expected)
    assert table.ci_low["enable_rate"] < expected < table.ci_high["enable_rate"]


@pytest.mark.heavy
def test_counts_of_a_study_of_the_papers_size():
    t = Table(Gate.columns, dataclasses.replace(SMOKE, seed=3))
    rng = np.random.default_rng(0)
    enable = np.stack([rng.binomial(100, 0.002, (5, 400)) / 100, np.zeros((5, 400))], -1)
    rates = xr.DataArray(enable, {"rule": ("row", ["strict", "sign"])}, DIMS)
    gate_rows.add_study_counts(t, rates, 100)
    rows = t.frame().set_index(["quantity", "rule"]).estimate
    assert rows["study_false_enables", "strict"] == pytest.approx(12 * 100 * enable.sum() / 400)
    touched = (enable[..., 0] > 0).sum(0)
    assert rows["study_pools_touched", "strict"] == pytest.approx(12 * touched.mean())
    assert rows["study_false_enables", "sign"] == rows["study_pools_touched", "sign"] == 0
    # As the paper prints them: none of 60, and 2 of 60.
    assert rows["study_cp_upper", "sign"] == pytest.approx(beta(1, 60).ppf(0.975))
    for count, upper in ((0, 0.060), (2, 0.115)):
        one = np.resize(np.eye(6)[0], 12) * count / 2
        ends = gate_rows.study_upper_ends(one, 5, 0, 12, None)
        drawn = gate_rows.study_sums(one, 0, 12, None)
        of_count = ends[np.isclose(drawn, count)]
        assert len(of_count)
        np.testing.assert_allclose(of_count, upper, atol=5e-4)
