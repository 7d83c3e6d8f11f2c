"""Sweeps over recorded verdicts: pools that are data, and the three studies on small tables of the
same form, whose answers we know."""

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from jbt import runtime, stats
from jbt.experiments import declare, plots, store
from jbt.experiments.declare import Group, RecordedSweep
from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import main, run
from jbt.kernel.fit import fit_map
from jbt.simulation import simulate
from jbt.types import Design, Prior, Rows, Variant
from sweeps import alpaca_eval, bias_by_quality, llmbar, real_judges
from sweeps._shared.recorded import Answers, read_board

# --- recorded pools in the machinery


def own_row(key, condition, pool):
    return {"value": pool["value"] * condition["a"], "own": pool["flag"].astype(float)}


VALUES = {"value": np.array([3.0, 1.0, 4.0, 1.5]), "flag": np.array([True, False, True, True])}


def test_an_experiment_takes_its_pool_s_row_of_the_data():
    ids = [2, 0, 3]
    out = simulate.simulate(own_row, {"a": np.array([1.0, 2.0])}, ids, data=VALUES, chunk=1)
    np.testing.assert_array_equal(out["value"], VALUES["value"][ids][:, None] * [1, 2])
    np.testing.assert_array_equal(out["own"][:, 0], VALUES["flag"][ids])
    with pytest.raises(ValueError, match="no data for pool 4: there are 4"):
        simulate.simulate(own_row, {"a": np.ones(1)}, [4], data=VALUES)


@pytest.mark.heavy
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

    def figure(self, ds, table):
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
    with store.opened(tmp_path / "out" / "numbers" / store.RESULTS).results() as ds:
        assert ds["place"].values.tolist() == ["p0", "p1"]
        assert str(here) not in ds.attrs["config"]
    run(dataclasses.replace(numbers, data=there))
    with pytest.raises(ValueError, match=r"another configuration: values.csv digest"):
        run(dataclasses.replace(numbers, data=other))
    (here / "values.csv").unlink()
    again = run(dataclasses.replace(numbers, redraw=True))
    assert again is not None
    pd.testing.assert_frame_equal(table, again)  # from the store alone


@pytest.mark.parametrize("module", [llmbar, real_judges, alpaca_eval, bias_by_quality])
def test_data_that_are_not_there_are_one_line(module, tmp_path, monkeypatch, capsys):
    for root, said in ((None, "no data: give --data DIR, a folder with"), (tmp_path, "no data: ")):
        monkeypatch.delenv("JBT_DATA", raising=False)
        if root:
            monkeypatch.setenv("JBT_DATA", str(root))
        assert main(module.SWEEP, ["--out", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert f"error: {said}" in error
        assert ("verdicts.csv does not exist" in error) == bool(root)
        assert "or set JBT_DATA to a folder with these in " in error
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_labels_of_pools_are_one_a_pool():
    group = Group("x", own_row, {"a": np.ones(1)}, {"a": [1.0]}, 2, 4, data=VALUES)
    with pytest.raises(ValueError, match="not one label for each of 4 pools"):
        declare.check_groups([dataclasses.replace(group, pool_labels={"place": ["one"]})])


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
    return llmbar.LLMBar(data=folder, n_seeds=2, out=folder / "out")


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
    for subset in ("Natural", "Neighbor"):
        assert estimate("prefers_longer", subset=subset, judge="length") == 1
        assert estimate("agreement", subset=subset, judge="gold") == 1
    assert estimate("agreement", subset="Neighbor", judge="length") == 0
    learned = {"subset": "Neighbor", "training": "subset", "judge": "length"}
    for features in llmbar.FEATURES:
        assert estimate("agreement_corrected", features=features, **learned) == 1
    # The paper's judge is not among these: its numbers stand alone, and nothing is said of them.
    paper = table[table.paper.notna()]
    assert sorted(paper.paper) == sorted(n.value for n in llmbar.SWEEP.paper())
    alone = where(paper, judge=llmbar.PAPER_JUDGE)
    assert len(alone) == 8
    assert alone.estimate.isna().all()
    assert alone.consistent.isna().all()


def test_a_pair_without_verdicts_counts_for_nothing():
    pair = Answers(
        *(np.zeros(()), np.ones(2, bool), np.arange(2), np.array([[10.0, 0.0], [10.0, 2.0]])),
        *np.zeros((2, 1, 2, 2)),
        np.array([[False, True], [False, False]]),
    )
    out = llmbar.experiment(None, {"judge": 0}, jax.tree.map(jnp.asarray, pair))
    assert np.isnan([out[name] for name in ("score", "agreement", "prefers_longer")]).all()
    assert float(out["gold"]) == 1
    assert float(out["gold_longer"]) == 0.5  # equally long


@pytest.mark.heavy
@pytest.mark.parametrize("lam", [0.01, 10.0])
def test_the_correction_s_weights_are_scipy_s(lam, x64):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 3)) * [0.5, 80, 4]
    gold = (x @ [2, -0.03, 0.1] + rng.logistic(size=40) > 0).astype(float)
    weight = (rng.uniform(size=40) < 0.8).astype(float)
    scale = np.sqrt(weight @ x**2 / weight.sum())

    def loss(u):
        likelihood = weight * np.logaddexp(0, (1 - 2 * gold) * (x @ (u / scale)))
        return likelihood.sum() + lam * (u**2).sum() / 2

    found = llmbar.learned(*map(jnp.asarray, (x, gold, weight, lam)))
    best = minimize(loss, np.zeros(3), tol=1e-12).x / scale
    np.testing.assert_allclose(found, best, rtol=1e-4, atol=1e-6)


