"""List the known formats, and recognise the format of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from jbt.own.formats.generic import USUAL, GenericColumns, generic
from jbt.own.formats.known import (
    alpaca_eval,
    chatbot_arena,
    comparia,
    judgebench,
    llmbar,
    mt_bench,
    study,
)
from jbt.own.formats.known.arena_hard import arena_hard
from jbt.own.formats.records import Format, RefusedFile

FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        chatbot_arena.FORMAT,
        mt_bench.PAIRS,
        mt_bench.PEOPLE,
        alpaca_eval.FORMAT,
        arena_hard(),
        llmbar.FORMAT,
        judgebench.FORMAT,
        comparia.FORMAT,
        study.FORMAT,
        generic(USUAL),
    )
}
"""Every format by its name; those with options as they are without any."""

if TYPE_CHECKING:
    Name = str
else:
    Name = Literal["auto", *FORMATS]


def known_formats(columns: GenericColumns = USUAL, strong_weight: int = 1) -> dict[str, Format]:
    """`FORMATS` with these options.

    Args:
      columns: columns of a generic table.
      strong_weight: how often a verdict `>>` of Arena-Hard counts (count).
    """
    return FORMATS | {f.name: f for f in (arena_hard(strong_weight), generic(columns))}


def recognise(values: Mapping[str, Any], formats: Mapping[str, Format]) -> Format:
    """Recognise a file's format by its first record; `generic` only if no other matches.

    Raises:
      RefusedFile: no format is recognised, or several are.
    """
    matches = [f for f in formats.values() if f.recognises(values)]
    matches = [f for f in matches if f.name != "generic"] or matches
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise RefusedFile(f"may be {' or '.join(f.name for f in matches)}: say which (--format)")
    keys = ", ".join(map(repr, list(values)[:12]))
    raise RefusedFile(
        f"none of the formats known has the keys {keys}; if this is a table of your own, name its "
        "columns (--first --second --winner)"
    )
