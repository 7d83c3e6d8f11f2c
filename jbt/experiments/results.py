"""results.nc: the raw numbers of a sweep, written once the shards of all pools exist.

A shard holds a chunk of pools of one group, [pools, conditions, ...] as `simulate` returns them.
Its name ends in a digest of its bytes, its group, and the configuration and code behind it. From
results.nc on the pools are the last axis: [condition, axes of the metric, pool].
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt.experiments import folder as store
from jbt.experiments import provenance
from jbt.experiments.declare import Group, S, Sweep
from jbt.experiments.parts import Part
from jbt.experiments.shards import (
    DEVICE,
    IDS,
    NO_METRICS,
    SECONDS,
    axes_shape,
    metric_names,
    saved_shards,
    unusable,
)
from jbt.experiments.units import STATUS, UNITS
from jbt.simulation.simulate import Simulation

if TYPE_CHECKING:
    import xarray as xr


CHUNK_BYTES = 1 << 18
"""Bytes of a metric that results.nc compresses together: few enough for HDF5 to keep in memory
while they are written shard by shard."""


def check_groups(groups: Sequence[Group], index: str | None = None) -> None:
    """Raise `ValueError`, before anything is simulated, unless there are groups with distinct names
    that files may have, with conditions and pools, with as many labels as conditions and pools, and
    with the same labels and coordinates of axes and pools.

    Args:
      index: the label whose values differ between all conditions, if any.
    """
    if not groups:
        raise ValueError("no groups: there is nothing to simulate")
    first = groups[0]
    names = [group.name for group in groups]
    for group in groups:
        if not group.name or set(group.name) & set("/\\*?["):
            raise ValueError(f"group {group.name!r}: its name cannot be part of a file's name")
        if not group.conditions or not group.n_conditions:
            raise ValueError(f"group {group.name} has no conditions")
        if group.pools < 1:
            raise ValueError(f"group {group.name}: pools must be at least 1, got {group.pools}")
        if index is not None and index not in group.labels:
            raise ValueError(f"group {group.name} has no label {index}, the sweep's index")
    if len(set(names)) < len(names):
        raise ValueError(f"two groups have one name: {', '.join(names)}")
    if index is not None:
        values = [value for group in groups for value in group.labels[index]]
        if len(set(values)) < len(values):
            raise ValueError(f"two conditions have one {index}, the sweep's index")
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
        if any(len(values) != group.pools for values in group.pool_labels.values()):
            raise ValueError(f"group {group.name}: not one label for each of {group.pools} pools")
        if group.pool_labels != first.pool_labels:
            raise ValueError(f"groups {first.name} and {group.name} differ in labels of pools")
        for dimensions in group.axes.values():
            for name, values in dimensions.items():
                if axes.setdefault(name, list(values)) != list(values):
                    raise ValueError(f"groups differ in the coordinates of {name}")


def check_metrics(
    groups: Sequence[Group],
    simulations: Mapping[str, Simulation],
    folder: Path,
    part: Part | None = None,
) -> None:
    """Raise `ValueError` unless the metrics have the shapes that `axes` declare, and all groups and
    shards (of this part) have the same metrics. Nothing is computed. Simulations are keyed by the
    name of their group."""
    names: dict[str, set[str]] = {}
    for group in groups:
        if group.name not in simulations:
            continue
        shapes = simulations[group.name].shapes()
        if reserved := shapes.keys() & set(NO_METRICS):
            raise ValueError(f"no metric may be called {', '.join(sorted(reserved))}")
        for name, shape in shapes.items():
            declared = axes_shape(group, name)
            if shape != declared:
                raise ValueError(
                    f"metric {name} has shape {shape} for a pool and condition, its axes have "
                    f"{declared}"
                )
        if unknown := group.axes.keys() - shapes.keys():
            raise ValueError(f"axes name metrics that {group.name} lacks: {sorted(unknown)}")
        names[group.name] = set(shapes)
    for name, metrics in names.items():
        first = next(iter(names))
        if metrics != names[first]:
            differ = sorted(metrics ^ names[first])
            raise ValueError(f"groups {first} and {name} differ in metrics: {', '.join(differ)}")
    expected = next(iter(names.values()), None)
    for group in groups:
        for path, shard in saved_shards(folder, group, part):
            metrics = set(metric_names(shard))
            expected = metrics if expected is None else expected
            if metrics != expected:
                differ = ", ".join(sorted(metrics ^ expected))
                raise unusable(path, f"differs from the others in metrics: {differ}")


def check_room(simulations: Mapping[str, Simulation], folder: Path) -> None:
    """Raise `ValueError` if the numbers to be simulated need more than the disk's free space: at
    least four bytes a number before compression."""
    count = sum(
        len(simulation.pool_ids) * simulation.n_conditions * math.prod(shape)
        for simulation in simulations.values()
        for shape in simulation.shapes().values()
    )
    free = shutil.disk_usage(folder).free
    if 4 * count > free:
        raise ValueError(
            f"{count:.3g} numbers would take {4 * count / 1e9:,.1f} GB, and {folder} has "
            f"{free / 1e9:,.1f} GB free; fewer pools, seeds or conditions take less"
        )


def write(
    sweep: Sweep,
    groups: Sequence[Group],
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    folder: Path,
) -> None:
    """Write results.nc from the shards, one after the other, so that memory does not grow with the
    number of pools. Groups with fewer pools end in NaN (floats) or -1 (integers).

    Raises:
      ValueError: no shard holds some pools, a shard is damaged or of another run, or the file
        cannot be written, because the disk is full, say.
    """
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    coordinates = _coordinates(sweep, groups, configuration, code)
    dimension = sweep.index or "condition"

    def fill(path: Path) -> None:
        with store.SteadyFile(path, "w+") as steady, h5netcdf.File(steady, "w") as file:
            coordinates.dump_to_store(H5NetCDFStore(file))
            begin, seconds, devices = 0, 0.0, set()
            for group in groups:
                absent = np.ones(group.pools, bool)
                for _, shard in saved_shards(folder, group):
                    _add(file, shard, group, begin, dimension, {**UNITS, **sweep.units})
                    absent[shard[IDS]] = False
                    seconds += float(shard[SECONDS])
                    devices.add(str(shard[DEVICE]))
                if absent.any():
                    missing = f"{absent.sum()} of {group.pools} pools of {group.name}"
                    raise ValueError(f"{folder}: {missing} are in no shard")
                _pad(file, group, begin, dimension)
                begin += group.n_conditions
            file.attrs["device"] = "; ".join(sorted(devices))
            file.attrs["wall_seconds"] = round(seconds, 1)

    store.write_results(folder, fill)


def _coordinates(
    sweep: Sweep,
    groups: Sequence[Group],
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
) -> xr.Dataset:
    """The results as a Dataset without metrics: dimensions, labels, provenance."""
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
        | {name: ("pool", list(values)) for name, values in groups[0].pool_labels.items()}
        | axes,
        attrs={
            "sweep": sweep.name,
            "config": json.dumps(configuration),
            "code": json.dumps(code),
            "preset": sweep.preset,
            "seed": sweep.seed,
            "dtype": sweep.dtype,
            **provenance.packages(),
        },
    )
    for name, unit in {**UNITS, **sweep.units}.items():
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
    """Write a shard's metrics at the group's conditions, which start at `begin`, and its pools."""
    ids = shard[IDS]
    # Runs of consecutive ids: usually one, more where an earlier run left gaps.
    runs = np.split(np.arange(len(ids)), np.flatnonzero(np.diff(ids) != 1) + 1)
    for name in metric_names(shard):
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
    """Write -1 beyond the group's pools in integers; floats are NaN from the start."""
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
        fillvalue=np.nan if floating else None,  # integers have no mark for missing values
        chunks=(*shape[:-1], pools),
        compression="gzip",
        compression_opts=1,
    )
    unit = units.get(name, STATUS if name.startswith("status") else None)
    if unit is not None:
        variable.attrs["units"] = unit


