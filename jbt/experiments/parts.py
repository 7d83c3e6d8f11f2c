"""Parts: the pools of a sweep divided among processes that write to one folder.

Part I of N has a block of consecutive pools of every group, whatever the machine. Its shards lie in
`shards/I-of-N/`, a folder with a lock that exists as soon as the part has begun. A part takes that
lock while it holds the lock of the whole folder, and then releases the latter: a process that holds
the folder's lock and finds a part idle can rely on its staying idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jbt.experiments import folder as store


@dataclass(frozen=True, order=True)
class Part:
    """Share `index` (from 0) of `count`."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"part must be I/N with I from 0 to N - 1, got {self}")

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def pools(self, pools: int) -> range:
        """Ids of the part's pools in a group of `pools` (count)."""
        return range(pools * self.index // self.count, pools * (self.index + 1) // self.count)

    def shards(self, folder: Path) -> Path:
        """Folder of the part's shards in the folder of a run."""
        return folder / store.SHARDS / f"{self.index}-of-{self.count}"


def parse(text: str) -> Part:
    """The part written as `I/N`.

    Raises:
      ValueError: the text has another form, or I is not one of 0..N-1.
    """
    if not re.fullmatch(r"[0-9]+/[0-9]+", text):
        raise ValueError(f"part must be I/N with I from 0 to N - 1, got {text!r}")
    index, count = map(int, text.split("/"))
    return Part(index, count)


def count_in(folder: Path) -> int | None:
    """N of the parts that have begun in the folder of a run; None if no part has."""
    for shards in (folder / store.SHARDS).glob("*-of-*"):
        if match := re.fullmatch(r"[0-9]+-of-([0-9]+)", shards.name):
            return int(match[1])
    return None


def holding(ids: np.ndarray, pools: int, count: int) -> set[Part]:
    """The parts, out of `count`, that hold the pools with these ids [n] in a group of `pools`."""
    indices = ((ids + 1) * count - 1) // pools  # the inverse of `Part.pools`
    return {Part(int(index), count) for index in np.unique(indices)}


@contextmanager
def begun(folder: Path, part: Part) -> Iterator[None]:
    """Become the one process that computes a part; enter while holding the lock of `folder`.

    Raises:
      ValueError: the folder has parts of another count, or another process computes this part.
    """
    if (count := count_in(folder)) not in (None, part.count):
        raise ValueError(
            f"{folder} holds parts of {count}, got part {part}; choose another --out, or go on "
            f"with parts of {count}"
        )
    with store.locked(part.shards(folder)):
        store.discard_torn(part.shards(folder))
        yield


def running(folder: Path, part: Part) -> bool:
    """Whether a process is computing a part."""
    if not part.shards(folder).exists():
        return False
    try:
        with store.locked(part.shards(folder)):
            return False
    except store.Busy:
        return True


def check_idle(folder: Path) -> None:
    """Raise `ValueError` if a process is computing a part; hold the lock of `folder`."""
    count = count_in(folder) or 0
    if busy := [part for i in range(count) if running(folder, part := Part(i, count))]:
        raise ValueError(f"{folder}: parts are running ({listed(busy)}); end them first")


def listed(parts: Sequence[Part]) -> str:
    """The first twenty parts and the number of the others: `1/4, 3/4`."""
    more = f" and {len(parts) - 20} more" if len(parts) > 20 else ""
    return ", ".join(map(str, parts[:20])) + more
