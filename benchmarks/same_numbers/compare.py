"""The differences between two recordings: numbers to 1e-9, or every byte."""

from __future__ import annotations

import csv
import difflib
import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOLERANCE = 1e-9
COMPARED = {".csv", ".json", ".md", ".png", ".txt"}
"""Files whose bytes are compared: also what was printed. A journal has the time in it."""

UNCOMPARED = {
    *("jbt", "jax", "version", "versions", "code"),
    *("out", "json", "verdicts", "items", "anchors", "files", "written"),
}
"""Keys of versions, digests of the code, and paths."""


def compare(before: Path, after: Path, runs: set[str], *, exact: bool = False) -> list[str]:
    """The differences, a line each; at most twenty of a file.

    Args:
      before, after: folders that `record` wrote.
      runs: folders in them to compare.
      exact: compare every byte; otherwise numbers to `TOLERANCE`, and sentences may differ.
    """
    differences = []
    files = [set(_files(root, runs, exact)) for root in (before, after)]
    for name in sorted(files[0] ^ files[1]):
        differences.append(f"{name}: only {'before' if name in files[0] else 'after'}")
    for name in sorted(files[0] & files[1]):
        old, new = before / name, after / name
        if exact and name.endswith(".png"):
            lines = [] if old.read_bytes() == new.read_bytes() else [": another image"]
        elif exact:
            lines = list(_lines(old.read_text(), new.read_text()))
        else:
            lines = list(_differences(_content(old), _content(new), ""))
        differences += [f"{name}{line}" for line in lines[:20]]
        if len(lines) > 20:
            differences.append(f"{name}: {len(lines) - 20} more")
    return differences


def _files(root: Path, runs: set[str], exact: bool) -> Iterator[str]:
    suffixes = COMPARED if exact else {".csv", ".json"}
    for run in runs:
        for path in (root / run).rglob("*"):
            if path.name == "exit" or path.suffix in suffixes:
                yield str(path.relative_to(root))


def _lines(before: str, after: str) -> Iterator[str]:
    """The lines that only one of two texts has, marked - (before) and + (after)."""
    changes = difflib.unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm="")
    for line in itertools.islice(changes, 2, None):  # after the names of the files
        if not line.startswith("@@"):
            yield f": {line}"


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    return path.read_text()


def _differences(before: Any, after: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key in UNCOMPARED:
                continue
            if key not in before or key not in after:
                yield f"{where}.{key}: only {'before' if key in before else 'after'}"
            else:
                yield from _differences(before[key], after[key], f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} entries before, {len(after)} after"
        for i, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _differences(old, new, f"{where}[{i}]")
    elif (old := _number(before)) is not None and (new := _number(after)) is not None:
        if not math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield f"{where}: {before} before, {after} after"
    elif before != after and not (_is_sentence(before) and _is_sentence(after)):
        yield f"{where}: {before!r} before, {after!r} after"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _is_sentence(value: Any) -> bool:
    """Whether a value is words with spaces, which may be reworded."""
    return isinstance(value, str) and bool(re.search(r"\w \w", value))
