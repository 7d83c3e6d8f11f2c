"""PRD ratings: one judge's ratings of two models' answers, in a file named after the models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats.records import (
    Format,
    Item,
    Record,
    RefusedFile,
    Row,
    Verdict,
    as_code,
    as_name,
)

ALLOWED = "answer_FIRST-vs-answer_SECOND-JUDGE-reviewer"

SCORES = {"1": 1.0, "2": 0.0, "3": 0.5}

NAMED = re.compile(
    r"(?:answer[_-])?(?P<first>.+?)[_-]vs[_-](?:answer[_-])?(?P<rest>.+?)(?P<judged>-reviewer.*)?"
)
"""answer_FIRST-vs-answer_SECOND-JUDGE-reviewer_threeclass.jsonl; `rest` is SECOND-JUDGE."""


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether there are a question, two answers and a score."""
    return {"question_id", "answer1_id", "answer2_id", "score"} <= values.keys()


def records(row: Row) -> Iterator[Record]:
    """Read one rating; answer 1 was shown first."""
    *models, judge = _names(row)
    for role in ("first", "second", *(["judge"] if judge else [])):
        row.note(role, "the file's name")
    first, second = (Item(name, name) for name in models)
    score = row.need("winner", "score")
    p_first = None if score is None else as_code(score, SCORES, "score")
    pool = row.name("pool", "question_id")
    yield Verdict(pool, first, second, p_first, judge, shown=True)


def _names(row: Row) -> tuple[str, str, str | None]:
    """Read the two models and the judge from the file's name.

    Raises:
      RefusedFile: the name lacks them, or can be read in several ways.
    """
    stem = re.sub(r"(\.jsonl?)?(\.gz)?$", "", row.file.name)
    named = NAMED.fullmatch(stem)
    if not named or len(re.findall(r"[_-]vs[_-]", stem)) > 1:
        raise RefusedFile(f"the models are in the file's name, allowed: {ALLOWED}")
    first, second, judge = as_name(named["first"], "the first model"), named["rest"], None
    if named["judged"]:
        second, judge = _split(second, row.judge)
    if first == second:
        raise RefusedFile(f"both models in the file's name are {first!r}, allowed: {ALLOWED}")
    return first, as_name(second, "the second model"), judge


def _split(rest: str, judge: str | None) -> tuple[str, str | None]:
    """Split SECOND-JUDGE at its only hyphen, or before the judge's name, if that is given."""
    if judge is not None and rest.endswith(f"-{judge}"):
        return rest.removesuffix(f"-{judge}"), judge
    second, *judges = rest.split("-")
    if len(judges) > 1 or rest == judge:
        raise RefusedFile(
            f"the file's name has {rest!r} for the second model and the judge, which can be split "
            "in several ways: say the judge's name as it is there (--judge NAME)"
        )
    return second, judges[0] if judges else None


FORMAT = Format(
    name="prd",
    title="PRD ratings",
    recognises=recognises,
    records=records,
    order="recorded",
)