@pytest.mark.heavy
def test_no_pair_is_corrected_by_its_own_label():
    """Labels that nothing tells: learning from oneself would agree with all of them."""
    rng = np.random.default_rng(3)
    n = 12
    x, gold = rng.normal(size=(n, n)), rng.integers(0, 2, n).astype(float)
    fold = np.stack([rng.permutation(n) % 4 for _ in range(20)])

    def right(gold):
        return llmbar.cross_validated(x, gold, fold, np.arange(4), 1e-3)

    assert right(gold).shape == (n,)
    assert right(gold).mean() < 0.75
    turned = gold.copy()
    turned[0] = 1 - gold[0]
    # Its prediction is as it was.
    np.testing.assert_allclose(right(turned)[0], 1 - right(gold)[0])


# --- real judges


def questions(folder: Path, n: int = 24) -> real_judges.RealJudges:
    """Three models whose answers vary in length; a judge with a bias of 1.5 for length and 0.8 for
    the first shown, and one without. Humans know the better model."""
    rng = np.random.default_rng(4)
    quality = {"good": 1.0, "fair": 0.0, "poor": -1.0}
    verdicts, items, anchors = [], [], []
    for i in range(n):
        pool, log_words = f"q{i:02d}", dict(zip(quality, rng.normal(5, 0.7, 3), strict=True))
        words = {name: round(np.exp(v)) for name, v in log_words.items()}
        items += [(pool, name, name, words[name]) for name in quality]
        anchors += [
            (pool, *pair) for pair in (("good", "fair"), ("fair", "poor"), ("good", "poor"))
        ]
        for judge, c, kappa in (("biased", 1.5, 0.8), ("fair", 0.0, 0.0)):
            for a, b in itertools.permutations(quality, 2):
                x = np.log1p(words[a]) - np.log1p(words[b])
                logit = quality[a] - quality[b] + c * x + kappa
                won = rng.uniform() < 1 / (1 + np.exp(-logit))
                verdicts += [(pool, judge, a, b, "first" if won else "second")]
    write(folder, verdicts=("pool judge first second winner", verdicts))
    write(folder, items=("pool item content words", items))
    write(folder, anchors=("pool better worse", anchors))
    return real_judges.RealJudges(data=folder, out=folder / "out")


@pytest.mark.nightly
def test_tied_qualities_tell_the_judge_s_biases_and_items_alone_nothing(tmp_path):
    settings = questions(tmp_path)
    table = run(settings)
    assert table is not None
    for quantity, judge, true in (
        ("c", "biased", 1.5),
        ("c", "fair", 0.0),
        ("kappa", "biased", 0.8),
        ("kappa", "fair", 0.0),
    ):
        row = where(table, design="tied", quantity=quantity, judge=judge).iloc[0]
        assert row.ci_low < true < row.ci_high
    flat = where(table, quantity="profile_range_max").estimate
    assert (flat < 1e-9).all()
    assert (where(table, quantity="profile_range", design="tied").estimate > 1).all()
    agreement = where(table, quantity="agreement", judge="biased").set_index(["design", "model"])
    assert agreement.estimate["item", "bias_known"] > agreement.estimate["item", "naive"] + 0.05
    # The c of a question is told by the others alone, and is SciPy's.
    with store.opened(settings.out / "real_judges" / store.RESULTS).results() as ds:
        c = ds["c_tied"].sel(judge="biased").values
    verdicts = pd.read_csv(tmp_path / "verdicts.csv")
    items = pd.read_csv(tmp_path / "items.csv").set_index(["pool", "item"]).words
    own = verdicts[(verdicts.judge == "biased") & (verdicts.pool != "q05")]
    names = ["good", "fair", "poor"]
    z = np.zeros((len(own), 5))
    for row, (pool, a, b) in enumerate(zip(own.pool, own["first"], own["second"], strict=True)):
        z[row, names.index(a)], z[row, names.index(b)] = 1, -1
        z[row, 3:] = np.log1p(items[pool, a]) - np.log1p(items[pool, b]), 1
    won = (own.winner == "first").to_numpy(float)
    precision = np.array([1, 1, 1, 0.1, 0.1])

    def loss(beta):
        logit = z @ beta
        return (np.logaddexp(0, logit) - won * logit).sum() + (precision * beta**2).sum() / 2

    assert c[5] == pytest.approx(minimize(loss, np.zeros(5), tol=1e-10).x[3], abs=1e-5)


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


