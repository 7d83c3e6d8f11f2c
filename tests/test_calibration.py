"""Intervals cover at their nominal level: the benchmark's own cells, with fewer studies."""

import numpy as np
import pytest

from benchmarks.calibration import CLAIMS, TITLES, Cell, cell, claim, grid
from benchmarks.calibration.__main__ import KEPT, PAGE, page, row


def test_a_cell_knows_whether_its_coverage_can_be_on_target():
    on_target = [Cell("i", 2000, 1000, n).on_target for n in (900, 925, 950, 1000)]
    assert on_target == [False, True, True, False]  # the interval of 925 reaches .93
    assert Cell("i", 2000, 1000, 1000, one_sided=True).on_target


def test_a_claim_counts_the_intervals_that_hold_the_truth(monkeypatch):
    for registry in (CLAIMS, TITLES):  # what is registered here is removed again
        monkeypatch.setitem(registry, "mean", None)

    @claim("a mean", grid(sd=[1.0, 2.0]))
    def mean(rng, studies, sd):
        x = rng.normal(0, sd, studies)
        low = np.where(x > 0, x - 1, np.nan)  # withheld below 0
        yield cell("i", (low, x + 1), 0.0)

    _, far = CLAIMS["mean"](300, 0)
    x = np.random.default_rng([0, 1]).normal(0, 2.0, 300)
    counts = 300, (x > 0).sum(), ((x > 0) & (x <= 1)).sum()
    assert (far.setting, far.studies, far.printed, far.covered) == ("sd 2.0", *counts)


@pytest.mark.heavy
def test_the_page_is_that_of_the_kept_rows():
    assert PAGE.read_text() == page()
    assert {path.stem for path in KEPT.glob("*.csv")} == set(CLAIMS)


STUDIES = {
    "plan_prompts": 2000,
    "one_comparison": 4,
    "left_out": 30,
    "joint": 20,
    "fit_one_comparison": 20,
    "report_card": 20,
    "missing_bounds": 20,
    "missing_verdicts": 100,
    "rankings": 100,
}
"""Claims of which other numbers of studies than 200 are run: slow ones, and one whose studies are
divided among many cells."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_printed_intervals_cover(name):
    cells = list(CLAIMS[name](STUDIES.get(name, 200), 0))
    assert cells
    missed = [row(c) for c in cells if not (c.on_target or c.miss)]
    assert not missed, missed
