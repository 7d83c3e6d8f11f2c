"""The command `jbt judge`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jbt import own
from jbt.commands.options import TableOptions


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(TableOptions):
    """Count how often each judge is right on labelled pairs (--anchors), names the
    same winner when the order is swapped, agrees with other judges, and prefers
    the answer shown first or the longer one (--covariates), with 95 % intervals.
    No model is used."""

    unit: Literal["pair", "prompt"] = "pair"
    """What a share is an average over: pairs, so that prompts with more pairs weigh more, or
    prompts, each by the mean over its pairs."""


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
