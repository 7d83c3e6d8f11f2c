"""From a sheet (see `sheets`) to checked verdicts: for each row, the share won by the item shown
first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from jbt.own.tables.names import hint
from jbt.own.tables.outcomes import CODES, PAIRS, WORDS, Outcomes, read_winner
from jbt.own.tables.sheets import Problems, Sheet, Source, each, numbers, read_sheet

ALL = "all"
"""Name of the pool where there is only one."""

MOST = 10**9
"""Largest count: beyond it float64 loses what a verdict adds."""

ORDERS = ("shown", "unknown")


def check_distinct(names: Sequence[str | None]) -> None:
    """Raise `ValueError` where one column is named for two things."""
    for name in names:
        if name is not None and names.count(name) > 1:
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
        check_distinct(list(asdict(self).values()))


USUAL = Columns()


def read_verdicts(
    source: Source, columns: Columns, problems: Problems, outcomes: Outcomes | None = None
) -> Sheet:
    """Read the verdict table; what is wrong with it goes to `problems`.

    Args:
      outcomes: what the winner's codes mean; default `WORDS` and the items' names.

    Returns:
      A row for each verdict: pool; judge, if the table has any; first and second (names); p_first
      (share that the first won, NaN for an error); count (verdicts that the row stands for); shown
      (bool: the judge is known to have seen first before second).
    """
    names = asdict(columns)
    renamed = [name for role, name in names.items() if name not in (None, role)]
    usual = [role for role in ("winner", "pool", "judge") if names[role] == role]
    usual += ["p_first"] * (columns.winner == "winner")
    sheet = read_sheet(
        source, [columns.first, columns.second, *renamed], [*usual, "count", "order"], problems
    )
    rows, winner = sheet.rows, names.pop("winner")
    sheet.refuse_empty(
        [n for n in (columns.pool, columns.judge, columns.first, columns.second) if n]
    )
    first, second = (rows[name].to_numpy(object) for name in (columns.first, columns.second))
    sheet.refuse(
        (first == second) & (first != ""),
        lambda row: (
            f"{columns.first} and {columns.second} are the same item, {row[columns.first]!r}"
        ),
    )
    verdicts = pd.DataFrame({role: rows[name] for role, name in names.items() if name in rows})
    if "pool" not in verdicts:
        verdicts["pool"] = ALL
    verdicts["p_first"] = np.nan
    if "p_first" in rows and winner in rows and winner != "p_first":
        problems.add(source, "has both winner and p_first, needs exactly one of them")
    elif "p_first" in rows:
        share = verdicts["p_first"] = numbers(rows["p_first"])
        bad = ~((share >= 0) & (share <= 1)) & (rows["p_first"] != "")
        allowed = "allowed: numbers from 0 to 1, or nothing for an error"
        sheet.refuse_values("p_first", bad, allowed)
    elif winner not in rows:
        problems.add(source, "no column 'winner' or 'p_first', needs one of them")
    elif outcomes is not None:

        def coded(code: str) -> float | None:
            try:
                return outcomes.share(code)
            except KeyError:
                return np.inf

        share = each(rows[winner], coded, float)
        sheet.refuse_values(winner, np.isinf(share), f"not covered by {outcomes.option}")
        verdicts["p_first"] = share
    else:
        verdicts["p_first"] = named_shares(sheet, winner, columns.first, columns.second)
    verdicts["count"], verdicts["shown"] = 1, True
    if "count" in rows:
        number = numbers(rows["count"])
        bad = ~((number >= 0) & (number <= MOST) & (number == np.floor(number)))
        sheet.refuse_values("count", bad, f"allowed: integers from 0 to {MOST}")
        verdicts["count"] = np.where(bad, 0, number).astype(np.int64)
    if "order" in rows:
        order = each(rows["order"], str.casefold, object)
        sheet.refuse_values("order", ~np.isin(order, ORDERS), f"allowed: {', '.join(ORDERS)}")
        verdicts["shown"] = order == "shown"
    return Sheet(source, verdicts, problems, columns.pool in rows)


def named_shares(
    sheet: Sheet, column: str, first: str, second: str, *, way_out: str | None = None
) -> np.ndarray:
    """[rows] share that the first won, from winners that are one of `WORDS` or else the name of an
    item; NaN for an error.

    Args:
      column, first, second: of the winner and of the two items.
      way_out: of labels, in which a field may be empty (NaN); see `read_winner`.
    """
    names = [column, first, second]
    winner, *items = (sheet.rows[name].to_numpy(object) for name in names)
    code, *codes = (each(sheet.rows[name], str.casefold, object) for name in names)
    is_name, is_like = ([item == winner for item in items], [item == code for item in codes])
    named = (is_name[0] | is_name[1]) & ~pd.Series(code).isin(CODES)
    is_side = ~(is_like[0] | is_like[1]) & pd.Series(code).isin(PAIRS[0])
    by_name = bool(named.any() and not is_side.any())

    def read(winner: str, first: str, second: str) -> float | str:
        """The share, or what is wrong with it."""
        if not winner and way_out:
            return np.nan
        try:
            won = read_winner(winner, first, second, by_name=by_name, way_out=way_out)
            return np.nan if won is None else won
        except ValueError as error:
            return f"{column} is {error}"
        except KeyError:
            given = repr(winner) if winner else "empty"
            allowed = f"allowed: {', '.join(WORDS)}, or the name of one of the two items"
            names = (first, second)
            more = hint(winner, names) or ("" if way_out else "; --map says what other codes mean")
            return f"{column} is {given}, {allowed}{more}"

    # What a row says depends on its winner and on which items the winner matches.
    match = sum(2**n * at for n, at in enumerate([*is_name, *is_like]))
    kind = 16 * pd.factorize(sheet.rows[column])[0] + match
    _, first_of, kind = np.unique(kind, return_index=True, return_inverse=True)
    outcomes = [read(winner[row], *(item[row] for item in items)) for row in first_of]
    wrong = np.array([isinstance(outcome, str) for outcome in outcomes])
    sheet.refuse(wrong[kind], lambda row: str(read(*row[names])))
    return np.where(wrong, np.nan, np.array(outcomes, object)).astype(float)[kind]
