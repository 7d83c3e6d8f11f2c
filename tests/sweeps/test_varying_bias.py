"""The sweeps on a bias that grows with quality, on spending on two judges, and on length that is
legitimate: what they simulate, and their tables."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy.stats import chi2

from jbt import estimators, twins
from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import run, table_of
from jbt.experiments.work import program_of
from jbt.kernel import metrics
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import simulate, stream
from jbt.types import Prior
from sweeps import legitimate, varying_bias
from sweeps.escalation import Escalation
from sweeps.varying_bias import ALL, VaryingBias
from tests.support.invented import invented

SMALL = VaryingBias.at("smoke", pool=("gaussian",), interaction=(0.0, 1.0))


@pytest.mark.heavy
def test_the_table_has_recall_and_crossings():
    """Counting wins finds 0.5; every other method 0.7 - rho / 2, and 0.1 more where gamma is 1."""
    noise = np.random.default_rng(0).normal(0, 1e-4, SMALL.pools)

    def recall(labels):
        level = 0.7 - labels.rho / 2 + 0.1 * labels.interaction
        level = np.where(labels.model == "naive", 0.5, level)
        return np.array(level)[:, None] + noise

    table = table_of(SMALL, invented(SMALL, recall=recall, status=0))
    local = where(table, model="local", design="unpaired")
    crossing = where(local, quantity="crossing").set_index("interaction").estimate
    assert crossing[0.0] == pytest.approx(0.4, abs=1e-3)
    assert crossing[1.0] == pytest.approx(0.6, abs=1e-3)
    recall = where(local, quantity="recall", rho=0.2)
    assert recall.estimate.tolist() == pytest.approx([0.6, 0.7], abs=1e-3)


@pytest.mark.heavy
def test_methods_are_estimators_of_the_same_verdicts():
    s = dataclasses.replace(SMALL, interaction=(0.5,), pool=tuple(varying_bias.KINDS))
    by_name = {group.name: group for group in s.groups()}
    for model, estimate in (("naive", estimators.naive), ("bias_aware", estimators.bias_aware)):
        group = by_name[f"gaussian-0.4-unpaired-{model}-all"]
        # Both kinds of pool are one program.
        plain = by_name[f"statement_bank-0-unpaired-{model}-all"]
        assert program_of(group) == program_of(plain)
        found = simulate(group.experiment, group.conditions, range(2))
        condition = {
            name: jax.numpy.asarray(v[0] if np.ndim(v) else v, "float32")
            for name, v in group.conditions.items()
        }
        for i in range(2):
            key = jax.random.fold_in(jax.random.key(0), i)
            pool = varying_bias.gaussian(stream(key, "pool"), condition)
            oracle = twins.answers(key, pool, condition)
            verdicts = judges.reveal(oracle, pairs.every_pair(pool))
            fit = estimate(verdicts, pool.design, Prior(1.0, 0.1))
            recall = float(metrics.top_k_recall(fit.parameters.theta, pool.quality, 5))
            assert found["recall"][i, 0] == pytest.approx(recall)


@pytest.mark.heavy
def test_contents_in_both_forms_have_as_many_verdicts():
    key = jax.random.key(1)
    condition = {
        **{"bias": 1.0, "position": 0.0, "discrimination": 1.0, "interaction": 0.0},
        **{"pair_noise": 0.0, "argmax": 0.0, "rho": 0.4},
    }
    condition = {name: jax.numpy.asarray(value) for name, value in condition.items()}
    alone = varying_bias.gaussian(stream(key, "x"), condition)
    both = pools.in_both_forms(alone)
    np.testing.assert_array_equal(both.quality, alone.quality)
    verdicts = varying_bias.verdicts_of(key, both, condition)
    assert float(verdicts.shown.sum()) == ALL
    assert float(verdicts.shown.max()) == 1


# --- a purse for a cheap judge and a reference


@pytest.mark.nightly
def test_what_a_purse_buys():
    strategies, asked = [], []
    for group in Escalation.at("smoke", purse=(25.0, 40.0, 80.0)).groups():
        out = simulate(group.experiment, group.conditions, range(8))
        assert (out["status"] == 0).all()
        strategies += group.labels["strategy"]
        asked.append(out["reference_asked"])
    asked = np.concatenate(asked, 1)  # [pools, conditions, purses]
    which = np.array(strategies)
    assert not asked[:, np.char.startswith(which, "cheap")].any()
    # All of it on the reference, whether or not that is a whole number of refits.
    assert (asked[:, which == "strong_only"] == [2, 4, 8]).all()
    mine = asked[:, which == "escalation"]
    assert ((mine > 0) & (10 * mine <= [25, 40, 80])).all()


# --- legitimate length


def test_distances_are_chi_squared_if_the_condition_is_the_truth():
    rng = np.random.default_rng(1)
    mix, centre = rng.normal(size=(3, 3)), np.array([0.5, 0.6, 0.4])
    pool = centre[:, None] + mix @ rng.normal(size=(3, 20_000))
    printed = centre + rng.normal(size=(500, 25, 3)).mean(1) @ mix.T  # 500 studies of 25 pools
    found = np.array([legitimate.distances(pool[None], p, 25)[0] for p in printed])
    assert found.mean() == pytest.approx(3, abs=4 * np.sqrt(6 / 500) + 0.1)
    assert pytest.approx(chi2.ppf(0.95, 3)) == legitimate.LIMIT
    assert (found > legitimate.LIMIT).mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.0475 / 500))


@pytest.mark.nightly
def test_the_region_of_made_numbers_holds_their_truth(tmp_path, monkeypatch):
    """What is printed made by a judge of the grid at rho = 0.6: that correlation is possible, and
    with as many prompts 0 is not."""
    few = {"rho": (0.0, 0.6), "bias": (0.5,), "discrimination": (0.7,)}
    s = legitimate.Legitimate.at("smoke", pools=1000, out=tmp_path, **few)
    group = s.groups()[1]
    means = simulate(group.experiment, group.conditions, range(5000, 6000))
    made = {name: float(means[name][:, 1].mean()) for name in legitimate.SHOWN}
    task = dataclasses.replace(legitimate.TASKS["nectar"], pools=500, **made)
    monkeypatch.setattr(legitimate, "TASKS", {**legitimate.TASKS, "nectar": task})
    table = run(s)
    at = where(table, task="nectar").set_index("quantity").estimate
    assert (at["rho_least"], at["rho_largest"]) == (0.6, 0.6)
