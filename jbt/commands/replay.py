"""The command `jbt replay`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from jbt import own, runtime
from jbt.acquisition.rules import DEFAULT_RULES
from jbt.border import files
from jbt.border.progress import bar
from jbt.border.report import Report, Section
from jbt.commands.options import TableOptions
from jbt.own import Replay
from jbt.own.replays.curves import NAMES, figure
from jbt.own.replays.oracle import Model
from jbt.own.tables.verdicts import ALL
from jbt.stats import FEWEST
from jbt.types import check_count

MOST_SEEDS = 10_000
"""Largest number of runs of each rule on each pool, so that the command ends."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(TableOptions):
    """How few of these verdicts would have been enough? Acquisition rules choose which of the
    recorded verdicts to use; their top set after each number of verdicts is compared with that of
    all verdicts, and with trusted quality or anchors where there are some (float64)."""

    k: int = 1
    """Size of the top set (count)."""
    model: Model = "bias_aware"
    """Model of the fits inside the loop and of the fit to all verdicts."""
    rules: tuple[str, ...] = DEFAULT_RULES
    """Acquisition rules (space-separated)."""
    seeds: int = 20
    """Runs of each rule on each pool (count)."""
    refit_every: int | None = None
    """R, verdicts between refits (count); default a twentieth of the ordered pairs with a verdict
    in the pool with the most, from 1 to 8."""
    budgets: tuple[int, ...] = ()
    """Verdicts of a pool (count, space-separated); default every R up to all verdicts."""
    target: float = 0.9
    """Recall of what all verdicts give at which the verdicts needed are counted (share of k)."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt replay` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = ReplayOptions.parse(argv, "replay")
    check_count("seeds", options.seeds, most=MOST_SEEDS)
    runtime.start()
    tables = options.read()
    options.announce(tables)
    replay = own.replay(
        tables,
        options.batch(tables),
        k=options.k,
        model=options.model,
        rules=options.rules,
        seeds=options.seeds,
        refit_every=options.refit_every,
        budgets=options.budgets,
        target=options.target,
        prior=options.prior(),
        seed=options.seed,
        progress=partial(bar, name="replay", unit="call"),
    )
    if options.json is not None:
        content = {
            "settings": options.settings(),
            "needed": _records(replay.needed),
            "table": _records(replay.table),
        }
        files.write_text(options.json, json.dumps(content, allow_nan=False) + "\n")
    lead = options.lead(tables)
    report = _report(options, replay, lead)
    print(report.text())
    if options.out is not None:
        report.write(
            options.out, replay.table.round(6), figure(replay.table, replay.k, replay.target)
        )
    return 0


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows for JSON: null where undefined."""
    table = table.round(6)
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _report(options: ReplayOptions, replay: Replay, lead: list[str]) -> Report:
    rules = replay.table["rule"].nunique()
    runs = f"{rules} rules, {replay.seeds} seeds each, a refit after every "
    runs += "verdict" if replay.refit_every == 1 else f"{replay.refit_every} verdicts"
    units = f"budgets are verdicts of one pool; {_intervals(replay.verdicts['n_pools'])}"
    sections = [section for judge in replay.verdicts.itertuples() for section in _of(replay, judge)]
    title = f"How few verdicts of {options.verdicts.name} would have done"
    return Report(title, [*lead, *replay.notes, runs, units], sections)


def _intervals(n_pools: pd.Series) -> str:
    """State what the intervals are over, or why there are none."""
    few = (n_pools > 1) & (n_pools < FEWEST)
    reason = f"fewer than {FEWEST} pools, of which no interval covers what it says"
    if few.all():
        return f"no intervals: {reason}"
    single_pool = ", or the seeds where there is one pool alone" if (n_pools == 1).any() else ""
    except_for = f"; none for a judge with {reason}" if few.any() else ""
    return f"[ ]: 95 % intervals at least, over pools{single_pool}{except_for}"


def _of(replay: Replay, judge: Any) -> Iterator[Section]:
    """Sections on one judge: recall by all verdicts, and by trusted labels."""
    name = judge.judge or "all verdicts"
    table = replay.table[replay.table["pool"] == ALL]
    rows = table[_is(table, judge.judge)]
    needed = replay.needed[_is(replay.needed, judge.judge)]
    for scored_by, of_score in rows.groupby("scored_by", sort=False):
        title = f"{name}: recall of the top {replay.k} by {NAMES[str(scored_by)]}"
        sentences = []
        if scored_by == "full_data":
            sentences = [f"{judge.n_pools} pools, {judge.n_verdicts} ordered pairs judged"]
            sentences += _sentences(replay, rows, needed)
        yield Section(title, sentences, _table(replay, str(scored_by), of_score, needed))


def _is(table: pd.DataFrame, judge: str | None) -> pd.Series:
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
    """Yield how many verdicts the best rule needed."""
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
