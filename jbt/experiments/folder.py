"""A run's folder: one configuration claims it, and its files show how far the run is."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from jbt.border import files

CONFIG, LOCK, SHARDS = "config.json", ".lock", "shards"
RESULTS, DIGEST = "results.nc", "results.sha256"
"""DIGEST shows whether RESULTS is as it was written."""
TABLE, FIGURE, PAGE = "table.csv", "figure.png", "page.md"
WRITTEN = (RESULTS, DIGEST, TABLE, FIGURE, PAGE)
CODE = "code"
"""Key of the code's digests in config.json, beside the configuration."""

READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Busy(ValueError):
    """Another run holds the lock of a folder."""


@contextmanager
def locked(folder: Path, *, overwrite: bool = False, wait: float = 0.0) -> Iterator[bool]:
    """Keep other runs out of a folder, which is made if need be; a lock dies with its process.

    Args:
      overwrite: the folder's results are to be replaced.
      wait: seconds to wait for another run to leave the folder.

    Yields:
      Whether the folder can be written to. A read-only folder is not locked: nobody changes it.

    Raises:
      Busy: another run holds the lock.
      ValueError: the folder cannot be written to, although it holds no results or they are to be
        overwritten.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        lock = FileLock(folder / LOCK, timeout=wait)
        lock.acquire()
    except Timeout:
        raise Busy(f"another run is writing to {folder}") from None
    except OSError as error:
        if overwrite or error.errno not in READ_ONLY or not (folder / RESULTS).exists():
            raise ValueError(f"cannot write to {folder}: {error.strerror}") from None
        yield False
    else:
        try:
            yield True
        finally:
            lock.release()


def holds(folder: Path, configuration: Mapping[str, Any], code: Mapping[str, str]) -> bool:
    """Whether a folder holds work of this configuration, finished or not. Nothing is written.

    Args:
      configuration: the fields that decide the numbers, field -> value as read from JSON.
      code: digest of each file of the code that simulates, see `provenance.code_of`.

    Raises:
      ValueError: the folder holds another configuration (the message names the fields), an
        unfinished run of other code (it names the files), results without a configuration, or a
        configuration that cannot be read.
    """
    file = folder / CONFIG
    outputs = [name for name in (*WRITTEN, SHARDS) if (folder / name).exists()]
    if not outputs:  # a configuration alone comes from a run that computed nothing
        if file.exists() and CODE not in _configuration(file):
            raise ValueError(
                f"{folder} holds a {CONFIG} that no sweep wrote; choose another --out, or "
                "--overwrite"
            )
        return False
    if not file.exists():
        raise ValueError(
            f"{folder} holds {outputs[0]} but no {CONFIG}; choose another --out, or --overwrite"
        )
    saved = _configuration(file)
    saved_code = saved.pop(CODE, {})
    if differ := differences(saved, configuration):
        raise ValueError(
            f"{folder} holds another configuration: {differ}; choose another --out, or --overwrite"
        )
    finished = (folder / RESULTS).exists()
    begun = (folder / SHARDS).exists() and not finished
    if begun and saved_code != code:
        raise ValueError(
            f"{folder} holds an unfinished run of other code, which would be mixed with this: "
            f"{', '.join(changed(saved_code, code))} changed; --overwrite starts afresh"
        )
    return begun or finished


def claim(
    folder: Path,
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    *,
    overwrite: bool,
) -> None:
    """Make the folder this configuration's; with `overwrite`, empty it first.

    Args:
      configuration, code: see `holds`.

    Raises:
      ValueError: as in `holds`, unless the folder is to be overwritten; or it cannot be written to.
    """
    held = not overwrite and holds(folder, configuration, code)
    discard_torn(folder)
    discard_torn(folder / SHARDS)  # not below: parts may be writing there
    for name in (CONFIG, *WRITTEN):
        if (folder / name).is_dir():  # refused now, not after hours of work
            raise ValueError(f"cannot write {folder / name}: it is a folder")
    if held:
        return
    try:
        for name in (CONFIG, *WRITTEN):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None
    discard_shards(folder)
    text = json.dumps({**configuration, CODE: code}, indent=2)
    files.write_whole(folder / CONFIG, lambda path: path.write_text(text + "\n"))


def configuration_text(folder: Path) -> str:
    """Configuration and code of a folder, independent of the layout of config.json; empty where
    there is none."""
    file = folder / CONFIG
    return json.dumps(_configuration(file), sort_keys=True) if file.exists() else ""


def _configuration(file: Path) -> dict[str, Any]:
    try:
        saved = json.loads(file.read_text())
        if isinstance(saved, dict) and isinstance(saved.get(CODE, {}), dict):
            return saved
    except (ValueError, OSError):
        pass
    raise ValueError(f"{file} is not readable; --overwrite starts afresh")


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The fields whose values differ, with both values; empty where none differs."""
    return ", ".join(
        f"{k} ({saved.get(k)} there, {now.get(k)} now)"
        for k in sorted(saved.keys() | now.keys())
        if saved.get(k) != now.get(k)
    )


