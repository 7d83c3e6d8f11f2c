"""The sweeps by name, and finished runs of them: their tables, and how each was made."""

from __future__ import annotations

import importlib
import json
import pkgutil
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from jbt.commands.sweep import NO_SWEEPS
from jbt.experiments import provenance, store
from jbt.experiments.declare import Sweep
from jbt.experiments.table import NUMBERS

SWEEPS = __name__.rsplit(".", 2)[0]
"""The package of the sweeps: `sweeps`, in a wheel `jbt.sweeps`."""

OUTCOME = (*NUMBERS, "consistent")
"""Columns of a table that do not say which row it is."""


def sweep_names() -> list[str]:
    """The names of all sweeps, in alphabetical order."""
    path = importlib.import_module(SWEEPS).__path__
    names = (module.name for module in pkgutil.iter_modules(path))
    return sorted(n for n in names if not n.startswith("_") and n not in NO_SWEEPS)


def sweep_of(name: str) -> type[Sweep]:
    """The sweep of a name."""
    return importlib.import_module(f"{SWEEPS}.{name}").SWEEP


def read(path: Path) -> pd.DataFrame:
    """A table with every cell as it is written, empty where it does not apply."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def record_of(name: str, folder: Path) -> dict[str, Any]:
    """How a finished run was made: command, pools, seed, versions."""
    saved = store.Store(folder / store.RESULTS).attrs
    configuration = json.loads(saved["config"])
    return {
        "command": command_of(name, saved["preset"], configuration),
        "git_revision": saved["git_revision"],
        **{field: configuration[field] for field in ("pools", "seed", "dtype")},
        "versions": {"python": saved["python"], **json.loads(saved["versions"])},
    }


def command_of(name: str, preset: str, configuration: Mapping[str, Any]) -> str:
    """The command that makes results of a configuration: the preset, and what differs from it."""
    words = ["python", "-m", f"sweeps.{name}", *(["--preset", preset] if preset != "full" else [])]
    for field, usual in provenance.fields_of(sweep_of(name).at(preset).decided()).items():
        value = configuration.get(field, usual)
        option = field.replace("_", "-")
        if value == usual:
            continue
        if type(value) is bool:
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", *map(str, value if type(value) is list else [value])]
    return shlex.join(words)
