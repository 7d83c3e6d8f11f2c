"""Verdicts as other tools and people write them: every format, its traps, what is not guessed, and
files that are of no format."""

import csv
import gzip
import json
import random
import re

import jax
import numpy as np
import pandas as pd
import pytest
from support.foreign_files import SAMPLES, columns_of, records, save, save_sample, talk
from support.marks import nightly

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
    found = formats.collect([save_sample(tmp_path, name)], columns=columns)
    written = found.write(tmp_path / "out", overwrite=True)
    return found, {path.stem: rows(path) for path in written}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_each_file_says_is_written_and_read_again(name, tmp_path):
    sample = SAMPLES[name]
    found, tables = read_sample(tmp_path, name)
    assert found.format.name == sample["format"]
    pools = found.items["pool"].unique().tolist()

    def named(pool):
        """A pool, or its number if a digest names it."""
        return pools.index(pool) if re.fullmatch("q[0-9a-f]{12}", pool) else pool

    facts = ("pool", "judge", "first", "second", "won", "order")
    expected = [dict(zip(facts, v, strict=True)) for v in sample["verdicts"]]
    for row, verdict in zip(tables["verdicts"], expected, strict=True):
        row["won"] = row.get("winner", row.get("p_first"))
        assert named(row["pool"]) == verdict.pop("pool")
        assert {key: row.get(key) for key in verdict} == verdict
    items = {(named(row["pool"]), row["item"]): row for row in tables["items"]}
    assert len(items) == len(tables["items"])
    for pool, item, content, words in sample.get("items", ()):
        row = items[pool, item]
        assert row.get("content") == (f"{row['pool']}/{item}" if content == "?" else content)
        assert row.get("words") == (None if words is None else str(words))
    anchors = [[named(row.pop("pool")), *row.values()] for row in tables.get("anchors", [])]
    assert anchors == sample.get("anchors", [])
    won = [verdict["won"] for verdict in expected]
    assert found.counts["errors"] == won.count("error") + won.count("")
    assert found.counts["ties"] == won.count("tie") + won.count("0.5")
    out = tmp_path / "out"
    read = own.read(*(out / f"{table}.csv" for table in tables))
    assert len(read.verdicts) == found.counts["verdicts"] - found.counts["errors"]
    assert len(read.items) == found.counts["items"]
    assert len(read.anchors) == found.counts["anchors"]
    counts = sample.get("counts", [1] * len(won))
    assert [float(row.get("count", 1)) for row in tables["verdicts"]] == pytest.approx(counts)
    if set(counts) == {1}:
        assert read.counts["n_errors"].sum() == found.counts["errors"]
        assert read.counts["n_ties"].sum() == found.counts["ties"]
    assert read.verdicts["shown"].sum() == sum(
        v["order"] == "shown" and v["won"] not in ("error", "") for v in expected
    )


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


@pytest.mark.parametrize("count", [200, nightly(4000)])
def test_mutated_files_are_read_or_end_in_one_line_a_problem(count, tmp_path):
    """Bytes deleted, doubled, replaced, cut: never another exception."""
    rng = random.Random(0)
    n_read, lines = 0, []
    for n in range(count):
        name = list(SAMPLES)[n % len(SAMPLES)]
        data = save_sample(tmp_path, name).read_bytes()
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            new = rng.choice(["", "", rng.choice(',"{}[]:;\n=><0aB\u00e9\0')]).encode()
            data = data[:at] + new + data[at + rng.randint(0, 1) :]
        data = data[: rng.randrange(len(data))] if n % 8 == 0 else data
        path = tmp_path / f"{n}-{SAMPLES[name]['name']}"
        if n % 10 == 0:
            path, data = path.with_name(f"{path.name}.gz"), gzip.compress(data)
        path.write_bytes(data)
        try:
            columns = columns_of(**SAMPLES[name].get("columns", {}))
            formats.collect([path], columns=columns).write(tmp_path / f"out{n}")
            n_read += 1
        except own.TableError as error:
            lines += str(error).split("\n")
    assert all(line.startswith((str(tmp_path), "and ")) for line in lines)
    assert count / 8 < n_read < count * 7 / 8


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
    path = save(
        tmp_path,
        "battles.json",
        [
            {**records("chatbot_arena")[0], "question_id": n, "model_a": a, "model_b": b}
            for n, (a, b) in enumerate(pairs)
        ],
    )
    found = formats.collect([path])
    assert found.counts["order_unknown"] == (3 if sign else 0)
    assert not sign or any(sign in sentence for sentence in found.not_known())
    told_so = formats.collect([path], order="shown")
    assert told_so.counts["order_shown"] == 3
    assert bool(told_so.notes()) == bool(sign)
    assert formats.collect([path], order="unknown").counts["order_unknown"] == 3


