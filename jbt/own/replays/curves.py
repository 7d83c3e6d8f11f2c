"""Recall against the budget over many runs and pools: means, intervals and the budget needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from jbt import stats
from jbt.own.fits.batch import Batch
from jbt.own.replays.oracle import SCORED_BY
from jbt.own.tables.verdicts import ALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("judge", "pool", "rule", "budget", "recall", "low", "high", "scored_by")

NAMES = {"full_data": "all verdicts", "quality": "trusted quality", "anchors": "anchors"}
"""Label of each entry of `SCORED_BY`."""

MOST_LINES = 8
"""Most lines in a panel of the figure (count)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Curves:
    """The recall of every run."""

    batch: Batch
    rules: list[str]
    recall: np.ndarray
    """[rules, pools of a judge, seeds, scored_by, budgets], NaN where nothing was run or the top
    k is undefined."""
    budgets: np.ndarray
    """[budgets] verdicts of a pool, increasing."""
    n_verdicts: np.ndarray
    """[pools of a judge] ordered pairs with a verdict; 0 where nothing was run."""

    def table(self) -> pd.DataFrame:
        """A row for each judge, scored_by, rule, pool (or all pools) and budget."""
        parts = [part for judge in self._judges() for part in self._parts(*judge)]
        return pd.concat(parts, ignore_index=True)[list(COLUMNS)]

    def needed(self, target: float) -> pd.DataFrame:
        """judge, rule, budget, low, high, share: the smallest budget from which on the mean recall
        of the top k by all verdicts is at least `target`."""
        rows = []
        for judge, fits in self._judges():
            values = self.recall[:, fits][..., 0, :].transpose(0, 3, 1, 2)  # seeds last
            unit = values.mean(-1) if len(fits) > 1 else values[:, :, 0]
            n_verdicts = self.n_verdicts[fits]
            numbers = needed(unit, self.budgets, target, all_at=int(n_verdicts.max())).T
            for rule, cost in zip(self.rules, numbers, strict=True):
                budget, low, high = map(stats.finite_or_nan, cost)
                share = np.minimum(budget, n_verdicts).sum() / n_verdicts.sum()
                rows.append((judge, rule, budget, low, high, share))
        return pd.DataFrame(rows, columns=["judge", "rule", "budget", "low", "high", "share"])

    def spent(self) -> pd.DataFrame:
        """judge, n_pools, n_verdicts: totals over the pools that were run."""
        rows = [(j, len(fits), int(self.n_verdicts[fits].sum())) for j, fits in self._judges()]
        return pd.DataFrame(rows, columns=["judge", "n_pools", "n_verdicts"])

    def _judges(self) -> Iterator[tuple[str | None, np.ndarray]]:
        """Yield each judge and the indices of its fits that were run."""
        judges = [pool.judge for pool in self.batch.pools]
        for judge in dict.fromkeys(judges):
            by_judge = np.array([j == judge for j in judges])
            if (fits := np.flatnonzero(by_judge & (self.n_verdicts > 0))).size:
                yield judge, fits

    def _parts(self, judge: str | None, fits: np.ndarray) -> Iterator[pd.DataFrame]:
        for number, scored_by in enumerate(SCORED_BY):
            for rule, recall in zip(self.rules, self.recall[:, fits][..., number, :], strict=True):
                defined = np.isfinite(recall[:, 0, 0])
                if not defined.any():
                    continue
                values = recall[defined].transpose(2, 0, 1)  # budgets, pools, seeds
                n_verdicts = self.n_verdicts[fits[defined]]
                by_pool = np.stack(stats.bounded_interval(values))
                units = values.mean(-1) if values.shape[1] > 1 else values[:, 0]
                mean = np.stack(stats.bounded_interval(units))[..., None]
                if scored_by == "full_data":  # recall is 1 by definition
                    by_pool[:, self.budgets[:, None] >= n_verdicts] = 1.0
                    mean[:, self.budgets >= n_verdicts.max()] = 1.0
                where = {"judge": judge, "rule": rule, "scored_by": scored_by}
                yield self._frame(mean, [ALL], np.array([np.inf])).assign(**where)
                names = [self.batch.pools[i].pool for i in fits[defined]]
                if names != [ALL]:
                    yield self._frame(by_pool, names, n_verdicts).assign(**where)

    def _frame(self, numbers: np.ndarray, names: list[str], n_verdicts: np.ndarray) -> pd.DataFrame:
        """Rows of numbers [3, budgets, pools], for each pool up to all its verdicts."""
        before = np.concatenate([[0], self.budgets[:-1]])
        pool, at = np.nonzero(before < n_verdicts[:, None])
        columns = dict(zip(("recall", "low", "high"), numbers[:, at, pool], strict=True))
        budget = np.minimum(self.budgets[at], n_verdicts[pool]).astype(int)
        return pd.DataFrame({"pool": np.asarray(names, object)[pool], "budget": budget, **columns})


