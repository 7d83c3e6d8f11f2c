"""The command `jbt leaderboard`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jbt
from jbt import own
from jbt.commands.options import JointOptions, MergedOptions
from jbt.own.choices import Choices


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(Choices, MergedOptions, JointOptions):
    """Rank models over all pools, naive and corrected, with intervals that allow for
    dependence between verdicts on one pool (MAP, float64).

    A model is a value of the column `content` of the items or, without that
    column, the name of an item. --out also writes pairs.csv and pairs.png, which
    show how often each model won against each other model."""

    by: str | None = None
    """Column of the verdicts or of the items, such as the language. Models are also ranked for each
    of its values, with the differences between values."""

    more_files: ClassVar[tuple[str, ...]] = ("pairs.csv", "pairs.png")

    def read_besides(self) -> dict[str, Any]:
        """The column of `by`."""
        return {"by": self.by}


def main(argv: Sequence[str]) -> int:
    """Run `jbt leaderboard` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = LeaderboardOptions.parse(argv, "leaderboard")
    from jbt.own.leaderboards.problem import Settings

    settings = {**vars(options), "prior": options.prior()}
    settings = {field.name: settings[field.name] for field in dataclasses.fields(Settings)}
    tables = options.read()
    panel = options.together(tables)
    Settings(**settings).check_with(tables, joint=panel is not None)
    options.announce(tables)
    jbt.runtime.start()
    boards = own.leaderboard(tables, together=panel, **settings)
    title, lead = f"Leaderboard of {options.verdicts.name}", options.lead(tables)
    made = boards.pairs, boards.pairs_figure
    options.give(boards, title, lead, more=dict(zip(options.more_files, made, strict=True)))
    return 0
