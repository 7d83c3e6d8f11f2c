"""The command `jbt leaderboard`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import tyro

from jbt import own, runtime
from jbt.border import files
from jbt.commands.options import JointOptions
from jbt.own import Leaderboard
from jbt.own.examine import doctor
from jbt.own.leaderboards import report as standings
from jbt.own.leaderboards import robust
from jbt.own.leaderboards.rows import Difference
from jbt.own.leaderboards.study import merge_pools
from jbt.simulation.simulate import check_seed


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(JointOptions):
    """Rank models over all pools, naive and corrected, with intervals that respect that verdicts on
    one pool go together (MAP, float64). Models are the contents: the column `content` of the items,
    or their names without it."""

    merge_pools: bool = True
    """A leaderboard makes all pools one, always."""
    difference: Difference = "plain"
    """How covariates a and b of two items differ: a - b, or relative, (a - b) / (a + b), with c per
    root mean square of that unless --no-standardise."""
    bootstrap: int = 0
    """Resamples of the pools for percentile intervals (count, at least 100); 0: the jackknife."""
    seed: int = 0
    """Of the resampling."""
    robust: bool = False
    """Print ranks under log1p, no transform and relative differences of the covariates, and with
    ties dropped, beside those asked for."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt leaderboard` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = tyro.cli(LeaderboardOptions, args=argv, prog="jbt leaderboard")
    options.check_outputs()
    if not options.merge_pools:
        raise ValueError("a leaderboard makes all pools one; jbt fit ranks each for itself")
    check_seed(options.seed)
    prior = options.prior()
    tables = dataclasses.replace(options, merge_pools=False).read()
    together = options.together(tables)
    options.announce(tables)
    runtime.start()
    boards = own.leaderboard(
        tables,
        options.covariates,
        transform=options.transform,
        standardise=options.standardise,
        difference=options.difference,
        position=options.position,
        prior=prior,
        bootstrap=options.bootstrap,
        seed=options.seed,
        together=together,
    )
    compared = []
    if options.robust:
        compared = robust.compare(
            tables,
            options.covariates,
            transform=options.transform,
            standardise=options.standardise,
            difference=options.difference,
            position=options.position,
            prior=prior,
        )
    if options.json is not None:
        content = {"settings": options.settings(), **_nested(boards, compared)}
        files.write_text(options.json, json.dumps(content, indent=1, allow_nan=False) + "\n")
    checks = doctor.examine(merge_pools(tables), options.typed())
    lead = [*tables.summary, *doctor.headline(checks)]
    title = f"Leaderboard of {options.verdicts.name}"
    report = standings.report(title, lead, boards, prior, options.bootstrap, compared)
    print(report.text())
    if options.out is not None:
        report.write(options.out, standings.table(boards), standings.figure(boards))
    return 0


def _nested(boards: list[Leaderboard], compared: list[pd.DataFrame]) -> dict[str, Any]:
    """One leaderboard as it is, several each with its judge."""
    records = [board.record() for board in boards]
    for one, ranks in zip(records, compared, strict=False):
        one["robust"] = robust.record(ranks)
    if len(boards) == 1:
        return records[0]
    each = zip(boards, records, strict=True)
    return {"leaderboards": [{"judge": board.judge, **one} for board, one in each]}
