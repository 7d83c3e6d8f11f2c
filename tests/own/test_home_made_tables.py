"""Sixteen tables as people make them, imported with at most one option and counted again by a
reader of each that knows nothing of jbt; and what is refused rather than guessed."""

import csv
import io
import json
import random
import re
from collections import Counter, namedtuple
from dataclasses import dataclass, field

import pytest

from jbt import own
from jbt.own import formats
from jbt.own.formats import GenericColumns
from jbt.own.tables.outcomes import Outcomes

Row = namedtuple("Row", "pool first second p_first texts", defaults=(None,))


@dataclass(frozen=True)
class Shape:
    """A file, the options that it needs, and what it says."""

    name: str
    text: str
    reader: object
    columns: GenericColumns = field(default_factory=GenericColumns)
    order: str | None = None


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def table(header, *rows, separator=","):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerows([header.split(), *rows])
    return out.getvalue()


def read_lines(text):
    return [json.loads(line) for line in text.splitlines()]


def read_table(text, separator=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=separator))


LONG = "Why is the sky blue, and why does it turn red in the evening?"

PROMPTED = lines(
    {"prompt": "Why?", "model_a": "m", "response_a": "a b c", "model_b": "k", "response_b": "d",
     "winner": "model_a"},
    {"prompt": LONG, "model_a": "k", "response_a": "a b", "model_b": "m", "response_b": "d e f g",
     "winner": "tie"},
)  # fmt: skip


def prompted(text):
    side = {"model_a": 1, "model_b": 0, "tie": 0.5}
    for r in read_lines(text):
        texts = r["response_a"], r["response_b"]
        yield Row(r["prompt"], r["model_a"], r["model_b"], side[r["winner"]], texts)


CHOSEN = lines(
    {"prompt": "Why?", "chosen": "a b c", "rejected": "d"},
    {"prompt": "How?", "chosen": "a", "rejected": "d e"},
)


def chosen(text):
    for r in read_lines(text):
        yield Row(r["prompt"], "chosen", "rejected", 1, (r["chosen"], r["rejected"]))


NUMBERED = table(
    "question model_1 model_2 answer_1 answer_2 preference",
    ["Q1", "m", "k", "one two", "three", 1],
    ["Q1", "k", "l", "three", "four five six", 2],
)


def numbered(text):
    for r in read_table(text):
        p = {"1": 1, "2": 0}[r["preference"]]
        yield Row(r["question"], r["model_1"], r["model_2"], p, (r["answer_1"], r["answer_2"]))


SCORED = table(
    "prompt model_a model_b score_a score_b",
    ["p1", "m", "k", 8, 6.5],
    ["p1", "k", "l", 5, 5],
    ["p2", "m", "l", "", 3],
)


def scored(text):
    for r in read_table(text):
        one, other = r["score_a"], r["score_b"]
        p = (
            None
            if not one
            else 0.5
            if float(one) == float(other)
            else int(float(one) > float(other))
        )
        yield Row(r["prompt"], r["model_a"], r["model_b"], p)


BRACKETS = lines(
    *(
        {"instruction": do, "output_1": "a", "output_2": "b c", "verdict": v, "judge_model": "j"}
        for do, v in (("Do.", "[[A]]"), ("Go.", "[[B]]"), ("So.", "[[C]]"))
    )
)


def brackets(text):
    for r in read_lines(text):
        p = {"[[A]]": 1, "[[B]]": 0, "[[C]]": 0.5}[r["verdict"]]
        texts = r["output_1"], r["output_2"]
        yield Row(r["instruction"], "output_1", "output_2", p, texts)


GRADED = json.dumps(
    [
        {"question_id": 7, "model_a": "m", "model_b": "k", "judgment": verdict}
        for verdict in ("A>>B", "A>B", "A=B", "B>A", "[[B>>A]]", "A<<B")
    ]
)


def graded(text):
    shares = {"A>>B": 1, "A>B": 1, "A=B": 0.5, "B>A": 0, "[[B>>A]]": 0, "A<<B": 0}
    for r in json.loads(text):
        yield Row(str(r["question_id"]), r["model_a"], r["model_b"], shares[r["judgment"]])


SIDES = table(
    "task_id left right choice rater",
    ["t1", "m", "k", "Left", "ann"],
    ["t1", "k", "l", "RIGHT", "bob"],
    ["t2", "m", "l", "tie", "ann"],
)


