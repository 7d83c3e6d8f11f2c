"""The result of `jbt replay` as a report, a table and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border.report import Report, Section
from jbt.own.replays.curves import NAMES, figure
from jbt.own.tables.verdicts import ALL
from jbt.stats import FEWEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    budget as a share of all ordered pairs with a verdict."""
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
        sections = [part for judge in self.verdicts.itertuples() for part in _sections(self, judge)]
        return Report(title, [*lead, *self.notes, runs, units], sections, answer=self._answer())

    def _answer(self) -> list[str]:
        """How many verdicts were enough, a line for each judge."""
        lines = []
        for judge in self.verdicts["judge"]:
            rows = self.table[(self.table["pool"] == ALL) & _by_judge(self.table, judge)]
            needed = self.needed[_by_judge(self.needed, judge)]
            sentence = next(_sentences(self, rows, needed))
            lines.append(sentence if judge is None else f"{judge}: {sentence}")
        return lines

    def to_frame(self) -> pd.DataFrame:
        """`table`, rounded to six decimals."""
        return self.table.round(6)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        return {"needed": _records(self.needed), "table": _records(self.table)}

    def figure(self) -> Figure:
        """Draw recall against the budget."""
        return figure(self.table, self.k, self.target)


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows for JSON: null where undefined."""
    table = table.round(6)
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _intervals(n_pools: pd.Series) -> str:
    """State what the intervals are over, or why there are none."""
    few = (n_pools > 1) & (n_pools < FEWEST)
    reason = f"fewer than {FEWEST} pools, too few for a 95 % interval"
    if few.all():
        return f"no intervals: {reason}"
    single_pool = ", or over seeds where there is only one pool" if (n_pools == 1).any() else ""
    except_for = f"; none for a judge with {reason}" if few.any() else ""
    return f"[ ]: 95 % intervals at least, over pools{single_pool}{except_for}"


def _sections(replay: Replay, judge: Any) -> Iterator[Section]:
    """Yield the sections on one judge: recall by all verdicts, and by trusted labels."""
    name = judge.judge or "all verdicts"
    table = replay.table[replay.table["pool"] == ALL]
    rows = table[_by_judge(table, judge.judge)]
    needed = replay.needed[_by_judge(replay.needed, judge.judge)]
    for scored_by, curves in rows.groupby("scored_by", sort=False):
        title = f"{name}: recall of the top {replay.k} by {NAMES[str(scored_by)]}"
        sentences = []
        if scored_by == "full_data":
            sentences = [f"{judge.n_pools} pools, {judge.n_verdicts} ordered pairs judged"]
            sentences += list(_sentences(replay, rows, needed))[1:]  # the first is the answer
        yield Section(title, sentences, _table(replay, str(scored_by), curves, needed))


def _by_judge(table: pd.DataFrame, judge: str | None) -> pd.Series:
    return table["judge"].isna() if judge is None else table["judge"] == judge


def _table(
    replay: Replay, scored_by: str, rows: pd.DataFrame, needed: pd.DataFrame
) -> pd.DataFrame:
    """Recall at a few budgets and, where scored by all verdicts, the verdicts needed."""
    all_budgets = rows["budget"].unique()
    places = np.unique(
        [np.abs(all_budgets - all_budgets[-1] * part).argmin() for part in (0.25, 0.5, 0.75, 1)]
    )
    by_all_verdicts = scored_by == "full_data"
    budgets = [
        b
        for b in all_budgets[places]
        if not (by_all_verdicts and b == all_budgets[-1] and len(places) > 1)
    ]
    by_rule = needed.set_index("rule")
    lines = []
    for rule, curve in rows.groupby("rule", sort=False):
        line = {"rule": rule}
        if by_all_verdicts:
            numbers = (float(by_rule[c][str(rule)]) for c in ("budget", "low", "high"))
            line[f"verdicts for {replay.target:g}"] = _interval(*numbers)
        curve = curve.set_index("budget")
        for b in budgets:
            line[f"after {b}"] = _interval(*_numbers(curve.loc[b]), digits=2)
        lines.append(line)
    return pd.DataFrame(lines)


def _numbers(row: Any) -> tuple[float, float, float]:
    return row["recall"], row["low"], row["high"]


def _interval(value: float, low: float, high: float, *, digits: int = 0) -> str:
    if np.isnan(value):
        return "more"
    if np.isnan(low) and np.isnan(high):
        return f"{value:.{digits}f}"
    ends = ["more" if np.isnan(end) else f"{end:.{digits}f}" for end in (low, high)]
    return f"{value:.{digits}f} [{', '.join(ends)}]"


def _sentences(replay: Replay, rows: pd.DataFrame, needed: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on how many verdicts the best rule needed."""
    curve = rows[rows["scored_by"] == "full_data"]
    share = f"{replay.target:.0%}".replace("%", " %")
    goal = f"{share} of the top {replay.k} that all verdicts give"
    if needed["budget"].isna().all():
        yield f"no rule found {goal} within {curve['budget'].max()} verdicts of a pool"
        return
    area = curve.groupby("rule")["recall"].mean()
    ranked = needed.assign(area=needed["rule"].map(area)).sort_values(
        ["budget", "area"], ascending=[True, False], na_position="last"
    )
    best = ranked.iloc[0]
    selection = (
        f", the best of {len(ranked)} rules (chosen afterwards, which flatters it),"
        if len(ranked) > 1
        else ""
    )
    cost = _interval(best["budget"], best["low"], best["high"])
    sentence = f"{best['rule']}{selection} found {goal} after {cost} verdicts of a pool"
    sentence += f" ({best['share']:.0%} of them)".replace("%", " %")
    random = needed[needed["rule"] == "random"]
    if len(random) and best["rule"] != "random":
        random_row = random.iloc[0]
        sentence += f"; in random order it took {_interval(*random_row[['budget', 'low', 'high']])}"
    yield sentence
    for scored_by, trusted in rows[rows["rule"] == best["rule"]].groupby("scored_by", sort=False):
        if scored_by != "full_data":
            trusted_curve = trusted.set_index("budget")
            recall_then, recall_at_end = (
                _interval(*_numbers(row), digits=2)
                for row in (trusted_curve.loc[best["budget"]], trusted_curve.iloc[-1])
            )
            name = NAMES[str(scored_by)]
            yield f"by {name} its recall was {recall_then} then, {recall_at_end} after all"
