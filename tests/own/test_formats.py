"""Verdicts as other tools and people write them: every format, its traps, what is not guessed, and
files that are of no format."""

import csv
import re

import jax
import numpy as np
import pytest
from support.foreign_files import REFUSED, SAMPLES, columns_of, records, save, save_sample, talk

from jbt import own
from jbt.own import formats
from jbt.own.formats import GenericColumns, sources, texts
from jbt.own.formats.records import Refused, Row


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_sample(tmp_path, name):
    """The import of a sample, and the rows of its tables as they are written."""
    columns = columns_of(**SAMPLES[name].get("columns", {}))
    options = SAMPLES[name].get("options", {})
    found = formats.collect([save_sample(tmp_path, name)], columns=columns, **options)
    written = found.write(tmp_path / "out", overwrite=True)
    return found, {path.stem: rows(path) for path in written}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_each_file_says_is_written_and_read_again(name, tmp_path):
    sample = SAMPLES[name]
    found, tables = read_sample(tmp_path, name)
    assert found.format.name == sample["format"]
    assert (
        found.mapping.items() >= {k: tuple(v) for k, v in sample.get("mapping", {}).items()}.items()
    )
    pools = found.items["pool"].unique().tolist()

    def named(pool):
        """A pool, or its number if a digest names it."""
        return pools.index(pool) if re.fullmatch("q[0-9a-f]{12}", pool) else pool

    written = [
        [named(row["pool"]), *map(row.get, ("judge", "first", "second")),
         row.get("winner", row.get("p_first")), row["order"]]
        for row in tables["verdicts"]
    ]  # fmt: skip
    assert written == sample["verdicts"]
    items = {(named(row["pool"]), row["item"]): row for row in tables["items"]}
    for pool, item, content, words in sample.get("items", ()):
        row = items[pool, item]
        assert row.get("content") == (f"{row['pool']}/{item}" if content == "?" else content)
        assert row.get("words") == (None if words is None else str(words))
    anchors = [[named(row.pop("pool")), *row.values()] for row in tables.get("anchors", [])]
    assert anchors == sample.get("anchors", [])
    won = [cell for *_, cell, _ in written]
    assert found.counts["errors"] == won.count("error") + won.count("")
    assert found.counts["ties"] == won.count("tie") + won.count("0.5")
    read = own.read(*(tmp_path / "out" / f"{table}.csv" for table in tables))
    assert len(read.verdicts) == found.counts["verdicts"] - found.counts["errors"]
    assert len(read.items) == len(items) == len(tables["items"])
    assert len(read.anchors) == len(anchors)
    counts = sample.get("counts", [1] * len(won))
    assert [float(row.get("count", 1)) for row in tables["verdicts"]] == pytest.approx(counts)


WRONG = [(name, wrong) for name, sample in SAMPLES.items() for wrong in sample.get("wrong", ())]


@pytest.mark.parametrize(("name", "message"), WRONG)
def test_codings_outside_a_format_are_refused_with_their_line(name, message, tmp_path):
    sample = SAMPLES[name]
    *others, last = sample["records"]
    last = {key: v for key, v in (last | sample["wrong"][message]).items() if v != "?"}
    path = save(tmp_path, sample["name"], [*others, last])
    with pytest.raises(own.TableError) as error:
        formats.collect([path])
    line = len(others) + 1 if path.suffix == ".parquet" else path.read_text().count("\n")
    if path.suffix == ".json":
        text = path.read_text()
        line = text[: text.rindex("\n {")].count("\n") + 2
    (said,) = str(error.value).splitlines()
    assert said.startswith(f"{path}, line {line}: ")
    assert message in said


ODD = [None, 0, 1e300, -1.5, True, "", "x", "\0", "\ud800", "[", [], [None], [[]], {}, {"a": [{}]}]


