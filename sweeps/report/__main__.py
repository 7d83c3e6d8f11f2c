"""The command line of the report; see `main`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jbt.border import files
from jbt.border.exits import exit_code
from jbt.experiments.declare import PRESETS

from . import documents, kept, page, running
from .runs import sweep_names

DESCRIPTION = """Run the sweeps that are missing and write OUT/report.html: every number of the
paper beside ours, its claims with their verdicts, and what goes beyond. A run that is killed
continues when the same command is given again."""


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m sweeps.report`; returns the exit code: 0, or 2 if a sweep failed or its folder
    holds another run."""
    parser = argparse.ArgumentParser("python -m sweeps.report", description=DESCRIPTION)
    add = parser.add_argument
    add("--preset", choices=PRESETS, default="full", help="of every sweep (default full)")
    add("--out", type=Path, default=Path("results"), help="folder for results and report")
    add("--only", nargs="+", default=[], metavar="NAME", help="these sweeps (default all)")
    add("--data", type=Path, help="recorded verdicts, as JBT_DATA names them")
    add("--no-run", action="store_true", help="only from runs that are there")
    add("--overwrite", action="store_true", help="write over a report.html that jbt did not make")
    add(
        "--collect",
        type=Path,
        metavar="RESULTS",
        help="instead keep the tables of these runs in docs/results, then do as --documents",
    )
    add("--variant", default="", metavar="NAME", help="with --collect: runs of other settings")
    add(
        "--documents",
        action="store_true",
        help="instead make what is marked in README and docs anew from docs/results",
    )
    options = parser.parse_args(argv)
    given = sys.argv[1:] if argv is None else argv
    command = " ".join(["python -m sweeps.report", *given])
    write = _documents if options.documents or options.collect else _report
    return exit_code(
        lambda: write(options, command),
        interrupted="\ninterrupted; the same command continues",
    )


def _report(options: argparse.Namespace, command: str) -> int:
    page.environment()  # before anything runs
    files.check_replaceable(options.out / page.HTML, overwrite=options.overwrite)
    known = sweep_names()
    if unknown := [name for name in options.only if name not in known]:
        raise ValueError(f"unknown sweep {unknown[0]!r}: one of {', '.join(known)}")
    with running.data_in(options.data):
        names = options.only or known
        run = not options.no_run
        runs, absent, failed = running.collect(names, options.preset, options.out, run=run)
    path = page.write(runs, absent, options.preset, command, options.out, options.overwrite)
    for name, reason in absent.items():
        print(f"left out: {name}, {reason}", file=sys.stderr)
    print(f"written: {path}, {path.with_suffix('.csv')}, {path.with_suffix('.json')}")
    return 2 if failed else 0


def _documents(options: argparse.Namespace, command: str) -> None:
    if options.collect:
        made = kept.collect(options.collect, options.only, options.variant)
        print("kept " + ", ".join(made))
    changed = [str(path.relative_to(documents.ROOT)) for path in documents.renew(kept.table)]
    print("written " + (", ".join(changed) or "nothing"))


if __name__ == "__main__":
    raise SystemExit(main())
