"""The result of `jbt identify` as a report, a table and a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.border.report import Report, Section, range_of, signed, with_interval
from jbt.identifiability.profile_likelihood import PROFILE_DROP
from jbt.own.fits.judges import NAMELESS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIRECTIONS_SHOWN = 6
"""Number of null directions that a report names."""


@dataclass(frozen=True, eq=False)
class Identification:
    """The result of `jbt identify`."""

    table: pd.DataFrame
    """A row for each pool, judge and covariate (with its transformation) of judges alone, then, if
    asked for, of all judges together (joint), but for those whose biases are known. NaN where
    undefined; c is in logits per unit.

    pool, judge (None where the table names none), covariate, unit;

    rank, n_columns of the design matrix of the comparisons made, whose columns are contents,
    covariates and, unless kappa is fixed at 0, position; nullity, null_directions in words;

    profile_range: largest less smallest profile log-likelihood; curve: [9] it itself, at
    values of c within 1 of c_map;

    c_map, the estimate under the prior; c_mle, without a prior; c_interval, its 95 % interval by
    the profile likelihood, or where pools of a file are merged, that of the leaderboard, or None;
    withheld: why there is no interval although c_mle exists; else None;

    status of c_mle, see `identifiability.estimate_bias`; not_converged or not_finite where c_map is
    undefined too;

    joint; told_by: then, whose verdicts on the pool identify c, see `Judges.identified_by`, empty
    where nobody's do; else None."""
    judges: Sequence[str] = ()
    """What is known about the judges together, in sentences."""

    def report(self, title: str, lead: Sequence[str]) -> Report:
        """A section for each covariate with a line for each judge, several pools summarised; then
        the same for all judges together, with whose verdicts identify each coefficient."""
        alone, together = (self.table[self.table["joint"] == joint] for joint in (False, True))
        sections = _sections(alone)
        if len(together):
            lines = [*self.judges, *_whose(together)]
            sections.append(Section("All judges together, one quality", lines))
            sections += _sections(together, ", all judges together")
        return Report(title, lead, sections, answer=_answer(alone))

    def to_frame(self) -> pd.DataFrame:
        """A row for each pool, judge and covariate; with all judges together, the column `joint`
        says which rows are theirs."""
        table = self.table.drop(columns="curve")
        ends = [interval or (np.nan, np.nan) for interval in table.pop("c_interval")]
        told_by, joint = table.pop("told_by").str.join("; "), table.pop("joint")
        table["null_directions"] = table["null_directions"].str.join("; ")
        table[["c_low", "c_high"]] = ends
        return table.assign(joint=joint, told_by=told_by) if joint.any() else table

    def record(self) -> dict[str, Any]:
        """The content of the JSON file: null where undefined."""
        record: dict[str, Any] = {}
        for row in self.table.drop(columns="curve").to_dict("records"):
            entries = record.setdefault("joint" if row.pop("joint") else "pools", [])
            if row["told_by"] is None:
                del row["told_by"]
            entries.append(files.plain(row))
        return record

    def figure(self) -> Figure:
        """Profile curves of each judge alone, a panel for each covariate: single curves over c for
        few pools; for many, a judge's median and central 90 % around the MAP."""
        from jbt.experiments import plots

        by_covariate = self.table[~self.table["joint"]].groupby("covariate", sort=False)
        drawn, axes = plots.facets(by_covariate.ngroups, width=6.4)
        for ax, (_, rows) in zip(axes, by_covariate, strict=True):
            judge, few = rows["judge"].fillna(NAMELESS), len(rows) <= len(plots.CYCLE)
            curves = rows.groupby(rows.index if few else judge, sort=False)
            for i, (name, pools) in enumerate(curves):
                pools = pools[pools["profile_range"].notna()]
                if pools.empty:
                    continue
                x = np.linspace(-1, 1, 9)
                label = f"{name}: median of {len(pools)} pools (band: 90 %)"
                colour, width = plots.CYCLE[i % len(plots.CYCLE)], 1.5 * (curves.ngroups - i)
                below = [curve - max(curve) for curve in map(np.array, pools["curve"])]
                middle, *band = np.quantile(below, [0.5, 0.05, 0.95], axis=0)
                ends: list[float] = []
                if few:
                    row: Any = next(pools.itertuples())
                    name = row.pool if pd.isna(row.judge) else f"{row.pool}, {row.judge}"
                    x, label = x + row.c_map, f"{name}: varies by {range_of(row.profile_range)}"
                    ends = row.c_interval or []
                # Widths keep flat curves from hiding each other.
                plots.band(ax, x, middle, *band, colour=colour, label=label, linewidth=width)
                ax.plot(ends, [-PROFILE_DROP] * len(ends), "|-", color=colour, ms=8)
            ax.axhline(-PROFILE_DROP, color="grey", lw=0.8, ls=":", label="end of a 95 % interval")
            ax.set_xlabel(
                f"{'c' if few else 'c minus its MAP estimate'}, logits per {rows['unit'].iloc[0]}"
            )
            ax.set_ylabel("log-likelihood minus its maximum")
            ax.set_title("A peak measures c, a flat line does not")
            ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15))
        return drawn


