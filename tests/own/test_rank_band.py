"""Ranks over a range of rho, the correlation of quality and a covariate that models own."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from support.boards import PRIOR, written

from jbt import own
from jbt.own.leaderboards.rank_band import c_at, ranks_between


def owned(words=(2.0, 4.0, 5.0, 3.0), **options):
    """Verdicts and items; every answer of a model has its length."""
    verdicts, items = written(words=lambda rng, shape: np.array(words), **options)
    return own.read(verdicts, items, covariates=["words"])


def board_of(tables, **options):
    (board,) = boards = own.leaderboard(tables, ["words"], prior=PRIOR, **options)
    return boards, board


def test_two_lines_cross_where_their_qualities_are_equal():
    """phi = (1, 0), x = (1, 0): theta = (1 - c, 0)."""
    phi, x = np.array([1.0, 0.0]), np.array([1.0, 0.0])
    for low, high, least, largest in (
        (0.0, 0.9, [1, 2], [1, 2]),
        (0.9, 1.1, [1, 1], [2, 2]),
        (1.1, 2.0, [2, 1], [2, 1]),
        (1.0, 2.0, [1, 1], [2, 1]),  # equal at the end, where both are first
    ):
        found = ranks_between(phi, x, low, high)
        assert_array_equal(found, [least, largest])


values = st.lists(st.integers(-5, 5), min_size=5, max_size=5)


@given(values, values, st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
def test_c_has_the_correlation_and_ranks_those_of_a_grid(phi, x, one, other):
    phi, x = np.array(phi, float), np.array(x, float)
    if np.ptp(x) == 0 or np.linalg.norm(phi - np.polyval(np.polyfit(x, phi, 1), x)) < 1e-6:
        return
    rho = np.sort([one, other])
    ends = c_at(phi, x, rho)
    for c, expected in zip(ends, rho, strict=True):
        assert np.corrcoef(phi - c * x, x)[0, 1] == pytest.approx(expected, abs=1e-6)
    assert ends[0] >= ends[1]
    least, largest = ranks_between(phi, x, ends[1], ends[0])
    for c in np.linspace(*ends, 50):
        theta = phi - c * x
        ranks = 1 + (theta - theta[:, None] > 1e-9).sum(1)
        assert (least <= ranks).all()
        assert (ranks <= largest).all()


def test_a_leaderboard_whose_c_is_open_has_ranks_over_rho():
    boards, board = board_of(owned(), rho=(-0.3, 0.6))
    band, models = board.band, board.models.set_index("model")
    x = pd.Series({"A": 2.0, "B": 4.0, "C": 5.0, "D": 3.0})
    (c,) = board.of_kind("c").itertuples()
    assert c.status == "flat"
    # c is per standard deviation of the items' words
    z = (x - x.mean()) / x.std(ddof=0)
    theta = models["theta"].loc[z.index]
    for at, rho in zip(band.c, (0.6, -0.3), strict=True):
        moved = theta - (at - c.estimate) * z
        assert np.corrcoef(moved, z)[0, 1] == pytest.approx(rho, abs=1e-6)
    assert (band.ranks["least"] < band.ranks["largest"]).any()
    text = boards.report("", []).text()
    assert "corr(theta, words) from -0.3 to +0.6 over the models (--rho)" in text


def apart():
    """A and B are never compared with C and D."""
    verdicts, items = written(words=lambda rng, shape: np.array([2.0, 4.0, 5.0, 3.0]))
    of_both = verdicts[["first", "second"]].isin(["A", "B"]).sum(axis=1) == 1
    return own.read(verdicts[~of_both], items, covariates=["words"])


@pytest.mark.parametrize(
    "tables",
    [
        lambda: own.read(*written(), covariates=["words"]),  # measured
        lambda: owned((2.0, 4.0), theta={"A": 0.4, "B": -0.4}),  # two models
        apart,
    ],
)
def test_nothing_is_said_where_c_is_measured_or_rho_says_nothing(tables):
    boards, board = board_of(tables())
    assert board.band is None
    assert "--rho" not in boards.report("", []).text()
