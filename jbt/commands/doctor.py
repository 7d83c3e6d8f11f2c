"""The command `jbt doctor`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from jbt import files
from jbt.commands.options import TableOptions
from jbt.own import doctor


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
    for line in tables.summary:
        print(line)
    for check in checks:
        print(f"{'ok' if check.ok else '--'}  {check.check}: {check.found}")
        if check.command is not None:
            print(f"      {check.command}")
    return 0
