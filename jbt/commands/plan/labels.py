"""The command `jbt plan labels`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import jbt
from jbt import own
from jbt.border import files
from jbt.commands.gate import own_pools
from jbt.commands.options import TableOptions

if TYPE_CHECKING:
    import pandas as pd

    from jbt.border.report import Report, Section

ALPHA = 0.05
"""Level at which the report says what labels can decide: the default of `jbt gate`."""

SHOWN = 20
"""Most labels printed (count)."""


@dataclass(frozen=True, kw_only=True)
class LabelsOptions(TableOptions):
    """List the pairs or items that someone trusted should label so that `jbt gate`
    can decide: those on which the naive and the bias-aware ranking differ, in
    random order (MAP, float64)."""

    anchors: Path | None = None
    """Table of the labels asked before, answered or not. They are left out, and the order of the
    others stays the same, so that --n 20 gives the next twenty."""
    k: int = 1
    """Size of the top k."""
    labels: Literal["disputed", "swaps", "members"] = "disputed"
    """disputed: pairs that the two rankings order oppositely; they measure agreement on pairs.
    members: items that are in only one top k; they measure recall of the top k. swaps: disputed
    pairs of one such item from each top k."""
    n: int | None = None
    """Number of labels to list. By default all."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    out: Path | None = None
    """Write the table to fill in to this file (CSV)."""
    overwrite: bool = False
    """Replace this file with the answers in it, and a file of --json that jbt did not make."""

    def check_outputs(self) -> None:
        files.check_outputs(self.json, self.out, overwrite=self.overwrite)

    def gate(self) -> str:
        """The command line that decides from these labels."""
        from jbt.own.examine.doctor import command_line

        with_seed = {"seed": self.seed} if self.seed else {}  # it also breaks ties of the top k
        # `jbt gate` reads all answers from one file.
        answers = "FILE" if self.out is None or self.anchors is not None else self.out
        labels = {"anchors": answers, "labels": self.labels, "k": self.k}
        return command_line("gate", {**self.typed(), **labels, **with_seed})


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan labels` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option or table, with a line for each problem; nothing to label.
    """
    options = LabelsOptions.parse(argv, "plan labels")
    if not options.covariates:
        raise ValueError("jbt plan labels needs a covariate to correct for (--covariates)")
    from jbt.own.tables.names import for_spreadsheet
    from jbt.own.tables.sheets import column_names

    jbt.runtime.start()
    tables, fitted = own_pools(options)
    batch = options.batch(fitted)
    options.announce(fitted)
    planned = own.labelling(
        tables,
        batch,
        labels=options.labels,
        k=options.k,
        n=options.n,
        prior=options.prior(),
        seed=options.seed,
    )
    table = planned.table
    if options.pool not in column_names(options.verdicts, [options.first]):
        table = table.drop(columns="pool")  # the verdicts have no such column either
    if options.json is not None:
        content = {
            "settings": options.settings(),
            "labels": table,
            "judges": planned.judges,
            "gate": options.gate(),
        }
        files.write_json(options.json, content, overwrite=options.overwrite)
    if options.out is not None:
        names = table.columns.drop("k", errors="ignore")
        plain = table.assign(**{name: table[name].map(for_spreadsheet) for name in names})
        text = plain.to_csv(index=False, lineterminator="\n")
        files.write_together({options.out: text}, overwrite=options.overwrite)
    _report(options, tables, planned).show()
    return 0


def _report(options: LabelsOptions, tables: own.Tables, planned: own.Labelling) -> Report:
    from jbt.border.report import Report, Section

    n, pairs = len(planned.table), "better" in planned.table
    noun = f"{options.labels} pairs" if pairs else "contents in only one top k"
    answer = [f"{n} of {planned.n_labels} {noun} to label, in random order"]
    if planned.n_listed:
        answer.append(f"{planned.n_listed} left out, because {options.anchors} lists them")
    if options.n is not None and n < options.n:
        answer.append(f"{options.n} wanted (--n), but there are no more")
    if pairs:
        how = "better: first, second, tie, or the name of the better one, of items or contents"
    else:
        best = "the best" if options.k == 1 else f"one of the {options.k} best"
        how = f"member: yes if the item (or its content) is {best} of its pool, else no"
    answer.append(f"fill in {how}; leave it empty where nobody knows")
    where = [] if options.out is None else [f"written to {options.out}"]
    if n > SHOWN:
        where.append(f"the first {SHOWN}; {n - SHOWN} more are in the file (--out)")
    then = [options.gate()]
    if options.anchors is not None:
        then.insert(0, f"FILE: the rows of {options.anchors}, then these")
    elif options.out is None:
        then.insert(0, "FILE: these labels, filled in")
    sections = [
        _decidable(planned.judges, len(tables.pools), pairs),
        Section("Labels", where, planned.table.head(SHOWN)),
        Section("Once they are filled in", then),
    ]
    return Report(f"Labels for {options.verdicts.name}", [], sections, answer=answer)


def _decidable(judges: pd.DataFrame, n_pools: int, pairs: bool) -> Section:
    """What a gate can decide from these labels at best, by its default rule and by `census`."""
    import pandas as pd

    from jbt.border.report import Section
    from jbt.own.gates.report import needed

    noun = "label" if pairs else "match of an item from each top k"
    within, most = int(judges["most_in_pool"].max()), judges["most_used"]
    smallest = jbt.gate.critical_values(ALPHA, int(most.max()))[most]
    table = pd.DataFrame(
        {
            "judge": judges["judge"].fillna("all verdicts"),
            "pools that differ": judges["n_pools"],
            "labels": judges["n_labels"],
            "asked before": judges["n_listed"],
            "asked here": judges["n_asked"],
            "that count": most,
            "must be right": [
                str(r) if r <= n else "cannot enable" for r, n in zip(smallest, most, strict=True)
            ],
        }
    )
    each = f"each {noun} counts" if pairs or n_pools == 1 else f"one {noun} of each pool counts"
    lines = [f"sign at alpha = {ALPHA:g} needs at least {needed(ALPHA)} that count; {each}"]
    if n_pools > 1:
        counts = "label counts" if within == 1 else "labels count"
        lines.append(f"in a single pool at most {within} {counts}")
    if not pairs:
        lines.append(
            "by --rule census, for labels without errors: in a pool once all its items listed here "
            "are labelled; over pools once this holds in each pool with labels"
        )
    return Section("What these labels can decide", lines, table)
