"""The command `jbt import`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from jbt import __version__
from jbt.border import files
from jbt.own import formats
from jbt.own.formats import GenericColumns, Imported

ROLES = ("pool", "judge", "first", "second", "item", "winner", "p_first", "order", "count")
"""What is shown of the mapping first."""


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
    """Whether the first of a verdict was shown first, of all verdicts; default what the source
    says, unknown where it does not."""
    judge: tuple[str, ...] = ()
    """Name of the judge, or one for each file; default what the source says."""
    first: str | None = None
    """Column of a generic table with the first item."""
    second: str | None = None
    """Column of a generic table with the second item."""
    winner: tuple[str, ...] = ()
    """Column of a generic table with the winner: first | second | model_a | model_b | left | right
    | 1 | 2 | a | b | tie | error, the item's own name, or its column's. Two or three columns: 1
    where the first won, where the second won, where they tied."""
    pool: str | None = None
    """Column of a generic table with the pool."""
    judge_column: str | None = None
    """Column of a generic table with the judge."""
    texts: tuple[str, str] | None = None
    """Columns of a generic table with the texts of the first and second item, to be counted."""
    counts: tuple[tuple[str, str, str], ...] = ()
    """Covariates of a generic table that are counted already: a name and the columns of the first
    and second item, any number of times."""
    strong_weight: int = 1
    """How often a verdict >> of Arena-Hard counts (count); 3 in Arena-Hard itself."""
    overwrite: bool = False
    """Overwrite tables in the folder."""
    json: Path | None = None
    """Write the report to this file."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt import` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, file or record, a line each.
    """
    options = tyro.cli(ImportOptions, args=argv, prog="jbt import")
    _check_paths(options)
    found = formats.collect(
        options.files,
        format=options.format,
        order=options.order,
        judges=options.judge,
        columns=GenericColumns(
            options.first,
            options.second,
            options.winner,
            options.pool,
            options.judge_column,
            options.texts,
            options.counts,
        ),
        strong_weight=options.strong_weight,
    )
    written = found.write(options.out, options.overwrite)
    if options.json is not None:
        _write_json(options.json, options, found, written)
    _print(options, found, written)
    return 0


def _check_paths(options: ImportOptions) -> None:
    """What is read must not be written, nor anything outside `--out` and `--json`."""
    files.check_writable(options.json)
    formats.check_folder(options.out, options.overwrite)
    tables = {(options.out / name).resolve() for name in formats.TABLES}
    sources = {path.resolve() for path in options.files}
    if tables & sources:
        raise ValueError(f"--out would overwrite {min(tables & sources)}, which is to be read")
    if options.json is not None and options.json.resolve() in tables | sources:
        raise ValueError(f"--json would overwrite {options.json}")


def _write_json(path: Path, options: ImportOptions, found: Imported, written: list[Path]) -> None:
    content = {
        "settings": {**_plain(asdict(options)), "jbt": __version__},
        "format": found.format.name,
        "mapping": {role: list(keys) for role, keys in found.mapping.items()},
        "unused": list(found.unused),
        "counts": found.counts,
        "judges": found.judges,
        "contents": found.contents,
        "covariates": found.measures,
        "notes": found.notes(),
        "not_known": found.not_known(),
        "written": _plain(written),
    }
    files.write_json(path, content)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, Path) else value


def _print(options: ImportOptions, found: Imported, written: list[Path]) -> None:
    counts = found.counts
    n_files = len(options.files)
    print(
        f"{found.format.title} ({found.format.name}): {_number(counts['records'], 'record')} of "
        f"{_number(n_files, 'file')}"
    )
    roles = [r for r in ROLES if r in found.mapping]
    for role in [*roles, *(r for r in found.mapping if r not in roles)]:
        print(f"  {role:8} <- {', '.join(found.mapping[role])}")
    if found.unused:
        print(f"  not used    {', '.join(found.unused)}")
    judges = _number(counts["judges"], "judge") if counts["judges"] else "judge not named"
    print(
        f"{_number(counts['verdicts'], 'verdict')}: {_number(counts['ties'], 'tie')}, "
        f"{_number(counts['errors'], 'error')}; {_number(counts['pools'], 'pool')}; {judges}; "
        f"order shown {counts['order_shown']}, unknown {counts['order_unknown']}"
    )
    contents = f" of {_number(counts['contents'], 'content')}" if counts["contents"] else ""
    print(
        f"{_number(counts['items'], 'item')}{contents}: {', '.join(found.measures) or 'no counts'}"
    )
    if counts["anchors"]:
        print(_number(counts["anchors"], "anchor"))
    for note in found.notes():
        print(f"Note: {note}")
    if found.not_known():
        print("Not known:", *found.not_known(), sep="\n  ")
    print(f"Wrote {', '.join(map(str, written))}. Next:")
    command = ["jbt", "doctor", "--verdicts", str(written[0]), "--items", str(written[1])]
    if found.measures:
        command += ["--covariates", found.measures[0], "--transform", "log1p"]
    print(f"  {shlex.join(command)}")


def _number(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
