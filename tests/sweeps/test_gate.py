"""What the sweep of gates makes of label sets: classes, power, counts, families, the built case."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy.stats import beta

from jbt import gate
from jbt.experiments.table import Table
from jbt.simulation import simulate
from sweeps import gate as sweep
from sweeps._shared.prices import first_reached
from sweeps.gate import pool

SMOKE = pool.PRESETS["smoke"]


@pytest.fixture(scope="module")
def simulated():
    """Pools of the smoke preset, [pool, condition, ...]."""
    (group,) = sweep.SWEEP.groups(dataclasses.replace(SMOKE, noise=()))
    return simulate.simulate(group.experiment, group.conditions, range(12))


@pytest.mark.heavy
def test_recalls_and_rates_belong_together(simulated):
    """Where no label can be discordant nothing is enabled but by the paper's words, and true labels
    of all pairs decide as the counts do."""
    names = pool.decisions(SMOKE.rules)
    rate = simulated["many_enable_rate"][:, :, gate.LABELS.index("pairs"), :, 0]  # all 45 pairs
    right, wrong = simulated["right"], simulated["wrong"]
    np.testing.assert_array_equal(rate[..., names.index("at_least")], right >= wrong)
    np.testing.assert_array_equal(rate[..., names.index("strict")], right > wrong)
    p = gate.p_value(right.astype(int), wrong.astype(int))
    np.testing.assert_array_equal(rate[..., names.index("sign@0.05")], p <= 0.05)
    # A census knows whether recall rises.
    rises = simulated["bias_aware_recall"] > simulated["naive_recall"] + 1e-6
    np.testing.assert_array_equal(simulated["census_rate"], rises)
    same = simulated["census_used"] == 0
    np.testing.assert_allclose(
        simulated["naive_recall"][same], simulated["bias_aware_recall"][same], atol=1e-6
    )
    assert simulated["labels_used"].max() <= SMOKE.n_anchors[-1]
    # Recall rises where a draw of members favours bias-aware.
    ahead = simulated["right_member"] - simulated["wrong_member"]
    np.testing.assert_array_equal(ahead > 1e-6, rises)


def test_labels_needed_lie_on_the_curve():
    used = np.array([[5.0, 10, 20], [5, 10, 20], [5, 10, 20]])
    enabled = np.array([[0.2, 0.6, 1.0], [0.9, 1, 1], [0, 0.1, 0.7]])
    found = first_reached(used, enabled, 0.8)
    np.testing.assert_allclose(found[:2], [15, 5])
    assert math.isnan(found[2])


def test_rates_are_ratios_over_pools_with_the_exact_end_for_none_touched():
    settings = dataclasses.replace(SMOKE, seed=3)
    t = Table(sweep.COLUMNS, settings)
    rng = np.random.default_rng(0)
    enable = rng.uniform(size=(2, 60, 1))
    inside = (rng.random((2, 60)) < 0.5).astype(float)
    sweep.add_rates(t, "enable_rate", enable, inside, [{"rule": "sign"}])
    sweep.add_counts(t, np.zeros((1, 60, 1)), np.ones((1, 60)), [{"rule": "sign"}], 100)
    table = t.frame().set_index("quantity")
    expected = (enable[..., 0] * inside).sum() / inside.sum()
    assert table.estimate["enable_rate"] == pytest.approx(expected)
    assert table.ci_low["enable_rate"] < expected < table.ci_high["enable_rate"]
    assert table.n_pools["enable_rate"] == inside.any(0).sum()
    assert table.estimate["false_enables"] == 0
    assert table.estimate["decisions"] == 6000
    # The paper's bound: none of 60 pools.
    assert table.estimate["cp_upper"] == pytest.approx(beta(1, 60).ppf(0.975))
    assert table.estimate["cp_upper"] == pytest.approx(0.0596, abs=5e-5)


def test_the_size_at_one_half_is_simulated_as_it_is_computed():
    rules = gate.Rules((5, 20, 60), sets=4000)
    found = np.asarray(
        jax.jit(pool.at_one_half, static_argnums=(1, 2))(jax.random.key(0), rules, 4)
    )
    at = pool.decisions(rules).index("sign@0.05")
    for i, labels in enumerate(("disputed", "members")):
        for j, n in enumerate(rules.n_anchors):
            exact = pool.exact_size(labels, n, 0.05)
            assert exact <= 0.05
            spread = math.sqrt(exact * (1 - exact) / rules.sets)
            assert found[i, at, j] == pytest.approx(exact, abs=4 * spread + 1e-9)
    # One at a time it is no more either.
    assert found[:, at + 1].max() <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / rules.sets)


def test_a_family_decides_as_the_sign_test_on_one_label_of_each_pool():
    rng = np.random.default_rng(0)
    critical = gate.critical_values(0.05, 20)
    for right, wrong in ((0.8, 0.2), (0.3, 0.1), (0.2, 0.2)):
        told = rng.multinomial(20, [right, wrong, max(1 - right - wrong, 0)], 20_000)
        rate = (told[:, 0] >= critical[told[:, :2].sum(1)]).mean()
        exact = float(pool.family_rate(np.array(right), np.array(wrong), 20, 0.05))
        assert rate == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))
    assert pool.family_rate(np.zeros(2), np.zeros(2), 20, 0.05).tolist() == [0, 0]
    certain = pool.family_rate(np.array([1 + 1e-12]), np.array([1e-12]), 20, 0.05)
    assert certain[0] == pytest.approx(1)
    rho = np.array([0.0, 0.2, 0.4])
    assert pool.family_weights(rho, 0.2, 0.0).tolist() == [0, 1, 0]
    drawn = np.abs(rng.normal(0.2, 0.3, 20_000)[:, None] - rho).argmin(1)
    np.testing.assert_allclose(
        pool.family_weights(rho, 0.2, 0.3), np.bincount(drawn) / 20_000, atol=0.015
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"judge": ("gpt5",)}, "gpt5"),
        ({"n_anchors": (5, 50), "many": ()}, "n_anchors has 50, but 10 items make 45 pairs"),
        ({"many": (20,)}, "many must increase from at least 21"),
        ({"alpha": (1.0,)}, "alpha must lie above 0 and below 1/2, got 1"),
        ({"alpha": ()}, "alpha must have a level"),
        ({"power": 1.0}, "power must lie between 0 and 1"),
        ({"rho": (0.9,)}, "rho must lie within"),
        ({"sets": 0}, "sets must be at least 1"),
        ({"k": 10}, "k must"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        pool.groups(dataclasses.replace(SMOKE, **changes))
