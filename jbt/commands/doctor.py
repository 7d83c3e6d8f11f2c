"""The command `jbt doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jbt import own
from jbt.commands.options import TableOptions


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(TableOptions):
    """Check what a table of verdicts supports, and propose the next command."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt doctor` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = DoctorOptions.parse(argv, "doctor")
    tables = options.read()
    checks = own.doctor(tables, options.typed())
    options.give(checks, f"What {options.verdicts.name} supports", tables.summary)
    return 0
