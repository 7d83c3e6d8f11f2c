"""Leaderboards: against SciPy, against what the verdicts identify, and as files."""

import csv
import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from jbt import cli, own
from jbt.own.leaderboards import checks, intervals
from jbt.types import Prior, Status

QUALITY = {"A": 0.8, "B": 0.2, "C": -0.3, "D": -0.7}
BIAS, POSITION = 0.6, 0.4


def simulated(n_pools=40, *, models=QUALITY, judges=("j",), seed=0, length=None, answers=1):
    """A verdicts and an items table: every model answers every prompt, all ordered pairs judged.

    Args:
      length: of an answer, from (rng, model, version); default varies within a model.
      answers: of a model to a prompt.
    """
    rng = np.random.default_rng(seed)
    length = length or (lambda rng, model, version: rng.uniform(50, 150) + 40 * version)
    verdicts, items = [], []
    for pool in range(n_pools):
        each = [(m, v, length(rng, m, v)) for m in models for v in range(answers)]
        for model, version, words in each:
            items.append(f"p{pool},{model}{version or ''},{model},{words:.3f}")
        for judge in judges:
            for a in each:
                for b in each:
                    if a[0] == b[0]:
                        continue
                    logit = models[a[0]] - models[b[0]] + BIAS * (a[2] - b[2]) / 30 + POSITION
                    won = "first" if rng.random() < expit(logit) else "second"
                    names = [f"{m}{v or ''}" for m, v, _ in (a, b)]
                    verdicts.append(f"p{pool},{names[0]},{names[1]},{won},{judge}")
    return (
        "pool,first,second,winner,judge\n" + "\n".join(verdicts) + "\n",
        "pool,item,content,words\n" + "\n".join(items) + "\n",
    )


def ranked(written, *, prior=None, covariates=("words",), **options):
    """The leaderboards of two files."""
    tables = own.read(*written, covariates=covariates)
    return own.leaderboard(tables, covariates, prior=prior, **options)


def scipy_map(z, share, lam, lam_b, n_models):
    """MAP by SciPy on the explicit design matrix, a row a verdict."""
    precision = np.r_[np.full(n_models, lam), np.full(z.shape[1] - n_models, lam_b)]

    def objective(b):
        logit = z @ b
        loss = -(share * log_expit(logit) + (1 - share) * log_expit(-logit)).sum()
        return loss + (precision * b * b).sum() / 2, precision * b - z.T @ (share - expit(logit))

    def hessian(b):
        p = expit(z @ b)
        return (z.T * (p * (1 - p))) @ z + np.diag(precision)

    start = np.zeros(z.shape[1])
    found = minimize(
        objective, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-9}
    )
    assert np.abs(found.jac).max() < 1e-6
    return found.x


@pytest.mark.heavy
def test_it_equals_scipy(tables):
    written = tables(*simulated())
    (board,) = ranked(written, prior=Prior(0.5, 0.2))
    words, models = {}, sorted(QUALITY)
    with written[1].open() as f:
        for row in csv.DictReader(f):
            words[row["pool"], row["item"]] = float(row["words"])
    mean, sd = np.mean(list(words.values())), np.std(list(words.values()))
    z, share = [], []
    with written[0].open() as f:
        for row in csv.DictReader(f):
            sides = row["first"], row["second"]
            x = [(words[row["pool"], s] - mean) / sd for s in sides]
            owner = [(m == sides[0]) - (m == sides[1]) for m in models]
            z.append([*map(float, owner), x[0] - x[1], 1.0])
            share.append(float(row["winner"] == "first"))
    z, share = np.array(z), np.array(share)
    expected = scipy_map(z, share, 0.5, 0.2, len(models))
    naive = scipy_map(z[:, :4], share, 0.5, 0.2, len(models))
    at = [models.index(m) for m in board.models["model"]]
    np.testing.assert_allclose(board.models["theta"], expected[at], atol=1e-6)
    np.testing.assert_allclose(board.models["theta_naive"], naive[at], atol=1e-6)
    assert board.of_kind("c").iloc[0].estimate == pytest.approx(expected[4], abs=1e-6)
    assert board.of_kind("kappa").iloc[0].estimate == pytest.approx(expected[5], abs=1e-6)
    assert board.models["theta"].sum() == pytest.approx(0, abs=1e-9)
    # Well identified by the verdicts: the truth is inside.
    assert board.of_kind("c").iloc[0].low < BIAS * sd / 30 < board.of_kind("c").iloc[0].high
    assert board.of_kind("kappa").iloc[0].low < POSITION < board.of_kind("kappa").iloc[0].high
    assert board.of_kind("c").iloc[0].profile_range > 10
    assert board.coefficients["status"].tolist() == ["converged"] * 2
    assert board.n_clusters == 40
    assert not board.reasons()
    assert board.anchors is None
    assert (board.models["low"] < board.models["theta"]).all()
    assert (board.models["theta"] < board.models["high"]).all()
    np.testing.assert_array_equal(board.models["rank"], [1, 2, 3, 4])
    assert (board.models["rank_low"] <= board.models["rank"]).all()
    assert (board.models["rank"] <= board.models["rank_high"]).all()
    assert (
        board.models["rank_high"][0] < board.models["rank_low"].iloc[-1]
    )  # best and worst differ significantly


