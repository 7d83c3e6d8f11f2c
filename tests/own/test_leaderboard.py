"""Leaderboards: against a plain reference, what they withhold and why, and as files."""

import copy
import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from support.boards import PRIOR, Plain, estimates, written
from support.marks import heavy

from jbt import own
from jbt.own.fits.judges import Judges
from jbt.types import Prior


def ranked(verdicts, items=None, covariates=("words",), *, ties="half", joint=False, **options):
    """The leaderboards; with `joint` that of all judges last."""
    tables = own.read(verdicts, items, covariates=covariates, ties=ties)
    if joint:
        options["together"] = tables, Judges.of(tables)
    return own.leaderboard(tables, covariates, **{"prior": PRIOR, **options})


@pytest.fixture(scope="module")
def boards():
    """The leaderboards of `written`, of one judge."""
    return ranked(*written())


THREE = {"A": 1.0, "B": 0.1, "C": -0.9}
KINDS = {
    "Bradley-Terry": ({"log_nu": -1}, {}, ("c", "kappa")),
    "graded, no covariate": ({}, {"covariates": (), "position": "no"}, ()),
    "Davidson": ({"log_nu": 0.3}, {"ties": "davidson"}, ("c", "log nu", "kappa")),
    "relative": (
        {"words": lambda rng, shape: rng.uniform(1, 5, shape)},
        {"difference": "relative", "position": "no"},
        ("c",),
    ),
    "judge-aware": (
        {"theta": THREE, "judges": {"sharp": 1.0, "blunt": 0.3}},
        {"joint": True, "judge_aware": True},
        ("c", "kappa", "discrimination"),
    ),
}
"""What is simulated, what is asked, and the coefficients."""


@pytest.mark.parametrize(
    "kind",
    ["Bradley-Terry", "graded, no covariate", "Davidson", heavy("relative"), heavy("judge-aware")],
)
def test_estimates_and_intervals_equal_a_plain_reference(kind):
    world, options, coefficients = KINDS[kind]
    verdicts, items = written(**world)
    verdicts["count"] = 1 + np.arange(len(verdicts)) % 2
    if kind == "graded, no covariate":
        verdicts["p_first"] = verdicts.pop("winner").map({"first": 0.9, "second": 0.2})
    board = ranked(verdicts, items, **options)[-1]
    plain = Plain(verdicts, items, coefficients, relative=kind == "relative")
    expected, found = plain.estimates(), estimates(board).loc[plain.names]
    half = student.ppf(0.975, found["degrees"].astype(float)) * expected["error"]
    expected["low"], expected["high"] = expected["about"] - half, expected["about"] + half
    columns = ["estimate", "low", "high"]
    np.testing.assert_allclose(found[columns].astype(float), expected[columns], atol=1e-8)
    naive = Plain(verdicts, items, [c for c in coefficients if c == "log nu"])
    theta_naive = board.models.set_index("model")["theta_naive"].loc[naive.models]
    np.testing.assert_allclose(theta_naive, naive.mode()[: len(naive.models)], atol=1e-8)
    assert not board.reasons()


def only_some_prompts():
    """D on 3 prompts, and a flag that differs on 2."""
    verdicts, items = written(39)
    others = ~verdicts[["first", "second"]].eq("D").any(axis=1)
    items["flag"] = items["words"].where(items["pool"].isin(["p1", "p2"]), 7.0)
    return verdicts[others | verdicts["pool"].isin(["p0", "p1", "p2"])], items


def with_winner(winner, models="ABCD"):
    """Verdicts on these models are all `first`, `second`, ..., or the side that has the model."""
    verdicts, items = written()
    for side in ("first", "second"):
        verdicts.loc[verdicts[side].isin(list(models)), "winner"] = winner or side
    return verdicts, items


