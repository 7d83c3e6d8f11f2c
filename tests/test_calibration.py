"""Intervals cover at their nominal level: the benchmark's own cells, with fewer studies."""

import pytest

from benchmarks.calibration import Cell
from benchmarks.calibration.__main__ import KEPT, NAMES, PAGE, TITLES, cells_of, page, row


def test_a_cell_knows_whether_its_coverage_can_be_on_target():
    def cell(covered, one_sided=False):
        return Cell("i", "s", 2000, 1000, covered, one_sided=one_sided)

    assert cell(950).on_target
    assert cell(925).on_target  # its own interval reaches .93
    assert not cell(900).on_target
    assert not cell(1000).on_target
    assert cell(1000, one_sided=True).on_target
    assert Cell("i", "s", 10, 0, 0).on_target  # withheld everywhere


def test_the_page_is_that_of_the_kept_rows():
    assert PAGE.read_text() == page()
    assert {path.stem for path in KEPT.glob("*.csv")} == set(NAMES) == set(TITLES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_printed_intervals_cover(name):
    cells = list(cells_of(name)(200, 0))
    assert cells
    missed = [row(c) for c in cells if not (c.on_target or c.may_miss)]
    assert not missed, missed
