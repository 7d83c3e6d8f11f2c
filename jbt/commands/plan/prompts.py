"""The command `jbt plan prompts`: how many more prompts until one model is above another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jbt
from jbt.commands.options import MergedOptions


@dataclass(frozen=True, kw_only=True)
class PromptsOptions(MergedOptions):
    """Say how many more prompts like these it takes until one model is significantly
    above another, by the jackknife of the corrected leaderboard (MAP, float64)."""

    better: str | None = None
    """The model that is to be significantly above `worse`. By default all neighbours in rank are
    compared, Bonferroni-corrected."""
    worse: str | None = None
    """The model that is to be below `better`."""
    power: float = 0.8
    """Chance of a significant difference that the plan should give, between 0 and 1."""

    def pair(self, models: Sequence[str]) -> tuple[int, int] | None:
        """Places of `better` and `worse` among the models; None for all neighbours.

        Raises:
          ValueError: no such pair of models.
        """
        pair = (self.better, self.worse)
        if pair == (None, None):
            return None
        if None in pair:
            raise ValueError("--better and --worse go together")
        for name in pair:
            if name not in models:
                raise ValueError(f"no model {name!r} among the {len(models)} of the items")
        if self.better == self.worse:
            raise ValueError(f"--better and --worse are the same model, {self.better!r}")
        return models.index(pair[0]), models.index(pair[1])


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan prompts` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = PromptsOptions.parse(argv, "plan prompts")
    from jbt.own.leaderboards.problem import Settings
    from jbt.own.leaderboards.separation import separation

    tables = options.read()
    options.announce(tables)
    jbt.runtime.start()
    settings = Settings(prior=options.prior(), **options.fields_of_model())
    plan = separation(tables, settings, options.pair(tables.contents), power=options.power)
    options.give(plan, f"Prompts to add to {options.verdicts.name}", options.lead(tables))
    return 0
