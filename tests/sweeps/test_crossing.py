"""The crossing, as it is explored and as its scenario varies."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest
from support.marks import heavy, nightly

from jbt import estimators
from jbt.experiments import run as runs
from jbt.experiments.labelled_arrays import where
from jbt.simulation import pools
from sweeps import crossing
from sweeps._crossing_varied import STYLE, Choices
from tests.support.invented import invented

FEW = dataclasses.replace(crossing.EXPLORED, pools=40, rho=(0.0, 0.4))


def explore(**changes):
    return crossing.explore(FEW, most_items=8, **{"n_items": 8, "k": 2, **changes})


@pytest.fixture
def traces():
    """The names of the programs traced during a test."""
    names = []

    def listen(event, _, **about):
        if "jaxpr_trace" in event:
            names.append(about)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.heavy
def test_one_program_serves_fifty_settings(traces):
    explore()
    rng = np.random.default_rng(0)
    fields = ("bias", "position", "sd", "lam", "lam_b", "discrimination", "completeness")
    traces.clear()
    means = set()
    for n_items in np.resize(range(3, 9), 50).tolist():
        values = dict(zip(fields, rng.uniform(0.3, 1.0, len(fields)).tolist(), strict=True))
        k = int(rng.integers(1, n_items))
        rho = (0.0, float(rng.uniform(0.1, 0.9)))
        explored = explore(n_items=n_items, k=k, rho=rho, **values)
        means.add(tuple(float(values.mean()) for values in explored.results.values()))
    assert traces == []
    assert len(means) == 50


@pytest.mark.heavy
def test_without_padding_it_is_the_run(tmp_path):
    explored = explore(bias=2)
    settings = dataclasses.replace(explored.sweep, bias=2.0, preset="full", out=tmp_path)
    table = runs.run(settings)
    numbers = ["estimate", "ci_low", "ci_high"]
    np.testing.assert_allclose(explored.table[numbers], table[numbers], atol=1e-6)


KINDS = {
    "continuous": {},
    "binary": {"covariate": "binary"},
    "balanced": {"covariate": "binary", "max_correlation": 0.5, "rho": (0.0, 0.1)},
    "bank": {"pool": "statement_bank", "discrimination": 0.3},
}


@pytest.mark.parametrize(
    "kind",
    [
        heavy("continuous"),
        *(nightly(kind) for kind in [*KINDS][1:]),
    ],
)
def test_padding_changes_the_draws_alone(kind):
    """Five items of eight, against pools of five: the same means within 4.5 standard errors."""
    many = dataclasses.replace(FEW, pools=2000, k=2, n_items=5, position=0.5, bias=2.0)
    many = dataclasses.replace(many, **KINDS[kind])
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
        ({"k": True}, "k must be a whole number, got True"),
        ({"bias": "2"}, "bias must be a number, got '2'"),
        ({"bias": (1, 2)}, "bias must be a number"),
        ({"bias": np.nan}, "bias must be finite, got nan"),
        ({"position": np.nan}, "position must be finite, got nan"),
        ({"bias": 1e30}, "bias must lie within"),
        ({"n_items": 5.5}, "n_items must be a whole number"),
        ({"pools": 0}, "pools must"),
        ({"rho": 0.3}, "rho must be several numbers"),
        ({"bais": 1.0}, "no setting 'bais'"),
        ({"n_items": 9}, "n_items must be at most most_items, 8, got 9"),
        ({"sd": 0.0}, "sd must"),
        ({"k": 8}, r"k must lie in 1..7"),
    ],
)
def test_wrong_values_are_told_by_their_names(changes, message):
    with pytest.raises(ValueError, match=message):
        explore(**changes)


@pytest.mark.heavy
def test_grids_of_numpy_and_whole_numbers_pass():
    explored = explore(rho=np.linspace(0, 0.4, 2), bias=np.int64(2))
    assert explored.sweep.rho == (0.0, 0.4)
    assert explored.sweep.bias == 2.0


@pytest.mark.heavy
def test_an_estimator_that_is_registered_later_is_in_it(monkeypatch):
    explore()
    monkeypatch.setitem(estimators.ESTIMATORS, "mine", estimators.naive)
    results = explore().results
    np.testing.assert_array_equal(results["mine_recall"], results["naive_recall"])


@pytest.mark.parametrize(
    ("at", "paper", "said"),
    [
        (
            0.4151,
            [0.45, 0.5],
            "a correlation of 0.415 [0.401, 0.429]; the paper says 0.45 and 0.5.",
        ),
        (0.4151, [np.nan], "a correlation of 0.415 [0.401, 0.429]."),
        (np.nan, [0.45], "does not end at these correlations."),
    ],
)
def test_the_answer_is_the_first_line(at, paper, said):
    rows = [
        {"quantity": "crossing", "estimate": at, "ci_low": 0.4009, "ci_high": 0.4294, "paper": p}
        for p in paper
    ]
    table = pd.DataFrame([{"quantity": "naive_recall", "estimate": 0.5}, *rows])
    assert crossing.Crossing().answer(table).endswith(said)
    assert set(crossing.Crossing().headline(table).quantity) == {"crossing"}


def test_one_choice_at_a_time():
    full = Choices()
    cells = full.cells()
    for covariate in STYLE:
        mine = [c.columns for c in cells if c.columns["covariate"] == covariate]
        assert len(mine) == 7  # the baseline, four choices, two coarser grids
        base = mine[0]
        assert [sum(c[k] != base[k] for k in base) for c in mine] == [0] + [1] * 6
    groups = full.groups()
    assert [g.n_conditions for g in groups] == [4 * 19, 19, 4 * (16 + 19), 16 + 19]
    split = groups[2]
    latent = np.array(split.labels["covariate"]) == "binary_latent"
    named, own = np.array(split.labels["rho"]), split.conditions["rho"]
    np.testing.assert_allclose(own, np.where(latent, pools.BINARY_RHO_MAX, 1) * named)
    assert max(own[latent]) < pools.BINARY_RHO_MAX


def test_the_table_of_choices():
    """A benefit of 0.3 - rho, with probit verdicts 0.5 - rho and a rise at rho = 0.4."""
    one = {"covariate": ("continuous",), "sd": (1.2,), "position": (0.0,), "completeness": (1.0,)}
    s = Choices.at("smoke", pools=40, **one)

    def benefit(labels):
        probit = labels.link == "probit"
        mean = np.where(probit, 0.5, 0.3) - labels.rho + 0.4 * (probit & (labels.rho == 0.4))
        return 0.4 + mean.to_numpy()[:, None] + np.random.default_rng(0).normal(0, 0.01, s.pools)

    table = runs.table_of(s, invented(s, naive_recall=0.4, bias_aware_recall=benefit))

    def only(quantity, **wanted):
        at = {"quantity": quantity, "link": "logit", "every": 1, **wanted}
        (row,) = where(table, **at).itertuples()
        return row

    crossings = where(table, quantity="crossing")
    assert sorted(set(crossings.paper)) == [0.45, 0.5]  # beside every choice
    assert len(crossings) == 2 * 3
    assert only("crossing", paper=0.45).estimate == pytest.approx(0.3, abs=0.01)
    assert only("crossing", paper=0.45, every=2).estimate == pytest.approx(0.3, abs=0.01)
    rises = only("largest_increase", link="probit")
    assert rises.ci_low <= 0.2 + 1e-9
    assert rises.estimate == pytest.approx(0.2)
    assert only("largest_increase").ci_high < 0
