"""Sweeps over recorded verdicts: pools that are data, and the three studies on small tables of the
same form, whose answers we know."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from jbt import stats
from jbt.experiments import plots
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import main, run
from jbt.simulation import simulate
from sweeps import alpaca_eval, llmbar, real_judges
from sweeps._shared.recorded import Answers, Recorded

# --- recorded pools in the machinery


def own_row(key, condition, pool):
    return {"value": pool["value"] * condition["a"], "own": pool["flag"].astype(float)}


VALUES = {"value": np.array([3.0, 1.0, 4.0, 1.5]), "flag": np.array([True, False, True, True])}


def test_an_experiment_takes_its_pool_s_row_of_the_data():
    ids = [2, 0, 3]
    out = simulate.simulate(own_row, {"a": np.array([1.0, 2.0])}, ids, data=VALUES, chunk=1)
    np.testing.assert_array_equal(out["value"], VALUES["value"][ids][:, None] * [1, 2])
    with pytest.raises(ValueError, match="no data for pool 4: there are 4"):
        simulate.simulate(own_row, {"a": np.ones(1)}, [4], data=VALUES)


@dataclass(frozen=True, kw_only=True)
class Numbers(RecordedSweep):
    """Values of a file."""

    name = "numbers"
    files = ("values.csv",)
    columns = ("place",)

    def groups(self):
        values = np.atleast_1d(np.loadtxt(self.file("values.csv")))
        labels = {"place": [f"p{i}" for i in range(len(values))]}
        data = {"value": values, "flag": values > 2}
        one = {"a": np.ones(1)}
        return [Group("all", own_row, one, one, 2, len(values), data=data, pool_labels=labels)]

    def table(self, ds, t):
        for place, value in zip(ds["place"].values, ds["value"].values[0], strict=True):
            t.add("value", float(value), place=str(place))

    def figure(self, table):
        return plots.new_figure()[0]


def test_the_data_s_digest_and_not_its_path_is_configuration(tmp_path, capsys):
    here, there, other = (tmp_path / name for name in ("here", "there", "other"))
    for folder, text in ((here, "3\n1\n"), (there, "3\n1\n"), (other, "3\n2\n")):
        folder.mkdir()
        (folder / "values.csv").write_text(text)
    numbers = Numbers(out=tmp_path / "out", data=here)
    table = run(numbers)
    assert table is not None
    assert dict(zip(table.place, table.estimate, strict=True)) == {"p0": 3, "p1": 1}
    run(dataclasses.replace(numbers, data=there))
    with pytest.raises(ValueError, match=r"another configuration: values.csv digest"):
        run(dataclasses.replace(numbers, data=other))


def test_data_that_are_not_there_are_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("JBT_DATA", raising=False)
    for root, said in ((None, "give --data DIR, a folder"), (tmp_path, "csv does not exist")):
        if root:
            monkeypatch.setenv("JBT_DATA", str(root))
        assert main(llmbar.SWEEP, ["--out", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: no data: ")
        assert said in error
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_jackknife_of_a_mean_is_its_t_interval():
    values = np.random.default_rng(0).normal(size=12)
    without_one = (values.sum() - values) / 11
    mean, low, high = stats.jackknife_interval(without_one)
    half = 2.200985 * values.std(ddof=1) / 12**0.5  # t of 11 degrees
    expected = values.mean() + np.array([0, -half, half])
    np.testing.assert_allclose([mean, low, high], expected, rtol=1e-6)


# --- LLMBar


def pairs(folder: Path, n: int = 60) -> llmbar.LLMBar:
    """Two judges and n pairs. Gold prefers the shorter answer of Neighbor, and of Natural the first
    in half of the pairs; `length` always takes the longer, `gold` the better."""
    rng = np.random.default_rng(1)
    verdicts, items, anchors = [], [], []
    for i in range(n):
        subset = ("Natural", "Neighbor")[i % 2]
        pool, words = f"{subset}/{i:03d}", rng.permutation([20, 60]) + rng.integers(0, 20, 2)
        shorter = int(words[1] < words[0])
        better = shorter if subset == "Neighbor" else i // 2 % 2
        items += [(pool, f"output_{k + 1}", words[k], 0) for k in (0, 1)]
        anchors.append((pool, f"output_{better + 1}", f"output_{2 - better}"))
        for judge, picked in (("length", 1 - shorter), ("gold", better)):
            for first in (0, 1):
                names = (f"output_{first + 1}", f"output_{2 - first}")
                verdicts.append((pool, judge, *names, "first" if first == picked else "second"))
    write(folder, verdicts=("pool judge first second winner", verdicts))
    write(folder, items=("pool item words markdown", items))
    write(folder, anchors=("pool better worse", anchors))
    return llmbar.LLMBar(data=folder, out=folder / "out")


def write(folder: Path, **named):
    for name, (columns, rows) in named.items():
        pd.DataFrame(rows, columns=columns.split()).to_csv(folder / f"{name}.csv", index=False)


@pytest.mark.heavy
def test_llmbar_says_who_prefers_length_and_what_correcting_it_buys(tmp_path):
    table = run(pairs(tmp_path))
    assert table is not None

    def estimate(quantity, **labels):
        return where(table, quantity=quantity, **labels).estimate.iloc[0]

    assert estimate("gold_longer", subset="Neighbor") == 0
    assert estimate("prefers_longer", subset="Natural", judge="length") == 1
    assert estimate("agreement", subset="Natural", judge="gold") == 1
    assert estimate("agreement", subset="Neighbor", judge="length") == 0
    learned = {"subset": "Neighbor", "judge": "length"}
    for features in llmbar.FEATURES:
        assert estimate("agreement_corrected", features=features, **learned) == 1
    # The paper's judge is not among these: its numbers stand alone, and nothing is said of them.
    alone = where(table[table.paper.notna()], judge=llmbar.PAPER_JUDGE)
    assert len(alone) == 8
    assert alone[["estimate", "consistent"]].isna().all(axis=None)


def test_a_pair_without_verdicts_counts_for_nothing():
    pair = Answers(
        *(np.zeros(()), np.ones(2, bool), np.arange(2), np.array([[10.0, 0.0], [10.0, 2.0]])),
        *np.zeros((2, 1, 2, 2)),
        np.array([[False, True], [False, False]]),
    )
    out = llmbar.experiment(None, {"judge": 0}, jax.tree.map(jnp.asarray, pair))
    assert np.isnan([out[name] for name in ("score", "agreement", "prefers_longer")]).all()


@pytest.mark.heavy
def test_the_correction_s_weights_are_scipy_s(x64):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 3)) * [0.5, 80, 4]
    gold = (x @ [2, -0.03, 0.1] + rng.logistic(size=40) > 0).astype(float)
    weight = (rng.uniform(size=40) < 0.8).astype(float)
    scale = np.sqrt(weight @ x**2 / weight.sum())

    def loss(u):
        likelihood = weight * np.logaddexp(0, (1 - 2 * gold) * (x @ (u / scale)))
        return likelihood.sum() + (u**2).sum() / 2

    found = llmbar.learned(*map(jnp.asarray, (x, gold, weight)))
    best = minimize(loss, np.zeros(3), tol=1e-12).x / scale
    np.testing.assert_allclose(found, best, rtol=1e-4, atol=1e-6)


@pytest.mark.heavy
def test_no_pair_is_corrected_by_its_own_label():
    """Labels that nothing tells: learning from oneself would agree with all of them."""
    rng = np.random.default_rng(3)
    n = 12
    x, gold = rng.normal(size=(n, n)), rng.integers(0, 2, n).astype(float)
    fold = np.stack([rng.permutation(n) % llmbar.FOLDS for _ in range(20)])

    def right(gold):
        return llmbar.cross_validated(x, gold, fold)

    assert right(gold).mean() < 0.75
    turned = gold.copy()
    turned[0] = 1 - gold[0]
    # Its prediction is as it was.
    np.testing.assert_allclose(right(turned)[0], 1 - right(gold)[0])


# --- real judges


@pytest.mark.heavy
def test_the_c_of_a_question_is_told_by_the_others_alone_and_is_scipys(x64):
    """Three models on eight questions. Item by item nothing tells c."""
    rng, n, left_out = np.random.default_rng(4), 8, 5
    words = np.exp(rng.normal(5, 0.7, (n, 3, 1)))
    shown = np.broadcast_to(1 - np.eye(3), (n, 1, 3, 3))
    wins = shown * rng.integers(0, 2, shown.shape)
    answers = Answers(
        number=np.arange(n),
        mask=np.ones((n, 3), bool),
        content=np.tile(np.arange(3), (n, 1)),
        covariates=words,
        shown=shown,
        wins=wins,
        better=np.tile(np.triu(np.ones((3, 3), bool), 1), (n, 1, 1)),
    )
    recorded = Recorded([*"01234567"], ["judge"], ["good", "fair", "poor"], answers)
    question = jax.tree.map(lambda v: jnp.asarray(v[left_out]), answers)
    experiment = partial(real_judges.RealJudges().experiment, recorded, None, {"judge": 0})
    out = jax.jit(experiment)(question)
    assert float(out["profile_range"]) < 1e-9

    of, _, i, j = np.nonzero(shown)
    of, i, j = (v[of != left_out] for v in (of, i, j))
    x = np.log1p(words[..., 0])
    z = np.column_stack([np.eye(3)[i] - np.eye(3)[j], x[of, i] - x[of, j], np.ones(len(of))])
    won, precision = wins[of, 0, i, j], np.array([1, 1, 1, 0.1, 0.1])

    def loss(beta):
        logit = z @ beta
        return (np.logaddexp(0, logit) - won * logit).sum() + (precision * beta**2).sum() / 2

    best = minimize(loss, np.zeros(5), tol=1e-10).x
    assert float(out["c_tied"]) == pytest.approx(best[3], abs=1e-5)


def test_agreement_counts_ties_as_halves():
    better = jnp.array([[False, True, True], [False, False, True], [False, False, False]])
    margin = jnp.array([[0.0, 2.0, 1e-12], [-2.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    assert float(real_judges.agreement_with(better, margin)) == pytest.approx(0.5)
    assert np.isnan(real_judges.agreement_with(jnp.zeros((3, 3), bool), margin))


# --- AlpacaEval

BASE, TERSE, VERBOSE = "a", "a_concise", "a_verbose"
QUALITY = {"baseline": 1.0, BASE: 0.0, TERSE: 0.0, VERBOSE: 0.0, "b": -0.5, "c": 0.5}
LENGTH = {"baseline": 5.0, BASE: 4.5, TERSE: 3.8, VERBOSE: 5.2, "b": 5.0, "c": 4.0}


def board(folder: Path, n: int = 200, c: float = 0.8) -> alpaca_eval.AlpacaEval:
    """Five versions of three models against a baseline; preferences of a judge with bias c."""
    rng = np.random.default_rng(5)
    verdicts, items = [], []
    for i in range(n):
        pool = f"q{i:03d}"
        words = {name: round(np.exp(rng.normal(v, 0.4))) for name, v in LENGTH.items()}
        items += [(pool, name, name, name.partition("_")[0], w, 6 * w) for name, w in words.items()]
        for name in list(QUALITY)[1:]:
            x = np.log1p(words["baseline"]) - np.log1p(words[name])
            share = 1 / (1 + np.exp(-(QUALITY["baseline"] - QUALITY[name] + c * x)))
            verdicts.append((pool, "baseline", name, np.clip(share + rng.normal(0, 0.05), 0, 1)))
    rates = [
        (name, 50.0 + i, 100 / (1 + np.exp(1 - QUALITY[name]))) for i, name in enumerate(QUALITY)
    ]
    write(folder, verdicts=("pool first second p_first", verdicts))
    write(folder, items=("pool item content base_model words chars", items))
    write(folder, leaderboard=("model win_rate length_controlled_winrate", rates[1:]))
    return alpaca_eval.AlpacaEval(data=folder, out=folder / "out")


@pytest.mark.heavy
def test_renderings_and_variation_tell_one_bias_where_there_is_one(tmp_path):
    table = run(board(tmp_path))
    assert table is not None
    c = where(table, quantity="c").set_index("c_from")
    for source in ("variation", "renderings", "both"):
        assert c.estimate[source] == pytest.approx(0.8, abs=0.05)
        assert c.ci_low[source] < c.estimate[source] < c.ci_high[source]
    spread = where(table, quantity="spread", content="a").set_index("c_from").estimate
    assert spread["nothing"] > 0.8
    assert spread["variation"] < 0.1