def changed(saved: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Files whose digests differ, or which are on one side only."""
    return sorted(f for f in saved.keys() | now.keys() if saved.get(f) != now.get(f))


def discard_shards(folder: Path) -> None:
    """Remove the shards of a run, if any are left."""
    shutil.rmtree(folder / SHARDS, ignore_errors=True)


def discard_torn(folder: Path) -> None:
    """Remove what killed writes have left among a run's files in a folder; hold its lock first."""
    for name in (CONFIG, *WRITTEN):
        files.discard_torn(folder / name)
    for shard in folder.glob(".[0-9]*.npz"):
        shard.unlink(missing_ok=True)


def check_not_own(path: Path | None, folder: Path) -> None:
    """Raise `ValueError` if an output file that the user chose is one of the run's own; None
    passes."""
    if path is None:
        return
    target, home = path.resolve(), folder.resolve()
    hidden = target.parent == home and target.name.startswith(".")  # locks
    run_files = [home / name for name in (CONFIG, *WRITTEN)]
    linked = target.exists() and any(target.samefile(f) for f in run_files if f.exists())
    if target in run_files or hidden or linked or target.is_relative_to(home / SHARDS):
        raise ValueError(f"--json would overwrite the run's own {path}")


def write_results(folder: Path, write: Callable[[Path], Any]) -> None:
    """Write RESULTS, and before it gets its name, DIGEST.

    Raises:
      ValueError: see `files.write_together`.
    """
    digests: list[str] = []

    def write_noted(path: Path) -> None:
        write(path)
        digests.append(files.sha256(path))

    def write_digest(path: Path) -> None:
        path.write_text(_digest_line(digests[0]))

    writes = {folder / RESULTS: write_noted, folder / DIGEST: write_digest}
    files.write_together(writes, overwrite=True)


def _digest_line(digest: str) -> str:
    """The format of `sha256sum --check`."""
    return f"{digest}  {RESULTS}\n"


def check_digest(folder: Path) -> None:
    """Raise `ValueError` unless RESULTS is as `write_results` wrote it, byte by byte."""
    path, digest = folder / RESULTS, folder / DIGEST
    try:
        line = digest.read_bytes()
        if not re.fullmatch(_digest_line("[0-9a-f]{64}").encode(), line):
            raise ValueError(f"{digest} is damaged: it holds no digest of {path.name}")
        if line != _digest_line(files.sha256(path)).encode():
            raise ValueError(f"{path} is damaged: its digest is not the one in {digest.name}")
    except FileNotFoundError as error:
        raise ValueError(f"{path} cannot be trusted: there is no {error.filename}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


class SteadyFile(FileIO):
    """A file that accepts every write, for a library that does not survive a failed one: HDF5 ends
    the process when it closes a file on a full disk.

    After the first failure nothing more is written, and leaving the `with` block raises it.
    """

    _failure: BaseException | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        try:
            while len(rest) and self._failure is None:
                rest = rest[super().write(rest) :]
        except BaseException as failure:  # Ctrl-C too may come inside the library
            self._failure = failure
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as failure:
            self._failure = self._failure or failure
            return self.tell() if size is None else size

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)  # type: ignore[arg-type]
        if self._failure is not None:
            raise self._failure from None
