"""Measure the coverage of every interval and rate that jbt prints.

    python -m benchmarks.calibration [NAME ...] [--studies N] [--seed N] [--out DIR] [--keep]
    python -m benchmarks.calibration --page

Each file here simulates studies of one kind of interval, on a grid that includes settings in which
the interval's assumptions fail. A cell counts the studies in which jbt prints the interval, and
those of them in which the interval holds the truth.

Every NAME writes DIR/NAME.csv (default results/calibration/). With --keep the rows replace those of
docs/calibration, from which the page docs/calibration.md is made; --page makes it of the rows kept
and simulates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jbt import stats


@dataclass(frozen=True)
class Cell:
    """One setting of one interval."""

    interval: str
    """Name of the interval, with the command that prints it."""
    setting: str
    """The setting that the studies are drawn from."""
    studies: int
    """Simulated studies (count)."""
    printed: int
    """Studies in which the interval is printed, not withheld (count)."""
    covered: int
    """Printed intervals that hold the truth (count)."""
    nominal: float = 0.95
    """Coverage promised; for a rate, its bound is 1 - nominal."""
    one_sided: bool = False
    """Whether it is a guarantee: coverage may exceed the nominal level."""
    median_width: float = float("nan")
    """Median width of the printed intervals, in the interval's own unit."""
    note: str = ""
    """Why the row misses its target, or what the command prints there."""
    may_miss: bool = False
    """Whether the row is known to miss: an assumption fails without a trace in the verdicts, or the
    row is there for comparison."""

    @property
    def coverage(self) -> tuple[float, float, float]:
        """Share of the printed intervals that hold the truth, with its own 95 % interval."""
        return stats.count_interval(self.covered, self.printed)

    @property
    def on_target(self) -> bool:
        """Whether the target range overlaps the coverage's own interval."""
        if not self.printed:
            return True
        _, low, high = self.coverage
        least = self.nominal - 0.02
        most = 1.0 if self.one_sided else self.nominal + 0.02
        return bool(high >= least and low <= most)


Cells = Callable[[int, int], Iterator[Cell]]
"""(studies in a cell, seed) -> the cells of one interval."""