def test_an_order_that_is_recorded_is_believed_though_one_column_is_constant(tmp_path):
    """LLMBar names its outputs by their place, and a judgment alone shows just one order."""
    judged = [{**r, "results": [{"swap = False": {"winner": "1"}}]} for r in records("llmbar")]
    found = formats.collect([save(tmp_path, "result.json", judged)])
    assert found.counts["order_shown"] == 3


def test_lengths_of_arena_hard_are_in_the_answers(tmp_path):
    counted = {"token_len": 9, "header_count": {"h1": 1, "h2": 2}, "list_count": {"ordered": 4}}
    counted["bold_count"] = {"**": 0, "__": 5}
    written = {"base": "one **two**", "m": "# one", "other": "never judged"}
    answers = [
        {"uid": "q1", "model": m, "messages": talk({"answer": t}), "metadata": counted}
        for m, t in written.items()
    ]
    answers = save(tmp_path, "answers.jsonl", answers)
    found = formats.collect([answers, save_sample(tmp_path, "arena_hard")])
    counted = found.items.set_index(["pool", "item"]).loc["q1"]
    base, m = (counted.loc[name] for name in ("base", "m"))
    expected = {"tokens": 9, "header_count": 3, "list_count": 4, "bold_count": 5}
    expected |= {"words": 2, "bold": 2, "markdown": 2}
    assert base[list(expected)].to_dict() == expected
    assert (m["words"], m["headings"]) == (2, 1)
    assert found.counts["answers_without_verdict"] == 1
    assert found.counts["items_without_lengths"] == 10
    assert "other" not in found.contents
    with pytest.raises(own.TableError, match="no verdicts"):
        formats.collect([answers])


def test_strong_verdicts_count_as_often_as_asked(tmp_path):
    found = formats.collect([save_sample(tmp_path, "arena_hard")], strong_weight=3)
    assert [v.count for v in found.verdicts] == [3, 1, 1, 3, 1, 1, 3, 1, 1, 1, 1, 3]
    found.write(tmp_path / "out")
    read = own.read(tmp_path / "out" / "verdicts.csv")
    assert read.counts["n_verdicts"].sum() == 4 * 3 + 6
    with pytest.raises(ValueError, match="mt_bench has no `>>`"):
        formats.collect([save_sample(tmp_path, "mt_bench")], strong_weight=3)


def imported(tmp_path, text, **columns):
    """The verdicts (first, second, share) and anchors of a CSV file."""
    path = tmp_path / "mine.csv"
    path.write_text(text.replace(" / ", "\n"))
    found = formats.collect([path], columns=GenericColumns(**columns))
    rows = [(v.first, v.second, v.p_first) for v in found.verdicts]
    return rows, list(found.anchors.values()), found


CHOSEN_BESIDE = (
    "prompt,model_a,model_b,winner,chosen,rejected / p,m,n,model_b,long n text,bad / "
    "q,m,n,model_a,m text,x"
)


def test_no_label_and_no_text_is_taken_for_another(tmp_path):
    """`chosen` beside other items is neither the first one's text nor a label; a label beside a
    judge's scores is not its verdict."""
    rows, anchors, found = imported(tmp_path, CHOSEN_BESIDE)
    assert rows == [("m", "n", 0.0), ("m", "n", 1.0)]
    assert anchors == []
    assert found.measures == []
    text = "prompt,response_a,response_b,score_a,score_b,label / p,one,two,0.9,0.1,b"
    with pytest.raises(ValueError, match=r"label beside score_a and score_b: is it the verdict"):
        imported(tmp_path, text)
    rows, anchors, _ = imported(tmp_path, text, gold="label")
    assert (rows[0][2], anchors) == (1.0, ["response_b"])


