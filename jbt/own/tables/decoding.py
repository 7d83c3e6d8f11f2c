"""Bytes of a user's file to text: UTF-8, or UTF-16 with a byte order mark; also packed by gzip."""

from __future__ import annotations

import codecs
import zlib

GZIP = b"\x1f\x8b"

NOT_TEXT = "not text in UTF-8, or in UTF-16 with a byte order mark"


LARGEST_RATIO, UNSUSPICIOUS = 100, 2**26
"""What gzip packs of a table is rarely a tenth of it. Beyond so many times the packed size and so
many bytes, what comes out is not unpacked any further: a megabyte of gzip may be a gigabyte."""


class Damaged(ValueError):
    """A file that cannot be read to its end: the reason, and the line, where there is one."""

    def __init__(self, reason: str, line: int | None = None):
        super().__init__(reason)
        self.line = line


def unpack(data: bytes) -> bytes:
    """What gzip has packed, or the same if it has not.

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
