"""The command `jbt example`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from jbt import __version__
from jbt.border import files
from jbt.border.parsing import parse
from jbt.own.examine import doctor
from jbt.own.tables.example import example


@dataclass(frozen=True)
class ExampleOptions:
    """Write three small, invented tables to start from: verdicts.csv, items.csv, anchors.csv."""

    dir: Annotated[Path, tyro.conf.Positional]
    """Folder for the tables, created if missing; no file in it is overwritten."""
    json: Path | None = None
    """Write the names of the tables and the commands to try to this file."""
    overwrite: bool = False
    """Write over this file if jbt did not make it."""


def main(argv: Sequence[str]) -> int:
    """Run `jbt example` with these options; returns the exit code.

    Raises:
      ValueError: a table is there already, or cannot be written.
    """
    options = parse(ExampleOptions, argv, prog="jbt example")
    files.check_folder(options.dir)
    files.check_writable(options.json, overwrite=options.overwrite)
    tables = {options.dir / f"{name}.csv": table for name, table in example().items()}
    for path in tables:
        if path.exists() or path.is_symlink():
            raise ValueError(f"{path} already exists and is not overwritten")
    files.make_folder(options.dir)
    files.write_together(
        {
            path: lambda p, table=table: table.to_csv(p, index=False, lineterminator="\n")
            for path, table in tables.items()
        }
    )
    verdicts, items, anchors = tables
    known = {"verdicts": verdicts, "items": items, "anchors": anchors, "covariates": ("words",)}
    known["transform"] = "log"
    changes: list[tuple[str, dict[str, Any]]] = [
        ("doctor", {}),
        ("judge", {}),
        ("identify", {}),
        ("fit", {"judge": "magpie"}),
        ("fit", {"joint": True, "reference": "heron"}),
        ("leaderboard", {}),
        ("replay", {}),
        ("gate", {}),
    ]
    commands = [doctor.command_line(name, {**known, **settings}) for name, settings in changes]
    if options.json is not None:
        content = {"files": list(map(str, tables)), "commands": commands}
        content = {"settings": {"jbt": __version__}, **content}
        files.write_json(options.json, content, overwrite=options.overwrite)
    for path, table in tables.items():
        print(f"{path}: {len(table)} rows of {', '.join(table.columns)}")
    print("\nInvented: four models, twelve questions, two judges. To try on them:")
    for command in commands:
        print(f"  {command}")
    return 0
