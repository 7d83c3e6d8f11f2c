"""What the sweep of gates makes of label sets: classes, power, counts, families, the built case."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy.stats import beta

from jbt import gate, pools, twins
from jbt.experiments.table import Table
from jbt.simulation import simulate
from sweeps import gate as sweep
from sweeps._shared.prices import first_reached
from sweeps.gate import pool

SMOKE = pool.PRESETS["smoke"]


@pytest.fixture(scope="module")
def simulated():
    """Pools of the smoke preset, [pool, condition, ...]."""
    (group,) = sweep.SWEEP.like(dataclasses.replace(SMOKE, noise=())).groups()
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


LEGITIMATE = dataclasses.replace(
    SMOKE, pool="statement_bank", legitimate="covariate", rho=(0.0, 0.79), many=(), noise=()
).decided()


@pytest.mark.heavy
def test_a_legitimate_covariate_leaves_the_verdicts_as_they_are():
    """Recall of wins alone is the same in every pool; the correction is for another covariate."""
    (group,) = sweep.SWEEP.like(LEGITIMATE).groups()
    out = simulate.simulate(group.experiment, group.conditions, range(12))
    n = len(LEGITIMATE.judge)
    naive, aware = (out[f"{name}_recall"].reshape(-1, n, 2) for name in ("naive", "bias_aware"))
    np.testing.assert_array_equal(naive[..., 0], naive[..., 1])
    assert (aware[..., 0] - naive[..., 0]).mean() > 0 > (aware[..., 1] - naive[..., 1]).mean()


@pytest.mark.parametrize("kind", ["gaussian", "statement_bank"])
def test_another_covariate_in_the_place_of_style(kind):
    s = dataclasses.replace(LEGITIMATE, pool=kind, n_items=30, k=5)

    @jax.jit
    @jax.vmap
    def draw(seed, rho):
        condition, key = {"rho": rho}, jax.random.key(seed)
        spurious = pool.drawn(s, key, condition)
        return spurious, pool.with_another_covariate(key, spurious, condition)

    seeds = np.tile(np.arange(20), 2)
    judged, fitted = draw(seeds, jax.numpy.array(np.repeat([0.0, 0.79], 20), float))
    for array in jax.tree.leaves(judged):  # whatever is corrected for, the judge sees one pool
        np.testing.assert_array_equal(array[:20], array[20:])
    np.testing.assert_array_equal(fitted.quality, judged.quality)
    x, style = fitted.design.covariates, judged.design.covariates
    np.testing.assert_array_equal(x[:20], style[:20])
    assert set(np.ravel(style)) == {0, 1}
    correlations = np.asarray(jax.vmap(pools.realised_correlation)(fitted))[20:]
    assert correlations.mean() == pytest.approx(0.79, abs=0.05)
    if kind == "statement_bank":
        assert np.abs(jax.vmap(pools.realised_correlation)(judged)).max() < 0.12


def test_settings_that_depend_on_others():
    assert LEGITIMATE.max_correlation == twins.MAX_CORRELATION
    full = pool.PRESETS["full"].decided()
    assert (full.rho, full.max_correlation) == (pool.CORRELATIONS, None)
    swapped = dataclasses.replace(pool.PRESETS["full"], legitimate="covariate").decided()
    assert (swapped.rho, swapped.max_correlation) == ((0.0, 0.79), None)
    (group,) = sweep.SWEEP.like(dataclasses.replace(LEGITIMATE, interaction=0.5)).groups()
    bias, grows = (group.conditions[name] for name in ("bias", "interaction"))
    assert bias.tolist() == [twins.twin(name).bias for name in group.labels["judge"]]
    assert grows.tolist() == [0.5] * len(bias)


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


def test_counts_of_a_study_of_the_papers_size():
    t = Table(sweep.COLUMNS, dataclasses.replace(SMOKE, seed=3))
    rng = np.random.default_rng(0)
    enable = np.stack([rng.binomial(100, 0.002, (5, 400)) / 100, np.zeros((5, 400))], -1)
    sweep.add_study_counts(t, enable, [{"rule": "strict"}, {"rule": "sign"}], 100)
    rows = t.frame().set_index(["quantity", "rule"]).estimate
    assert rows["study_false_enables", "strict"] == pytest.approx(12 * 100 * enable.sum() / 400)
    touched = (enable[..., 0] > 0).sum(0)
    assert rows["study_pools_touched", "strict"] == pytest.approx(12 * touched.mean())
    assert rows["study_false_enables", "sign"] == rows["study_pools_touched", "sign"] == 0
    # As the paper prints them: none of 60, and 2 of 60.
    assert rows["study_cp_upper", "sign"] == pytest.approx(beta(1, 60).ppf(0.975))
    for count, upper in ((0, 0.060), (2, 0.115)):
        one = np.resize(np.eye(6)[0], 12) * count / 2
        ends = sweep.rows.study_upper_ends(one, 5, 0, 12, None)
        drawn = sweep.rows.study_sums(one, 0, 12, None)
        of_count = ends[np.isclose(drawn, count)]
        assert len(of_count)
        np.testing.assert_allclose(of_count, upper, atol=5e-4)
    naive = [beta(n + 1, 60 - n).ppf(0.975) for n in np.rint(drawn)]
    np.testing.assert_allclose(ends, naive)


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
        ({"margin_share": 0.0}, "margin_share must lie above 0 and at most at 1, got 0"),
        ({"margin_share": 1.5}, "margin_share must lie above 0 and at most at 1, got 1.5"),
        ({"legitimate": "covariate", "rho": (0.0, 1.0)}, "rho must lie within"),
        ({"legitimate": "covariate", "rho": (-0.5, 0.0)}, "rho must increase from at least 0"),
        ({"legitimate": "covariate", "rho": (0.5,)}, "rho must include 0"),
        ({"legitimate": "neither"}, "legitimate must list some of correlation, covariate"),
        ({"pool": "bank"}, "pool"),
        ({"pool": "statement_bank", "sd": 1.0}, "sd has no effect with --pool statement_bank"),
        ({"pool": "statement_bank", "judge": ("gpt5",)}, "judge must list some of llama, .*gpt5"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        pool.groups(dataclasses.replace(SMOKE, **changes))
