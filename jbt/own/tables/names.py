"""Names of pools and items: those that look alike, those made of two, and those that a spreadsheet
would compute."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

FORMULA = re.compile(r"'*[=+\-@]")
"""Start of a name that a spreadsheet takes for a formula, or of an escaped one."""

LISTED = 20
"""Most names that a message lists."""

UNUSUAL = re.compile("[^ -~]")

PLACES = re.compile(
    r"(?P<what>|answer|assistant|candidate|choice|completion|generation|item|model|option|output|"
    r"reply|response|side|solution|summary|system|text)[ _-]*"
    r"(?P<which>0|1|2|a|b|one|two|first|second|left|right|chosen|rejected)",
    re.IGNORECASE,
)
"""Names that say where an answer was shown, not who wrote it."""


def places(names: Collection[str]) -> bool:
    """Whether these are the two places of a comparison, such as `output_1` and `output_2`, and not
    names of models."""
    matches = [PLACES.fullmatch(name) for name in names]
    return (
        len(matches) == 2 and all(matches) and len({m and m["what"].lower() for m in matches}) == 1
    )


def look(name: str) -> str:
    """Normalise a name to what a reader sees: composed (NFC), without characters of no width, any
    white space as one space."""
    if not UNUSUAL.search(name):
        return name
    visible = (c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return " ".join("".join(visible).split())


def alike(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different names that look alike."""
    names = list(names)
    if not UNUSUAL.search("".join(names)):
        return []
    by_look: dict[str, str] = {}
    pairs = dict.fromkeys((by_look.setdefault(look(name), name), name) for name in names)
    return [pair for pair in pairs if pair[0] != pair[1]]


def alike_note(kinds: Mapping[str, Iterable[str]]) -> list[str]:
    """A sentence on names of each kind that look alike, if there are any."""
    pairs = [(kind, *pair) for kind, names in kinds.items() for pair in alike(names)]
    more = f", and {len(pairs) - 1} more pairs" * (len(pairs) > 1)
    return [
        f"names that look alike are kept apart: {kind} {first!a} and {second!a}{more}"
        for kind, first, second in pairs[:1]
    ]


def by_name(names: Sequence[str]) -> np.ndarray:
    """[n] the order of rows by their names. What is drawn for rows in this order does not depend on
    that of a table."""
    return np.argsort(np.asarray(names, str), kind="stable")


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message that a name is not known: the known name that looks like it, if any."""
    lookalike = next((v for v in known if v != name and look(v) == look(name)), None)
    return "" if lookalike is None else f", but {lookalike!a} looks alike and is ({name!a} is not)"


def listing(names: Sequence[str]) -> str:
    """The names after one another; of very many, the first and how many more."""
    if len(names) <= LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:LISTED])} and {len(names) - LISTED} more"


def joined(pool: np.ndarray, item: np.ndarray) -> np.ndarray:
    """[rows] join arrays of text to pool/item; where two such names would coincide, slashes within
    all of them become `\\/`."""
    names = pool + "/" + item
    if not pd.Series(names).is_unique:
        escapes = str.maketrans({"\\": "\\\\", "/": "\\/"})
        pairs = zip(pool, item, strict=True)
        names[:] = ["/".join(name.translate(escapes) for name in pair) for pair in pairs]
    return names


def for_spreadsheet(name: str) -> str:
    """Escape a name so that a spreadsheet takes it for text: an apostrophe before =, +, - and @."""
    return f"'{name}" if FORMULA.match(name) else name


def from_spreadsheet(name: str, known: Collection[str]) -> str:
    """Undo `for_spreadsheet` where that gives a known name."""
    return name[1:] if name[:1] == "'" and FORMULA.match(name) and name[1:] in known else name
