"""Verdicts as other tools write them: every format, its traps, and files that are none of them."""

import csv
import gzip
import json
import os
import re

import jax
import numpy as np
import pandas as pd
import pytest
from support.foreign_files import (
    ALPACA_EVAL,
    ARENA_100K,
    ARENA_HARD,
    BATTLES,
    GENERIC,
    JUDGEBENCH,
    LLMBAR,
    MT_BENCH,
    SAMPLES,
    Sample,
    save,
    talk,
)

from jbt import own
from jbt.own import formats
from jbt.own.formats import GenericColumns, sources, texts
from jbt.own.formats.records import Refused, Row


@pytest.fixture(autouse=True)
def not_for_keeps(monkeypatch):
    """Nothing here outlives a test: waiting for the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbered(pool, pools):
    """A pool named by a digest, by its place among them."""
    return pools.index(pool) if re.fullmatch("q[0-9a-f]{12}", pool) else pool


def imported(tmp_path, sample, **options):
    """A sample, read and written: the import and the rows of its tables."""
    found = formats.collect([save(tmp_path, sample.name, sample.records)], **options)
    written = found.write(tmp_path / "out", overwrite=True)
    return found, {path.stem: rows(path) for path in written}


def told(found, tables):
    """Verdicts as a sample gives them."""
    pools = list(found.items)
    return [
        (
            numbered(row["pool"], pools),
            row.get("judge"),
            row["first"],
            row["second"],
            row.get("winner", row.get("p_first")),
            row["order"],
        )
        for row in tables["verdicts"]
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_what_each_format_says(name, tmp_path):
    sample = SAMPLES[name]
    found, tables = imported(tmp_path, sample)
    assert found.format.name == name.split()[0]
    assert told(found, tables) == sample.verdicts
    pools = list(found.items)
    items = {(numbered(row["pool"], pools), row["item"]): row for row in tables["items"]}
    assert len(items) == len(tables["items"])
    for key, (content, words) in sample.items.items():
        own_content = f"{items[key]['pool']}/{key[1]}"
        assert items[key].get("content") == (own_content if content is ... else content)
        assert items[key].get("words") == (None if words is None else str(words))
    anchors = [tuple(row.values()) for row in tables.get("anchors", [])]
    assert [(numbered(pool, pools), *pair) for pool, *pair in anchors] == sample.anchors
    outcomes = [verdict[4] for verdict in sample.verdicts]
    assert found.counts["errors"] == outcomes.count("error") + outcomes.count("")
    assert found.counts["ties"] == outcomes.count("tie") + outcomes.count("0.5")


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_written_is_read_again(name, tmp_path):
    found, tables = imported(tmp_path, SAMPLES[name])
    out = tmp_path / "out"
    anchors = out / "anchors.csv" if found.anchors else None
    read = own.read(out / "verdicts.csv", out / "items.csv", anchors)
    assert len(read.verdicts) == found.counts["verdicts"] - found.counts["errors"]
    assert len(read.items) == found.counts["items"]
    assert len(read.anchors) == found.counts["anchors"]
    assert read.counts["n_errors"].sum() == found.counts["errors"]
    assert read.counts["n_ties"].sum() == found.counts["ties"]
    assert read.verdicts["shown"].sum() == sum(
        row["order"] == "shown" and row.get("winner", row.get("p_first")) not in ("error", "")
        for row in tables["verdicts"]
    )


WRONG = [(name, message) for name, sample in SAMPLES.items() for message in sample.wrong]


def line_of_last(path, n_records):
    if path.suffix == ".parquet":
        return n_records
    text = path.read_text()
    if path.suffix == ".json":
        return text[: text.rindex("\n {")].count("\n") + 2
    return text.count("\n")


@pytest.mark.parametrize(("name", "message"), WRONG)
def test_codings_outside_a_format_are_refused_with_their_line(name, message, tmp_path):
    sample = SAMPLES[name]
    changed = {**sample.records[-1], **sample.wrong[message]}
    records = [
        *sample.records[:-1],
        {key: value for key, value in changed.items() if value is not ...},
    ]
    path = save(tmp_path, sample.name, records)
    with pytest.raises(own.TableError) as error:
        formats.collect([path])
    (said,) = str(error.value).splitlines()
    assert said.startswith(f"{path}, line {line_of_last(path, len(records))}: ")
    assert message in said


def test_the_names_of_formats_are_those_of_the_option():
    assert formats.Name.__args__ == ("auto", *formats.FORMATS)


ODD = [None, 0, 1e300, -1.5, True, "", "x", "\0", "\ud800", "[", [], [None], [[]], {}, {"a": [{}]}]


@pytest.mark.parametrize("name", SAMPLES)
def test_values_of_any_kind_are_refused_or_read(name, tmp_path):
    """Whatever stands where a format has something else; and all names that are read can be
    written."""
    sample = SAMPLES[name]
    format = formats.FORMATS[name.split()[0]]
    last = sample.records[-1]
    variants = [{**last, key: value} for key in last for value in ODD]
    variants += [{k: v for k, v in last.items() if k != key} for key in last]
    assert 0 < sum(refused(format, tmp_path / sample.name, v) for v in variants) < len(variants)


def refused(format, path, values):
    try:
        for record in format.records(Row(path, path.stem, 0, 1, values)):
            names = [getattr(record, f, None) for f in ("pool", "judge", "better", "worse")]
            items = [getattr(record, f).name for f in ("first", "second") if hasattr(record, f)]
            assert all(name is None or name.encode().strip() for name in names + items)
    except Refused:
        return True
    return False


@pytest.mark.parametrize(("alike", "listed"), [(False, 20), (True, 3)])
def test_twenty_problems_three_of_them_alike_and_a_count(tmp_path, alike, listed):
    record = MT_BENCH.records[0]
    wrong = [{**record, "g1_winner": "A" if alike else f"A{n}"} for n in range(30)]
    path = save(tmp_path, "pair.jsonl", wrong)
    with pytest.raises(own.TableError) as error:
        formats.collect([path])
    lines = str(error.value).splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == [
        f"{path}, line {n}" for n in range(1, listed + 1)
    ]
    assert lines[-1] == f"and {30 - listed} more problems"


ALPHABETICAL = [("a", "b"), ("a", "c"), ("b", "c")]
CONSTANT = [("b", "a"), ("b", "c"), ("b", "d")]


@pytest.mark.parametrize(
    ("pairs", "sign"),
    [
        (ALPHABETICAL, "alphabetical"),
        ([pair[::-1] for pair in ALPHABETICAL], "alphabetical"),
        (CONSTANT, "first is always 'b'"),
        ([pair[::-1] for pair in CONSTANT], "second is always 'b'"),
        ([("a", "b"), ("b", "a"), ("a", "c")], None),
    ],
)
def test_columns_that_are_sorted_or_constant_are_not_taken_for_the_order_shown(
    pairs, sign, tmp_path
):
    records = [
        {**ARENA_100K.records[0], "question_id": n, "model_a": a, "model_b": b}
        for n, (a, b) in enumerate(pairs)
    ]
    path = save(tmp_path, "battles.json", records)
    found = formats.collect([path])
    assert found.counts["order_unknown"] == (3 if sign else 0)
    assert any(sign in sentence for sentence in found.not_known()) if sign else True
    told_so = formats.collect([path], order="shown")
    assert told_so.counts["order_shown"] == 3
    assert bool(told_so.notes()) == bool(sign)
    assert formats.collect([path], order="unknown").counts["order_unknown"] == 3


def test_an_order_that_is_recorded_is_believed_though_one_column_is_constant(tmp_path):
    """LLMBar names its outputs by their place, and a judgment alone shows just one order."""
    records = [{**r, "results": [{"swap = False": {"winner": "1"}}]} for r in LLMBAR.records]
    found = formats.collect([save(tmp_path, "result.json", records)])
    assert found.counts["order_shown"] == 3


ANSWERS = [
    {"uid": "q1", "ans_id": "x", "model": model, "messages": talk({"answer": text}),
     "metadata": {"token_len": 9, "header_count": {"h1": 1, "h2": 2}, "list_count": {"ordered": 4},
                  "bold_count": {"**": 0, "__": 5}}}
    for model, text in [("base", "one **two**"), ("m", "# one"), ("other", "never judged")]
]  # fmt: skip


def test_lengths_of_arena_hard_are_in_the_answers(tmp_path):
    judgments = save(tmp_path, "m.jsonl", ARENA_HARD.records)
    answers = save(tmp_path, "answers.jsonl", ANSWERS)
    found = formats.collect([answers, judgments])
    base, m = (found.items["q1"][name].measures for name in ("base", "m"))
    assert (base["tokens"], base["header_count"], base["list_count"], base["bold_count"]) == (
        9, 3, 4, 5,
    )  # fmt: skip
    assert (base["words"], base["bold"], base["markdown"]) == (2, 2, 2)
    assert (m["words"], m["headings"]) == (2, 1)
    assert found.counts["answers_without_verdict"] == 1
    assert found.counts["items_without_lengths"] == 10
    assert "other" not in found.contents
    with pytest.raises(own.TableError, match="no verdicts"):
        formats.collect([answers])


def test_strong_verdicts_count_as_often_as_asked(tmp_path):
    path = save(tmp_path, "m.jsonl", ARENA_HARD.records)
    found = formats.collect([path], strong_weight=3)
    assert [v.count for v in found.verdicts] == [3, 1, 1, 3, 1, 1, 3, 1, 1, 1, 1, 3]
    found.write(tmp_path / "out")
    read = own.read(tmp_path / "out" / "verdicts.csv")
    assert read.counts["n_verdicts"].sum() == 4 * 3 + 6
    with pytest.raises(ValueError, match="mt_bench has no `>>`"):
        formats.collect([save(tmp_path, MT_BENCH.name, MT_BENCH.records)], strong_weight=3)


def test_several_files_are_one_import_and_share_their_pools(tmp_path):
    paths = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        paths.append(save(tmp_path / folder, LLMBAR.name, LLMBAR.records))
    found = formats.collect(paths, judges=("a", "b"))
    assert (found.counts["pools"], found.counts["verdicts"]) == (3, 12)
    assert found.judges == ["a", "b"]
    assert {v.judge for v in formats.collect(paths, judges=("c",)).verdicts} == {"c"}
    with pytest.raises(ValueError, match=r"2 files do not name their judge, .* 2 names"):
        formats.collect(paths)
    assert "judge: all verdicts are taken" in formats.collect(paths[:1]).not_known()[0]
    with pytest.raises(ValueError, match="3 judges for 2 files"):
        formats.collect(paths, judges=("a", "b", "c"))
    with pytest.raises(ValueError, match="given twice"):
        formats.collect([paths[0], paths[0]])


def test_files_that_contradict_each_other(tmp_path):
    one = save(tmp_path, "one.json", LLMBAR.records)
    two = save(tmp_path, "two.json", [{**LLMBAR.records[0], "label": 2}])
    with pytest.raises(own.TableError, match=r"two.json, line 2: the label of pool .* another one"):
        formats.collect([one, two])
    arena = [ARENA_100K.records[0], {**ARENA_100K.records[0], "conversation_a": talk("other")}]
    path = save(tmp_path, "arena.json", arena)
    with pytest.raises(own.TableError, match="item 'm' again in one pool, with another text"):
        formats.collect([path])
    with pytest.raises(own.TableError, match=r"is chatbot_arena, but llmbar came before it$"):
        formats.collect([one, path])


def test_records_without_a_name_keep_apart_in_files_of_one_name(tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    places = [(tmp_path, "battles.1.json"), (tmp_path, "battles.2.json"), (again, "battles.1.json")]
    paths = [save(folder, name, BATTLES.records) for folder, name in places]
    pools = list(formats.collect(paths).items)
    assert pools[::3] == ["battles.1/000000", "battles.2/000000", "battles.1 (2)/000000"]
    assert len(pools) == 9


@pytest.mark.parametrize("odd", ["one\ntwo", "one\rtwo"])
def test_names_with_a_line_break_are_refused(odd, tmp_path):
    """Tables with such names are, so they are not written."""
    for key in ("pool", "judge", "model_a", "model_b"):
        records = [{**GENERIC.records[0], key: odd}]
        with pytest.raises(own.TableError, match=f"{key} is .*, allowed: a name on one line"):
            formats.collect([save(tmp_path, "mine.jsonl", records)])
    with pytest.raises(own.TableError, match=r"the file is .*, allowed: a name on one line"):
        formats.collect([save(tmp_path, f"{odd}.json", BATTLES.records)])
    judged = save(tmp_path, f"judge_model={odd}.jsonl", JUDGEBENCH.records)
    with pytest.raises(own.TableError, match="judge_model in the file's name is "):
        formats.collect([judged])
    with pytest.raises(ValueError, match="--judge is "):
        formats.collect([save(tmp_path, "mine.jsonl", GENERIC.records)], judges=(odd,))
    padded = {**GENERIC.records[0], "pool": "p\n"}
    assert list(formats.collect([save(tmp_path, "mine.jsonl", [padded])]).items) == ["p"]


def test_many_judges_may_be_one_crowd(tmp_path):
    records = [{**GENERIC.records[0], "judge": f"voter {n}"} for n in range(30)]
    assert "30 judges" in formats.collect([save(tmp_path, "mine.csv", records)]).notes()[0]


COLUMNS = GenericColumns(first="x", second="y", winner=("w",))


def generic(tmp_path, columns, *records, **options):
    return formats.collect(
        [save(tmp_path, "mine.jsonl", list(records))], columns=columns, **options
    )


def test_columns_of_a_generic_table_are_named(tmp_path):
    columns = GenericColumns(
        "x", "y", ("won",), "prompt", "by", ("text x", "text y"), (("tokens", "n x", "n y"),)
    )
    record = {"x": "k", "y": "m", "won": "m", "prompt": 3, "by": "j", "text x": "a b", "text y": "",
              "n x": 5, "n y": "0.5"}  # fmt: skip
    found = generic(tmp_path, columns, record)
    assert found.verdicts == [("3", "k", "m", 0.0, "j", False, 1, False)]
    items = found.items["3"]
    assert (items["k"].measures["words"], items["k"].measures["tokens"]) == (2, 5)
    assert (items["m"].measures["words"], items["m"].measures["tokens"]) == (0, 0.5)
    assert found.mapping["tokens"] == ("n x", "n y")
    assert found.unused == ()


def test_pools_of_a_generic_table(tmp_path):
    """Without texts of its own a row is a match between items that meet again."""
    row = {"x": "k", "y": "m", "w": "1", "one": "a", "two": "b"}
    assert list(generic(tmp_path, COLUMNS, row, row).items) == ["all"]
    with_texts = GenericColumns("x", "y", ("w",), texts=("one", "two"))
    assert list(generic(tmp_path, with_texts, row, row).items) == ["mine/000000", "mine/000001"]
    unnamed = GenericColumns(winner=("w",), texts=("one", "two"))
    (verdict,) = generic(tmp_path, unnamed, {**row, "w": "two"}).verdicts
    assert verdict[:5] == ("mine/000000", "one", "two", 0.0, None)


@pytest.mark.parametrize("name", ["llmbar", "judgebench", "generic"])
def test_places_are_contents_of_their_pool_alone(name, tmp_path):
    """No leaderboard takes `output_1` for a model, and a fit, within pools, is the same."""
    options = {}
    sample = SAMPLES[name]
    if name == "generic":
        options = {"columns": GenericColumns(winner=("w",), texts=("one", "two"))}
        record = {"one": "a b", "two": "c"}
        sample = Sample("mine.jsonl", [{**record, "w": w} for w in ("one", "two", "tie")], [])
    found, tables = imported(tmp_path, sample, **options)
    assert [i["content"] for i in tables["items"]] == [
        f"{i['pool']}/{i['item']}" for i in tables["items"]
    ]
    assert any("each is its own, pool/item" in sentence for sentence in found.not_known())
    out = tmp_path / "out"
    merged = own.read(out / "verdicts.csv", out / "items.csv", merge_pools=True)
    assert len(merged.contents) == len(merged.items)
    told, untold = (
        own.load(out / "verdicts.csv", out / "items.csv", ["words"], content=content).groups
        for content in ("content", None)
    )
    jax.tree.map(
        np.testing.assert_array_equal,
        *([(g.design, g.comparisons) for g in groups] for groups in (told, untold)),
    )


@pytest.mark.parametrize(
    ("marks", "p_first"), [((1, 0, 0), 1.0), ((False, True, False), 0.0), (("0", "0", "1"), 0.5)]
)
def test_one_hot_outcomes_of_a_generic_table(marks, p_first, tmp_path):
    columns = GenericColumns("x", "y", ("w1", "w2", "t"))
    record = {"x": "k", "y": "m", **dict(zip(columns.winner, marks, strict=True))}
    assert generic(tmp_path, columns, record).verdicts[0].p_first == p_first
    two = GenericColumns("x", "y", ("w1", "w2"))
    if p_first == 0.5:  # neither: a tie or a failure, so it is not guessed
        with pytest.raises(own.TableError, match="none of w1, w2 marked"):
            generic(tmp_path, two, record)
    else:
        assert generic(tmp_path, two, record).verdicts[0].p_first == p_first


@pytest.mark.parametrize(
    ("first", "second", "winner", "p_first"),
    [
        ("k", "m", "K", 1.0),
        ("k", "K", "K", 0.0),
        ("k", "m", "Y", 0.0),  # the column's name
        ("tie", "m", "m", 0.0),
        ("tie", "m", "tie", None),  # a tie, or its victory
        ("b", "a", "a", None),
        ("a", "b", "a", 1.0),
        ("1", "2", 2, 0.0),
        ("2", "1", 2, None),
        ("k", "K", "k ", 1.0),
        ("k", "m", "", None),
        ("k", "m", "-1", None),
    ],
)
def test_reserved_words_win_and_a_clash_is_refused(first, second, winner, p_first, tmp_path):
    record = {"x": first, "y": second, "w": winner}
    if p_first is None:
        with pytest.raises(own.TableError, match="w is "):
            generic(tmp_path, COLUMNS, record)
    else:
        assert generic(tmp_path, COLUMNS, record).verdicts[0].p_first == p_first


def test_the_order_of_a_generic_table_is_as_the_user_says(tmp_path):
    record = {"x": "k", "y": "m", "w": "1"}
    assert not generic(tmp_path, COLUMNS, record).counts["order_shown"]
    assert generic(tmp_path, COLUMNS, record, order="shown").counts["order_shown"]
    assert generic(tmp_path, COLUMNS, {**record, "order": "shown"}).counts["order_shown"]
    with pytest.raises(own.TableError, match="order is 'first'"):
        generic(tmp_path, COLUMNS, {**record, "order": "first"})


def test_graded_and_counted_verdicts_of_a_generic_table(tmp_path):
    columns = GenericColumns("x", "y")
    records = [
        {"x": "k", "y": "m", "p_first": p, "count": c} for p, c in [(0.25, 2), (None, 1), (1, 1)]
    ]
    found = generic(tmp_path, columns, *records)
    assert [(v.p_first, v.count) for v in found.verdicts] == [(0.25, 2), (None, 1), (1, 1)]
    for wrong in ({"p_first": 1.5}, {"p_first": "x"}, {"count": -1}, {"count": 1.5}):
        with pytest.raises(own.TableError, match=f"{next(iter(wrong))} is"):
            generic(tmp_path, columns, {**records[0], **wrong})


@pytest.mark.parametrize(
    "text", ["1_0", "0_1", "\u0661", "\uff11", "0x1", "nan", "Infinity", "1 0"]
)
def test_numbers_are_in_decimal_notation(text, tmp_path):
    """Not in Python's, of which Python's own `float` takes more than a table may hold."""
    columns = GenericColumns("x", "y", counts=(("n", "n", "n"),))
    record = {"x": "k", "y": "m", "p_first": "1e0", "count": " 3. ", "n": "+.5"}
    (verdict,) = generic(tmp_path, columns, record).verdicts
    assert (verdict.p_first, verdict.count) == (1.0, 3)
    for key in ("p_first", "count", "n"):
        with pytest.raises(own.TableError, match=f"line 1: {key} is "):
            generic(tmp_path, columns, {**record, key: text})
    annotations = [{**ALPACA_EVAL.records[0], "preference": text}]
    with pytest.raises(own.TableError, match="line 2: preference is "):
        formats.collect([save(tmp_path, ALPACA_EVAL.name, annotations)])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (GenericColumns(first="x"), "--first and --second go together"),
        (GenericColumns("x", "y", ("x",)), "'x' is named for two things"),
        (GenericColumns("x", "y", tuple("abcd")), "up to 3 columns, got 4"),
        (GenericColumns("x", "y", counts=(("item", "a", "b"),)), "a name of its own"),
    ],
)
def test_columns_that_cannot_be(columns, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        generic(tmp_path, columns, {"x": "k", "y": "m", "w": "1"})


def test_files_that_are_of_no_format(tmp_path):
    path = save(tmp_path, "any.jsonl", [{"this": 1, "that": 2}])
    with pytest.raises(own.TableError, match=r"line 1: none of the formats .* 'this', 'that'"):
        formats.collect([path])
    both = {**LLMBAR.records[0], **ARENA_HARD.records[0]}
    with pytest.raises(own.TableError, match=r"may be arena_hard or llmbar: say which"):
        formats.collect([save(tmp_path, "any.jsonl", [both])])
    with pytest.raises(own.TableError, match="no 'question_id' here"):
        formats.collect([path], format="mt_bench")
    with pytest.raises(ValueError, match="for a generic table, not for mt_bench"):
        formats.collect([path], format="mt_bench", columns=COLUMNS)


def test_the_same_records_from_every_kind_of_file(tmp_path):
    pytest.importorskip("pyarrow")
    names = ["a.csv", "a.json", "a.jsonl", "a.parquet", "a.csv.gz", "a.jsonl.gz"]
    every = [
        [dict(record) for _, record in sources.read(save(tmp_path, name, GENERIC.records))]
        for name in names
    ]
    assert all(records == GENERIC.records for records in every)
    text = pd.DataFrame(GENERIC.records).to_csv(index=False)
    for encoding, separator in [("utf-16", ","), ("utf-8-sig", ";"), ("utf-8", "\t")]:
        path = tmp_path / "other.csv"
        path.write_bytes(text.replace(",", separator).replace("\n", "\r\n").encode(encoding))
        assert [dict(record) for _, record in sources.read(path)] == GENERIC.records
    path.write_text('"a, b, or c";d\n1;2\n')  # the separator is one of names, not of letters
    assert [dict(record) for _, record in sources.read(path)] == [{"a, b, or c": "1", "d": "2"}]


def test_records_begin_on_the_lines_that_are_named(tmp_path):
    text = json.dumps([{"a": [1, 2]}, {"a": "x\ny"}, {}], indent=2)
    (tmp_path / "a.json").write_text("\n" + text)
    found = list(sources.read(tmp_path / "a.json"))
    assert [text.splitlines()[line - 2].strip() for line, _ in found] == ["{", "{", "{}"]
    (tmp_path / "b.jsonl").write_text('\n{"a": 1}\n\n{"a": "\u2028"}\n')
    assert [line for line, _ in sources.read(tmp_path / "b.jsonl")] == [2, 4]
    (tmp_path / "c.csv").write_text('a,b\n\n1,"x\ny"\n2,z\n')
    assert [line for line, _ in sources.read(tmp_path / "c.csv")] == [3, 5]


LONG = "9" * 5000

DAMAGED = {
    "a.json": {
        "": "file is empty",
        "[": "not JSON",
        '[{"a": 1}\n {"a": 2}]': "line 2: not JSON: '{'",
        '[{"a": 1},\n': "line 2: not JSON",
        '[{"a": 1}\n': "an end too early",
        '[{"a": 1}]\n{}': "line 2: not JSON: more after the list",
        "[1]": "line 1: a int where a record should be",
        '[{"a": \n tru}]': "line 2: not JSON: Expecting value",
        f'[{{"a": {LONG}}}]': "not JSON",
        "[" * 100_000: "nested too deeply",
        "[]": "no records",
        "pool,first": "not JSON",
    },
    "a.jsonl": {
        '{"a": 1}\n{"a": ': "line 2: not JSON",
        '{"a": 1} {"a": 2}': "line 1: more than one JSON value",
        '{"a": 1}\n[]': "line 2: a list where a record should be",
    },
    "a.csv": {
        "a,b\n1\n": "line 2: 1 fields, the header has 2",
        "a,a\n1,2\n": "two columns are called 'a'",
        'a,b\n"1"2,3\n': "line 2: not CSV",
        'a,b\n"1,2\n': "line 2: not CSV",
        "a,b\n": "no records",
    },
    "a.parquet": {"PAR1": "not a readable table"},
    "a.csv.gz": {"\x1f\x8b damaged": "cannot be unpacked"},
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, cases in DAMAGED.items() for text in cases],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_damaged_files_end_in_one_line(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text, encoding="latin-1")
    with pytest.raises(own.TableError) as error:
        formats.collect([path], format="generic")
    said = str(error.value).splitlines()[-1]
    assert said.startswith(str(path))
    assert DAMAGED[name][text] in said


def test_files_cut_anywhere_end_in_an_error(tmp_path):
    path = save(tmp_path, LLMBAR.name, LLMBAR.records)
    data = path.read_bytes()
    packed = gzip.compress(data)
    for name, whole in (("a.json", data), ("a.json.gz", packed)):
        cut = tmp_path / name
        for n in range(0, len(whole) - 1, 29):
            cut.write_bytes(whole[:n])
            with pytest.raises(own.TableError):
                formats.collect([cut])


def test_texts_are_counted():
    found = texts.measures("# A b\n\n1. one\n 2) two\n- x **y**\n* z\n> q\n| t | u |\n`c` ```\n")
    assert found == {
        "words": 21, "chars": 58, "lists": 2, "numbered": 2, "headings": 1, "quotes": 1,
        "tables": 1, "bold": 2, "code": 3, "markdown": 12,
    }  # fmt: skip
    assert set(texts.measures("").values()) == {0}
    # Program text is full of what only looks like markers.
    assert texts.measures("def __init__(self): x = a - b * 2 # no heading")["markdown"] == 0


def test_tables_there_are_not_overwritten_unless_asked(tmp_path):
    found, _ = imported(tmp_path, LLMBAR)
    out = tmp_path / "out"
    before = (out / "verdicts.csv").read_bytes()
    other = formats.collect([save(tmp_path, MT_BENCH.name, MT_BENCH.records)])
    with pytest.raises(ValueError, match=r"verdicts.csv: it exists, .* or --overwrite"):
        other.write(out)
    assert (out / "verdicts.csv").read_bytes() == before
    other.write(out, overwrite=True)
    assert sorted(p.name for p in out.iterdir()) == ["items.csv", "verdicts.csv"]
    with pytest.raises(ValueError, match=r"items.csv is no folder"):
        found.write(out / "items.csv")


def test_a_link_among_the_tables_is_replaced_not_followed(tmp_path):
    found, _ = imported(tmp_path, MT_BENCH)
    (tmp_path / "linked").mkdir()
    outside = tmp_path / "precious.csv"
    outside.write_text("precious")
    (tmp_path / "linked" / "verdicts.csv").symlink_to(outside)
    found.write(tmp_path / "linked", overwrite=True)
    assert outside.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    found, _ = imported(tmp_path, MT_BENCH)
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(ValueError, match="cannot write"):
        found.write(tmp_path / "closed" / "out")


def test_real_annotations_of_alpaca_eval(data, tmp_path):
    source = data / "raw" / "alpaca_eval_annotations.json"
    formats.collect([source]).write(tmp_path)
    verdicts, items = (rows(tmp_path / f"{name}.csv") for name in ("verdicts", "items"))
    # Read independently.
    raw = json.loads(source.read_text())
    assert [(v["first"], v["second"], v["judge"]) for v in verdicts] == [
        (r["generator_1"], r["generator_2"], r["annotator"]) for r in raw
    ]
    assert [float(v["p_first"]) for v in verdicts] == pytest.approx(
        [0.5 if r["preference"] in (0, 1.5) else 2 - r["preference"] for r in raw], abs=1e-12
    )
    assert {v["order"] for v in verdicts} == {"unknown"}
    assert len({v["pool"] for v in verdicts}) == len({r["instruction"] for r in raw}) == 804
    words = {(i["pool"], i["item"]): (int(i["words"]), int(i["chars"])) for i in items}
    for v, r in zip(verdicts, raw, strict=True):
        for side in (1, 2):
            text = r[f"output_{side}"]
            assert words[v["pool"], r[f"generator_{side}"]] == (len(text.split()), len(text))
    assert len(items) == 2 * 804


def test_real_results_of_llmbar(data, tmp_path):
    source = data / "raw" / "llmbar_swap_result.json"
    formats.collect([source], judges=["ChatGPT"]).write(tmp_path)
    verdicts, items, anchors = (
        rows(tmp_path / f"{name}.csv") for name in ("verdicts", "items", "anchors")
    )
    # Read independently.
    expected = []
    for r in json.loads(source.read_text()):
        for swap, order in (("False", "12"), ("True", "21")):
            won = r["results"][0][f"swap = {swap}"]["winner"]
            expected.append((f"output_{order[0]}", "first" if won == order[0] else "second"))
    assert [(v["first"], v["winner"]) for v in verdicts] == expected
    assert {v["order"] for v in verdicts} == {"shown"}
    # The same verdicts, counts and labels as in the tables made of the same file by other means.
    pools = list(dict.fromkeys(v["pool"] for v in verdicts))
    names = dict(zip(pools, (f"Neighbor/{n:03d}" for n in range(len(pools))), strict=True))
    there = [r for r in rows(data / "llmbar" / "items.csv") if r["pool"] in names.values()]
    assert [(names[i["pool"]], i["item"], i["words"], i["markdown"]) for i in items] == [
        tuple(r.values()) for r in there
    ]
    labels = [r for r in rows(data / "llmbar" / "anchors.csv") if r["pool"] in names.values()]
    assert [(names[a["pool"]], a["better"]) for a in anchors] == [
        (r["pool"], r["better"]) for r in labels
    ]
