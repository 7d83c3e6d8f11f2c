"""The formats there are, and which of them a file has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from jbt.own.formats.generic import USUAL, GenericColumns, generic
from jbt.own.formats.known import (
    alpaca_eval,
    chatbot_arena,
    comparia,
    judgebench,
    llmbar,
    mt_bench,
    prd,
)
from jbt.own.formats.known.arena_hard import arena_hard
from jbt.own.formats.records import Format, RefusedFile

Name = Literal[
    "auto",
    "chatbot_arena",
    "mt_bench",
    "mt_bench_human",
    "alpaca_eval",
    "arena_hard",
    "llmbar",
    "judgebench",
    "prd",
    "comparia",
    "generic",
]


def known(columns: GenericColumns = USUAL, strong_weight: int = 1) -> dict[str, Format]:
    """Every format by its name, `generic` last.

    Args:
      columns: of a generic table.
      strong_weight: how often a verdict `>>` of Arena-Hard counts (count).
    """
    formats = (
        chatbot_arena.FORMAT,
        mt_bench.PAIRS,
        mt_bench.PEOPLE,
        alpaca_eval.FORMAT,
        arena_hard(strong_weight),
        llmbar.FORMAT,
        judgebench.FORMAT,
        prd.FORMAT,
        comparia.FORMAT,
        generic(columns),
    )
    return {f.name: f for f in formats}


def recognise(values: Mapping[str, Any], formats: Mapping[str, Format]) -> Format:
    """The format of a file whose first record has these values; `generic` only if no other is.

    Raises:
      RefusedFile: no format is recognised, or several are.
    """
    found = [f for f in formats.values() if f.recognises(values)]
    found = [f for f in found if f.name != "generic"] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise RefusedFile(f"may be {' or '.join(f.name for f in found)}: say which (--format)")
    keys = ", ".join(map(repr, list(values)[:12]))
    raise RefusedFile(
        f"none of the formats known has the keys {keys}; for a table of your own name its columns "
        "(--first --second --winner)"
    )
