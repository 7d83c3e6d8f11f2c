"""The command `jbt status`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jbt import __version__, runtime
from jbt.border import files
from jbt.border.parsing import parse
from jbt.border.report import NAMES as REPORT
from jbt.border.result import give
from jbt.commands.study import status_of
from jbt.own import Study


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """Where a study stands: its top k and how certain it is, the ranking, what the verdicts
    identify, and the cost. Exit status as of `jbt tell`."""

    study: Annotated[Path, tyro.conf.Positional]
    """Folder of the study."""
    json: Path | None = None
    """Write every number to this file."""
    out: Path | None = None
    """Write report.md, table.csv and figure.png to this folder."""
    overwrite: bool = False
    """Write over files that jbt did not make, or that were changed since."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt status` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, or no study.
    """
    options = parse(StatusOptions, argv, prog="jbt status")
    files.check_writable(options.json, overwrite=options.overwrite)
    files.check_folder(options.out, REPORT, overwrite=options.overwrite)
    runtime.start()
    study = Study.open(options.study)
    settings = {**study.settings.record(), "study": str(options.study), "jbt": __version__}
    give(
        study.summary(),
        f"Study {options.study}",
        [],
        settings=settings,
        json_file=options.json,
        folder=options.out,
        overwrite=options.overwrite,
    )
    return status_of(study)
