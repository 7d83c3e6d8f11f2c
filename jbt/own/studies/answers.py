"""Check the answer to a query, before anything is written."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from jbt.own.tables.outcomes import OUTCOMES, WORDS, read_winner

RESERVED = (
    *("event", "id", "pool", "first", "second", "judge", "winner", "p_first", "error", "time"),
    *("line", "crc32"),
)
"""Names in a record of the journal that further facts about a verdict cannot have."""


def record_of(
    number: int, answer: Mapping[str, Any], named: Mapping[str, Any], price: float
) -> dict[str, Any]:
    """The journal's record of an answer.

    Args:
      number: of the query.
      answer: winner, p_first or error; cost; further facts.
      named: pool, items and judge of the query.
      price: cost of a verdict, if the answer says none.

    Raises:
      ValueError: see `Study.tell`.
    """
    facts = dict(answer)
    facts.pop("id", None)
    winner, p_first, error, cost = (
        facts.pop(name, None) for name in ("winner", "p_first", "error", "cost")
    )
    if winner is not None and (winner := _winner(number, winner, named)) == "error":
        winner, error = None, error or "error"
    if sum(v is not None for v in (winner, p_first, error)) != 1:
        raise ValueError(f"query {number}: give one of winner, p_first and error")
    result: dict[str, Any] = {}
    if error is not None:
        result["error"] = str(error)
    elif winner is not None:
        result["winner"] = winner
    else:
        result["p_first"] = _between(number, p_first)
    if cost is None:
        cost = 0.0 if error is not None else price
    elif not (_is_number(cost) and float(cost) >= 0):
        raise ValueError(f"query {number}: cost must be at least 0 and finite, got {cost!r}")
    for name, value in facts.items():
        if name in RESERVED:
            raise ValueError(f"query {number}: {name} is the study's own, and cannot be told")
        if not isinstance(value, str | int | float | None) or value in (math.inf, -math.inf):
            raise ValueError(f"query {number}: {name} must be text or a number, got {value!r}")
    facts = {k: None if v != v else v for k, v in facts.items()}
    head = {"event": "tell", "id": number, **named, **result, "cost": float(cost)}
    return head | {"time": round(time.time(), 3)} | facts


def share_of(record: Mapping[str, Any]) -> float | None:
    """Share of the verdict that the first won, of a record; None for an error.

    Raises:
      KeyError, ValueError: it is no record of an answer.
    """
    if "error" in record:
        return None
    share = float(record["p_first"]) if "p_first" in record else WORDS[record["winner"]]
    if share is None or not 0 <= share <= 1:
        raise ValueError(f"p_first is {share}, allowed 0 to 1")
    return share


def number_of(value: Any) -> int | None:
    """The number of a query, also from a cell of a table; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return int(value) if float(value) == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _winner(number: int, winner: Any, named: Mapping[str, Any]) -> str:
    """One of `WORDS`, from a winner that is a word or a name."""
    word, first, second = str(winner).strip(), named["first"], named["second"]
    try:
        share = read_winner(word, first, second, by_name=True, way_out="tell p_first, 1 or 0")
    except KeyError:
        raise ValueError(
            f"query {number}: winner is {word!r}, allowed: {', '.join(WORDS)}, {first!r} or "
            f"{second!r}"
        ) from None
    except ValueError as error:
        raise ValueError(f"query {number}: winner is {error}") from None
    return OUTCOMES[share]


def _between(number: int, p_first: Any) -> float:
    if not _is_number(p_first) or not 0 <= float(p_first) <= 1:
        raise ValueError(f"query {number}: p_first must lie in 0 to 1, got {p_first!r}")
    return float(p_first)
