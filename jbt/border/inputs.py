"""Read a user's files; a pipe, which gives its bytes only once, is read once and kept."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

PATIENCE = 10.0
"""Seconds to wait for a program to open a pipe for writing."""

PART = 2**20
"""Bytes read at once."""

_kept: ContextVar[dict[Path, bytes] | None] = ContextVar("kept", default=None)


@contextmanager
def pipes_kept() -> Iterator[None]:
    """Keep the bytes of pipes within the `with` block, so that they can be read again."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file or a pipe (`<(...)` of a shell, a FIFO, standard input).

    Raises:
      OSError: it cannot be read, is neither file nor pipe, or is a pipe that nothing writes to.
    """
    kind = path.stat().st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        return path.read_bytes()
    if not stat.S_ISFIFO(kind):
        raise OSError("it is neither a file nor a pipe")
    kept = _kept.get()
    if kept is None:
        return _drain(path)
    if path not in kept:
        kept[path] = _drain(path)
    return kept[path]


def _drain(path: Path) -> bytes:
    """All bytes written to a pipe until its writers have closed it."""
    # Without O_NONBLOCK, opening would wait for a writer, and for ever if none comes.
    pipe, parts = os.open(path, os.O_RDONLY | os.O_NONBLOCK), []
    deadline = time.monotonic() + PATIENCE
    # The writer of a shell's <(...) has opened the pipe from the start, or closed it already.
    written_to = "pipe:[" in os.path.realpath(path)
    try:
        while True:
            try:
                part = os.read(pipe, PART)
            except BlockingIOError:  # a writer has the pipe open and has not written yet
                written_to = True
                select.select([pipe], [], [])
                continue
            parts.append(part)
            written_to |= bool(part)
            if not part and written_to:
                return b"".join(parts)
            if not part:
                if time.monotonic() > deadline:
                    raise OSError("it is a pipe that nothing writes to, or one read already")
                time.sleep(0.02)
    finally:
        os.close(pipe)
