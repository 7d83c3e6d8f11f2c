"""A folder of tables: a file `jbt.toml` in it names them and says how to read them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jbt.border import inputs
from jbt.border.files import SETTINGS

TABLES = {"verdicts": "verdicts.csv", "items": "items.csv", "anchors": "anchors.csv"}
"""Names of the files where `jbt.toml` gives none."""


OF_TOOLS = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".eval", ".zip", ".gz")
"""Ends of the names of files that jbt audit may read."""


def as_toml(settings: Mapping[str, Any]) -> str:
    """`jbt.toml` with these settings: text, numbers, booleans and lists of text."""
    # Text and lists of text are written alike in TOML and in JSON.
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()
    ]
    title = "# How jbt's commands read the tables of this folder: their options, by long names."
    return "\n".join([title, *lines]) + "\n"


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Options by their Python names as they are typed."""
    words = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            is_list = isinstance(value, tuple | list)
            words += [f"--{flag}", *map(str, value if is_list else [value])]
    return words


def settings_of(folder: Path) -> dict[str, Any]:
    """The options that a folder stands for, by their Python names; its tables are paths.

    Raises:
      ValueError: it is no folder, has no table of verdicts, or its `jbt.toml` cannot be read.
    """
    if not folder.is_dir():
        hint = f"to read one table: --verdicts {folder}" if folder.exists() else "there is none"
        raise ValueError(f"{folder} is no folder of tables; {hint}")
    path, given = folder / SETTINGS, {}
    if path.exists():
        try:
            given = tomllib.loads(inputs.read_bytes(path).decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: {error}") from None
    settings = {name.replace("-", "_"): value for name, value in given.items()}
    for name, file in TABLES.items():
        if name in settings or (folder / file).exists():
            settings[name] = str(folder / str(settings.get(name, file)))
    if "verdicts" not in settings:
        suffixes = sorted({path.suffix for path in folder.iterdir()} & {*OF_TOOLS})
        other = f"; for files of other tools: jbt audit {folder}/*{suffixes[0]}" if suffixes else ""
        missing = f"neither {TABLES['verdicts']} nor a {SETTINGS} naming one"
        raise ValueError(f"{folder} has {missing}{other}")
    return {name: settings[name] for name in (*TABLES, *settings) if name in settings}
