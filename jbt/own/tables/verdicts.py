"""From a sheet (see `sheets`) to checked verdicts: for each row, the share won by the item shown
first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from jbt.own.tables.names import hint
from jbt.own.tables.outcomes import CODES, PAIRS, WORDS, Outcomes, read_winner
from jbt.own.tables.sheets import Problems, Sheet, Source, Text, read_sheet

ALL = "all"
"""Name of the pool where there is only one."""

MOST = 10**9
"""Largest count: beyond it float64 loses what a verdict adds."""

ORDERS = ("shown", "unknown")


def check_distinct(names: Sequence[str]) -> None:
    """Raise `ValueError` where one column is named for two things."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is named for two things")


@dataclass(frozen=True)
class Columns:
    """Names of the verdict table's columns; `pool` applies to the other tables too. With None for
    the judge, all verdicts are one judge's."""

    first: str = "first"
    second: str = "second"
    winner: str = "winner"
    pool: str = "pool"
    judge: str | None = "judge"

    def __post_init__(self) -> None:
        names = [getattr(self, f.name) for f in fields(self)]
        check_distinct([name for name in names if name is not None])

    def renamed(self) -> list[str]:
        """The columns that the user renamed: these are required."""
        names = {f.name: getattr(self, f.name) for f in fields(self)}
        return [v for f, v in names.items() if v not in (None, getattr(Columns, f))]


USUAL = Columns()


@dataclass(frozen=True, eq=False)
class VerdictTable:
    """The verdict table, one entry a row."""

    sheet: Sheet
    pool: Text
    has_pools: bool
    """Whether the table has a column of pools."""
    judge: Text | None
    first: Text
    second: Text
    p_first: np.ndarray
    """[rows] share of the verdict that the first won, NaN for an error."""
    count: np.ndarray
    """[rows] number of verdicts that the row stands for."""
    shown: np.ndarray
    """[rows] whether the judge is known to have seen first before second."""


def read_verdicts(
    source: Source, columns: Columns, problems: Problems, outcomes: Outcomes | None = None
) -> VerdictTable:
    """Read the verdict table; what is wrong with it goes to `problems`.

    Args:
      outcomes: what the winner's codes mean; default `WORDS` and the items' names.
    """
    renamed = columns.renamed()
    usual = [f for f in ("winner", "pool", "judge") if getattr(columns, f) == f]
    if columns.winner == Columns.winner:
        usual.append("p_first")
    needed = list(dict.fromkeys([columns.first, columns.second, *renamed]))
    sheet = read_sheet(source, needed, [*usual, "count", "order"], problems)
    named = columns.pool, columns.judge, columns.first, columns.second
    problems.add_empty(sheet, [column for column in named if column is not None])
    first, second = sheet[columns.first], sheet[columns.second]
    problems.add_rows(
        sheet,
        first.equals(second) & first.map(bool),
        lambda r: f"{columns.first} and {columns.second} are the same item, {first.at(r)!r}",
    )
    return VerdictTable(
        sheet=sheet,
        pool=sheet[columns.pool] if columns.pool in sheet else Text.constant(ALL, len(sheet)),
        has_pools=columns.pool in sheet,
        judge=None if columns.judge is None else sheet.columns.get(columns.judge),
        first=first,
        second=second,
        p_first=_shares(sheet, columns, first, second, outcomes, problems),
        count=_counts(sheet, problems),
        shown=_shown(sheet, problems),
    )


def _counts(sheet: Sheet, problems: Problems) -> np.ndarray:
    if "count" not in sheet:
        return np.ones(len(sheet), np.int64)
    text = sheet["count"]
    number = text.numbers()
    bad = ~((number >= 0) & (number <= MOST) & (number == np.floor(number)))
    allowed = f"allowed: integers from 0 to {MOST}"
    problems.add_rows(sheet, bad, lambda r: f"count is {text.at(r)!r}, {allowed}")
    return np.where(bad, 0, number).astype(np.int64)


def _shown(sheet: Sheet, problems: Problems) -> np.ndarray:
    if "order" not in sheet:
        return np.ones(len(sheet), bool)
    order = sheet["order"]
    allowed = f"allowed: {', '.join(ORDERS)}"
    bad = order.map(lambda v: v.casefold() not in ORDERS)
    problems.add_rows(sheet, bad, lambda r: f"order is {order.at(r)!r}, {allowed}")
    return order.map(lambda v: v.casefold() == "shown")


