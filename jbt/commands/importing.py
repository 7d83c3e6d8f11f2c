"""The command `jbt import`."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import tyro

from jbt import __version__
from jbt.border import files
from jbt.border.inputs import parse
from jbt.border.report import counted
from jbt.own import formats
from jbt.own.formats import GenericColumns, Imported
from jbt.own.formats.given import SwappedCodes
from jbt.own.tables.outcomes import Outcomes

ROLES = ("pool", "judge", "first", "second", "item", "winner", "p_first", "order", "count")
"""Roles in the mapping that are printed first."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Write verdicts.csv, items.csv and, where the source has gold labels, anchors.csv from files
    that other tools wrote: JSON, JSON lines, CSV, or Parquet with the extra judge-bt[parquet]; also
    gzipped."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Files of one format, which become one set of tables."""
    out: Path
    """Folder for the tables."""
    format: formats.Name = "auto"
    """Format of the files; auto recognises it by their keys."""
    order: formats.GivenOrder = None
    """Whether the first item of every verdict was shown first; default: as the source says, or
    unknown if it does not."""
    judge: tuple[str, ...] = ()
    """Name of the judge, or one for each file; default: as the source says."""
    first: str | None = None
    """Column of a generic table with the first item."""
    second: str | None = None
    """Column of a generic table with the second item."""
    winner: tuple[str, ...] = ()
    """Column of a generic table with the winner: first | second | model_a | model_b | left | right
    | 1 | 2 | a | b | tie | error, the item's name, or its column's. Two or three columns: marked 1
    where the first won, where the second won, where they tied."""
    pool: str | None = None
    """Column of a generic table with the pool."""
    judge_column: str | None = None
    """Column of a generic table with the judge."""
    texts: tuple[str, str] | None = None
    """Columns of a generic table with the texts of the first and second item, in which words,
    characters and markdown are counted."""
    counts: tuple[tuple[str, str, str], ...] = ()
    """Covariates of a generic table that are already counted: a name and the columns of the first
    and second item; may be repeated."""
    map: str | None = None
    """What the winner's codes of a generic table mean, such as `[[A]]=first,[[B]]=second,C=tie`:
    first, second, tie, error, or the share that the first won."""
    scale: str | None = None
    """A winner that is a number: the end that says first, and the end that says second, such as
    1:7; between them the verdict is graded."""
    scores: tuple[str, str] | None = None
    """Columns of a generic table with a score of each item, of which the higher wins."""
    probability: tuple[str, ...] = ()
    """Column of a generic table with the probability that the first won; or two columns, with that
    of either, whose share counts."""
    logprobs: tuple[str, str] | None = None
    """Columns of a generic table with the log probabilities of either verdict (softmax)."""
    wins: tuple[str, ...] = ()
    """Columns of a generic table that count wins of the first, wins of the second and, if there is
    a third, ties."""
    judges: tuple[str, ...] = ()
    """Columns of a generic table that hold the winner (or rating) according to a judge each."""
    gold: str | None = None
    """Column of a generic table with the better item by a trusted label, coded as the winner."""
    verdict_in_text: bool = False
    """Read the last [[X]] of a text as the winner or rating; a text without any is an error."""
    item: str | None = None
    """Column of a table of single answers with the model that gave the answer."""
    rating: tuple[str, ...] = ()
    """Column of a table of single answers with the rating (several: a judge each); without --item,
    a column for each model. The higher is better."""
    ranks: tuple[str, ...] = ()
    """The same with ranks, of which 1 is best."""
    ranking: str | None = None
    """Column of a table of rankings with a list of models, the best first."""
    swapped: str | None = None
    """Column of a generic table with the winner when the second was shown first."""
    swapped_codes: SwappedCodes | None = None
    """Whether a code such as A in that column is about the order shown then, or the columns."""
    strong_weight: int = 1
    """How often a verdict >> of Arena-Hard counts (count); Arena-Hard itself uses 3."""
    baseline: str | None = None
    """The model that Arena-Hard v0.1 compared with, which its judgments do not name."""
    keep: tuple[str, ...] = ()
    """Keys of the files that become columns of the verdicts (space-separated), such as language, by
    which jbt leaderboard --by tells verdicts apart."""
    overwrite: bool = False
    """Write over tables in the folder, and over a file of --json that jbt did not make."""
    json: Path | None = None
    """Write the report to this file."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt import` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, file or record, a line each.
    """
    options = parse(ImportOptions, argv, prog="jbt import")
    overwrite = options.overwrite
    files.check_outputs(options.json, options.out, formats.TABLES, overwrite=overwrite)
    imported = collect(options)
    written = imported.write(options.out, options.overwrite)
    if options.json is not None:
        _write_json(options.json, options, imported, written)
    print(*described(imported, len(options.files)), sep="\n")
    print(f"Wrote {', '.join(map(str, written))}. Next:")
    print(f"  {shlex.join(['jbt', 'audit', str(options.out)])}")
    return 0


