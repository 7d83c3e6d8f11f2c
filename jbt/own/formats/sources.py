"""Records of a file: JSON, JSON lines, CSV, or Parquet with the extra `parquet`; also gzipped.

What a file holds is read as data; nothing in it is run.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jbt.border.inputs import read_bytes
from jbt.own.tables.decoding import Damaged, decode, unpack
from jbt.own.tables.reading import find_header

Found = tuple[int, Mapping[str, Any]]
"""Line of the file, from 1 (row, in Parquet), and a record that begins there."""

BATCH = 1000
"""Rows of a Parquet table held at a time."""


def read(path: Path) -> Iterator[Found]:
    """The records of a file, which its first bytes and its name tell how to read.

    Raises:
      Damaged: it cannot be read, or is damaged.
    """
    name = path.name.lower().removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            yield from _parquet(path)
            return
        text = decode(read_bytes(path))
        if not text.strip():
            raise Damaged("the file is empty")
        begins = text.lstrip()[:1]
        tabular = name.endswith((".csv", ".tsv", ".txt")) or begins not in ("[", "{")
        if tabular and not name.endswith((".json", ".jsonl")):
            yield from _csv(text)
        elif begins == "[":
            yield from _json(text)
        else:
            yield from _json_lines(text)
    except FileNotFoundError:
        raise Damaged("no such file") from None
    except OSError as error:
        raise Damaged(f"cannot be read: {error.strerror or error}") from None


def _constant(name: str) -> float | None:
    """NaN, which is no JSON, is how some tools write a missing number."""
    return None if name == "NaN" else float(name)


_DECODER = json.JSONDecoder(parse_constant=_constant)


def _json(text: str) -> Iterator[Found]:
    """The elements of a list, one at a time, so that the line of each is known."""
    at, line, counted = _next(text, text.index("[") + 1), 1, 0
    if text[at : at + 1] == "]":
        return
    while True:
        line += text.count("\n", counted, at)
        counted = at
        value, at = _decode(text, at, line)
        yield line, _record(value, line)
        at = _next(text, at)
        separator = text[at : at + 1]
        at = _next(text, at + 1)
        if separator == "]" and at == len(text):
            return
        if separator != ",":
            line += text.count("\n", counted, at)
            found = repr(separator) if separator and separator != "]" else "an end too early"
            found = "more after the list" if separator == "]" else found
            raise Damaged(f"not JSON: {found}", line)


def _next(text: str, at: int) -> int:
    """Where white space ends."""
    while text[at : at + 1] in (" ", "\n", "\r", "\t"):
        at += 1
    return at


def _json_lines(text: str) -> Iterator[Found]:
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
        found = type(value).__name__
        raise Damaged(f"a {found} where a record should be (an object)", line)
    return value


def _csv(text: str) -> Iterator[Found]:
    """Records of text, an empty field being null; the first line names the columns."""
    _, separator = find_header(text)
    limit = csv.field_size_limit(2**31 - 1)  # a conversation may be long
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        header: list[str] = []
        begins = 1
        for fields in reader:
            line, begins = begins, reader.line_num + 1
            if not any(field.strip() for field in fields):
                continue
            if not header:
                header = [field.strip() for field in fields]
                twice = [h for i, h in enumerate(header) if h in header[:i]]
                if twice:
                    raise Damaged(f"two columns are called {twice[0]!r}")
            elif len(fields) != len(header):
                found = f"{len(fields)} fields, the header has {len(header)}"
                raise Damaged(found, line)
            else:
                pairs = zip(header, fields, strict=True)
                yield line, {name: field or None for name, field in pairs}
    except csv.Error as error:
        raise Damaged(f"not CSV ({error})", begins) from None
    finally:
        csv.field_size_limit(limit)


def _parquet(path: Path) -> Iterator[Found]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Damaged("reading Parquet needs the extra: judge-bt[parquet]") from None
    data: Any = path
    if path.name.lower().endswith(".gz") or not path.is_file():
        data = pa.BufferReader(unpack(read_bytes(path)))
    number = 0
    try:
        with pq.ParquetFile(data) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                for record in batch.to_pylist():
                    number += 1
                    yield number, {k: _null(v) for k, v in record.items()}
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:  # damaged
        reason = str(error).splitlines()[0]
        raise Damaged(f"not a readable table ({reason})") from None


def _null(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value
