"""Read a user's files.

Within a command the files read are noted, as are those that its options name, so that
`jbt.border.files` writes over none of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

Identity = tuple[int, int]
"""Device and inode of a file, whatever it is called."""

_read: ContextVar[set[Identity] | None] = ContextVar("read", default=None)
"""What the current command reads."""


@contextmanager
def noted() -> Iterator[None]:
    """Note the files that are read within the `with` block."""
    token = _read.set(set())
    try:
        yield
    finally:
        _read.reset(token)


def note_read(file: Path | int) -> None:
    """Note a file that is read, or is to be; a name or a descriptor. Other kinds are no inputs."""
    files = _read.get()
    with suppress(OSError):
        if files is not None and stat.S_ISREG((facts := os.stat(file)).st_mode):
            files.add((facts.st_dev, facts.st_ino))


def is_read(file: Path) -> bool:
    """Whether a file, under any name, is one that the command reads."""
    files = _read.get()
    if not files or not file.exists():
        return False
    facts = file.stat()
    return (facts.st_dev, facts.st_ino) in files


def check_file(path: Path) -> None:
    """Note a file that is to be read.

    Raises:
      OSError: there is none, or it is a pipe or a device.
    """
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError("it is a pipe or a device; write it to a file first")
    note_read(path)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
      OSError: it cannot be read, or is a pipe or a device.
    """
    check_file(path)
    return path.read_bytes()
