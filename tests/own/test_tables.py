"""Reading tables: kinds of files and frames, names, columns, anchors, what is refused. What a wrong
file gets is also in test_commands.py."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from jbt import own
from jbt.own.tables import decoding, limits
from jbt.own.tables.names import alike, for_spreadsheet, from_spreadsheet, joined


def read(tables, verdicts: str, items: str | None = None, **options) -> own.Tables:
    v, i = tables(verdicts, items or "")
    return own.read(v, None if items is None else i, **options)


def refused(tables, *arguments, **options) -> list[str]:
    """What the problems are, without the paths before and, "in file", after."""
    with pytest.raises(own.TableError) as error:
        read(tables, *arguments, **options)
    lines = [re.sub(r"\S+/", "", line) for line in str(error.value).splitlines()]
    return [line.removeprefix("verdicts.csv, ").removeprefix("verdicts.csv: ") for line in lines]


def same(one: own.Tables, other: own.Tables) -> None:
    """Both are read alike, but for the lines on which rows stand."""
    tables = ([t.verdicts.drop(columns="line"), t.items] for t in (one, other))
    for frames in zip(*tables, strict=True):
        assert_frame_equal(*frames)
    assert (one.pools, one.judges, one.contents) == (other.pools, other.judges, other.contents)


def test_names_are_text_as_it_stands(tables):
    found = read(tables, "pool,first,second,winner\n007,NA,1,first\n")
    assert (found.pools, found.judges) == (["007"], [None])
    assert found.items["item"].tolist() == ["NA", "1"]


@pytest.mark.parametrize("library", ["pandas", "polars", "parquet"])
def test_frames_are_read_as_csv_is(library, tables):
    module = pytest.importorskip({"parquet": "pyarrow"}.get(library, library))
    paths, sources = tables(), []
    for path in paths:
        frame = pd.read_csv(path)
        if library == "parquet":
            sources.append(path.with_suffix(".parquet"))
            frame.to_parquet(sources[-1])
        else:
            sources.append(frame if library == "pandas" else module.from_pandas(frame))
    same(*(own.read(*files, covariates=["words"]) for files in (paths, sources)))


def test_whole_numbers_name_the_same_items_whatever_their_type():
    first = np.array([1.0, 2, 1.0], object)
    frame = pd.DataFrame({"first": first, "second": [2, 3, 3], "winner": "first"})
    assert len(own.read(frame).items) == 3


def test_damaged_parquet_is_named_in_one_line(tables):
    """Wherever a bit is turned; pandas may raise a KeyError."""
    pytest.importorskip("pyarrow")
    v, _ = tables()
    path = v.with_suffix(".parquet")
    pd.read_csv(v).to_parquet(path)
    data = path.read_bytes()
    messages = []
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        try:
            own.read(path)
        except own.TableError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert all(line.startswith(str(path)) and "\n" not in line for line in messages)


FRAGMENTS = st.lists(
    st.sampled_from(
        ["a", "b ", ",", ",", "\n", '\n"', '",', '"', "\r", "\0", "\ufeff", " ", ";", '""']
    )
)


@settings(max_examples=500)
@given(FRAGMENTS)
def test_both_readers_agree_on_any_text(fragments):
    text = "a,b\n" + "".join(fragments)
    header, separator = decoding.find_header(text)
    table = text, separator, len(header)
    quick, (careful, wrong) = decoding.quick(*table), decoding.careful(*table)
    if quick is not None:
        assert not wrong
        assert_frame_equal(quick, careful, check_index_type=False)


def test_a_column_of_winners_or_of_shares(tables):
    text = "pool,first,second,p_first,order\np,a,b,.25,shown\np,a,b,,shown\np,b,a,0.5,Unknown\n"
    both = text.replace("order", "winner").replace("shown", "tie")
    assert refused(tables, both)[0] == "has both winner and p_first, needs exactly one of them"
    chosen = read(tables, both, columns=own.Columns(winner="p_first"))
    assert chosen.verdicts["p_first"].tolist() == [0.25, 0.5]


def test_counts_may_be_fractions(tables):
    """The fits weigh verdicts by them; printed numbers are of rows."""
    rows = ["p,a,b,first,0.5", "p,b,a,tie,0.5", "q,a,b,tie,0.25", "q,a,b,error,2"]
    found = read(tables, "\n".join(["pool,first,second,winner,count", *rows, ""]))
    assert found.verdicts["count"].tolist() == [0.5, 0.5, 0.25]
    assert found.counts[["n_verdicts", "n_errors", "n_ties"]].to_numpy().tolist() == [
        [2, 0, 1],
        [1, 1, 1],
    ]


def test_other_names_of_columns(tables):
    text = "question,model_a,model_b,vote,grader,first\nq,a,b,first,g,1\n"
    columns = own.Columns("model_a", "model_b", "vote", "question", "grader")
    for pool in ("question", "pool"):
        found = read(tables, text, f"{pool},item\nq,a\nq,b\n", columns=columns)
        assert (found.pools, found.judges, len(found.verdicts)) == (["q"], ["g"], 1)
    (problem,) = refused(tables, text, columns=own.Columns(first="left"))
    assert problem.startswith("no column 'left'; columns are 'question', 'model_a'")


def test_tables_that_do_not_go_together(tables):
    text = "pool,first,second,winner\np,a,b,first\n"
    items = "pool,item,quality\np,a,1\np,b,good\n"
    assert refused(tables, text, "item\na\nb\n") == [
        "items.csv: no column 'pool', which verdicts.csv has"
    ]
    assert refused(tables, text.replace("pool", "Pool"))[0] == (
        "column 'Pool' has to be called 'pool' to be read"
    )
    assert refused(tables, text, items) == [
        "items.csv, line 3: quality is 'good', allowed: numbers within +-1e+100, or nothing"
    ]
    assert "cannot be a covariate" in refused(tables, text, items, covariates=["item"])[0]


def test_contents_and_merged_pools(tables):
    text = "pool,first,second,winner\np,a,b,first\nq,a,b,tie\n"
    items = "pool,item,content,base\np,a,A,1\np,b,B,2\nq,a,A,1\nq,b,C,1\n"

    names = ["p/a", "p/b", "q/a", "q/b"]
    for options, of_items, contents in (
        ({}, [0, 1, 0, 2], ["A", "B", "C"]),
        ({"content": "base"}, [0, 1, 0, 0], ["1", "2"]),
        ({"merge_pools": True}, [0, 1, 0, 2], ["A", "B", "C"]),
        ({"merge_pools": True, "content": None}, [0, 1, 2, 3], names),
    ):
        found = read(tables, text, items, **options)
        assert (found.items["content"].tolist(), found.contents) == (of_items, contents)
    assert (found.pools, found.items["item"].tolist()) == (["all"], names)
    assert found.verdicts["source"].tolist() == [0, 1]


def test_anchors(tables, tmp_path):
    text, path = "pool,first,second,winner\np,a,b,first\nq,a,b,tie\n", tmp_path / "anchors.csv"
    path.write_text("pool,better,worse\nq,b,a\np,a,b\n")
    found = read(tables, text, anchors=path)
    assert found.anchors.to_numpy().tolist() == [[1, 3, 1], [0, 0, 2]]
    path.write_text("pool,better,worse\nq,b,a\nq,a,b\np,a,a\nr,a,b\np,a,c\n")
    assert refused(tables, text, anchors=path) == [
        "anchors.csv, line 4: better and worse are the same item, 'a'",
        "anchors.csv, line 5: pool 'r' is not in verdicts.csv",
        "anchors.csv, line 6: item 'c' of pool 'p' is not in verdicts.csv",
    ]


def test_all_problems_are_said_at_once(tables):
    rows = ["p,a,b,first,1", "p,a,a,left,1", "p,a,b,first", "p,,b,second,-1", "p,a,b,second,1"]
    items = "pool,item,words\np,a,1\np,b,many\np,b,1\n"
    text = "pool,first,second,winner,count\n" + "\n".join(rows) + "\n"
    found = refused(tables, text, items, covariates=["words"])
    assert [line.split(" is ")[0] for line in found] == [
        "line 3: first and second are the same item, 'a'",
        "line 3: winner",
        "line 4: 4 fields, the header has 5",
        "line 5: count",
        "line 5: first",
        "items.csv, line 3: words",
        "items.csv, line 4: item 'b' of pool 'p' again",
    ]


COMPOSED, TWO, ZERO_WIDTH = "Zo\xeb", "Zoe\u0308", "Zo\u200b\xeb"
VERDICTS = "pool,judge,first,second,winner\n"


def test_names_that_look_alike_are_told_of(tables):
    assert alike([COMPOSED, TWO, ZERO_WIDTH]) == [(COMPOSED, TWO), (COMPOSED, ZERO_WIDTH)]
    rows = [f"p,j,{COMPOSED},b,first", f"p,j,{TWO},b,first", f"p\u200b,j,{ZERO_WIDTH},b,tie"]
    found = read(tables, VERDICTS + "\n".join(rows))
    assert found.summary[-1].endswith("kept apart: pools 'p' and 'p\\u200b', and 2 more pairs")
    wrong = f"{VERDICTS}p,j,{COMPOSED},b,{TWO}\n"
    (problem,) = refused(tables, wrong)
    assert problem.endswith(", but 'Zo\\xeb' looks alike and is ('Zoe\\u0308' is not)")


def test_merged_names_are_apart_whatever_they_hold():
    parts = ["".join(p) for n in (1, 2, 3) for p in itertools.product("a/\\", repeat=n)]
    pool, item = (np.array(v, object) for v in zip(*itertools.product(parts, parts), strict=True))
    assert len(set(joined(pool, item))) == len(parts) ** 2


@settings(max_examples=50)
@given(st.lists(st.text("'=+-@a", min_size=1, max_size=4), min_size=1))
def test_names_survive_a_spreadsheet(names):
    for name in names:
        written = for_spreadsheet(name)
        assert written[0] not in "=+-@"
        assert from_spreadsheet(written, set(names)) == name
    assert from_spreadsheet("'=x", {"'=x"}) == "'=x"  # of a table made by hand


def crowd(n_judges: int, each: int) -> pd.DataFrame:
    """Pools of two items, `each` verdicts a judge."""
    row = np.arange(n_judges * each)
    frame = pd.DataFrame({"pool": row % 50, "judge": row // each, "first": "a", "second": "b"})
    return frame.assign(winner=np.where(row % 3, "first", "second")).astype(str)


@pytest.mark.parametrize("command", ["doctor", "replay"])
def test_voters_in_the_column_of_judges_are_named_at_once(command, folder, jbt):
    crowd(2_000, 1).to_csv("v.csv", index=False)
    assert jbt(command, "--verdicts", "v.csv", code=2) == (
        "error: v.csv: 2000 judges in 2000 rows, 2000 of them with fewer than 6: the column "
        f"'judge' is probably the voter, not a judge: {limits.ONE_JUDGE}"
    )


def test_verdicts_of_a_crowd_are_one_judges():
    """As if the table had no column of judges; one voter of it can be had, too."""
    table = crowd(2_000, 1)
    crowded = own.read(table, columns=own.Columns(judge=None))
    nameless = own.read(table.drop(columns="judge"))
    assert crowded.judges == [None]
    same(crowded, nameless)
    assert own.read(table, judge="7").judges == ["7"]
    # Few judges, or many with enough verdicts each, are read.
    assert len(own.read(crowd(700, limits.FEWEST)).judges) == 700
    assert len(own.read(crowd(500, 1)).judges) == 500
