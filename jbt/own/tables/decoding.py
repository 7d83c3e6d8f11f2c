"""Bytes of a user's file to text, UTF-8 or UTF-16 with a byte order mark, also packed by gzip; and
text to rows of CSV."""

from __future__ import annotations

import codecs
import csv
import io
import zlib
from collections.abc import Iterator, Set

GZIP = b"\x1f\x8b"

NOT_TEXT = "not text in UTF-8, or in UTF-16 with a byte order mark"

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
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = None if wide else data.count(b"\n", 0, error.start) + 1
        raise Damaged(NOT_TEXT, line) from None


def find_header(text: str, known: Set[str] = frozenset()) -> tuple[list[str], str]:
    """The header and its separator: the one that gives most known names, then most names.

    Raises:
      Damaged: there is no header.
    """
    best: tuple[int, int, list[str], str] | None = None
    reasons = []
    for separator in SEPARATORS:
        fields = next(csv_rows(text[:LONGEST_HEADER], separator), (1, "the file is empty"))[1]
        if isinstance(fields, str):
            reasons.append(fields)
            continue
        names = [field.strip() for field in fields]
        candidate = len(known & set(names)), len(names), names, separator
        if best is None or candidate[:2] > best[:2]:
            best = candidate
    if best is None:
        raise Damaged(reasons[0])
    if any("\0" in name for name in best[2]):
        raise Damaged(NOT_TEXT)
    return best[2], best[3]


def csv_rows(
    text: str, separator: str, width: int | None = None
) -> Iterator[tuple[int, list[str] | str]]:
    """The line on which each row begins, and its fields or what is wrong with it; without blank
    rows. `width` is the number of fields that each row has to have."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    line, more = 1, True
    while more:
        try:
            for fields in reader:
                if any(map(str.strip, fields)):
                    fits = len(fields) == (width or len(fields))
                    yield line, fields if fits else f"{len(fields)} fields, the header has {width}"
                line = reader.line_num + 1
            more = False
        except csv.Error as error:
            yield line, f"not CSV ({error}): is a quote missing?"
            line = reader.line_num + 1