def test_ties_and_scales_are_not_passed_over(tmp_path):
    rows, _, _ = imported(tmp_path, "winner,loser,draw / x,y,1 / y,x,0 / x,y,")
    assert [share for *_, share in rows] == [0.5, 1.0, 1.0]
    with pytest.raises(ValueError, match="draw is '7'"):
        imported(tmp_path, "winner,loser,draw / x,y,7")
    scores = {"scores": ("score_a", "score_b"), "outcomes": own.Outcomes.of_scale("1:5")}
    text = "prompt,model_a,model_b,score_a,score_b / q,x,y,{},5"
    rows, _, found = imported(tmp_path, text.format(1), **scores)
    assert rows == [("x", "y", 1.0)]
    assert "score_a (by --scale 1:5)" in found.mapping["winner"]
    with pytest.raises(ValueError, match="score_a is '6', not covered by --scale 1:5"):
        imported(tmp_path, text.format(6), **scores)


def test_ranks_may_all_tie_and_a_number_of_the_row_is_no_item(tmp_path):
    rows, _, found = imported(tmp_path, "id,m1,m2,m3 / 1,1,2,3 / 2,2,2,2 / 5,3,1,2")
    assert found.contents == ["m1", "m2", "m3"]
    assert [share for *_, share in rows] == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.0, 0.0, 1.0]


def test_keys_of_the_source_may_become_columns(tmp_path):
    rows = [
        {"question_id": i, "model_a": "m", "model_b": "n", "winner": "tie", "tstamp": 1.0}
        | {"language": "en" if i % 2 else None, "is_code": i == 0, "tags": ["x"]}
        for i in range(4)
    ]
    path = tmp_path / "arena.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    formats.collect([path], keep=["language", "is_code"]).write(tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "verdicts.csv", keep_default_na=False)
    assert table["language"].tolist() == ["", "en", "", "en"]
    assert table["is_code"].tolist() == [True, False, False, False]
    for keep, message in (
        (["tags"], "tags is .*--keep takes text"),
        (["colour"], "no 'colour'|no colour|colour"),
        (["winner"], "--keep winner: each key once"),
        (["language"] * 2, "each key once"),
    ):
        with pytest.raises(ValueError, match=message):
            formats.collect([path], keep=keep)
    single = tmp_path / "single.csv"
    single.write_text("prompt,model,score\np,m,1\np,n,2\n")
    with pytest.raises(ValueError, match="from two ratings"):
        formats.collect([single], keep=["score"])


def test_arena_hard_with_one_game_and_without_its_baseline(tmp_path):
    judgments = [
        {"question_id": f"q{i}", "model": "m", "judge": "j", "games": [{"score": score}] * n}
        for i, (score, n) in enumerate([("A>B", 1), ("B>>A", 2), (None, 1)])
    ]
    path = save(tmp_path, "m.jsonl", judgments)
    with pytest.raises(own.TableError, match="do not name the model compared with: --baseline"):
        formats.collect([path])
    found = formats.collect([path], baseline="base")
    assert [(v.first, v.p_first) for v in found.verdicts] == [
        ("base", 1),
        ("base", 0),
        ("m", 0),
        ("base", None),
    ]
    assert found.counts["order_shown"] == 4
    with pytest.raises(ValueError, match="for Arena-Hard, not for mt_bench"):
        formats.collect([save_sample(tmp_path, "mt_bench")], baseline="base")


def test_several_files_are_one_import(tmp_path):
    """They share their pools, unless these have no name."""
    again = tmp_path / "again"
    again.mkdir()
    paths = [save_sample(folder, "llmbar") for folder in (tmp_path, again)]
    found = formats.collect(paths, judges=("a", "b"))
    assert (found.counts["pools"], found.counts["verdicts"]) == (3, 12)
    assert found.judges == ["a", "b"]
    assert {v.judge for v in formats.collect(paths, judges=("c",)).verdicts} == {"c"}
    assert "judge: all verdicts are taken" in formats.collect(paths[:1]).not_known()[0]
    with pytest.raises(ValueError, match=r"2 files do not name their judge, .* 2 names"):
        formats.collect(paths)
    with pytest.raises(ValueError, match="3 judges for 2 files"):
        formats.collect(paths, judges=("a", "b", "c"))
    with pytest.raises(ValueError, match="given twice"):
        formats.collect([paths[0], paths[0]])
    places = [(tmp_path, "battles.1.json"), (tmp_path, "battles.2.json"), (again, "battles.1.json")]
    battles = records("chatbot_arena_clean_battles")
    found = formats.collect([save(*place, battles) for place in places])
    pools = found.items["pool"].unique().tolist()
    assert pools[::3] == ["battles.1/000000", "battles.2/000000", "battles.1 (2)/000000"]
    assert len(pools) == 9


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


