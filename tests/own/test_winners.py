"""A winner that may be a word for an outcome and the name of an item is read where both say the
same; else it is refused, with both meanings and what to do, wherever winners are read."""

import itertools

import pandas as pd
import pytest

from jbt import own
from jbt.own import formats
from jbt.own.formats import GenericColumns
from jbt.own.tables.outcomes import CODES, WORDS, Outcomes, read_winner

SECOND = "'second': as a word, the second won; as the name of an item, the first won"


def csv(header: str, rows: str) -> str:
    return "\n".join([header, *rows.split()]) + "\n"


def check(read, expected):
    """A function returns these shares, or is refused in lines that have these texts."""
    if not isinstance(expected[0], str):
        assert read() == pytest.approx(expected)
        return
    with pytest.raises(own.TableError) as error:
        read()
    lines = str(error.value).splitlines()
    assert all(text in line for text, line in zip(expected, lines, strict=True)), lines


def outcome(*arguments, **options):
    """What `read_winner` makes of a winner, or which error it raises."""
    try:
        return read_winner(*arguments, **options)
    except (KeyError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("by_name", [False, True])
def test_no_reading_is_dropped_where_another_differs(by_name):
    """Against the two readings by themselves, over every word, case of letters and place."""
    values = [*CODES, *map(str.upper, CODES), "x", "Gpt"]
    for value, other, is_first in itertools.product(values, ["y", "k1", "b"], [True, False]):
        code = value.casefold()
        if code == other:
            continue
        for item in (value, value.swapcase(), "z"):
            name = {float(is_first)} if item.casefold() == code else set()
            sure = by_name and item == value and code not in WORDS
            used = WORDS if not name else {} if sure else CODES
            readings = name | ({used[code]} if code in used else set())
            expected = {0: KeyError, 1: next(iter(readings), None), 2: ValueError}[len(readings)]
            pair = (item, other) if is_first else (other, item)
            assert outcome(value, *pair, by_name=by_name) == expected, (value, pair)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # `A` is the first shown, and no item: the case of letters does not make it one
        ("a,b,A b,a,A c,a,A a,c,A", ["3: winner is 'A': as a word, the first won; as the name",
                                     "4: winner is 'A': as a word, the first won; as the name"]),
        ("A,B,A B,A,A", ['3: winner is \'A\': as a word, the first won; as the name of an item, '
                         'the second won (--map "A=first,B=second" if it is a word; else rename']),
        ("second,x,second x,second,second", [f"2: winner is {SECOND}"]),
        ("x,y,0", ["2: winner is '0', allowed: first, second, tie, error, or the name of one of "
                   "the two items; --map says what other codes mean"]),
        ("ß,SS,ss", ["2: winner is 'ss', which may be either"]),
        ("gpt,llama,gpt gpt,llama,LLAMA gpt,llama,Tie gpt,llama,second", [1, 0, 0.5, 0]),
        ("2,1,1 3,1,3 1,2,2 1,3,tie", [0, 1, 0, 0.5]),  # where other winners are names
        # with a map, as it says, though there is an item a
        ("--map A=first,B=second b,a,A a,c,A second,x,B", [1, 1, 0]),
        ("--map 1=error,6=0.75 m,k,1 k,m,6", [0.75]),
        ("--scale 7:1 m,k,1 k,m,6", [0, 5 / 6]),
    ],
)  # fmt: skip
def test_a_verdict_table(rows, expected, tables):
    outcomes = None
    if rows.startswith("--"):
        option, given, rows = rows.split(" ", 2)
        outcomes = (Outcomes.of_map if option == "--map" else Outcomes.of_scale)(given)
    v, _ = tables(csv("first,second,winner", rows), "")
    check(lambda: own.read(v, outcomes=outcomes).verdicts["p_first"].tolist(), expected)


def test_labels_filled_in(tables, tmp_path):
    v, _ = tables(csv("first,second,winner", "x,first,x first,x,x"), "")
    anchors = tmp_path / "anchors.csv"
    anchors.write_text("first,second,better\nx,first,First\nfirst,x,first\n")
    message = (
        "anchors.csv, line 2: better is 'First': as a word, the first won; as the name of an item, "
        "the second won (rename the item, or give columns better and worse)"
    )
    check(lambda: own.read(v, anchors=anchors), [message])


GENERIC = "prompt,model_a,model_b,winner"
SWAPPED = f"{GENERIC},winner_swapped"
CROSSED = {"first": "model_b", "second": "model_a"}


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        (csv(GENERIC, "p,A,B,A p,B,A,A"), {}, ['line 3: winner is \'A\': as a word, the first won; '
         'as the name of an item, the second won (--map "A=first,B=second" if it is a word; else '
         "rename the item)"]),
        (csv(GENERIC, "p,x,Y,x p,x,Y,y"), CROSSED, [0, 1]),
        (csv(SWAPPED, "p,A,B,A,A"), {"outcomes": Outcomes.of_map("A=first,B=second")},
         ["line 2: winner_swapped is 'A': of the order shown then, or of the columns?"]),
        (csv(SWAPPED, "p,A,B,A,A"), {"swapped_codes": "columns"}, [1, 0]),
    ],
)  # fmt: skip
def test_an_import(text, columns, expected, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(text)

    def read():
        found = formats.collect([path], columns=GenericColumns(**columns))
        return [verdict.p_first for verdict in found.verdicts]

    check(read, expected)


def test_a_study_begins_without_such_items(tmp_path):
    items = pd.DataFrame({"item": ["x", " TIE", "y"]})
    with pytest.raises(ValueError, match=r"^items: 'TIE': .* tie, error.*: rename it$"):
        own.Study.open(tmp_path, items, k=1)