@pytest.mark.heavy
def test_alpaca_eval_equals_scipy(data):
    folder = data / "alpaca_eval"
    written = folder / "verdicts.csv", folder / "items.csv"
    tables = own.read(*written, covariates=["words"])
    (board,) = own.leaderboard(tables, ["words"], transform="log1p")
    with written[1].open() as f:
        items = list(csv.DictReader(f))
    length = np.log1p([float(r["words"]) for r in items])
    length = dict(
        zip(
            [(r["pool"], r["item"]) for r in items],
            (length - length.mean()) / length.std(),
            strict=True,
        )
    )
    model = {(r["pool"], r["item"]): r["content"] for r in items}
    with written[0].open() as f:
        verdicts = list(csv.DictReader(f))
    number = {m: i for i, m in enumerate(board.models["model"])}
    z, share = np.zeros((len(verdicts), len(number) + 1)), np.zeros(len(verdicts))
    for i, row in enumerate(verdicts):
        first, second = ((row["pool"], row[side]) for side in ("first", "second"))
        z[i, number[model[first]]] += 1
        z[i, number[model[second]]] -= 1
        z[i, -1] = length[first] - length[second]
        share[i] = float(row["p_first"])
    expected = scipy_map(z, share, 1.0, 0.1, len(number))
    np.testing.assert_allclose(board.models["theta"], expected[:-1], atol=1e-6)
    assert board.of_kind("c").iloc[0].estimate == pytest.approx(expected[-1], abs=1e-6)
    naive = scipy_map(z[:, :-1], share, 1.0, 0.1, len(number))
    np.testing.assert_allclose(board.models["theta_naive"], naive, atol=1e-6)
    assert len(board.models["model"]) == 37
    assert board.of_kind("kappa").empty
    assert board.n_clusters == 805
    assert np.isfinite(
        [
            board.models["low"],
            board.models["high"],
            board.models["rank_low"],
            board.models["rank_high"],
        ]
    ).all()


@pytest.mark.heavy
def test_where_the_prior_chose_there_is_no_interval(tables):
    """A length that belongs to the model cannot be told from its quality."""
    steps = {"A": 60.0, "B": 120.0, "C": 150.0, "D": 90.0}
    (board,) = ranked(tables(*simulated(length=lambda rng, model, version: steps[model])))
    c = board.of_kind("c").iloc[0]
    assert c.status == "flat"
    assert math.isfinite(c.estimate)
    assert math.isnan(c.low)
    assert math.isnan(c.high)
    assert c.profile_range < 1e-6
    assert set(board.models["status"]) == {"flat"}
    for v in (
        board.models["low"],
        board.models["high"],
        board.models["rank_low"],
        board.models["rank_high"],
    ):
        assert np.isnan(v).all()
    assert np.isfinite(board.models["theta"]).all()
    assert np.isfinite(board.models["low_naive"]).all()  # the naive fit is identified all the same
    assert board.of_kind("kappa").iloc[0].status == "converged"
    reasons = board.reasons()
    assert reasons[0].startswith("words: flat")
    assert reasons[1].startswith("theta of every model: flat")
    record = board.record()
    assert record["c"][0]["low"] is None
    assert record["models"][0]["rank"] == 1
    assert record["models"][0]["rank_low"] is None


