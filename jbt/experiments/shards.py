"""Save and read shards: chunks of pools of one group that a run has finished. A damaged shard, or
one of another run, raises and says what to delete."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from jbt import runtime
from jbt.border import files
from jbt.experiments import folder as store
from jbt.experiments import parts
from jbt.experiments.declare import Group
from jbt.experiments.parts import Part

FIRST, DIGEST = "[0-9]" * 10, "[0-9a-f]" * 16
"""Patterns of a shard's first pool id and of its digest, in its file name."""

IDS, SECONDS, DEVICE = "ids", "seconds", "device"
NO_METRICS = (IDS, SECONDS, DEVICE)
"""Names in a shard of its pools, its computing time and its device; no metric may have them."""


def save_shard(
    folder: Path,
    group: str,
    ids: np.ndarray,
    arrays: dict[str, np.ndarray],
    part: Part | None = None,
) -> None:
    """Save the results of a chunk of pools, `ids` [n], arrays [n, ...], of a whole run or a part.

    Raises:
      ValueError: the shard cannot be written, because the disk is full, say; an integer does not
        fit.
    """
    for name, v in ((name, np.asarray(value)) for name, value in arrays.items()):
        if v.dtype.kind in "iu" and (v.astype(np.int32) != v).any():
            raise ValueError(
                f"metric {name} holds integers beyond int32, the type they are saved in"
            )
    buffer = io.BytesIO()
    about = {IDS: ids, DEVICE: np.array(runtime.device_name())}
    np.savez(buffer, **about, **arrays)  # type: ignore[arg-type]
    data = buffer.getbuffer()
    home = part.shards(folder) if part else folder / store.SHARDS
    home.mkdir(exist_ok=True)
    path = home / f"{group}-{ids[0]:010d}-{_digest(folder, group, data)}.npz"
    files.write_whole(path, lambda p: p.write_bytes(data))


def saved_shards(
    folder: Path, group: Group, part: Part | None = None
) -> Iterator[tuple[Path, Mapping[str, np.ndarray]]]:
    """The saved shards of a group in order of their first pools: the file, and `ids` [n],
    `seconds`, `device`, the metrics [n, C, ...]. A part leaves out the shards of other parts, which
    may be writing.

    Raises:
      ValueError: a shard is damaged, or of another run.
    """
    name, home = f"{group.name}-{FIRST}-{DIGEST}.npz", folder / store.SHARDS
    of_parts = part.shards(folder).glob(name) if part else home.glob(f"*/{name}")
    for path in sorted([*home.glob(name), *of_parts], key=lambda path: path.name):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise unusable(path, f"cannot be read ({error.strerror})") from None
        if path.stem.rpartition("-")[2] != _digest(folder, group.name, data):
            raise unusable(path, "is damaged, or belongs to another run or group")
        with np.load(io.BytesIO(data)) as shard:
            if not _fits(shard, group):
                raise unusable(path, f"does not fit the pools, conditions and axes of {group.name}")
            yield path, shard


def _fits(shard: Mapping[str, np.ndarray], group: Group) -> bool:
    if not set(NO_METRICS) <= set(shard):
        return False
    ids = shard[IDS]
    inside = (ids >= 0) & (ids < group.pools)
    return (
        ids.ndim == 1
        and bool(inside.all())
        and all(
            shard[name].shape == (len(ids), group.n_conditions, *axes_shape(group, name))
            for name in metric_names(shard)
        )
    )


def metric_names(shard: Mapping[str, np.ndarray]) -> list[str]:
    """The names of a shard's metrics."""
    return [name for name in shard if name not in NO_METRICS]


def axes_shape(group: Group, metric: str) -> tuple[int, ...]:
    """A metric's shape for one pool and condition, as the group declares it."""
    return tuple(len(c) for c in group.axes.get(metric, {}).values())


def _digest(folder: Path, group: str, data: bytes | memoryview) -> str:
    """A digest of a shard's bytes, its group and the folder's configuration."""
    digest = hashlib.sha256(f"{store.configuration_text(folder)}\n{group}\n".encode())
    digest.update(data)
    return digest.hexdigest()[:16]


def unusable(shard: Path, why: str) -> ValueError:
    """The error for a shard that cannot be used: why, and how to go on."""
    again = "give the same command again, which computes its pools"
    if shard.parent.name != store.SHARDS:
        part = shard.parent.name.replace("-of-", "/")
        again = f"give part {part} again, which computes its pools"
    return ValueError(f"{shard} {why}; delete it and {again}, or start afresh with --overwrite")


def missing(folder: Path, group: Group, part: Part | None = None) -> np.ndarray:
    """Ids, increasing, of the pools of a group, or of a part of it, that no shard holds.

    Raises:
      ValueError: a shard is damaged, or of another run.
    """
    saved = np.zeros(group.pools, bool)
    for _, shard in saved_shards(folder, group, part):
        saved[shard[IDS]] = True
    ids = np.flatnonzero(~saved)
    pools = part.pools(group.pools) if part else range(group.pools)
    return ids[(ids >= pools.start) & (ids < pools.stop)]


def incomplete(folder: Path, groups: Sequence[Group], count: int) -> list[Part]:
    """The parts, out of `count`, with pools that no shard holds."""
    unfinished: set[Part] = set()
    for group in groups:
        unfinished |= parts.holding(missing(folder, group), group.pools, count)
    return sorted(unfinished)