@pytest.mark.parametrize("name", [name for name in SAMPLES if "records" in SAMPLES[name]])
def test_values_of_any_kind_are_refused_or_read(name, tmp_path):
    """Whatever stands where a format has something else; and all names that are read can be
    written."""
    format, last = formats.FORMATS[SAMPLES[name]["format"]], records(name)[-1]
    variants = [{**last, key: value} for key in last for value in ODD]
    variants += [{k: v for k, v in last.items() if k != key} for key in last]
    n_refused = 0
    for values in variants:
        try:
            read = list(format.records(Row(tmp_path / "file", "file", 0, 1, values)))
        except Refused:
            n_refused += 1
            continue
        for record in read:
            names = [getattr(record, f, None) for f in ("pool", "judge", "better", "worse")]
            items = [getattr(record, f).name for f in ("first", "second") if hasattr(record, f)]
            assert all(name is None or name.encode().strip() for name in names + items)
    assert 0 < n_refused < len(variants)


ALPHABETICAL = [("a", "b"), ("a", "c"), ("b", "c")]
CONSTANT = [("b", "a"), ("b", "c"), ("b", "d")]


@pytest.mark.parametrize(
    ("pairs", "sign"),
    [
        (ALPHABETICAL, "alphabetical"),
        (CONSTANT, "first is always 'b'"),
        ([pair[::-1] for pair in CONSTANT], "second is always 'b'"),
        ([("a", "b"), ("b", "a"), ("a", "c")], None),
    ],
)
def test_columns_that_are_sorted_or_constant_are_not_taken_for_the_order_shown(
    pairs, sign, tmp_path
):
    battle = records("chatbot_arena")[0]
    battles = [
        {**battle, "question_id": n, "model_a": a, "model_b": b} for n, (a, b) in enumerate(pairs)
    ]
    path = save(tmp_path, "battles.json", battles)
    found = formats.collect([path])
    assert found.counts["order_unknown"] == (3 if sign else 0)
    assert not sign or any(sign in sentence for sentence in found.not_known())
    told_so = formats.collect([path], order="shown")
    assert told_so.counts["order_shown"] == 3
    assert bool(told_so.notes()) == bool(sign)


def test_an_order_that_is_recorded_is_believed_though_one_column_is_constant(tmp_path):
    """LLMBar names its outputs by their place, and a judgment alone shows just one order."""
    judged = [{**r, "results": [{"swap = False": {"winner": "1"}}]} for r in records("llmbar")]
    found = formats.collect([save(tmp_path, "result.json", judged)])
    assert found.counts["order_shown"] == 3


def test_lengths_of_arena_hard_are_in_the_answers(tmp_path):
    counted = {"token_len": 9, "header_count": {"h1": 1, "h2": 2}, "list_count": {"ordered": 4}}
    counted["bold_count"] = {"**": 0, "__": 5}
    written = {"base": "one **two**", "m": "# one", "other": "never judged"}
    of = {"uid": "q1", "metadata": counted}
    answers = [{**of, "model": m, "messages": talk({"answer": t})} for m, t in written.items()]
    answers = save(tmp_path, "answers.jsonl", answers)
    found = formats.collect([answers, save_sample(tmp_path, "arena_hard")])
    counted = found.items.set_index(["pool", "item"]).loc["q1"]
    base, m = (counted.loc[name] for name in ("base", "m"))
    expected = {"tokens": 9, "header_count": 3, "list_count": 4, "bold_count": 5}
    expected |= {"words": 2, "bold": 2, "markdown": 2}
    assert base[list(expected)].to_dict() == expected
    assert (m["words"], m["headings"]) == (2, 1)
    assert "other" not in found.contents


def test_keys_of_the_source_may_become_columns(tmp_path):
    battles = [{**row, "language": None} for row in records("chatbot_arena_clean_battles")]
    battles[-1]["language"] = "English"
    found = formats.collect([save(tmp_path, "a.jsonl", battles)], keep=["language", "anony"])
    verdicts, _ = map(rows, found.write(tmp_path / "out"))
    assert [row["language"] for row in verdicts] == ["", "", "English"]
    assert [row["anony"] for row in verdicts] == ["True", "True", "False"]


