"""The command `jbt leaderboard`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from jbt import own, runtime
from jbt.commands.options import JointOptions
from jbt.own.leaderboards.problem import Choices, Settings, merge_pools


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(Choices, JointOptions):
    """Rank models over all pools, naive and corrected, with intervals that allow for dependence
    between verdicts on one pool (MAP, float64). Models are the contents: the column `content` of
    the items, or the names of the items without it."""

    merge_pools: bool = True
    """A leaderboard always merges all pools."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt leaderboard` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = LeaderboardOptions.parse(argv, "leaderboard")
    if not options.merge_pools:
        raise ValueError("a leaderboard always merges all pools; jbt fit ranks each pool")
    settings = {**vars(options), "prior": options.prior()}
    settings = {field.name: settings[field.name] for field in dataclasses.fields(Settings)}
    tables = dataclasses.replace(options, merge_pools=False).read()
    panel = options.together(tables)
    options.announce(tables)
    runtime.start()
    boards = own.leaderboard(tables, together=panel, **settings)
    checks = own.doctor(merge_pools(tables), options.typed())
    lead = [*tables.summary, *checks.headline()]
    options.give(boards, f"Leaderboard of {options.verdicts.name}", lead)
    return 0
