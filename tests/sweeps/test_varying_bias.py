"""The sweep on a bias that grows with quality: what it simulates, its table, bad settings."""

import dataclasses

import jax
import numpy as np
import pytest
import xarray as xr

from jbt import estimators, twins
from jbt.acquisition import Loop, Task
from jbt.acquisition.loop import init, look, step
from jbt.experiments.run import table_of
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import simulate, stream
from jbt.types import Prior
from sweeps import varying_bias
from sweeps.varying_bias import ALL, PRESETS, SWEEP

SMALL = dataclasses.replace(
    PRESETS["smoke"], pool=("gaussian",), interaction=(0.0, 1.0), budget=(16,)
)


def invented(s) -> xr.Dataset:
    """Counting wins finds 0.5; every other method 0.7 - rho / 2, and 0.1 more where gamma is 1."""
    groups = varying_bias.groups(s)
    labels = {k: [v for g in groups for v in g.labels[k]] for k in groups[0].labels}
    rho, gamma = np.array(labels["rho"]), np.array(labels["interaction"])
    counting = np.array(labels["model"]) == "naive"
    level = np.where(counting, 0.5, 0.7 - rho / 2 + 0.1 * gamma)
    noise = np.random.default_rng(0).normal(0, 1e-4, s.pools)
    recall = np.repeat((level[:, None] + noise)[:, None], 2, axis=1)
    values = {"recall": (("condition", "budget", "pool"), recall)}
    for name, value in (("c_hat", 1.5), ("interaction_hat", 0.5), ("flat", 0.0), ("status", 0)):
        values[name] = (("condition", "pool"), np.full((len(rho), s.pools), value))
    for name in ("c_covered", "interaction_covered"):
        values[name] = (("condition", "pool"), np.ones((len(rho), s.pools)))
    coords = {k: ("condition", v) for k, v in labels.items()} | {"budget": [*s.budget, ALL]}
    return xr.Dataset(values, coords)


def test_the_table_has_benefits_and_their_crossings():
    table = table_of(SWEEP.like(SMALL), invented(SMALL))
    local = table[(table.model == "local") & (table.design == "unpaired")]
    crossing = local[local.quantity == "crossing"].set_index("interaction").estimate
    assert crossing[0.0] == pytest.approx(0.4, abs=1e-3)
    assert crossing[1.0] == pytest.approx(0.6, abs=1e-3)
    benefit = local[(local.quantity == "benefit") & (local.rho == 0.2)]
    assert benefit.estimate.tolist() == pytest.approx([0.1, 0.2], abs=1e-3)
    adaptive = table[(table.rule == "top_k_aware") & (table.quantity == "crossing")]
    adaptive = adaptive[(adaptive.model == "bias_aware") & (adaptive.design == "unpaired")]
    assert adaptive.budget.tolist() == [16, 16]
    paired = table[(table.design == "paired") & (table.model == "interaction")]
    assert {"c_hat", "interaction_hat", "c_covered"} <= set(paired.quantity)
    naive = table[(table.model == "naive") & (table.design == "unpaired")]
    assert set(naive.quantity) == {"recall"}


@pytest.mark.heavy
def test_methods_are_estimators_of_the_same_verdicts():
    s = dataclasses.replace(SMALL, interaction=(0.5,))
    by_name = {group.name: group for group in varying_bias.groups(s)}
    group = by_name["gaussian-unpaired-naive-bias_aware-all"]  # of one program
    found = simulate(group.experiment, group.conditions, range(3))
    census = by_name["gaussian-unpaired-census-all"]
    kept = simulate(census.experiment, census.conditions, range(3))["recall"][..., -1]
    cell = 2
    naive, at = cell, cell + census.n_conditions
    condition = {n: jax.numpy.asarray(v[at], "float32") for n, v in group.conditions.items()}
    for i in range(3):
        key = jax.random.fold_in(jax.random.key(0), i)
        pool = varying_bias.drawn("gaussian", key, condition)
        oracle = twins.answers(key, pool, condition)
        verdicts = judges.reveal(oracle, pairs.every_pair(pool))
        recalls = []
        for estimate in (estimators.naive, estimators.bias_aware):
            fit = estimate(verdicts, pool.design, Prior(1.0, 0.1))
            recalls.append(float(metrics.top_k_recall(fit.parameters.theta, pool.quality, 5)))
        assert found["recall"][i, naive, -1] == pytest.approx(recalls[0])
        assert found["recall"][i, at, -1] == pytest.approx(recalls[1])
        assert kept[i, cell] == pytest.approx(max(recalls))
        assert found["c_hat"][i, at] == pytest.approx(float(fit.parameters.c[0]), abs=1e-4)


