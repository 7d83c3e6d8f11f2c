"""Write files whole or not at all.

Nothing is written over a file that the command reads, or over one of a study; over any other file
that jbt did not make, or that was changed since, only if the user says so (`--overwrite`). jbt
knows its own files by what stands in them: JSON begins with the settings, HTML names its generator,
`report.md` and `jbt.toml` end with the digests of themselves and of the files beside them (`mark`).
An empty file may always be written over.
"""

from __future__ import annotations

import dataclasses
import enum
import errno
import hashlib
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from jbt.border import inputs

JOURNAL = "journal.jsonl"
"""The journal of a study."""

STUDY_FILES = (JOURNAL, "journal.damaged", "items.csv", "anchors.csv", ".lock", ".asking")
"""Files of a study, which only the study writes."""

REPORT, SETTINGS = "report.md", "jbt.toml"
"""The report of a folder, and how the tables of a folder are read."""

MARKS = {REPORT: ("<!-- ", " -->"), SETTINGS: ("# ", "")}
"""Files whose last line has the digests of themselves and of the files beside them, and how this
line, a comment, begins and ends."""

HEAD = 2**20
"""Bytes at the beginning of a file that say whether jbt made it."""


Content = str | bytes | Callable[[Path], Any]
"""What a file holds, or a function that writes it to a path."""


def write_whole(path: Path, content: Content) -> None:
    """Write one file as `write_together` does, over any file but one that this command reads or
    one of a study."""
    write_together({path: content}, overwrite=True)


def write_together(contents: Mapping[Path, Content], *, overwrite: bool = False) -> None:
    """Write files that belong together, so that each is whole or absent, even after SIGKILL: all
    are on the disk before the last of them gets its name, then the one before it, and so on. One
    file that the user names is written through a link; links among several are replaced. Into a
    terminal or a pipe text is written directly.

    Args:
      contents: what each file holds; a function gets a temporary name.
      overwrite: see `check_replaceable`.

    Raises:
      ValueError: one file cannot be written, because the disk is full, say, or written over; then
        none is.
    """
    temporary, path = {}, Path()
    for path in contents:
        check_replaceable(path, overwrite=overwrite)
    try:
        for path, content in contents.items():
            if path.is_dir():  # refused before any other file gets its name
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if path.exists() and not path.is_file():
                _write(path, content)
                continue
            target = path.resolve() if len(contents) == 1 else path
            discard_torn(target, older=STALE_SECONDS)
            # A name that no other writer of the file uses, on this machine or another.
            temporary[target] = target.with_name(f".{secrets.randbits(60)}.{target.name}")
            _write(temporary[target], content)
            with temporary[target].open("rb+") as f:
                os.fsync(f.fileno())
        for path in reversed(temporary):
            os.replace(temporary[path], path)
        for folder in {path.parent for path in temporary}:
            sync_folder(folder)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        for written in temporary.values():
            written.unlink(missing_ok=True)


