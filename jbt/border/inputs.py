"""What a user's files hold: a pipe, which gives its bytes once, is read once."""

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
"""Seconds until a pipe that no program has opened to write to is given up."""

PART = 2**20

_kept: ContextVar[dict[Path, bytes] | None] = ContextVar("kept", default=None)


@contextmanager
def pipes_kept() -> Iterator[None]:
    """Within it, a pipe that was read may be read again."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def read_bytes(path: Path) -> bytes:
    """What a file or a pipe (`<(...)` of a shell, a FIFO, standard input) holds.

    Raises:
      OSError: it cannot be read, is no file, or is a pipe that nothing writes to.
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
    """All that is written to a pipe until its writers have closed it."""
    # Opening to read would otherwise wait for a writer, for ever where none comes.
    pipe, parts, until = os.open(path, os.O_RDONLY | os.O_NONBLOCK), [], time.monotonic() + PATIENCE
    # That of a shell's <(...) is open from the start, unless it is closed already.
    written_to = "pipe:[" in os.path.realpath(path)
    try:
        while True:
            try:
                part = os.read(pipe, PART)
            except BlockingIOError:  # somebody is to write, and has not yet
                written_to = True
                select.select([pipe], [], [])
                continue
            parts.append(part)
            written_to |= bool(part)
            if not part and written_to:
                return b"".join(parts)
            if not part:
                if time.monotonic() > until:
                    raise OSError("it is a pipe that nothing writes to, or one read already")
                time.sleep(0.02)
    finally:
        os.close(pipe)
