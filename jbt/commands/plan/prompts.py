"""The command `jbt plan prompts`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from jbt import own, runtime
from jbt.commands.options import TableOptions
from jbt.own.leaderboards.problem import merge_pools
from jbt.own.leaderboards.separation import separation


@dataclass(frozen=True, kw_only=True)
class PromptsOptions(TableOptions):
    """How many more prompts until one model is above another? Prompts like those of the tables, by
    the jackknife of the corrected leaderboard (MAP, float64)."""

    better: str | None = None
    """The model that is to be significantly above `worse`; default all neighbours in rank,
    Bonferroni-corrected."""
    worse: str | None = None
    """The model below."""
    power: float = 0.8
    """Chance of a significant difference wanted (between 0 and 1)."""
    merge_pools: bool = True
    """A plan of prompts always merges all pools."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan prompts` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = PromptsOptions.parse(argv, "plan prompts")
    if not options.merge_pools:
        raise ValueError("a plan of prompts always merges all pools")
    tables = dataclasses.replace(options, merge_pools=False).read()
    options.announce(tables)
    runtime.start()
    plan = separation(
        tables,
        **options.fields_of_model(),
        better=options.better,
        worse=options.worse,
        power=options.power,
        prior=options.prior(),
    )
    checks = own.doctor(merge_pools(tables), options.typed())
    lead = [*tables.summary, *checks.headline()]
    options.give(plan, f"Prompts to add to {options.verdicts.name}", lead)
    return 0
