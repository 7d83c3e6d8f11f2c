"""LLMBar `result.json`: pairs with a gold label, each judged in both orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats.known.alpaca_eval import digest
from jbt.own.formats.records import (
    Anchor,
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_code,
    brief,
)

OUTPUTS = ("output_1", "output_2")

WINNERS = {"1": 1.0, "2": 0.0}
"""Share won by output 1, whichever was shown first."""

SWAPS = ("swap = False", "swap = True")


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether there are an input, two outputs, their label and results."""
    return {"input", *OUTPUTS, "label", "results"} <= values.keys()


def records(row: Row) -> Iterator[Record]:
    """Read the label, and the first round's verdicts; later rounds saw the first."""
    one, two = (Item(key, text=row.text("texts", key), by_place=True) for key in OUTPUTS)
    pool = digest(row.need("pool", "input"), one.text or "", two.text or "")
    row.note("first", "output_1")
    row.note("second", "output_2")
    gold = as_code(row.need("anchors", "label"), WINNERS, "label")
    yield Anchor(pool, *(OUTPUTS if gold == 1 else OUTPUTS[::-1]))
    rounds = row.need("winner", "results", "[0].swap.winner")
    if not isinstance(rounds, list) or not rounds or not isinstance(rounds[0], Mapping):
        raise Refused(f"results is {brief(rounds)}, allowed: a list that begins with an object")
    games = {swap: rounds[0][swap] for swap in SWAPS if swap in rounds[0]}
    if not games:
        raise Refused(
            f"keys of results[0] are {brief(list(rounds[0]))}, allowed: {', '.join(SWAPS)}"
        )
    for swap, game in games.items():
        key = f"results[0].{swap}.winner"
        if not isinstance(game, Mapping) or "winner" not in game:
            raise Refused(f"no winner in results[0].{swap}")
        winner = game["winner"]
        p_one = None if winner is None else as_code(winner, WINNERS, key)
        if swap == "swap = False":
            yield Verdict(pool, one, two, p_one, None, shown=True)
        else:
            p_two = None if p_one is None else 1 - p_one
            yield Verdict(pool, two, one, p_two, None, shown=True)


FORMAT = Format(
    name="llmbar",
    title="LLMBar results",
    recognises=recognises,
    records=records,
    order="recorded",
)
