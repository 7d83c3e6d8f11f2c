"""The crossing, as it is explored and as its scenario varies."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from support.marks import heavy, nightly

from jbt.experiments import run as runs
from jbt.experiments.labelled_arrays import where
from jbt.simulation import pools
from sweeps import crossing
from sweeps._crossing_varied import BASELINE, Choices
from tests.support.invented import invented

FEW = dataclasses.replace(crossing.EXPLORED, pools=40, rho=(0.0, 0.4))


def explore(**changes):
    return crossing.explore(FEW, most_items=8, **{"n_items": 8, "k": 2, **changes})


@pytest.mark.heavy
def test_without_padding_it_is_the_run(tmp_path):
    explored = explore(bias=2)
    settings = dataclasses.replace(explored.sweep, bias=2.0, preset="full", out=tmp_path)
    table = runs.run(settings)
    numbers = ["estimate", "ci_low", "ci_high"]
    np.testing.assert_allclose(explored.table[numbers], table[numbers], atol=1e-6)


@pytest.mark.parametrize(
    "kind",
    [
        heavy({}),
        nightly({"pool": "statement_bank", "discrimination": 0.3}),
    ],
)
def test_padding_changes_the_draws_alone(kind):
    """Five items of eight, against pools of five: the same means within 4.5 standard errors."""
    many = dataclasses.replace(FEW, pools=2000, k=2, n_items=5, position=0.5, bias=2.0)
    many = dataclasses.replace(many, **kind)
    padded, plain = (crossing.explore(many, most_items=n).results for n in (8, 5))
    assert not np.array_equal(padded["naive_recall"], plain["naive_recall"])
    for name in plain.data_vars:
        a, b = padded[name].values.astype(float), plain[name].values.astype(float)
        error = np.sqrt((a.var(1) + b.var(1)) / 2000)
        assert (np.abs(a.mean(1) - b.mean(1)) <= 4.5 * error).all(), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 2.7}, "k must be a whole number, got 2.7"),
        ({"bias": np.nan}, "bias must lie within .*, got nan"),
        ({"rho": 0.3}, "rho must be several numbers"),
        ({"bais": 1.0}, "no setting 'bais'"),
        ({"n_items": 9}, "n_items must be at most most_items, 8, got 9"),
        ({"k": 8}, r"k must lie in 1..7"),
    ],
)
def test_wrong_values_are_told_by_their_names(changes, message):
    with pytest.raises(ValueError, match=message):
        explore(**changes)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (0.4151, "a correlation of 0.415 [0.401, 0.429]; the paper says 0.45."),
        (np.nan, "does not end at these correlations."),
    ],
)
def test_the_answer_is_the_first_line(at, said):
    row = {"quantity": "crossing", "estimate": at, "ci_low": 0.4009, "ci_high": 0.4294}
    answer = crossing.Crossing().answer(pd.DataFrame([{**row, "paper": 0.45}]))
    assert answer.endswith(said)


def test_a_latent_correlation_is_less_once_it_is_split():
    split = Choices().groups()[2]
    latent = np.array(split.labels["covariate"]) == "binary_latent"
    named, own = np.array(split.labels["rho"]), split.conditions["rho"]
    np.testing.assert_allclose(own, np.where(latent, pools.BINARY_RHO_MAX, 1) * named)


def test_the_table_of_choices():
    """A benefit of 0.3 - rho, with probit verdicts 0.5 - rho and a rise at rho = 0.4."""
    s = Choices.at("smoke", pools=40, covariate=("continuous",))

    def benefit(labels):
        probit = labels.link == "probit"
        mean = np.where(probit, 0.5, 0.3) - labels.rho + 0.4 * (probit & (labels.rho == 0.4))
        return 0.4 + mean.to_numpy()[:, None] + np.random.default_rng(0).normal(0, 0.01, s.pools)

    table = runs.table_of(s, invented(s, naive_recall=0.4, bias_aware_recall=benefit))

    def only(quantity, **wanted):
        at = {"quantity": quantity, **BASELINE, **wanted}
        (row,) = where(table, **at).itertuples()
        return row

    assert only("crossing", paper=0.45).estimate == pytest.approx(0.3, abs=0.01)
    assert only("crossing", paper=0.45, every=2).estimate == pytest.approx(0.3, abs=0.01)
    rises = only("largest_increase", link="probit")
    assert rises.ci_low <= 0.2 + 1e-9
    assert rises.estimate == pytest.approx(0.2)
    assert only("largest_increase").ci_high < 0
