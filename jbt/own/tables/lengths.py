"""Words for an item that has more of a covariate than another."""

from __future__ import annotations

import re

LENGTHS = re.compile(
    r"(?<![a-z])(words?|chars?|characters?|tokens?|len|length)(?![a-z])", re.IGNORECASE
)


def larger(covariate: str) -> str:
    """What to call the item with the larger covariate, such as `the longer`."""
    return "the longer" if LENGTHS.search(covariate) else f"the one with more {covariate}"


def smaller(covariate: str) -> str:
    """What to call the item with the smaller covariate, such as `the shorter`."""
    return "the shorter" if LENGTHS.search(covariate) else f"the one with less {covariate}"
