"""Names that look alike, names made of two, names that a spreadsheet would compute."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbt import own
from jbt.own.tables.names import alike, for_spreadsheet, from_spreadsheet, joined

COMPOSED, TWO, ZERO_WIDTH = "Zo\xeb", "Zoe\u0308", "Zo\u200b\xeb"


def test_which_names_look_alike():
    assert alike([COMPOSED, TWO, ZERO_WIDTH]) == [(COMPOSED, TWO), (COMPOSED, ZERO_WIDTH)]
    assert alike(["a b", "a\xa0b", "a  b", "ab", "A b", "x2", "x\xb2"]) == [("a b", "a\xa0b")]


@pytest.fixture
def verdicts(tmp_path):
    def write(*rows: str):
        path = tmp_path / "verdicts.csv"
        path.write_text("\n".join(["pool,judge,first,second,winner", *rows]), encoding="utf-8")
        return path

    return write


def test_names_that_look_alike_are_told_of(verdicts):
    rows = [f"p,j,{COMPOSED},b,first", f"p,j,{TWO},b,first", f"p\u200b,j,{ZERO_WIDTH},b,tie"]
    read = own.read(verdicts(*rows))
    assert len(read.items) == 5  # as before: they are kept apart
    (line,) = (line for line in read.summary if "look alike" in line)
    assert line == (
        "names that look alike are kept apart: pools 'p' and 'p\\u200b', and 2 more pairs"
    )
    line = own.read(verdicts(*rows[:2])).summary[-1]
    assert line.endswith("kept apart: items 'Zo\\xeb' and 'Zoe\\u0308'")
    read = own.read(verdicts("p,j,a,b,tie", "p,j\u00ad,a,b,tie"))
    assert read.summary[-1].endswith("judges 'j' and 'j\\xad'")
    assert not any("look alike" in line for line in own.read(verdicts("p,j,a,A,tie")).summary)


def test_a_name_that_is_not_known_but_looks_so(verdicts, tmp_path):
    items = tmp_path / "items.csv"
    items.write_text(f"pool,item\np,{TWO}\np,b\n", encoding="utf-8")
    with pytest.raises(own.TableError) as refusal:
        own.read(verdicts(f"p,j,{COMPOSED},b,{TWO}", "p\u200b,j,b,c,first"), items)
    assert [line.partition(", but ")[2] for line in str(refusal.value).splitlines()] == [
        "'Zoe\\u0308' looks alike and is ('Zo\\xeb' is not)",
        "'Zo\\xeb' looks alike and is ('Zoe\\u0308' is not)",
        "'p' looks alike and is ('p\\u200b' is not)",
    ]


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ([("q1", "a"), ("q2", "a"), ("q/1", "b")], ["q1/a", "q2/a", "q/1/b"]),
        ([("a/b", "c"), ("a", "b/c"), ("q1", "a")], ["a\\/b/c", "a/b\\/c", "q1/a"]),
    ],
)
def test_merged_names_are_apart(pairs, names, verdicts):
    path = verdicts(*(f"{p},j,{i},other,first" for p, i in pairs))
    merged = own.read(path, merge_pools=True)
    found = merged.items["item"].tolist()
    assert [name for name in found if "other" not in name] == names
    assert len(set(found)) == len(found) == 2 * len(pairs)
    assert len(set(merged.contents)) == len(merged.contents) == len(found)


def test_merged_names_are_apart_whatever_they_hold():
    parts = ["".join(p) for n in (1, 2, 3) for p in itertools.product("a/\\", repeat=n)]
    pool, item = (np.array(v, object) for v in zip(*itertools.product(parts, parts), strict=True))
    assert len(set(joined(pool, item))) == len(parts) ** 2
    alone = [len(set(joined(pool[[i, j]], item[[i, j]]))) for i, j in np.ndindex(40, 40)]
    assert (np.array(alone).reshape(40, 40) == 2 - np.eye(40)).all()


@settings(max_examples=50)
@given(st.lists(st.text("'=+-@a", min_size=1, max_size=4), min_size=1))
def test_names_survive_a_spreadsheet(names):
    for name in names:
        written = for_spreadsheet(name)
        assert written[0] not in "=+-@"
        assert from_spreadsheet(written, set(names)) == name
    assert from_spreadsheet("'=x", {"'=x"}) == "'=x"  # of a table made by hand
