"""MT-Bench: models judged turn by turn, by models (`*_pair.jsonl`, `*_single.jsonl`) and people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jbt.own.formats import texts
from jbt.own.formats.ratings import FAILED
from jbt.own.formats.records import (
    Format,
    Game,
    Item,
    Layout,
    Rating,
    Record,
    Row,
    as_code,
    as_name,
    as_number,
    outside,
)

ARENA_ALONE = {"anony", "language", "tstamp"}
"""Keys of the Arena's battles that human judgments of MT-Bench lack."""

MT_BENCH_GAMES = {
    "g1_winner": {"model_1": 1.0, "model_2": 0.0, "tie": 0.5, "error": None},
    "g2_winner": {"model_1": 0.0, "model_2": 1.0, "tie": 0.5, "error": None},
}
"""Share won by the model shown first: model 1 in the first game, model 2 in the second."""

MT_BENCH_VOTES = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


def _turn(row: Row) -> str:
    """The pool: each turn of a question is one, because a model answers in each."""
    question = row.name("pool", "question_id")
    return f"{question}/turn{as_name(row.need('pool', 'turn'), 'turn')}"


def _first_judge(row: Row) -> str | None:
    """The judge's name; for a model that judges it comes first in a list, before the prompt's."""
    judge = row.find("judge", "judge")
    if isinstance(judge, list) and judge:
        judge = judge[0]
    return None if judge is None else as_name(judge, "judge")


def _turn_text(row: Row, key: str) -> str | None:
    conversation, turn = row.find("texts", key), as_name(row.values["turn"], "turn")
    if conversation is None or not turn.isdecimal():
        return None
    replies = texts.answers(conversation, key)
    return replies[int(turn) - 1] if 1 <= int(turn) <= len(replies) else None


def _vote(row: Row, names: Sequence[str]) -> list[Game]:
    """The source no longer has the order in which the answers were seen."""
    winner = row.need("winner", "winner")
    if isinstance(winner, str) and "tie" in winner:  # also "tie (inconsistent)"
        winner = "tie"
    return [Game(as_code(winner, MT_BENCH_VOTES, "winner"), shown=False)]


def _is_mt_bench_human(values: Mapping[str, Any]) -> bool:
    keys = {"question_id", "model_a", "model_b", "winner", "judge", "turn"}
    return keys <= values.keys() and not ARENA_ALONE & values.keys()


MT_BENCH = Layout(
    pool=_turn,
    keys=("model_1", "model_2"),
    judge=_first_judge,
    games=lambda row, names: [
        Game(row.code(key, codes), swapped=key == "g2_winner")
        for key, codes in MT_BENCH_GAMES.items()
    ],
)

MT_BENCH_HUMAN = Layout(
    pool=_turn,
    keys=("model_a", "model_b"),
    texts=("conversation_a", "conversation_b"),
    read=_turn_text,
    judge=_first_judge,
    games=_vote,
)


def _single(row: Row) -> Iterator[Record]:
    """Read the rating of one answer; -1 is a failure."""
    model = row.name("item", "model")
    score = row.need("winner", "score", " (the higher is better, -1 failed)")
    number = FAILED if score is None else as_number(score)
    if number != FAILED and not number >= 0:
        raise outside("score", score, "numbers from 0, -1, null")
    score = None if number == FAILED else number
    yield Rating(_turn(row), Item(model, model), score, _first_judge(row))


FORMATS = (
    Format(
        "mt_bench",
        "MT-Bench judgments of pairs",
        {"question_id", *MT_BENCH.keys, *MT_BENCH_GAMES}.issubset,
        MT_BENCH.records,
        "recorded",
    ),
    Format(
        "mt_bench_single",
        "MT-Bench ratings of single answers",
        {"question_id", "model", "judge", "score", "turn"}.issubset,
        _single,
    ),
    Format(
        "mt_bench_human",
        "MT-Bench human judgments",
        _is_mt_bench_human,
        MT_BENCH_HUMAN.records,
    ),
)
