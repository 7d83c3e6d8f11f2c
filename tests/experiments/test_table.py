"""Rows of tables: means and crossings, and the paper's numbers beside them."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from jbt import stats
from jbt.experiments import labelled_arrays
from jbt.experiments.paper import PaperNumber
from jbt.experiments.table import Table

SETTINGS = SimpleNamespace(seed=3)
RNG = np.random.default_rng(0)


def number(
    quantity="recall",
    printed="0.50",
    setting="",
    pools=10,
    seeds=None,
    rounding=None,
    role="reported",
):
    pairs = dict(part.split("=", 1) for part in setting.split())
    half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    return PaperNumber(quantity, pairs, float(printed), pools, seeds, rounding or half, role)


def means(values, *papers, columns=(), **setting):
    """The table of the means of some recalls."""
    t = Table(columns, SETTINGS, papers)
    t.means("recall", values, **setting)
    return t.frame()


def recalls(n=400):
    return xr.DataArray(
        RNG.normal(0.5, 0.1, (2, 3, n)),
        dims=("condition", "budget", "pool"),
        coords={"rule": ("condition", ["a", "b"]), "budget": [10, 20, 30], "other": 7},
    )


def test_a_label_that_is_no_column_is_missed():
    with pytest.raises(ValueError, match="two rows of recall have one setting"):
        means(recalls(), columns=("rule",))


def test_means_take_their_columns_from_the_coordinates():
    values = recalls()
    table = means(values, columns=("rule", "budget", "judge"), judge="llama")
    assert table.rule.tolist() == ["a"] * 3 + ["b"] * 3
    assert table.budget.tolist() == [10, 20, 30] * 2
    assert set(table.judge) == {"llama"}
    mean, low, high = stats.mean_interval(values.values.reshape(6, -1), seed=3)
    np.testing.assert_allclose(table.estimate, mean, rtol=1e-12)
    np.testing.assert_allclose(table[["ci_low", "ci_high"]].T, [low, high], rtol=1e-12)
    assert set(table.n_pools) == {400}


def test_pools_may_stand_anywhere():
    values = recalls()
    first = means(values.transpose("pool", "condition", "budget"), columns=("rule", "budget"))
    pd.testing.assert_frame_equal(means(values, columns=("rule", "budget")), first, rtol=1e-12)


def test_missing_results_are_left_out_and_counted():
    values = recalls(50)
    values[0, 0, :20] = np.nan
    values[1, 1] = np.nan
    table = means(values, columns=("rule", "budget"))
    assert table.n_pools.tolist() == [30, 50, 50, 50, 0, 50]
    assert table.estimate[0] == pytest.approx(float(values[0, 0, 20:].mean()))
    assert table.loc[4, ["estimate", "ci_low", "ci_high"]].isna().all()


def test_acquisition_seeds_are_averaged_within_the_pool():
    pool = RNG.normal(0, 0.1, 100)
    values = xr.DataArray(
        0.5 + pool + RNG.normal(0, 1e-6, (4, 100)), dims=(labelled_arrays.SEEDS, "pool")
    )
    row = means(values).iloc[0]
    assert row.n_pools == 100
    # The pool is the unit: the interval is that of 100 numbers, not of 400.
    assert row.ci_high - row.ci_low == pytest.approx(4 * 0.1 / 10, rel=0.3)


def test_replicates_are_studies_of_the_papers_size():
    paper = number(setting="rule=a budget=20", pools=25)
    table = means(recalls(5000), paper, columns=("rule", "budget"))
    (row,) = table[table.paper.notna()].itertuples()
    assert (row.rule, row.budget, row.paper) == ("a", 20, 0.5)
    # 25 pools of standard deviation 0.1 give means of standard error 0.02; 4,000 of them place a
    # percentile within about a tenth of it.
    assert row.replicate_low == pytest.approx(row.estimate - 1.96 * 0.02, abs=0.003)
    assert row.replicate_high == pytest.approx(row.estimate + 1.96 * 0.02, abs=0.003)
    assert row.consistent == "yes"


@pytest.mark.parametrize(
    ("printed", "role", "verdict"),
    [
        ("0.60", "calibrated", "calibrated"),
        # Constant pools: no scatter, so the digits decide. 0.4960 prints as 0.50, not as 0.500.
        ("0.50", "reported", "yes"),
        ("0.500", "reported", "no"),
        ("0.49", "derived", "yes"),  # given as within 0.01
        ("0.507", "derived", "no"),
    ],
)
def test_consistent_as_far_as_the_number_is_printed(printed, role, verdict):
    rounding = 0.01 if role == "derived" else None
    paper = number(printed=printed, rounding=rounding, role=role)
    table = means(xr.DataArray(np.full(50, 0.496), dims="pool"), paper)
    assert table.consistent.tolist() == [verdict]


def test_seeds_of_the_paper_widen_or_narrow_the_replicates():
    values = xr.DataArray(RNG.normal(0.5, 0.1, (4, 3000)), dims=(labelled_arrays.SEEDS, "pool"))
    width = []
    for seeds in (1, 4, 100):
        row = means(values, number(seeds=seeds)).iloc[0]
        width.append(row.replicate_high - row.replicate_low)
    # Nothing but the seeds scatters here: widths are as 1 to 1/2 to 1/10.
    assert width[1] / width[0] == pytest.approx(0.5, abs=0.05)
    assert width[2] / width[0] == pytest.approx(0.1, abs=0.05)


def test_crossing_with_fresh_pools_and_with_the_same():
    rho = np.linspace(0, 1, 11)
    noise = RNG.normal(0, 0.5, 2000)  # shared by the grid: what the same pools have in common
    benefit = xr.DataArray(
        0.5 - rho[:, None] + noise + RNG.normal(0, 0.01, (11, 2000)),
        dims=("rho", "pool"),
        coords={"rho": rho},
    )
    t = Table(("factor", "rho"), SETTINGS, [number("crossing", "0.45", pools=30)])
    t.crossing(benefit, factor="bias")
    table = t.frame().set_index("quantity")
    assert list(table.index) == ["crossing", "crossing_same_pools"]
    assert table.estimate.tolist() == pytest.approx([0.5] * 2, abs=4 * 0.5 / 2000**0.5)
    width = table.replicate_high - table.replicate_low
    assert width["crossing_same_pools"] == pytest.approx(4 * 0.5 / 30**0.5, rel=0.2)
    assert width["crossing"] < 0.9 * width["crossing_same_pools"]
    # Without a number of the paper nothing would differ, and there is one row.
    t = Table(("rho",), SETTINGS)
    t.crossing(benefit + 2)
    assert t.frame().quantity.tolist() == ["crossing"]
    assert math.isnan(t.frame().estimate[0])  # never down to 0 on the grid


def test_one_pool_has_no_interval():
    one = xr.DataArray([[1.0], [-1.0]], dims=("rho", "pool"), coords={"rho": [0.0, 1.0]})
    t = Table(("rho",), SETTINGS)
    t.means("benefit", one)
    t.crossing(one)
    table = t.frame()
    assert table.estimate.tolist() == [1, -1, 0.5]
    assert table[["ci_low", "ci_high"]].isna().all(axis=None)


def test_shares_have_an_interval_where_all_pools_are_alike():
    values = xr.DataArray(
        np.ones((2, 60)), dims=("condition", "pool"), coords={"rule": ("condition", ["a", "b"])}
    )
    values[1, 10:] = np.nan
    t = Table(("rule",), SETTINGS)
    t.shares("mle_exists", values)
    table = t.frame()
    assert table.estimate.tolist() == [1, 1]
    assert table.n_pools.tolist() == [60, 10]
    assert table.ci_high.tolist() == [1, 1]
    assert table.ci_low.to_numpy() == pytest.approx([0.025 ** (1 / 60), 0.025 ** (1 / 10)])


def test_no_range_where_studies_often_find_nothing():
    values = np.full(400, 0.5)
    for missing, verdict in ((1, "yes"), (40, None)):  # of studies of 1 pool, 0.25 % and 10 %
        values[:missing] = np.nan
        row = means(xr.DataArray(values, dims="pool"), number(pools=1)).iloc[0]
        assert row.consistent == verdict
        assert np.isnan(row.replicate_low) == (verdict is None)


def test_nothing_is_said_of_a_crossing_off_the_grid():
    benefit = xr.DataArray(
        np.full((2, 50), 1.0) - [[0.0], [0.5]], dims=("rho", "pool"), coords={"rho": [0.0, 0.4]}
    )
    t = Table(("rho",), SETTINGS, [number("crossing", "0.90"), number("crossing", "0.30")])
    t.crossing(benefit)
    table = t.frame()
    assert table.paper.tolist() == [0.9, 0.3] * 2
    # No study crosses up to 0.4.
    assert table.consistent.fillna("").tolist() == ["", "no"] * 2
