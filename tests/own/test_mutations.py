"""A malformed table never yields a number: whatever is done to the bytes of a small valid file, it
is refused with clear lines, or read as an independent reader reads the same bytes."""

import codecs
import csv
import gzip
import io
import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.marks import nightly

from jbt import own

pytestmark = pytest.mark.heavy

MANY = 2000
"""Examples of a search before a release, which draws others each time."""


def search(examples, strategy, check):
    """Call a check with so many examples of a strategy."""

    @settings(
        max_examples=examples,
        derandomize=examples < MANY,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(strategy)
    def searched(drawn):
        check(drawn)

    searched()


HEADER = ["pool", "judge", "first", "second", "winner", "count", "order"]
ROWS = [
    ["p", "a", "x", "y", "first", "1", "shown"],
    ["p", "a", "y", "x", "Tie", "2", "unknown"],
    ["p", "b", 'z, the "third"', "x", "second", "1", "shown"],
    ["p", "b", "x", "Zoë", "zoË", "1", "shown"],
    ["q", "a", "u", "v", "error", "3", "shown"],
    ["q", "a", "v", "u", "u", "0", "Unknown"],
]
SHARES = ["1", "0.5", ".25", "1e-1", "", "0"]
GRADED = [[*row[:4], share, *row[5:]] for row, share in zip(ROWS, SHARES, strict=True)]
ITEMS = [
    ["pool", "item", "content", "words", "quality"],
    ["p", "x", "A", "10", "0.5"],
    ["p", "y", "A", "3.5", ""],
    ["p", 'z, the "third"', "B", "1e2", "-1"],
    ["q", "u", "B", "7", ""],
    ["q", "v", "Zoë", "0", "2"],
    ["p", "Zoë", "C", "5", ""],
]
CELLS = ["", " ", "nan", "1e19", "-1", "0.5", "1.5", "FIRST", "tie", "x", "X", "Y ", "a\nb", "\0"]
WORDS = [*CELLS, "\ufeff", *HEADER, *ITEMS[0]]
FORMS = [
    {},
    {"delimiter": "\t"},
    {"delimiter": ";", "lineterminator": "\r\n"},
    {"lineterminator": "\r"},
    {"lineterminator": "\n\n"},
    {"quoting": csv.QUOTE_ALL},
]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16"]
"""These are read as they stand; the following are not always."""
ODD_FORMS = [{"delimiter": "|"}, {"lineterminator": " \n"}, {"quoting": csv.QUOTE_NONNUMERIC}]
ODD_ENCODINGS = ["utf-16-le", "latin-1", "utf-32", "cp037"]
INSERTED = ['"', '""', ",", "\n", "\r", "\0", ";", "é", "#", "\\", ""]


def written(rows: list[list[str]], encoding: str = "utf-8", **form) -> bytes:
    """A table as a file."""
    out = io.StringIO(newline="")
    csv.writer(out, **{"lineterminator": "\n", **form}).writerows(rows)
    return out.getvalue().encode(encoding, "replace")


WINNERS = [HEADER, *ROWS]
SHARED = [[*HEADER[:4], "p_first", *HEADER[5:]], *GRADED]


def in_rows(draw, rows: list[list[str]]) -> None:
    """Change cells, rows or columns."""
    change = draw(st.sampled_from(["cell", "row", "column"]))
    row = draw(st.sampled_from(rows))
    at = draw(st.integers(0, len(ITEMS[0]) - 1))
    n = draw(st.sampled_from([0, 2]))  # left out, or doubled
    if change == "cell":
        row[at : at + 1] = [draw(st.sampled_from(WORDS))]
    elif change == "row":
        place = draw(st.integers(0, len(rows) - 1))
        rows[place : place + 1] = [list(row) for _ in range(n or len(rows) == 1)]
    else:
        for row in rows:
            row[at : at + 1] = row[at : at + 1] * n


@st.composite
def mutated(draw, tables: tuple[list[list[str]], ...] = (WINNERS, SHARED)) -> bytes:
    """One of these valid tables, changed in one to three ways."""
    rows = [list(row) for row in draw(st.sampled_from(tables))]
    kinds = ["rows", "rows", "form", "encoding", "text", "bytes"]
    changes = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    form, encoding = {}, "utf-8"
    for change in changes:
        if change == "rows":
            in_rows(draw, rows)
        if change == "form":
            form = draw(st.sampled_from(FORMS + ODD_FORMS))
        if change == "encoding":
            encoding = draw(st.sampled_from(ENCODINGS + ODD_ENCODINGS))
    text = written(rows, **form).decode()
    for _ in range(changes.count("text")):
        at, end = draw(st.integers(0, len(text))), draw(st.integers(0, 9) | st.just(None))
        rest = "" if end is None else text[at + end :]
        text = text[:at] + draw(st.sampled_from(INSERTED)) + rest
    data = text.encode(encoding, "replace")
    for _ in range(changes.count("bytes")):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
    return data


def rows_of(data: bytes, needed: set[str]) -> list[dict[str, str]]:
    """The rows of a file, read with the csv module, in the first separator that gives the columns
    needed."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    text = data.decode("utf-16" if wide else "utf-8-sig")
    for separator in ",\t;":
        cells = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        header, *rows = filter(any, ([field.strip() for field in row] for row in cells))
        if needed <= set(header):
            return [dict(zip(header, row, strict=True)) for row in rows]
    raise AssertionError("no such columns")


def twin(rows: list[dict[str, str]]) -> tuple[list[tuple], Counter]:
    """The valid verdicts and errors of each judge, in plain loops."""
    valid, errors = [], Counter()
    for of in rows:
        key = of.get("pool", "all"), of.get("judge")
        share, count = naive_share(of), int(float(of.get("count", "1")))
        if share is None:
            errors[key] += count
        elif count:
            known = of.get("order", "shown").lower() == "shown"
            valid.append((*key, of["first"], of["second"], share, count, known))
    return valid, +errors


def naive_share(of: dict[str, str]) -> float | None:
    if "p_first" in of:
        return float(of["p_first"]) if of["p_first"] else None
    words = {"first": 1.0, "second": 0.0, "tie": 0.5, "error": None}
    winner = of["winner"].casefold()
    if winner in words:
        return words[winner]
    assert winner in (of["first"].casefold(), of["second"].casefold())
    if of["winner"] in (of["first"], of["second"]):
        return float(of["winner"] == of["first"])
    return float(winner == of["first"].casefold())


def check_message(message: str, *paths: Path) -> None:
    """One line a problem, each with file and, where there is one, line; no more than 21."""
    *lines, last = message.splitlines()
    assert len(lines) <= 20
    files = "|".join(re.escape(str(path)) for path in paths)
    line = re.compile(rf"({files})(, line [0-9]+)?: \S")
    assert all(line.match(text) for text in lines), message
    assert line.match(last) or re.fullmatch("and [0-9]+ more problems", last), message
    assert "Error" not in message


def check(path: Path, data: bytes) -> bool:
    """Whether a file is read, after it was compared with its twin or its message looked at."""
    path.write_bytes(data)
    try:
        tables = own.read(path)
    except own.TableError as refusal:
        check_message(str(refusal), path)
        return False
    rows = rows_of(data, {"first", "second"})
    valid, errors = twin(rows)
    items, found = tables.items["item"], []
    for row in tables.verdicts.itertuples():
        key = tables.pools[row.pool], tables.judges[row.judge]
        sides = items[row.first], items[row.second]
        found.append((*key, *sides, row.p_first, row.count, row.shown))
    assert found == valid
    assert all(math.isfinite(share) for *_, share, _, _ in found)
    failed = Counter()
    for row in tables.counts.itertuples():
        failed[tables.pools[row.pool], tables.judges[row.judge]] = row.n_errors
    assert +failed == errors
    assert f": {len(rows)} row" in tables.summary[0]
    return True


@pytest.mark.parametrize("examples", [100, nightly(MANY)])
def test_mutations(examples, tmp_path):
    search(examples, mutated(), lambda data: check(tmp_path / "mutated.csv", data))


LABELLED = (
    [["pool", "better", "worse"], ["p", "x", "y"], ["q", "u", "v"]],
    [["pool", "first", "second", "better"], ["p", "x", "y", "tie"], ["q", "v", "u", "u"]],
    [["pool", "item", "member"], ["p", "x", "1"], ["p", "y", "no"], ["q", "u", ""]],
)


def check_whole(folder: Path, files: list[bytes], merge_pools: bool) -> bool:
    """Whether tables are read, after the items were compared with their twin and all that is said
    of tables without a fit was asked for."""
    paths = [folder / name for name in ("verdicts.csv", "items.csv", "anchors.csv")]
    for path, data in zip(paths, files, strict=True):
        path.write_bytes(data)
    options = {"covariates": ("words",), "merge_pools": merge_pools}
    try:
        tables = own.read(*paths, **options)
        x, *_ = own.covariate_values(tables, ["words"], "log1p", True)
    except own.TableError as refusal:
        check_message(str(refusal), *paths)
        return False
    assert np.isfinite(x).all()
    rows = rows_of(files[1], {"pool", "item", "words"})
    for of, row in zip(rows, tables.items.itertuples(), strict=True):
        assert of.get("content", of["item"]) == tables.contents[row.content]
        assert float(of["words"]) == row.words
        np.testing.assert_equal(row.quality, float(of.get("quality") or "nan"))
    assert own.doctor(tables).report("Tables", tables.summary).text()
    return True


@st.composite
def triples(draw) -> list[bytes]:
    """Three tables, one of them mutated."""
    labels = draw(st.sampled_from(LABELLED))
    files = [written(table) for table in (WINNERS, ITEMS, labels)]
    at = draw(st.integers(0, 2))
    files[at] = draw(mutated([(WINNERS, SHARED), (ITEMS,), (labels,)][at]))
    return files


@pytest.mark.parametrize("examples", [50, nightly(MANY)])
def test_mutations_of_three_tables_together(examples, tmp_path):
    whole = st.tuples(triples(), st.booleans())
    search(examples, whole, lambda drawn: check_whole(tmp_path, *drawn))


def test_tables_as_they_stand_are_read(tmp_path):
    for merge_pools, labels in itertools.product([False, True], LABELLED):
        files = [written(table) for table in (WINNERS, ITEMS, labels)]
        assert check_whole(tmp_path, files, merge_pools)


@pytest.mark.parametrize("rows", [WINNERS, SHARED])
def test_forms_that_are_read(rows, tmp_path):
    path, shares = tmp_path / "table.csv", [1, 0.5, *([0, 0] if rows is WINNERS else [0.25, 0.1])]
    for form, encoding in itertools.product(FORMS, ENCODINGS):
        data = written(rows, encoding, **form)
        for packed in (data, gzip.compress(data)):
            assert check(path, packed)
            assert own.read(path).verdicts["p_first"].tolist() == shares
            assert list(tmp_path.iterdir()) == [path]  # nothing is written
