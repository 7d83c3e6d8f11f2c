"""The judge's own coefficients on one comparison, and judges' discriminations, on a leaderboard."""

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from pandas.testing import assert_frame_equal
from scipy.special import expit
from support.boards import QUALITY, written

from jbt import own, runtime
from jbt.estimators import mixed
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.one_comparison import one_comparison
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.own.shared_coefficients import one_comparison as shared
from jbt.own.shared_coefficients.one_comparison import UNDECIDED
from jbt.types import Status

pytestmark = pytest.mark.heavy


def ranked(verdicts, items, covariates=("words",), **options):
    tables = own.read(verdicts, items, covariates=covariates)
    return own.leaderboard(tables, covariates, **options)


def test_a_bias_that_grows_with_quality():
    (growing,) = ranked(*written(40, gamma=0.8), standardise=False)
    (gamma,) = growing.one_comparison.growth.itertuples()
    assert gamma.low > 0
    assert gamma.high > 0.8


@pytest.mark.parametrize("shown", [0.0, 9.0])
def test_where_nothing_is_shown_to_vary_intervals_also_hold_those_of_no_variation(
    shown, monkeypatch
):
    monkeypatch.setattr(shared, "SHOWN", shown)
    (board,) = ranked(*written(40), standardise=False)
    one, of_models = board.one_comparison, "c[words] between models"
    problem = one.fit.problem
    assert len(problem.alike) == 4  # a sd of each model
    without = mixed.fit(problem.without([name for name in problem.effects if name != of_models]))
    along = np.array([[0, 0, 0, 0, 1, 0, 0.25, 0.25, 0.25, 0.25]])  # c of the average model
    varying, alone = (fit.intervals(along).iloc[0] for fit in (one.fit, without))
    assert alone.low < varying.low
    low = varying.low if shown else alone.low
    assert one.c.low[0] == pytest.approx(low, abs=1e-4)
    assert one.c.high[0] == pytest.approx(max(varying.high, alone.high), abs=1e-4)
    said = " ".join(one.sentences(["word"]))
    assert ("nothing is shown to vary between prompts" in said) == (not shown)


def test_theta_has_no_interval_where_quality_varies_much(monkeypatch):
    monkeypatch.setattr("jbt.own.leaderboards.one_comparison.VARIES_MUCH", 0.1)
    (board,) = ranked(*written(40), standardise=False)
    assert np.isnan(board.one_comparison.theta[["low", "high"]]).all(axis=None)
    assert np.isfinite(board.one_comparison.c.low).all()


def test_verdicts_that_show_no_variation_have_no_own_coefficients():
    """One verdict a prompt."""
    verdicts, items = written(60)
    (board,) = ranked(verdicts.groupby("pool").sample(1, random_state=0), items)
    assert board.status == Status.CONVERGED
    one = board.one_comparison
    assert one.status == Status.FLAT


def test_of_many_verdicts_a_random_part_of_the_prompts_is_taken():
    tables = own.read(*written(40), covariates=["words"])
    setup = Setup.of(tables, Settings(covariates=("words",)))
    with runtime.precision("float64"):
        problem = setup.problem(0)
        names = setup.covariates, tables.contents
        absolute, theta = setup.absolute(0), np.arange(4.0)
        most = len(tables.verdicts) // 2
        parts = [
            one_comparison(problem, *names, theta, absolute, most=most, seed=seed)
            for seed in (0, 0, 1)
        ]
    assert [one.n_clusters for one in parts] == [20, 20, 20]
    assert_frame_equal(parts[0].c, parts[1].c)
    assert parts[0].c["estimate"].item() != parts[2].c["estimate"].item()


def test_ties_and_grades_have_no_c_on_one_comparison():
    verdicts, items = written(20)
    verdicts["p_first"] = (verdicts.pop("winner") == "first") * 1.0
    for p_first, count in ((0.5, 1), (0.7, 10)):
        verdicts.loc[0, "p_first"] = p_first
        (board,) = ranked(verdicts.assign(count=count), items)
        assert board.one_comparison == UNDECIDED
    verdicts.loc[0, "p_first"] = 1
    (board,) = ranked(verdicts.assign(count=0.5), items)  # as of one of four ratings of an item
    assert board.one_comparison.status == Status.CONVERGED


def test_repeated_verdicts_are_verdicts():
    verdicts, items = written(30)
    (once,) = ranked(verdicts.loc[verdicts.index.repeat(3)], items)
    (counted,) = ranked(verdicts.assign(count=3), items)
    for name in ("c", "growth", "theta", "spread"):
        one, other = (getattr(board.one_comparison, name) for board in (once, counted))
        assert_frame_equal(one, other, atol=1e-6)


def test_a_fit_that_fails_leaves_the_ranking(monkeypatch):
    def fail(problem):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("jbt.estimators.mixed.fit", fail)
    (board,) = ranked(*written())
    assert board.one_comparison.status == Status.NOT_CONVERGED


def joint(*files, **options):
    tables = own.read(*files, covariates=["words"])
    together = tables.with_anchors()
    judges = Judges.of(together)
    return own.leaderboard(tables, ["words"], together=(together, judges), **options)[-1]


def test_trusted_labels_are_the_unit_of_discrimination():
    world = written(30, judges={"sharp": 1.0, "blunt": 0.3})
    assert joint(*world).of_kind("discrimination").empty
    (blunt,) = joint(*world, judge_aware=True).of_kind("discrimination").itertuples()
    assert blunt.low < 0.3 < blunt.high < 1
    rng, anchors = default_rng(1), []
    for p, (a, b) in itertools.product(range(30), itertools.combinations(QUALITY, 2)):
        right = rng.random() < expit(2 * (QUALITY[a] - QUALITY[b]))  # labels twice as sharp
        anchors.append((f"p{p}", *((a, b) if right else (b, a))))
    anchors = pd.DataFrame(anchors, columns=["pool", "better", "worse"])
    labelled = joint(*world, anchors, judge_aware=True).of_kind("discrimination")
    ends = labelled.set_index("judge")[["low", "high"]]
    assert list(ends.index) == ["sharp", "blunt"]
    assert ends["low"]["sharp"] < 0.5 < ends["high"]["sharp"] < 1
    assert ends["low"]["blunt"] < 0.15 < ends["high"]["blunt"]
