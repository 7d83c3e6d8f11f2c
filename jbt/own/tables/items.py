"""Read the table of items, and find the items that rows of other tables name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from jbt.own.choices import Columns
from jbt.own.tables.names import hint, listing
from jbt.own.tables.outcomes import ALL
from jbt.own.tables.sheets import Sheet, Source, TableError, number, read_sheet, texts

LARGEST = 1e100
"""Largest covariate or quality: beyond it sums of squares overflow."""

NAMES = ("pool", "item", "content")


def items_shown(verdicts: Sheet, content: str | None) -> Sheet:
    """Collect every item shown, where the verdicts come without an items table; see
    `read_items`."""
    if content not in (None, "content", "item"):
        raise TableError(f"the column {content!r} of contents needs an items table (--items)")
    sides = [verdicts.rows[["pool", side]] for side in ("first", "second")]
    rows = pd.concat([side.set_axis(["pool", "item"], axis=1) for side in sides])
    rows = rows.drop_duplicates().assign(quality=np.nan)
    if content == "item":
        rows["content"] = rows["item"]
    return Sheet(verdicts.source, rows, verdicts.problems)


def read_items(
    source: Source,
    verdicts: Sheet,
    columns: Columns,
    covariates: Sequence[str],
    content: str | None,
    merge_pools: bool,
) -> Sheet:
    """Read the items table; what is wrong with it goes to the problems of the verdicts.

    Returns:
      A row for each item: pool, item, content (names; no content where each item is its own),
      quality (NaN unless given), then each covariate.
    """
    for name in covariates:
        if name in (*NAMES, columns.pool, content):
            raise TableError(f"{name!r} identifies the item of a row, and cannot be a covariate")
    needed = ["item", *covariates, *({content} - {None, "content"})]
    optional = ["quality", *["content"] * (content == "content")]
    sheet = read_with_pools(source, verdicts, columns, needed, optional)
    rows = sheet.rows
    sheet.refuse_empty("item", content)
    items = rows[["pool", "item"]].copy()
    if content in rows:
        items["content"] = rows[content]
    items["quality"] = np.nan
    for name in dict.fromkeys(("quality", *covariates)):
        if name in rows:
            empty = name not in covariates
            allowed = f"allowed: numbers within +-{LARGEST:g}{', or nothing' * empty}"
            items[name] = sheet.values(name, number(-LARGEST, LARGEST, empty=empty), allowed)
    again = items.duplicated(["pool", "item"]) & (items["item"] != "")
    sheet.refuse(again, lambda row: f"item {row['item']!r} of pool {row['pool']!r} again")
    sizes = items["pool"].value_counts(sort=False)
    for single in sizes.index[sizes < 2] if not merge_pools else ():
        sheet.problems.add(source, f"pool {single!r} has 1 item, needs 2 or more")
    return Sheet(source, items, sheet.problems, cells=sheet.cells)


def find_items(items: Sheet, sheet: Sheet, sides: Sequence[str]) -> list[np.ndarray]:
    """Find the items that another table names: their rows in the table of items, [rows] for each of
    its columns of items. Adds a problem for each that is missing."""
    known = pd.MultiIndex.from_frame(items.rows[["pool", "item"]])
    pools, names = (items.rows[name].unique() for name in ("pool", "item"))
    pool = sheet.rows["pool"]
    there = pool.isin(pools)
    sheet.refuse(
        ~there & (pool != ""),
        lambda row: f"pool {row['pool']!r} is not in {items.source}{hint(row['pool'], pools)}",
    )
    found = []
    for side in sides:
        item = sheet.rows[side]
        at = known.get_indexer(pd.MultiIndex.from_arrays([pool, item]))
        sheet.refuse(
            (at < 0) & there & (item != ""),
            lambda row, side=side: (
                f"item {row[side]!r} of pool {row['pool']!r} is not in "
                f"{items.source}{hint(row[side], names)}"
            ),
        )
        found.append(at)
    return found


def values_of(
    column: str, verdicts: Sheet, items: Sheet, first: np.ndarray, second: np.ndarray
) -> pd.Series:
    """[verdicts] the text of a column of the verdicts, or of the items. Adds a problem for each
    verdict whose items differ in it.

    Args:
      first, second: [verdicts] rows of the items.

    Raises:
      TableError: neither table has the column.
    """
    if column in verdicts.cells:
        values = texts(verdicts.cells[column], str.strip)
    elif column in items.cells:
        of_items = texts(items.cells[column], str.strip)
        values, other = of_items[first], of_items[second]
        differ = np.asarray(values) != np.asarray(other)
        verdicts.refuse(differ, lambda _: f"its items differ in {column!r} (--by)")
    else:
        known = dict.fromkeys([*verdicts.cells, *items.cells])
        raise TableError(
            f"--by: no column {column!r}; columns are {listing(list(map(str, known)))}"
        )
    return pd.Series(values, verdicts.rows.index).cat.rename_categories({"": "(empty)"})


def read_with_pools(
    source: Source,
    verdicts: Sheet,
    columns: Columns,
    needed: Sequence[str],
    optional: Sequence[str],
) -> Sheet:
    """Read a table that goes with the verdicts, and its pools: their column has the same name as
    among the verdicts, or is called `pool`."""
    names = list(dict.fromkeys([columns.pool, "pool"]))
    sheet = read_sheet(source, needed, [*optional, *names], verdicts.problems)
    present = [name for name in names if name in sheet.rows]
    if verdicts.has_pools != bool(present):
        tables = verdicts.source, source
        with_pools, without = tables if verdicts.has_pools else tables[::-1]
        sheet.problems.end(without, f"no column {names[0]!r}, which {with_pools} has")
    sheet.refuse_empty(*present[:1])
    sheet.rows["pool"] = sheet.rows[present[0]] if present else ALL
    return sheet
