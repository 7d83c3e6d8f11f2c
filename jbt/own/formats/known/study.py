"""The journal of a study (`own.Study`): the answers among its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jbt.own.formats.records import Format, Item, Record, Row, Verdict, as_code
from jbt.own.tables.outcomes import WORDS


def recognises(values: Mapping[str, Any]) -> bool:
    """Whether this is the first line of a journal, or another of its records."""
    return values.get("event") in ("study", "ask", "tell", "lease")


def records(row: Row) -> Iterator[Record]:
    """Read one answer; what is asked, and the study's settings, are no verdicts."""
    if row.need("event", "event") != "tell":
        return
    first, second = (Item(row.name(side, side)) for side in ("first", "second"))
    p_first = None
    if row.find("p_first", "p_first") is not None:
        p_first = float(row.values["p_first"])
    elif "winner" in row.values:
        p_first = as_code(row.need("winner", "winner"), WORDS, "winner")
    judge = row.find("judge", "judge")
    yield Verdict(row.name("pool", "pool"), first, second, p_first, judge or row.judge, shown=True)


FORMAT = Format(
    name="study",
    title="Journal of a study",
    recognises=recognises,
    records=records,
    order="recorded",
)
