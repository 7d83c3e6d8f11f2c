"""How many more prompts put one model above another: `jbt plan prompts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from jbt import planning, runtime
from jbt.border.report import Report, Section, counted, each, percent, with_interval
from jbt.own.leaderboards.intervals import LEVEL, intervals
from jbt.own.leaderboards.problem import Problem, Settings, Setup
from jbt.own.tables.tables import Tables
from jbt.planning.prompts_plan import MOST_COPIES
from jbt.types import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    *("judge", "better", "worse", "difference", "low", "high"),
    *("more", "fewest", "most", "chance", "status", "prompts"),
)


NO_INTERVAL = "no interval of the difference, see jbt leaderboard"


@dataclass(frozen=True, eq=False)
class Separation:
    """Prompts to add until models are significantly apart."""

    table: pd.DataFrame
    """judge, better, worse, difference, low, high (logits, and its 95 % interval), more (prompts to
    add if the true difference is the estimate), fewest, most (if it is the upper or the lower end
    of the interval), chance (that `more` are enough, for a true difference as uncertain as today's
    prompts leave it), status, prompts (today's). Infinite where no number looked at is enough; NaN
    where the difference has no interval."""
    power: float
    corrected: bool
    """Whether for all models (Bonferroni), as in a leaderboard's ranks."""

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A table of pairs; the answer counts those apart, or gives the number of the one pair."""
        level = f"{LEVEL:.0%} interval" + ", Bonferroni-corrected over all models" * self.corrected
        how = [
            f"difference: of the two models, today's, logits, with its {LEVEL:.0%} interval",
            f"more prompts: like these, until the difference is significant ({level}) with a power "
            f"of {self.power:g}, if the true difference is today's estimate",
            "over its interval: the same if it is the upper and the lower end of the interval",
            "chance: that so many are enough, for a true difference as uncertain as today's "
            "prompts leave it",
        ]
        table = pd.DataFrame(
            {
                "judge": row.judge,
                "better": row.better,
                "worse": row.worse,
                "difference": with_interval(row.difference, row.low, row.high, "+.2f"),
                "more prompts": _count(row.more),
                "over its interval": f"{_count(row.fewest)} to {_count(row.most)}",
                "chance": percent(row.chance) or "-",
            }
            for row in each(self.table)
        ).dropna(axis="columns", how="all")
        unknown = int((self.table["status"] != "planned").sum())
        lines = [f"{counted(unknown, 'pair')} without a plan: {NO_INTERVAL}"] if unknown else []
        sections = [
            Section("Prompts to add", lines, table),
            Section("How to read this", how, detail=True),
        ]
        by_judge = self.table.groupby("judge", sort=False, dropna=False)
        answer = [
            f"{judge}: " * (not pd.isna(judge)) + self._answer(pairs) for judge, pairs in by_judge
        ]
        return Report(title, lead, sections, answer=answer)

    def _answer(self, pairs: pd.DataFrame) -> str:
        """For one judge."""
        planned = pairs[pairs["status"] == "planned"]
        if planned.empty:
            return f"no plan: {pairs['status'].iloc[0]}"
        prompts, more = pairs["prompts"].iloc[0], planned["more"]
        left = planned[(more > 0) & np.isfinite(more)]
        pair = left.sort_values("more").iloc[0] if len(left) else planned.iloc[0]
        named = f"{pair['better']} above {pair['worse']}"
        if not self.corrected:
            difference = with_interval(pair["difference"], pair["low"], pair["high"], "+.2f")
            today = f"{difference} logits on {prompts} prompts"
            if pair["more"] == 0:
                return f"{named} already: {today}"
            if pair.name not in left.index:
                return (
                    f"no number of prompts up to {MOST_COPIES} times today's puts {named} if the "
                    f"difference is as estimated, {today}"
                )
            return (
                f"about {pair['more']:.0f} more prompts ({pair['fewest']:.0f} to "
                f"{_count(pair['most'])} over the interval of the difference) are needed to put "
                f"{named}; the difference is {today} and uncertain, so they are enough with a "
                "probability of "
                f"{percent(pair['chance'])}"
            )
        apart, double = (more == 0).sum(), ((more > 0) & (more <= prompts)).sum()
        return (
            f"{apart} of {len(pairs)} neighbours in rank are significantly apart; with twice the "
            f"{prompts} prompts {double} more would be, if the differences are as estimated"
            + (f"; next {named}, with {pair['more']:.0f} more" if len(left) else "")
            + "; corrected for all models, as the intervals below are not"
        )

    def to_frame(self) -> pd.DataFrame:
        """`table`."""
        return self.table

    def record(self) -> dict[str, Any]:
        """The content of the JSON file; null where infinite or undefined."""
        return {"power": self.power, "bonferroni": self.corrected, "pairs": self.table}

    def figure(self) -> Figure:
        """Draw the prompts to add, with their range."""
        from jbt.border import plots

        rows = self.table[np.isfinite(self.table["more"])]
        drawn, ax = plots.new_figure(1, width=6.4, height=max(2.4, 0.9 + 0.26 * len(rows)))
        names = rows["better"] + " above " + rows["worse"]
        numbers = rows[["more", "fewest", "most"]].replace(np.inf, np.nan).to_numpy(float).T
        plots.forest(ax, names.tolist(), [("prompts", "blue", *numbers)])
        ax.set_xlabel("more prompts (count); lines: for the ends of the difference's 95 % interval")
        ax.set_title(f"More prompts, until a pair is shown to differ with power {self.power:g}")
        return drawn


def _count(n: float) -> str:
    if np.isinf(n):
        return f"over {MOST_COPIES} times as many as today"
    return "-" if np.isnan(n) else f"{n:.0f}"


def separation(
    tables: Tables, settings: Settings, pair: tuple[int, int] | None, *, power: float
) -> Separation:
    """Plan the prompts until one model is significantly above another, for the 95 % interval of
    their difference; or until all neighbours in rank are apart, Bonferroni-corrected as in a
    leaderboard's ranks (float64).

    Args:
      pair: places of the two models, the better first; None for all neighbours.
      power: chance of a significant difference that the plan should give.

    Raises:
      ValueError: power not between 0 and 1, only one model; see `own.covariate_values`.
    """
    if tables.items["content"].nunique() < 2:
        raise ValueError("there is only one model: nothing to plan")
    if not 0 < power < 1:
        raise ValueError(f"power must lie between 0 and 1, got {power:g}")
    names, setup = tables.contents, Setup.of(tables, settings)
    rows = []
    with runtime.precision("float64"):
        for number, judge in enumerate(tables.judges):
            for row in _of_judge(setup.problem(number), pair, power):
                better, worse = (names[m] if m is not None else "" for m in row["pair"])
                rows.append({"judge": judge, "better": better, "worse": worse, **row})
    table = pd.DataFrame(rows, columns=pd.Index(COLUMNS))
    return Separation(table, power, pair is None)


def _of_judge(
    problem: Problem, pair: tuple[int, int] | None, wanted: float
) -> Iterator[dict[str, Any]]:
    """A row for each pair of models, by their places."""
    known, n = problem.n_verdicts > 0, problem.n_clusters
    usable = known.sum() > 1 if pair is None else known[list(pair)].all()
    fit = problem.fit() if usable else None
    if fit is None or fit.status != Status.CONVERGED:
        yield {"pair": pair or (None, None), "status": NO_INTERVAL, "prompts": n}
        return
    order = np.argsort(-np.where(known, fit.theta, -np.inf), kind="stable")[: known.sum()]
    pairs = list(pairwise(order.tolist())) if pair is None else [pair]
    ends, quantile = intervals(fit), 1 - (1 - LEVEL) / 2 / len(pairs)
    for a, b in pairs:
        d, variance, df = (float(v[b, a]) for v in (ends.apart, ends.variance, ends.degrees))
        row: dict[str, Any] = {"pair": (a, b), "prompts": n, "difference": d}
        if not ends.comparable[a, b]:
            yield row | {"status": NO_INTERVAL}
            continue
        low, high = d + np.array([-1, 1]) * stdtrit(df, (1 + LEVEL) / 2) * np.sqrt(variance)
        more, fewest, most = (
            planning.more_prompts(truth, d, variance, df, n, quantile=quantile, wanted=wanted)
            for truth in (d, high, low)
        )
        chance = np.nan
        if np.isfinite(more):
            chance = float(planning.power(int(more), np.nan, d, variance, df, n, quantile))
        row |= {"low": low, "high": high, "more": more, "chance": chance, "status": "planned"}
        yield row | {"fewest": min(fewest, more), "most": max(most, more)}
