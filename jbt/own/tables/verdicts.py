"""The table of verdicts: for each row, the share won by the item shown first."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd

from jbt.own.choices import Columns
from jbt.own.tables.names import hint
from jbt.own.tables.outcomes import ALL, CODES, ORDERS, PAIRS, WORDS, Outcomes, read_winner
from jbt.own.tables.sheets import Problems, Sheet, Source, each, number, read_sheet

MOST = 1e9
"""Largest count: beyond it float64 loses what a verdict adds."""

MAP_HINT = "; --map says what other codes mean"


USUAL = Columns()


def read_verdicts(
    source: Source, columns: Columns, problems: Problems, outcomes: Outcomes | None = None
) -> Sheet:
    """Read the verdict table; what is wrong with it goes to `problems`.

    Args:
      outcomes: what the winner's codes mean; default `WORDS` and the items' names.

    Returns:
      A row for each verdict: pool; judge, if the table has any; first and second (names); p_first
      (share that the first won, NaN for an error); count (verdicts that the row stands for, which
      may be a fraction); shown (bool: the judge is known to have seen first before second).
    """
    names = {role: name for role, name in asdict(columns).items() if name is not None}
    renamed = [name for role, name in names.items() if name != role]
    usual = [*names.values(), *["p_first"] * (columns.winner == "winner"), "count", "order"]
    sheet = read_sheet(source, [columns.first, columns.second, *renamed], usual, problems)
    rows, winner, sides = sheet.rows, names.pop("winner"), (columns.first, columns.second)
    sheet.refuse_empty(columns.pool, columns.judge, *sides)
    first, second = (rows[name].to_numpy(object) for name in sides)
    sheet.refuse(
        (first == second) & (first != ""),
        lambda row: f"{' and '.join(sides)} are the same item, {row[columns.first]!r}",
    )
    share, count, shown = np.nan, 1, True
    if "p_first" in rows and winner in rows and winner != "p_first":
        problems.add(source, "has both winner and p_first, needs exactly one of them")
    elif "p_first" in rows:
        allowed = "allowed: numbers from 0 to 1, or nothing for an error"
        share = sheet.values("p_first", number(0.0, 1.0, empty=True), allowed)
    elif winner not in rows:
        problems.add(source, "no column 'winner' or 'p_first', needs one of them")
    elif outcomes is not None:
        share = sheet.values(winner, outcomes.share, f"not covered by {outcomes.option}")
    else:
        share = named_shares(sheet, winner, *sides)
    if "count" in rows:
        allowed = f"allowed: numbers from 0 to {MOST:.0f}"
        count = np.nan_to_num(sheet.values("count", number(0.0, MOST), allowed))
        count = count.astype(np.int64) if (count == np.rint(count)).all() else count
    if "order" in rows:
        allowed = f"allowed: {', '.join(ORDERS)}"
        shown = sheet.values("order", lambda v: ORDERS[v.casefold()], allowed) == 1
    verdicts = pd.DataFrame({role: rows[name] for role, name in names.items() if name in rows})
    verdicts = verdicts.assign(p_first=share, count=count, shown=shown)
    if "pool" not in verdicts:
        verdicts["pool"] = ALL
    return Sheet(source, verdicts, problems, columns.pool in rows, sheet.cells)


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
    named = np.any(is_name, 0) & ~each(sheet.rows[column], lambda v: v.casefold() in CODES)
    is_side = each(sheet.rows[column], lambda v: v.casefold() in PAIRS[0]) & ~np.any(is_like, 0)
    by_name = bool(named.any() and not is_side.any())

    def read(winner: str, first: str, second: str) -> float | str | None:
        """The share, or what is wrong with it."""
        if not winner and way_out:
            return None
        try:
            return read_winner(winner, first, second, by_name=by_name, way_out=way_out)
        except ValueError as error:
            return f"{column} is {error}"
        except KeyError:
            given = repr(winner) if winner else "empty"
            allowed = f"allowed: {', '.join(WORDS)}, or the name of one of the two items"
            more = hint(winner, (first, second)) or MAP_HINT * (way_out is None)
            return f"{column} is {given}, {allowed}{more}"

    # What a row says depends on its winner and on which items the winner matches.
    kind = pd.factorize(sheet.rows[column])[0]
    for match in (*is_name, *is_like):
        kind = 2 * kind + match
    _, first_of, kind = np.unique(kind, return_index=True, return_inverse=True)
    said = [read(*(name[row] for name in (winner, *items))) for row in first_of]
    wrong = np.array([isinstance(share, str) for share in said])
    sheet.refuse(wrong[kind], lambda row: str(read(*row[names])))
    return np.where(wrong, np.nan, np.array(said, object)).astype(float)[kind]
