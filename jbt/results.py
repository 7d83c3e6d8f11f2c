"""The raw numbers of a sweep: shards while it runs, results.nc when all of them are there.

A shard holds a chunk of pools of one group, [pools, conditions, ...] as `simulate` returns them.
In results.nc and from there on the pools are the last axis: [condition, axes of the metric, pool].
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import parts, provenance, runtime, store
from jbt.parts import Part
from jbt.simulate import Simulation
from jbt.sweep import Group, S, Sweep

if TYPE_CHECKING:
    import xarray as xr

DIGITS = "[0-9]" * 10
"""Of the first pool id of a shard, in its name."""

IDS, SECONDS, DEVICE = "ids", "seconds", "device"
NO_METRICS = (IDS, SECONDS, DEVICE)
"""Names, in a shard, of its pools, of what it took to compute and on what: no metric may have
them."""

CHUNK_BYTES = 1 << 18
"""Of a metric compressed together in results.nc: little enough for HDF5 to keep it while it is
written shard by shard."""


def save_shard(
    folder: Path,
    group: str,
    ids: np.ndarray,
    arrays: dict[str, np.ndarray],
    part: Part | None = None,
) -> None:
    """Keep the results of a chunk of pools, `ids` [n], arrays [n, ...], that a whole run or a part
    of it has computed."""
    place = part.shards(folder) if part else folder / store.SHARDS
    place.mkdir(exist_ok=True)

    def write(path: Path) -> None:
        with path.open("wb") as f:  # given a name, savez would append a suffix to it
            about = {IDS: ids, DEVICE: np.array(runtime.device_name())}
            np.savez(f, **about, **arrays)  # type: ignore[arg-type]

    store.write_whole(place / f"{group}-{ids[0]:010d}.npz", write)


def shards(
    folder: Path, group: str, part: Part | None = None
) -> Iterator[Mapping[str, np.ndarray]]:
    """Every chunk kept for a group, by its first pool: `ids` [n], `seconds`, `device`, and the
    metrics [n, ...], each read from the file when it is looked up. For a part, without what other
    parts keep: they may be writing."""
    name, every = f"{group}-{DIGITS}.npz", folder / store.SHARDS
    of_parts = part.shards(folder).glob(name) if part else every.glob(f"*/{name}")
    for path in sorted([*every.glob(name), *of_parts], key=lambda path: path.name):
        with np.load(path) as shard:
            yield shard


def missing(folder: Path, group: Group, part: Part | None = None) -> np.ndarray:
    """Ids of the pools of a group, or of a part of it, that no shard holds, increasing."""
    there = np.zeros(group.pools, bool)
    for shard in shards(folder, group.name, part):
        there[shard[IDS]] = True
    ids = np.flatnonzero(~there)
    mine = part.pools(group.pools) if part else range(group.pools)
    return ids[(ids >= mine.start) & (ids < mine.stop)]


def incomplete(folder: Path, groups: Sequence[Group], count: int) -> list[Part]:
    """The parts, of `count`, some of whose pools no shard holds."""
    lacking: set[Part] = set()
    for group in groups:
        lacking |= parts.holding(missing(folder, group), group.pools, count)
    return sorted(lacking)


def check_groups(groups: Sequence[Group]) -> None:
    """Raise `ValueError` unless the groups have names of their own, as many labels as conditions,
    and the same labels and coordinates of axes; before anything is simulated."""
    first = groups[0]
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise ValueError(f"two groups have one name: {', '.join(names)}")
    axes: dict[str, list[Any]] = {}
    for group in groups:
        if group.labels.keys() != first.labels.keys():
            raise ValueError(f"groups {first.name} and {group.name} differ in labels")
        for name, values in (*group.conditions.items(), *group.labels.items()):
            if len(values) != group.n_conditions:
                raise ValueError(
                    f"group {group.name}: {name} has {len(values)} values for "
                    f"{group.n_conditions} conditions"
                )
        for dimensions in group.axes.values():
            for name, values in dimensions.items():
                if axes.setdefault(name, list(values)) != list(values):
                    raise ValueError(f"groups differ in the coordinates of {name}")


def check_metrics(groups: Sequence[Group], simulations: Mapping[str, Simulation]) -> None:
    """Raise `ValueError` unless the metrics have the shapes that `axes` say, and all groups the
    same; nothing is computed for it. Simulations are by the name of their group."""
    names: dict[str, set[str]] = {}
    for group in groups:
        if group.name not in simulations:
            continue
        shapes = simulations[group.name].shapes()
        if reserved := shapes.keys() & set(NO_METRICS):
            raise ValueError(f"no metric may be called {', '.join(sorted(reserved))}")
        for name, shape in shapes.items():
            said = tuple(len(c) for c in group.axes.get(name, {}).values())
            if shape != said:
                raise ValueError(
                    f"metric {name} has shape {shape} for a pool and condition, its axes say {said}"
                )
        if unknown := group.axes.keys() - shapes.keys():
            raise ValueError(f"axes name metrics that {group.name} has not: {sorted(unknown)}")
        names[group.name] = set(shapes)
    for name, metrics in names.items():
        first = next(iter(names))
        if metrics != names[first]:
            differ = sorted(metrics ^ names[first])
            raise ValueError(f"groups {first} and {name} differ in metrics: {', '.join(differ)}")


def write(
    sweep: Sweep[S],
    groups: Sequence[Group],
    settings: S,
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    folder: Path,
) -> None:
    """results.nc from the shards, one after the other, so that memory does not grow with the
    number of pools. Groups of fewer pools end in NaN (floats) or -1 (integers).

    Raises:
      ValueError: pools that no shard holds.
    """
    import h5netcdf

    seconds, devices = 0.0, set()
    for group in groups:
        if len(absent := missing(folder, group)):
            raise ValueError(
                f"{folder}: {len(absent)} of {group.pools} pools of {group.name} are not there"
            )
        for shard in shards(folder, group.name):
            seconds += float(shard[SECONDS])
            devices.add(str(shard[DEVICE]))
    where = {"device": "; ".join(sorted(devices)), "wall_seconds": round(seconds, 1)}
    coordinates = _coordinates(sweep, groups, settings, configuration, code, where)
    dimension = sweep.index or "condition"

    def fill(path: Path) -> None:
        coordinates.to_netcdf(path, engine="h5netcdf")
        with h5netcdf.File(path, "a") as file:
            begin = 0
            for group in groups:
                for shard in shards(folder, group.name):
                    _add(file, shard, group, begin, dimension, sweep.units)
                _pad(file, group, begin, dimension)
                begin += group.n_conditions

    store.write_whole(folder / "results.nc", fill)


def _coordinates(
    sweep: Sweep[S],
    groups: Sequence[Group],
    settings: S,
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    where: Mapping[str, Any],
) -> xr.Dataset:
    """The Dataset of the results before any metric: dimensions, labels, provenance."""
    import xarray as xr

    labels: dict[str, list[Any]] = {}
    axes: dict[str, list[Any]] = {}
    for group in groups:
        for name, values in group.labels.items():
            labels.setdefault(name, []).extend(values)
        for dimensions in group.axes.values():
            axes |= {name: list(values) for name, values in dimensions.items()}
    dataset = xr.Dataset(
        coords={name: ("condition", values) for name, values in labels.items()}
        | {"pool": np.arange(max(g.pools for g in groups))}
        | axes,
        attrs={
            "sweep": sweep.name,
            "config": json.dumps(configuration),
            "code": json.dumps(code),
            "preset": settings.preset,
            "seed": settings.seed,
            "dtype": settings.dtype,
            **provenance.packages(),
            **where,
        },
    )
    for name, unit in {"pool": "id", **sweep.units}.items():
        if name in dataset.coords:
            dataset[name].attrs["units"] = unit
    return dataset.swap_dims(condition=sweep.index) if sweep.index else dataset


def _add(
    file: Any,
    shard: Mapping[str, np.ndarray],
    group: Group,
    begin: int,
    dimension: str,
    units: Mapping[str, str],
) -> None:
    """Write a shard's metrics at the group's conditions, from `begin`, and at its pools."""
    ids = shard[IDS]
    # Runs of consecutive ids: one as a rule, more where an earlier run left gaps.
    runs = np.split(np.arange(len(ids)), np.flatnonzero(np.diff(ids) != 1) + 1)
    for name in shard:
        if name in NO_METRICS:
            continue
        value = np.moveaxis(shard[name], 0, -1)  # pools last, from here on
        if name not in file.variables:
            _create(file, name, value.dtype, (dimension, *group.axes.get(name, {}), "pool"), units)
        variable = file.variables[name]
        for run in runs:
            pools = slice(int(ids[run[0]]), int(ids[run[-1]]) + 1)
            variable[begin : begin + group.n_conditions, ..., pools] = value[..., run].astype(
                variable.dtype
            )


def _pad(file: Any, group: Group, begin: int, dimension: str) -> None:
    """-1 beyond the group's pools, where floats have NaN from the start."""
    for variable in file.variables.values():
        if variable.dimensions[0] != dimension or variable.dimensions[-1] != "pool":
            continue
        if not np.issubdtype(variable.dtype, np.floating) and group.pools < variable.shape[-1]:
            variable[begin : begin + group.n_conditions, ..., group.pools :] = -1


