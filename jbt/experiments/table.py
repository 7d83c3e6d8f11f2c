"""Rows of a sweep's table: estimates with intervals, and the paper's numbers beside them.

A sweep's `table` function fills a `Table`. It is tidy: columns that name the setting, then

    quantity, estimate, ci_low, ci_high     95 % interval over pools; empty for one pool
    n_pools                                 pools behind the estimate
    paper                                   the paper's number, where it gives one
    replicate_low, replicate_high           range of 95 % of studies of the paper's own size
    consistent                              yes | no | calibrated

Coordinates of an `xarray.DataArray` that are columns of the table fill these columns. Pools are the
last axis.

**Replicates.** A study of the paper's size has as many pools and as many acquisition seeds a pool
as `paper.csv` gives for the paper's number; its pools are drawn anew from ours. Judges, rules and
models that are averaged or subtracted pool by pool share the study's pools; different rows are
independent of one another. For a crossing the study has fresh pools at every grid point; in the
variant `crossing_same_pools` the same pools serve at all points. The fewer our pools, the rougher
the range. For a judge that was calibrated to numbers of the same study, the range includes the
calibration's error and the rounding of these numbers.

**Consistent** is yes if the paper's number, to its printed digits, lies within the replicates;
`calibrated` where the number was an input of ours, so that agreement proves nothing; empty where
more than 2.5 % of the studies find no number, or the paper's crossing is off our grid. Where the
paper gives two numbers for one quantity, the row appears twice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats
from jbt.experiments.labelled_arrays import plain, rows_of, scalars
from jbt.experiments.paper import PaperNumber

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

NUMBERS = (
    *("estimate", "ci_low", "ci_high", "n_pools"),
    *("paper", "replicate_low", "replicate_high"),
)

AT_ONCE = 8_000_000
"""Numbers that are resampled together; the limit keeps memory from growing with the pools."""

Interval = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""[rows, P] -> estimate, low, high [rows]."""

Studies = Callable[[int, int | None], np.ndarray]
"""(pools, acquisition seeds a pool) -> [R] estimates of studies of that size."""


