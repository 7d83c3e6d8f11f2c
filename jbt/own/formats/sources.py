"""Read the records of a file: JSON, JSON lines, CSV, or Parquet with the extra `parquet`; also
gzipped, or one in a zip archive; and Inspect's `.eval`. A file is only data: nothing in it is run.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jbt.border.inputs import check_file, read_bytes
from jbt.own.tables.decoding import (
    LARGEST_RATIO,
    UNSUSPICIOUS,
    ZIP,
    Damaged,
    damage,
    decode,
    read_csv,
    unpack,
)

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
        data = read_bytes(path)
        if data.startswith(ZIP):
            members = _members(data)
            if _START.keys() & members.keys():
                yield from _eval(members)
                return
            if len(members) > 1:
                what = "a zip archive of several files (or a workbook: save it as CSV)"
                raise Damaged(f"{what}: unpack it and name those to import")
            ((name, data),) = members.items()
            name = name.lower()
        text = decode(data)
        if not text.strip():
            raise Damaged("the file is empty")
        start = text.lstrip()[:1]
        tabular = name.endswith((".csv", ".tsv", ".txt")) or start not in ("[", "{")
        if tabular and not name.endswith((".json", ".jsonl")):
            yield from _csv(text)
        elif start == "[":
            yield from _json(text)
        elif (document := _document(text)) is not None:
            yield from ((1, record) for record in _flat(document))
        else:
            yield from _json_lines(text)


_START = {"header.json": "eval", "_journal/start.json": "eval"}
"""Members of Inspect's logs that describe the evaluation, the better first."""


def _members(data: bytes) -> dict[str, bytes]:
    """The files in a zip archive.

    Raises:
      Damaged: it cannot be unpacked, or is of a size that no log has.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            if sum(i.file_size for i in infos) > max(UNSUSPICIOUS, LARGEST_RATIO * len(data)):
                raise Damaged(f"unpacks to more than {LARGEST_RATIO} times its size")
            return {info.filename: archive.read(info) for info in infos}
    except (zipfile.BadZipFile, RuntimeError, EOFError) as error:
        raise Damaged(f"cannot be unpacked: {error}") from None


def _eval(members: Mapping[str, bytes]) -> Iterator[Located]:
    """The samples of an Inspect log, each with what the log says about the evaluation."""
    (start, *_) = [name for name in _START if name in members]
    log = _record(_decode(decode(members[start]), 0, 1)[0], 1)
    for name, data in members.items():
        if name.startswith("samples/"):
            sample = _record(_decode(decode(data), 0, 1)[0], 1)
            yield 1, {**sample, "eval": log.get("eval")}


def _document(text: str) -> Mapping[str, Any] | None:
    """The one object that the whole text is; None if there is more, or less."""
    try:
        return json.loads(text, parse_constant=_constant)
    except (ValueError, RecursionError):
        return None


def _flat(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The records of an object: an Inspect log, promptfoo's results, or a table of columns; else
    the object itself."""
    samples, results = document.get("samples"), document.get("results")
    if isinstance(samples, list) and "eval" in document:
        yield from ({**_record(sample, 1), "eval": document["eval"]} for sample in samples)
        return
    results = results.get("results") if isinstance(results, dict) else results
    if (
        isinstance(results, list)
        and results
        and isinstance(results[0], dict)
        and "provider" in results[0]
    ):
        yield from (_record(result, 1) for result in results)
        return
    columns = {key: v for key, v in document.items() if isinstance(v, list)}
    sizes = {len(values) for values in columns.values()}
    if len(columns) < max(3, len(document) / 2) or len(sizes) != 1:
        yield document
        return
    for i in range(sizes.pop()):
        yield {**document, **{key: values[i] for key, values in columns.items()}}


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
