"""A sweep: settings from the command line, a run that survives being killed, saved results.

A sweep is a `Sweep`: presets of one settings dataclass, the groups of conditions to simulate,
and two functions of the saved results, `table` and `figure`. `main` does the rest. In
`OUT/NAME/` it keeps

    config.json      the configuration, written first
    shards/*.npz     finished chunks of pools, each written whole or not at all
    results.nc       every metric of every pool, once all chunks are there
    table.csv, figure.png

Given again, it continues from the shards, or reprints the table of a finished run. Another
configuration in the same folder is refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from zipfile import BadZipFile

import jax
import numpy as np

from jbt import runtime, store
from jbt.simulate import CPU_CHUNK, Experiment, check_chunking, check_seed, simulate_chunks

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

PRESETS = ("smoke", "paper", "full")
VERSIONS = ("jbt", "jax")
"""Packages whose version is part of a configuration: their numbers may differ."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Options every sweep has; a sweep's own fields are added by inheritance."""

    preset: Literal["smoke", "paper", "full"] = "full"
    """Defaults of every other field: smoke ends in seconds, paper has the paper's sizes, full
    thousands of pools."""
    pools: int = 4096
    """Pools simulated at every condition (count)."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision of the simulation."""
    out: Path = Path("results")
    """Folder for the results; the sweep writes into a folder of its own name there."""
    overwrite: bool = False
    """Start afresh where another configuration (or this one) has left results, finished or
    not."""
    redraw: bool = False
    """Make table and figure again from the saved results and their settings, without running."""
    json: Path | None = None
    """Also write the table to this file as JSON, a list of rows; undefined is null."""
    chunk: int | None = None
    """Pools computed and saved together (count), rounded up to fill every device's batches;
    default by the size of the problem."""
    devices: int | None = None
    """Local devices to use (count; CPU cores count as devices); default all."""


NOT_CONFIGURATION = ("preset", "out", "overwrite", "redraw", "json", "chunk", "devices")
"""Fields that cannot change the numbers beyond rounding, and so are not compared on resume."""

S = TypeVar("S", bound=Settings)


@dataclasses.dataclass(frozen=True)
class Group:
    """Conditions that share shapes and rules, hence one compiled kernel."""

    name: str
    experiment: Experiment
    conditions: Mapping[str, np.ndarray]
    """Traced numbers of each condition, name -> [C]."""
    labels: Mapping[str, Sequence[Any]]
    """Coordinates of each condition in results.nc, name -> [C]."""
    n_items: int
    """Items of a pool, from which the default chunk is chosen."""
    pools: int
    """Pools to simulate: ids 0..pools-1."""
    axes: Mapping[str, Mapping[str, Sequence[Any]]] = dataclasses.field(default_factory=dict)
    """Metrics that are arrays for each pool and condition: name -> {dimension: coordinates}, the
    same in all groups."""
    fits: int = 1
    """Fits that a pool and condition take, from which the default chunk is chosen."""


