"""Rows of a sweep's table: estimates with intervals, and the paper's numbers beside them.

A `Table` is filled by a sweep's `table` function and is tidy: columns that say which setting, then

    quantity, estimate, ci_low, ci_high     95 % interval over pools; empty for one pool
    n_pools                                 pools behind the estimate
    paper                                   the paper's number, where it gives one
    replicate_low, replicate_high           where 95 % of studies of the paper's own size fall
    consistent                              yes | no | calibrated

Arrays carry their settings by name: the coordinates of an `xarray.DataArray` that are columns of
the table fill them. Pools are the last axis.

**Replicates.** A study of the paper's size has as many pools as stand beside the paper's number in
`paper.csv`, drawn anew from ours, and as many acquisition seeds a pool. What is averaged or
subtracted pool by pool (judges, rules, models) shares the study's pools; numbers of different rows
do not matter to one another. For a crossing the study has fresh pools at every grid point; that the
same pools serve at all of them is the variant `crossing_same_pools`. The range is as rough as our
own pools are few. Beside a judge that was calibrated to numbers of the same study it has the
calibration's error in it, and the rounding of what was calibrated to (`Carried`).

**Consistent** is yes if the paper's number, to as many digits as it is printed with, lies within
the replicates; `calibrated` where the number was an input of ours, so that agreement says nothing;
empty where more than 2.5 % of the studies find no number, or the paper's crossing is off our grid.
Where the paper gives two numbers for one thing, the row stands twice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats
from jbt.experiments.paper import SETTINGS, PaperNumber

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
from jbt.experiments.labelled_arrays import plain, rows_of, scalars, slabs

NUMBERS = (
    "estimate",
    "ci_low",
    "ci_high",
    "n_pools",
    "paper",
    "replicate_low",
    "replicate_high",
)

Interval = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""[rows, P] -> estimate, low, high [rows]."""

Studies = Callable[[int, int | None], np.ndarray]
"""(pools, acquisition seeds a pool) -> [R] what studies of that size find."""


@dataclass(frozen=True)
class Carried:
    """What studies of the paper's size are drawn from in place of a row's own numbers, where the
    judge was calibrated to what the paper prints of the same pools (`jbt.twins.error`)."""

    pools: xr.DataArray
    """[..., pool] as the row's numbers, with the calibration's error in them."""
    blur: np.ndarray
    """[...] standard deviation that a study's mean has beside: of the targets' rounding, and of
    what they leave open."""
    within: tuple[float, float] = (-math.inf, math.inf)
    """The least and the largest number that there can be."""

    def drawn(self, found: np.ndarray, blur: float, seed: int) -> np.ndarray:
        """Means [R] of studies, blurred, within bounds."""
        beside = np.random.default_rng([seed, len(found)]).normal(0.0, blur, len(found))
        return np.clip(found + beside, *self.within)


