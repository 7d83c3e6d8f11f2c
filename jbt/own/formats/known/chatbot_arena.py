"""Chatbot Arena: votes of visitors between two anonymous models, left (a) and right (b).

Three releases: 100k (and FastChat's cleaned battles before it), 140k, and 55k, a CSV file whose
winner is one-hot.
"""

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
    pair,
)

WINNERS = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "tie (bothbad)": 0.5, "both_bad": 0.5}

ONE_HOT = {"winner_model_a": 1.0, "winner_model_b": 0.0, "winner_tie": 0.5}

MARKS = {
    **dict.fromkeys(("0", "0.0", "False", "false"), False),
    **dict.fromkeys(("1", "1.0", "True", "true"), True),
}


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether there are two models and a winner; with `judge` and `turn`, also a key that only the
    Arena's battles have, and human judgments of MT-Bench lack."""
    if not {"model_a", "model_b"} <= values.keys():
        return False
    if ONE_HOT.keys() <= values.keys():
        return True
    if "winner" not in values:
        return False
    if {"judge", "turn"} <= values.keys():
        return bool({"anony", "language", "tstamp"} & values.keys())
    return bool({"conversation_a", "conv_metadata", "anony", "tstamp"} & values.keys())


def records(row: Row) -> Iterator[Record]:
    """Read the vote of one battle, which is a pool of its own."""
    first, second = pair(_item(row, "a"), _item(row, "b"), ("a", "b"))
    pool = row.optional_name("pool", "question_id", "id") or row.numbered()
    judge = row.find("judge", "judge")
    yield Verdict(pool, first, second, _winner(row), _judge(judge), shown=True)


def _judge(judge: Any) -> str | None:
    return None if judge is None else as_name(judge, "judge")


def _winner(row: Row) -> float | None:
    if ONE_HOT.keys() <= row.values.keys():
        return one_hot(row, ONE_HOT)
    return as_code(row.need("winner", "winner"), WINNERS, "winner")


def one_hot(row: Row, columns: Mapping[str, float]) -> float:
    """The share that the first won, of a verdict whose outcomes have a column each, marked 1 or 0.

    Raises:
      Refused: another mark, or not exactly one column marked.
    """
    marked = []
    for column, p_first in columns.items():
        value = row.need("winner", column)
        mark = MARKS.get(str(value).strip())
        if mark is None:
            raise Refused(f"{column} is {brief(value)}, allowed: 0, 1")
        if mark:
            marked.append((column, p_first))
    if len(marked) != 1:
        names = " and ".join(column for column, _ in marked) or "none"
        raise Refused(f"{names} of {', '.join(columns)} marked, allowed: one")
    return marked[0][1]


def _item(row: Row, side: str) -> Item:
    model = row.name("first" if side == "a" else "second", f"model_{side}")
    text = None
    conversation, response = f"conversation_{side}", f"response_{side}"
    if (messages := row.find("texts", conversation)) is not None:
        text = "\n".join(texts.answers(messages, conversation))
    elif (reply := row.text("texts", response)) is not None:
        text = texts.replies(reply)
    return Item(model, model, text, _metadata(row, side))


def _metadata(row: Row, side: str) -> dict[str, float]:
    metadata = row.find("counts", "conv_metadata")
    if not isinstance(metadata, Mapping):
        return {}
    counts = texts.style(metadata, f"_{side}", "conv_metadata")
    tokens = metadata.get(f"sum_assistant_{side}_tokens")
    if tokens is not None:
        counts = {"tokens": texts.as_count(tokens, f"sum_assistant_{side}_tokens"), **counts}
    return counts


FORMAT = Format(
    name="chatbot_arena",
    title="Chatbot Arena battles",
    recognises=recognises,
    records=records,
    order="columns",
)
