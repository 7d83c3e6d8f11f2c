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
from jbt.own import formats
from jbt.own.formats.given import GenericColumns, GivenOrder, SwappedCodes
from jbt.own.formats.known import Name
from jbt.own.tables.outcomes import Outcomes

ROLES = ("pool", "judge", "first", "second", "item", "winner", "p_first", "order", "count")
"""Roles in the mapping that are printed first."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Make tables from files that other tools wrote: verdicts.csv, items.csv and,
    where the source has gold labels, anchors.csv.

    Files may be JSON, JSON lines, CSV or, with the extra judge-bt[parquet],
    Parquet; they may be gzipped or zipped."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Files of one format. They become one set of tables."""
    out: Path
    """Folder for the tables."""
    format: Name = "auto"
    """Format of the files; auto recognises it by the keys of the first record."""
    order: GivenOrder = None
    """Whether the first item of every verdict was shown first. By default what the source says, and
    unknown where it does not say."""
    judge: tuple[str, ...] = ()
    """Name of the judge, or one name for each file. By default what the source says."""
    first: str | None = None
    """Your own table: column with the first item."""
    second: str | None = None
    """Your own table: column with the second item."""
    winner: tuple[str, ...] = ()
    """Your own table: column with the winner (first, second, model_a, model_b, left, right, 1, 2,
    a, b, tie, error, the item's name, or that of its column). Or two or three columns that have 1
    where the first won, where the second won and where they tied."""
    pool: str | None = None
    """Your own table: column with the pool."""
    judge_column: str | None = None
    """Your own table: column with the judge."""
    texts: tuple[str, str] | None = None
    """Your own table: columns with the texts of the first and the second item. Words, characters
    and markdown are counted in them."""
    counts: tuple[tuple[str, str, str], ...] = ()
    """Your own table: a covariate that is already counted. Give its name and the columns for the
    first and the second item; repeat the three for further covariates."""
    map: str | None = None
    """Your own table: what the codes of the winner mean, such as `[[A]]=first,[[B]]=second,C=tie`.
    A code means first, second, tie, error, or the share that the first won."""
    scale: str | None = None
    """Your own table: the winner is a number on this scale. Give the end that says first and the
    end that says second, such as 1:7; numbers between are graded verdicts."""
    scores: tuple[str, str] | None = None
    """Your own table: columns with the scores of the two items; the higher wins."""
    probability: tuple[str, ...] = ()
    """Your own table: column with the probability that the first won. Or two columns, with the
    probabilities of the first and the second, which are scaled to sum to 1."""
    logprobs: tuple[str, str] | None = None
    """Your own table: columns with the log probabilities of the two verdicts (softmax)."""
    wins: tuple[str, ...] = ()
    """Your own table: columns that count the wins of the first, those of the second and, if there
    is a third column, ties."""
    judges: tuple[str, ...] = ()
    """Your own table: columns with the winner (or rating), one column for each judge."""
    gold: str | None = None
    """Your own table: column with the better item by a trusted label, coded like the winner."""
    verdict_in_text: bool = False
    """Read the last [[X]] of a text as the winner or rating; a text without one is an error."""
    item: str | None = None
    """Table of single answers: column with the model that gave the answer."""
    rating: tuple[str, ...] = ()
    """Table of single answers: column with the rating, or one column for each judge; without
    --item, one column for each model. A higher rating is better."""
    ranks: tuple[str, ...] = ()
    """The same as --rating, with ranks, of which 1 is the best."""
    ranking: str | None = None
    """Table of rankings: column with a list of models, the best first."""
    swapped: str | None = None
    """Your own table: column with the winner when the second item was shown first."""
    swapped_codes: SwappedCodes | None = None
    """Whether a code such as A in the column of --swapped means the item shown first there (shown)
    or the item of the first column (columns)."""
    strong_weight: int = 1
    """How often a verdict >> of Arena-Hard counts; Arena-Hard itself uses 3."""
    baseline: str | None = None
    """The model with which Arena-Hard v0.1 compared; its judgments do not name it."""
    keep: tuple[str, ...] = ()
    """Keys of the files that become columns of the verdicts (space-separated), such as language,
    for `jbt leaderboard --by`."""
    overwrite: bool = False
    """Replace tables in the folder, and a file of --json that jbt did not make."""
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


def collect(options: ImportOptions) -> formats.Imported:
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
    path: Path, options: ImportOptions, imported: formats.Imported, written: list[Path]
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


def described(imported: formats.Imported, n_files: int) -> Iterator[str]:
    """Which key became what, what there is, and what the source does not say, a line each."""
    from jbt.border.report import counted

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
