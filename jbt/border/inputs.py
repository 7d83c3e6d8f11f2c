"""Read a user's files; a pipe, which gives its bytes only once, is read once and kept.

Within a command the files read are noted, as are those that its options name, so that
`jbt.border.files` writes over none of them.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 10.0
"""Seconds to wait for a program to open a pipe for writing."""

PART = 2**20
"""Bytes read at once."""

Identity = tuple[int, int]
"""Device and inode of a file, whatever it is called."""


@dataclass
class _Inputs:
    """What one command has read."""

    pipes: dict[Path, bytes] = field(default_factory=dict)
    files: set[Identity] = field(default_factory=set)


_command: ContextVar[_Inputs | None] = ContextVar("command", default=None)


@contextmanager
def noted() -> Iterator[None]:
    """Note the files that are read within the `with` block, and keep the bytes of pipes, so that
    they can be read again."""
    token = _command.set(_Inputs())
    try:
        yield
    finally:
        _command.reset(token)


def note_read(file: Path | int) -> None:
    """Note a file that is read, or is to be; a name or a descriptor. Other kinds are no inputs."""
    inputs = _command.get()
    with suppress(OSError):
        if inputs is not None and stat.S_ISREG((facts := os.stat(file)).st_mode):
            inputs.files.add((facts.st_dev, facts.st_ino))


def is_read(file: Path) -> bool:
    """Whether a file, under any name, is one that the command reads."""
    inputs = _command.get()
    if inputs is None or not file.exists():
        return False
    facts = file.stat()
    return (facts.st_dev, facts.st_ino) in inputs.files


def read_bytes(path: Path) -> bytes:
    """The bytes of a file or a pipe (`<(...)` of a shell, a FIFO, standard input).

    Raises:
      OSError: it cannot be read, is neither file nor pipe, or is a pipe that nothing writes to.
    """
    kind = path.stat().st_mode
    note_read(path)
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        return path.read_bytes()
    if not stat.S_ISFIFO(kind):
        raise OSError("it is neither a file nor a pipe")
    inputs = _command.get()
    if inputs is None:
        return _drain(path)
    if path not in inputs.pipes:
        inputs.pipes[path] = _drain(path)
    return inputs.pipes[path]


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
