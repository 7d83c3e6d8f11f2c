"""The command `jbt plan labels`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from jbt import files, runtime
from jbt.commands.gate import own_pools
from jbt.commands.options import TableOptions
from jbt.own.labelling import Labelling, labelling
from jbt.own.reading import column_names
from jbt.own.report import Report, Section

SHOWN = 20
"""Most labels that are printed."""

HOW = {
    "better": "fill in better: first, second, tie, or the name of the better one",
    "member": "fill in member: yes if the item is one of the {k} best of its pool, else no",
}


@dataclass(frozen=True, kw_only=True)
class LabelsOptions(TableOptions):
    """Which pairs or items of these verdicts to have labelled by someone trusted, in random order,
    for `jbt gate` to decide from: those on which the naive and the bias-aware ranking differ (MAP,
    float64)."""

    k: int = 1
    """Size of the top set (count)."""
    labels: Literal["disputed", "swaps", "members"] = "disputed"
    """disputed: pairs that the two rankings order oppositely; swaps: of these, one item from the
    naive top k and one from the bias-aware, each in that alone; members: the items that are in one
    top k alone."""
    n: int | None = None
    """Labels wanted (count); default all there are."""
    tie_breaks: bool = False
    """A pair that one ranking ties and the other does not is disputed, too."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    out: Path | None = None
    """Write the table to be filled in to this file (CSV)."""

    def check_outputs(self) -> None:
        """Raise `ValueError` where `json` or `out` cannot be written or is one of the tables."""
        for option, path in (("--json", self.json), ("--out", self.out)):
            files.check_writable(path)
            for table in (self.verdicts, self.items, self.anchors):
                if table and path and path.exists() and table.exists() and path.samefile(table):
                    raise ValueError(f"{option} would overwrite {table}")


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan labels` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, one line a problem; nothing to label.
    """
    options = tyro.cli(LabelsOptions, args=argv, prog="jbt plan labels")
    options.check_outputs()
    if not options.covariates:
        raise ValueError("jbt plan labels needs a covariate to correct for (--covariates)")
    runtime.start()
    tables, fitted = own_pools(options)
    batch = options.batch(fitted)
    options.announce(fitted)
    found = labelling(
        tables,
        batch,
        labels=options.labels,
        k=options.k,
        n=options.n,
        tie_breaks=options.tie_breaks,
        prior=options.prior(),
        seed=options.seed,
    )
    table = found.table
    if options.pool not in column_names(options.verdicts, [options.first]):
        table = table.drop(columns="pool")  # as the verdicts, which are of one
    if options.json is not None:
        content = {
            "settings": options.settings(),
            "labels": table.to_dict("records"),
            "judges": found.judges.to_dict("records"),
        }
        files.write_text(options.json, json.dumps(content, indent=1, allow_nan=False) + "\n")
    if options.out is not None:
        files.write_text(options.out, table.to_csv(index=False, lineterminator="\n"))
    print(_report(options, found).text())
    return 0


def _report(options: LabelsOptions, found: Labelling) -> Report:
    pairs = "better" in found.table
    noun = f"{options.labels} pairs" if pairs else "contents in one top k alone"
    answer = HOW["better" if pairs else "member"].format(k=options.k)
    lead = [
        f"{len(found.table)} of {found.n_labels} {noun} to be labelled, in random order",
        f"{answer}; nothing where nobody knows",
        "then: jbt gate with the same options, --labels "
        f"{options.labels} and this file as --anchors",
    ]
    where = [] if options.out is None else [f"written to {options.out}"]
    more = len(found.table) - SHOWN
    judges = found.judges.assign(judge=[j or "all verdicts" for j in found.judges["judge"]])
    judges.columns = ["judge", "pools that differ", "labels", "asked here"]
    rows = found.table.head(SHOWN)
    if more > 0:
        where.append(f"the first {SHOWN}; {more} more are in the file (--out)")
    sections = [Section("Where the rankings differ", (), judges), Section("Labels", where, rows)]
    return Report(f"Labels for {options.verdicts.name}", lead, sections)