@pytest.mark.parametrize("odd", ["one\ntwo", "one\rtwo"])
def test_names_with_a_line_break_are_refused(odd, tmp_path):
    """Tables with such names are, so they are not written."""
    row, end = records("generic")[0], "allowed: a name on one line"
    mine = save(tmp_path, "mine.jsonl", [row])
    wrong = {
        f"{key} is .*{end}": save(tmp_path, f"{key}.jsonl", [{**row, key: odd}])
        for key in ("pool", "judge", "model_a", "model_b")
    }
    battles, judged = records("chatbot_arena_clean_battles"), records("judgebench")
    wrong[f"the file is .*{end}"] = save(tmp_path, f"{odd}.json", battles)
    wrong["in the file's name is "] = save(tmp_path, f"judge_model={odd}.jsonl", judged)
    for message, path in wrong.items():
        with pytest.raises(own.TableError, match=message):
            formats.collect([path])
    with pytest.raises(ValueError, match="--judge is "):
        formats.collect([mine], judges=(odd,))
    padded = save(tmp_path, "padded.jsonl", [{**row, "pool": "p\n"}])
    assert formats.collect([padded]).verdicts[0].pool == "p"


def test_notes(tmp_path):
    """Many judges may be one crowd; winners 1 and 2 may be steps of a scale."""
    voters = [{**records("generic")[0], "judge": f"voter {n}"} for n in range(30)]
    assert "30 judges" in formats.collect([save(tmp_path, "mine.csv", voters)]).notes()[0]
    numbered = save_sample(tmp_path, "own_numbered")
    assert "1 and 2 are read as first and second" in formats.collect([numbered]).notes()[0]
    assert not formats.collect([numbered], columns=columns_of(scale="1:2")).notes()


COLUMNS = GenericColumns(first="x", second="y", winner=("w",))
RECORD = {"x": "k", "y": "m", "w": "1"}


def generic(tmp_path, columns, *rows, **options):
    return formats.collect([save(tmp_path, "mine.jsonl", list(rows))], columns=columns, **options)


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
    assert found.mapping["tokens"] == ("n x", "n y")
    assert found.unused == ()
    shown = [(record, {}), (record, {"order": "shown"}), ({**record, "order": "shown"}, {})]
    orders = [generic(tmp_path, columns, r, **o).counts["order_shown"] for r, o in shown]
    assert orders == [0, 1, 1]
    graded = [{**record, "p_first": p, "count": c} for p, c in [(0.25, 2), (None, 1), (1, 1)]]
    found = generic(tmp_path, GenericColumns("x", "y", pool="prompt"), *graded)
    assert [(v.p_first, v.count) for v in found.verdicts] == [(0.25, 2), (None, 1), (1, 1)]


def test_pools_of_a_generic_table(tmp_path):
    """Without texts of its own a row is a match between items that meet again."""
    row = {**RECORD, "one": "a", "two": "b"}

    def pools(columns):
        return [v.pool for v in generic(tmp_path, columns, row, row).verdicts]

    assert pools(COLUMNS) == ["all", "all"]
    with_texts = GenericColumns("x", "y", ("w",), texts=("one", "two"))
    assert pools(with_texts) == ["mine/000000", "mine/000001"]
    unnamed = GenericColumns(winner=("w",), texts=("one", "two"))
    (verdict,) = generic(tmp_path, unnamed, {**row, "w": "two"}).verdicts
    assert verdict[:5] == ("mine/000000", "one", "two", 0.0, None)


