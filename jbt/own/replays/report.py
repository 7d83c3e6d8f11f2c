"""Recall against the budget over many runs and pools: the result of `jbt replay`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt import stats
from jbt.border import files
from jbt.border.report import Report, Section, percent
from jbt.own.tables.outcomes import ALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORED_BY = {"full_data": "all verdicts", "quality": "trusted quality", "anchors": "anchors"}
"""Sources of the top k, with their names in a report: the model's fit to all verdicts, a quality
column, anchors."""

RECALL = ["recall", "low", "high"]
COST = ["budget", "low", "high"]
"""An estimate and its interval, in `Replay.table` and in `Replay.needed`."""

COLUMNS = ("judge", "pool", "rule", "budget", *RECALL, "scored_by")

MOST_LINES = 7
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
        runs = (
            f"{self.table['rule'].nunique()} rules, {self.seeds} seeds each, a refit after every "
        )
        runs += "verdict" if self.refit_every == 1 else f"{self.refit_every} verdicts"
        answers, sections = [], []
        means = self.table[self.table["pool"] == ALL]
        for judge, n_pools, n_verdicts in self.verdicts.itertuples(index=False):
            rows, needed = (_of_judge(table, judge) for table in (means, self.needed))
            answer, *more = self._sentences(rows, needed)
            answers.append(answer if judge is None else f"{judge}: {answer}")
            lines = [f"{n_pools} pools, {n_verdicts} ordered pairs judged", *more]
            for scored_by, curves in rows.groupby("scored_by", sort=False):
                source = SCORED_BY[str(scored_by)]
                heading = f"{judge or 'all verdicts'}: recall of the top {self.k} by {source}"
                table = self._at_a_few_budgets(curves, needed)
                sections.append(Section(heading, lines, table))
                lines = []
        units = f"budgets are verdicts of one pool; {_intervals(self.verdicts['n_pools'])}"
        return Report(title, [*lead, *self.notes, runs, units], sections, answer=answers)

    def _sentences(self, means: pd.DataFrame, needed: pd.DataFrame) -> Iterator[str]:
        """Yield sentences on how many verdicts of a judge the best rule needed."""
        by_all = means[means["scored_by"] == "full_data"]
        goal = f"{percent(self.target)} of the top {self.k} that all verdicts give"
        if needed["budget"].isna().all():
            yield f"no rule found {goal} within {by_all['budget'].max()} verdicts of a pool"
            return
        area = needed["rule"].map(by_all.groupby("rule")["recall"].mean())
        ranked = needed.assign(area=-area).sort_values(["budget", "area"])
        best, n = ranked.iloc[0], len(ranked)
        chosen = f", the best of {n} rules in hindsight (which flatters it)," * (n > 1)
        sentence = (
            f"{best['rule']}{chosen} found {goal} after {_interval(best[COST])} verdicts of a pool "
            f"({percent(best['share'])} of its verdicts)"
        )
        random = needed.loc[needed["rule"] == "random", COST]
        if len(random) and best["rule"] != "random":
            sentence += f"; a random order needed {_interval(random.iloc[0])}"
        yield sentence
        trusted = means[(means["rule"] == best["rule"]) & (means["scored_by"] != "full_data")]
        for scored_by, rows in trusted.groupby("scored_by", sort=False):
            curve = rows.set_index("budget")[RECALL]
            then, at_end = (
                _interval(row, digits=2) for row in (curve.loc[best["budget"]], curve.iloc[-1])
            )
            name = SCORED_BY[str(scored_by)]
            yield f"by {name}, its recall was {then} at that point and {at_end} after all verdicts"

    def _at_a_few_budgets(self, curves: pd.DataFrame, needed: pd.DataFrame) -> pd.DataFrame:
        """A line for each rule: recall at a few budgets and, where scored by all verdicts, the
        verdicts needed."""
        budgets = curves["budget"].unique()
        shown = [np.abs(budgets - budgets[-1] * part).argmin() for part in (0.25, 0.5, 0.75, 1)]
        shown = budgets[np.unique(shown)]
        table = pd.DataFrame({"rule": curves["rule"].unique()})
        if (curves["scored_by"] == "full_data").all():
            table[f"verdicts for {self.target:g}"] = needed[COST].apply(_interval, axis=1).tolist()
            shown = shown[:-1] if len(shown) > 1 else shown  # recall is 1 after all verdicts
        for budget in shown:
            rows = curves.loc[curves["budget"] == budget, RECALL]
            table[f"after {budget}"] = rows.apply(_interval, axis=1, digits=2).tolist()
        return table

    def to_frame(self) -> pd.DataFrame:
        """`table`, rounded to six decimals."""
        return self.table.round(6)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        tables = {"needed": self.needed, "table": self.table}
        return files.plain({name: t.round(6).to_dict("records") for name, t in tables.items()})

    def figure(self) -> Figure:
        """Draw mean recall over pools against the budget: a panel for each judge and `scored_by`, a
        line with its band for each rule, at most the first `MOST_LINES`."""
        from matplotlib.ticker import MaxNLocator

        from jbt.experiments import plots

        rows = self.table[self.table["pool"] == ALL]
        lines = plots.lines_of(rows["rule"].unique()[:MOST_LINES])
        drawn = rows[rows["rule"].isin([line.where["rule"] for line in lines])]
        every = product(self.verdicts["judge"], SCORED_BY)
        of_panel = {at: _of_judge(drawn[drawn["scored_by"] == at[1]], at[0]) for at in every}
        grid = [at for at in of_panel if len(of_panel[at])]
        fig, axes = plots.facets(len(grid), width=4.6, height=3.2)
        for (judge, scored_by), ax in zip(grid, axes, strict=True):
            panel = of_panel[judge, scored_by]
            for line in lines:
                curve = panel.loc[panel["rule"] == line.where["rule"], ["budget", *RECALL]]
                named = {"label": line.label, **line.style}
                plots.band(ax, *curve.to_numpy().T, colour=line.colour, shade=0.12, **named)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
            ax.set_xlabel("verdicts of a pool")
            ax.set_ylabel(f"recall of the top {self.k} (bands: 95 %)")
            recalls = panel.groupby("budget")["recall"].agg(["min", "max"])
            half = recalls.iloc[len(recalls) // 2]
            found = " to ".join(dict.fromkeys(f"{share:.2f}" for share in half))
            ax.set_title(
                f"{judge or 'all verdicts'}: after {half.name} verdicts the rules find\n"
                f"{found} of the top {self.k} by {SCORED_BY[scored_by]}"
            )
            ax.sharey(axes[0])
            if scored_by == "full_data":
                label = f"the target, {self.target:g}"
                ax.axhline(self.target, color="black", ls=":", lw=0.8, label=label)
        axes[0].set_ylim(0, 1.02)
        return plots.legend_below(fig, fontsize=9, ncols=3)


def _of_judge(table: pd.DataFrame, judge: str | None) -> pd.DataFrame:
    return table[table["judge"].isna() if judge is None else table["judge"] == judge]


def _interval(numbers: pd.Series, digits: int = 0) -> str:
    """A number with its interval, if there is one; what lies beyond the largest budget is more."""
    number, *ends = ("more" if np.isnan(v) else f"{v:.{digits}f}" for v in numbers)
    has_interval = number != "more" and ends != ["more", "more"]
    return f"{number} [{', '.join(ends)}]" if has_interval else number


def _intervals(n_pools: pd.Series) -> str:
    """State what the intervals are over, or why there are none."""
    few = (n_pools > 1) & (n_pools < stats.FEWEST)
    reason = f"fewer than {stats.FEWEST} pools, too few for a 95 % interval"
    if few.all():
        return f"no intervals: {reason}"
    single_pool = ", or over seeds where there is only one pool" if (n_pools == 1).any() else ""
    except_for = f"; none for a judge with {reason}" if few.any() else ""
    return f"[ ]: 95 % intervals at least, over pools{single_pool}{except_for}"


# --- curves


def summaries(
    judges: Sequence[str | None],
    pools: Sequence[str],
    rules: Sequence[str],
    recall: np.ndarray,
    budgets: np.ndarray,
    n_verdicts: np.ndarray,
    target: float,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """`Replay.table`, `Replay.needed` and `Replay.verdicts`.

    Args:
      recall: [judges, scored_by, rules, pools, budgets, seeds], NaN where nothing was run or the
        top k is undefined.
      budgets: [budgets] verdicts of a pool, increasing.
      n_verdicts: [judges, pools] ordered pairs with a verdict; 0 where nothing was run.
      target: recall wanted.
    """
    defined = np.isfinite(recall).any((2, 4, 5))
    by_pool = np.stack(stats.bounded_interval(recall))
    mean = np.stack(stats.bounded_interval(np.moveaxis(by_pool[0], -2, -1)))[..., None, :]
    # The units of the mean are pools; of a single pool they are its seeds.
    only = np.take_along_axis(by_pool, defined.argmax(-1)[:, :, None, None, None][None], -2)
    single = (defined.sum(-1) == 1)[:, :, None, None, None]
    # Estimate, low and high; judges; scored_by; rules; the mean, then each pool; budgets.
    numbers = np.concatenate([np.where(single, only, mean), by_pool], -2)
    last = np.c_[n_verdicts.max(1), n_verdicts]
    # After all verdicts, recall of what they give is 1 by definition.
    numbers[:, :, 0] = np.where((budgets >= last[..., None])[:, None], 1.0, numbers[:, :, 0])

    ends = np.c_[np.full(len(judges), np.inf), n_verdicts]
    shown = (np.r_[0, budgets[:-1]] < ends[..., None])[:, None]
    shown = shown & np.dstack([defined.any(-1), defined])[..., None]
    if list(pools) == [ALL]:  # the mean is of this pool
        shown[:, :, 1] = False
    shown = np.broadcast_to(shown[:, :, None], numbers.shape[1:])
    judge, scored_by, rule, pool, at = np.nonzero(shown)
    table = {
        "judge": np.array(judges, object)[judge],
        "pool": np.array([ALL, *pools], object)[pool],
        "rule": np.array(rules, object)[rule],
        "budget": np.minimum(budgets[at], ends[judge, pool]).astype(int),
        **dict(zip(RECALL, numbers[:, shown], strict=True)),
        "scored_by": np.array(list(SCORED_BY), object)[scored_by],
    }
    cost = needed(numbers[:, :, 0, :, 0], budgets, target)
    cost[np.isinf(cost)] = np.nan
    total = n_verdicts.sum(1)
    share = np.minimum(cost[0][..., None], n_verdicts[:, None]).sum(-1) / total[:, None]
    costs = {
        "judge": np.repeat(np.array(judges, object), len(rules)),
        "rule": np.tile(np.array(rules, object), len(judges)),
        **dict(zip(COST, cost.reshape(3, -1), strict=True)),
        "share": share.ravel(),
    }
    totals = {"judge": judges, "n_pools": (n_verdicts > 0).sum(1), "n_verdicts": total}
    ran = total > 0
    return (
        pd.DataFrame(table),
        pd.DataFrame(costs)[np.repeat(ran, len(rules))].reset_index(drop=True),
        pd.DataFrame(totals)[ran].reset_index(drop=True),
    )


def needed(curves: np.ndarray, budgets: np.ndarray, target: float) -> np.ndarray:
    """The smallest budget from which on a mean recall is at least a target, with its 95 % interval:
    [3, ...] budget, low, high; infinity beyond the largest budget.

    The ends come from the intervals of the mean at all budgets (`stats.bounded_interval`): low is
    the first budget where the upper end reaches the target, high the first from which on the lower
    end stays there. Each end is wrong only if the interval at a single budget is, the one needed or
    the one before it, so that looking at many budgets costs no coverage.

    Args:
      curves: [3, ..., budgets] the mean and its interval, from 0 to 1. Where an interval is
        undefined (NaN), the ends are.
      budgets: [budgets] increasing.
      target: recall wanted.
    """
    # From the last budget back, the lowest that the mean and the lower end still come to.
    stays = np.minimum.accumulate(curves[..., ::-1], -1)[..., ::-1]
    reached = np.stack([stays[0], curves[2], stays[1]]) >= target - 1e-9
    cost = np.where(reached.any(-1), budgets[reached.argmax(-1)], np.inf)
    cost[1:, np.isnan(curves[1]).any(-1)] = np.nan
    return cost
