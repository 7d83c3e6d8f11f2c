"""The command `jbt example`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from jbt import __version__
from jbt.border import files
from jbt.border.inputs import parse
from jbt.own.tables.folder import SETTINGS, as_toml

TO_TRY: list[tuple[str, dict[str, Any]]] = [
    ("audit", {}),
    ("doctor", {}),
    ("judge", {}),
    ("identify", {}),
    ("fit", {"judge": "magpie"}),
    ("fit", {"joint": True, "reference": "heron"}),
    ("leaderboard", {}),
    ("replay", {}),
    ("gate", {}),
]
"""Commands to try on the tables, with the options that they need beside the tables."""


@dataclass(frozen=True)
class ExampleOptions:
    """Write three small invented tables to start from, verdicts.csv, items.csv and
    anchors.csv, and jbt.toml, which says how to read them."""

    dir: Annotated[Path, tyro.conf.Positional]
    """Folder for the tables. It is made if need be, and no file in it is replaced."""
    json: Path | None = None
    """Write the names of the tables and the commands to try to this file."""
    overwrite: bool = False
    """Replace this file even if jbt did not make it."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt example` with these options; returns the exit code.

    Raises:
      ValueError: a table is there already, or cannot be written.
    """
    options = parse(ExampleOptions, argv, prog="jbt example")
    from jbt.own.examine.doctor import command_line
    from jbt.own.tables.example import example

    files.check_folder(options.dir)
    files.check_writable(options.json, overwrite=options.overwrite)
    tables = {options.dir / f"{name}.csv": table for name, table in example().items()}
    for path in (*tables, options.dir / SETTINGS):
        if path.exists() or path.is_symlink():
            raise ValueError(f"{path} already exists and is not overwritten")
    files.make_folder(options.dir)
    texts = {p: table.to_csv(index=False, lineterminator="\n") for p, table in tables.items()}
    settings = as_toml({"covariates": ["words"], "transform": "log"})
    files.write_together(texts | {options.dir / SETTINGS: settings})
    named = {"folder": options.dir}
    commands = [command_line(name, named | more) for name, more in TO_TRY]
    if options.json is not None:
        content = {"files": list(tables), "commands": commands}
        content = {"settings": {"jbt": __version__}, **content}
        files.write_json(options.json, content, overwrite=options.overwrite)
    for path, table in tables.items():
        print(f"{path}: {len(table)} rows of {', '.join(table.columns)}")
    print("\nInvented: four models, twelve questions, two judges. To try on them:")
    print(*(f"  {command}" for command in commands), sep="\n")
    return 0
