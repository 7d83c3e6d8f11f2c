"""A run's folder: claimed by one configuration, and known by what it holds."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jbt.border import files

CONFIG, LOCK, SHARDS = "config.json", ".lock", "shards"
RESULTS, DIGEST = "results.nc", "results.sha256"
"""DIGEST tells whether RESULTS is as it was written."""
TABLE, FIGURE, PAGE = "table.csv", "figure.png", "page.md"
WRITTEN = (RESULTS, DIGEST, TABLE, FIGURE, PAGE)
CODE = "code"
"""Key of config.json under which the digests of the code stand, beside the configuration."""

READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Busy(ValueError):
    """Another run holds the lock of a folder."""


@contextmanager
def locked(folder: Path, *, overwrite: bool = False, wait: float = 0.0) -> Iterator[bool]:
    """Keep other runs out of a folder, made if need be; a lock dies with its process.

    Args:
      overwrite: what it holds is to go.
      wait: for another run to leave it, in seconds.

    Yields:
      Whether the folder can be written to. One that cannot is not locked: nobody changes it.

    Raises:
      Busy: another run is in it.
      ValueError: it cannot be written to, although it holds no results or
        they are to be overwritten.
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
      configuration: what decides the numbers, field -> value as JSON has them.
      code: digest of each file of the code that simulates, see `provenance.code_of`.

    Raises:
      ValueError: it holds another configuration (naming the fields that differ), an unfinished run
        of other code (naming the files), results without a configuration, or one that cannot be
        read.
    """
    file = folder / CONFIG
    found = [name for name in (*WRITTEN, SHARDS) if (folder / name).exists()]
    if not found:  # a configuration alone is of a run that computed nothing
        return False
    if not file.exists():
        raise ValueError(
            f"{folder} holds {found[0]} but no {CONFIG}; choose another --out, or --overwrite"
        )
    there = _configuration(file)
    its_code = there.pop(CODE, {})
    if differ := differences(there, configuration):
        raise ValueError(
            f"{folder} holds another configuration: {differ}; choose another --out, or --overwrite"
        )
    finished = (folder / RESULTS).exists()
    begun = (folder / SHARDS).exists() and not finished
    if begun and its_code != code:
        raise ValueError(
            f"{folder} holds an unfinished run of other code, which would be mixed with this: "
            f"{', '.join(changed(its_code, code))} changed; --overwrite starts afresh"
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
      ValueError: as `holds`, unless it is to be overwritten; or it cannot be written to.
    """
    held = not overwrite and holds(folder, configuration, code)
    discard_torn(folder)
    discard_torn(folder / SHARDS)  # not below: parts may be writing there
    for name in (CONFIG, *WRITTEN):
        if (folder / name).is_dir():  # found now, not when hours of work are to be written there
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
    """Configuration and code of a folder, whatever the layout of config.json; empty where there is
    none."""
    file = folder / CONFIG
    return json.dumps(_configuration(file), sort_keys=True) if file.exists() else ""


def _configuration(file: Path) -> dict[str, Any]:
    try:
        there = json.loads(file.read_text())
        if isinstance(there, dict) and isinstance(there.get(CODE, {}), dict):
            return there
    except (ValueError, OSError):
        pass
    raise ValueError(f"{file} is not readable; --overwrite starts afresh")


def differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The fields whose values differ, with both; empty where there are none."""
    return ", ".join(
        f"{k} ({there.get(k)} there, {now.get(k)} now)"
        for k in sorted(there.keys() | now.keys())
        if there.get(k) != now.get(k)
    )


def changed(there: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Files whose digests differ, or which are on one side only."""
    return sorted(f for f in there.keys() | now.keys() if there.get(f) != now.get(f))


def discard_shards(folder: Path) -> None:
    """Remove the shards of a run, if any are left."""
    shutil.rmtree(folder / SHARDS, ignore_errors=True)


def discard_torn(folder: Path) -> None:
    """Remove what killed writes have left among a run's files in a folder; hold its lock."""
    for name in (CONFIG, *WRITTEN):
        files.discard_torn(folder / name)
    for shard in folder.glob(".[0-9]*.npz"):
        shard.unlink(missing_ok=True)


def check_not_own(path: Path | None, folder: Path) -> None:
    """Raise `ValueError` for an output of the user's choice that is a file of the run itself; None
    passes."""
    if path is None:
        return
    whole, home = path.resolve(), folder.resolve()
    hidden = whole.parent == home and whole.name.startswith(".")  # locks
    own = [home / name for name in (CONFIG, *WRITTEN)]
    linked = whole.exists() and any(whole.samefile(file) for file in own if file.exists())
    if whole in own or hidden or linked or whole.is_relative_to(home / SHARDS):
        raise ValueError(f"--json would overwrite the run's own {path}")
