"""Shards: chunks of pools of one group that a run has finished."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jbt import runtime
from jbt.border import files
from jbt.experiments import folder as store
from jbt.experiments import parts
from jbt.experiments.declare import Group
from jbt.experiments.parts import Part

if TYPE_CHECKING:
    pass


FIRST, DIGEST = "[0-9]" * 10, "[0-9a-f]" * 16
"""In the name of a shard: its first pool id, its digest."""

IDS, SECONDS, DEVICE = "ids", "seconds", "device"

NO_METRICS = (IDS, SECONDS, DEVICE)
"""Names, in a shard, of its pools, of what it took to compute and on what: no metric may have
them."""


def save_shard(
    folder: Path,
    group: str,
    ids: np.ndarray,
    arrays: dict[str, np.ndarray],
    part: Part | None = None,
) -> None:
    """Keep the results of a chunk of pools, `ids` [n], arrays [n, ...], that a whole run or a part
    of it has computed.

    Raises:
      ValueError: it cannot be written, because the disk is full, say; an integer does not fit.
    """
    for name, v in ((name, np.asarray(value)) for name, value in arrays.items()):
        if v.dtype.kind in "iu" and (v.astype(np.int32) != v).any():
            raise ValueError(f"metric {name} holds integers beyond int32, as which they are kept")
    whole = io.BytesIO()
    about = {IDS: ids, DEVICE: np.array(runtime.device_name())}
    np.savez(whole, **about, **arrays)  # type: ignore[arg-type]
    data = whole.getbuffer()
    place = part.shards(folder) if part else folder / store.SHARDS
    place.mkdir(exist_ok=True)
    path = place / f"{group}-{ids[0]:010d}-{_digest(folder, group, data)}.npz"
    files.write_whole(path, lambda p: p.write_bytes(data))


def saved_shards(
    folder: Path, group: Group, part: Part | None = None
) -> Iterator[tuple[Path, Mapping[str, np.ndarray]]]:
    """Every chunk kept for a group, by its first pool: its file, and `ids` [n], `seconds`,
    `device`, the metrics [n, C, ...]. For a part, without what other parts keep: they may be
    writing.

    Raises:
      ValueError: one is damaged, or of another run.
    """
    name, every = f"{group.name}-{FIRST}-{DIGEST}.npz", folder / store.SHARDS
    of_parts = part.shards(folder).glob(name) if part else every.glob(f"*/{name}")
    for path in sorted([*every.glob(name), *of_parts], key=lambda path: path.name):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise unusable(path, f"cannot be read ({error.strerror})") from None
        if path.stem.rpartition("-")[2] != _digest(folder, group.name, data):
            raise unusable(path, "is damaged, or of another run than the folder's, or group")
        with np.load(io.BytesIO(data)) as shard:
            if not _fits(shard, group):
                raise unusable(path, f"does not fit {group.name}, its pools, conditions and axes")
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
    return [name for name in shard if name not in NO_METRICS]


def axes_shape(group: Group, metric: str) -> tuple[int, ...]:
    """Of one pool and condition, as the group declares it."""
    return tuple(len(c) for c in group.axes.get(metric, {}).values())


def _digest(folder: Path, group: str, data: bytes | memoryview) -> str:
    """Of a shard's bytes, its group and the folder's configuration."""
    digest = hashlib.sha256(f"{store.configuration_text(folder)}\n{group}\n".encode())
    digest.update(data)
    return digest.hexdigest()[:16]


def unusable(shard: Path, why: str) -> ValueError:
    again = "its pools are computed when the same command is given again"
    if shard.parent.name != store.SHARDS:
        part = shard.parent.name.replace("-of-", "/")
        again = f"its pools are computed when part {part} is given again"
    return ValueError(f"{shard} {why}; delete it, and {again}, or --overwrite to start afresh")


def missing(folder: Path, group: Group, part: Part | None = None) -> np.ndarray:
    """Ids of the pools of a group, or of a part of it, that no shard holds, increasing.

    Raises:
      ValueError: a shard is damaged, or of another run.
    """
    there = np.zeros(group.pools, bool)
    for _, shard in saved_shards(folder, group, part):
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
