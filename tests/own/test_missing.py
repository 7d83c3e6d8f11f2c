"""Missing verdicts: the test of what they depend on, and c with all of them filled either way."""

from operator import ne

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import rankdata
from scipy.stats import t as student
from support.boards import PRIOR, written

from jbt import own
from jbt.own.tables import missing


def differences(verdicts, items):
    """Words of the first answer less those of the second."""
    words = items.set_index(["pool", "item"])["words"]
    first, second = (
        words.loc[pd.MultiIndex.from_frame(verdicts[["pool", side]])].to_numpy()
        for side in ("first", "second")
    )
    return first - second


def losing(which, n_prompts=30, **options):
    """Verdicts and items of `written`; those in `which`, of whether the longer won and whether it
    was shown first, are errors."""
    verdicts, items = written(n_prompts, **options)
    difference = differences(verdicts, items)
    longer_won = (difference > 0) == (verdicts["winner"] == "first")
    gone = which(longer_won.to_numpy(), difference > 0) & (np.arange(len(verdicts)) % 3 > 0)
    return verdicts.assign(winner=verdicts["winner"].mask(gone, "error")), items


def the_longer_lost(won, first):
    return ~won


def read(verdicts, items, **options):
    return own.read(verdicts, items, covariates=["words"], **options)


def losses_of(tables):
    return missing.losses(tables, tables.items[["words"]].to_numpy(), ["words"])


def test_the_test_equals_its_twin_pool_by_pool():
    verdicts, items = losing(the_longer_lost, judges={"one": 1.0, "two": 0.5})
    verdicts["count"] = 1 + np.arange(len(verdicts)) % 3
    tests = losses_of(read(verdicts, items))
    x = differences(verdicts, items)
    gone = (verdicts["winner"] == "error").to_numpy() * 1.0
    weight, rank = verdicts["count"].to_numpy(), rankdata(np.abs(x).round(12))
    for row, score in zip(tests.itertuples(), (rank, np.sign(x)), strict=True):
        product = np.zeros(len(x))
        for judge in ("one", "two"):
            of = (verdicts["judge"] == judge).to_numpy()
            apart = [v[of] - np.average(v[of], weights=weight[of]) for v in (gone, score)]
            product[of] = weight[of] * apart[0] * apart[1]
        sums = [product[verdicts["pool"] == pool].sum() for pool in verdicts["pool"].unique()]
        n = verdicts.loc[gone > 0, "pool"].nunique()
        p = 2 * student.sf(abs(np.sum(sums)) / np.linalg.norm(sums), n - 1)
        assert row.p == pytest.approx(p, rel=1e-9)
    more = x > 0
    (order,) = tests[tests["of"] == "order"].itertuples()
    assert order.more == pytest.approx(np.average(gone[more], weights=weight[more]))


@pytest.mark.parametrize(
    ("which", "of"), [(the_longer_lost, "difference"), (lambda won, first: first, "order")]
)
def test_a_loss_that_depends_on_the_lengths_is_found(which, of):
    verdicts, items = losing(which, 60)
    tests = losses_of(read(verdicts, items)).set_index("of")
    assert tests.loc[of, "p"] < 0.01
    checks = {c.check: c for c in own.doctor(read(verdicts, items)).checks}
    assert not checks["missing"].ok
    assert checks["missing"].command.endswith("--missing bounds")
    # Few pools with a missing verdict, or no missing verdict, and nothing is said.
    kept = (verdicts["winner"] != "error") | verdicts["pool"].isin([f"p{i}" for i in range(9)])
    for some in (verdicts[kept], verdicts[verdicts["winner"] != "error"]):
        assert "missing" not in {c.check for c in own.doctor(read(some, items)).checks}


def test_ties_that_are_dropped_are_missing():
    verdicts, items = written(log_nu=0.0)
    verdicts.loc[0, "winner"] = "error"
    n_ties = (verdicts["winner"] == "tie").sum()
    for dropped in (read(verdicts, items, ties="drop"), read(verdicts, items).without_ties()):
        assert len(dropped.lost) == 1 + n_ties
        assert len(dropped.verdicts) == len(verdicts) - 1 - n_ties
    assert len(read(verdicts, items).lost) == missing.number_of(read(verdicts, items), 0) == 1


def test_two_items_of_one_length_stay_missing():
    verdicts, items = losing(the_longer_lost)
    tables = read(verdicts, items.assign(words=1.0))
    for _, _, filled in missing.fills(tables, ["words"]):
        assert len(filled.verdicts) == len(tables.verdicts)
        assert filled.counts.equals(tables.counts)


def with_all(verdicts, items, longer):
    """The same verdicts, the missing ones won by the longer or by the shorter."""
    side = np.where((differences(verdicts, items) > 0) == longer, "first", "second")
    return verdicts.assign(winner=verdicts["winner"].where(verdicts["winner"] != "error", side))


@pytest.mark.heavy
def test_both_ends_of_a_leaderboard_are_those_of_tables_filled_by_hand():
    verdicts, items = losing(the_longer_lost)
    (board,) = boards = own.leaderboard(
        read(verdicts, items), ["words"], prior=PRIOR, missing="bounds"
    )
    theta = board.models.set_index("model")["rank"]
    for row, longer in zip(board.missing.itertuples(), (True, False), strict=True):
        filled = with_all(verdicts, items, longer)
        (other,) = own.leaderboard(read(filled, items), ["words"], prior=PRIOR)
        (c,) = other.of_kind("c").itertuples()
        assert row.wins == longer
        assert_allclose([row.estimate, row.low, row.high], [c.estimate, c.low, c.high])
        ranks = other.models.set_index("model")["rank"]
        assert row.n_changed == (ranks[theta.index] != theta).sum()
    assert "had all been won by the longer: +" in boards.report("", []).text()


def test_where_c_is_not_identified_there_are_no_bounds():
    """Every answer of a model is as long as the others of it."""
    fixed = {"words": lambda rng, shape: np.arange(1.0, 5)}
    verdicts, items = losing(the_longer_lost, 10, **fixed)
    boards = own.leaderboard(read(verdicts, items), ["words"], missing="bounds")
    text = boards.report("", []).text()
    assert "): c is not identified" in text
    assert "had all been won" not in text


@pytest.mark.nightly
def test_both_ends_of_a_fit_are_those_of_tables_filled_by_hand():
    verdicts, items = losing(the_longer_lost, 12)
    batch = own.load(verdicts, items, ["words"])
    analysis = own.analyse(batch, missing="bounds")
    best = [f.ranking[0].content for f in analysis.fits]
    for row, longer in zip(analysis.missing.itertuples(), (True, False), strict=True):
        filled = with_all(verdicts, items, longer)
        other = own.analyse(own.load(filled, items, ["words"]))
        (c,) = other.shared.of("c").itertuples()
        numbers = [row.estimate, row.low, row.high], [c.estimate, c.low, c.high]
        assert_allclose(*numbers, atol=1e-7)
        others = (f.ranking[0].content for f in other.fits)
        assert row.n_changed == sum(map(ne, best, others)) > 0
