"""A run's folder: claimed by one configuration, written file by file, whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = "[0-9]" * 10
"""Of the first pool id of a shard, in its name."""

WRITTEN = ("results.nc", "table.csv", "figure.png")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder, made if need be; a lock dies with its process.

    Raises:
      ValueError: another run is in it, or it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"another run is writing to {folder}") from None
        yield


def claim(folder: Path, configuration: dict[str, Any], *, overwrite: bool) -> None:
    """Make the folder this configuration's; with `overwrite`, empty it first.

    Raises:
      ValueError: it holds another configuration (naming the fields that differ), results
        without one, or one that cannot be read; or it cannot be written to.
    """
    file = folder / "config.json"
    found = [name for name in (*WRITTEN, "shards") if (folder / name).exists()]
    if found and not file.exists() and not overwrite:
        raise ValueError(
            f"{folder} holds {found[0]} but no config.json; choose another --out, or --overwrite"
        )
    if file.exists() and not overwrite:
        try:
            there = dict(json.loads(file.read_text()))
        except (ValueError, TypeError):
            raise ValueError(f"{file} is not readable; --overwrite starts afresh") from None
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
        for torn in folder.glob("**/.[0-9]*"):  # a write that was killed
            torn.unlink()
        return
    text = json.dumps(configuration, indent=2)
    try:
        file.unlink(missing_ok=True)
        discard_shards(folder)
        for name in WRITTEN:
            (folder / name).unlink(missing_ok=True)
        write_whole(file, lambda path: path.write_text(text + "\n"))
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from None


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


def save_shard(folder: Path, group: str, ids: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """Keep the results of a chunk of pools, `ids` [n], arrays [n, ...]."""
    (folder / "shards").mkdir(exist_ok=True)

    def write(path: Path) -> None:
        with path.open("wb") as f:  # given a name, savez would append a suffix to it
            np.savez(f, ids=ids, **arrays)  # type: ignore[arg-type]

    write_whole(folder / "shards" / f"{group}-{ids[0]:010d}.npz", write)


def shards(folder: Path, group: str) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """(ids, arrays) of every chunk kept for a group."""
    for path in sorted((folder / "shards").glob(f"{group}-{DIGITS}.npz")):
        with np.load(path) as shard:
            arrays = dict(shard)
        yield arrays.pop("ids"), arrays


def discard_shards(folder: Path) -> None:
    """Remove the chunks, if any are left."""
    shutil.rmtree(folder / "shards", ignore_errors=True)


def defined(x: Any) -> Any:
    """Floats as JSON has them: null for what is undefined or infinite, never NaN."""
    x = np.asarray(x)
    if x.ndim:
        return [defined(v) for v in x]
    return float(x) if np.isfinite(x) else None