def test_where_the_prior_outweighs_the_verdicts_there_is_no_interval(tables):
    (board,) = ranked(tables(*simulated()), prior=Prior(1.0, 1e4))
    assert board.coefficients["status"].tolist() == ["prior_selected"] * 2
    assert abs(board.of_kind("c").iloc[0].estimate) < 0.1
    assert math.isnan(board.of_kind("c").iloc[0].low)


def test_too_few_pools_have_no_intervals(tables):
    verdicts, items = (
        "\n".join(
            line if i == 0 else f"p{int(line[1 : line.index(',')]) % 5}{renamed(line)}"
            for i, line in enumerate(text.splitlines())
        )
        for text in simulated()
    )
    (board,) = boards = ranked(tables(verdicts, items))
    assert "jbt plan prompts says how many more prompts" in boards.report("", []).text()
    assert board.n_clusters == 5
    assert {*board.models["status"], *board.coefficients["status"]} == {"few_clusters"}
    assert board.models[["low", "rank_low"]].isna().all(axis=None)
    assert np.isfinite(board.models["rank"]).all()


@pytest.mark.heavy
def test_what_few_pools_tell_of_has_no_interval(tables):
    """A model in 3 of 40 pools; a covariate that differs in 2 of them."""
    verdicts, items = simulated(length=lambda rng, *_: rng.uniform(50, 150))
    there = {f"p{pool}" for pool in range(3)}
    table = [row.split(",") for row in verdicts.splitlines()]
    kept = [row for row in table if row[0] in there or "D" not in row[1:3]]
    listed = [row.split(",") for row in items.splitlines()]
    for row in listed[1:]:
        row.append(row[3] if row[0] in there - {"p0"} else "7")
    listed[0].append("flag")
    written = ("\n".join(map(",".join, rows)) + "\n" for rows in (kept, listed))
    weak = Prior(0.01, 0.001)
    (board,) = ranked(tables(*written), covariates=("words", "flag"), prior=weak)
    status = dict(zip(board.models["model"], board.models["status"], strict=True))
    assert status == {"A": "converged", "B": "converged", "C": "converged", "D": "few_clusters"}
    assert board.of_kind("c")["status"].tolist() == ["converged", "few_clusters"]
    without = list(board.models["model"]).index("D")
    assert np.isnan([board.models["low"][without], board.models["rank_low"][without]]).all()
    assert "seen on too few prompts for an interval (fewer than 5" in " ".join(board.reasons())


def renamed(line):
    """The rest of a line, its items told apart by their prompt."""
    pool, *cells = line.split(",")
    if len(cells) == 3:
        return f",{cells[0]}.{pool},{cells[1]},{cells[2]}"
    return f",{cells[0]}.{pool},{cells[1]}.{pool},{cells[2]},{cells[3]}"


def test_a_model_that_always_wins_is_named(tables):
    verdicts, items = simulated()
    rows = verdicts.splitlines()
    for i, row in enumerate(rows[1:], 1):
        pool, first, second, _, judge = row.split(",")
        if "A" in (first, second):
            rows[i] = f"{pool},{first},{second},{'first' if first == 'A' else 'second'},{judge}"
    # Under a prior so weak that its share does not tell.
    (board,) = ranked(tables("\n".join(rows), items), prior=Prior(1e-5, 1e-5))
    assert board.models["model"][board.models["runaway"]].tolist() == ["A"]
    assert board.models["status"][0] == "separated"
    assert np.isnan(board.models["low"]).all()  # the mean over the models goes with it
    assert board.models["rank_low"][0] == board.models["rank_high"][0] == 1  # by the prompts it won
    assert (board.models["rank_low"][1:] > 1).all()
    assert board.models["n_won"][0] == board.models["n_verdicts"][0]
    assert (board.models["rank_high"][1:] == 4).any()
    assert any("with A" in reason for reason in board.reasons())