def _create(
    file: Any, name: str, dtype: np.dtype, dimensions: Sequence[str], units: Mapping[str, str]
) -> None:
    floating = np.issubdtype(dtype, np.floating)
    kind = dtype if floating else np.dtype(np.int32)
    shape = [len(file.dimensions[d]) for d in dimensions]
    pools = max(1, min(shape[-1], CHUNK_BYTES // int(kind.itemsize * np.prod(shape[:-1]))))
    variable = file.create_variable(
        name,
        tuple(dimensions),
        kind,
        fillvalue=np.nan if floating else None,  # integers keep no mark of what is missing
        chunks=(*shape[:-1], pools),
        compression="gzip",
        compression_opts=1,
    )
    unit = units.get(name, "jbt.types.Status" if name.startswith("status") else None)
    if unit is not None:
        variable.attrs["units"] = unit


def open_results(folder: Path) -> xr.Dataset:
    """results.nc, its metrics read when they are looked up, and not kept."""
    import xarray as xr

    return xr.open_dataset(folder / "results.nc", engine="h5netcdf", cache=False)


def saved_settings(folder: Path, asked: S) -> S:
    """The settings that results.nc was made with; output options as asked.

    Raises:
      ValueError: no results, or none of this sweep.
    """
    results = folder / "results.nc"
    if not results.exists():
        raise ValueError(f"nothing to redraw: {results} does not exist")
    try:
        with open_results(folder) as dataset:
            saved = json.loads(dataset.attrs["config"])
    except (OSError, KeyError, ValueError):
        raise ValueError(f"{results} cannot be read as results of this sweep") from None
    if saved.get("results layout") != provenance.LAYOUT:
        raise ValueError(
            f"{results} has another layout, of an earlier jbt; --overwrite starts afresh"
        )
    names = {f.name for f in dataclasses.fields(asked)}
    tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items() if k in names}
    return dataclasses.replace(asked, **tuples)