@pytest.mark.parametrize("name", ["llmbar", "own_brackets"])
def test_places_are_contents_of_their_pool_alone(name, tmp_path):
    """No leaderboard takes `output_1` for a model, and a fit, within pools, is the same."""
    found, _ = read_sample(tmp_path, name)
    assert any("each is its own, pool/item" in sentence for sentence in found.not_known())
    files = [tmp_path / "out" / f"{table}.csv" for table in ("verdicts", "items")]
    merged = own.read(*files, merge_pools=True)
    assert len(merged.contents) == len(merged.items)
    groups = [own.load(*files, ["words"], content=c).groups for c in ("content", None)]
    designs = [[(g.design, g.comparisons) for g in part] for part in groups]
    jax.tree.map(np.testing.assert_array_equal, *designs)


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


@pytest.mark.parametrize(
    "text", ["1_0", "0_1", "\u0661", "\uff11", "0x1", "nan", "Infinity", "1 0"]
)
def test_numbers_are_in_decimal_notation(text, tmp_path):
    """Not in Python's, of which Python's own `float` takes more than a table may hold."""
    columns = GenericColumns("x", "y", counts=(("n", "n", "n"),))
    record = {**RECORD, "p_first": "1e0", "count": " 3. ", "n": "+.5"}
    (verdict,) = generic(tmp_path, columns, record).verdicts
    assert (verdict.p_first, verdict.count) == (1.0, 3)
    for key in ("p_first", "count", "n"):
        with pytest.raises(own.TableError, match=f"line 1: {key} is "):
            generic(tmp_path, columns, {**record, key: text})
    annotation = {**records("alpaca_eval")[0], "preference": text}
    with pytest.raises(own.TableError, match="line 2: preference is "):
        formats.collect([save(tmp_path, "annotations.json", [annotation])])


