"""Bytes of a user's file to text, UTF-8 or UTF-16 with a byte order mark, also packed by gzip; and
text to the cells of CSV."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
import zlib
from collections.abc import Iterator, Set
from contextlib import contextmanager

import numpy as np
import pandas as pd

GZIP = b"\x1f\x8b"

ZIP = b"PK\x03\x04"

NOT_TEXT = "not text in UTF-8, or in UTF-16 with a byte order mark: save it as CSV in UTF-8"

SEPARATORS = ",\t;"

LONGEST_HEADER = 2**20
"""Characters searched for the header."""

LARGEST_RATIO, UNSUSPICIOUS = 100, 2**26
"""Unpacking stops beyond this many times the packed size and this many bytes: gzip rarely makes a
table ten times smaller, but can hide a gigabyte in a megabyte."""


class Damaged(ValueError):
    """A file that cannot be read to its end: the reason, and the line, if it is known."""

    def __init__(self, reason: str, line: int | None = None):
        super().__init__(reason)
        self.line = line


def unpack(data: bytes) -> bytes:
    """Unpack gzip; other bytes are returned as they are.

    Raises:
      Damaged: it cannot be unpacked, or is of a size that no table has.
    """
    if not data.startswith(GZIP):
        return data
    most, parts, left = max(UNSUSPICIOUS, LARGEST_RATIO * len(data)), [], data
    try:
        while left := left.lstrip(b"\0"):  # one archive after another, padded by zeros
            archive = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            parts.append(archive.decompress(left, most + 1))
            most -= len(parts[-1])
            if most < 0:
                raise Damaged(
                    f"unpacks to more than {LARGEST_RATIO} times its size, as no table does"
                )
            if not archive.eof:
                raise zlib.error
            left = archive.unused_data
    except zlib.error:
        raise Damaged("cannot be unpacked: damaged or not whole") from None
    return b"".join(parts)


def decode(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark; also packed by gzip.

    Raises:
      Damaged: it is no such text, or cannot be unpacked.
    """
    data = unpack(data)
    if data.startswith(ZIP):
        raise Damaged("a zip archive or a workbook, no table: unpack it, or save it as CSV")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = None if wide else data.count(b"\n", 0, error.start) + 1
        raise Damaged(NOT_TEXT, line) from None


@contextmanager
def damage() -> Iterator[None]:
    """Name what keeps a file from being read.

    Raises:
      Damaged: in place of what `read_bytes` raises, and the readers of Parquet.
    """
    try:
        yield
    except Damaged:
        raise
    except FileNotFoundError:
        raise Damaged("no such file") from None
    except OSError as error:
        reason = str(error.strerror or error).splitlines()[0]
        raise Damaged(f"cannot be read: {reason}") from None
    except ImportError:
        raise Damaged("reading Parquet needs the extra: judge-bt[parquet]") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"not a readable table ({str(error).splitlines()[0]})") from None


def find_header(text: str, known: Set[str] = frozenset()) -> tuple[list[str], str]:
    """The header and its separator: the one that gives most known names, then most names.

    Raises:
      Damaged: there is no header.
    """
    empty = 1, "the file is empty"
    rows = {c: next(_rows(text[:LONGEST_HEADER], c), empty)[1] for c in SEPARATORS}
    headers = {c: [v.strip() for v in row] for c, row in rows.items() if isinstance(row, list)}
    if not headers:
        raise Damaged(str(rows[","]))
    separator = max(headers, key=lambda c: (len(known & set(headers[c])), len(headers[c])))
    if "\0" in "".join(headers[separator]):
        raise Damaged(NOT_TEXT)
    return headers[separator], separator


def read_csv(text: str, known: Set[str] = frozenset()) -> tuple[pd.DataFrame, dict[int, str]]:
    """Read the rows below a header, without blank ones.

    Args:
      known: names that help to find the separator.

    Returns:
      Cells as they stand, by the line on which each row begins; what is wrong with other lines.

    Raises:
      Damaged: there is no header.
    """
    limit = csv.field_size_limit(2**31 - 1)
    try:
        header, separator = find_header(text, known)
        cells, wrong = quick(text, separator, len(header)), {}
        if cells is None:
            cells, wrong = careful(text, separator, len(header))
    finally:
        csv.field_size_limit(limit)
    return cells.set_axis(header, axis=1), wrong


def quick(text: str, separator: str, width: int) -> pd.DataFrame | None:
    """What `careful` returns, if every line is a row of as many fields as the header and quotes
    are only around whole fields without a separator; None for any other file."""
    text = text.replace("\r\n", "\n").removesuffix("\n") + "\n"
    data = np.frombuffer(text.encode(), np.uint8)
    bounds = np.flatnonzero((data == ord(separator)) | (data == ord("\n")))
    ends_line = data[bounds] == ord("\n")
    n_lines = int(ends_line.sum())
    if (
        any(c in text for c in "\r\0\ufeff")
        or n_lines * width != len(bounds)
        or not ends_line[width - 1 :: width].all()
    ):
        return None
    quotes = np.flatnonzero(data == ord('"'))
    fields = np.searchsorted(bounds, quotes[::2])
    if not (
        np.array_equal(quotes[::2], np.append(0, bounds + 1)[fields])
        and np.array_equal(quotes[1::2], bounds[fields] - 1)
    ):
        return None
    text = text.replace('"', "")
    if n_lines == 1 or re.search(rf"\n(?:[^\S\n]|{separator})*\n", f"\n{text}"):
        return None
    cells = pd.read_csv(
        io.StringIO(text),
        sep=separator,
        header=None,
        names=list(range(width)),
        skiprows=1,
        dtype=object,  # any other type, category too, may turn "007" into 7
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        skip_blank_lines=False,
        engine="c",
    )
    return cells.set_axis(np.arange(2, n_lines + 1))


def careful(text: str, separator: str, width: int) -> tuple[pd.DataFrame, dict[int, str]]:
    """Read row by row: pandas, twice as fast, says neither on which line a row begins nor that a
    quote is misplaced, and fills up a row that is too short."""
    cells, lines, wrong = [], [], {}
    for line, fields in itertools.islice(_rows(text, separator), 1, None):
        if isinstance(fields, str):
            wrong[line] = fields
        elif len(fields) != width:
            wrong[line] = f"{len(fields)} fields, the header has {width}"
        else:
            cells += fields  # a list of lists would be searched for cycles again and again
            lines.append(line)
    table = np.array(cells, object).reshape(-1, width)
    return pd.DataFrame(table, lines, dtype=object), wrong


def _rows(text: str, separator: str) -> Iterator[tuple[int, list[str] | str]]:
    """The line on which each row begins, and its fields or what is wrong with it; without blank
    rows."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    line, more = 1, True
    while more:
        try:
            for fields in reader:
                if any(map(str.strip, fields)):
                    yield line, fields
                line = reader.line_num + 1
            more = False
        except csv.Error as error:
            yield line, f"not CSV ({error}): is a quote missing?"
            line = reader.line_num + 1
