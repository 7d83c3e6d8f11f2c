"""The command `jbt replay`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tyro

from jbt import files, own, runtime
from jbt.acquisition import RULES
from jbt.commands.options import TableOptions
from jbt.own import Replay
from jbt.own.curves import NAMES, figure
from jbt.own.oracle import Model
from jbt.own.verdicts import ALL


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(TableOptions):
    """How few of these verdicts would have done? Acquisition rules choose which of the recorded
    verdicts to look at, and what they have found after each number of them is compared with what
    all verdicts give, and with trusted quality or anchors where there are some (float64)."""

    k: int = 1
    """Size of the top set (count)."""
    model: Model = "bias_aware"
    """Inside the loop, and of the fit to all verdicts."""
    rules: tuple[str, ...] = tuple(RULES)
    """Acquisition rules (space-separated)."""
    seeds: int = 20
    """Runs of each rule on each pool (count)."""
    refit_every: int | None = None
    """R, verdicts between refits (count); default a twentieth of the ordered pairs with a verdict
    in the pool that has most, from 1 to 8."""
    budgets: tuple[int, ...] = ()
    """Verdicts of a pool (count, space-separated); default every R up to all there are."""
    target: float = 0.9
    """Recall of what all verdicts give, for which the verdicts needed are told (share of k)."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    out: Path | None = None
    """Write report.txt, table.csv and figure.png to this folder."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt replay` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    from tqdm import tqdm

    options = tyro.cli(ReplayOptions, args=argv, prog="jbt replay")
    options.check_outputs()
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise ValueError(f"cannot write to {options.out}: it is no folder")
    runtime.start()
    tables = options.read()
    pace = 0.1 if sys.stderr.isatty() else 15.0  # seconds; a log is not flooded
    found = own.replay(
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
        progress=partial(tqdm, desc="replay", unit="call", file=sys.stderr, mininterval=pace),
    )
    lines = [*tables.summary, *_report(found)]
    if options.json is not None:
        content = {
            "settings": options.settings(),
            "needed": _records(found.needed),
            "table": _records(found.table),
        }
        files.write_text(options.json, json.dumps(content, allow_nan=False) + "\n")
    if options.out is not None:
        _write(options.out, found, lines)
    print("\n".join(lines))
    return 0


def _records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Rows as JSON has them: null for what is undefined."""
    table = table.round(6)
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _write(folder: Path, found: Replay, lines: list[str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None
    files.write_text(folder / "report.txt", "\n".join(lines) + "\n")
    files.write_text(folder / "table.csv", found.table.to_csv(index=False, float_format="%.6g"))
    fig = figure(found.table, found.k, found.target)
    files.write_whole(folder / "figure.png", lambda p: fig.savefig(p, dpi=120, format="png"))


def _report(found: Replay) -> Iterator[str]:
    yield from found.notes
    runs = f"{len(found.table.rule.unique())} rules, {found.seeds} seeds each"
    yield f"{runs}, a refit after every {_verdicts(found.refit_every)}"
    over_pools = found.table[found.table["pool"] == ALL]
    for judge, n_pools, n_verdicts in found.verdicts.itertuples(index=False):
        mine = over_pools[_is(over_pools, judge)]
        needed = found.needed[_is(found.needed, judge)]
        yield ""
        yield f"{judge or 'all verdicts'}: {n_pools} pools, {n_verdicts} ordered pairs judged"
        for scored_by, rows in mine.groupby("scored_by", sort=False):
            yield from _table(found, str(scored_by), rows, needed)
        yield _sentence(found, mine, needed)
    yield ""
    several = (found.verdicts["n_pools"] > 1).all()
    unit = "pools" if several else "pools; with one pool alone, over the seeds of that pool"
    yield f"[ ]: 95 % intervals over {unit}. Budgets are of one pool."


def _is(table: pd.DataFrame, judge: str | None) -> pd.Series:
    return table["judge"].isna() if judge is None else table["judge"] == judge


def _verdicts(n: int) -> str:
    return "verdict" if n == 1 else f"{n} verdicts"


def _table(
    found: Replay, scored_by: str, rows: pd.DataFrame, needed: pd.DataFrame
) -> Iterator[str]:
    """Recall at a few budgets; and what was needed, where it is scored by all verdicts."""
    every = rows["budget"].unique()
    at = np.unique([np.abs(every - every[-1] * part).argmin() for part in (0.25, 0.5, 0.75, 1)])
    full = scored_by == "full_data"
    budgets = [b for b in every[at] if not (full and b == every[-1] and len(at) > 1)]
    head = f"verdicts for {found.target:g}" if full else ""
    columns = "".join(f"{f'after {b}':>20}" for b in budgets)
    yield f"  recall of the top {found.k} by {NAMES[scored_by]}"
    yield f"  {'rule':24}{head:>22}{columns}"
    for rule, curve in rows.groupby("rule", sort=False):
        curve = curve.set_index("budget")
        cells = "".join(f"{_interval(*_numbers(curve.loc[b]), digits=2):>20}" for b in budgets)
        spent = needed[needed["rule"] == rule].iloc[0]
        told = _interval(spent["budget"], spent["low"], spent["high"]) if full else ""
        yield f"  {rule:24}{told:>22}{cells}"


def _numbers(row: Any) -> tuple[float, float, float]:
    return row["recall"], row["low"], row["high"]


def _interval(value: float, low: float, high: float, *, digits: int = 0) -> str:
    if np.isnan(value):
        return "more"
    if np.isnan(low) and np.isnan(high):
        return f"{value:.{digits}f}"
    ends = ["more" if np.isnan(end) else f"{end:.{digits}f}" for end in (low, high)]
    return f"{value:.{digits}f} [{', '.join(ends)}]"


def _sentence(found: Replay, rows: pd.DataFrame, needed: pd.DataFrame) -> str:
    """How many of these verdicts did you need?"""
    curve = rows[rows["scored_by"] == "full_data"]
    share = f"{found.target:.0%}".replace("%", " %")
    what = f"{share} of the top {found.k} that all verdicts give"
    if needed["budget"].isna().all():
        return f"No rule found {what} within {curve['budget'].max()} verdicts of a pool."
    area = curve.groupby("rule")["recall"].mean()
    ranked = needed.assign(area=needed["rule"].map(area)).sort_values(
        ["budget", "area"], ascending=[True, False], na_position="last"
    )
    best = ranked.iloc[0]
    among = f", the best of {len(ranked)} rules here," if len(ranked) > 1 else ""
    spent = _interval(best["budget"], best["low"], best["high"])
    said = f"{best['rule']}{among} found {what} after {spent} verdicts of a pool"
    said += f" ({best['share']:.0%} of them)".replace("%", " %")
    random = needed[needed["rule"] == "random"]
    if len(random) and best["rule"] != "random":
        other = random.iloc[0]
        said += f"; in random order it took {_interval(*other[['budget', 'low', 'high']])}"
    said += "."
    for scored_by, trusted in rows[rows["rule"] == best["rule"]].groupby("scored_by", sort=False):
        if scored_by != "full_data":
            then = trusted.set_index("budget")
            before, after = then.loc[best["budget"]], then.iloc[-1]
            by = NAMES[str(scored_by)]
            said += f" By {by} its recall was {_interval(*_numbers(before), digits=2)} then and "
            said += f"{_interval(*_numbers(after), digits=2)} after all."
    return said
