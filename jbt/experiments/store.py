"""results.zarr: every metric of every pool. It is the resume file, the parts and the result in one.

It has a group of arrays for each of the sweep's groups, and a chunk is a range of a group's pools:
[condition, axes of the metric, pool]. zarr gives each file its name when it is whole, and a line in
`done`, written after the numbers, says that a chunk is there, with their digest: what a killed run
leaves is whole or missing. Several processes may write to one store. Two that compute one chunk
write the same numbers.

Files and attributes of the store itself are written first and never change; the root's `zarr.json`,
by which a store exists, is the last of them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jbt.border import files
from jbt.experiments import provenance
from jbt.experiments.declare import Group, Sweep
from jbt.experiments.units import unit_of

if TYPE_CHECKING:
    import xarray as xr

RESULTS, LOCK, MAKING = "results.zarr", ".lock", ".making"
TABLE, FIGURE = "table.csv", "figure.png"
REPORTED = (TABLE, FIGURE)
DONE, CHUNK, ROOT = "done", "chunk", "zarr.json"

PROBE_SECONDS = 2.0
"""How long a lock is waited for: other runs take it for a moment, to see whether it is held."""

SHOWN_NAMES = 4
"""Names of files that a message lists (count)."""

IN_MEMORY = 2**28
"""The largest results that are read as a whole (bytes)."""

WHOLE = (0, 1)
"""The part that is all of a run."""

Shapes = Mapping[str, tuple[tuple[int, ...], np.dtype]]
"""Metric -> its shape for a pool and condition, and its type in the store."""


class Chunk(NamedTuple):
    """A range of pools of one group."""

    group: str
    number: int
    ids: range


def count(chunks: Iterable[Chunk]) -> int:
    """How many pools there are in some chunks."""
    return sum(len(chunk.ids) for chunk in chunks)


class Store:
    """A run's store, whole or not.

    Attributes:
      place: its folder or URL.
      attrs: sweep, config, code, versions; see `create`.
    """

    def __init__(self, place: Path | str) -> None:
        """Open a store.

        Raises:
          FileNotFoundError: there is none.
          ValueError: it is damaged, or not one of a sweep.
        """
        import zarr

        self.place = place
        self._files = _files_of(place)  # which makes a folder when it is asked for a file
        absent = isinstance(place, Path) and not (place / ROOT).exists()
        if absent or (root := self._read(ROOT)) is None:
            raise FileNotFoundError(f"{place} does not exist")
        try:
            metadata = json.loads(root)
            self.attrs: dict[str, Any] = metadata["attributes"]
            if self.attrs.pop("digest") != _digest(json.dumps(metadata).encode()):
                raise ValueError(f"{ROOT} is not as it was written")
            for key, digest in self.attrs.pop("files").items():
                if digest != _digest(self._read(key) or b""):
                    raise ValueError(f"{key} is not as it was written")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{place} is damaged, or no sweep wrote it ({error}); choose another --out, or "
                "--overwrite"
            ) from None
        root = zarr.open_group(self._files, mode="r+")
        self._done: dict[str, Any] = {}  # group -> [chunks] a note of each; "" where there is none
        self._metrics: dict[str, dict[str, Any]] = {}  # ... -> metric -> [conditions, axes, pools]
        for name in self.attrs["groups"]:
            arrays: dict[str, Any] = dict(root[name].arrays())  # type: ignore[union-attr]
            self._done[name] = arrays.pop(DONE)
            self._metrics[name] = {n: array for n, array in arrays.items() if array.ndim > 1}

    def _read(self, key: str) -> bytes | None:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        content = sync(self._files.get(key, default_buffer_prototype()))
        return None if content is None else content.to_bytes()

    def chunks(self, part: tuple[int, int] = WHOLE) -> list[Chunk]:
        """The chunks of part I of N; by default all."""
        index, parts = part
        chunks = []
        for group, metrics in self._metrics.items():
            (n,), metric = self._done[group].shape, next(iter(metrics.values()))
            ids, size = range(metric.shape[-1]), metric.chunks[-1]
            for number in range(n * index // parts, n * (index + 1) // parts):
                chunks.append(Chunk(group, number, ids[number * size : (number + 1) * size]))
        return chunks

    def missing(self, part: tuple[int, int] = WHOLE) -> list[Chunk]:
        """The chunks of a part that have not been written.

        Raises:
          ValueError: what says so is damaged.
        """
        return [chunk for chunk in self.chunks(part) if not self._note(chunk)]

    def _note(self, chunk: Chunk) -> dict[str, Any]:
        """What was noted with a chunk: seconds, device, digest; empty if it was not written."""
        try:
            return json.loads(str(self._done[chunk.group][chunk.number]) or "{}")
        except ValueError as error:
            raise self._damaged(chunk, error) from None

    def write(
        self, chunk: Chunk, numbers: Mapping[str, np.ndarray], seconds: float, device: str
    ) -> None:
        """Write a chunk: name -> [conditions, axes, pools of the chunk].

        Raises:
          OSError: it cannot be written, because the disk is full, say.
          ValueError: it has other metrics.
        """
        metrics, ids = self._metrics[chunk.group], chunk.ids
        if differ := numbers.keys() ^ metrics.keys():
            raise ValueError(f"{self.place} has other metrics: {', '.join(sorted(differ))}")
        note = {"seconds": round(seconds, 3), "device": device, "digest": self._sum(chunk, numbers)}
        for name, values in numbers.items():
            metrics[name][..., ids.start : ids.stop] = values
        self._done[chunk.group][chunk.number] = json.dumps(note)

    def _sum(self, chunk: Chunk, numbers: Mapping[str, np.ndarray]) -> str:
        """A digest of a chunk's numbers, its pools, and the configuration and code behind them."""
        metrics = self._metrics[chunk.group]
        about = [self.attrs["config"], self.attrs["code"], chunk.group, str(chunk.ids)]
        digest = hashlib.sha256("\n".join(about).encode())
        for name in sorted(numbers):
            digest.update(numbers[name].astype(metrics[name].dtype, "C", copy=False).data)
        return digest.hexdigest()[:16]

    def results(self) -> xr.Dataset:
        """The results of a finished run, after every number was read once and is as it was written.
        Metrics of a sweep with one group that take more than `IN_MEMORY` are read on access. Where
        a group has fewer pools than another, the rest is NaN (integers: -1). Attributes say how the
        run was made, how long it took and on what.

        Raises:
          ValueError: chunks are missing, damaged, or of another run.
        """
        if missing := self.missing():
            raise ValueError(f"{self.place} is unfinished: {count(missing):,} pools are missing")
        devices, seconds = set(), 0.0
        for chunk in self.chunks():
            note, pools = self._note(chunk), slice(chunk.ids.start, chunk.ids.stop)
            try:
                metrics = self._metrics[chunk.group].items()
                numbers = {name: metric[..., pools] for name, metric in metrics}
                if note["digest"] != self._sum(chunk, numbers):
                    raise ValueError("their digest is another, or they are of another run")
            except (ValueError, KeyError, TypeError) as error:
                raise self._damaged(chunk, error) from None
            devices.add(note["device"])
            seconds += note["seconds"]
        dataset = _joined([self._dataset(name) for name in self._metrics])
        if dataset.nbytes <= IN_MEMORY:  # a table reads the same numbers many times
            dataset.load()
        times = {"device": "; ".join(sorted(devices)), "wall_seconds": round(seconds, 1)}
        dataset.attrs = {k: v for k, v in self.attrs.items() if k != "groups"} | times
        return dataset

    def _dataset(self, group: str) -> xr.Dataset:
        import xarray as xr

        options: Any = {"engine": "zarr", "cache": False, "drop_variables": [DONE]}
        dataset = xr.open_dataset(self._files, group=group, **options)
        texts = {name: c for name, c in dataset.coords.items() if c.dtype.kind == "T"}
        return dataset.assign_coords(
            {name: c.copy(data=np.array(c.values.tolist())) for name, c in texts.items()}
        )

    def _damaged(self, chunk: Chunk, why: Exception) -> ValueError:
        note = f"{self.place}/{chunk.group}/{DONE}/c/{chunk.number}"
        return ValueError(
            f"{self.place} is damaged: pools {chunk.ids[0]} to {chunk.ids[-1]} of {chunk.group} "
            f"are not as they were written ({why}); delete {note} and give the same command again, "
            "which computes them, or start afresh with --overwrite"
        )