def collect(options: ImportOptions) -> Imported:
    """Read the files that the options name.

    Raises:
      ValueError: a wrong option, file or record, a line each.
    """
    named = {
        f.name: getattr(options, f.name) for f in fields(GenericColumns) if f.name != "outcomes"
    }
    gc.disable()  # records have no cycles: looking for some takes a third of the time
    try:
        return formats.collect(
            options.files,
            format=options.format,
            order=options.order,
            judges=options.judge,
            columns=GenericColumns(
                outcomes=Outcomes.of_options(options.map, options.scale), **named
            ),
            strong_weight=options.strong_weight,
            keep=options.keep,
            baseline=options.baseline,
        )
    finally:
        gc.freeze()
        gc.enable()


def _write_json(
    path: Path, options: ImportOptions, imported: Imported, written: list[Path]
) -> None:
    content = {
        "settings": {**asdict(options), "jbt": __version__},
        "format": imported.format.name,
        "mapping": imported.mapping,
        "unused": imported.unused,
        "counts": imported.counts,
        "judges": imported.judges,
        "contents": imported.contents,
        "covariates": imported.measures,
        "notes": imported.notes(),
        "not_known": imported.not_known(),
        "written": list(map(str, written)),
    }
    files.write_json(path, content, overwrite=options.overwrite)


def described(imported: Imported, n_files: int) -> Iterator[str]:
    """Which key became what, what there is, and what the source does not say, a line each."""
    counts = imported.counts
    source = f"{imported.format.title} ({imported.format.name})"
    yield f"{source}: {counted(counts['records'], 'record')} of {counted(n_files, 'file')}"
    roles = [r for r in ROLES if r in imported.mapping]
    for role in [*roles, *(r for r in imported.mapping if r not in roles)]:
        yield f"  {role:8} <- {', '.join(imported.mapping[role])}"
    if imported.unused:
        yield f"  not used    {', '.join(imported.unused)}"
    judges = counted(counts["judges"], "judge") if counts["judges"] else "judge not named"
    yield (
        f"{counted(counts['verdicts'], 'verdict')}: {counted(counts['ties'], 'tie')}, "
        f"{counted(counts['errors'], 'error')}; {counted(counts['pools'], 'pool')}; {judges}; "
        f"order shown {counts['order_shown']}, unknown {counts['order_unknown']}"
    )
    contents = f" of {counted(counts['contents'], 'content')}" if counts["contents"] else ""
    measures = ", ".join(imported.measures) or "no counts"
    yield f"{counted(counts['items'], 'item')}{contents}: {measures}"
    if counts["anchors"]:
        yield counted(counts["anchors"], "anchor")
    yield from (f"Note: {note}" for note in imported.notes())
    if imported.not_known():
        yield "Not known:"
        yield from (f"  {gap}" for gap in imported.not_known())
