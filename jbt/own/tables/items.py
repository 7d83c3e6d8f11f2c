"""The table of items, and how rows of other tables find their items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from jbt.own.tables.names import hint, joined
from jbt.own.tables.reading import Problems, Sheet, TableError, Text, read_sheet
from jbt.own.tables.verdicts import ALL, Columns, VerdictTable

LARGEST = 1e100
"""Largest covariate or quality: beyond it sums of squares overflow."""

NAMES = ("pool", "item", "content")


@dataclass(frozen=True, eq=False)
class Items:
    """The items table, or what takes its place, row by row."""

    path: Path
    """The verdicts, where there is no items table; likewise the lines."""
    lines: np.ndarray
    pool: Text
    item: Text
    content: Text | None
    """None where each item is its own."""
    numbers: dict[str, np.ndarray]
    """Quality and each covariate asked for, [rows]."""

    @classmethod
    def of(cls, told: VerdictTable, content: str | None) -> Items:
        """Every item that was shown, of verdicts that come without an items table."""
        if content not in (None, "content", "item"):
            raise TableError(f"the column {content!r} of contents needs an items table (--items)")
        names = list(dict.fromkeys([*told.first.values, *told.second.values]))
        sides = [side.within(names) for side in (told.first, told.second)]
        keys = np.concatenate([told.pool.codes * len(names) + side for side in sides])
        at = np.sort(np.unique(keys, return_index=True)[1])
        pool, name = np.divmod(keys[at], len(names))
        item = Text.of(name, names)
        return cls(
            path=told.sheet.path,
            lines=told.sheet.lines[at % len(told.sheet)],
            pool=Text.of(pool, told.pool.values),
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
        """Rows here of the items that another table names, [rows] for each of its columns of items;
        a problem for those that are not here."""
        known = pd.Index(self.pool.codes * len(self.item.values) + self.item.codes)
        p = pool.within(self.pool.values)

        def no_pool(r: int) -> str:
            found = hint(pool.at(r), self.pool.values)
            return f"pool {pool.at(r)!r} is not in {self.path}{found}"

        problems.add_rows(sheet, (p < 0) & pool.each(bool), no_pool)
        found = []
        for side in sides:
            item = sheet[side]
            i = item.within(self.item.values)
            key = np.where((p < 0) | (i < 0), -1, p * len(self.item.values) + i)
            row = np.asarray(known.get_indexer(pd.Index(key)))

            def what(r: int, item: Text = item) -> str:
                found = hint(item.at(r), self.item.values)
                return f"item {item.at(r)!r} of pool {pool.at(r)!r} is not in {self.path}{found}"

            problems.add_rows(sheet, (row < 0) & (p >= 0) & item.each(bool), what)
            found.append(row)
        return found

    def frame(self, merge_pools: bool) -> tuple[list[str], pd.DataFrame, list[str]]:
        """Pools, items and contents as `Tables` has them."""
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
    path: Path,
    told: VerdictTable,
    columns: Columns,
    covariates: Sequence[str],
    content: str | None,
    merge_pools: bool,
    problems: Problems,
) -> Items:
    """The items table; what is wrong with it goes to `problems`."""
    wanted = {"pool": columns.pool, "content": content}
    for name in covariates:
        if name in (*NAMES, *wanted.values()):
            raise TableError(f"{name!r} says which item a row is, and cannot be a covariate")
    usual = content in (None, "content")
    needed = ["item", *covariates, *([] if usual or content is None else [content])]
    optional = ["quality", *(["content"] if content == "content" else [])]
    sheet, pool = read_with_pools(path, told, columns, needed, optional, problems)
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
        again & item.each(bool),
        lambda r: f"item {item.at(r)!r} of pool {pool.at(r)!r} again",
    )
    for single in np.flatnonzero(np.bincount(pool.codes) < 2) if not merge_pools else ():
        problems.add(path, f"pool {pool.values[single]!r} has 1 item, needs 2 or more")
    return Items(path, sheet.lines, pool, item, owner, numbers)


def _numbers(sheet: Sheet, name: str, needed: bool, problems: Problems) -> np.ndarray:
    text = sheet[name]
    number = text.numbers()
    bad = ~(np.abs(number) <= LARGEST)
    allowed = f"allowed: numbers within +-{LARGEST:g}"
    if not needed:
        bad, allowed = bad & text.each(bool), f"{allowed}, or nothing"
    problems.add_rows(sheet, bad, lambda r: f"{name} is {text.at(r)!r}, {allowed}")
    return number


def read_with_pools(
    path: Path,
    told: VerdictTable,
    columns: Columns,
    needed: Sequence[str],
    optional: Sequence[str],
    problems: Problems,
) -> tuple[Sheet, Text]:
    """A table that goes with the verdicts, and its pools: their column is called as there, or
    `pool`."""
    names = list(dict.fromkeys([columns.pool, Columns.pool]))
    sheet = read_sheet(path, needed, [*optional, *names], problems)
    there = [name for name in names if name in sheet]
    if told.has_pools != bool(there):
        with_pools, without = (told.sheet.path, path) if told.has_pools else (path, told.sheet.path)
        problems.end(without, f"no column {names[0]!r}, which {with_pools} has")
    problems.add_empty(sheet, there[:1])
    return sheet, sheet[there[0]] if there else Text.constant(ALL, len(sheet))
