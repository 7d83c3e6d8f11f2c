"""A study's journal: a file of JSON lines that is only appended to.

A record is on the disk before `append` returns, so that a process may be killed at any moment. A
write that was cut off leaves a line without an end; whoever appends next, under the lock, moves it
to a file beside the journal.

Every line ends with its number and a checksum, so that a flipped bit, and a line that was dropped,
repeated or moved, is noticed before it is counted:

    {"event": "tell", ..., "line": 17, "crc32": "5f0c9a31"}

The checksum is the CRC-32 of the line without it. Journals from before had neither; they are read,
and what is appended to them has both.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jbt.border import files, inputs

APPENDING, ASKING = ".lock", ".asking"
"""The locks: to append, and to choose what to ask, during which others may append."""

WAIT = {APPENDING: 60.0, ASKING: 600.0}
"""Seconds to wait for another process: appending takes milliseconds; choosing for many pools and
queries takes long."""

DAMAGED = "journal.damaged"
"""File of the lines that could not be read, moved out of the journal."""

NO_RECORD = "is no record"
"""What is wrong with a line that a killed write has left."""

SEAL = re.compile(rb', "crc32": "([0-9a-f]{8})"}\n')
"""The end of a line, with its checksum."""


class Journal:
    """The journal in a folder. Reading needs no lock; appending and asking do (`held`)."""

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock

        self.path = folder / files.JOURNAL
        self.torn = b""
        """What stands after the last record that was read: a line cut off or edited, or nothing."""
        self.locks = {name: FileLock(folder / name, timeout=WAIT[name]) for name in WAIT}
        self._end, self._line, self._sealed = 0, 0, False
        self._process = os.getpid()

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Hold one of the locks.

        Raises:
          ValueError: another process does not let go, the folder cannot be written to, or this
            process is a fork of the one that opened the study.
        """
        from filelock import Timeout

        self._check_process()
        lock, folder = self.locks[name], self.path.parent
        try:
            lock.acquire()
        except Timeout:
            raise ValueError(f"another process has held {folder} for {lock.timeout:g} s") from None
        except OSError as error:
            raise ValueError(f"cannot write to {folder}: {error.strerror}") from None
        try:
            yield
        finally:
            lock.release()

    def _check_process(self) -> None:
        """Raise `ValueError` in a fork, which would share locks and JAX's threads with its parent
        and hold neither."""
        if os.getpid() != self._process:
            raise ValueError(
                f"this Study of {self.path.parent} was opened before the process forked: "
                "open it in the process that uses it"
            )

    def news(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the records that were appended since the last call, by any process, each with its
        line from 1. A last line that was cut off, or in a journal without checksums edited, is left
        for `append` to move away.

        Raises:
          ValueError: the file cannot be read, is shorter than it was, or has a line before the last
            that is no record, is damaged, or stands where another did.
        """
        self._check_process()
        self.torn = b""
        try:
            with self.path.open("rb") as file:
                inputs.note_read(file.fileno())
                if file.seek(0, os.SEEK_END) < self._end:
                    raise ValueError(f"{self.path} has lost lines since it was read")
                file.seek(self._end)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ValueError(f"cannot read {self.path}: {error.strerror}") from None
        last = self._line + len(lines)
        for number, line in enumerate(lines, start=self._line + 1):
            record = _record(line, number, self._sealed)
            if isinstance(record, str):
                cut_off = not (self._sealed and line.endswith(b"\n"))
                if number < last or record != NO_RECORD or not cut_off:
                    raise ValueError(f"{self.path}, line {number} {record}: {shown(line)}")
                self.torn = line
                return
            self._end, self._line = self._end + len(line), number
            self._sealed = record.pop("crc32", None) is not None
            record.pop("line", None)
            yield number, record

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records, all or none; they are on the disk when this returns. Call it while
        `APPENDING` is held, after `news`.

        Raises:
          ValueError: the disk is full, or the folder cannot be written to. The journal is then as
            it was.
        """
        data = b"".join(_line(record, i) for i, record in enumerate(records, self._line + 1))
        try:
            if self.torn:
                with (self.path.parent / DAMAGED).open("ab") as file:
                    file.write(self.torn.removesuffix(b"\n") + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.truncate(self.path, self._end)
            with self.path.open("ab", buffering=0) as file:
                try:
                    while data:
                        data = data[os.write(file.fileno(), data) :]
                    os.fsync(file.fileno())
                    if self._end == 0:
                        files.sync_folder(self.path.parent)
                except BaseException:  # Ctrl-C too: half a record must not stay
                    file.truncate(self._end)
                    raise
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(f"cannot write {self.path}: {reason}; it is as it was") from None


def _line(record: Mapping[str, Any], number: int) -> bytes:
    """A record as the journal's line of this number."""
    text = json.dumps({**record, "line": number}, ensure_ascii=False, allow_nan=False)
    body = text.encode().removesuffix(b"}")
    return body + f', "crc32": "{zlib.crc32(body):08x}"}}\n'.encode()


def _record(line: bytes, number: int, sealed: bool) -> dict[str, Any] | str:
    """The record of a line, or what is wrong with the line.

    Args:
      sealed: whether the line before has a checksum, as this one must have then.
    """
    if not line.endswith(b"\n"):
        return NO_RECORD
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return NO_RECORD
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        return NO_RECORD
    if not (sealed or "line" in record or "crc32" in record):
        return record
    seal = SEAL.search(line)
    if seal is None or int(seal[1], 16) != zlib.crc32(line[: seal.start()]):
        return "has changed since it was written (its checksum does not fit)"
    if record.get("line") != number:
        return f"was line {record.get('line')}: lines are missing, repeated or moved"
    return record


def shown(line: bytes) -> str:
    """A line for a message, shortened."""
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= 60 else text[:57] + "...")
