"""The command `jbt judge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jbt import own
from jbt.commands.options import TableOptions


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(TableOptions):
    """Count each judge's report card, without any model: how often it is right on labelled pairs
    (--anchors), contradicts itself when the order is swapped, agrees with other judges, and prefers
    the first shown or the longer (--covariates), beside a coin, with 95 % intervals."""

    unit: Literal["pair", "prompt"] = "pair"
    """What counts once in a share: a pair, so that prompts with more pairs weigh more; or a prompt,
    by the mean over its pairs."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt judge` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = JudgeOptions.parse(argv, "judge")
    tables = options.read()
    cards = own.report_card(tables, options.covariates, unit=options.unit)
    order = own.doctor(tables, options.typed()).headline(("order",))
    options.give(cards, f"Report cards of {options.verdicts.name}", [*tables.summary, *order])
    return 0
