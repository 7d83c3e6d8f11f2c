"""Count what may bias a judge: words, characters and markdown markers of an answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from jbt.own.formats.records import as_number, outside

MARKERS = {
    "lists": re.compile(r"^[ \t]*[-*+][ \t]", re.MULTILINE),
    "numbered": re.compile(r"^[ \t]*\d+[.)][ \t]", re.MULTILINE),
    "headings": re.compile(r"^[ \t]*#{1,6}[ \t]", re.MULTILINE),
    "quotes": re.compile(r"^[ \t]*>", re.MULTILINE),
    "tables": re.compile(r"^[ \t]*\|", re.MULTILINE),
    "bold": re.compile(r"\*\*"),
    "code": re.compile(r"`+"),
}
"""Markers of markdown: lines that begin a list entry, a numbered entry, a heading, a quote or a row
of a table; `**`, two a bold phrase; runs of backquotes, two a span or block."""

TURNS = "a list of messages with role and content"


def measures(text: str) -> dict[str, float]:
    """Count words (separated by white space), characters and each kind of marker in a text;
    `markdown` is the sum of the markers."""
    markers = {name: float(len(marker.findall(text))) for name, marker in MARKERS.items()}
    counts = {"words": float(len(text.split())), "chars": float(len(text))}
    return counts | markers | {"markdown": sum(markers.values())}


def answers(conversation: Any, key: str) -> list[str]:
    """Extract the assistant's messages from a conversation, one text each.

    Args:
      conversation: messages, each with a role and a content, which is a text or a list of parts;
        or the same as JSON.

    Raises:
      Refused: it is something else.
    """
    messages = _decoded(conversation)
    if not isinstance(messages, list) or not all(isinstance(m, Mapping) for m in messages):
        raise outside(key, conversation, TURNS)
    return [_content(m.get("content"), key) for m in messages if m.get("role") == "assistant"]


def _content(content: Any, key: str) -> str:
    if isinstance(content, Mapping):  # Arena-Hard: {"answer": text}
        content = [{"text": content.get("answer")}]
    is_list = isinstance(content, list) and all(isinstance(part, Mapping) for part in content)
    parts: list[Any] = (
        [part.get("text") for part in content] if is_list else [content]
    )  # images have none
    if not all(part is None or isinstance(part, str) for part in parts):
        raise outside(f"content in {key}", content, "a text or its parts")
    return "\n".join(part for part in parts if part is not None)


def replies(value: str) -> str:
    """The text of a field that holds an answer, or a JSON list with an answer for each turn."""
    turns = _decoded(value)
    if isinstance(turns, list) and all(t is None or isinstance(t, str) for t in turns):
        return "\n".join(t for t in turns if t is not None)
    return value


def _decoded(value: Any) -> Any:
    """Decode a list that a table without lists holds as JSON; return anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def style(metadata: Any, suffix: str, key: str, tokens: str) -> dict[str, float]:
    """Counts that the Arena records beside its conversations: `tokens`; `header_count`,
    `list_count`, `bold_count`, each summed over its kinds.

    Raises:
      Refused: not an object, or a count is not a number.
    """
    if not isinstance(metadata, Mapping):
        raise outside(key, metadata, "an object")
    totals = {}
    for name in ("header_count", "list_count", "bold_count"):
        value = metadata.get(name + suffix)
        if value is not None:
            kinds = list(value.values()) if isinstance(value, Mapping) else [value]
            counts = [as_count(v, f"{key}.{name}{suffix}") for v in kinds if v is not None]
            totals[name] = float(sum(counts))
    if (n_tokens := metadata.get(tokens)) is not None:
        where = tokens if suffix else f"{key}.{tokens}"
        totals = {"tokens": as_count(n_tokens, where), **totals}
    return totals


def as_count(value: Any, key: str) -> float:
    """Check a number that is not negative.

    Raises:
      Refused: it is something else.
    """
    number = as_number(value)
    if not 0 <= number < math.inf:
        raise outside(key, value, "numbers from 0")
    return number
