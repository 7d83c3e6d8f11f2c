"""Bytes of a user's file to text: UTF-8, or UTF-16 with a byte order mark; also packed by gzip."""

from __future__ import annotations

import codecs
import gzip
import zlib

NOT_TEXT = "not text in UTF-8, or in UTF-16 with a byte order mark"


class Damaged(ValueError):
    """A file that cannot be read to its end: the reason, and the line, where there is one."""

    def __init__(self, reason: str, line: int | None = None):
        super().__init__(reason)
        self.line = line


def unpack(data: bytes) -> bytes:
    """What gzip has packed, or the same if it has not.

    Raises:
      Damaged: it cannot be unpacked.
    """
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise Damaged("cannot be unpacked: damaged or not whole") from None


def decode(data: bytes) -> str:
    """Text in UTF-8, or in UTF-16 with a byte order mark; also packed by gzip.

    Raises:
      Damaged: it is none, or cannot be unpacked.
    """
    data = unpack(data)
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = None if wide else data.count(b"\n", 0, error.start) + 1
        raise Damaged(NOT_TEXT, line) from None
