"""Reading tables. What a wrong file gets is in test_commands.py."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbt import own
from jbt.own.tables import decoding


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


def both_readers(text: str):
    """What pandas and the csv module make of a text, each cells by line, and what the latter has to
    say against other lines."""
    header, separator = decoding.find_header(text)
    quick = decoding.quick(text, separator, len(header))
    return quick, *decoding.careful(text, separator, len(header))


@pytest.mark.parametrize("text", [PLAIN, PLAIN[:-1], PLAIN.replace("\n", "\r\n")])
def test_the_quick_reader_takes_plain_tables(text):
    quick, careful, wrong = both_readers(text)
    assert quick is not None
    assert quick[1].tolist() == [" NA", "x y"]
    assert not wrong
    pd.testing.assert_frame_equal(quick, careful, check_index_type=False)


SURPRISES = {
    "quotes": PLAIN.replace("NA", '"N,A"'),
    "a lone carriage return": PLAIN.replace("NA", "N\rA"),
    "a NUL": PLAIN.replace("NA", "N\0A"),
    "a byte order mark within": PLAIN.replace("p,", "\ufeffp,"),
    "a short row": PLAIN.replace(",007", ""),
    "a blank line": PLAIN.replace("\n", "\n\n", 1),
    "a blank row": PLAIN.replace("\n", "\n,,\n", 1),
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
    quick, careful, wrong = both_readers("a,b\n" + "".join(fragments))
    if quick is not None:
        assert not wrong
        pd.testing.assert_frame_equal(quick, careful, check_index_type=False)


def read(tables, verdicts: str, items: str | None = None, **options) -> own.Tables:
    v, i = tables(verdicts, items or "")
    return own.read(v, None if items is None else i, **options)


def refused(tables, *arguments, **options) -> list[str]:
    """What the problems are, without the paths before and, "in file", after."""
    with pytest.raises(own.TableError) as error:
        read(tables, *arguments, **options)
    lines = [re.sub(r"\S+/", "", line) for line in str(error.value).splitlines()]
    return [line.removeprefix("verdicts.csv, ").removeprefix("verdicts.csv: ") for line in lines]


@pytest.mark.parametrize(
    ("pairs", "shares"),
    [
        ("gpt,llama,gpt gpt,llama,LLAMA gpt,llama,Tie gpt,llama,second", [1, 0, 0.5, 0]),
        ("x,X,x x,X,X", [1, 0]),  # as they stand before the case of letters is left out
        ("first,x,x first,x,first", [0, 1]),  # as a word and as a name it says the same
    ],
)
def test_winners_may_be_named(pairs, shares, tables):
    found = read(tables, "first,second,winner\n" + pairs.replace(" ", "\n") + "\n")
    assert found.verdicts["p_first"].tolist() == shares
    assert (found.pools, found.judges) == (["all"], [None])


@pytest.mark.parametrize(
    ("pairs", "problems"),
    [
        (
            "a,A,a b,B,Bb c,C,tie",
            ["line 3: winner is 'Bb', allowed: first, second, tie, error, or"],
        ),
        ("ß,SS,ss", ["line 2: winner is 'ss', which may be either"]),
        (
            "tie,x,x x,tie,Tie",
            ["line 3: winner is 'Tie': as a word, a tie; as the name of an item"],
        ),
        ("x,first,x x,first,first", ["line 3: winner is 'first': as a word, the first won; as"]),
    ],
)
def test_winners_that_are_not_clear_are_refused(pairs, problems, tables):
    found = refused(tables, "first,second,winner\n" + pairs.replace(" ", "\n") + "\n")
    assert [line[: len(p)] for line, p in zip(found, problems, strict=True)] == problems


def test_graded_verdicts_and_order(tables):
    text = "pool,first,second,p_first,order\np,a,b,.25,shown\np,a,b,,shown\np,b,a,0.5,Unknown\n"
    found = read(tables, text)
    assert found.verdicts["p_first"].tolist() == [0.25, 0.5]
    assert found.verdicts["shown"].tolist() == [True, False]
    assert found.verdicts["line"].tolist() == [2, 4]
    assert found.counts[["n_verdicts", "n_errors", "n_ties"]].to_numpy().tolist() == [[2, 1, 1]]
    assert "1 verdict of unknown order" in found.summary[-1]
    both = text.replace("order", "winner").replace("shown", "tie")
    assert refused(tables, both)[0] == "has both winner and p_first, needs exactly one of them"
    chosen = read(tables, both, columns=own.Columns(winner="p_first"))
    assert chosen.verdicts["p_first"].tolist() == [0.25, 0.5]


def test_ties_are_half_a_win_or_dropped(tables):
    half, dropped = (own.read(*tables(), ties=ties) for ties in ("half", "drop"))
    assert half.counts["n_verdicts"].tolist() == [4, 1, 2, 0, 0, 0]
    assert dropped.counts["n_verdicts"].tolist() == [2, 1, 2, 0, 0, 0]
    assert half.counts["n_ties"].tolist() == dropped.counts["n_ties"].tolist() == [2, 0, 0, 0, 0, 0]
    pd.testing.assert_frame_equal(half.without_ties().verdicts, dropped.verdicts)
    assert "2 ties, each half a win for both" in half.summary
    assert "2 ties, dropped" in dropped.summary


def test_other_names_of_columns(tables):
    text = "question,model_a,model_b,vote,grader,first\nq,a,b,first,g,1\n"
    columns = own.Columns("model_a", "model_b", "vote", "question", "grader")
    found = read(tables, text, "question,item\nq,a\nq,b\n", columns=columns)
    assert (found.pools, found.judges, len(found.verdicts)) == (["q"], ["g"], 1)
    assert read(tables, text, "pool,item\nq,a\nq,b\n", columns=columns).pools == ["q"]
    assert refused(tables, text, columns=own.Columns(first="left"))[0].startswith(
        "no column 'left'; columns are 'question', 'model_a'"
    )
    with pytest.raises(ValueError, match="column 'a' is named for two things"):
        own.Columns("a", "a")


def test_tables_that_do_not_go_together(tables):
    text = "pool,first,second,winner\np,a,b,first\n"
    assert refused(tables, text, "item\na\nb\n") == [
        "items.csv: no column 'pool', which verdicts.csv has"
    ]
    assert refused(tables, text.replace("pool", "Pool"))[0] == (
        "column 'Pool' has to be called 'pool' to be read"
    )
    items = "pool,item,quality\np,a,1\np,b,good\n"
    assert refused(tables, text, items) == [
        "items.csv, line 3: quality is 'good', allowed: numbers within +-1e+100, or nothing"
    ]
    assert read(tables, text, items.replace("good", "")).items["quality"].isna().tolist() == [0, 1]
    assert refused(tables, text, content="model")[0].startswith("the column 'model' of contents")
    assert "cannot be a covariate" in refused(tables, text, items, covariates=["item"])[0]


def test_contents_and_merged_pools(tables):
    text = "pool,first,second,winner\np,a,b,first\nq,a,b,tie\n"
    items = "pool,item,content,base\np,a,A,1\np,b,B,2\nq,a,A,1\nq,b,C,1\n"
    found = read(tables, text, items)
    assert (found.items["content"].tolist(), found.contents) == ([0, 1, 0, 2], ["A", "B", "C"])
    other = read(tables, text, items, content="base")
    assert (other.items["content"].tolist(), other.contents) == ([0, 1, 0, 0], ["1", "2"])
    merged = read(tables, text, items, merge_pools=True)
    assert (merged.pools, merged.items["pool"].tolist()) == (["all"], [0, 0, 0, 0])
    assert merged.items["item"].tolist() == ["p/a", "p/b", "q/a", "q/b"]
    assert merged.items["content"].tolist() == [0, 1, 0, 2]
    assert merged.verdicts["source"].tolist() == [0, 1]
    untied = read(tables, text, items, merge_pools=True, content=None)
    assert untied.items["content"].tolist() == [0, 1, 2, 3]
    by_name = read(tables, text, merge_pools=True, content="item")
    assert (by_name.items["content"].tolist(), by_name.contents) == ([0, 0, 1, 1], ["a", "b"])


def test_anchors(tables, tmp_path):
    text, path = "pool,first,second,winner\np,a,b,first\nq,a,b,tie\n", tmp_path / "anchors.csv"
    path.write_text("pool,better,worse\nq,b,a\np,a,b\n")
    found = read(tables, text, anchors=path)
    assert found.anchors.to_numpy().tolist() == [[1, 3, 1], [0, 0, 2]]
    assert [found.items["item"][i] for i in found.anchors["better"]] == ["b", "a"]
    path.write_text("pool,better,worse\nq,b,a\nq,a,b\np,a,a\nr,a,b\np,a,c\n")
    assert refused(tables, text, anchors=path) == [
        "anchors.csv, line 4: better and worse are the same item, 'a'",
        "anchors.csv, line 5: pool 'r' is not in verdicts.csv",
        "anchors.csv, line 6: item 'c' of pool 'p' is not in verdicts.csv",
    ]


@pytest.mark.parametrize("cell", ['"first', '"first"x', '"fir"st"'])
def test_quotes_that_do_not_close_are_refused(cell, tables):
    text = f"pool,first,second,winner\np,a,b,tie\np,a,b,{cell}\n"
    (problem,) = refused(tables, text)
    assert problem.startswith("line 3: not CSV")


def test_all_problems_are_said_at_once(tables):
    rows = ["p,a,b,first,1", "p,a,a,left,1", "p,a,b,first", "p,,b,second,-1", "p,a,b,second,1"]
    items = "pool,item,words\np,a,1\np,b,many\np,b,1\n"
    text = "pool,first,second,winner,count\n" + "\n".join(rows) + "\n"
    assert [
        line.split(" is ")[0] for line in refused(tables, text, items, covariates=["words"])
    ] == [
        "line 3: first and second are the same item, 'a'",
        "line 3: winner",
        "line 4: 4 fields, the header has 5",
        "line 5: count",
        "line 5: first",
        "items.csv, line 3: words",
        "items.csv, line 4: item 'b' of pool 'p' again",
    ]
    many = refused(
        tables, "pool,first,second,winner\n" + "".join(f"p,a,b,left{n}\n" for n in range(50))
    )
    assert len(many) == 21
    assert many[-1] == "and 30 more problems"