@dataclasses.dataclass(frozen=True)
class Sweep(Generic[S]):
    """An experiment: its settings, its work, and what is made of the results."""

    name: str
    """Also the name of its module in `sweeps` and of its folder."""
    description: str
    """One sentence for `--help`."""
    presets: Mapping[str, S]
    """smoke, paper, full -> settings."""
    groups: Callable[[S], list[Group]]
    """The work. Raises `ValueError` for settings that make no sense, before anything runs."""
    table: Callable[[xr.Dataset, S], pd.DataFrame]
    """Results, settings -> a table made by `tidy_table`."""
    figure: Callable[[xr.Dataset, pd.DataFrame, S], Figure]
    """Results, table, settings -> the figure."""
    units: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Unit of each coordinate and metric, for results.nc."""
    headline: Callable[[pd.DataFrame, S], pd.DataFrame] | None = None
    """Table, settings -> the rows printed at the end, of a table too long to be read; default
    all."""
    index: str | None = None
    """Label that names the conditions one to one, used as their dimension in results.nc;
    default "condition"."""


def main(sweep: Sweep[S], argv: Sequence[str] | None = None) -> int:
    """The command line of a sweep; returns the exit code (0 done, 2 wrong input)."""
    import tyro

    argv = sys.argv[1:] if argv is None else list(argv)
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    early.add_argument("--preset", choices=PRESETS, default="full")
    preset = early.parse_known_args(argv)[0].preset
    defaults = sweep.presets[preset]
    settings = tyro.cli(
        type(defaults),
        default=dataclasses.replace(defaults, preset=preset),
        args=argv,
        prog=f"python -m sweeps.{sweep.name}",
        description=sweep.description,
    )
    try:
        run(sweep, settings)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, BadZipFile) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command continues", file=sys.stderr)
        return 130
    return 0


def run(sweep: Sweep[S], settings: S) -> pd.DataFrame:
    """Run (or continue, or reprint) a sweep, print its table and return it.

    Raises:
      ValueError: wrong settings, another configuration in the folder, nothing to redraw.
    """
    if settings.pools < 1:
        raise ValueError(f"pools must be at least 1, got {settings.pools}")
    check_seed(settings.seed)
    store.check_writable(settings.json)
    folder = settings.out / sweep.name
    results = folder / "results.nc"
    if settings.redraw:
        return _report(sweep, _saved_settings(results, settings), folder)
    runtime.start()
    check_chunking(settings.chunk, settings.devices)
    groups = sweep.groups(settings)
    with store.locked(folder):
        return _run_locked(sweep, groups, settings, folder)


def _run_locked(sweep: Sweep[S], groups: list[Group], settings: S, folder: Path) -> pd.DataFrame:
    configuration = configuration_of(settings)
    results = folder / "results.nc"
    store.claim(folder, configuration, overwrite=settings.overwrite)
    if not results.exists():
        _simulate_missing(sweep, groups, settings, folder)
        dataset = _collect(sweep, groups, settings, configuration, folder)
        store.write_whole(
            results,
            lambda path: dataset.to_netcdf(path, engine="h5netcdf", encoding=_compressed(dataset)),
        )
    store.discard_shards(folder)  # gone already, unless a run was killed right here
    return _report(sweep, settings, folder)


def _saved_settings(results: Path, asked: S) -> S:
    """The settings that results.nc was made with; output options as asked."""
    import xarray as xr

    if not results.exists():
        raise ValueError(f"nothing to redraw: {results} does not exist")
    try:
        with xr.open_dataset(results, engine="h5netcdf") as dataset:
            saved = json.loads(dataset.attrs["config"])
    except (OSError, KeyError, ValueError):
        raise ValueError(f"{results} cannot be read as results of this sweep") from None
    names = {f.name for f in dataclasses.fields(asked)}
    tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items() if k in names}
    return dataclasses.replace(asked, **tuples)


def configuration_of(settings: Settings) -> dict[str, Any]:
    """What decides the numbers: every field, the seed, the dtype, the versions."""
    fields = {
        f.name: getattr(settings, f.name)
        for f in dataclasses.fields(settings)
        if f.name not in NOT_CONFIGURATION
    }
    fields |= {f"{p} version": importlib.metadata.version(p) for p in VERSIONS}
    return json.loads(json.dumps(fields))  # tuples to lists, as they will be read back


def _simulate_missing(sweep: Sweep[S], groups: list[Group], settings: S, folder: Path) -> None:
    from tqdm import tqdm

    total = sum(g.pools * _n_conditions(g) for g in groups)
    style = {"unit": "pool", "unit_scale": True, "desc": sweep.name, "file": sys.stderr}
    pace = 0.1 if sys.stderr.isatty() else 15.0  # seconds; a log is not flooded
    with tqdm(total=total, mininterval=pace, **style) as bar:
        for group in groups:
            done: set[int] = set()
            for ids, _ in store.shards(folder, group.name):
                done |= set(ids.tolist())
            bar.update(len(done) * _n_conditions(group))
            missing = np.array(sorted(set(range(group.pools)) - done), np.int64)
            if not missing.size:
                continue
            chunks = simulate_chunks(
                group.experiment,
                group.conditions,
                missing,
                seed=settings.seed,
                dtype=settings.dtype,
                chunk=settings.chunk or _default_chunk(group),
                devices=settings.devices,
            )
            begin = time.perf_counter()
            for ids, out in chunks:
                seconds = np.array(time.perf_counter() - begin)
                store.save_shard(folder, group.name, ids, {"seconds": seconds, **out})
                bar.update(len(ids) * _n_conditions(group))
                begin = time.perf_counter()


def _n_conditions(group: Group) -> int:
    return len(next(iter(group.conditions.values())))


def _default_chunk(group: Group) -> int | None:
    if jax.default_backend() != "cpu":
        return None
    cost = max(1.0, group.n_items / 30) ** 3  # of a fit, against one of 30 items
    return max(1, int(CPU_CHUNK / cost / group.fits / _n_conditions(group)))


def _collect(
    sweep: Sweep[S],
    groups: list[Group],
    settings: S,
    configuration: dict[str, Any],
    folder: Path,
) -> xr.Dataset:
    """One Dataset [condition, pool, axes of the metric] of all shards. Groups of fewer pools end in
    NaN (floats) or -1 (integers)."""
    import xarray as xr

    n_pools = max(g.pools for g in groups)
    metrics: dict[str, np.ndarray] = {}
    labels: dict[str, list[Any]] = {}
    axes: dict[str, Mapping[str, Sequence[Any]]] = {}
    coordinates: dict[str, list[Any]] = {}
    seconds, at, total = 0.0, 0, sum(_n_conditions(g) for g in groups)
    for group in groups:
        end = at + _n_conditions(group)
        present = 0
        for ids, shard in store.shards(folder, group.name):
            present += len(ids)
            seconds += float(shard.pop("seconds"))
            for name, value in shard.items():
                axes[name] = group.axes.get(name, {})
                sizes = tuple(len(c) for c in axes[name].values())
                if value.shape[2:] != sizes:
                    raise ValueError(
                        f"metric {name} has shape {value.shape[2:]} for a pool and condition, "
                        f"its axes say {sizes}"
                    )
                if name not in metrics:
                    floating = np.issubdtype(value.dtype, np.floating)
                    kind, empty = (value.dtype, np.nan) if floating else (np.int32, -1)
                    metrics[name] = np.full((total, n_pools, *sizes), empty, kind)
                metrics[name][at:end, ids] = np.moveaxis(value, 1, 0)
        if present != group.pools:
            raise ValueError(
                f"{folder}: {present} of {group.pools} pools of {group.name} are there"
            )
        for name, values in group.labels.items():
            labels.setdefault(name, []).extend(values)
        for dimensions in group.axes.values():
            for dimension, values in dimensions.items():
                if coordinates.setdefault(dimension, list(values)) != list(values):
                    raise ValueError(f"groups differ in the coordinates of {dimension}")
        at = end
    dataset = xr.Dataset(
        {name: (("condition", "pool", *axes[name]), value) for name, value in metrics.items()},
        coords={name: ("condition", values) for name, values in labels.items()}
        | {"pool": np.arange(n_pools)}
        | coordinates,
        attrs={
            "sweep": sweep.name,
            "config": json.dumps(configuration),
            "preset": settings.preset,
            "seed": settings.seed,
            "dtype": settings.dtype,
            "device": runtime.device_name(),
            "python": platform.python_version(),
            "versions": json.dumps(
                {p: importlib.metadata.version(p) for p in (*VERSIONS, "jaxlib", "numpy", "xarray")}
            ),
            "git_revision": _git_revision(),
            "wall_seconds": round(seconds, 1),
        },
    )
    for name, unit in {"pool": "id", **sweep.units}.items():
        if name in dataset.variables:
            dataset[name].attrs["units"] = unit
    return dataset.swap_dims(condition=sweep.index) if sweep.index else dataset


def _compressed(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    return {str(name): {"zlib": True, "complevel": 1} for name in dataset.data_vars}


def _git_revision() -> str:
    here = Path(__file__).resolve().parent

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", *command], cwd=here, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != here.parent:
            return "unknown"  # installed somewhere inside another project's checkout
        return git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def tidy_table(
    leading: Sequence[str], rows: Sequence[Sequence[Any]], *, replicates: bool = False
) -> pd.DataFrame:
    """A table in the form every sweep shares.

    Args:
      leading: columns that say which setting.
      rows: values of the leading columns, then quantity, estimate, ci_low, ci_high, n_pools,
        paper, and with `replicates` replicate_low, replicate_high, consistent. A row may end
        early; what is missing or None is left empty.
    """
    import pandas as pd

    columns = [*leading, "quantity", *NUMBERS]
    if replicates:
        columns += ["replicate_low", "replicate_high", "consistent"]
    full = [[*row, *[None] * (len(columns) - len(row))] for row in rows]
    table = pd.DataFrame(full, columns=columns)
    numeric = [c for c in columns if c in NUMBERS or c.startswith("replicate")]
    return table.astype(dict.fromkeys(numeric, float))


NUMBERS = ("estimate", "ci_low", "ci_high", "n_pools", "paper")


def _report(sweep: Sweep[S], settings: S, folder: Path) -> pd.DataFrame:
    """Table and figure from results.nc alone, unless they are there already."""
    import pandas as pd
    import xarray as xr

    table_file, figure_file = folder / "table.csv", folder / "figure.png"
    fresh = not settings.redraw and table_file.exists() and figure_file.exists()
    with xr.open_dataset(folder / "results.nc", engine="h5netcdf") as opened:
        dataset = opened.load()
        if not fresh:
            table = sweep.table(dataset, settings)
            store.write_whole(
                table_file, lambda p: table.to_csv(p, index=False, float_format="%.6g")
            )
            figure = sweep.figure(dataset, table, settings)
            store.write_whole(figure_file, lambda p: figure.savefig(p, format="png", dpi=150))
        flagged = {
            str(name): int((dataset[name] > 0).sum())
            for name in dataset.data_vars
            if str(name).startswith("status")
        }
    table = pd.read_csv(table_file)
    if settings.json is not None:
        store.write_text(settings.json, table.to_json(orient="records", indent=1) + "\n")
    printed = table if sweep.headline is None else sweep.headline(table, settings)
    shown = printed.dropna(axis=1, how="all")
    print(shown.to_string(index=False, na_rep="", float_format=lambda v: f"{v:.4g}"))
    for name, count in flagged.items():
        if count:
            print(f"{count} fits did not converge ({name}); see results.nc", file=sys.stderr)
    if len(printed) < len(table):
        print(f"\n{len(printed)} of {len(table)} rows; all of them are in the table's file")
    print(f"\nwritten: {table_file}, {figure_file}, {folder / 'results.nc'}")
    return table
