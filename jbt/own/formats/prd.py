"""PRD ratings: one judge's ratings of two models' answers, in a file named after the models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats.records import Format, Item, Record, Refused, Row, Verdict, as_code

SCORES = {"1": 1.0, "2": 0.0, "3": 0.5}

NAMED = re.compile(
    r"(?:answer[_-])?(?P<first>.+?)[_-]vs[_-](?:answer[_-])?(?P<second>.+?)"
    r"(?:-(?P<judge>[^-]+)-reviewer.*)?"
)
"""answer_FIRST-vs-answer_SECOND-JUDGE-reviewer_threeclass.jsonl"""


def recognises(values: Mapping[str, Any]) -> bool:
    """A question, two answers and a score."""
    return {"question_id", "answer1_id", "answer2_id", "score"} <= values.keys()


def records(row: Row) -> Iterator[Record]:
    """One rating; answer 1 was shown first."""
    stem = re.sub(r"(\.jsonl?)?(\.gz)?$", "", row.file.name)
    named = NAMED.fullmatch(stem)
    if not named or named["first"] == named["second"]:
        raise Refused("the models are in the file's name, allowed: answer_FIRST-vs-answer_SECOND-…")
    for role in ("first", "second"):
        row.note(role, "the file's name")
    if named["judge"]:
        row.note("judge", "the file's name")
    first, second = (Item(name, name) for name in (named["first"], named["second"]))
    score = row.need("winner", "score")
    p_first = None if score is None else as_code(score, SCORES, "score")
    pool = row.name("pool", "question_id")
    yield Verdict(pool, first, second, p_first, named["judge"], shown=True)


FORMAT = Format(
    name="prd",
    title="PRD ratings",
    recognises=recognises,
    records=records,
    order="recorded",
)
