"""Finished runs of sweeps: how each was made, and its rows with their place in the paper."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

import pandas as pd

from jbt.commands.sweep import NO_SWEEPS
from jbt.experiments import folder as store
from jbt.experiments import provenance, results
from jbt.experiments.declare import Sweep
from jbt.experiments.paper import PaperNumber
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


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A finished run."""

    name: str
    folder: Path
    sweep: Sweep
    record: dict[str, Any]
    """How it was made; see `record_of`."""
    table: pd.DataFrame
    """Its rows as they are written."""

    @classmethod
    def read(cls, name: str, folder: Path) -> Run:
        """Read a run from its folder.

        Raises:
          ValueError: its results are damaged or of another layout.
        """
        sweep, record = sweep_of(name), record_of(name, folder)
        made = results.saved(folder, sweep.at(record["preset"]))
        return cls(name, folder, made, record, read(folder / store.TABLE))

    def numbers(self) -> pd.DataFrame:
        """Its rows as numbers, NaN where they are empty."""
        return pd.read_csv(self.folder / store.TABLE)

    def beside(self) -> list[PaperNumber | None]:
        """The number of the paper that stands beside each row."""
        rows = self.numbers()
        all_numbers = self.sweep.paper()
        beside: list[PaperNumber | None] = [None] * len(rows)
        setting = [c for c in rows if c not in OUTCOME]
        with_paper = rows[rows.paper.notna()]
        for _, group in with_paper.groupby(setting, dropna=False, sort=False):
            row: dict[str, Any] = {str(c): v for c, v in group.iloc[0].items()}
            numbers = [
                n
                for n in all_numbers
                if row["quantity"].startswith(n.quantity) and n.stands_beside(row, self.sweep)
            ]
            exact = [n for n in numbers if n.quantity == row["quantity"]]
            # Rows are in the order of the numbers, of which two may have the same value.
            for i, value in group.paper.items():
                same = [n for n in exact or numbers if n.value == value]
                if same:
                    beside[i] = same[0]  # type: ignore[call-overload]
                    (exact or numbers).remove(same[0])
        return beside


def record_of(name: str, folder: Path) -> dict[str, Any]:
    """How results were made: command, pools, seed, versions, date, digest of the code.

    Raises:
      ValueError: they are damaged, or of an earlier jbt.
    """
    with results.open_results(folder) as dataset:
        saved = dict(dataset.attrs)
    configuration = json.loads(saved["config"])
    written = datetime.date.fromtimestamp((folder / store.RESULTS).stat().st_mtime)
    return {
        "preset": saved["preset"],
        "command": command_of(name, saved["preset"], configuration),
        "pools": configuration["pools"],
        "seed": configuration["seed"],
        "dtype": configuration["dtype"],
        "versions": {"python": saved["python"], **json.loads(saved["versions"])},
        "code": hashlib.sha256(saved["code"].encode()).hexdigest()[:16],
        "git_revision": saved["git_revision"],
        "device": saved["device"],
        "seconds": float(saved["wall_seconds"]),
        "date": written.isoformat(),
    }


def command_of(name: str, preset: str, configuration: dict[str, Any]) -> str:
    """The command that makes these results.

    Raises:
      ValueError: they lack a field of today's settings.
    """
    usual = provenance.fields_of(sweep_of(name).at(preset).decided())
    if absent := [field for field in usual if field not in configuration]:
        raise ValueError(f"results of {name} are of an earlier jbt, without {', '.join(absent)}")
    options = [
        f"--{field.replace('_', '-')} {_option(configuration[field])}"
        for field, value in usual.items()
        if configuration[field] != value
    ]
    begin = [f"python -m sweeps.{name}", *([f"--preset {preset}"] if preset != "full" else [])]
    return " ".join([*begin, *options])


def _option(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
