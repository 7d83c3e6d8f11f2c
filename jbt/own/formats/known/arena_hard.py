"""Arena-Hard v2: judgments of a model against a baseline in two games, and the models' answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats import texts
from jbt.own.formats.records import (
    Answer,
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_code,
    as_objects,
    brief,
)

SCORES = {
    **dict.fromkeys(("A>>B", "A>B", "B<A", "B<<A"), 1.0),
    **dict.fromkeys(("A=B", "B=A"), 0.5),
    **dict.fromkeys(("B>A", "B>>A", "A<B", "A<<B"), 0.0),
}
"""Share won by A, who is shown first."""

STRONG = (">>", "<<")


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether it is a judgment with its games, or an answer with its metadata."""
    judgment = {"uid", "judge", "model", "baseline", "games"} <= values.keys()
    return judgment or ({"uid", "model", "metadata"} <= values.keys() and "games" not in values)


def reader(strong_weight: int = 1):
    """Return the function that reads a record.

    Args:
      strong_weight: how often a verdict `>>` counts (count); Arena-Hard itself takes 3.
    """

    def records(row: Row) -> Iterator[Record]:
        """Read two games, the baseline shown first in the first of them, or an answer."""
        pool = row.name("pool", "uid")
        if "games" not in row.values:
            yield Answer(pool, _answer(row))
            return
        baseline, model = row.name("first", "baseline"), row.name("second", "model")
        if baseline == model:
            raise Refused(f"model and baseline are both {brief(model)}, allowed: two models")
        shown = (Item(baseline, baseline), Item(model, model))
        judge = row.optional_name("judge", "judge")
        games = as_objects(row.need("winner", "games", "[].score"), "games")
        if len(games) != 2:
            raise Refused(f"{len(games)} games, allowed: 2")
        for number, game in enumerate(games):
            score = None if game is None else game.get("score")
            p_first = None if score is None else as_code(score, SCORES, f"games[{number}].score")
            strong = score is not None and any(sign in score for sign in STRONG)
            first, second = shown[number], shown[1 - number]
            count = strong_weight if strong else 1
            yield Verdict(pool, first, second, p_first, judge, shown=True, count=count)

    return records


def _answer(row: Row) -> Item:
    model = row.name("item", "model")
    messages = row.find("texts", "messages")
    text = None if messages is None else "\n".join(texts.answers(messages, "messages"))
    metadata = row.find("counts", "metadata") or {}
    measures = texts.style(metadata, "", "metadata")
    if (tokens := metadata.get("token_len")) is not None:
        measures = {"tokens": texts.as_count(tokens, "metadata.token_len"), **measures}
    return Item(model, model, text, measures)


def arena_hard(strong_weight: int = 1) -> Format:
    """Return the format, given the weight of a verdict `>>`."""
    return Format(
        name="arena_hard",
        title="Arena-Hard judgments",
        recognises=recognises,
        records=reader(strong_weight),
        order="recorded",
    )