def needed(
    recall: np.ndarray, budgets: np.ndarray, target: float, *, all_at: float | int = np.inf
) -> np.ndarray:
    """The smallest budget from which on a mean recall is at least a target, with its 95 % interval:
    [3, ...] budget, low, high; infinity beyond the largest budget. With fewer than `stats.FEWEST`
    units the ends are NaN.

    The ends come from the intervals of the mean at all budgets (`stats.bounded_interval`): low is
    the first budget where the upper end reaches the target, high the first from which on the lower
    end stays there. Each end is wrong only if the interval at a single budget is, the one needed or
    the one before it, so that looking at many budgets costs no coverage.

    Args:
      recall: [..., budgets, units] recall of each unit, from 0 to 1.
      budgets: [budgets] increasing.
      target: recall wanted.
      all_at: the budget from which on recall is 1 by definition.
    """
    mean, low, high = stats.bounded_interval(recall)
    low, high = (np.where(budgets >= all_at, 1.0, end) for end in (low, high))

    def at(reached: np.ndarray) -> np.ndarray:
        return np.where(reached.any(-1), budgets[reached.argmax(-1)], np.inf)

    def stays(curve: np.ndarray) -> np.ndarray:
        return np.minimum.accumulate(curve[..., ::-1], -1)[..., ::-1] >= target - 1e-9

    ends = np.stack([at(high >= target - 1e-9), at(stays(low))])
    if recall.shape[-1] < stats.FEWEST:
        ends = np.full_like(ends, np.nan)
    return np.stack([at(stays(mean)), *ends])


def figure(table: pd.DataFrame, k: int, target: float) -> Figure:
    """Draw mean recall over pools against the budget: a row of panels for each judge, a panel for
    each `scored_by`, a line with its band for each rule. With more than `MOST_LINES` rules only
    those with a solid line are drawn. `table` is that of a replay."""
    from jbt.experiments import plots

    rows = table[table["pool"] == ALL]
    if rows["rule"].nunique() > MOST_LINES:
        solid = [name for name, (_, line) in plots.RULE_STYLES.items() if line == "-"]
        rows = rows[rows["rule"].isin(solid)]
    judges = list(rows["judge"].drop_duplicates())
    scores = [s for s in SCORED_BY if (rows["scored_by"] == s).any()]
    size = {"n_rows": len(judges), "width": 5.6, "height": 4.2}
    fig, axes = plots.new_figure(len(scores), **size)
    grid = np.asarray(axes).reshape(len(judges), len(scores))
    for judge, panels in zip(judges, grid, strict=True):
        judge_rows = rows[rows["judge"].isna() if judge is None else rows["judge"] == judge]
        for scored_by, ax in zip(scores, panels, strict=True):
            draw(ax, judge_rows[judge_rows["scored_by"] == scored_by], k)
            ax.set_title(f"{judge or 'all verdicts'}, top {k} by {NAMES[scored_by]}")
            if scored_by == "full_data":
                ax.axhline(target, color="black", linestyle=":", linewidth=0.8)
    for ax in grid.ravel():
        ax.sharey(grid[0, 0])
    grid[0, 0].set_ylim(0, 1.02)
    grid[0, 0].legend(fontsize=7, loc="lower right")
    return fig


def draw(ax: Axes, rows: pd.DataFrame, k: int) -> Axes:
    """Draw recall against the budget, a line with its band for each rule."""
    from matplotlib.ticker import MaxNLocator

    from jbt.experiments import plots

    for name, curve in rows.groupby("rule", sort=False):
        numbers = (curve[c] for c in ("budget", "recall", "low", "high"))
        style = plots.rule_style(str(name))
        plots.band(ax, *numbers, label=str(name), shade=0.12, **style)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("budget, verdicts of a pool")
    ax.set_ylabel(f"recall of the top {k} (95 % band)")
    return ax
