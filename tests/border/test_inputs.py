"""Files that unpack to more than they seem to hold and what is no file."""

import gzip
import os
import tracemalloc

import pytest

from jbt import own
from jbt.own.tables.decoding import Damaged, unpack


def test_what_zeros_pack_is_not_unpacked_to_the_end(tmp_path):
    n = 180_000_000
    path = tmp_path / "verdicts.csv.gz"
    with gzip.GzipFile(path, "wb") as file:
        for _ in range(n // 10**6):
            file.write(bytes(10**6))
    tracemalloc.start()
    with pytest.raises(own.TableError) as refusal:
        own.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * 2**26 < n
    assert "unpacks to more than 100 times its size" in str(refusal.value)


def test_archives_one_after_another_and_zeros_behind_them():
    packed = gzip.compress(b"ab") + gzip.compress(b"c")
    assert unpack(packed) == unpack(packed + bytes(7)) == b"abc"
    for damaged in (packed + b"junk", packed[:-1], packed[:-5] + b"x" + packed[-4:]):
        with pytest.raises(Damaged, match="damaged or not whole"):
            unpack(damaged)


def test_what_is_no_file_is_refused_in_one_line(tmp_path, jbt):
    """A pipe gives its bytes once, and tables are read several times."""
    path = tmp_path / "verdicts"
    os.mkfifo(path)
    assert "it is a pipe or a device" in jbt("doctor", "--verdicts", path, code=2)
