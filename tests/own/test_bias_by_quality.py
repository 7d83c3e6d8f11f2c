"""Biases that change with quality, or judges' discriminations, on a leaderboard: what they measure,
and where nothing identifies them. (Against SciPy: `test_leaderboard`.)"""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from support.boards import QUALITY, written

from jbt import own
from jbt.own.fits.judges import Judges
from jbt.types import Status


def ranked(verdicts, items, covariates=("words",), **options):
    tables = own.read(verdicts, items, covariates=covariates)
    return own.leaderboard(tables, covariates, **options)


@pytest.mark.heavy
def test_a_ranking_with_one_c_names_what_it_gets_wrong():
    world = written(gamma=0.8)
    (growing,), (plain,) = (ranked(*world, interaction=asked) for asked in (True, False))
    (entry,) = growing.by_quality
    parts = entry.parts
    assert plain.by_quality[0].record() == entry.record()
    assert parts["estimate"]["c"] == growing.of_kind("c")["estimate"].item()
    assert parts["estimate"]["c"] != plain.of_kind("c")["estimate"].item()
    assert parts["low"]["gamma"] > 0
    assert parts["estimate"]["stronger"] > parts["estimate"]["weaker"]
    text = list(entry.sentences("!"))
    assert text[1] == "one constant c corrects weak models too much and strong ones too little!"


@pytest.mark.heavy
@pytest.mark.parametrize(
    "world",
    [{"words": lambda rng, shape: np.array([2.0, 0, 1, 3])}, {"theta": {"A": 0.5, "B": -0.5}}],
    ids=["constant within models", "two models"],
)
def test_where_gamma_is_not_identified_there_is_no_ranking(world):
    """About the mean of two answers, a covariate says how they differ and nothing of either."""
    tables = written(**world)
    (growing,) = boards = ranked(*tables, interaction=True)
    (plain,) = ordinary = ranked(*tables)
    assert growing.status == Status.FLAT
    assert growing.models["theta"].isna().all()
    text = boards.report("", []).text()
    assert "no ranking: flat: the verdicts do not identify gamma" in text
    assert plain.status == Status.CONVERGED
    assert not plain.by_quality
    assert "by quality" not in ordinary.report("", []).text()


@pytest.mark.nightly
def test_two_items_a_prompt_identify_no_gamma(data):
    """Pairs of LLMBar: what rounding leaves of the column of gamma does not count."""
    files = (data / "llmbar" / f"{name}.csv" for name in ("verdicts", "items"))
    boards = ranked(*files, transform="log1p", interaction=True)
    assert {board.status for board in boards} == {Status.FLAT}


@pytest.mark.nightly
def test_only_some_covariates_identify_it():
    """Halves and gamma of the covariate that varies within prompts; the other's gamma is 0."""
    verdicts, items = written(gamma=0.4)
    items["flag"] = items["pool"].str[1:].astype(int) % 2
    (board,) = ranked(verdicts, items, ("words", "flag"), interaction=True)
    (alone,) = ranked(verdicts, items, interaction=True)
    np.testing.assert_allclose(board.models["theta"], alone.models["theta"], atol=1e-7)
    words, flag = board.by_quality
    gamma = words.parts["estimate"]["gamma"]
    assert gamma == pytest.approx(alone.by_quality[0].parts["estimate"]["gamma"], abs=1e-7)
    assert flag.parts.loc["gamma", ["estimate", "status"]].tolist() == [0, "flat"]
    (line,) = flag.sentences()
    assert line.startswith("no interval: c[flag] by quality: n")


def joint(verdicts, items, anchors=None, **options):
    tables = own.read(verdicts, items, anchors, covariates=["words"])
    together = tables.with_anchors()
    return own.leaderboard(tables, ["words"], together=(together, Judges.of(together)), **options)[
        -1
    ]


@pytest.mark.heavy
def test_trusted_labels_are_the_unit_of_discrimination():
    world = written(30, judges={"sharp": 1.0, "blunt": 0.3})
    equal, aware = joint(*world), joint(*world, judge_aware=True)
    assert equal.of_kind("discrimination").empty
    (blunt,) = aware.of_kind("discrimination").itertuples()
    assert blunt.low < 0.3 < blunt.high < 1
    entry = {"judge": "blunt", "estimate": blunt.estimate, "low": blunt.low, "high": blunt.high}
    assert aware.record()["discriminations"] == [entry]
    # At s = 1 the blunt judge draws theta towards 0.
    assert np.ptp(equal.models["theta"]) < 0.9 * np.ptp(aware.models["theta"])
    rng, anchors = np.random.default_rng(1), []
    for p, (a, b) in itertools.product(range(30), itertools.combinations(QUALITY, 2)):
        right = rng.random() < expit(2 * (QUALITY[a] - QUALITY[b]))  # labels twice as sharp
        anchors.append((f"p{p}", *((a, b) if right else (b, a))))
    anchors = pd.DataFrame(anchors, columns=["pool", "better", "worse"])
    labelled = joint(*world, anchors, judge_aware=True).of_kind("discrimination")
    ends = labelled.set_index("judge")[["low", "high"]]
    assert list(ends.index) == ["sharp", "blunt"]
    assert ends["low"]["sharp"] < 0.5 < ends["high"]["sharp"] < 1
    assert ends["low"]["blunt"] < 0.15 < ends["high"]["blunt"]
