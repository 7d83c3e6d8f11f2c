"""A table of the user's own: a verdict a row, in columns named by options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jbt.own.formats import texts
from jbt.own.formats.known.chatbot_arena import one_hot
from jbt.own.formats.records import (
    Format,
    Item,
    Record,
    Refused,
    Row,
    Verdict,
    as_name,
    as_number,
    brief,
)
from jbt.own.tables.verdicts import ALL

PAIRS = (("first", "second"), ("model_a", "model_b"))
"""Columns of item names that are known without an option."""

WORDS: Mapping[str, float | None] = {
    **dict.fromkeys(("first", "model_a", "left", "1", "a"), 1.0),
    **dict.fromkeys(("second", "model_b", "right", "2", "b"), 0.0),
    "tie": 0.5,
    "error": None,
}
"""What a winner may be besides an item's own name, and the share the first then won; in any
case of letters."""


@dataclass(frozen=True)
class GenericColumns:
    """Columns of the user's table; None: the usual name, if it is there."""

    first: str | None = None
    second: str | None = None
    winner: tuple[str, ...] = ()
    """One column; or two or three, marked 1 where the first won, the second won, neither."""
    pool: str | None = None
    judge: str | None = None
    texts: tuple[str, str] | None = None
    """Columns of the two answers' texts."""
    counts: tuple[tuple[str, str, str], ...] = ()
    """Covariates counted already: a name, and the columns of the first and second answer."""

    def given(self) -> bool:
        """Whether any is named."""
        return self != USUAL

    def check(self) -> None:
        """Raise `ValueError` unless these can be columns of one table."""
        if (self.first is None) != (self.second is None):
            raise ValueError("--first and --second go together")
        if len(self.winner) > 3:
            raise ValueError(f"--winner takes up to 3 columns, got {len(self.winner)}")
        used = [self.first, self.second, *self.winner, self.pool, self.judge]
        named = [name for name in used if name is not None]
        twice = [name for i, name in enumerate(named) if name in named[:i]]
        if twice:
            raise ValueError(f"column {twice[0]!r} is named for two things")
        measured = [name for name, _, _ in self.counts]
        if len(set(measured)) < len(measured) or {"pool", "item", "content"} & set(measured):
            raise ValueError(
                f"--counts names {', '.join(measured)}: each must be a name of its own"
            )


USUAL = GenericColumns()
"""No option given."""


def generic(columns: GenericColumns) -> Format:
    """The format of a user's table."""
    return Format(
        name="generic",
        title="Table of your own",
        recognises=_recognises,
        records=lambda row: _records(row, columns),
        order="unknown",
    )


def _recognises(values: Mapping[str, Any]) -> bool:
    named = any({first, second} <= values.keys() for first, second in PAIRS)
    return named and bool({"winner", "p_first"} & values.keys())


def _records(row: Row, columns: GenericColumns) -> Iterator[Record]:
    first, second = _items(row, columns)
    if first.name == second.name:
        raise Refused(f"first and second are the same item, {brief(first.name)}")
    pool = _name(row, "pool", columns.pool)
    if pool is None:  # answers that come with the row belong to it
        pool = row.numbered() if columns.texts or columns.counts else ALL
    judge = _name(row, "judge", columns.judge)
    p_first = _p_first(row, columns, first.name, second.name)
    yield Verdict(pool, first, second, p_first, judge, shown=_shown(row), count=_count(row))


def _name(row: Row, role: str, column: str | None) -> str | None:
    """A name, from the column asked for or else the usual one, if it is there."""
    if column is None and role not in row.values:
        return None
    return row.name(role, column or role)


def _items(row: Row, columns: GenericColumns) -> tuple[Item, Item]:
    names, by_place = _names(row, columns)
    said: list[str | None] = [None, None]
    if columns.texts is not None:
        for column in columns.texts:
            row.need("texts", column)
        said = [row.text("texts", column) for column in columns.texts]
    measures: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for name, *sides in columns.counts:
        for side, column in enumerate(sides):
            measures[side][name] = texts.as_count(row.need(name, column), column)
    first, second = (
        Item(name, text=text, measures=measure, by_place=by_place)
        for name, text, measure in zip(names, said, measures, strict=True)
    )
    return first, second


def _names(row: Row, columns: GenericColumns) -> tuple[tuple[str, str], bool]:
    """Names of the two items, and whether they are those of the columns of their texts, as nothing
    else names them."""
    if columns.first is not None and columns.second is not None:
        pair = columns.first, columns.second
    else:
        pair = next((p for p in PAIRS if set(p) <= row.values.keys()), None)
    if pair is not None:
        return (row.name("first", pair[0]), row.name("second", pair[1])), False
    if columns.texts is not None:
        one, two = columns.texts
        return (as_name(one, "the column"), as_name(two, "the column")), True
    there = ", ".join(map(repr, list(row.values)[:12]))
    raise Refused(f"no items here, name their columns (--first --second); columns are {there}")


def _p_first(row: Row, columns: GenericColumns, first: str, second: str) -> float | None:
    if len(columns.winner) > 1:
        shares = dict(zip(columns.winner, (1.0, 0.0, 0.5), strict=False))
        return one_hot(row, shares)
    if not columns.winner and "winner" not in row.values and "p_first" in row.values:
        return _share(row.need("p_first", "p_first"))
    (column,) = columns.winner or ("winner",)
    return winner(row.need("winner", column), first, second, _words(columns), column)


def _words(columns: GenericColumns) -> Mapping[str, float | None]:
    """Also the names of the two columns."""
    own = {columns.first: 1.0, columns.second: 0.0}
    if columns.first is None and columns.texts is not None:
        own = dict(zip(columns.texts, (1.0, 0.0), strict=True))
    return {**{name.casefold(): p for name, p in own.items() if name is not None}, **WORDS}


def winner(
    value: Any, first: str, second: str, words: Mapping[str, float | None], column: str
) -> float | None:
    """Share that the first won, by a reserved word or an item's own name, in any case.

    Raises:
      Refused: neither; or the name of one item is the word for the other.
    """
    allowed = f"{first}, {second}, {', '.join(WORDS)}"
    if value is None:
        raise Refused(f"{column} is empty, allowed: {allowed}")
    code = as_name(value, column)
    names = {first: 1.0, second: 0.0}
    named = [p for name, p in names.items() if name == code]
    named = named or [p for name, p in names.items() if name.casefold() == code.casefold()]
    if code.casefold() in words:
        word = words[code.casefold()]
        if named and named != [word]:
            raise Refused(f"{column} is {brief(code)}, a reserved word and the name of an item")
        return word
    if len(named) != 1:
        raise Refused(f"{column} is {brief(code)}, allowed: {allowed}")
    return named[0]


def _share(value: Any) -> float | None:
    if value is None:
        return None
    share = as_number(value)
    if not 0 <= share <= 1:
        raise Refused(f"p_first is {brief(value)}, allowed: 0 to 1, empty")
    return share


def _shown(row: Row) -> bool:
    """Nothing in a table says that its columns are in the order shown, but a column `order`."""
    if "order" not in row.values:
        return False
    order = row.need("order", "order")
    if order not in ("shown", "unknown"):
        raise Refused(f"order is {brief(order)}, allowed: shown, unknown")
    return order == "shown"


def _count(row: Row) -> int:
    if "count" not in row.values:
        return 1
    count = texts.as_count(row.need("count", "count"), "count")
    if not count.is_integer():
        raise Refused(f"count is {brief(row.values['count'])}, allowed: whole numbers from 0")
    return int(count)