class Table:
    """The table of a sweep, row by row."""

    def __init__(
        self, columns: Sequence[str], settings: Any, paper: Sequence[PaperNumber] = ()
    ) -> None:
        """
        Args:
          columns: name a row's setting.
          settings: of the run; its seed seeds every bootstrap.
          paper: numbers to put beside the rows of their settings.
        """
        self.columns = tuple(columns)
        self.settings = settings
        self.seed: int = settings.seed
        self._paper = list(paper)
        self._rows: list[dict[str, Any]] = []
        self._added: set[tuple[Any, ...]] = set()

    def add(
        self,
        quantity: str,
        estimate: Any,
        interval: Sequence[Any] = (math.nan, math.nan),
        n_pools: int | None = None,
        *,
        studies: Studies | None = None,
        beside: str | None = None,
        reach: tuple[float, float] = (-math.inf, math.inf),
        **setting: Any,
    ) -> None:
        """Add one row, or one for each number that the paper gives for it.

        Args:
          quantity, estimate, interval, n_pools: the row's numbers; infinite ones (beyond a grid)
            are left empty.
          studies: estimates of studies of the paper's size; needed where the paper has a number.
          beside: the quantity whose numbers of the paper stand beside the row, default this one; ""
            for none.
          reach: where a study can find its number; a number of the paper outside gets no verdict.
          setting: values of the columns; a column without a value is empty.

        Raises:
          ValueError: a setting that is not a column; two rows of one setting.
        """
        if unknown := setting.keys() - set(self.columns):
            raise ValueError(f"no columns {', '.join(sorted(unknown))} in this table")
        row: dict[str, Any] = {name: plain(setting.get(name)) for name in self.columns}
        if (quantity, *row.values()) in self._added:
            raise ValueError(
                f"two rows of {quantity} have one setting: columns lacks a label, or an option "
                "lists a value twice"
            )
        self._added.add((quantity, *row.values()))
        of_paper = quantity if beside is None else beside
        numbers = [
            number
            for number in self._paper
            if number.quantity == of_paper and number.stands_beside(row, self.settings)
        ]
        estimates = (*map(float, (estimate, *interval)), n_pools)
        row |= {"quantity": quantity, **dict(zip(NUMBERS, estimates, strict=False))}
        if not numbers:
            self._rows.append(row)
        for number in numbers:
            assert studies is not None, f"{quantity} has a number of the paper, but no replicates"
            low, high = _range(studies(number.pools, number.seeds))
            within_reach = reach[0] <= number.value <= reach[1]
            verdict = number.verdict(low, high) if within_reach else None
            ends = {"replicate_low": low, "replicate_high": high}
            self._rows.append({**row, **ends, "paper": number.value, "consistent": verdict})

    def means(
        self,
        quantity: str,
        values: xr.DataArray,
        *,
        studies: Sequence[Studies] | None = None,
        interval: Interval | None = None,
        **setting: Any,
    ) -> None:
        """Add means over pools, a row for every other coordinate except acquisition seeds, which
        are averaged within each pool. NaN (no result) is left out and not counted.

        Args:
          values: [..., pool] numbers, or [..., acquisition_seed, pool].
          studies: estimates of studies of the paper's size, for each row; default `study_means`.
          interval: of the means; default normal, over pools.
          setting: values of columns that are not coordinates, or in place of them.
        """
        rows = list(rows_of(values, self.columns))
        if not rows:
            return
        interval = interval or partial(stats.mean_interval, seed=self.seed)
        studies = studies or [partial(self.study_means, numbers) for _, numbers in rows]
        together = math.ceil(AT_ONCE / max(1, rows[0][1].size))
        for begin in range(0, len(rows), together):
            some = slice(begin, begin + together)
            pools = [np.atleast_2d(numbers).astype(float).mean(0) for _, numbers in rows[some]]
            pools = np.stack(pools)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Mean of empty slice")  # a row without results
                numbers = *interval(pools), np.isfinite(pools).sum(-1), studies[some]
            for (row, _), mean, *ends, n, of_row in zip(rows[some], *numbers, strict=True):
                self.add(quantity, mean, ends, int(n), studies=of_row, **row | setting)

    def study_means(self, by_seed: np.ndarray, size: int, seeds: int | None) -> np.ndarray:
        """Means [R] that studies of a size find, of numbers [P] or [S, P] by seed and pool."""
        pools = stats.with_seeds(np.atleast_2d(by_seed).astype(float), seeds)
        return stats.study_means(pools, seed=self.seed, size=size, same_pools=True)

    def shares(self, quantity: str, values: xr.DataArray, **setting: Any) -> None:
        """Like `means`, for zeros and ones: exact intervals, also where all pools are alike."""
        self.means(quantity, values, interval=stats.share_interval, **setting)

    def crossing(self, benefit: xr.DataArray, over: str = "rho", **setting: Any) -> None:
        """Add the point on a coordinate where a mean benefit first stops being positive; and a row
        `crossing_same_pools`, whose replicates share their pools over the whole grid.

        Args:
          benefit: [over, pool].
          setting: values of columns, beside the scalar coordinates.
        """
        x, values = benefit[over].values, benefit.transpose(over, "pool").values
        known = int(np.isfinite(values).sum(-1).min())
        estimate = stats.first_crossing(x, np.nanmean(values, axis=-1))
        means = stats.bootstrap_means(values, seed=self.seed)
        interval = stats.crossing_interval(stats.first_crossing(x, means), n_units=known)
        row = scalars(benefit, self.columns) | setting
        for quantity, same in (("crossing", False), ("crossing_same_pools", True)):

            def studies(size: int, seeds: int | None, same: bool = same) -> np.ndarray:
                means = stats.study_means(values, seed=self.seed, size=size, same_pools=same)
                return stats.first_crossing(x, means)

            self.add(
                quantity,
                float(estimate),
                interval,
                known,
                studies=studies,
                beside="crossing",
                reach=(float(x[0]), float(x[-1])),
                **row,
            )
            if "paper" not in self._rows[-1]:
                return  # without replicates the rows are the same

    def frame(self) -> pd.DataFrame:
        """The rows in the order in which they were added."""
        import pandas as pd

        columns = [*self.columns, "quantity", *NUMBERS, "consistent"]
        table = pd.DataFrame(self._rows, columns=columns)
        numbers = table[list(NUMBERS)].astype(float)
        table[list(NUMBERS)] = numbers.where(np.isfinite(numbers))
        return table


def _range(estimates: np.ndarray) -> tuple[float, float]:
    """Range of 95 % of the studies; NaN where more than 2.5 % of them find no number."""
    known = estimates[~np.isnan(estimates)]
    if len(known) < 0.975 * len(estimates):
        return math.nan, math.nan
    return stats.percentiles(known)