def _joined(groups: Sequence[xr.Dataset]) -> xr.Dataset:
    """The datasets of all groups as one."""
    import xarray as xr

    if len(groups) == 1:
        return groups[0]
    metrics = groups[0].data_vars
    dimension = next(iter(metrics.values())).dims[0]
    labels = [name for name, c in groups[0].coords.items() if dimension in c.dims]
    fill = {name: fill_of(metric.dtype) for name, metric in metrics.items()}
    options: Any = {"data_vars": "all", "coords": labels, "compat": "override"}
    return xr.concat(groups, dimension, join="outer", fill_value=fill, **options)


def create(
    folder: Path,
    place: Path | str,
    sweep: Sweep,
    groups: Sequence[Group],
    shapes: Shapes,
    sizes: Mapping[str, int],
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
) -> None:
    """Make an empty store, unless another process has just made it.

    Args:
      sizes: group -> pools of a chunk (count).
      configuration: fields that decide the numbers -> their values as read from JSON.
      code: digest of each file of the code that simulates, see `provenance.code_of`.

    Raises:
      OSError: it cannot be written.
    """
    import zarr
    from filelock import FileLock
    from zarr.codecs import Crc32cCodec, ZstdCodec
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync
    from zarr.errors import ZarrUserWarning
    from zarr.storage import MemoryStore

    checked = (ZstdCodec(level=1), Crc32cCodec())
    contents: dict[str, Any] = {}
    memory = MemoryStore(contents)
    root = zarr.create_group(memory)
    attrs = {
        "sweep": sweep.name,
        "config": json.dumps(configuration),
        "code": json.dumps(code),
        "preset": sweep.preset,
        "seed": sweep.seed,
        "dtype": sweep.dtype,
        **provenance.packages(),
    }
    dimension = sweep.index or "condition"
    for group in groups:
        labels, size = _labels(sweep, group).assign_attrs(attrs), sizes[group.name]
        encoding: Any = {name: {"compressors": checked} for name in labels.variables}
        labels.to_zarr(memory, group=group.name, encoding=encoding, consolidated=False)
        arrays = root.require_group(group.name)
        for name, (shape, dtype) in shapes.items():
            unit = unit_of(name, sweep.units)
            arrays.create_array(
                name,
                shape=(group.n_conditions, *shape, group.pools),
                chunks=(group.n_conditions, *shape, min(size, group.pools)),
                dtype=dtype,
                fill_value=fill_of(dtype),
                compressors=checked,
                dimension_names=[dimension, *group.axes.get(name, {}), "pool"],
                attributes={"units": unit} if unit else {},
            )
        arrays.create_array(
            DONE,
            shape=(-(-group.pools // size),),
            chunks=(1,),
            dtype=str,
            fill_value="",
            compressors=checked,
            dimension_names=[CHUNK],
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZarrUserWarning)  # other programs need not read it
        zarr.consolidate_metadata(memory)
    written = {key: content.to_bytes() for key, content in contents.items()}
    metadata = json.loads(written.pop(ROOT))
    digests = {key: _digest(data) for key, data in written.items()}
    names = [group.name for group in groups]
    metadata["attributes"] = {**attrs, "groups": names, "files": digests}
    metadata["attributes"]["digest"] = _digest(json.dumps(metadata).encode())
    written[ROOT] = json.dumps(metadata).encode()  # the last
    target, buffer = _files_of(place), default_buffer_prototype().buffer
    with FileLock(folder / MAKING):  # parts that start together may disagree on the size
        if not sync(target.exists(ROOT)):
            if isinstance(place, Path):  # what is left of a store that was half removed
                shutil.rmtree(place, ignore_errors=True)
            for key, data in written.items():
                sync(target.set(key, buffer.from_bytes(data)))


def _labels(sweep: Sweep, group: Group) -> xr.Dataset:
    """A group's results without metrics: dimensions and labels, with their units."""
    import xarray as xr

    coords: dict[str, Any] = {n: ("condition", list(v)) for n, v in group.labels.items()}
    coords |= {"pool": np.arange(group.pools)}
    coords |= {name: ("pool", list(values)) for name, values in group.pool_labels.items()}
    coords |= {name: list(v) for axes in group.axes.values() for name, v in axes.items()}
    dataset = xr.Dataset(coords=coords)
    texts = {n: c.astype(object) for n, c in dataset.coords.items() if c.dtype.kind == "U"}
    dataset = dataset.assign_coords(texts)
    for name, values in dataset.coords.items():
        if unit := unit_of(str(name), sweep.units):
            values.attrs["units"] = unit
    return dataset.swap_dims(condition=sweep.index) if sweep.index else dataset


def fill_of(dtype: np.dtype) -> float | int:
    """What stands where a group has fewer pools than another."""
    return np.nan if np.issubdtype(dtype, np.floating) else -1


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _files_of(place: Path | str) -> Any:
    """The store of zarr at a folder or URL."""
    from zarr.storage import FsspecStore, LocalStore

    return FsspecStore.from_url(place) if isinstance(place, str) else LocalStore(place)


# --- the folder of a run


def claim(
    folder: Path,
    place: Path | str,
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    *,
    overwrite: bool = False,
) -> Store | None:
    """The store of this configuration, None where it is still to be made.

    Args:
      configuration, code: see `create`.
      overwrite: first remove all that a run has written.

    Raises:
      ValueError: the folder holds another configuration (the message names the fields), an
        unfinished run of other code (it names the files), or a table without a store; or what a URL
        holds would have to be removed.
    """
    for name in REPORTED:
        if (folder / name).is_dir():  # refused now, not after hours of work
            raise ValueError(f"cannot write {folder / name}: it is a folder")
    if overwrite:
        if isinstance(place, str):
            raise ValueError(f"--overwrite removes nothing at a URL: remove {place} yourself")
        if place.exists():
            shutil.rmtree(place)
        for name in REPORTED:
            (folder / name).unlink(missing_ok=True)
        return None
    try:
        store = Store(place)
    except FileNotFoundError:
        if found := [name for name in REPORTED if (folder / name).exists()]:
            raise ValueError(
                f"{folder} holds {found[0]} but no {RESULTS}; choose another --out, or --overwrite"
            ) from None
        return None
    saved = json.loads(store.attrs["config"])
    if differ := changed(saved, configuration):
        fields = [f"{k} ({saved.get(k)} there, {configuration.get(k)} now)" for k in differ]
        raise ValueError(
            f"{folder} holds another configuration: {', '.join(fields)}; choose another --out, or "
            "--overwrite"
        )
    new = changed(json.loads(store.attrs["code"]), code)
    if new and store.missing():
        raise ValueError(
            f"{folder} holds an unfinished run of other code, which would be mixed with this: "
            f"{some_of(new)} changed; --overwrite starts afresh"
        )
    return store


def changed(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Names of fields or files whose values differ, or which are on one side only."""
    return sorted(k for k in saved.keys() | now.keys() if saved.get(k) != now.get(k))


def some_of(names: Sequence[str]) -> str:
    """A list in a message: the first names, and how many more there are."""
    shown = ", ".join(names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


@contextmanager
def locked(folder: Path, part: tuple[int, int] | None = None) -> Iterator[None]:
    """Keep other runs of the same pools out of a folder, which is made if need be: of a part those
    of the part and of the whole, of the whole run all. A lock dies with its process.

    Raises:
      ValueError: another run holds a lock.
      OSError: the folder cannot be made or written to.
    """
    from filelock import FileLock, Timeout

    name = LOCK if part is None else f"{LOCK}-{part[0]}-of-{part[1]}"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder / name, timeout=PROBE_SECONDS))
            for other in folder.glob(f"{LOCK}*") if part is None else [folder / LOCK]:
                if other.name != name and other.exists():
                    with FileLock(other, timeout=PROBE_SECONDS):
                        pass
        except Timeout:
            raise ValueError(f"another run is writing to {folder}") from None
        yield


def discard_torn(folder: Path) -> None:
    """Remove what killed writes have left of a run's files; lock the whole folder first."""
    for name in REPORTED:
        files.discard_torn(folder / name)
    for file in (folder / RESULTS).rglob("*.partial"):
        file.unlink(missing_ok=True)