def _by_judge(rows: pd.DataFrame, nameless: str = NAMELESS) -> Iterator[tuple[Any, pd.DataFrame]]:
    """The name and the rows of each judge, in their order."""
    yield from rows.groupby(rows["judge"].fillna(nameless), sort=False)


def _answer(table: pd.DataFrame) -> list[str]:
    """Whose verdicts identify each covariate's coefficient, a line for each covariate."""
    lines = []
    for covariate, rows in table.groupby("covariate", sort=False):
        found = {name: sum(pools["status"] != "flat") for name, pools in _by_judge(rows, "")}
        n, chosen = len(rows) // len(found), "the prior chooses it"
        others = ", ".join(name for name, k in found.items() if not k)
        line = f"c[{covariate}] is identified by the verdicts"
        if not any(found.values()):
            line = f"c[{covariate}] is not identified{f' in any of {n} pools' * (n > 1)}: {chosen}"
        elif n > 1:
            parts = [f"{name} in {k} of {n} pools".strip() for name, k in found.items()]
            line += f": {', '.join(parts)}" + f"; elsewhere {chosen}" * (min(found.values()) < n)
        elif list(found) != [""]:
            line += f" of {', '.join(name for name, k in found.items() if k)}"
            line += f", not by those of {others}, where {chosen}" * bool(others)
        lines.append(line)
    return lines


def _sections(table: pd.DataFrame, ending: str = "") -> list[Section]:
    sections = []
    for covariate, rows in table.groupby("covariate", sort=False):
        lines = [f"{name}: {_in_short(pools)}" for name, pools in _by_judge(rows)]
        title = f"c[{covariate}], logits per {rows['unit'].iloc[0]}{ending}"
        sections.append(Section(title, lines))
    directions = Counter(
        name for names in table["null_directions"] for name in dict.fromkeys(names)
    )
    lines = [
        f"{name} (in {n} of {len(table)})" if len(table) > 1 else name
        for name, n in directions.most_common(DIRECTIONS_SHOWN)
    ]
    if len(directions) > DIRECTIONS_SHOWN:
        lines.append(f"and {len(directions) - DIRECTIONS_SHOWN} others, see --json or --out")
    title = f"Changes that leave every verdict as likely as before (null directions){ending}"
    sections.append(Section(title, lines))
    return sections


def _in_short(pools: pd.DataFrame) -> str:
    """One judge's coefficient, summarised over its pools."""
    if len(pools) == 1:
        return _sentence(next(pools.itertuples()))
    evidence = pools["profile_range"].dropna()
    estimates = pools.loc[pools["status"] == "converged", "c_mle"]
    defaults = pools.loc[pools["status"] == "flat", "c_map"]
    parts = [_tally(pools["status"], len(pools))]
    if len(evidence):
        parts.append(
            f"the log-likelihood of a pool varies by {range_of(evidence.median())} over c +- 1"
        )
        parts[-1] += f" (median; at most {range_of(evidence.max())})"
    if len(estimates):
        middle = signed(estimates.median())
        parts.append(f"c is {middle} without a prior (median of {len(estimates)})")
    if len(defaults):
        middle = signed(defaults.median())
        parts.append(f"in {len(defaults)} pools the prior chose c, {middle} (median)")
    return "; ".join(parts)


def _sentence(row: Any) -> str:
    """The information about one coefficient, a row of the table, in one sentence."""
    c, prior = f"c[{row.covariate}]", signed(row.c_map)
    within = f"between {signed(row.c_map - 1)} and {signed(row.c_map + 1)}"
    carried = f"the log-likelihood varies by {range_of(row.profile_range)} for {c}"
    flat = f"not identified: {carried} {within}, so any value there and beyond fits as well"
    flat += f"; the prior chose {prior}"
    side = "larger" if row.curve[-1] > row.curve[0] else "smaller"
    low, high = row.c_interval or (np.nan, np.nan)
    estimate = with_interval(row.c_mle, low, high)
    estimate += f" without a prior, {prior} with the prior; {carried} {within}"
    sentences = {
        "flat": flat,
        "separated": (
            f"{carried} {within}; the {side} c is, the better is the fit, without end; the prior "
            f"chose {prior}"
        ),
        "converged": estimate if row.c_interval else f"{estimate}; no interval: {row.withheld}",
        "covariate_constant": (
            f"{row.covariate} never differs between the items, so that {c} has no effect"
        ),
        "no_verdicts": f"there are no verdicts: {c} is the prior's mean",
    }
    return sentences.get(row.status, f"{c} has no estimate: {row.status}")


def _whose(table: pd.DataFrame) -> list[str]:
    """Whose verdicts identify each coefficient."""
    lines = []
    for (judge, covariate), pools in table.groupby(["judge", "covariate"], sort=False):
        names = [name for names in pools["told_by"] for name in names or ("nobody",)]
        by = ", ".join(names) if len(pools) == 1 else _tally(names, len(pools))
        lines.append(f"c[{covariate}] of {judge} is identified by {by}")
    return lines


def _tally(values: Iterable[str], n_pools: int) -> str:
    """Such as `flat in 2, separated in 1 of 3 pools`."""
    counts = ", ".join(f"{value} in {n}" for value, n in Counter(values).items())
    return f"{counts} of {n_pools} pools"