def _write(path: Path, content: Content) -> None:
    if callable(content):
        content(path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def sync_folder(folder: Path) -> None:
    """Put the names of new and renamed files on the disk, where the system can."""
    with suppress(OSError):  # a system that opens no folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_replaceable(path: Path, *, overwrite: bool) -> None:
    """Check that a file may be written over; one that does not exist may be.

    Args:
      overwrite: whether the user allows it for a file that jbt did not make.

    Raises:
      ValueError: it is read by this command, belongs to a study, or was not made by jbt.
    """
    try:
        target = path.resolve()
    except (OSError, RuntimeError):  # which of them depends on the version of Python
        raise ValueError(f"cannot write {path}: its links lead in a circle") from None
    if inputs.is_read(path):
        raise ValueError(f"cannot write {path}: this command reads it; choose another name")
    if target.name in STUDY_FILES and _is_study(target.parent):
        raise ValueError(f"cannot write {path}: it belongs to the study in {target.parent}")
    if overwrite or not path.is_file() or not path.stat().st_size or is_own(path):
        return
    raise ValueError(
        f"cannot write {path}: it exists, and jbt did not make it or it was changed since; "
        "choose another name, or --overwrite"
    )


def _is_study(folder: Path) -> bool:
    """Whether a folder holds the journal of a study, be it damaged."""
    journal = folder / JOURNAL
    if not journal.is_file():
        return False
    with journal.open("rb") as file:
        return b'"event": ' in file.read(HEAD)


def is_own(path: Path) -> bool:
    """Whether jbt made a file, and nobody changed the files of a report since."""
    try:
        for name in MARKS:  # a digest, where there is one, tells changes that the head does not
            if (known := _is_marked(path, name)) is not None:
                return known
        with path.open("rb") as file:
            head = file.read(HEAD)
        if head.startswith(b'{"settings": {') and b'"jbt": "' in head.partition(b"\n")[0]:
            return True
        if head.startswith(b"[\n") and b'"estimate":' in head and b'"ci_low":' in head:
            return True  # the table of a sweep
        return b'<meta name="generator" content="jbt' in head[:1000]
    except (OSError, UnicodeDecodeError):
        return False


def _is_marked(path: Path, name: str) -> bool | None:
    """Whether the file of `MARKS` beside a file has its digest; None where it does not name it."""
    begin, end = MARKS[name]
    if not (path.parent / name).exists():
        return None
    text, _, mark = (path.parent / name).read_text(encoding="utf-8").rpartition(f"\n{begin}")
    if f" {path.name}" not in mark:
        return None
    above = hashlib.sha256(text.encode()).hexdigest()
    digest = above if path.name == name else sha256(path)
    whole = mark.startswith("jbt ") and mark.endswith(f"{end}\n")
    return whole and f"{digest} {path.name}" in mark


def mark(contents: Mapping[str, bytes], name: str = REPORT) -> str:
    """The last line of a file of `MARKS`, by which jbt knows its files again.

    Args:
      contents: of this file above the line, and of the files beside it, by name.
    """
    begin, end = MARKS[name]
    digests = (f"{hashlib.sha256(content).hexdigest()} {n}" for n, content in contents.items())
    return f"\n{begin}jbt {', '.join(digests)}{end}\n"


STALE_SECONDS = 3600.0
"""A file unchanged for this long is no longer being written."""


def discard_torn(path: Path, *, older: float = 0.0) -> None:
    """Remove temporary files that killed writes of a file have left.

    Args:
      older: only files unchanged for so many seconds; 0 where a lock keeps other writers out.
    """
    for file in path.parent.glob(".[0-9]*"):
        if re.fullmatch(rf"\.\d+\.{re.escape(path.name)}", file.name):
            with suppress(FileNotFoundError):
                if not older or time.time() - file.stat().st_mtime > older:
                    file.unlink()


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def check_writable(path: Path | None, *, overwrite: bool = False) -> None:
    """Raise `ValueError` for a file that could not be written, before hours are spent on its
    content; None passes."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder, not the name of a file")
    target = path if path.exists() else path.absolute().parent
    if not target.exists():
        raise ValueError(f"cannot write {path}: no folder {target}")
    if not os.access(target, os.W_OK):
        raise ValueError(f"cannot write {path}: no permission")
    check_replaceable(path, overwrite=overwrite)


def check_folder(path: Path | None, names: Sequence[str] = (), *, overwrite: bool = False) -> None:
    """Raise `ValueError` for a folder that could not be made or written to, or in which files of
    these names may not be written over; None passes."""
    if path is None:
        return
    parent = path.absolute()
    while not (parent.exists() or parent.is_symlink()):
        parent = parent.parent
    if not parent.is_dir():
        raise ValueError(f"cannot write to {path}: {parent} is no folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {path}: no permission")
    for name in names:
        check_replaceable(path / name, overwrite=overwrite)


def check_outputs(
    json: Path | None,
    out: Path | None,
    names: Sequence[str] = (),
    *,
    overwrite: bool,
) -> None:
    """Raise `ValueError` where a command could not write the files of `--json` and `--out`, or
    both are one.

    Args:
      names: of the files that the command writes into the folder `out`; none if it is a file.
    """
    check_writable(json, overwrite=overwrite)
    if names:
        check_folder(out, names, overwrite=overwrite)
    else:
        check_writable(out, overwrite=overwrite)
    if json is not None and out is not None:
        for path in [out / name for name in names] or [out]:
            if os.path.realpath(json) == os.path.realpath(path):
                raise ValueError(f"--json and --out both write {path}: choose two names")


def make_folder(path: Path) -> None:
    """Make a folder and its parents, if need be.

    Raises:
      ValueError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write to {path}: {error.strerror}") from None


def plain(x: Any) -> Any:
    """Results for JSON: fields of data classes and rows of data frames by their names, statuses by
    theirs in lower case, null for what is undefined or infinite."""
    if dataclasses.is_dataclass(x):
        return {field.name: plain(getattr(x, field.name)) for field in dataclasses.fields(x)}
    if isinstance(x, Mapping):
        return {key: plain(value) for key, value in x.items()}
    if hasattr(x, "to_dict"):  # a data frame; pandas is not imported, as --help needs none of it
        return plain(x.astype(object).where(x.notna(), None).to_dict("records"))
    if hasattr(x, "tolist"):  # an array, or a number of NumPy's
        import numpy as np

        if x.dtype.kind == "f" and np.isfinite(x).all():
            return x.tolist()  # of many pools most is defined
        x = x.tolist()
    if isinstance(x, tuple | list):
        return [plain(value) for value in x]
    if isinstance(x, enum.IntEnum):
        return x.name.lower()
    return None if isinstance(x, float) and not math.isfinite(x) else x


def write_json(path: Path, content: dict[str, Any] | list[Any], *, overwrite: bool = False) -> None:
    """JSON of what `plain` takes, with an entry of each top-level list a line: of many pools, that
    is written ten times as fast as with indents, and can still be read.

    Args:
      overwrite: see `check_replaceable`.

    Raises:
      ValueError: the file cannot be written, or written over.
    """
    write_together({path: as_json(content)}, overwrite=overwrite)


def as_json(content: dict[str, Any] | list[Any]) -> str:
    """The text of `write_json`."""
    content = plain(content)
    if isinstance(content, list):
        return _list(content) + "\n"
    text = ",\n".join(f"{json.dumps(key)}: {_list(value)}" for key, value in content.items())
    return "{" + text + "}\n"


def _list(value: Any) -> str:
    """JSON with a line for each entry of a list of objects; paths are text."""
    dump = partial(json.dumps, allow_nan=False, default=str)
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return dump(value)
    return "[\n" + ",\n".join(map(dump, value)) + "\n]"
