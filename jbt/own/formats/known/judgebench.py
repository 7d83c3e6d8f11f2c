"""JudgeBench outputs: pairs of responses with a gold label, judged in one or both orders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats.records import (
    Anchor,
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_code,
    as_name,
    as_objects,
)

RESPONSES = ("response_A", "response_B")

LABELS = {"A>B": 1.0, "B>A": 0.0}

DECISIONS = {**LABELS, "A=B": 0.5}
"""Share won by the response shown first, which the judge calls A."""


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether there are two responses, their label and judgments."""
    return {"pair_id", *RESPONSES, "label", "judgments"} <= values.keys()


def records(row: Row) -> Iterator[Record]:
    """Read the label, and a verdict in each order."""
    pool = row.name("pool", "pair_id")
    a, b = (Item(key, text=row.text("texts", key), by_place=True) for key in RESPONSES)
    row.note("first", "response_A")
    row.note("second", "response_B")
    gold = as_code(row.need("anchors", "label"), LABELS, "label")
    yield Anchor(pool, *(RESPONSES if gold == 1 else RESPONSES[::-1]))
    judgments = as_objects(row.need("winner", "judgments", "[].decision"), "judgments")
    if len(judgments) not in (1, 2):
        raise Refused(f"{len(judgments)} judgments, allowed: 1 or 2")
    judge = _judge(row)
    for number, (judgment, first, second) in enumerate(
        zip(judgments, (a, b), (b, a), strict=False)
    ):
        decision = None if judgment is None else judgment.get("decision")
        key = f"judgments[{number}].decision"
        p_first = None if decision is None else as_code(decision, DECISIONS, key)
        yield Verdict(pool, first, second, p_first, judge, shown=True)


def _judge(row: Row) -> str | None:
    """The model that judged, from the file's name; else the kind of judge."""
    named = re.search(r"judge_model=([^,=]+?)(\.jsonl?)?(\.gz)?$", row.file.name)
    if named:
        row.note("judge", "judge_model in the file's name")
        return as_name(named[1], "judge_model in the file's name")
    return row.optional_name("judge", "judge_model", "judge_name")


FORMAT = Format(
    name="judgebench",
    title="JudgeBench outputs",
    recognises=recognises,
    records=records,
    order="recorded",
)