def test_repeats_do_not_narrow_an_interval(tables):
    """All verdicts twice, with twice the prior: the pools say no more, and vary more than verdicts
    do, which costs degrees of freedom."""
    verdicts, items = simulated()
    twice = "\n".join(
        line + (",count" if i == 0 else ",2") for i, line in enumerate(verdicts.splitlines())
    )
    (once,) = ranked(tables(verdicts, items))
    (again,) = ranked(tables(twice, items), prior=Prior(2.0, 0.2))
    np.testing.assert_allclose(again.models["theta"], once.models["theta"], atol=1e-8)
    ratio = (again.models["high"] - again.models["low"]) / (
        once.models["high"] - once.models["low"]
    )
    assert ((ratio > 1 - 1e-8) & (ratio < 1.05)).all()
    assert (again.models["rank_low"] <= once.models["rank_low"]).all()
    np.testing.assert_array_equal(again.models["n_verdicts"], 2 * once.models["n_verdicts"])


@pytest.mark.heavy
def test_relative_differences_do_not_depend_on_who_is_called_first(tables):
    verdicts, items = simulated()
    other = {"first": "second", "second": "first"}
    turned = []
    for i, row in enumerate(verdicts.splitlines()):
        pool, first, second, won, judge = row.split(",")
        turn = i and i % 3 == 0
        turned.append(f"{pool},{second},{first},{other[won]},{judge}" if turn else row)
    options = {"difference": "relative", "position": "no"}
    (before,) = ranked(tables(verdicts, items), **options)
    (after,) = ranked(tables("\n".join(turned), items), **options)
    np.testing.assert_allclose(after.models["theta"], before.models["theta"], atol=1e-8)
    assert after.of_kind("c").iloc[0].estimate == pytest.approx(
        before.of_kind("c").iloc[0].estimate, abs=1e-8
    )
    assert (
        before.of_kind("c").iloc[0].unit == "root mean square of the relative difference of words"
    )
    # A verdict that stands for three is three verdicts.
    rows = verdicts.splitlines()
    counted = [row + (",count" if i == 0 else f",{1 + i % 3}") for i, row in enumerate(rows)]
    repeated = rows[:1] + [row for i, row in enumerate(rows) if i for _ in range(1 + i % 3)]
    each = [ranked(tables("\n".join(t), items), **options)[0] for t in (counted, repeated)]
    assert each[0].of_kind("c").iloc[0].estimate == pytest.approx(
        each[1].of_kind("c").iloc[0].estimate, abs=1e-8
    )
    assert before.of_kind("kappa").empty
    raw = ranked(tables(verdicts, items), **options, standardise=False)[0].of_kind("c").iloc[0]
    assert raw.unit == "unit of words"
    assert abs(raw.estimate) > abs(before.of_kind("c").iloc[0].estimate)


@pytest.mark.heavy
def test_anchors_test_the_assumption(tables, tmp_path):
    written = tables(*simulated(10, answers=2))
    anchors = tmp_path / "anchors.csv"
    anchors.write_text("pool,better,worse\np0,A,D\np0,A1,D1\np1,D,B\np1,A1,A\n")
    read = own.read(*written, anchors, covariates=["words"])
    (board,) = own.leaderboard(read, ["words"])
    assert board.anchors.n_pairs == 3
    assert board.anchors.naive == board.anchors.corrected == pytest.approx(2 / 3)
    assert board.anchors.n_disputed == board.anchors.corrected_right == 0
    assert board.anchors.larger_won[0] > 0.5


