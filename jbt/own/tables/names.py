"""Names of pools and items as people and their programs take them: names that look alike, names
made of two, names that a spreadsheet would compute."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pandas as pd

FORMULA = re.compile(r"'*[=+\-@]")
"""How a name begins that a spreadsheet takes for a formula, or an escaped one."""

UNUSUAL = re.compile("[^ -~]")


PLACES = re.compile(
    r"(?P<what>|answer|assistant|candidate|choice|completion|generation|item|model|option|output|"
    r"reply|response|side|solution|summary|system|text)[ _-]*"
    r"(?P<which>0|1|2|a|b|one|two|first|second|left|right|chosen|rejected)",
    re.IGNORECASE,
)
"""Names of what was shown where, whoever wrote it."""


def places(names: Collection[str]) -> bool:
    """Whether these are the two places of a comparison, and no names of models: `output_1` and
    `output_2`, say."""
    found = [PLACES.fullmatch(name) for name in names]
    return len(found) == 2 and all(found) and len({m and m["what"].lower() for m in found}) == 1


def look(name: str) -> str:
    """What a reader sees of a name: composed (NFC), without characters that have no width, any
    white space as one space."""
    if not UNUSUAL.search(name):
        return name
    seen = (c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return " ".join("".join(seen).split())


def alike(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of names that look alike and are not the same."""
    seen: dict[str, str] = {}
    return [(first, name) for name in names if (first := seen.setdefault(look(name), name)) != name]


def alike_note(kinds: Mapping[str, Iterable[str]]) -> list[str]:
    """A sentence on names of each kind that look alike, if there are any."""
    pairs = [(kind, *pair) for kind, names in kinds.items() for pair in alike(names)]
    if not pairs:
        return []
    kind, one, other = pairs[0]
    more = f", and {len(pairs) - 1} more pairs" * (len(pairs) > 1)
    return [f"names that look alike are kept apart: {kind} {one!a} and {other!a}{more}"]


def hint(name: str, known: Iterable[str]) -> str:
    """For a message that a name is not known: what looks like it and is; else empty."""
    found = next((v for v in known if v != name and look(v) == look(name)), None)
    return "" if found is None else f", but {found!a} looks alike and is ({name!a} is not)"


def joined(pool: np.ndarray, item: np.ndarray) -> np.ndarray:
    """[rows] pool/item, of arrays of text; where two such names would coincide, `\\/` for what is
    no separator."""
    names = pool + "/" + item
    # The escaped ones may coincide with others; escaped all, none do.
    for some in (pd.Series(names).duplicated(keep=False).to_numpy(), np.ones(len(names), bool)):
        if pd.Series(names).is_unique:
            break
        names[some] = [
            "/".join(v.replace("\\", "\\\\").replace("/", "\\/") for v in pair)
            for pair in zip(pool[some], item[some], strict=True)
        ]
    return names


def for_spreadsheet(name: str) -> str:
    """A name that a spreadsheet takes for text: with an apostrophe before `=`, `+`, `-` and `@`."""
    return f"'{name}" if FORMULA.match(name) else name


def from_spreadsheet(name: str, known: Collection[str]) -> str:
    """The name that `for_spreadsheet` escaped, if it is one that is known; else as it stands."""
    return name[1:] if name[:1] == "'" and FORMULA.match(name) and name[1:] in known else name
