"""AlpacaEval `annotations.json`: models against one baseline, with graded preferences. Recognises
and converts one record; `sources` reads the file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats.records import (
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_number,
    brief,
    pair,
)


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether there are an instruction, two outputs with their generators, and a preference."""
    outputs = {"instruction", "output_1", "output_2", "generator_1", "generator_2"}
    return outputs <= values.keys() and "preference" in values


def records(row: Row) -> Iterator[Record]:
    """Read one annotation; all models that answered one instruction form a pool."""
    pool = digest(row.need("pool", "instruction"))
    answers = [
        Item(name, name, row.text("texts", f"output_{n}"))
        for n, role in ((1, "first"), (2, "second"))
        for name in [row.name(role, f"generator_{n}")]
    ]
    first, second = pair(answers[0], answers[1], ("1", "2"))
    p_first = _p_first(row.need("p_first", "preference"))
    judge = row.optional_name("judge", "annotator")
    yield Verdict(pool, first, second, p_first, judge, shown=False)


def digest(*parts: Any) -> str:
    """Make a short name for a text, the same in every file.

    Raises:
      Refused: it is not a text.
    """
    if not all(isinstance(part, str) for part in parts):
        raise Refused(f"{', '.join(map(brief, parts))}, allowed: texts")
    whole = "\0".join(parts).encode("utf-8", "surrogatepass")
    return f"q{hashlib.sha256(whole).hexdigest()[:12]}"


def _p_first(preference: Any) -> float | None:
    """Convert a preference: 1 for the first output, 2 for the second, or between; 1.5 and 0 are
    ties, null is a failure."""
    if preference is None:
        return None
    number = as_number(preference)
    if number == 0:
        return 0.5
    if 1 <= number <= 2:
        return round(2 - number, 12)
    raise Refused(f"preference is {brief(preference)}, allowed: 1 to 2, 0 (a tie), null")


FORMAT = Format(
    name="alpaca_eval",
    title="AlpacaEval annotations",
    recognises=recognises,
    records=records,
    order="unknown",
    graded=True,
)