RECORD = {"x": "k", "y": "m", "w": "1"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mt_bench", {"baseline": "base"}, "for Arena-Hard, not for mt_bench"),
        ("llmbar", {"format": "mt_bench"}, "no 'model_1' here"),
        ("llmbar", {"judges": ("a", "b")}, "2 judges for 1 files"),
        ("own_rated", {"order": "shown"}, "have no first and second answer"),
        ("own_rated", {"keep": ["score"]}, "from two ratings"),
        ("chatbot_arena", {"keep": ["conversation_a"]}, "conversation_a is .*--keep takes text"),
    ],
)
def test_options_that_do_not_go_with_the_file(name, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        formats.collect([save_sample(tmp_path, name)], **options)


def test_several_files_are_one_import(tmp_path):
    """They share their pools, unless these have no name."""
    again = tmp_path / "again"
    again.mkdir()
    paths = [save_sample(folder, "llmbar") for folder in (tmp_path, again)]
    found = formats.collect(paths, judges=("a", "b"))
    assert (found.counts["pools"], found.counts["verdicts"]) == (3, 12)
    with pytest.raises(ValueError, match=r"2 files do not name their judge, .* 2 names"):
        formats.collect(paths)
    places = [(tmp_path, "battles.1.json"), (tmp_path, "battles.2.json"), (again, "battles.1.json")]
    battles = records("chatbot_arena_clean_battles")
    found = formats.collect([save(*place, battles) for place in places])
    pools = found.items["pool"].unique().tolist()
    assert pools[::3] == ["battles.1/000000", "battles.2/000000", "battles.1 (2)/000000"]


def test_files_that_contradict_each_other(tmp_path):
    one = save_sample(tmp_path, "llmbar")
    two = save(tmp_path, "two.json", [{**records("llmbar")[0], "label": 2}])
    with pytest.raises(own.TableError, match=r"two.json, line 2: the label of pool .* another one"):
        formats.collect([one, two])
    vote = records("chatbot_arena")[0]
    path = save(tmp_path, "arena.json", [vote, {**vote, "conversation_a": talk("other")}])
    with pytest.raises(own.TableError, match="item 'm' again in one pool, with another text"):
        formats.collect([path])
    with pytest.raises(own.TableError, match=r"is chatbot_arena, but llmbar came before it$"):
        formats.collect([one, path])


def test_lengths_in_a_row_are_those_of_its_answers(tmp_path):
    """Without a column of prompts a model's answers may have any lengths."""
    battle = {"model_a": "m", "model_b": "n", "length_a": 3, "length_b": 4}
    turned = {**battle, "model_a": "n", "model_b": "m", "length_a": 5}
    battles = [{**row, "winner": "a"} for row in (battle, turned, battle)]
    found = formats.collect([save(tmp_path, "battles.jsonl", battles)])
    assert found.items["pool"].nunique() == 3
    assert found.items["length"].tolist() == [3, 4, 4, 5, 3, 4]
    counted = [{**battle, "wins_a": 2, "wins_b": 1}]
    found = formats.collect([save(tmp_path, "counted.jsonl", counted)])
    assert found.items["pool"].tolist() == ["all", "all"]


def test_names_with_a_line_break_are_refused(tmp_path):
    """Tables with such names are, so they are not written."""
    row = records("generic")[0]
    odd = save(tmp_path, "a.jsonl", [{**row, "model_a": "one\rtwo"}])
    with pytest.raises(own.TableError, match=r"model_a is .*allowed: a name on one line"):
        formats.collect([odd])
    padded = save(tmp_path, "padded.jsonl", [{**row, "pool": "p\n"}])
    assert formats.collect([padded]).verdicts[0].pool == "p"


def test_winners_1_and_2_may_be_steps_of_a_scale(tmp_path):
    numbered = save_sample(tmp_path, "own_numbered")
    assert "1 and 2 are read as first and second" in formats.collect([numbered]).notes()[0]
    assert not formats.collect([numbered], columns=columns_of(scale="1:2")).notes()


def generic(tmp_path, columns, row):
    return formats.collect([save(tmp_path, "mine.jsonl", [row])], columns=columns)


def test_columns_of_a_generic_table_are_named(tmp_path):
    columns = GenericColumns(
        "x", "y", ("won",), "prompt", "by", ("text x", "text y"), (("tokens", "n x", "n y"),)
    )
    record = {"x": "k", "y": "m", "won": "m", "prompt": 3, "by": "j", "text x": "a b", "text y": "",
              "n x": 5, "n y": "0.5"}  # fmt: skip
    found = generic(tmp_path, columns, record)
    assert found.verdicts == [("3", "k", "m", 0.0, "j", False, 1, False, (), ())]
    assert found.items[["item", "words", "tokens"]].to_numpy().tolist() == [
        ["k", 2, 5],
        ["m", 0, 0.5],
    ]
    assert found.counts["order_shown"] == 0
    assert generic(tmp_path, columns, {**record, "order": "shown"}).counts["order_shown"] == 1


def test_places_are_contents_of_their_pool_alone(tmp_path):
    """No leaderboard takes `output_1` for a model, and a fit, within pools, is the same."""
    found, _ = read_sample(tmp_path, "llmbar")
    assert any("each is its own, pool/item" in sentence for sentence in found.not_known())
    files = [tmp_path / "out" / f"{table}.csv" for table in ("verdicts", "items")]
    merged = own.read(*files, merge_pools=True)
    assert len(merged.contents) == len(merged.items)
    groups = [own.load(*files, ["words"], content=c).groups for c in ("content", None)]
    designs = [[(g.design, g.comparisons) for g in part] for part in groups]
    jax.tree.map(np.testing.assert_array_equal, *designs)


def test_numbers_are_in_decimal_notation(tmp_path):
    """Not in Python's, of which Python's own `float` takes more than a table may hold."""
    columns = GenericColumns("x", "y", counts=(("n", "n", "n"),))
    record = {**RECORD, "p_first": "1e0", "count": " 3. ", "n": "+.5"}
    (verdict,) = generic(tmp_path, columns, record).verdicts
    assert (verdict.p_first, verdict.count) == (1.0, 3)
    for key, value in {"p_first": "1_0", "count": "\u0661", "n": "nan"}.items():
        with pytest.raises(own.TableError, match=f"line 1: {key} is "):
            generic(tmp_path, columns, {**record, key: value})


@pytest.mark.parametrize(("table", "columns", "message"), REFUSED["tables"])
def test_nothing_is_guessed(table, columns, message, tmp_path):
    path = tmp_path / ("table.jsonl" if table.startswith("{") else "table.csv")
    path.write_text(SAMPLES[table]["text"] if table in SAMPLES else table)
    with pytest.raises(ValueError, match=re.escape(message)):
        formats.collect([path], columns=columns_of(**columns))


def test_the_format_is_one(tmp_path):
    both = save(tmp_path, "both.jsonl", [{**records("llmbar")[0], **records("arena_hard")[0]}])
    with pytest.raises(own.TableError, match=r"may be arena_hard or llmbar: say which"):
        formats.collect([both])


def test_the_separator_is_one_of_names_not_of_letters(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text('"a, b, or c";d\n1;2\n')
    assert [dict(record) for _, record in sources.read(path)] == [{"a, b, or c": "1", "d": "2"}]


DAMAGED = REFUSED["files"]
DAMAGED["a.json"] |= {f'[{{"a": {"9" * 5000}}}]': "not JSON", "[" * 100_000: "nested too deeply"}


def test_damaged_files_end_in_one_line(tmp_path):
    for name, cases in DAMAGED.items():
        for text, message in cases.items():
            path = tmp_path / name
            path.write_text(text, encoding="latin-1")
            with pytest.raises(own.TableError) as error:
                formats.collect([path], format="generic")
            said = str(error.value).splitlines()[-1]
            assert said.startswith(str(path))
            assert message in said


def test_texts_are_counted():
    found = texts.measures("# A b\n\n1. one\n 2) two\n- x **y**\n* z\n> q\n| t | u |\n`c` ```\n")
    assert found == {
        "words": 21, "chars": 58, "lists": 2, "numbered": 2, "headings": 1, "quotes": 1,
        "tables": 1, "bold": 2, "code": 3, "markdown": 12,
    }  # fmt: skip
    # Program text is full of what only looks like markers.
    assert texts.measures("def __init__(self): x = a - b * 2 # no heading")["markdown"] == 0


def test_usual_names_may_have_spaces_and_prompts_be_numbers(tmp_path):
    rows = [
        {"Question-ID": i, "Response A": "a b", "Response B": "c", "Winner": "A"} for i in (0, 1, 0)
    ]
    found = formats.collect([save(tmp_path, "own.jsonl", rows)])
    assert [v.pool for v in found.verdicts] == ["0", "1", "0"]
    assert found.items["words"].tolist() == [2, 1] * 2