ONE_WAY = [(f"p{i}", "A", "B", "first" if i % 3 else "tie") for i in range(30)]
WITHHELD = {
    # A length that belongs to the model cannot be told from its quality.
    "flat": (
        written(words=lambda rng, shape: np.array([2.0, 4.0, 5.0, 3.0])),
        {},
        {"A": "flat", "words": "flat", "kappa": "converged"},
        "",
    ),
    "the prior": (
        written(),
        {"prior": Prior(1, 1e4)},
        {"words": "prior_selected", "kappa": "prior_selected"},
        "ABCD",
    ),
    "few prompts of some": (
        only_some_prompts(),
        {"covariates": ("words", "flag"), "prior": Prior(0.01, 0.001)},
        {"D": "few_clusters", "words": "converged", "flag": "few_clusters"},
        "ABC",
    ),
    # Under a prior so weak that its share does not show; ranks are by the prompts won.
    "one always wins": (
        with_winner(None, "A"),
        {"prior": Prior(1e-5, 1e-5)},
        {"A": "separated", "B": "separated"},
        "ABCD",
    ),
    "no verdicts": (with_winner("error"), {}, {"A": "no_verdicts", "words": "no_verdicts"}, ""),
    # The likelihood rises to infinity with theta and nu, which half wins would hide.
    "Davidson, one way": (
        (pd.DataFrame(ONE_WAY, columns=["pool", "first", "second", "winner"]),),
        {"covariates": (), "ties": "davidson", "position": "no", "prior": Prior(1e-4, 1e-4)},
        {"A": "separated", "B": "separated", "log nu": "separated"},
        "",
    ),
}
"""What is ranked and how, statuses, and the models with plausible ranks."""


@pytest.mark.parametrize(
    "why",
    [
        heavy(why) if why in ("few prompts of some", "Davidson, one way") else why
        for why in WITHHELD
    ],
)
def test_intervals_are_withheld_with_a_reason(why):
    tables, options, statuses, compared = WITHHELD[why]
    (board,) = ranked(*tables, **options)
    models, coefficients = board.models, board.coefficients
    table = pd.concat([models.set_index("model"), coefficients.set_index("covariate")])
    assert table["status"].loc[list(statuses)].to_dict() == statuses
    has_interval = table["status"] == "converged"
    for end in ("low", "high"):
        np.testing.assert_array_equal(table[end].notna(), has_interval)
    assert "".join(sorted(models["model"][models["rank_low"].notna()])) == compared
    reasons = board.reasons()
    for status in set(table["status"]) - {"converged"}:
        assert any(status in reason for reason in reasons)
    assert (board.record()["models"][0]["rank"] is None) == (why == "no verdicts")
    if why == "flat":
        assert coefficients.loc[coefficients["kind"] == "c", "profile_range"].item() < 1e-6
        assert models["low_naive"].notna().all()  # the naive fit is identified all the same
    if why == "one always wins":
        assert models["model"][models["runaway"]].tolist() == ["A"]


def test_repeats_do_not_narrow_an_interval(boards):
    """All verdicts twice, with twice the prior: the prompts say no more, and vary more than
    verdicts do, which costs degrees of freedom."""
    verdicts, items = written()
    once = boards[0].models
    again = ranked(verdicts.assign(count=2), items, prior=Prior(1.0, 0.4))[0].models
    np.testing.assert_allclose(again["theta"], once["theta"], atol=1e-8)
    ratio = (again["high"] - again["low"]) / (once["high"] - once["low"])
    assert ratio.between(1 - 1e-8, 1.05).all()
    assert (again["rank_low"] <= once["rank_low"]).all()
    np.testing.assert_array_equal(again["n_verdicts"], 2 * once["n_verdicts"])


def test_anchors_test_the_assumption():
    """B answers as A does: that rounding orders them is no disagreement of the rankings."""
    theta, length = {"A": 0.5, "C": 0.0, "D": 0.3}, np.array([0, 2.0, 0])
    drawn = written(
        16, theta=theta, words=lambda rng, shape: rng.normal(size=shape) + length, seed=2
    )
    of_a = [table[table.eq("A").any(axis=1)].replace("A", "B") for table in drawn]
    verdicts, items = map(pd.concat, zip(drawn, of_a, strict=True))
    rng = np.random.default_rng(0)
    pairs = [rng.choice(list("ABCD"), 2, replace=False) for _ in range(16)]
    anchors = pd.DataFrame(pairs, columns=["better", "worse"])
    anchors.insert(0, "pool", [f"p{n}" for n in range(16)])
    board = own.leaderboard(own.read(verdicts, items, anchors, covariates=["words"]), ["words"])[0]
    models = board.models.set_index("model")
    assert models["rank"]["A"] == models["rank"]["B"]
    numbers = models[["theta", "theta_naive"]].round(9)
    better, worse = (numbers.loc[anchors[side]].to_numpy() for side in ("better", "worse"))
    corrected, naive = np.sign(better - worse).T
    disputed = corrected * naive < 0
    assert disputed.any()
    check = board.anchors
    found = check.n_pairs, check.corrected, check.naive, check.n_disputed, check.corrected_right
    shares = [np.mean((1 + right) / 2) for right in (corrected, naive)]
    expected = 16, *shares, disputed.sum(), (corrected[disputed] > 0).sum()
    assert found == pytest.approx(expected)
    words = items.set_index(["pool", "item"])["words"]
    longer = [words[pool, a] - words[pool, b] for pool, a, b in anchors.itertuples(index=False)]
    assert check.larger_better == pytest.approx((np.mean([d > 0 for d in longer if d]),))