@pytest.mark.nightly
def test_renderings_and_variation_tell_one_bias_where_there_is_one(tmp_path):
    table = run(board(tmp_path))
    assert table is not None
    c = where(table, quantity="c").set_index("c_from")
    for source in ("variation", "renderings", "a", "both"):
        assert c.estimate[source] == pytest.approx(0.8, abs=0.05)
        assert c.ci_low[source] < c.estimate[source] < c.ci_high[source]
    nats = where(table, quantity="profile_range").set_index("c_from").estimate
    assert nats["both"] > nats["variation"] > 1
    spread = where(table, quantity="spread", content="a").set_index("c_from").estimate
    assert spread["nothing"] > 0.8
    assert spread["variation"] < 0.1
    rank = where(table, quantity="spearman_length_controlled").set_index("c_from").estimate
    assert rank["variation"] > rank["nothing"]


def test_the_board_splits_length_into_versions_and_variation(tmp_path):
    found = read_board(dataclasses.replace(board(tmp_path, 12), pools=5))
    assert found.shown.shape == (5, 5)
    assert {found.versions[v] for v in found.first.ravel()} == {"baseline"}
    assert [found.versions[v] for v in found.families["a"]] == [BASE, TERSE, VERBOSE]
    several = np.isin(found.second, found.families["a"])
    means = np.log(found.mean_words)
    split = found.differences["variation"] + means[found.first] - means[found.second]
    np.testing.assert_allclose(split, found.differences["words"])
    centred = means[found.second] - means[found.families["a"]].mean()
    np.testing.assert_allclose(found.differences["renderings"], -np.where(several, centred, 0))


@pytest.mark.heavy
def test_influence_is_what_leaving_a_prompt_out_changes():
    rng = np.random.default_rng(6)
    n, k = 60, 4
    first, second = np.zeros((n, k), int), np.tile(np.arange(1, k + 1), (n, 1))
    difference, share = rng.normal(size=(n, k, 1)), rng.uniform(size=(n, k))
    with runtime.precision("float64"):
        arrays = (difference, np.zeros((n, k)), np.ones((n, k)), share)
        rows = jax.vmap(Rows)(*map(jnp.asarray, (first, second, *arrays)))
        design, prior = Design.of_contents(k + 1, 1), Prior(0.5, 0.2)
        variant = Variant(jnp.array([True]), jnp.asarray(False))

        def fit(weight):
            weighted = dataclasses.replace(
                rows, shown=rows.shown * weight[:, None], wins=rows.wins * weight[:, None]
            )
            return fit_map(alpaca_eval.flat(weighted), design, prior, variant)

        whole = fit(jnp.ones(n))
        free = jnp.arange(k + 3) < k + 2
        _, influence = alpaca_eval.influence(rows, whole, design, prior, free)
        weights = 1 - 1e-4 * jnp.eye(n)[:3]
        less = jax.device_get(jax.vmap(fit)(weights).parameters)
        influence, whole = jax.device_get((influence, whole))
    theta = (whole.parameters.theta - less.theta) / 1e-4
    c = (whole.parameters.c - less.c) / 1e-4
    centre = influence.mean(0)
    np.testing.assert_allclose(centre, 0, atol=1e-12)
    found = np.asarray(influence)[:3]
    # The pull of the prior, which is shared out evenly, is all that differs.
    np.testing.assert_allclose(found[:, : k + 1], theta, atol=0.02)
    np.testing.assert_allclose(found[:, k + 1], c[:, 0], atol=0.02)
    assert np.abs(found).max() > 0.01
