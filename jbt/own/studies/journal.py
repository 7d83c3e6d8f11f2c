"""A study's journal: a file of JSON lines that is only appended to.

A record is on the disk before `append` returns, so that a process may be killed at any moment. A
write that was cut off leaves a line without an end; whoever appends next, under the lock, moves it
to a file beside the journal.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT = 60.0
"""Seconds to wait for another process to let go of the journal: an ask takes far less."""

READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Journal:
    """The journal in a folder. Reading needs no lock; appending does (`locked`)."""

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock

        self.path = folder / "journal.jsonl"
        self.damaged = folder / "journal.damaged"
        """Lines that could not be read, moved out of the journal."""
        self._lock = FileLock(folder / ".lock", timeout=WAIT)
        self._end, self._line = 0, 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from appending; may be nested.

        Raises:
          ValueError: another process does not let go, or the folder cannot be written to.
        """
        from filelock import Timeout

        try:
            self._lock.acquire()
        except Timeout:
            raise ValueError(
                f"another process has held {self.path.parent} for {WAIT:g} s"
            ) from None
        except OSError as error:
            raise ValueError(f"cannot write to {self.path.parent}: {error.strerror}") from None
        try:
            yield
        finally:
            self._lock.release()

    def news(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the records that were appended since the last call, by any process, each with its
        line from 1. A last line that cannot be read is left for `append` to move away.

        Raises:
          ValueError: the file cannot be read, is shorter than it was, or has a line before the last
            that is no record.
        """
        try:
            with self.path.open("rb") as file:
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
            record = _record(line)
            if record is None:
                if number < last:
                    raise ValueError(f"{self.path}, line {number} is no record: {shown(line)}")
                return
            self._end, self._line = self._end + len(line), number
            yield number, record

    def torn(self) -> bytes:
        """What stands after the last record that was read: a line cut off or edited, or nothing."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._end)
                return file.read()
        except OSError:
            return b""

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records, all or none; they are on the disk when this returns. Call it under the
        lock, after `news`.

        Raises:
          ValueError: the disk is full, or the folder cannot be written to. The journal is then as
            it was.
        """
        lines = [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]
        data = "".join(line + "\n" for line in lines).encode()
        try:
            if torn := self.torn():
                if _record(torn.splitlines(keepends=True)[0]) is not None:
                    raise RuntimeError("read the news before appending")
                with self.damaged.open("ab") as file:
                    file.write(torn if torn.endswith(b"\n") else torn + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.truncate(self.path, self._end)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                written = 0
                while written < len(data):
                    written += os.write(descriptor, data[written:])
                os.fsync(descriptor)
            except BaseException:  # Ctrl-C too: half a record must not stay
                os.ftruncate(descriptor, self._end)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(f"cannot write {self.path}: {reason}; it is as it was") from None

    @property
    def read_only(self) -> bool:
        """Whether the folder cannot be written to."""
        return not os.access(self.path.parent, os.W_OK)


def _record(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else None


def shown(line: bytes) -> str:
    """A line for a message, shortened."""
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= 60 else text[:57] + "...")
