"""Recall against the budget over many runs and pools: the result of `jbt replay`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt import stats
from jbt.border.report import Report, Section
from jbt.own.fits.batch import PoolTable
from jbt.own.tables.verdicts import ALL
from jbt.stats import FEWEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCORED_BY = {"full_data": "all verdicts", "quality": "trusted quality", "anchors": "anchors"}
"""Sources of the top k, with their names in a report: the model's fit to all verdicts, a quality
column, anchors."""

COLUMNS = ("judge", "pool", "rule", "budget", "recall", "low", "high", "scored_by")

RECALL = ["recall", "low", "high"]
COST = ["budget", "low", "high"]
"""An estimate and its interval, in `Replay.table` and in `Replay.needed`."""

MOST_LINES = 8
"""Most lines in a panel of the figure (count)."""


@dataclass(frozen=True, eq=False)
class Replay:
    """Recall of the top k after each budget of recorded verdicts."""

    table: pd.DataFrame
    """judge, pool, rule, budget (verdicts of a pool), recall (share of the top k), low, high (95 %
    interval), scored_by (one of `SCORED_BY`). A row for each pool, with an interval over
    acquisition seeds, and one for `all`, the mean over pools, with an interval over pools; a pool
    with fewer verdicts than the budget counts there with all it has. With fewer than five pools or
    seeds low and high are NaN."""
    needed: pd.DataFrame
    """judge, rule, budget (verdicts of a pool): the smallest from which on the mean over pools of
    the recall of the top k by all verdicts stays at `target`, with its 95 % interval low, high; NaN
    beyond the largest budget, and low and high with fewer than five pools or seeds. share: the
    budget as a share of all ordered pairs with a verdict. A row for each judge and rule."""
    verdicts: pd.DataFrame
    """judge, n_pools, n_verdicts: pools that were run, and their ordered pairs with a verdict."""
    k: int
    target: float
    seeds: int
    refit_every: int
    notes: list[str]
    """What was assumed and what was left out, in sentences."""

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A section for each judge and each `scored_by`."""
        rules = self.table["rule"].nunique()
        runs = f"{rules} rules, {self.seeds} seeds each, a refit after every "
        runs += "verdict" if self.refit_every == 1 else f"{self.refit_every} verdicts"
        units = f"budgets are verdicts of one pool; {_intervals(self.verdicts['n_pools'])}"
        answers, sections = [], []
        means = self.table[self.table["pool"] == ALL]
        by_judge = (_by_judge(table) for table in (means, self.needed, self.verdicts))
        for (judge, rows), (_, needed), (_, total) in zip(*by_judge, strict=True):
            answer, *more = self._sentences(rows, needed)
            answers.append(answer if judge is None else f"{judge}: {answer}")
            for scored_by, curves in rows.groupby("scored_by", sort=False):
                name = f"recall of the top {self.k} by {SCORED_BY[str(scored_by)]}"
                lines = []
                if scored_by == "full_data":
                    n_pools, n_verdicts = total[["n_pools", "n_verdicts"]].iloc[0]
                    lines = [f"{n_pools} pools, {n_verdicts} ordered pairs judged", *more]
                table = self._at_a_few_budgets(curves, needed)
                sections.append(Section(f"{judge or 'all verdicts'}: {name}", lines, table))
        return Report(title, [*lead, *self.notes, runs, units], sections, answer=answers)

    def _sentences(self, means: pd.DataFrame, needed: pd.DataFrame) -> Iterator[str]:
        """Yield sentences on how many verdicts of a judge the best rule needed."""
        by_all = means[means["scored_by"] == "full_data"]
        goal = f"{_percent(self.target)} of the top {self.k} that all verdicts give"
        if needed["budget"].isna().all():
            yield f"no rule found {goal} within {by_all['budget'].max()} verdicts of a pool"
            return
        area = by_all.groupby("rule")["recall"].mean()
        ranked = needed.assign(area=needed["rule"].map(area)).sort_values(
            ["budget", "area"], ascending=[True, False], na_position="last"
        )
        best, n = ranked.iloc[0], len(ranked)
        chosen = f", the best of {n} rules (chosen afterwards, which flatters it)," * (n > 1)
        cost, share = _interval(*best[COST]), _percent(best["share"])
        sentence = f"{best['rule']}{chosen} found {goal} after {cost} verdicts of a pool "
        sentence += f"({share} of them)"
        random = needed.loc[needed["rule"] == "random", COST]
        if len(random) and best["rule"] != "random":
            sentence += f"; in random order it took {_interval(*random.iloc[0])}"
        yield sentence
        trusted = means[(means["rule"] == best["rule"]) & (means["scored_by"] != "full_data")]
        for scored_by, rows in trusted.groupby("scored_by", sort=False):
            curve = rows.set_index("budget")[RECALL]
            then, at_end = (
                _interval(*row, digits=2) for row in (curve.loc[best["budget"]], curve.iloc[-1])
            )
            name = SCORED_BY[str(scored_by)]
            yield f"by {name} its recall was {then} then, {at_end} after all"

    def _at_a_few_budgets(self, curves: pd.DataFrame, needed: pd.DataFrame) -> pd.DataFrame:
        """A line for each rule: recall at a few budgets and, where scored by all verdicts, the
        verdicts needed."""
        budgets = curves["budget"].unique()
        shown = [np.abs(budgets - budgets[-1] * part).argmin() for part in (0.25, 0.5, 0.75, 1)]
        shown = budgets[np.unique(shown)]
        table = pd.DataFrame({"rule": curves["rule"].unique()})
        if (curves["scored_by"] == "full_data").all():
            costs = needed.set_index("rule").loc[table["rule"], COST].to_numpy()
            table[f"verdicts for {self.target:g}"] = [_interval(*row) for row in costs]
            shown = shown[:-1] if len(shown) > 1 else shown  # recall is 1 after all verdicts
        for budget in shown:
            rows = curves.loc[curves["budget"] == budget, RECALL].to_numpy()
            table[f"after {budget}"] = [_interval(*row, digits=2) for row in rows]
        return table

    def to_frame(self) -> pd.DataFrame:
        """`table`, rounded to six decimals."""
        return self.table.round(6)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        tables = {"needed": self.needed.round(6), "table": self.table.round(6)}
        return {
            name: table.astype(object).where(table.notna(), None).to_dict("records")
            for name, table in tables.items()
        }

    def figure(self) -> Figure:
        """Draw recall against the budget."""
        return figure(self.table, self.k, self.target)


