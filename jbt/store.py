"""A run's folder: claimed by one configuration, written file by file, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

WRITTEN = ("results.nc", "table.csv", "figure.png")
SHARDS = "shards"
CODE = "code"
"""Key of config.json under which the digests of the code stand, beside the configuration."""


@contextmanager
def locked(folder: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Keep other runs out of a folder, made if need be; a lock dies with its process.

    Args:
      wait: for another run to leave it, in seconds.

    Raises:
      ValueError: another run is in it, or it cannot be written to.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock", timeout=wait)
        lock.acquire()
    except Timeout:
        raise ValueError(f"another run is writing to {folder}") from None
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None
    try:
        yield
    finally:
        lock.release()


def claim(
    folder: Path,
    configuration: Mapping[str, Any],
    code: Mapping[str, str],
    *,
    overwrite: bool,
) -> None:
    """Make the folder this configuration's; with `overwrite`, empty it first.

    Args:
      configuration: what decides the numbers, field -> value as JSON has them.
      code: digest of each file of the code that simulates, see `provenance.code_of`.

    Raises:
      ValueError: it holds another configuration (naming the fields that differ), an unfinished run
        of other code (naming the files), results without a configuration, or one that cannot be
        read; or it cannot be written to.
    """
    file = folder / "config.json"
    discard_torn(folder)
    discard_torn(folder / SHARDS)  # not below: parts may be writing there
    found = [name for name in (*WRITTEN, SHARDS) if (folder / name).exists()]
    if found and not file.exists() and not overwrite:
        raise ValueError(
            f"{folder} holds {found[0]} but no config.json; choose another --out, or --overwrite"
        )
    if file.exists() and not overwrite:
        try:
            there = dict(json.loads(file.read_text()))
        except (ValueError, TypeError):
            raise ValueError(f"{file} is not readable; --overwrite starts afresh") from None
        its_code = there.pop(CODE, {})
        differ = [
            f"{k} ({there.get(k)} there, {configuration.get(k)} now)"
            for k in sorted(there.keys() | configuration.keys())
            if there.get(k) != configuration.get(k)
        ]
        if differ:
            raise ValueError(
                f"{folder} holds another configuration: {', '.join(differ)}; "
                "choose another --out, or --overwrite"
            )
        begun = (folder / SHARDS).exists() and not (folder / "results.nc").exists()
        if begun and its_code != code:
            raise ValueError(
                f"{folder} holds an unfinished run of other code, which would be mixed with this: "
                f"{', '.join(changed(its_code, code))} changed; --overwrite starts afresh"
            )
        if begun or (folder / "results.nc").exists():
            return
    try:
        file.unlink(missing_ok=True)
        discard_shards(folder)
        for name in WRITTEN:
            (folder / name).unlink(missing_ok=True)
        text = json.dumps({**configuration, CODE: code}, indent=2)
        write_whole(file, lambda path: path.write_text(text + "\n"))
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None


def changed(there: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Files whose digests differ, or which are on one side only."""
    return sorted(f for f in there.keys() | now.keys() if there.get(f) != now.get(f))


def discard_torn(folder: Path) -> None:
    """Remove what a write to a folder has left that was killed; hold its lock."""
    for torn in folder.glob(".[0-9]*"):
        torn.unlink()


def discard_shards(folder: Path) -> None:
    """Remove the shards of a run, if any are left."""
    shutil.rmtree(folder / SHARDS, ignore_errors=True)


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file so that it is there whole or not at all, even after SIGKILL."""
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(temporary)
        with temporary.open("rb+") as f:
            os.fsync(f.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path | None) -> None:
    """Raise `ValueError` for a file that `write_text` could not write, before hours are spent on
    what is to be written; None passes."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    there = path if path.exists() else path.absolute().parent
    if not there.exists():
        raise ValueError(f"cannot write {path}: no folder {there}")
    if not os.access(there, os.W_OK):
        raise ValueError(f"cannot write {path}: no permission")


def write_text(path: Path, text: str) -> None:
    """Write text to a file of the user's choice, whole or not at all; through links, and straight
    into what is no regular file (a terminal, a pipe).

    Raises:
      ValueError: it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text)
        else:
            write_whole(path.resolve(), lambda p: p.write_text(text))
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from None


def defined(x: Any) -> Any:
    """Floats as JSON has them: null for what is undefined or infinite, never NaN."""
    x = np.asarray(x)
    if x.ndim:
        return [defined(v) for v in x]
    return float(x) if np.isfinite(x) else None
