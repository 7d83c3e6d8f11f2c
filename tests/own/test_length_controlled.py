"""AlpacaEval's length-controlled win rate: against a plain reference, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit
from scipy.stats import t as student

from jbt import cli, own
from jbt.own.baselines.contract import Question
from jbt.own.baselines.duels import Duels
from jbt.own.baselines.length_controlled import fit, length_controlled
from jbt.own.baselines.win_rate_intervals import plausible_ranks
from jbt.types import Prior

LAM, LAM_B = 0.7, 0.3
MODELS = {"A": 0.8, "C": -0.4, "D": 0.1}
OPPONENT = "B"


def written(n_prompts=14, seed=0):
    """Verdicts, some graded, in either order; C is not judged on one prompt, D only on another."""
    rng = np.random.default_rng(seed)
    verdicts, items = [], []
    for prompt in range(n_prompts):
        words = {m: int(rng.integers(20, 200)) for m in (*MODELS, OPPONENT)}
        items += [(f"p{prompt}", m, w) for m, w in words.items()]
        for number, (m, theta) in enumerate(MODELS.items()):
            if (prompt, m) in ((0, "C"), (0, "D"), (1, "A")):
                continue
            p = expit(theta + 0.01 * (words[m] - words[OPPONENT]) + rng.normal())
            share = p if number == 0 else float(rng.random() < p) if number == 1 else 0.5
            sides = (m, OPPONENT, share) if rng.random() < 0.5 else (OPPONENT, m, 1 - share)
            verdicts.append((f"p{prompt}", *sides, 1 + prompt % 2))
    columns = pd.Index(["pool", "first", "second", "p_first", "count"])
    return (
        pd.DataFrame(verdicts, columns=columns),
        pd.DataFrame(items, columns=pd.Index(["pool", "item", "words"])),
    )


def question(verdicts, items, **more):
    tables = own.read(verdicts, items, covariates=["words"])
    more = {"prior": Prior(LAM, LAM_B), **more}
    return Question(tables=tables, covariates=("words",), **more)


def maximise(z, y, w, precision):
    """Ridge logistic regression by SciPy."""

    def objective(b):
        return precision @ b**2 / 2 - w @ (y * log_expit(z @ b) + (1 - y) * log_expit(-z @ b))

    def gradient(b):
        return precision * b - z.T @ (w * (y - expit(z @ b)))

    def hessian(b):
        p = expit(z @ b)
        return (z.T * (w * p * (1 - p))) @ z + np.diag(precision)

    options = {"gtol": 1e-10, "maxiter": 1000}
    start = np.zeros(z.shape[1])
    b = minimize(
        objective, start, jac=gradient, hess=hessian, method="trust-exact", options=options
    ).x
    for _ in range(3):
        b = b - np.linalg.solve(hessian(b), gradient(b))
    assert np.abs(gradient(b)).max() < 1e-11
    return b


def reference(verdicts, items):
    """By model: coefficients, rows at which to predict, and the data of its regression, all from
    the tables and an explicit joint design matrix."""
    words = {(r.pool, r.item): r.words for r in items.itertuples()}
    rows = []
    for r in verdicts.itertuples():
        m, y = (r.second, 1 - r.p_first) if r.first == OPPONENT else (r.first, r.p_first)
        rows.append((r.pool, m, words[r.pool, m] - words[r.pool, OPPONENT], y, r.count))
    frame = pd.DataFrame(rows, columns=pd.Index(["pool", "m", "apart", "y", "w"]))
    for _, group in frame.groupby("m"):
        repeated = np.repeat(group["apart"], group["w"])
        frame.loc[group.index, "t"] = np.tanh(group["apart"] / repeated.std(ddof=1))
    prompts, models = sorted(set(frame["pool"])), sorted(MODELS)
    alone = {p for p in prompts if (frame["pool"] == p).sum() < 2}
    k = len(models)
    joint = np.zeros((len(frame), 2 * k + len(prompts)))
    for i, r in enumerate(frame.itertuples()):
        joint[i, models.index(r.m)] = 1
        joint[i, k + models.index(r.m)] = r.t
        joint[i, 2 * k + prompts.index(r.pool)] = r.pool not in alone
    precision = np.r_[np.full(2 * k, LAM_B), np.full(len(prompts), LAM)]
    gamma = maximise(joint, frame["y"].to_numpy(), frame["w"].to_numpy(float), precision)[2 * k :]
    fits = {}
    for m, group in frame.groupby("m"):
        difficulty = gamma[[prompts.index(p) for p in group["pool"]]]
        z = np.column_stack([np.ones(len(group)), group["t"], difficulty])
        y, w = group["y"].to_numpy(), group["w"].to_numpy(float)
        b = maximise(z, y, w, np.full(3, LAM_B))
        fits[m] = b, z, y, w, group["pool"].to_numpy()
    return fits, dict(zip(prompts, gamma, strict=True)), alone


def test_it_equals_a_plain_reference():
    verdicts, items = written()
    (beside,) = length_controlled(question(verdicts, items))
    fits, _, alone = reference(verdicts, items)
    assert alone == {"p0"}
    found = dict(zip(beside.models, beside.estimate, strict=True))
    coefficients = {entry["model"]: entry for entry in beside.details["coefficients"]}
    for m, (b, z, _, w, _) in fits.items():
        entry = coefficients[m]
        got = [entry["theta"], *entry["phi"], entry["psi"]]
        np.testing.assert_allclose(got, b, atol=1e-8)
        expected = np.average(expit(b[0] + b[2] * z[:, 2]), weights=w)
        assert found[m] == pytest.approx(expected, abs=1e-8)
    assert found[OPPONENT] == 0.5
    assert beside.quantity == "win rate against B"
    assert "the difficulty of 1 of 14 prompts is not identified" in " ".join(beside.notes)
    np.testing.assert_array_equal(
        beside.rank, 1 + (beside.estimate > beside.estimate[:, None]).sum(1)
    )


def test_its_intervals_are_the_jackknife_written_out():
    verdicts, items = written(60)
    (beside,) = length_controlled(question(verdicts, items))
    fits, _, _ = reference(verdicts, items)
    changes, evens = {OPPONENT: np.zeros(60)}, {}
    for m, (b, z, y, w, pools) in fits.items():
        p, at = expit(z @ b), expit(b[0] + b[2] * z[:, 2])
        zero = z * [1, 0, 1]
        hessian = (z.T * (w * p * (1 - p))) @ z + LAM_B * np.eye(3)
        n = len(set(pools))
        changes[m] = np.zeros(60)
        for g in range(60):
            own_rows = pools == f"p{g}"
            if not own_rows.any():
                continue
            mine, rest = z[own_rows], ~own_rows
            part = (mine.T * (w * p * (1 - p))[own_rows]) @ mine
            moved = np.linalg.solve(hessian - part, mine.T @ (w * (y - p))[own_rows])
            slope = (w * at * (1 - at)) @ zero / w.sum()
            without = np.average(at[rest], weights=w[rest]) - slope @ moved
            changes[m][g] = (np.average(at, weights=w) - without) * np.sqrt((n - 1) / n)
        i = beside.models.index(m)
        rate, even = beside.estimate[i], w.sum() ** 2 / np.square(w).sum()
        evens[m] = even
        error = np.sqrt((changes[m] ** 2).sum()) / (rate * (1 - rate))
        ends = expit(logit(rate) + student.ppf([0.025, 0.975], even - 1) * error)
        np.testing.assert_allclose([beside.low[i], beside.high[i]], ends, atol=1e-8)
    # A is better than C by more than their difference's Bonferroni-corrected interval, or not.
    a, c = (beside.models.index(m) for m in "AC")
    half = student.ppf(1 - 0.025 / 3, min(evens["A"], evens["C"]) - 1) * np.linalg.norm(
        changes["A"] - changes["C"]
    )
    assert beside.estimate[a] - beside.estimate[c] > half
    assert beside.rank_low[c] > 1
    assert beside.rank_high[a] < 4
    assert np.isnan(beside.low[beside.models.index(OPPONENT)])


def test_who_is_called_first_does_not_matter():
    verdicts, items = written()
    turned = verdicts.rename(columns={"first": "second", "second": "first"})
    turned["p_first"] = 1 - turned["p_first"]
    (before,), (after,) = (length_controlled(question(v, items)) for v in (verdicts, turned))
    np.testing.assert_allclose(after.estimate, before.estimate, atol=1e-12)


def test_without_a_second_model_there_is_no_difficulty():
    verdicts, items = written()
    alone = verdicts[(verdicts["first"] == "A") | (verdicts["second"] == "A")]
    (beside,) = length_controlled(question(alone, items, against=OPPONENT))
    assert "no prompt has verdicts on two models" in " ".join(beside.notes)
    assert beside.details["coefficients"][0]["psi"] == 0


def test_few_prompts_or_outcomes_have_no_interval():
    verdicts, items = written(40)
    (beside,) = length_controlled(question(verdicts, items))
    assert np.isnan([*beside.low, *beside.rank_low]).all()
    assert any("no interval for A, C, D: fewer than 50 prompts" in note for note in beside.notes)
    n = np.arange(120)
    wins = (n % 2 == 0) & (n < 8) | (n % 4 == 1)  # 4 of model 0, 30 of model 1
    difference = np.sin(n)[:, None]
    duels = Duels("b", n % 2, n // 2, wins.astype(float), np.ones(120), difference, 0)
    few, enough = fit(duels, Prior()).rates
    assert np.isnan(few.interval()).all()
    assert np.isfinite(enough.interval()).all()


def test_a_covariate_that_never_differs_has_no_term():
    n = np.arange(24)
    alike = np.zeros((24, 1))
    duels = Duels("b", n % 2, n // 2, (n % 3 == 0).astype(float), np.ones(24), alike, 0)
    fits = fit(duels, Prior())
    np.testing.assert_array_equal(fits.beta[:, 1], 0)
    assert np.isfinite(fits.beta).all()


def test_ranks_need_two_win_rates_with_an_interval():
    verdicts, items = written(12)
    tables = question(verdicts, items).tables
    duels = Duels.of(tables, 0, ["words"], None, "test")
    low, high = plausible_ranks(fit(duels, Prior()).rates)
    assert np.isnan([low, high]).all()


@pytest.mark.heavy
def test_the_command_shows_it_beside_the_ranking(tmp_path, capsys):
    verdicts, items = written(40)
    paths = tmp_path / "verdicts.csv", tmp_path / "items.csv"
    for frame, path in zip((verdicts, items), paths, strict=True):
        frame.to_csv(path, index=False)
    table = ["--verdicts", str(paths[0]), "--items", str(paths[1]), "--covariates", "words"]
    table += ["--beside", "length_controlled", "--lam", str(LAM), "--lam-b", str(LAM_B)]
    file, out = tmp_path / "board.json", tmp_path / "out"
    assert cli.main(["leaderboard", *table, "--json", str(file), "--out", str(out)]) == 0
    printed, record = capsys.readouterr().out, json.loads(file.read_text())
    assert "length controlled win rate against B" in printed
    (beside,) = length_controlled(question(verdicts, items))
    expected = dict(zip(beside.models, beside.estimate, strict=True))
    rows = pd.read_csv(out / "table.csv").set_index("model")
    for entry in record["models"]:
        name = entry["model"]
        assert entry["length_controlled_estimate"] == pytest.approx(expected[name])
        assert rows.loc[name, "length_controlled_rank"] == entry["length_controlled_rank"]
    assert record["beside"]["length_controlled"]["opponent"] == OPPONENT


def test_wrong_input_is_one_line(tmp_path, capsys):
    verdicts, items = written()
    ring = pd.DataFrame(
        [("p", a, b, 1) for a, b in ("AC", "CD", "DA")],
        columns=pd.Index(["pool", "first", "second", "p_first"]),
    )
    paths = [tmp_path / f"{name}.csv" for name in ("verdicts", "items", "ring")]
    for frame, path in zip((verdicts, items, ring.assign(pool="p2")), paths, strict=True):
        frame.to_csv(path, index=False)
    words = ["--items", str(paths[1]), "--covariates", "words"]
    known = ["--beside", "length_controlled"]
    for number, options, message in (
        (0, ["--beside", "nothing"], "beside must be one of length_controlled"),
        (0, [*words, *known, known[1]], "beside names 'length_controlled' twice"),
        (0, known, "--beside length_controlled needs a covariate to control for"),
        (
            2,
            [*words, *known],
            "needs a common opponent, and no model is in every verdict: --against",
        ),
        (2, [*words, *known, "--against", "B"], "no verdict is against 'B'"),
    ):
        assert cli.main(["leaderboard", "--verdicts", str(paths[number]), *options]) == 2
        (line,) = (s for s in capsys.readouterr().err.splitlines() if s.startswith("error: "))
        assert message in line


def test_two_models_need_a_name_for_the_opponent():
    verdicts, items = written()
    alone = verdicts[(verdicts["first"] == "A") | (verdicts["second"] == "A")]
    with pytest.raises(ValueError, match="two models are in every verdict: --against"):
        length_controlled(question(alone, items))


@pytest.mark.heavy
def test_alpaca_evals_own_win_rates_are_near(data):
    """Theirs have another penalty, another set of models for the difficulty, and characters."""
    folder = data / "alpaca_eval"
    tables = own.read(folder / "verdicts.csv", folder / "items.csv", covariates=["chars"])
    (beside,) = length_controlled(Question(tables=tables, covariates=("chars",)))
    published = pd.read_csv(folder / "leaderboard.csv").set_index("model")
    ours = pd.Series(100 * beside.estimate, index=beside.models)[published.index]
    apart = (ours - published["length_controlled_winrate"]).abs()
    assert apart.mean() < 1.5
    assert apart.max() < 5
    raw = (published["win_rate"] - published["length_controlled_winrate"]).abs()
    assert raw.mean() > 2 * apart.mean()
