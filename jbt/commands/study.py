"""The commands `jbt ask`, `jbt tell` and `jbt status`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

import jbt
from jbt import __version__, own
from jbt.border import files
from jbt.border.inputs import parse
from jbt.border.outputs import Outputs
from jbt.own.choices import LEASE, StudyChoices

StudyFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]

SURE, SPENT, AWAITED = 3, 4, 5
"""Exit status where the top k is sure, where there is nothing more to ask for another reason, and
of an ask that got nothing because answers are awaited; 0 while the study goes on."""


@dataclass(frozen=True, kw_only=True)
class AskOptions(StudyChoices):
    """Print the pairs that a judge should see next.

    The first call begins the study: it needs --items, and its settings are kept. A
    query has an id, the pool, the two items in the order in which to show them,
    the judge, and every column of the items table for both items. Exit status: 0
    with queries; 5 without one, because answers are awaited; 3 once the top k is
    sure (see --stop); 4 once the budget is spent or no pair is left to ask."""

    study: StudyFolder
    """Folder of the study."""
    rule: str | None = None
    """Acquisition rule. By default entropy_reduction_fresh or, with --stop anytime, pivot."""
    items: Path | None = None
    """Table of items with the column item, optional columns pool, content and text, and any
    covariates. CSV, or Parquet with the extra judge-bt[parquet]."""
    anchors: Path | None = None
    """Table of trusted pairs with the columns better and worse, and optionally pool."""
    n: int = 1
    """Largest number of queries to print."""
    lease: float = LEASE
    """Seconds after which a query without an answer is asked again, at most 30 days."""
    out: Path | None = None
    """Write the queries to this file, CSV or .jsonl; without it they are printed as CSV. A file
    with earlier queries of the study is replaced, unless it holds answers that `jbt tell` has not
    recorded."""
    overwrite: bool = False
    """Replace --out whatever it holds."""


def ask(argv: Sequence[str]) -> int:
    """Run `jbt ask` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, table or study.
    """
    options = parse(AskOptions, argv, prog="jbt ask")
    from jbt.own.studies.exchange import is_done, text_of

    files.check_writable(options.out, overwrite=True)
    jbt.runtime.start()
    named = {
        f.name: value
        for f in fields(own.StudySettings)
        if (value := getattr(options, f.name)) != f.default
    }
    study = own.Study.open(options.study, options.items, anchors=options.anchors, **named)
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
    """Tell a study the answers to its queries: if one is wrong, none is recorded.

    Exit status: 0 while the study goes on; 3 once the top k is sure; 4 once the budget
    is spent or no pair is left to ask."""

    study: StudyFolder
    """Folder of the study."""
    answers: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="ANSWERS")]
    """The file that `jbt ask` wrote, CSV or .jsonl, with one more column: winner (first, second,
    tie, error, or the name of one of the two items), p_first (0 to 1), or error. A column cost and
    further columns are kept. Rows without an answer are left out."""


def tell(argv: Sequence[str]) -> int:
    """Run `jbt tell` with these options; returns the exit code.

    Raises:
      ValueError: a wrong answer, one line a problem; then none is told.
    """
    options = parse(TellOptions, argv, prog="jbt tell")
    from jbt.border.report import counted
    from jbt.own.studies.exchange import read_answers

    jbt.runtime.start()
    study = own.Study.open(options.study)
    answers = read_answers(options.answers, study)
    study.tell_all(answers)
    print(f"{counted(len(answers), 'answer')} told")
    return _state(study)


@dataclass(frozen=True, kw_only=True)
class StatusOptions(Outputs):
    """Show where a study stands: its top k and how certain it is, the ranking, what
    the verdicts identify, and the cost. The exit status is that of `jbt tell`."""

    study: StudyFolder
    """Folder of the study."""


def status(argv: Sequence[str]) -> int:
    """Run `jbt status` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, or no study.
    """
    options = parse(StatusOptions, argv, prog="jbt status")
    options.check_outputs()
    jbt.runtime.start()
    study = own.Study.open(options.study)
    settings = {**study.settings.record(), "study": str(options.study), "jbt": __version__}
    options.give(study.summary(), f"Study {options.study}", [], settings)
    return _state(study)


def _state(study: own.Study) -> int:
    """Say on stderr how a study stands, and return the exit status."""
    from jbt.border.report import counted

    for note in study.notes:
        print(note, file=sys.stderr)
    line = f"{counted(study.n_told, 'verdict')}"
    line += f", {counted(study.n_errors, 'error')}" if study.n_errors else ""
    line += f", {counted(study.waiting, 'answer')} awaited" if study.waiting else ""
    stopped = study.stopped
    print(f"{line}; {'stopped: ' + stopped if stopped else 'not stopped'}", file=sys.stderr)
    return 0 if stopped is None else SURE if stopped == "sure" else SPENT
