"""Finished runs of sweeps: how each was made, its rows with their place in the paper, its figure;
and the runs that are still missing."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import importlib
import io
import json
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from jbt.commands.sweep import NO_SWEEPS
from jbt.experiments import plots, provenance, store
from jbt.experiments.declare import Sweep
from jbt.experiments.table import NUMBERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEPS = __name__.rsplit(".", 2)[0]
"""The package of the sweeps: `sweeps`, in a wheel `jbt.sweeps`."""

OUTCOME = (*NUMBERS, "consistent")
"""Columns of a table that do not say which row it is."""

NOT_RUN = "not run"
"""Why a run that was not asked for is absent."""


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


def is_finished(folder: Path) -> bool:
    """Whether a folder holds the results of a whole run, and its table."""
    return (folder / store.RESULTS).is_dir() and (folder / store.TABLE).is_file()


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A finished run."""

    name: str
    folder: Path
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
        return cls(name, folder, record_of(name, folder), read(folder / store.TABLE))

    def sweep(self) -> Sweep:
        """The sweep with the options of the run."""
        return store.saved(
            store.opened(self.folder / store.RESULTS), sweep_of(self.name).at(self.record["preset"])
        )

    def places(self) -> list[str]:
        """Where in the paper the number beside each row stands; empty where there is none."""
        sweep = self.sweep()
        rows, numbers = pd.read_csv(self.folder / store.TABLE), sweep.paper()
        return [
            "; ".join(
                dict.fromkeys(
                    number.source
                    for number in numbers
                    if number.value == row["paper"]
                    and number.quantity == row["quantity"].removesuffix("_same_pools")
                    and number.stands_beside(row, sweep)
                )
            )
            for row in rows.to_dict("records")
        ]

    def figure(self) -> str:
        """Its figure as SVG."""
        table = pd.read_csv(self.folder / store.TABLE)
        with store.opened(self.folder / store.RESULTS).results() as dataset:
            return svg_of(self.sweep().figure(dataset, table))

    def figure_of_curves(self) -> str | None:
        """Its figure of curves as SVG, if the sweep draws one."""
        figure = self.sweep().figure_of_curves(pd.read_csv(self.folder / store.TABLE))
        return None if figure is None else svg_of(figure)


def svg_of(figure: Figure) -> str:
    """A figure as SVG, coordinates with two decimals (points)."""
    buffer = io.BytesIO()
    plots.save(figure, buffer, kind="svg")
    return re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", buffer.getvalue().decode())


def record_of(name: str, folder: Path) -> dict[str, Any]:
    """How results were made: command, pools, seed, versions, date, digest of the code.

    Raises:
      ValueError: they are damaged.
    """
    results = folder / store.RESULTS
    with store.opened(results).results() as dataset:
        saved = dict(dataset.attrs)
    configuration = json.loads(saved["config"])
    written = datetime.date.fromtimestamp((results / store.ROOT).stat().st_mtime)
    return {
        "command": command_of(name, saved["preset"], configuration),
        **{field: saved[field] for field in ("preset", "git_revision", "device")},
        **{field: configuration[field] for field in ("pools", "seed", "dtype")},
        "versions": {"python": saved["python"], **json.loads(saved["versions"])},
        "code": hashlib.sha256(saved["code"].encode()).hexdigest()[:16],
        "seconds": float(saved["wall_seconds"]),
        "date": written.isoformat(),
    }


def command_of(name: str, preset: str, configuration: Mapping[str, Any] | None = None) -> str:
    """The shortest command that makes results of a configuration, default the preset's. Fields that
    results of an earlier jbt lack are named in a comment."""

    def decided(own: Mapping[str, Any]) -> dict[str, Any]:
        given = {k: tuple(v) if type(v) is list else v for k, v in own.items()}
        return provenance.fields_of(sweep_of(name).at(preset, **given).decided())

    usual = decided({})
    wanted = {k: v for k, v in (configuration or usual).items() if k in usual}
    own = wanted
    for field in wanted:
        fewer = {k: v for k, v in own.items() if k != field}
        if all(v == wanted[k] for k, v in decided(fewer).items() if k in wanted):
            own = fewer
    words = ["python", "-m", f"sweeps.{name}", *(["--preset", preset] if preset != "full" else [])]
    for field, value in own.items():
        option = field.replace("_", "-")
        if type(value) is bool:
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", *map(str, value if type(value) is list else [value])]
    lacking = usual.keys() - wanted.keys()
    comment = f"  # by a jbt without {', '.join(sorted(lacking))}" if lacking else ""
    return shlex.join(words) + comment


# --- the runs of a report


def gather(
    names: Sequence[str], preset: str, out: Path, *, run: bool = True
) -> tuple[list[Run], dict[str, str]]:
    """Run what is missing, each sweep by its own command, and read what is there.

    Args:
      names: of the sweeps.
      preset: of all of them.
      out: folder of the results.
      run: False to only read.

    Returns:
      The runs; name -> why there is none, because its command failed, say, or its folder holds
      another run.

    Raises:
      KeyboardInterrupt: a sweep was interrupted.
    """
    missing = [name for name in names if not is_finished(out / name)]
    absent = dict.fromkeys([] if run else missing, NOT_RUN)
    for i, name in enumerate(missing if run else []):
        print(f"{i + 1} of {len(missing)}: {name}", file=sys.stderr)
        words = [sys.executable, "-m", f"{SWEEPS}.{name}", "--preset", preset, "--out", str(out)]
        code = subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode
        if code == 130:
            raise KeyboardInterrupt
        if code:
            absent[name] = f"its command ended with {code}"
    runs = []
    for name in names:
        if name in absent:
            continue
        held = Run.read(name, out / name)
        expected = command_of(name, preset)
        if held.record["command"] == expected:
            runs.append(held)
        else:
            absent[name] = f"{held.folder} holds {held.record['command']}, not {expected}"
    return runs, absent
