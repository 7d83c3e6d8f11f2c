"""The command `jbt tell`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jbt import runtime
from jbt.border.parsing import parse
from jbt.border.report import counted
from jbt.commands.study import status_of
from jbt.own import Study
from jbt.own.studies.exchange import read_answers


@dataclass(frozen=True, kw_only=True)
class TellOptions:
    """Tell a study the answers to its queries, all or none. Exit status: 0 while the study
    goes on, 3 where the top k is sure, 4 where the budget is spent or nothing is left to ask."""

    study: Annotated[Path, tyro.conf.Positional]
    """Folder of the study."""
    answers: Annotated[Path, tyro.conf.Positional]
    """The file of `jbt ask` with a column winner (first | second | tie | error, or the name of one
    of the two items), p_first (0 to 1) or error; optional cost and further columns to keep. CSV or
    .jsonl; rows without an answer are left out."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt tell` with these options; returns the exit code.

    Raises:
      ValueError: a wrong answer, one line a problem; then none is told.
    """
    options = parse(TellOptions, argv, prog="jbt tell")
    runtime.start()
    study = Study.open(options.study)
    answers = read_answers(options.answers, study)
    study.tell_all(answers)
    print(f"{counted(len(answers), 'answer')} told")
    return status_of(study)
