"""Read the records of a file: JSON, JSON lines, CSV, or Parquet with the extra `parquet`; also
gzipped. A file is only data: nothing in it is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jbt.border.inputs import check_file, read_bytes
from jbt.own.tables.decoding import Damaged, damage, decode, read_csv, unpack

Located = tuple[int, Mapping[str, Any]]
"""Line of the file, from 1 (row, in Parquet), and the record that begins there."""

BATCH = 1000
"""Rows of a Parquet table held in memory at a time."""


def read(path: Path) -> Iterator[Located]:
    """Read the records of a file; its name and first character decide in which format.

    Raises:
      Damaged: the file cannot be read.
    """
    name = path.name.lower().removesuffix(".gz")
    with damage():
        if name.endswith(".parquet"):
            check_file(path)
            yield from _parquet(path)
            return
        text = decode(read_bytes(path))
        if not text.strip():
            raise Damaged("the file is empty")
        start = text.lstrip()[:1]
        tabular = name.endswith((".csv", ".tsv", ".txt")) or start not in ("[", "{")
        if tabular and not name.endswith((".json", ".jsonl")):
            yield from _csv(text)
        elif start == "[":
            yield from _json(text)
        else:
            yield from _json_lines(text)


def _constant(name: str) -> float | None:
    """Take NaN, which is not JSON but which some tools write, for a missing number."""
    return None if name == "NaN" else float(name)


_DECODER = json.JSONDecoder(parse_constant=_constant)

_SPACE = re.compile(r"[ \n\r\t]*")


def _json(text: str) -> Iterator[Located]:
    """The elements of a list, decoded one at a time: `json.loads` does not give their lines."""

    def skip(at: int) -> int:
        return _SPACE.match(text, at).end()  # type: ignore[union-attr]

    at, line, counted = skip(text.index("[") + 1), 1, 0
    separator = "," if text[at : at + 1] != "]" else "]"
    while separator == ",":
        line, counted = line + text.count("\n", counted, at), at
        value, at = _decode(text, at, line)
        yield line, _record(value, line)
        at = skip(at)
        separator, at = text[at : at + 1], skip(at + 1)
        if separator not in (",", "]") or (separator == "]" and at < len(text)):
            what = "more after the list" if separator == "]" else repr(separator)
            what = what if separator else "an end too early"
            raise Damaged(f"not JSON: {what}", line + text.count("\n", counted, at))


def _json_lines(text: str) -> Iterator[Located]:
    for number, line in enumerate(text.split("\n"), 1):
        if line := line.strip():
            value, end = _decode(line, 0, number)
            if line[end:].strip():
                raise Damaged("more than one JSON value", number)
            yield number, _record(value, number)


def _decode(text: str, at: int, line: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        line += text.count("\n", at, error.pos)
        raise Damaged(f"not JSON: {error.msg}", line) from None
    except RecursionError:
        raise Damaged("nested too deeply", line) from None
    except ValueError as error:  # a number of thousands of digits
        raise Damaged(f"not JSON: {error}", line) from None


def _record(value: Any, line: int) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Damaged(f"a {type(value).__name__} where a record should be (an object)", line)
    return value


def _csv(text: str) -> Iterator[Located]:
    """The rows below the header; an empty field is null."""
    cells, wrong = read_csv(text)
    header = list(map(str, cells))
    if twice := [name for i, name in enumerate(header) if name in header[:i]]:
        raise Damaged(f"two columns are called {twice[0]!r}")
    end = min(wrong, default=None)
    read = cells if end is None else cells[cells.index < end]
    for line, fields in zip(read.index.tolist(), read.to_numpy(object).tolist(), strict=True):
        yield line, {name: v or None for name, v in zip(header, fields, strict=True)}
    if end is not None:
        raise Damaged(wrong[end], end)


def _parquet(path: Path) -> Iterator[Located]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data: Any = path
    if path.name.lower().endswith(".gz"):
        data = pa.BufferReader(unpack(read_bytes(path)))
    number = 0
    with pq.ParquetFile(data) as file:
        for batch in file.iter_batches(batch_size=BATCH):
            for record in batch.to_pylist():
                number += 1
                yield number, {k: _null(v) for k, v in record.items()}


def _null(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value