def sides(text):
    for r in read_table(text):
        p = {"left": 1, "right": 0, "tie": 0.5}[r["choice"].lower()]
        yield Row(r["task_id"], r["left"], r["right"], p)


BOTH_ORDERS = table(
    "prompt model_a model_b winner winner_swapped",
    ["p1", "m", "k", "m", "m"],
    ["p2", "m", "k", "m", "k"],
    ["p3", "m", "k", "tie", ""],
)


def both_orders(text):
    for r in read_table(text):
        a, b = r["model_a"], r["model_b"]
        for first, second, winner in ((a, b, r["winner"]), (b, a, r["winner_swapped"])):
            p = {first: 1, second: 0, "tie": 0.5, "": None}[winner]
            yield Row(r["prompt"], first, second, p)


BOTH_CODED = BOTH_ORDERS.replace(",m,m\n", ",A,B\n").replace(",m,k\n", ",A,A\n")


def both_coded(text):
    """`A` is whatever was shown first."""
    for r in read_table(text):
        a, b = r["model_a"], r["model_b"]
        for first, second, code in ((a, b, r["winner"]), (b, a, r["winner_swapped"])):
            p = {"A": 1, "B": 0, "tie": 0.5, "": None}[code]
            yield Row(r["prompt"], first, second, p)


SEVEN = table("prompt model_a model_b preference", *(["p", "m", "k", n] for n in (1, 4, 6, 7)))


def seven(text):
    for r in read_table(text):
        p = (7 - int(r["preference"])) / 6
        yield Row(r["prompt"], r["model_a"], r["model_b"], p)


OWN_WORDS = table(
    "prompt model_a model_b better",
    ["p1", "m", "k", "Response 1"],
    ["p2", "m", "k", "Response 2"],
    ["p3", "m", "k", "about = equal"],
    ["p4", "m", "k", "n/a"],
)
MAP = "Response 1=first, Response 2=second, about = equal=tie, n/a=error"


def own_words(text):
    shares = {"Response 1": 1, "Response 2": 0, "about = equal": 0.5, "n/a": None}
    for r in read_table(text):
        yield Row(r["prompt"], r["model_a"], r["model_b"], shares[r["better"]])


FAILED = lines(
    {"prompt": "p", "model_a": "m", "model_b": "k", "winner": None},
    {"prompt": "p", "model_a": "m", "model_b": "k", "winner": "k"},
)


def failed(text):
    for r in read_lines(text):
        p = None if r["winner"] is None else float(r["winner"] == r["model_a"])
        yield Row(r["prompt"], r["model_a"], r["model_b"], p)


ONE_HOT = table(
    "prompt model_a model_b a_wins b_wins draw",
    ["p1", "m", "k", 1, 0, 0],
    ["p2", "m", "k", 0, 1, 0],
    ["p3", "m", "k", 0, 0, 1],
    separator="\t",
)


def one_hot(text):
    for r in read_table(text, "\t"):
        p = 1 if r["a_wins"] == "1" else 0 if r["b_wins"] == "1" else 0.5
        yield Row(r["prompt"], r["model_a"], r["model_b"], p)


BOTH_BAD = table(
    "prompt model_left model_right vote",
    ["p1", "m", "k", "tie (bothbad)"],
    ["p2", "m", "k", "both_bad"],
    ["p3", "m", "k", "m"],
)


def both_bad(text):
    for r in read_table(text):
        p = 1 if r["vote"] == r["model_left"] else 0.5
        yield Row(r["prompt"], r["model_left"], r["model_right"], p)


COUNTED = table(
    "prompt_id first second winner words_first words_second",
    ["p1", "m", "k", "m", 3, 4],
    ["p2", "k", "m", "m", 5, 1],
    separator=";",
)


def counted(text):
    for r in read_table(text, ";"):
        counts = " ".join("x" * int(r["words_first"])), " ".join("x" * int(r["words_second"]))
        p = float(r["winner"] == r["first"])
        yield Row(r["prompt_id"], r["first"], r["second"], p, counts)


def talk(question, answer):
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


MESSAGES = lines(
    {"prompt": "Why?", "chosen": talk("Why?", "a b"), "rejected": talk("Why?", "c")},
    {"prompt": "How?", "chosen": talk("How?", "a"), "rejected": talk("How?", "c d e")},
)


