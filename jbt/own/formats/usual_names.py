"""Names that columns usually have in tables of people's own: of models, texts, scores, counts,
winners, prompts. Names are compared without regard to case."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from jbt.own.formats.records import Refused

SIDES = (("a", "b"), ("1", "2"), ("left", "right"), ("first", "second"), ("x", "y"))
"""What tells the two columns of a pair apart."""

PLAIN = (("first", "second"), ("left", "right"))
"""Pairs of columns with the items' names that are called by the side alone."""

MODELS = ("model", "generator", "item", "system", "candidate", "assistant")
TEXTS = ("response", "answer", "output", "completion", "text", "reply", "generation", "summary")
SCORES = ("score", "rating", "grade")
COUNTS = ("words", "tokens", "length", "chars")

CHOSEN = ("chosen", "rejected")
"""Texts of which the first won."""

WINNERS = (
    *("winner", "preference", "preferred", "verdict", "choice", "decision", "better", "outcome"),
    *("judgment", "judgement", "vote", "label"),
)
SWAPPED = ("{}_swapped", "swapped_{}", "{}_reversed", "reversed_{}", "{}_swap")
POOLS = ("pool", "question_id", "prompt_id", "instruction_id", "task_id", "qid")
PROMPTS = ("prompt", "question", "instruction", "query", "input")
JUDGES = ("judge", "judge_model", "annotator", "evaluator", "rater")


def pairs(keys: Iterable[str], stems: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of columns such as `STEM_a` and `STEM_b`, `STEM1` and `STEM2`, `left_STEM` and
    `right_STEM`, as they are written in the table."""
    return _pairs(tuple(keys), tuple(stems))


@functools.lru_cache  # the rows of a table have the same columns
def _pairs(keys: tuple[str, ...], stems: tuple[str, ...]) -> list[tuple[str, str]]:
    written = {key.casefold(): key for key in keys}
    found = []
    for stem, sides in itertools.product(stems, SIDES):
        for form in ("{stem}_{side}", "{stem} {side}", "{stem}{side}", "{side}_{stem}"):
            first, second = (form.format(stem=stem, side=side) for side in sides)
            if first in written and second in written:
                found.append((written[first], written[second]))
    return found


def halves(keys: Iterable[str], stems: Iterable[str]) -> list[tuple[str, str]]:
    """Columns such as `STEM_a` without `STEM_b`: the column, and the name of the missing one."""
    written = {key.casefold(): key for key in keys}
    found = []
    for stem, sides in itertools.product(stems, SIDES):
        names = [f"{stem}_{side}" for side in sides]
        there = [name in written for name in names]
        if sum(there) == 1:
            found.append((written[names[there.index(True)]], names[there.index(False)]))
    return found


def single(keys: Iterable[str], names: Iterable[str]) -> list[str]:
    """Columns that have one of these names, as they are written in the table."""
    written = {key.casefold(): key for key in keys}
    return [written[name] for name in names if name in written]


def only(role: str, option: str, candidates: list[Any]) -> Any:
    """The one candidate for a role; None without any.

    Raises:
      Refused: there are several.
    """
    if len(candidates) > 1:
        shown = " or ".join(" and ".join(c) if isinstance(c, tuple) else c for c in candidates)
        raise Refused(f"the {role} may be in {shown}: say which ({option})")
    return candidates[0] if candidates else None


def models(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The columns with the names of the two items."""
    plain = [p for p in PLAIN if set(p) <= values.keys()]
    return only("items", "--first --second", plain[:1] or pairs(values, MODELS))


def texts(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The columns with the two texts, but for `CHOSEN`."""
    return only("texts", "--texts", pairs(values, TEXTS))


def scores(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The columns with the two scores."""
    return only("scores", "--scores", pairs(values, SCORES))


def winner(values: Mapping[str, Any]) -> str | None:
    """The column with the winner: `winner` if there is one."""
    found = single(values, WINNERS)
    return found[0] if found[:1] == ["winner"] else only("winner", "--winner", found)


def swapped(values: Mapping[str, Any], column: str) -> str | None:
    """The column with the winner in the other order."""
    names = [form.format(column.casefold()) for form in SWAPPED]
    return only("winner in the other order", "--swapped", single(values, names))