def open_results(folder: Path) -> xr.Dataset:
    """Open results.nc; its metrics are read on access and not kept in memory.

    Raises:
      ValueError: the file is not as it was written.
    """
    import xarray as xr

    try:
        store.check_digest(folder)
    except ValueError as error:
        raise ValueError(f"{error}; --overwrite simulates again") from None
    return xr.open_dataset(folder / store.RESULTS, engine="h5netcdf", cache=False)


def check_results(folder: Path, configuration: Mapping[str, Any]) -> None:
    """Raise `ValueError` unless results.nc is as it was written and has this configuration."""
    with open_results(folder) as dataset:
        saved = json.loads(dataset.attrs["config"])
    if differ := store.differences(saved, configuration):
        raise ValueError(
            f"{folder / store.RESULTS} is of another configuration than {store.CONFIG} beside it: "
            f"{differ}; --overwrite simulates again"
        )


def saved(folder: Path, asked: S) -> S:
    """The sweep that results.nc was made with; output options as in `asked`.

    Raises:
      ValueError: results are absent, damaged or of another layout.
    """
    results = folder / store.RESULTS
    if not results.exists():
        raise ValueError(f"nothing to redraw: {results} does not exist")
    with open_results(folder) as dataset:
        saved = json.loads(dataset.attrs["config"])
    if saved.get("results layout") != provenance.LAYOUT:
        raise ValueError(
            f"{results} has another layout, of an earlier jbt; --overwrite starts afresh"
        )
    names = {f.name for f in dataclasses.fields(asked)}
    tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items() if k in names}
    return dataclasses.replace(asked, **tuples)