def _by_judge(table: pd.DataFrame) -> list[tuple[str | None, pd.DataFrame]]:
    """The rows of each judge."""
    groups = table.groupby("judge", sort=False, dropna=False)
    return [(None if pd.isna(judge) else str(judge), rows) for judge, rows in groups]


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _interval(value: float, low: float, high: float, *, digits: int = 0) -> str:
    """A number with its interval, if there is one; what lies beyond the largest budget is more."""
    number, *ends = ("more" if np.isnan(v) else f"{v:.{digits}f}" for v in (value, low, high))
    has_interval = np.isfinite(value) and np.isfinite([low, high]).any()
    return f"{number} [{', '.join(ends)}]" if has_interval else number


def _intervals(n_pools: pd.Series) -> str:
    """State what the intervals are over, or why there are none."""
    few = (n_pools > 1) & (n_pools < FEWEST)
    reason = f"fewer than {FEWEST} pools, too few for a 95 % interval"
    if few.all():
        return f"no intervals: {reason}"
    single_pool = ", or over seeds where there is only one pool" if (n_pools == 1).any() else ""
    except_for = f"; none for a judge with {reason}" if few.any() else ""
    return f"[ ]: 95 % intervals at least, over pools{single_pool}{except_for}"


# --- curves


def summaries(
    pools: Sequence[PoolTable],
    rules: Sequence[str],
    recall: np.ndarray,
    budgets: np.ndarray,
    n_verdicts: np.ndarray,
    target: float,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """`Replay.table`, `Replay.needed` and `Replay.verdicts`.

    Args:
      pools: pools of a judge.
      recall: [rules, pools, seeds, scored_by, budgets], NaN where nothing was run or the top k is
        undefined.
      budgets: [budgets] verdicts of a pool, increasing.
      n_verdicts: [pools] ordered pairs with a verdict; 0 where nothing was run.
      target: recall wanted.
    """
    curves, costs, totals = [], [], []
    judges = np.array([pool.judge for pool in pools], object)
    for judge in dict.fromkeys(judges):
        fits = np.flatnonzero((judges == judge) & (n_verdicts > 0))
        if not fits.size:
            continue
        n = n_verdicts[fits]
        totals.append((judge, len(fits), int(n.sum())))
        for number, scored_by in enumerate(SCORED_BY):
            defined = fits[np.isfinite(recall[0, fits, 0, number, 0])]
            if not defined.size:
                continue
            names = [pools[fit].pool for fit in defined]
            runs, certain = recall[..., number, :][:, defined], scored_by == "full_data"
            table = _curves(rules, names, runs, budgets, n_verdicts[defined], certain=certain)
            curves.append(table.assign(judge=judge, scored_by=scored_by))
        cost = needed(_units(recall[..., 0, :][:, fits]), budgets, target, all_at=int(n.max()))
        cost[np.isinf(cost)] = np.nan
        share = np.minimum(cost[0][:, None], n).sum(1) / n.sum()
        numbers = dict(zip(COST, cost, strict=True))
        costs.append(pd.DataFrame({"judge": judge, "rule": rules, **numbers, "share": share}))
    return (
        pd.concat(curves, ignore_index=True)[list(COLUMNS)],
        pd.concat(costs, ignore_index=True),
        pd.DataFrame(totals, columns=["judge", "n_pools", "n_verdicts"]),
    )


def _units(runs: np.ndarray) -> np.ndarray:
    """[rules, budgets, units] recall of each pool, a mean over seeds, given runs [rules, pools,
    seeds, budgets]; of each seed where there is one pool."""
    return np.moveaxis(runs.mean(2) if runs.shape[1] > 1 else runs[:, 0], 1, -1)


def _curves(
    rules: Sequence[str],
    names: Sequence[str],
    runs: np.ndarray,
    budgets: np.ndarray,
    n_verdicts: np.ndarray,
    *,
    certain: bool,
) -> pd.DataFrame:
    """Rows of one judge's curves for each rule, of the mean over pools and of each pool up to all
    its verdicts.

    Args:
      names: names of the pools.
      runs: [rules, pools, seeds, budgets] recall.
      n_verdicts: [pools].
      certain: whether recall is 1 by definition after all verdicts.
    """
    mean = np.stack(stats.bounded_interval(_units(runs)))[:, :, None]
    by_pool = np.stack(stats.bounded_interval(np.moveaxis(runs, 2, -1)))
    numbers = np.concatenate([mean, by_pool], 2)  # recall, low and high; rules; pools; budgets
    if certain:
        numbers[:, :, budgets >= np.r_[n_verdicts.max(), n_verdicts][:, None]] = 1.0
    ends = np.r_[np.inf, n_verdicts]
    shown = np.r_[0, budgets[:-1]] < ends[:, None]
    if list(names) == [ALL]:  # the mean is of this pool
        shown[1] = False
    rule, pool, at = np.nonzero(np.broadcast_to(shown, numbers.shape[1:]))
    table = {
        "pool": np.array([ALL, *names], object)[pool],
        "rule": np.array(rules, object)[rule],
        "budget": np.minimum(budgets[at], ends[pool]).astype(int),
    }
    return pd.DataFrame(table | dict(zip(RECALL, numbers[:, rule, pool, at], strict=True)))


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


# --- figure


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
            ax.set_title(f"{judge or 'all verdicts'}, top {k} by {SCORED_BY[scored_by]}")
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
