"""The command `jbt ask`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from jbt import runtime
from jbt.border import files
from jbt.border.parsing import parse
from jbt.commands.study import AWAITED, named, status_of
from jbt.own import Study, StudySettings
from jbt.own.studies.exchange import is_done, text_of, write_queries
from jbt.own.studies.study import LEASE


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


def main(argv: Sequence[str]) -> int:
    """Run `jbt ask` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, table or study.
    """
    options = parse(AskOptions, argv, prog="jbt ask")
    files.check_writable(options.out, overwrite=True)
    runtime.start()
    study = Study.open(options.study, options.items, anchors=options.anchors, **named(options))
    overwrite = options.overwrite
    if options.out is not None:
        overwrite = overwrite or is_done(options.out, study)
        files.check_replaceable(options.out, overwrite=overwrite)
    queries = study.ask(options.n, lease=options.lease)
    if options.out is None:
        sys.stdout.write(text_of(queries, lines=False))
    else:
        write_queries(options.out, queries, overwrite=overwrite)
    status = status_of(study)
    return status if status or queries else AWAITED
