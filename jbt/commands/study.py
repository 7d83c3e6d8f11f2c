"""The commands `jbt ask`, `jbt tell` and `jbt status`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from jbt import __version__, runtime
from jbt.border import files
from jbt.border.inputs import parse
from jbt.border.report import Outputs, counted
from jbt.own import Study, StudySettings
from jbt.own.studies.exchange import is_done, read_answers, text_of
from jbt.own.studies.study import LEASE

SURE, SPENT, AWAITED = 3, 4, 5
"""Exit status where the top k is sure, where there is nothing more to ask for another reason, and
of an ask that got nothing because answers are awaited; 0 while the study goes on."""


@dataclass(frozen=True, kw_only=True)
class AskOptions(StudySettings):
    """Which pairs to show to a judge next? Begins a study if there is none (then --items is needed,
    and the settings are kept), and prints the next queries: id, pool, items in the order to show,
    judge, and every column of the items table, of both items. Exit status: 0 with queries, 5 with
    none as long as answers are awaited, 3 where the top k is sure, 4 where the budget is spent or
    nothing is left to ask."""

    study: Annotated[Path, tyro.conf.Positional]
    """Folder of the study."""
    rule: str = "entropy_reduction_fresh"
    """Acquisition rule."""
    items: Path | None = None
    """Table of items: item, optional pool, content, text, any covariates. CSV, or Parquet with the
    extra judge-bt[parquet]."""
    anchors: Path | None = None
    """Table of trusted pairs: better, worse, optional pool."""
    n: int = 1
    """Most queries (count)."""
    lease: float = LEASE
    """Time until a query that is not answered is asked again (seconds), at most 30 days."""
    out: Path | None = None
    """File for the queries, CSV or .jsonl; default standard output, as CSV. Earlier queries of the
    study are written over once their answers, if there are any, were told."""
    overwrite: bool = False
    """Write over any other file."""


def ask(argv: Sequence[str]) -> int:
    """Run `jbt ask` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, table or study.
    """
    options = parse(AskOptions, argv, prog="jbt ask")
    files.check_writable(options.out, overwrite=True)
    runtime.start()
    named = {
        f.name: value
        for f in fields(StudySettings)
        if (value := getattr(options, f.name)) != f.default
    }
    study = Study.open(options.study, options.items, anchors=options.anchors, **named)
    overwrite = options.overwrite
    if options.out is not None:
        overwrite = overwrite or is_done(options.out, study)
        files.check_replaceable(options.out, overwrite=overwrite)
    queries = study.ask(options.n, lease=options.lease)
    if options.out is None:
        sys.stdout.write(text_of(queries))
    else:
        files.write_together({options.out: text_of(queries, options.out)}, overwrite=overwrite)
    return _state(study) or (0 if queries else AWAITED)


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


def tell(argv: Sequence[str]) -> int:
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
    return _state(study)


@dataclass(frozen=True, kw_only=True)
class StatusOptions(Outputs):
    """Where a study stands: its top k and how certain it is, the ranking, what the verdicts
    identify, and the cost. Exit status as of `jbt tell`."""

    study: Annotated[Path, tyro.conf.Positional]
    """Folder of the study."""


def status(argv: Sequence[str]) -> int:
    """Run `jbt status` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, or no study.
    """
    options = parse(StatusOptions, argv, prog="jbt status")
    options.check_outputs()
    runtime.start()
    study = Study.open(options.study)
    settings = {**study.settings.record(), "study": str(options.study), "jbt": __version__}
    options.give(study.summary(), f"Study {options.study}", [], settings)
    return _state(study)


def _state(study: Study) -> int:
    """Say on stderr how a study stands, and return the exit status."""
    for note in study.notes:
        print(note, file=sys.stderr)
    line = f"{counted(study.n_told, 'verdict')}"
    line += f", {counted(study.n_errors, 'error')}" if study.n_errors else ""
    line += f", {counted(study.waiting, 'answer')} awaited" if study.waiting else ""
    stopped = study.stopped
    print(f"{line}; {'stopped: ' + stopped if stopped else 'not stopped'}", file=sys.stderr)
    return 0 if stopped is None else SURE if stopped == "sure" else SPENT