def messages(text):
    for r in read_lines(text):
        texts = r["chosen"][1]["content"], r["rejected"][1]["content"]
        yield Row(r["prompt"], "chosen", "rejected", 1, texts)


SHAPES = [
    Shape("prompted.jsonl", PROMPTED, prompted),
    Shape("chosen.jsonl", CHOSEN, chosen),
    Shape("numbered.csv", NUMBERED, numbered),
    Shape("scored.csv", SCORED, scored),
    Shape("brackets.jsonl", BRACKETS, brackets),
    Shape("graded.json", GRADED, graded),
    Shape("sides.csv", SIDES, sides),
    Shape("both_orders.csv", BOTH_ORDERS, both_orders),
    Shape("both_coded.csv", BOTH_CODED, both_coded, GenericColumns(swapped_codes="shown")),
    Shape("seven.csv", SEVEN, seven, GenericColumns(outcomes=Outcomes.of_scale("1:7"))),
    Shape("own_words.csv", OWN_WORDS, own_words, GenericColumns(outcomes=Outcomes.of_map(MAP))),
    Shape("failed.jsonl", FAILED, failed),
    Shape("one_hot.tsv", ONE_HOT, one_hot, GenericColumns(winner=("a_wins", "b_wins", "draw"))),
    Shape("both_bad.csv", BOTH_BAD, both_bad),
    Shape("counted.csv", COUNTED, counted),
    Shape("messages.jsonl", MESSAGES, messages),
]


def test_there_are_sixteen_and_twelve_need_no_option():
    assert len(SHAPES) == 16
    assert sum(shape.columns == GenericColumns() for shape in SHAPES) == 12


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_home_made_table_says_what_an_independent_reader_finds(shape, tmp_path):
    path = tmp_path / shape.name
    path.write_text(shape.text)
    imported = formats.collect([path], columns=shape.columns)
    rows = list(shape.reader(shape.text))
    got = [(v.first, v.second, v.p_first) for v in imported.verdicts]
    assert got == [(r.first, r.second, pytest.approx(r.p_first)) for r in rows]
    # The same rows share a pool, whatever it is called.
    names = dict(zip([v.pool for v in imported.verdicts], [r.pool for r in rows], strict=True))
    assert len(names) == len({r.pool for r in rows}) == len(imported.items)
    for v, r in zip(imported.verdicts, rows, strict=True):
        assert names[v.pool] == r.pool
        assert v.pool == r.pool or len(r.pool) > 40
        for side, text in zip((v.first, v.second), r.texts or (), strict=False):
            assert imported.items[v.pool][side].measures["words"] == len(text.split())
    p = Counter(r.p_first for r in rows)
    assert imported.counts["ties"] == p[0.5]
    assert imported.counts["errors"] == p[None]
    out = tmp_path / "out"
    imported.write(out)
    tables = own.read(out / "verdicts.csv", out / "items.csv")
    assert int(tables.counts["n_verdicts"].sum()) == len(rows) - p[None]


def test_winners_that_may_be_steps_of_a_scale_are_noted(tmp_path):
    path = tmp_path / "numbered.csv"
    path.write_text(NUMBERED)
    note = "winners 1 and 2 are read as first and second; if they are steps of a longer scale"
    assert note in " ".join(formats.collect([path]).notes())
    scaled = GenericColumns(outcomes=Outcomes.of_scale("1:2"))
    assert not formats.collect([path], columns=scaled).notes()
    path.write_text(SCORED)
    assert not formats.collect([path]).notes()


