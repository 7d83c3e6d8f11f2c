"""The command `jbt doctor`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from jbt.border import files
from jbt.commands.options import TableOptions
from jbt.own.examine import doctor


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(TableOptions):
    """What a verdict table supports and what it does not, with the next command to type."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt doctor` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem.
    """
    options = tyro.cli(DoctorOptions, args=argv, prog="jbt doctor")
    options.check_outputs()
    tables = options.read()
    checks = doctor.examine(tables, options.typed())
    if options.json is not None:
        content = [check.record() for check in checks]
        files.write_text(options.json, json.dumps(content, indent=1, allow_nan=False) + "\n")
    title = f"What {options.verdicts.name} supports"
    report = doctor.report(title, tables.summary, checks)
    print(report.text())
    if options.out is not None:
        report.write(options.out, doctor.table(checks), doctor.figure(checks))
    return 0
