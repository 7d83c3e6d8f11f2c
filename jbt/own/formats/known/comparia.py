"""compar:IA: votes of visitors, who chose a model by name or found both equal."""

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
    brief,
    pair,
)

EQUAL = {"True": 0.5, "true": 0.5, "1": 0.5, "False": None, "false": None, "0": None}


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether there are two models, the one chosen, and whether they were found equal."""
    keys = {"model_a_name", "model_b_name", "chosen_model_name", "both_equal"}
    return keys <= values.keys()


def records(row: Row) -> Iterator[Record]:
    """Read one vote, which is a pool of its own; which model was on which side is not known."""
    pool = row.optional_name("pool", "id", "conversation_pair_id") or row.numbered()
    first, second = _item(row, "a"), _item(row, "b")
    p_first = _p_first(row, first.name, second.name)
    first, second = pair(first, second, ("a", "b"))
    yield Verdict(pool, first, second, p_first, None, shown=False)


def _p_first(row: Row, first: str, second: str) -> float | None:
    """The share that the first won; None if there was no vote, or both have the chosen name."""
    equal = row.need("winner", "both_equal")
    tie = None
    if equal is not None:
        tie = as_code(str(equal) if isinstance(equal, bool) else equal, EQUAL, "both_equal")
    row.need("winner", "chosen_model_name")
    chosen = row.optional_name("winner", "chosen_model_name")
    if chosen is None:
        return tie
    if tie is not None:
        raise Refused(f"chosen_model_name is {brief(chosen)} though both_equal is {brief(equal)}")
    if chosen not in (first, second):
        allowed = f"{first}, {second}, null"
        raise Refused(f"chosen_model_name is {brief(chosen)}, allowed: {allowed}")
    return None if first == second else float(chosen == first)


def _item(row: Row, side: str) -> Item:
    model = row.name("first" if side == "a" else "second", f"model_{side}_name")
    key = f"conversation_{side}"
    messages = row.find("texts", key)
    text = None if messages is None else "\n".join(texts.answers(messages, key))
    return Item(model, model, text)


FORMAT = Format(
    name="comparia",
    title="compar:IA votes",
    recognises=recognises,
    records=records,
    order="unknown",
)