@pytest.mark.heavy
def test_contents_in_both_forms_have_as_many_verdicts():
    key = jax.random.key(1)
    condition = {
        **{"bias": 1.0, "position": 0.0, "discrimination": 1.0, "interaction": 0.0},
        **{"pair_noise": 0.0, "argmax": 0.0, "rho": 0.4},
    }
    condition = {name: jax.numpy.asarray(value) for name, value in condition.items()}
    alone = varying_bias.drawn("gaussian", stream(key, "x"), condition)
    both = pools.in_both_forms(alone)
    assert both.design.covariates[:, 0].tolist() == [0.0] * 30 + [1.0] * 30
    np.testing.assert_array_equal(both.quality, alone.quality)
    verdicts = varying_bias.verdicts_of(key, both, condition)
    assert float(verdicts.shown.sum()) == ALL
    assert float(verdicts.shown.max()) == 1


@pytest.mark.heavy
def test_qualities_of_one_who_knows_the_growth(x64):
    """Memberships of quality times a factor are the shares of such draws; its variances follow."""
    pool = varying_bias.pools.gaussian(jax.random.key(2), 8, covariate="binary")
    answers = judges.frozen_draw(jax.random.key(3), pool, judges.GATED["llama"])
    loop = Loop("top_k_aware", 3, 20, "frozen")
    task = Task.build(pool, answers)
    state, _ = step(init(jax.random.key(4), task, loop), task, loop)
    view = look(state, task, loop)
    scale = np.linspace(0.3, 1.5, 8)
    seen = varying_bias.of_scaled_quality(view, jax.numpy.asarray(scale))
    n = 20_000
    z = np.random.default_rng(0).normal(size=(n, len(view.posterior.root)))
    draws = scale * (
        np.asarray(view.posterior.mean.theta) + z @ np.asarray(view.posterior.root)[:, :8]
    )
    share = (np.argsort(np.argsort(-draws, axis=1), axis=1) < 3).mean(0)
    np.testing.assert_allclose(seen.membership, share, atol=0.05)  # of 64 Sobol points
    differences = draws[:, :, None] - draws[:, None, :]
    np.testing.assert_allclose(seen.difference_variance(), differences.var(0), atol=0.1)
    same = varying_bias.of_scaled_quality(view, jax.numpy.ones(8))
    np.testing.assert_allclose(same.membership, view.membership, atol=0.02)


@pytest.mark.heavy
def test_without_growth_there_is_nothing_to_know():
    by_name = {group.name: group for group in varying_bias.groups(SMALL)}
    recalls = []
    for model in ("known", "bias_aware"):
        group = by_name[f"gaussian-unpaired-{model}-top_k_aware"]
        recalls.append(simulate(group.experiment, group.conditions, range(8))["recall"][..., 0])
    without = np.array(group.labels["interaction"]) == 0
    np.testing.assert_array_equal(recalls[0][:, without], recalls[1][:, without])
    assert (recalls[0] != recalls[1]).any()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rule": ("lucb",)}, "rule must list some of"),
        ({"interaction": (-1.0, 0.0)}, "interaction must be above -1, got -1"),
        ({"pool": ("bank",)}, "pool must list some of"),
        ({"interaction": (1.0, 0.5)}, "interaction"),
        ({"interaction": (float("nan"),)}, "interaction"),
        ({"budget": (870,)}, "budget"),
        ({"n_reference": 0}, "n_reference must be at least 1, got 0"),
        ({"lam_b": -1.0}, "lam_b"),
    ],
)
def test_bad_settings(changes, problem):
    with pytest.raises(ValueError, match=problem):
        varying_bias.groups(dataclasses.replace(SMALL, **changes))
