"""Reading tables. What a wrong file gets is in test_commands.py."""

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbt import own
from jbt.own import reading as reader


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


@pytest.mark.parametrize("text", [PLAIN, PLAIN[:-1], PLAIN.replace("\n", "\r\n"), "\ufeff" + PLAIN])
def test_the_quick_reader_takes_plain_tables(text, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    quick = reader._read_plain(path)
    assert quick is not None
    pd.testing.assert_frame_equal(quick, reader._read_rows(path), check_index_type=False)


SURPRISES = {
    "quotes": PLAIN.replace("NA", '"N,A"'),
    "a lone carriage return": PLAIN.replace("NA", "N\rA"),
    "a NUL": PLAIN.replace("NA", "N\0A"),
    "a short row": PLAIN.replace(",007", ""),
    "a blank line": PLAIN.replace("\n", "\n\n", 1),
    "a blank row": PLAIN.replace("\n", "\n,,\n", 1),
    "a long field": PLAIN.replace("NA", "N" * csv.field_size_limit() + "A"),
    "another encoding": None,
    "nothing": "",
}


@pytest.mark.parametrize("case", SURPRISES)
def test_the_quick_reader_leaves_surprises_to_the_strict_one(case, tmp_path):
    path = tmp_path / "table.csv"
    text = SURPRISES[case]
    path.write_bytes(b"pool\n\xff\n" if text is None else text.encode())
    assert reader._read_plain(path) is None


FRAGMENTS = st.lists(st.sampled_from(["a", "b ", ",", ",", "\n", "\r\n", "\r", '"', "\0", " "]))


@given(FRAGMENTS)
def test_both_readers_agree_on_any_text(tmp_path_factory, fragments):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes("".join(fragments).encode())
    quick = reader._read_plain(path)
    if quick is not None:
        pd.testing.assert_frame_equal(quick, reader._read_rows(path), check_index_type=False)
