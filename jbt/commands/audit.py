"""The command `jbt audit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import jbt
from jbt import own
from jbt.border import files
from jbt.border.inputs import parse
from jbt.commands.importing import ImportOptions, collect, described
from jbt.commands.options import TableOptions
from jbt.own import formats
from jbt.own.choices import Transform
from jbt.own.tables.folder import words_of

PAGE, NUMBERS = "audit.html", "audit.json"

NAMES = (files.REPORT, PAGE, NUMBERS)
"""Files of the folder `--out`, beside the tables of imported files."""


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ImportOptions):
    """Turn files of verdicts into one page that says who is best, how good the judge
    is, what a correction rests on, whether to correct, and what to type next.

    Takes files as `jbt import` does, and keeps the tables that it makes of them;
    or takes a folder of tables. Writes audit.html, which opens without a network,
    report.md and audit.json."""

    out: Path = Path("audit")
    """Folder for the page."""
    labels: Path | None = None
    """Table of trusted labels (pool, better, worse), called --anchors in the other commands."""
    covariates: tuple[str, ...] = ()
    """Columns of the items that may bias the judge (space-separated). By default those that the
    folder names, or the length of the texts."""
    transform: Transform | None = None
    """Transformation of every covariate before standardising. By default the one that the folder
    names, or log1p."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt audit` with these options; returns the exit code.

    Raises:
      ValueError: a wrong option, file or table, one line a problem.
    """
    options = parse(AuditOptions, argv, prog="jbt audit")
    files.check_outputs(options.json, options.out, NAMES, overwrite=options.overwrite)
    folder, lead = _folder(options)
    given = {name: getattr(options, name) for name in ("covariates", "transform")}
    given |= {"anchors": options.labels, "judge_column": options.judge_column}
    words = words_of({name: value for name, value in given.items() if value})
    reading = TableOptions.parse([str(folder), *words], "audit")
    from jbt.own.tables.names import listing

    tables = reading.read()
    reading.announce(tables)
    jbt.runtime.start()
    found = own.audit(
        tables,
        prior=reading.prior(),
        options=reading.typed(),
        title=f"Audit of {listing([path.resolve().name for path in options.files])}",
        lead=lead,
        **reading.fields_of_model(),
    )
    _write(found, options, reading)
    print(*found.answer, sep="\n")
    if found.following:
        print("", "Type next:", *(f"  {line}" for line in found.following), sep="\n")
    print(f"\nWrote {options.out / PAGE}")
    return 0


def _folder(options: AuditOptions) -> tuple[Path, list[str]]:
    """The folder of the tables, of imported files `--out`; and how these were read, in lines."""
    if len(options.files) == 1 and options.files[0].is_dir():
        for field in fields(ImportOptions):
            if getattr(options, field.name) != field.default and field.name not in KEPT:
                name = field.name.replace("_", "-")
                raise ValueError(f"--{name} is for files: {options.files[0]} is a folder of tables")
        return options.files[0], []
    from jbt.own.tables.limits import crowd

    files.check_folder(options.out, formats.TABLES, overwrite=options.overwrite)
    imported = collect(options)
    lead = [line.strip() for line in described(imported, len(options.files))]
    settings = {}
    if crowd(imported.table["judge"].value_counts().to_numpy()):
        lead.append(f"{len(imported.judges)} judges, taken as one crowd (judge_column in jbt.toml)")
        settings = {"judge_column": "none"}
    imported.write(options.out, options.overwrite, **settings)
    return options.out, lead


KEPT = ("files", "out", "overwrite", "json", "judge_column")
"""Options of `jbt import` that go with a folder of tables, too."""


def _write(found: own.Audit, options: AuditOptions, reading: TableOptions) -> None:
    """Write the page, Markdown and numbers together."""
    out, settings = options.out, {**reading.settings(), "files": options.files}
    content = files.as_json({"settings": settings, **found.record()})
    contents = {PAGE: found.to_html().encode(), NUMBERS: content.encode()}
    contents = {files.REPORT: found.report().markdown().encode(), **contents}
    contents[files.REPORT] += files.mark(contents).encode()
    files.make_folder(out)
    files.write_together({out / n: c for n, c in contents.items()}, overwrite=options.overwrite)
    if options.json is not None:
        files.write_whole(options.json, content)