@pytest.mark.heavy
def test_the_command_writes_what_it_prints(tables, tmp_path, jbt):
    verdicts, items = written(judges={"one": 1.0, "two": 1.0})
    verdicts.loc[len(verdicts)] = ["p0", "A", "B", "error", "silent"]
    v, i = tables(verdicts.to_csv(index=False), items.to_csv(index=False))
    out, file = tmp_path / "out", tmp_path / "board.json"
    options = ["--verdicts", v, "--items", i, "--covariates", "words", "--json", file]
    printed = jbt("leaderboard", *options, "--out", out)
    assert "no ranking: no_verdicts" in printed
    assert "a jackknife, which leaves out each of the 20 pools in turn" in printed
    assert (out / "pairs.png").read_bytes().startswith(b"\x89PNG")
    met = pd.read_csv(out / "pairs.csv")
    assert met.groupby("judge").size().to_dict() == {"one": 12, "two": 12}
    one, _, silent = json.loads(file.read_text())["leaderboards"]
    assert silent["models"][0]["theta"] is None
    table = pd.read_csv(out / "table.csv")
    assert table["judge"].tolist() == np.repeat(["one", "two", "silent"], 4).tolist()
    assert table["theta"][0] == pytest.approx(one["models"][0]["theta"])

    jbt("leaderboard", *options, "--judge", "one")
    (alone,) = json.loads(file.read_text())["leaderboards"]
    assert alone["models"] == one["models"]


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_win_rates_and_averages(ties):
    """Of two models theta apart, by Davidson's chances, a tie being half a win."""
    verdicts, items = written(log_nu=0.3)
    (board,) = ranked(verdicts, items, ties=ties, against="B")
    models = board.models.set_index("model")
    nu = np.exp(board.of_kind("log nu")["estimate"]).sum()  # 0 without ties
    apart = models["theta"].to_numpy()[:, None] - models["theta"].to_numpy()
    chance = (np.exp(apart / 2) + nu / 2) / (2 * np.cosh(apart / 2) + nu)
    np.testing.assert_allclose(board.win_rates(), (chance.sum(1) - 0.5) / 3, atol=1e-12)
    against = pd.Series(board.win_rates("B"), models.index)
    assert np.isnan(against.pop("B"))
    np.testing.assert_allclose(against, chance[models.index != "B", models.index == "B"])
    means = items.groupby("item")["words"].mean()
    np.testing.assert_allclose(models["average_words"], means[models.index])


def test_counts_are_those_of_the_verdicts():
    """Repeats count; a graded verdict is won by the side with more than half; a model does not meet
    itself."""
    shares = [("A", "B", 1.0, 2), ("B", "A", 0.7, 1), ("C", "A", 0.5, 3), ("B", "B2", 0.0, 1)]
    verdicts = pd.DataFrame(shares, columns=["first", "second", "p_first", "count"])
    items = pd.DataFrame({"item": ["A", "B", "C", "B2"], "content": ["A", "B", "C", "B"]})
    (board,) = boards = ranked(verdicts, items, covariates=())
    table = board.models.set_index("model")[["n_won", "n_lost", "n_tied"]]
    assert table.T.to_dict("list") == {"A": [2, 1, 3], "B": [1, 2, 0], "C": [0, 0, 3]}
    met = boards.pairs().set_index(["model", "opponent"])
    assert met.loc[("A", "B")].tolist() == [3, 2, 1, 0, pytest.approx((2 + 0.3) / 3)]
    assert len(met) == 4


def test_elo_of_an_anchor_is_its_difference():
    """By the closed form: with two models, the difference is twice theta, and so are its ends."""
    verdicts, items = written(60, theta={"A": 0.5, "B": -0.5})
    (plain,) = ranked(verdicts, items)
    assert plain.models["low"].notna().all()
    (fixed,), (mean,) = (ranked(verdicts, items, elo=elo) for elo in ("B=1000", "1000"))
    factor = 400 / np.log(10)
    columns = ["elo", "elo_low", "elo_high"]
    theta = plain.models.loc[0, ["theta", "low", "high"]].to_numpy(float)
    np.testing.assert_allclose(mean.models.loc[0, columns].tolist(), 1000 + factor * theta)
    np.testing.assert_allclose(fixed.models.loc[0, columns].tolist(), 1000 + 2 * factor * theta)
    assert fixed.models.loc[1, "elo"] == 1000
    assert fixed.models.loc[1, columns[1:]].isna().all()


