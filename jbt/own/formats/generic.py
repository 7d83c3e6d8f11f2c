"""Read a table of the user's own: a verdict a row, in columns named by options."""

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
from jbt.own.tables.verdicts import ALL, ORDERS, WORDS, check_distinct

PAIRS = (("first", "second"), ("model_a", "model_b"))
"""Columns of item names that are recognised without an option."""

SIDES: Mapping[str, float | None] = {
    **WORDS,
    **dict.fromkeys(("model_a", "left", "1", "a"), WORDS["first"]),
    **dict.fromkeys(("model_b", "right", "2", "b"), WORDS["second"]),
}
"""Words that a winner may be besides an item's own name, in any case of letters, and the share that
the first won."""


@dataclass(frozen=True)
class GenericColumns:
    """Columns of the user's table; None: the usual name, if the table has it."""

    first: str | None = None
    second: str | None = None
    winner: tuple[str, ...] = ()
    """One column; or two or three, marked 1 where the first won, the second won, they tied."""
    pool: str | None = None
    judge: str | None = None
    texts: tuple[str, str] | None = None
    """Columns of the two answers' texts."""
    counts: tuple[tuple[str, str, str], ...] = ()
    """Covariates already counted: a name, and the columns of the first and second answer."""

    def given(self) -> bool:
        """Whether the user named any column."""
        return self != USUAL

    def check(self) -> None:
        """Raise `ValueError` for columns that cannot belong to one table."""
        if (self.first is None) != (self.second is None):
            raise ValueError("--first and --second go together")
        if len(self.winner) > 3:
            raise ValueError(f"--winner takes up to 3 columns, got {len(self.winner)}")
        used = [self.first, self.second, *self.winner, self.pool, self.judge]
        check_distinct([name for name in used if name is not None])
        counted = [name for name, _, _ in self.counts]
        if len(set(counted)) < len(counted) or {"pool", "item", "content"} & set(counted):
            raise ValueError(f"--counts names {', '.join(counted)}: each must be a name of its own")


USUAL = GenericColumns()
"""No option given."""


def generic(columns: GenericColumns) -> Format:
    """Return the format of a table with these columns."""
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
    if pool is None:  # answers given with their row form a pool of their own
        pool = row.numbered() if columns.texts or columns.counts else ALL
    judge = _name(row, "judge", columns.judge)
    p_first = _p_first(row, columns, first.name, second.name)
    yield Verdict(pool, first, second, p_first, judge, shown=_shown(row), count=_count(row))


def _name(row: Row, role: str, column: str | None) -> str | None:
    """A name, from the column that the user named or else the usual one, if the table has it."""
    if column is None and role not in row.values:
        return None
    return row.name(role, column or role)


def _items(row: Row, columns: GenericColumns) -> tuple[Item, Item]:
    names, by_place = _names(row, columns)
    answers: list[str | None] = [None, None]
    if columns.texts is not None:
        for column in columns.texts:
            row.need("texts", column)
        answers = [row.text("texts", column) for column in columns.texts]
    measures: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for name, *sides in columns.counts:
        for side, column in enumerate(sides):
            measures[side][name] = texts.as_count(row.need(name, column), column)
    first, second = (
        Item(name, text=text, measures=measure, by_place=by_place)
        for name, text, measure in zip(names, answers, measures, strict=True)
    )
    return first, second


def _names(row: Row, columns: GenericColumns) -> tuple[tuple[str, str], bool]:
    """Names of the two items, and whether they are only the names of the columns of their texts."""
    if columns.first is not None and columns.second is not None:
        pair = columns.first, columns.second
    else:
        pair = next((p for p in PAIRS if set(p) <= row.values.keys()), None)
    if pair is not None:
        return (row.name("first", pair[0]), row.name("second", pair[1])), False
    if columns.texts is not None:
        first, second = columns.texts
        return (as_name(first, "the column"), as_name(second, "the column")), True
    keys = ", ".join(map(repr, list(row.values)[:12]))
    raise Refused(f"no items here, name their columns (--first --second); columns are {keys}")


def _p_first(row: Row, columns: GenericColumns, first: str, second: str) -> float | None:
    if len(columns.winner) > 1:
        shares = dict(zip(columns.winner, (1.0, 0.0, 0.5), strict=False))
        return one_hot(row, shares)
    if not columns.winner and "winner" not in row.values and "p_first" in row.values:
        return _share(row.need("p_first", "p_first"))
    (column,) = columns.winner or ("winner",)
    return winner(row.need("winner", column), first, second, _words(columns), column)


def _words(columns: GenericColumns) -> Mapping[str, float | None]:
    """`SIDES`, and the names of the two columns."""
    sides = (columns.first, columns.second)
    if columns.first is None and columns.texts is not None:
        sides = columns.texts
    names = zip(sides, (1.0, 0.0), strict=True)
    return {**{name.casefold(): p for name, p in names if name is not None}, **SIDES}


def winner(
    value: Any, first: str, second: str, words: Mapping[str, float | None], column: str
) -> float | None:
    """Read a winner, a reserved word or an item's own name in any case of letters, as the share
    that the first won.

    Raises:
      Refused: it is neither; or the name of one item is the word for the other.
    """
    allowed = f"{first}, {second}, {', '.join(SIDES)}"
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
    """Whether the order is known to be the one shown; only a column `order` can say so."""
    if "order" not in row.values:
        return False
    order = row.need("order", "order")
    if order not in ORDERS:
        raise Refused(f"order is {brief(order)}, allowed: {', '.join(ORDERS)}")
    return order == "shown"


def _count(row: Row) -> int:
    if "count" not in row.values:
        return 1
    count = texts.as_count(row.need("count", "count"), "count")
    if not count.is_integer():
        raise Refused(f"count is {brief(row.values['count'])}, allowed: whole numbers from 0")
    return int(count)
