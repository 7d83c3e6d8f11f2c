"""Reading tables. What a wrong file gets is in test_commands.py."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbt import own
from jbt.own import reading


def test_names_are_text_as_it_stands(tables):
    v, i = tables("pool,first,second,winner\n007,NA,1,first\n", "pool,item\n007,NA\n007,1\n")
    batch = own.load(v, i)
    assert batch.pools[0].pool == "007"
    assert batch.pools[0].items == ("NA", "1")
    assert batch.pools[0].judge is None
    assert own.load(str(v)).pools[0].items == ("NA", "1")  # items table not needed


def test_byte_order_mark_windows_lines_spaces_and_blank_lines(tables):
    verdict = "\ufeffpool, first,second ,winner\r\np, x,y ,first\r\n\r\np,y,x, tie\r\n\r\n"
    batch = own.load(*tables(verdict, "pool,item\np ,x\np,y\n"))
    assert batch.pools[0].items == ("x", "y")
    np.testing.assert_array_equal(batch.groups[0].comparisons.wins[0], [[0, 1], [0.5, 0]])


def test_parquet_reads_as_csv_does(tables):
    pytest.importorskip("pyarrow")
    v, i = tables()
    for path in (v, i):
        pd.read_csv(path).to_parquet(path.with_suffix(".parquet"))
    one = own.load(v, i, ["words"])
    two = own.load(v.with_suffix(".parquet"), i.with_suffix(".parquet"), ["words"])
    assert one.pools == two.pools
    wins = (batch.groups[0].comparisons.wins for batch in (one, two))
    np.testing.assert_array_equal(*wins)


def test_damaged_parquet_is_named_in_one_line(tables):
    """Wherever a bit is turned, and however little is left; pandas may raise a KeyError."""
    pytest.importorskip("pyarrow")
    v, _ = tables()
    path = v.with_suffix(".parquet")
    pd.read_csv(v).to_parquet(path)
    data = path.read_bytes()
    turned = [data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in range(0, len(data), 23)]
    refused = []
    for damaged in (b"", data[:300], *turned):
        path.write_bytes(damaged)
        try:
            own.read(path)
        except own.TableError as error:
            refused.append(str(error))
    assert len(refused) > len(turned) / 2
    assert all(line.startswith(str(path)) for line in refused)
    assert all(len(line.splitlines()) == 1 for line in refused)


PLAIN = "pool,first,second\np, NA,007 \n\u2028q,x y,\x85\n"


def both_readers(text: str) -> tuple[reading.Sheet | None, reading.Sheet, int]:
    """What the quick reader makes of a text, the careful one, and how many problems that had."""
    path, problems = Path("any.csv"), reading.Problems()
    header, separator = reading._header(path, text, set(), problems)
    at = {str(place): place for place in range(len(header))}
    quick = reading._read_plain(path, text, header, separator, at)
    return quick, reading._read_careful(path, text, header, separator, at, problems), problems.count


def assert_same(one: reading.Sheet, other: reading.Sheet) -> None:
    np.testing.assert_array_equal(one.lines, other.lines)
    assert one.columns.keys() == other.columns.keys()
    for name, column in one.columns.items():
        assert column.values == other[name].values
        np.testing.assert_array_equal(column.codes, other[name].codes)


@pytest.mark.parametrize("text", [PLAIN, PLAIN[:-1], PLAIN.replace("\n", "\r\n")])
def test_the_quick_reader_takes_plain_tables(text):
    quick, careful, n_problems = both_readers(text)
    assert quick is not None
    assert quick["1"].values == ["NA", "x y"]
    assert n_problems == 0
    assert_same(quick, careful)


SURPRISES = {
    "quotes": PLAIN.replace("NA", '"N,A"'),
    "a lone carriage return": PLAIN.replace("NA", "N\rA"),
    "a NUL": PLAIN.replace("NA", "N\0A"),
    "a byte order mark within": PLAIN.replace("p,", "\ufeffp,"),
    "a short row": PLAIN.replace(",007", ""),
    "a blank line": PLAIN.replace("\n", "\n\n", 1),
    "a blank row": PLAIN.replace("\n", "\n,,\n", 1),
    "a long field": PLAIN.replace("NA", "N" * csv.field_size_limit() + "A"),
    "a header only": "pool,first,second",
}


@pytest.mark.parametrize("case", SURPRISES)
def test_the_quick_reader_leaves_surprises_to_the_careful_one(case):
    assert both_readers(SURPRISES[case])[0] is None


FRAGMENTS = st.lists(
    st.sampled_from(["a", "b ", ",", ",", "\n", "\r\n", "\r", '"', "\0", " ", ";"])
)


@given(FRAGMENTS)
def test_both_readers_agree_on_any_text(fragments):
    try:
        quick, careful, n_problems = both_readers("a,b\n" + "".join(fragments))
    except own.TableError:
        return
    if quick is not None:
        assert n_problems == 0
        assert_same(quick, careful)