def test_without_ties_davidsons_leaderboard_is_bradley_terrys(boards):
    (board,) = ranked(*written(), ties="davidson")
    np.testing.assert_allclose(board.models["theta"], boards[0].models["theta"], atol=1e-10)
    assert board.of_kind("log nu")["status"].tolist() == ["no_ties"]


def test_the_answer_counts_ranks_from_outside_the_plausible_ones(boards):
    (board,) = boards
    rank = np.arange(1.0, 5.0)
    ends = {"rank": rank, "rank_low": np.maximum(rank - 1, 1), "rank_high": rank + 1}
    changed = copy.copy(boards)
    changed[0] = dataclasses.replace(board, models=board.models.assign(rank_naive=5 - rank, **ends))
    answer = "of 4 of 4 models, most that of A (from 4 to 1); 2 uncorrected ranks are"
    assert answer in changed.report("Board", []).answer[0]


@pytest.mark.heavy
def test_a_model_outside_the_others_is_pointed_out():
    """D's answers are four times as long as the others': its rank hangs on the transform."""
    tables = written(
        log_nu=-1,
        words=lambda rng, shape: rng.uniform(5, 15, shape) * np.array([1, 1, 1, 4]),
        c=0.1,
    )
    (board,) = ranked(*tables, robust=True)
    (one,) = board.outside.itertuples()
    assert (one.model, one.covariate, one.inside) == ("D", "words", 0)
    words = tables[1].set_index("item")["words"]
    others = words.drop("D")
    assert one.distance == pytest.approx((words["D"].mean() - others.mean()) / others.std(ddof=0))
    ranks = board.robust.set_index("model")
    for name, options in (
        ("none", {}),
        ("log1p", {"transform": "log1p"}),
        ("relative", {"difference": "relative"}),
    ):
        models = ranked(*tables, **options)[0].models.set_index("model")
        assert ranks[name].to_dict() == models["rank"].to_dict()


TWO = pd.DataFrame({"pool": "p", "first": "x", "second": "y", "winner": "tie", "judge": ["a", "b"]})
SIDES = pd.DataFrame({"pool": "p", "item": ["x", "y"], "words": [-1.0, 2.0]})


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        (SIDES.assign(content="A"), {}, "only one model"),
        (SIDES, {"difference": "relative"}, "not negative"),
        (SIDES, {"against": "Z"}, "no model 'Z' among the 2"),
        (SIDES, {"elo": "x"}, "--elo is 'x', allowed: NAME=1000, or 1000 for the mean"),
        (SIDES, {"ties": "davidson", "joint": True}, "davidson does not go with --joint"),
    ],
)
def test_wrong_options(items, options, message):
    with pytest.raises(ValueError, match=message):
        ranked(TWO, items, **options)


def test_wrong_commands_are_one_line(tables, jbt):
    graded = TWO.drop(columns="winner").assign(p_first=0.3)
    for command, verdicts, options, message in (
        ("leaderboard", TWO, "--rho 0.5 0.2", "rho must be -1 < low < high < 1, got"),
        ("leaderboard", graded[:1], "--ties davidson", "line 2: p_first 0.3 is graded: Davidson's"),
        ("fit", TWO, "--ties davidson", "--ties davidson is for jbt leaderboard only: half or"),
    ):
        v, _ = tables(verdicts.to_csv(index=False))
        assert message in jbt(command, "--verdicts", v, *options.split(), code=2)


@pytest.mark.nightly
def test_one_c_has_one_interval():
    """identify --merge-pools takes verdicts on one prompt for dependent, as a leaderboard does."""
    verdicts, items = written(theta=THREE)
    items["content"] = items["item"]
    verdicts["count"] = 4  # the prompts say no more, the profile likelihood thinks they do
    (board,) = ranked(verdicts, items, prior=Prior())
    (c,) = board.of_kind("c").itertuples()
    tables = own.read(verdicts, items, covariates=["words"], merge_pools=True)
    (found,) = own.identify(own.Batch.of(tables, ["words"])).table.itertuples()
    np.testing.assert_allclose(found.c_interval, [c.low, c.high], atol=1e-8)