def test_orders_of_both_columns_are_known(tmp_path):
    path = tmp_path / "both.csv"
    path.write_text(BOTH_ORDERS)
    assert formats.collect([path]).counts["order_shown"] == 6
    path.write_text(BOTH_CODED)
    by_columns = formats.collect([path], columns=GenericColumns(swapped_codes="columns"))
    assert [v.p_first for v in by_columns.verdicts] == [1, 1, 1, 0, 0.5, None]


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("both.csv", BOTH_CODED, {}, "line 2: winner_swapped is 'B': of the order shown then, or "
         "of the columns? (--swapped-codes shown | columns)"),
        ("seven.csv", SEVEN, {}, "line 3: preference is '4', allowed: m, k, first"),
        ("seven.csv", SEVEN, {},
         '(--map "0=first,1=tie,2=second" or --scale BEST:WORST says what a number means)'),
        ("seven.csv", SEVEN, {"outcomes": Outcomes.of_scale("1:6")},
         "line 5: preference is '7', not covered by --scale 1:6"),
        ("own.csv", OWN_WORDS, {"outcomes": Outcomes.of_map("Response 1=first")},
         "line 3: better is 'Response 2', not covered by --map Response 1=first"),
        ("own.csv", OWN_WORDS, {}, "(--map your words)"),
        ("two.csv", table("prompt model_a model_b choice label", ["p", "m", "k", "m", "k"]), {},
         "the winner may be in choice or label: say which (--winner)"),
        ("two.csv", table("prompt question model_a model_b winner", ["p", "q", "m", "k", "m"]), {},
         "the prompt may be in prompt or question: say which (--pool)"),
        ("two.csv", table("model_a model_b score_a score_b rating_a rating_b", "mk1234"), {},
         "the scores may be in score_a and score_b or rating_a and rating_b: say which (--scores)"),
        ("none.csv", table("model_a model_b prompt", ["m", "k", "p"]), {"first": "model_a",
         "second": "model_b"}, "nothing says who won, name the column (--winner)"),
        ("half.csv", table("prompt model_a text_a text_b winner", ["p", "m", "x", "y", "a"]), {},
         "model_a without model_b: name the items' columns (--first --second)"),
        ("text.csv", table("model_a model_b score_a score_b", "mkxy"), {},
         "score_a and score_b are 'x' and 'y', allowed: numbers"),
    ],
)  # fmt: skip
def test_nothing_is_guessed(name, text, columns, message, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(own.TableError) as error:
        formats.collect([path], columns=GenericColumns(**columns))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("make", "text", "message"),
    [
        (Outcomes.of_map, "A", "--map has 'A', needs CODE=first"),
        (Outcomes.of_map, "A=first,A=second", "--map gives 'A' twice"),
        (Outcomes.of_map, "A=winner", "--map says 'winner', allowed: first, second, tie, error"),
        (Outcomes.of_map, "A=1.5", "or a share from 0 to 1"),
        (Outcomes.of_scale, "7", "--scale is '7', needs two numbers"),
        (Outcomes.of_scale, "3:3", "needs two numbers"),
        (Outcomes.of_scale, "1:inf", "needs two numbers"),
        (Outcomes.of_scale, "1:nan", "needs two numbers"),
    ],
)
def test_a_map_or_a_scale_that_cannot_be(make, text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(text)


def test_a_scale_and_a_map_are_read_in_tables_too(tmp_path):
    path = tmp_path / "verdicts.csv"
    path.write_text(table("first second winner", ["m", "k", "1"], ["k", "m", "6"]))
    tables = own.read(path, outcomes=Outcomes.of_scale("7:1"))
    assert tables.verdicts["p_first"].tolist() == pytest.approx([0, 5 / 6])
    tables = own.read(path, outcomes=Outcomes.of_map("1=error,6=0.75"))
    assert tables.verdicts["p_first"].tolist() == [0.75]
    assert tables.counts["n_errors"].tolist() == [1]
    with pytest.raises(own.TableError, match="line 3: winner is '6', not covered by --map 1=first"):
        own.read(path, outcomes=Outcomes.of_map("1=first"))
    with pytest.raises(ValueError, match="--map and --scale both say"):
        Outcomes.of_options("1=first", "1:7")


def test_mutated_tables_are_read_or_end_in_one_line_a_problem(tmp_path):
    """Bytes deleted, doubled, replaced: never another exception."""
    rng = random.Random(0)
    read, refused = 0, []
    for n in range(640):
        shape = SHAPES[n % len(SHAPES)]
        text = shape.text
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(text))
            new = rng.choice(["", text[at] * 2, rng.choice(',"{}[]:;\n=><0aB\u00e9\0')])
            text = text[:at] + new + text[at + 1 :]
        path = tmp_path / f"{n}-{shape.name}"
        path.write_text(text)
        try:
            formats.collect([path], columns=shape.columns).write(tmp_path / f"out{n}")
            read += 1
        except own.TableError as error:
            refused += str(error).split("\n")
    assert all(line.startswith((str(tmp_path), "and ")) for line in refused)
    assert 100 < read < 540