def _shares(
    sheet: Sheet,
    columns: Columns,
    first: Text,
    second: Text,
    outcomes: Outcomes | None,
    problems: Problems,
) -> np.ndarray:
    graded = "p_first" in sheet
    if graded and columns.winner in sheet and columns.winner != "p_first":
        problems.add(sheet.source, "has both winner and p_first, needs exactly one of them")
    elif graded:
        return _graded(sheet, sheet["p_first"], problems)
    elif columns.winner in sheet and outcomes is not None:
        return _coded(sheet, columns.winner, outcomes, problems)
    elif columns.winner in sheet:
        return named_shares(sheet, columns.winner, first, second, problems)
    else:
        problems.add(sheet.source, "no column 'winner' or 'p_first', needs one of them")
    return np.full(len(sheet), np.nan)


def _graded(sheet: Sheet, text: Text, problems: Problems) -> np.ndarray:
    share = text.numbers()
    bad = ~((share >= 0) & (share <= 1)) & text.map(bool)
    allowed = "allowed: numbers from 0 to 1, or nothing for an error"
    problems.add_rows(sheet, bad, lambda r: f"p_first is {text.at(r)!r}, {allowed}")
    return share


def _coded(sheet: Sheet, column: str, outcomes: Outcomes, problems: Problems) -> np.ndarray:
    """[rows] share that the first won, from the user's own codes; NaN for an error."""
    text = sheet[column]
    known = text.map(outcomes.covers).astype(bool)
    option = f"not covered by {outcomes.option}"
    problems.add_rows(sheet, ~known, lambda r: f"{column} is {text.at(r)!r}, {option}")

    def share(code: str) -> float:
        won = outcomes.share(code) if outcomes.covers(code) else None
        return np.nan if won is None else won

    return text.map(share).astype(float)


def named_shares(
    sheet: Sheet,
    column: str,
    first: Text,
    second: Text,
    problems: Problems,
    *,
    unanswered: bool = False,
    way_out: str | None = None,
) -> np.ndarray:
    """[rows] share that the first won, from winners that are one of `WORDS` or else the name of an
    item; NaN for an error, and for an empty field where these are allowed.

    Args:
      unanswered: whether a field may be empty.
      way_out: see `read_winner`.
    """
    winner = sheet[column]
    exact = winner.equals(first) + 2 * winner.equals(second)
    match = exact + 4 * _like(winner, first) + 8 * _like(winner, second)
    is_name = (exact > 0) & winner.map(lambda v: v.casefold() not in CODES)
    is_side = (match == 0) & winner.map(lambda v: v.casefold() in PAIRS[0])
    by_name = bool(is_name.any() and not is_side.any())
    options: Mapping[str, Any] = {"by_name": by_name, "way_out": way_out}

    def read(r: int) -> float | str:
        """The share, or what is wrong with it."""
        value, names = winner.at(r), (first.at(r), second.at(r))
        if unanswered and not value:
            return np.nan
        try:
            won = read_winner(value, *names, **options)
            return np.nan if won is None else won
        except ValueError as error:
            return f"{column} is {error}"
        except KeyError:
            given = repr(value) if value else "empty"
            allowed = f"allowed: {', '.join(WORDS)}, or the name of one of the two items"
            more = hint(value, names) or ("" if way_out else "; --map says what other codes mean")
            return f"{column} is {given}, {allowed}{more}"

    # What a row says depends on its winner and on which items the winner matches.
    _, rows, kind = np.unique(winner.codes * 16 + match, return_index=True, return_inverse=True)
    outcomes = [read(r) for r in rows.tolist()]
    wrong = np.array([isinstance(outcome, str) for outcome in outcomes])
    problems.add_rows(sheet, wrong[kind], lambda r: str(read(r)))
    return np.where(wrong, np.nan, np.array(outcomes, object)).astype(float)[kind]


def _like(winner: Text, item: Text) -> np.ndarray:
    """[rows] where the winner is the item, in any case of letters."""
    number: dict[str, int] = {}
    codes = [
        np.array([number.setdefault(v.casefold(), len(number)) for v in text.values])[text.codes]
        for text in (winner, item)
    ]
    return codes[0] == codes[1]