def test_the_command_writes_what_it_prints(tables, tmp_path, capsys):
    verdicts, items = simulated(judges=("one", "two"))
    silent = "p0,A,B,error,silent\n"
    v, i = tables(verdicts + silent, items)
    out, file = tmp_path / "out", tmp_path / "board.json"
    options = ["--verdicts", str(v), "--items", str(i), "--covariates", "words"]
    assert cli.main(["leaderboard", *options, "--out", str(out), "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    written = json.loads(file.read_text())
    assert list(written) == ["settings", "leaderboards"]
    assert [b["judge"] for b in written["leaderboards"]] == ["one", "two", "silent"]
    assert "no ranking: no_verdicts" in printed
    assert written["leaderboards"][2]["models"][0]["theta"] is None
    assert "jackknife over 40 pools (each left out in turn), t with " in printed
    assert "nothing here tests the assumption of the correction" in printed
    report = (out / "report.md").read_text()
    assert "MAP with lam = 1, lam\\_b = 0.1" in report
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    with (out / "table.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert [row["judge"] for row in rows] == ["one"] * 4 + ["two"] * 4 + ["silent"] * 4
    first = written["leaderboards"][0]["models"][0]
    assert float(rows[0]["theta"]) == pytest.approx(first["theta"])
    assert rows[0]["rank_high"] == str(first["rank_high"])

    assert cli.main(["leaderboard", *options, "--judge", "one", "--json", str(file)]) == 0
    alone = json.loads(file.read_text())
    sections = ["judge", "c", "kappa", "models", "reasons", "outside", "by_quality"]
    assert list(alone) == ["settings", "leaderboards"]
    (alone,) = alone["leaderboards"]
    assert list(alone) == sections
    assert list(alone["by_quality"][0]) == ["covariate", "c", "stronger", "weaker", "gamma"]
    assert list(alone["c"][0]) == [
        *("covariate", "unit", "estimate", "low", "high", "profile_range", "status"),
        "degrees",
    ]
    assert list(alone["kappa"]) == ["estimate", "low", "high"]
    assert list(first) == [
        *("model", "theta", "low", "high", "theta_naive"),
        *("rank", "rank_low", "rank_high", "rank_naive"),
        *("win_rate", "average_words", "n_verdicts", "n_won"),
    ]
    assert alone["models"] == written["leaderboards"][0]["models"]


def test_win_rates_and_averages_of_a_leaderboard(tables):
    v, i = tables(*simulated())
    read = own.read(v, i, covariates=["words"])
    (board,) = boards = own.leaderboard(read, ["words"], transform="log", against="B")
    theta = dict(zip(board.models["model"], board.models["theta"], strict=True))
    for model, mean, against in zip(
        board.models["model"], board.win_rates(), board.win_rates("B"), strict=True
    ):
        chances = [1 / (1 + np.exp(b - theta[model])) for m, b in theta.items() if m != model]
        assert mean == pytest.approx(np.mean(chances), abs=1e-12)
        if model == "B":
            assert np.isnan(against)
        else:
            assert against == pytest.approx(1 / (1 + np.exp(theta["B"] - theta[model])), abs=1e-12)
    items = pd.read_csv(i)
    items["content"] = items["content"] if "content" in items else items["item"]
    means = items.groupby("content")["words"].mean()
    np.testing.assert_allclose(board.models["average_words"], means[list(board.models["model"])])
    (line,) = boards.report("Board", []).answer
    assert line.startswith(f"j: best, with plausible ranks: {board.models['model'][0]} 1 [1, ")
    assert "win rate against B" in boards.report("Board", []).text()
    with pytest.raises(ValueError, match="no model 'Z' among the 4"):
        own.leaderboard(read, ["words"], against="Z")


def test_the_answer_counts_ranks_from_outside_the_plausible_ones(tables):
    read = own.read(*tables(*simulated()), covariates=["words"])
    boards = own.leaderboard(read, ["words"], transform="log")
    (board,) = boards
    rank = np.arange(1.0, 5.0)
    ends = {"rank": rank, "rank_low": np.maximum(rank - 1, 1), "rank_high": rank + 1}
    for naive, said in (
        ([1, 2, 3, 4], "the correction changes no rank"),
        ([2, 1, 3, 4], "changes 2 of 4 ranks, 0 from outside its plausible ranks, most"),
        ([4, 3, 2, 1], "changes 4 of 4 ranks, 2 from outside its plausible ranks, most"),
    ):
        models = board.models.assign(rank_naive=np.array(naive, float), **ends)
        boards[0] = dataclasses.replace(board, models=models)
        assert said in boards.report("Board", []).answer[0]


def test_models_are_the_items_where_there_is_no_content(tables):
    verdicts, items = simulated()
    (named,) = ranked(tables(verdicts, items))
    lines = [",".join((pool, item, words)) for pool, item, _, words in split(items)]
    (unnamed,) = ranked(tables(verdicts, "\n".join(lines)))
    assert unnamed.models["model"].tolist() == named.models["model"].tolist()
    np.testing.assert_allclose(unnamed.models["theta"], named.models["theta"])


def split(table):
    return [line.split(",") for line in table.splitlines()]


def test_without_a_covariate_nothing_is_corrected(tables):
    (board,) = ranked(tables(*simulated()), covariates=(), position="no")
    np.testing.assert_allclose(board.models["theta"], board.models["theta_naive"])
    assert board.of_kind("c").empty


def test_wrong_options(tables, capsys):
    v, i = tables(*simulated(10))
    table = ["--verdicts", str(v), "--items", str(i)]
    for options, message in ((["--no-merge-pools"], "a leaderboard always merges all pools"),):
        assert cli.main(["leaderboard", *table, *options]) == 2
        assert message in capsys.readouterr().err
    one = "pool,item,content\np,x,A\np,y,A\n"
    with pytest.raises(ValueError, match="only one model"):
        own.leaderboard(own.read(*tables("pool,first,second,winner\np,x,y,first\n", one)))
    below = "pool,item,words\np,x,-1\np,y,2\n"
    read = own.read(*tables("pool,first,second,winner\np,x,y,first\n", below), covariates=["words"])
    with pytest.raises(ValueError, match="not negative"):
        own.leaderboard(read, ["words"], difference="relative")


def test_a_judge_without_verdicts_has_no_ranking(tables):
    verdicts, items = simulated()
    (board,) = ranked(
        tables(
            "\n".join(
                line.replace(",first,j", ",error,j").replace(",second,j", ",error,j")
                for line in verdicts.splitlines()
            ),
            items,
        )
    )
    assert board.status == Status.NO_VERDICTS
    assert board.record()["models"][0]["rank"] is None


def mirrored(n_pools=20):
    """Two models, A and B, with one record against C and D each, question by question."""
    rng = np.random.default_rng(0)
    verdicts, items, anchors = ["pool,first,second,winner"], ["pool,item,words"], []
    for pool in range(n_pools):
        words = dict(zip("CD", rng.uniform(50, 150, 2).round(1), strict=True))
        words |= dict.fromkeys("AB", round(rng.uniform(50, 150), 1))
        items += [f"p{pool},{m},{words[m]}" for m in "ABCD"]
        for other in "CD":
            won = "first" if rng.random() < 0.6 else "second"
            verdicts += [f"p{pool},{m},{other},{won}" for m in "AB"]
        anchors.append(f"p{pool},{'AB'[pool % 2]},{'BA'[pool % 2]}")
    return "\n".join(verdicts), "\n".join(items), "\n".join(["pool,better,worse", *anchors])


@pytest.mark.heavy
def test_rounding_between_tied_models_is_no_disagreement(tables, tmp_path):
    """A and B are tied; that one fit leaves them 1e-16 apart this way, and the other that way, is
    not a pair on which the rankings differ, nor makes either significantly better."""
    verdicts, items, anchors = mirrored()
    (tmp_path / "anchors.csv").write_text(anchors)
    read = own.read(*tables(verdicts, items), tmp_path / "anchors.csv", covariates=["words"])
    (board,) = own.leaderboard(read, ["words"])
    tied = [list(board.models["model"]).index(m) for m in "AB"]
    assert abs(np.diff(board.models["theta"][tied])[0]) < 1e-9
    assert (board.anchors.naive, board.anchors.corrected) == (0.5, 0.5)
    assert board.anchors.n_disputed == 0
    assert (
        len({board.models["rank_low"][i] for i in tied})
        == len({board.models["rank"][i] for i in tied})
        == 1
    )
    # What rounding does, put there on purpose.
    theta = np.zeros((2, len(read.contents)))
    a, b = (read.contents.index(m) for m in "AB")
    theta[0, a], theta[1, b] = 6e-16, 6e-16
    x = np.zeros((len(read.items), 1))
    checked = checks.check_anchors(read, 0, x, *theta)
    assert (checked.n_disputed, checked.naive, checked.corrected) == (0, 0.5, 0.5)


def test_a_model_outside_the_others_is_pointed_out(tables, capsys, tmp_path):
    """D's answers are four times as long as the others': its rank hangs on the transform."""
    verdicts, items = simulated(
        length=lambda rng, m, _: rng.uniform(50, 150) * (4 if m == "D" else 1)
    )
    verdicts = verdicts.replace("p0,A,B,first", "p0,A,B,tie").replace("p0,A,B,second", "p0,A,B,tie")
    v, i = tables(verdicts, items)
    (board,) = ranked((v, i))
    (one,) = board.outside.itertuples()
    assert (one.model, one.covariate) == ("D", "words")
    assert one.distance > 5
    assert one.inside == 0
    (near,) = ranked((v, i), transform="log1p")
    assert 2 < near.outside["distance"][0] < one.distance
    file = tmp_path / "board.json"
    options = ["--verdicts", str(v), "--items", str(i), "--covariates", "words"]
    assert cli.main(["leaderboard", *options, "--robust", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "D lies outside the other models in words: on average" in printed
    assert "0% of its answers in their middle 95%" in printed
    assert "ranks under other choices" in printed
    (written,) = json.loads(file.read_text())["leaderboards"]
    columns = ["model", "asked", "log1p", "none", "relative", "ties_dropped"]
    assert [list(row) for row in written["robust"]] == [columns] * 4
    ranks = {row["model"]: row for row in written["robust"]}
    for row in written["models"]:
        assert ranks[row["model"]]["asked"] == ranks[row["model"]]["none"] == row["rank"]
    for name, asked in (
        ("log1p", {"transform": "log1p"}),
        ("relative", {"difference": "relative"}),
    ):
        (other,) = ranked((v, i), **asked)
        assert [ranks[m][name] for m in other.models["model"]] == other.models["rank"].tolist()
    assert written["outside"][0]["model"] == "D"


@pytest.mark.heavy
def test_one_c_has_one_interval(tables, tmp_path):
    """identify --merge-pools took verdicts on one prompt for independent."""
    v, i = tables(*repeated(simulated(20, judges=("one", "two")), 4))
    options = ["--verdicts", str(v), "--items", str(i), "--covariates", "words"]
    found = {}
    for command, more in (("leaderboard", []), ("identify", ["--merge-pools"])):
        file = tmp_path / f"{command}.json"
        assert cli.main([command, *options, *more, "--joint", "--json", str(file)]) == 0
        found[command] = json.loads(file.read_text())
    boards = found["leaderboard"]["leaderboards"]
    for board, one in zip(boards[:2], found["identify"]["pools"], strict=True):
        c = board["c"][0]
        assert one["judge"] == board["judge"]
        assert one["withheld"] is None
        np.testing.assert_allclose(one["c_interval"], [c["low"], c["high"]], atol=1e-8)
        assert one["c_map"] == pytest.approx(c["estimate"], abs=1e-6)
    of_c = [one for one in boards[2]["judges"] if one["covariate"] == "words"]
    for one, joint in zip(of_c, found["identify"]["joint"], strict=True):
        np.testing.assert_allclose(joint["c_interval"], [one["low"], one["high"]], atol=1e-8)


def repeated(written, times):
    """Every verdict as often: the prompts say no more, the profile likelihood thinks they do."""
    verdicts, items = written
    lines = verdicts.splitlines()
    counted = [line + (f",{times}" if i else ",count") for i, line in enumerate(lines)]
    return "\n".join(counted), items


@pytest.mark.heavy
def test_degrees_of_freedom_do_not_depend_on_the_order_of_judges_and_covariates():
    rng, m = np.random.default_rng(0), 3
    a = rng.normal(size=(9, m + 4))
    inverse, df = np.linalg.inv(a.T @ a), rng.uniform(2, 30, m + 4)
    at = np.r_[:m, m + rng.permutation(4)]
    centre = intervals.centring(np.ones(m, bool), m + 4)
    one = intervals.degrees_of_freedom(df, inverse, centre, m)
    other = intervals.degrees_of_freedom(df[at], inverse[np.ix_(at, at)], centre, m)
    np.testing.assert_allclose(other, np.r_[one[at], one[len(df) :]])
