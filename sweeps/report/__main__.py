"""The command line of the report; see `main`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

from jbt.border import files, inputs
from jbt.border.exits import exit_code

from . import documents, kept, page, runs


@dataclasses.dataclass(frozen=True)
class Options:
    """Run the sweeps that are missing and write OUT/report.html: every number of the paper beside
    ours, figures, and all documents, on one page that opens without a network. A run that is killed
    continues when the same command is given again."""

    preset: Literal["smoke", "paper", "full"] = "full"
    """Of every sweep."""
    out: Path = Path("results")
    """Folder for results and report."""
    only: tuple[str, ...] = ()
    """These sweeps (default all)."""
    data: Path | None = None
    """Recorded verdicts, as JBT_DATA names them."""
    run: bool = True
    """False: only from runs that are there."""
    overwrite: bool = False
    """Write over a report.html that jbt did not make."""
    documents: bool = False
    """Instead make what is marked in README and docs anew from docs/results."""
    collect: Path | None = None
    """Instead keep the tables of the runs in this folder in docs/results, then do as
    --documents."""
    variant: str = ""
    """With --collect: name for runs of other settings than those of the preset full."""


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m sweeps.report`; returns the exit code: 0, or 2 if a sweep failed or its folder
    holds another run."""
    given = sys.argv[1:] if argv is None else argv
    command = " ".join(["python -m sweeps.report", *given])

    def work() -> int:
        options = inputs.parse(Options, given, prog="python -m sweeps.report")
        return report(options, command)

    return exit_code(work, interrupted="\ninterrupted; the same command continues")


def report(options: Options, command: str) -> int:
    """Do what the options say; returns the exit code."""
    if options.collect or options.documents:
        made = (
            kept.collect(options.collect, options.only, options.variant)
            if options.collect
            else documents.renew(documents.Results(kept.table))
        )
        print("written " + (", ".join(made) or "nothing"))
        return 0
    if options.data is not None:
        os.environ["JBT_DATA"] = str(options.data.resolve())
    page.check_tools()  # before anything runs
    html, csv = options.out / "report.html", options.out / "report.csv"
    files.check_replaceable(html, overwrite=options.overwrite)
    known = runs.sweep_names()
    if unknown := [name for name in options.only if name not in known]:
        raise ValueError(f"unknown sweep {unknown[0]!r}: one of {', '.join(known)}")
    names = options.only or known
    finished, absent = runs.gather(names, options.preset, options.out, run=options.run)
    for name, reason in absent.items():
        print(f"left out: {name}, {reason}", file=sys.stderr)
    text = page.one_page(page.markdown(finished, absent, options.preset, command))
    tables = [run.table.assign(sweep=run.name) for run in finished]
    rows = pd.concat([pd.DataFrame(columns=["sweep"]), *tables])
    # The table bears no mark of its own: it belongs to the page.
    overwrite = options.overwrite or files.is_own(html)
    files.write_together({html: text, csv: rows.to_csv(index=False)}, overwrite=overwrite)
    print(f"written: {html}, {csv}")
    return 0 if {*absent.values()} <= {runs.NOT_RUN} else 2


if __name__ == "__main__":
    raise SystemExit(main())
