"""Read the table of items, and find the items that rows of other tables name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.tables.names import hint, joined
from jbt.own.tables.sheets import Problems, Sheet, Source, TableError, Text, read_sheet
from jbt.own.tables.verdicts import ALL, Columns, VerdictTable

LARGEST = 1e100
"""Largest covariate or quality: beyond it sums of squares overflow."""

NAMES = ("pool", "item", "content")


@dataclass(frozen=True, eq=False)
class Items:
    """The items table, one entry a row; without one, the items that the verdicts name."""

    path: Source
    """The items table, or else the verdicts; `lines` refers to it."""
    lines: np.ndarray
    pool: Text
    item: Text
    content: Text | None
    """None where each item is its own content."""
    numbers: dict[str, np.ndarray]
    """[rows] of quality and of each requested covariate."""

    @classmethod
    def of(cls, verdicts: VerdictTable, content: str | None) -> Items:
        """Collect every item shown, where the verdicts come without an items table."""
        if content not in (None, "content", "item"):
            raise TableError(f"the column {content!r} of contents needs an items table (--items)")
        names = list(dict.fromkeys([*verdicts.first.values, *verdicts.second.values]))
        sides = [side.within(names) for side in (verdicts.first, verdicts.second)]
        keys = np.concatenate([verdicts.pool.codes * len(names) + side for side in sides])
        at = np.sort(np.unique(keys, return_index=True)[1])
        pool, name = np.divmod(keys[at], len(names))
        item = Text.of(name, names)
        return cls(
            path=verdicts.sheet.source,
            lines=verdicts.sheet.lines[at % len(verdicts.sheet)],
            pool=Text.of(pool, verdicts.pool.values),
            item=item,
            content=item if content == "item" else None,
            numbers={"quality": np.full(len(at), np.nan)},
        )

    def find(
        self,
        sheet: Sheet,
        pool: Text,
        sides: Sequence[str],
        problems: Problems,
    ) -> list[np.ndarray]:
        """Find the items that another table names: their rows in this table, [rows] for each of its
        columns of items. Adds a problem for each that is missing here."""
        keys = pd.Index(self.pool.codes * len(self.item.values) + self.item.codes)
        p = pool.within(self.pool.values)

        def no_pool(r: int) -> str:
            lookalike = hint(pool.at(r), self.pool.values)
            return f"pool {pool.at(r)!r} is not in {self.path}{lookalike}"

        problems.add_rows(sheet, (p < 0) & pool.map(bool), no_pool)
        rows = []
        for side in sides:
            item = sheet[side]
            i = item.within(self.item.values)
            key = np.where((p < 0) | (i < 0), -1, p * len(self.item.values) + i)
            row = np.asarray(keys.get_indexer(pd.Index(key)))

            def no_item(r: int, item: Text = item) -> str:
                where = f"{self.path}{hint(item.at(r), self.item.values)}"
                return f"item {item.at(r)!r} of pool {pool.at(r)!r} is not in {where}"

            problems.add_rows(sheet, (row < 0) & (p >= 0) & item.map(bool), no_item)
            rows.append(row)
        return rows

    def frame(self, merge_pools: bool) -> tuple[list[str], pd.DataFrame, list[str]]:
        """Return `Tables.pools`, `Tables.items` and `Tables.contents`."""
        names = np.asarray(self.item.values, object)[self.item.codes]
        pool, pools = self.pool.codes, self.pool.values
        content = self.content or self.item
        owner, contents = content.codes, content.values
        if merge_pools:
            names = joined(np.asarray(pools, object)[pool], names)
            pool, pools = np.zeros_like(pool), [ALL]
            if self.content is None:
                owner, contents = np.arange(len(names)), names.tolist()
        columns = {"pool": pool, "item": names, "content": owner, **self.numbers}
        return pools, pd.DataFrame(columns), contents


def read_items(
    source: Source,
    verdicts: VerdictTable,
    columns: Columns,
    covariates: Sequence[str],
    content: str | None,
    merge_pools: bool,
    problems: Problems,
) -> Items:
    """Read the items table; what is wrong with it goes to `problems`."""
    for name in covariates:
        if name in (*NAMES, columns.pool, content):
            raise TableError(f"{name!r} identifies the item of a row, and cannot be a covariate")
    usual = content in (None, "content")
    needed = ["item", *covariates, *([] if usual or content is None else [content])]
    optional = ["quality", *(["content"] if content == "content" else [])]
    sheet, pool = read_with_pools(source, verdicts, columns, needed, optional, problems)
    owner = None if content is None else sheet.columns.get(content)
    problems.add_empty(sheet, ["item"] if owner is None or content is None else ["item", content])

    numbers = {"quality": np.full(len(sheet), np.nan)}
    for name in dict.fromkeys(("quality", *covariates)):
        if name in sheet:
            numbers[name] = _numbers(sheet, name, name in covariates, problems)
    item = sheet["item"]
    again = pd.DataFrame({"pool": pool.codes, "item": item.codes}).duplicated().to_numpy()
    problems.add_rows(
        sheet,
        again & item.map(bool),
        lambda r: f"item {item.at(r)!r} of pool {pool.at(r)!r} again",
    )
    for single in np.flatnonzero(np.bincount(pool.codes) < 2) if not merge_pools else ():
        problems.add(source, f"pool {pool.values[single]!r} has 1 item, needs 2 or more")
    return Items(source, sheet.lines, pool, item, owner, numbers)


def _numbers(sheet: Sheet, name: str, needed: bool, problems: Problems) -> np.ndarray:
    text = sheet[name]
    number = text.numbers()
    bad = ~(np.abs(number) <= LARGEST)
    allowed = f"allowed: numbers within +-{LARGEST:g}"
    if not needed:
        bad, allowed = bad & text.map(bool), f"{allowed}, or nothing"
    problems.add_rows(sheet, bad, lambda r: f"{name} is {text.at(r)!r}, {allowed}")
    return number


def read_with_pools(
    source: Source,
    verdicts: VerdictTable,
    columns: Columns,
    needed: Sequence[str],
    optional: Sequence[str],
    problems: Problems,
) -> tuple[Sheet, Text]:
    """Read a table that goes with the verdicts, and its pools: their column has the same name as
    among the verdicts, or is called `pool`."""
    names = list(dict.fromkeys([columns.pool, Columns.pool]))
    sheet = read_sheet(source, needed, [*optional, *names], problems)
    present = [name for name in names if name in sheet]
    if verdicts.has_pools != bool(present):
        tables = verdicts.sheet.source, source
        with_pools, without = tables if verdicts.has_pools else tables[::-1]
        problems.end(without, f"no column {names[0]!r}, which {with_pools} has")
    problems.add_empty(sheet, present[:1])
    return sheet, sheet[present[0]] if present else Text.constant(ALL, len(sheet))