MODELS = "prompt,model_a,model_b"


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("own_both_coded", {}, "line 2: winner_swapped is 'B': of the order shown then, or of the "
         "columns? (--swapped-codes shown | columns)"),
        ("own_seven", {}, "line 3: preference is '4', allowed: m, k, first"),
        ("own_seven", {},
         '(--map "0=first,1=tie,2=second" or --scale BEST:WORST says what a number means)'),
        ("own_seven", {"scale": "1:6"}, "line 5: preference is '7', not covered by --scale 1:6"),
        ("own_words", {"map": "Response 1=first"},
         "line 3: better is 'Response 2', not covered by --map Response 1=first"),
        ("own_words", {}, "says what each word means: first, second, tie, error"),
        ("response_1,response_2,x,y,z\na,b,2,1,0", {},
         "line 2: nothing says who won, name the column (--winner); "
         "columns are 'response_1', 'response_2', 'x', 'y', 'z'"),
        (f"{MODELS},winner\np,m,k,m", {"first": "modl_a", "second": "model_b"},
         "no 'modl_a' here; keys are 'prompt', 'model_a', 'model_b', 'winner'; did you mean "
         "'model_a'?"),
        (f"{MODELS},label\np,m,k,0", {},
         '(--map says what each code means, such as "0=first,1=tie,2=second")'),
        (f"{MODELS},verdict\np,m,k,I say [[A]]", {},
         "'I say [[A]]', a text: --verdict-in-text reads the last [[X]] in it"),
        (f"{MODELS},winner\np,B,A,A", {}, '(--map "A=first,B=second" if it is a word; else rename'),
        ("topic,idea_0,idea_1,x,y\nt,m,k,1,0", {"judges": ["x", "y"]},
         "name their columns (--first --second)"),
        ("topic,idea_0,idea_1,x\nt,m,k,1",
         {"first": "idea_0", "second": "idea_1", "winner": "x"},
         "(--map says what a code means where idea_0 is first, idea_1 second)"),
        ("prompt,m,k,l\np,3,1,2\nq,3,3,1", {}, "no ranks, say what they are: --ranks COLUMN"),
        ("prompt,m,k,l\np,5,9,7", {}, "of rated answers --item --rating"),
        ("model,score\nm,1", {"item": "model"}, "ratings of what? name the column of the prompt"),
        ("prompt,chosen,rejected,score\np,a,b,c", {"rating": ["score"]}, "no items here"),
        (",m,k\nm,0,0.3\nk,0.7,0", {}, "m against k is 0.3, allowed: counts of wins, no shares"),
        (f"{MODELS},choice,label\np,m,k,m,k", {},
         "the winner may be in choice or label: say which (--winner)"),
        (f"{MODELS},question,winner\np,m,k,q,m", {},
         "the prompt may be in prompt or question: say which (--pool)"),
        ("model_a,model_b,score_a,score_b,rating_a,rating_b\nm,k,1,2,3,4", {},
         "the scores may be in score_a and score_b or rating_a and rating_b: say which (--scores)"),
        (f"{MODELS}\np,m,k", {"first": "model_a", "second": "model_b"},
         "nothing says who won, name the column (--winner)"),
        ("prompt,model_a,text_a,text_b,winner\np,m,x,y,a", {},
         "model_a without model_b: name the items' columns (--first --second)"),
        ("model_a,model_b,score_a,score_b\nm,k,x,y", {},
         "score_a is 'x', allowed: numbers"),
        ("x,y,w\nk,m,1", {"first": "x", "second": "z"}, "no 'z' here; keys are 'x', 'y', 'w'"),
        ("x,y,v,w\nk,m,0,0", {"first": "x", "second": "y", "winner": "vw"},
         "none of v, w marked"),  # a tie or a failure
        (f"{MODELS},winner,order\np,m,k,m,first", {"first": "model_a", "second": "model_b"},
         "order is 'first', allowed: shown, unknown"),
        (f"{MODELS},p_first\np,m,k,1.5", {}, "p_first is '1.5'"),
        (f"{MODELS},winner,count\np,m,k,m,-1", {}, "count is '-1'"),
        ("this,that\n1,2", {}, "line 2: none of the formats known has the keys 'this', 'that'"),
    ],
)  # fmt: skip
def test_nothing_is_guessed(table, columns, message, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(SAMPLES[table]["text"] if table in SAMPLES else table)
    with pytest.raises(own.TableError) as error:
        formats.collect([path], columns=columns_of(**columns))
    assert message in str(error.value)


def test_codes_of_the_other_order_may_be_about_the_columns(tmp_path):
    path = save_sample(tmp_path, "own_both_coded")
    found = formats.collect([path], columns=columns_of(swapped_codes="columns"))
    assert [v.p_first for v in found.verdicts] == [1, 1, 1, 0, 0.5, None]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"first": "x"}, "--first and --second go together"),
        ({"first": "x", "second": "y", "winner": "x"}, "'x' is named for two things"),
        ({"first": "x", "second": "y", "winner": "abcd"}, "up to 3 columns, got 4"),
        ({"first": "x", "second": "y", "counts": (("item", "a", "b"),)}, "a name of its own"),
        ({"winner": "x", "judges": ["y"]}, "--winner and --judges both say who won: give one"),
        ({"wins": ["x"]}, "--wins takes 2 or 3 columns, got 1"),
        ({"item": "x", "first": "x", "second": "y"}, "are of rows without pairs"),
        ({"logprobs": ("x", "y"), "scale": "1:7"}, "--scale 1:7 needs one column of winners"),
        ({"map": "A"}, "--map has 'A', needs CODE=first"),
        ({"map": "A=first,A=second"}, "--map gives 'A' twice"),
        ({"map": "A=winner"}, "--map says 'winner', allowed: first, second, tie, error"),
        ({"map": "A=1.5"}, "or a share from 0 to 1"),
        ({"map": "1=first", "scale": "1:7"}, "--map and --scale both say"),
        *(({"scale": v}, "needs two numbers") for v in ("7", "3:3", "1:inf", "1:nan", "1:2:3")),
    ],
)
def test_columns_that_cannot_be(columns, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        generic(tmp_path, columns_of(**columns), RECORD)


def test_the_format_is_one(tmp_path):
    assert formats.Name.__args__ == ("auto", *formats.FORMATS)
    both = save(tmp_path, "both.jsonl", [{**records("llmbar")[0], **records("arena_hard")[0]}])
    with pytest.raises(own.TableError, match=r"may be arena_hard or llmbar: say which"):
        formats.collect([both])
    with pytest.raises(own.TableError, match="no 'model_1' here"):
        formats.collect([both], format="mt_bench")
    with pytest.raises(ValueError, match="for a generic table, not for mt_bench"):
        formats.collect([both], format="mt_bench", columns=COLUMNS)


def test_the_same_records_from_every_kind_of_file(tmp_path):
    pytest.importorskip("pyarrow")
    expected = records("generic")
    for name in ("a.csv", "a.json", "a.jsonl", "a.parquet", "a.csv.gz", "a.jsonl.gz"):
        read = sources.read(save(tmp_path, name, expected))
        assert [dict(record) for _, record in read] == expected
    text = pd.DataFrame(expected).to_csv(index=False)
    path = tmp_path / "other.csv"
    for encoding, separator in [("utf-16", ","), ("utf-8-sig", ";"), ("utf-8", "\t")]:
        path.write_bytes(text.replace(",", separator).replace("\n", "\r\n").encode(encoding))
        assert [dict(record) for _, record in sources.read(path)] == expected
    path.write_text('"a, b, or c";d\n1;2\n')  # the separator is one of names, not of letters
    assert [dict(record) for _, record in sources.read(path)] == [{"a, b, or c": "1", "d": "2"}]


def test_records_begin_on_the_lines_that_are_named(tmp_path):
    lines = {
        "a.json": ("\n" + json.dumps([{"a": [1, 2]}, {"a": "x\ny"}, {}], indent=2), [3, 9, 12]),
        "b.jsonl": ('\n{"a": 1}\n\n{"a": "\u2028"}\n', [2, 4]),
        "c.csv": ('a,b\n\n1,"x\ny"\n2,z\n', [3, 5]),
    }
    for name, (text, expected) in lines.items():
        (tmp_path / name).write_text(text)
        assert [line for line, _ in sources.read(tmp_path / name)] == expected


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
        f'[{{"a": {"9" * 5000}}}]': "not JSON",
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
    assert set(texts.measures("").values()) == {0}
    # Program text is full of what only looks like markers.
    assert texts.measures("def __init__(self): x = a - b * 2 # no heading")["markdown"] == 0


def test_tables_there_are_not_overwritten_unless_asked(tmp_path):
    found, _ = read_sample(tmp_path, "llmbar")
    out = tmp_path / "out"
    other = formats.collect([save_sample(tmp_path, "mt_bench")])
    other.write(out)  # over tables that nobody has changed since they were written
    found.write(out)
    before = (out / "verdicts.csv").read_bytes() + b"\n"
    (out / "verdicts.csv").write_bytes(before)
    with pytest.raises(ValueError, match=r"verdicts.csv: it exists, .* or --overwrite"):
        other.write(out)
    assert (out / "verdicts.csv").read_bytes() == before
    other.write(out, overwrite=True)
    assert sorted(p.name for p in out.iterdir()) == ["items.csv", "jbt.toml", "verdicts.csv"]
    with pytest.raises(ValueError, match=r"items.csv is no folder"):
        found.write(out / "items.csv")
    precious, link = tmp_path / "precious.csv", out / "verdicts.csv"
    link.rename(precious)
    link.symlink_to(precious)  # is replaced, not followed
    before = precious.read_bytes()
    found.write(out, overwrite=True)
    assert precious.read_bytes() == before != link.read_bytes()


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


PREFERRED = {"response1": "a b", "response2": "a b", "grade": 2}


@pytest.mark.parametrize(
    ("prompts", "named"),
    [
        ([{"context": [{"content": c}]} for c in "xyx"], {"pool": "context"}),
        ([{"instruction": "do", "input": i} for i in ("x", "", "x")], {}),
        ([{"question": {"id": i}} for i in (1, 2, 1)], {}),
        ([{"Prompt ID": i} for i in (1, 2, 1)], {}),
        ([{"prompt": i} for i in (1, 2, 1)], {}),
    ],
)
def test_prompts_of_several_parts_and_columns_of_texts(prompts, named, tmp_path):
    """A conversation is a prompt; columns with texts may be named as those of the two answers."""
    path = save(tmp_path, "own.jsonl", [{**PREFERRED, **prompt} for prompt in prompts])
    named |= {"first": "response1", "second": "response2", "winner": ("grade",), "scale": "-3:3"}
    found = formats.collect([path], columns=columns_of(**named))
    pools = [v.pool for v in found.verdicts]
    assert pools[0] == pools[2] != pools[1]
    assert [v[1:4] for v in found.verdicts] == [
        ("response1", "response2", pytest.approx(1 / 6))
    ] * 3
    assert found.items["words"].tolist() == [2] * 4
