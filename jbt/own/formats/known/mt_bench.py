"""MT-Bench: models judged by models (`*_pair.jsonl`) and by people, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats import texts
from jbt.own.formats.records import (
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_code,
    as_name,
    brief,
)

WINNERS = {"model_1": 1.0, "model_2": 0.0, "tie": 0.5, "error": None}
"""The same in both games: the second game's winner already has the first game's names."""

WINNERS_OF_PEOPLE = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


def recognises_pairs(values: Mapping[str, Any]) -> bool:
    """Whether there are two models and the winners of two games."""
    return {"question_id", "model_1", "model_2", "g1_winner", "g2_winner"} <= values.keys()


def pairs(row: Row) -> Iterator[Record]:
    """Read two games: the first shows model 1 first, the second model 2."""
    pool, judge = _pool(row), _judge(row)
    one, two = (Item(m, m) for m in _models(row, "model_1", "model_2"))
    p_one = as_code(row.need("winner", "g1_winner"), WINNERS, "g1_winner")
    yield Verdict(pool, one, two, p_one, judge, shown=True)
    p_one = as_code(row.need("winner", "g2_winner"), WINNERS, "g2_winner")
    yield Verdict(pool, two, one, None if p_one is None else 1 - p_one, judge, shown=True)


def recognises_people(values: Mapping[str, Any]) -> bool:
    """Whether there are two models, a winner, a judge and a turn, but no key of the Arena's."""
    keys = {"question_id", "model_a", "model_b", "winner", "judge", "turn"}
    return keys <= values.keys() and not {"anony", "language", "tstamp"} & values.keys()


def people(row: Row) -> Iterator[Record]:
    """Read one judgment; the source no longer has the order in which its answers were seen."""
    models = _models(row, "model_a", "model_b")
    turn = as_name(row.need("pool", "turn"), "turn")
    first, second = (
        Item(model, model, _text(row, f"conversation_{side}", turn))
        for side, model in zip("ab", models, strict=True)
    )
    winner = row.need("winner", "winner")
    if isinstance(winner, str) and "tie" in winner:  # also "tie (inconsistent)"
        p_first = 0.5
    else:
        p_first = as_code(winner, WINNERS_OF_PEOPLE, "winner")
    yield Verdict(_pool(row), first, second, p_first, _judge(row), shown=False)


def _models(row: Row, first: str, second: str) -> tuple[str, str]:
    one, two = row.name("first", first), row.name("second", second)
    if one == two:
        raise Refused(f"{first} and {second} are both {brief(one)}, allowed: two models")
    return one, two


def _pool(row: Row) -> str:
    """Name the pool; each turn of a question is one, because a model answers in each."""
    question = row.name("pool", "question_id")
    return f"{question}/turn{as_name(row.need('pool', 'turn'), 'turn')}"


def _judge(row: Row) -> str | None:
    """The judge's name; for a model that judges it comes first in a list, before the prompt's."""
    judge = row.find("judge", "judge")
    if isinstance(judge, list) and judge:
        judge = judge[0]
    return None if judge is None else as_name(judge, "judge")


def _text(row: Row, key: str, turn: str) -> str | None:
    """The text of one turn's answer."""
    conversation = row.find("texts", key)
    if conversation is None or not turn.isdecimal():
        return None
    answers = texts.answers(conversation, key)
    return answers[int(turn) - 1] if 1 <= int(turn) <= len(answers) else None


PAIRS = Format(
    name="mt_bench",
    title="MT-Bench judgments of pairs",
    recognises=recognises_pairs,
    records=pairs,
    order="recorded",
)

PEOPLE = Format(
    name="mt_bench_human",
    title="MT-Bench human judgments",
    recognises=recognises_people,
    records=people,
    order="unknown",
)