class Table:
    """The table of a sweep, row by row."""

    def __init__(
        self, columns: Sequence[str], settings: Any, paper: Sequence[PaperNumber] = ()
    ) -> None:
        """
        Args:
          columns: that say which setting a row is of.
          settings: of the run; its seed is that of every bootstrap.
          paper: what is to stand beside rows of its setting.

        Raises:
          ValueError: a number of the paper whose setting names no column and no field.
        """
        for number in paper:
            for name in number.setting:
                field = name.removeprefix(SETTINGS)
                if name not in columns and not hasattr(settings, field):
                    raise ValueError(
                        f"paper.csv: {name!r} of {number.quantity} is no column and no setting"
                    )
        self.columns = tuple(columns)
        self.settings = settings
        self.seed: int = settings.seed
        self._paper = list(paper)
        self._rows: list[dict[str, Any]] = []
        self._beside: list[PaperNumber] = []
        self._false_alarms = np.zeros(stats.REPLICATES)

    def add(
        self,
        quantity: str,
        estimate: Any,
        interval: Sequence[Any] = (math.nan, math.nan),
        n_pools: int | None = None,
        *,
        studies: Studies | None = None,
        beside: str | None = None,
        runs: int | None = None,
        reach: tuple[float, float] = (-math.inf, math.inf),
        **setting: Any,
    ) -> None:
        """One row, or one for each number the paper gives for it.

        Args:
          quantity, estimate, interval, n_pools: its numbers; infinite ones (beyond a grid) are
            left empty.
          studies: what studies of the paper's size find; needed where the paper has a number.
          beside: the quantity whose paper's numbers stand beside it, default this one; "" for
            none.
          runs: pools of a study to be replicated where the paper has no number.
          reach: where a study can find its number; of the paper's beyond it nothing is said.
          setting: values of the columns; what is not given is empty.

        Raises:
          ValueError: a setting that is no column, a number of the paper without `studies`.
        """
        leading = self._leading(setting)
        own = dict(zip(NUMBERS, (*map(_finite, (estimate, *interval)), n_pools), strict=False))
        row = {**leading, "quantity": quantity, **own}
        numbers = self._numbers(quantity if beside is None else beside, leading)
        self._beside += numbers
        for number in numbers:
            if studies is None:
                raise ValueError(f"{quantity} has a number of the paper, but no replicates")
            found = studies(number.pools, number.seeds)
            low, high = _range(found)
            replicates = {"replicate_low": _finite(low), "replicate_high": _finite(high)}
            within_reach = reach[0] <= number.value <= reach[1]
            verdict = number.verdict(low, high) if within_reach else None
            beside_it = {"paper": number.value, "consistent": verdict}
            self._rows.append({**row, **replicates, **beside_it})
            if verdict in ("yes", "no"):
                outside = (found < low - number.rounding) | (found > high + number.rounding)
                self._false_alarms += np.resize(outside, stats.REPLICATES)
        if not numbers:
            if runs is not None and studies is not None:
                low, high = _range(studies(runs, None))
                row |= {"replicate_low": _finite(low), "replicate_high": _finite(high)}
            self._rows.append(row)

    def _leading(self, setting: dict[str, Any]) -> dict[str, Any]:
        if unknown := setting.keys() - set(self.columns):
            raise ValueError(f"no columns {', '.join(sorted(unknown))} in this table")
        return {name: plain(setting.get(name)) for name in self.columns}

    def _numbers(self, quantity: str, leading: dict[str, Any]) -> list[PaperNumber]:
        mine = [n for n in self._paper if n.quantity == quantity]
        return [n for n in mine if n.stands_beside(leading, self.settings)]

    def false_alarms(self) -> np.ndarray:
        """[R] how many of the verdicts so far are `no` in each study of the paper's size, if the
        simulation is the truth: 5 % of them at most on average, less where studies find few
        different numbers. Rows whose studies are drawn from the same pools go together."""
        return self._false_alarms

    def paper_alone(self) -> None:
        """A row without an estimate for each number of the paper that stands beside none so far:
        those of a judge, say, whose verdicts are not at hand. Nothing is said of its agreement."""
        for number in [n for n in self._paper if n not in self._beside]:
            setting: dict[str, Any] = {k: v for k, v in number.setting.items() if k in self.columns}
            nothing = np.full(1, np.nan)
            self.add(number.quantity, math.nan, studies=lambda *_, n=nothing: n, **setting)

    def means(
        self,
        quantity: str,
        values: xr.DataArray,
        runs: int | None = None,
        /,
        carried: Any = None,
        **setting: Any,
    ) -> None:
        """Means over pools, a row for every other coordinate but that of acquisition seeds, which
        are averaged within each pool. NaN (no result) is left out and not counted.

        Args:
          values: [..., pool] numbers, or [..., acquisition_seed, pool].
          runs: pools of a study to be replicated where the paper has no number.
          carried: a `Carried`, what studies are drawn from instead, in the shape of `values`.
          setting: values of columns that are no coordinates, or instead of them.
        """
        interval = partial(stats.mean_interval, seed=self.seed)
        self._rows_with(interval, quantity, values, setting, runs, carried)

    def shares(self, quantity: str, values: xr.DataArray, **setting: Any) -> None:
        """As `means`, of zeros and ones: with exact intervals, also where all pools are alike."""
        self._rows_with(stats.share_interval, quantity, values, setting)

    def _rows_with(
        self,
        interval_of: Interval,
        quantity: str,
        values: xr.DataArray,
        setting: dict[str, Any],
        runs: int | None = None,
        carried: Any = None,
    ) -> None:
        instead = None if carried is None else self._studies_of(carried)
        for rows in slabs(rows_of(values, self.columns)):
            pools = np.stack([np.atleast_2d(each).mean(0) for _, each in rows])
            known = np.isfinite(pools).sum(-1)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Mean of empty slice")  # a row without results
                numbers = np.stack(interval_of(pools), axis=-1)
            for (row, each), (mean, *interval), n in zip(rows, numbers, known, strict=True):
                self.add(
                    quantity,
                    mean,
                    interval,
                    int(n),
                    studies=next(instead) if instead else self._study_means(np.atleast_2d(each)),
                    runs=runs,
                    **(row | setting),
                )

    def _study_means(self, by_seed: np.ndarray) -> Studies:
        """[S, P] numbers a seed and pool -> what studies find of their mean."""

        def studies(size: int, seeds: int | None) -> np.ndarray:
            pools = stats.with_seeds(by_seed, seeds)
            return stats.bootstrap_means(
                pools, seed=self.seed, size=size, resamples=stats.REPLICATES
            )

        return studies

    def _studies_of(self, carried: Carried) -> Iterator[Studies]:
        """What studies find of each row in turn."""
        rows = rows_of(carried.pools, self.columns)
        for (_, each), blur in zip(rows, np.ravel(carried.blur), strict=True):
            plain = self._study_means(np.atleast_2d(each.astype(float)))

            def studies(
                size: int, seeds: int | None, plain: Studies = plain, blur: float = blur
            ) -> np.ndarray:
                return carried.drawn(plain(size, seeds), blur, self.seed)

            yield studies

    def ratio(self, quantity: str, above: np.ndarray, below: np.ndarray, **setting: Any) -> None:
        """Ratio of two means over the same pools, [P] each; pools in which either is NaN are left
        out."""
        known = np.isfinite(above) & np.isfinite(below)
        both = np.stack([above[known], below[known]])

        def ratios(means: np.ndarray) -> np.ndarray:
            return means[:, 0] / means[:, 1]

        def studies(size: int, seeds: int | None) -> np.ndarray:
            return ratios(
                stats.bootstrap_means(both, seed=self.seed, size=size, resamples=stats.REPLICATES)
            )

        resampled = ratios(stats.bootstrap_means(both, seed=self.seed))
        interval = stats.percentiles(resampled, n_units=int(known.sum()))
        estimate = both[0].mean() / both[1].mean()
        self.add(quantity, estimate, interval, int(known.sum()), studies=studies, **setting)

    def crossing(
        self,
        benefit: xr.DataArray,
        over: str = "rho",
        *,
        runs: int | None = None,
        **setting: Any,
    ) -> None:
        """Where a mean benefit first stops being positive, along a coordinate; and once more,
        `crossing_same_pools`, with replicates that share their pools over the whole grid.

        Args:
          benefit: [over, pool].
          runs: pools a point of a study to be replicated where the paper has no number.
          setting: values of columns, beside the scalar coordinates.
        """
        x, values = benefit[over].values, benefit.transpose(over, "pool").values
        known = int(np.isfinite(values).sum(-1).min())
        at = stats.first_crossing(x, np.nanmean(values, axis=-1))
        means = stats.bootstrap_means(values, seed=self.seed)
        found = stats.first_crossing(x, means)
        interval = stats.crossing_interval(found, n_units=known)
        row = scalars(benefit, self.columns) | setting
        for quantity, same in (("crossing", False), ("crossing_same_pools", True)):

            def studies(size: int, seeds: int | None, same: bool = same) -> np.ndarray:
                found = stats.study_means(values, seed=self.seed, size=size, same_pools=same)
                return stats.first_crossing(x, found)

            if same and runs is None and not self._numbers("crossing", self._leading(row)):
                continue  # nothing would differ
            self.add(
                quantity,
                float(at),
                interval,
                known,
                studies=studies,
                beside="crossing",
                runs=runs,
                reach=(float(x[0]), float(x[-1])),
                **row,
            )

    def without_a_row(self) -> list[PaperNumber]:
        """Numbers of the paper for these settings that stand beside none of the rows."""
        mine = [n for n in self._paper if n.is_of(self.columns, self.settings)]
        return [n for n in mine if n not in self._beside]

    def frame(self) -> pd.DataFrame:
        """The rows as they were added."""
        import pandas as pd

        columns = [*self.columns, "quantity", *NUMBERS, "consistent"]
        table = pd.DataFrame(self._rows, columns=columns)
        return table.astype(dict.fromkeys(NUMBERS, float))


def _range(found: np.ndarray) -> tuple[float, float]:
    """Where 95 % of the studies fall; NaN where more than 2.5 % of them find no number."""
    known = found[~np.isnan(found)]
    if len(known) < 0.975 * len(found):
        return math.nan, math.nan
    return stats.percentiles(known)


def _finite(value: Any) -> float:
    return stats.finite_or_nan(np.asarray(value, float))
