"""A user's tables: read, checked and matched with each other.

    verdicts   pool, first, second, and winner = first | second | tie | error or the name of one of
               the two, or else p_first, the share that the first won (0 to 1, empty for an error);
               optional judge, count, order = shown | unknown
    items      pool, item, optional content, optional quality, any numeric covariate columns
    anchors    pool, better, worse: pairs of items whose order is known

A table without the column pool has one pool, `all`. Wrong tables raise `TableError`, whose message
has one line a problem, with file and line, what was found and what is allowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from jbt.own.reading import Problems, Sheet, TableError, Text, read_sheet

MOST = 10**9
"""Largest count, and LARGEST the largest covariate: beyond them float64 loses what they say."""

LARGEST = 1e100

ALL = "all"
"""Name of the pool where there is only one."""

WORDS = {"first": 1.0, "second": 0.0, "tie": 0.5, "error": np.nan}
"""What a winner may always be, and the share the first then won. In any case of letters."""

ORDERS = ("shown", "unknown")

Ties = Literal["half", "drop"]

Transform = Literal["none", "log", "log1p"]


@dataclass(frozen=True)
class Columns:
    """How the columns of the verdict table are called; `pool` in the other tables too."""

    first: str = "first"
    second: str = "second"
    winner: str = "winner"
    pool: str = "pool"
    judge: str = "judge"


@dataclass(frozen=True, eq=False)
class Tables:
    """A user's tables: read, checked and matched with each other. Rows of `items` are known by
    their number, from 0."""

    verdicts: pd.DataFrame
    """A row for each valid verdict (errors are only counted): pool and judge (into `pools` and
    `judges`), first and second (rows of `items`), p_first (share the first won, 0.5 for a tie),
    count, shown (bool: the judge saw first before second; else the order is unknown), line (of the
    file) and source (its pool in the file, which differs from pool where pools are merged)."""
    items: pd.DataFrame
    """A row for each item: pool, item (its name), content (into `contents`), quality (NaN unless
    given), then each covariate asked for, as it stands."""
    anchors: pd.DataFrame
    """Pairs whose order is known: pool, better and worse (rows of `items`)."""
    pools: list[str]
    """In the order of the items table."""
    judges: list[str | None]
    """In the order of the verdicts; [None] where the table names none."""
    contents: list[str]
    """Two items of one pool with one content share a quality."""
    counts: pd.DataFrame
    """A row for each pool and judge, in this order: pool, judge, n_verdicts, n_errors, n_ties,
    repeats counted. Ties are verdicts, unless dropped."""
    summary: list[str]
    """What was kept, dropped and tied, in sentences."""
    item_lines: np.ndarray
    """[rows of items] line of the file, of the verdicts where there is no items table."""
    items_path: Path | None

    def without_ties(self) -> Tables:
        """The same tables with ties left out instead of counted as half a win each."""
        kept = self.verdicts[self.verdicts["p_first"] != 0.5].reset_index(drop=True)
        counts = self.counts.assign(n_verdicts=_totals(kept, len(self.pools), len(self.judges)))
        return dataclasses.replace(self, verdicts=kept, counts=counts)


def read(
    verdicts: Path | str,
    items: Path | str | None = None,
    anchors: Path | str | None = None,
    *,
    covariates: Sequence[str] = (),
    columns: Columns = Columns(),
    judge: str | None = None,
    ties: Ties = "half",
    content: str | None = "content",
    merge_pools: bool = False,
) -> Tables:
    """Read a user's tables.

    Args:
      verdicts, items, anchors: files; items may be left out when no covariate is asked for.
      covariates: columns of the items table.
      columns: names of the verdict table's columns.
      judge: one judge's verdicts only.
      ties: half a win for each side, or dropped.
      content: column of the items table that says which items share a quality; None, or no such
        column if it is the default: none do.
      merge_pools: make all pools one, called `all`; contents of one name are then one content.

    Raises:
      TableError: see the module; also for an unknown judge or item.
    """
    if covariates and items is None:
        raise TableError(f"covariates {', '.join(covariates)} need an items table (--items)")
    twice = [c for i, c in enumerate(covariates) if c in covariates[:i]]
    if twice:
        raise TableError(f"covariate {twice[0]!r} is asked for twice")
    problems = Problems()
    told = _read_verdicts(Path(verdicts), columns, problems)
    if items is None:
        problems.check()
        known = _Items.shown(told)
    else:
        known = _read_items(Path(items), covariates, columns.pool, content, problems)
        problems.check()
    first, second = known.find(told.sheet, told.pool, ("first", "second"), problems)
    pairs = _read_anchors(anchors, columns.pool, known, problems)
    problems.check()

    frame = pd.DataFrame(
        {
            "pool": known.pool.codes[first],
            "judge": 0 if told.judge is None else told.judge.codes,
            "first": first,
            "second": second,
            "p_first": told.p_first,
            "count": told.count,
            "shown": told.shown,
            "line": told.sheet.lines,
            "source": known.pool.codes[first],
        }
    )
    judges: list[str | None] = [None] if told.judge is None else list(told.judge.values)
    if judge is not None:
        if judge not in judges:
            there = "the table has no judge column" if told.judge is None else told.judge.values
            there = there if isinstance(there, str) else ", ".join(there)
            raise TableError(f"{verdicts}: no judge {judge!r}: {there}")
        frame = frame[frame["judge"] == judges.index(judge)].assign(judge=0)
        judges = [judge]
    pools, item_frame, contents = known.frame(merge_pools)
    if merge_pools:
        frame, pairs = frame.assign(pool=0), pairs.assign(pool=0)
    valid = frame[frame["p_first"].notna() & (frame["count"] > 0)].reset_index(drop=True)
    shape = len(pools), len(judges)
    pool, of = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    counts = pd.DataFrame(
        {
            "pool": pool,
            "judge": of,
            "n_verdicts": _totals(valid, *shape),
            "n_errors": _totals(frame[frame["p_first"].isna()], *shape),
            "n_ties": _totals(valid[valid["p_first"] == 0.5], *shape),
        }
    )
    tables = Tables(
        verdicts=valid,
        items=item_frame,
        anchors=pairs,
        pools=pools,
        judges=judges,
        contents=contents,
        counts=counts,
        summary=[],
        item_lines=known.lines,
        items_path=None if items is None else Path(items),
    )
    summary = _summary(Path(verdicts), frame, tables, ties)
    tables = dataclasses.replace(tables, summary=summary)
    return tables.without_ties() if ties == "drop" else tables


def covariate_values(
    tables: Tables, names: Sequence[str], transform: Transform, standardise: bool
) -> tuple[np.ndarray, list[str], str]:
    """Covariates as the model is to have them.

    Args:
      names: columns of `tables.items`.
      transform: applied to every covariate: none, log or log1p.
      standardise: subtract the mean and divide by the standard deviation (divisor n) over all
        items, after the transformation; else use them as they are.

    Returns:
      The values [rows of items, D]; what each is called, with its transformation; what one unit
      of a covariate is, in words.

    Raises:
      TableError: a covariate that is constant over the table, the log of a number without one.
    """
    path, problems = tables.items_path, Problems()
    x = tables.items[list(names)].to_numpy(float)
    floor = {"none": -np.inf, "log": 0.0, "log1p": -1.0}[transform]
    for row, column in np.argwhere(x <= floor):
        assert path is not None
        what = f"{transform} of {names[column]} = {x[row, column]:g} is undefined"
        problems.add(path, f"{what}, needs values above {floor:g}", int(tables.item_lines[row]))
    problems.check()
    x = {"none": lambda v: v, "log": np.log, "log1p": np.log1p}[transform](x)
    spread = x.std(axis=0)
    # A constant's standard deviation is rounding, not exactly zero.
    constant = spread <= 1e-12 * np.maximum(np.abs(x).max(axis=0, initial=0), 1e-300)
    for column in np.flatnonzero(constant):
        assert path is not None
        problems.add(path, f"{names[column]} is the same for all items")
    problems.check()
    labels = [c if transform == "none" else f"{transform}({c})" for c in names]
    units = "standard deviation of" if standardise else "unit of"
    return (x - x.mean(axis=0)) / spread if standardise else x, labels, units


@dataclass(frozen=True, eq=False)
class _Verdicts:
    """The verdict table, each row on its own."""

    sheet: Sheet
    """Items in its columns first and second."""
    pool: Text
    judge: Text | None
    p_first: np.ndarray
    """[rows] NaN for an error."""
    count: np.ndarray
    shown: np.ndarray


def _read_verdicts(path: Path, columns: Columns, problems: Problems) -> _Verdicts:
    sheet = read_sheet(path, (columns.first, columns.second))
    sides = {"first": sheet[columns.first], "second": sheet[columns.second]}
    sheet = dataclasses.replace(sheet, columns={**sheet.columns, **sides})
    _check_names(sheet, (columns.pool, columns.judge, "first", "second"), problems)
    same = _same(sides["first"], sides["second"])
    problems.add_rows(
        sheet, same, lambda r: f"first and second are the same item, {sides['first'].at(r)!r}"
    )
    count = np.ones(len(sheet), np.int64)
    if "count" in sheet:
        number = _numbers(sheet["count"])
        bad = ~((number >= 0) & (number <= MOST) & (number == np.floor(number)))
        allowed = f"allowed: integers from 0 to {MOST}"
        problems.add_rows(sheet, bad, lambda r: f"count is {sheet['count'].at(r)!r}, {allowed}")
        count = np.where(bad, 0, number).astype(np.int64)
    shown = np.ones(len(sheet), bool)
    if "order" in sheet:
        order = sheet["order"]
        bad = ~order.each(lambda v: v.lower() in ORDERS)
        allowed = f"allowed: {', '.join(ORDERS)}"
        problems.add_rows(sheet, bad, lambda r: f"order is {order.at(r)!r}, {allowed}")
        shown = order.each(lambda v: v.lower() == "shown")
    judge = sheet[columns.judge] if columns.judge in sheet else None
    share = _shares(sheet, columns, problems)
    return _Verdicts(sheet, _pool(sheet, columns.pool), judge, share, count, shown)


def _shares(sheet: Sheet, columns: Columns, problems: Problems) -> np.ndarray:
    """[rows] the share of each verdict that the first won; NaN for an error."""
    if "p_first" in sheet and columns.winner in sheet and columns.winner != "p_first":
        what = f"has both {columns.winner} and p_first, needs exactly one of them"
        problems.add(sheet.path, what)
        return np.full(len(sheet), np.nan)
    if "p_first" in sheet:
        graded = sheet["p_first"]
        share = _numbers(graded)
        bad = ~((share >= 0) & (share <= 1)) & graded.each(lambda v: v != "")
        allowed = "allowed: numbers from 0 to 1, or nothing for an error"
        problems.add_rows(sheet, bad, lambda r: f"p_first is {graded.at(r)!r}, {allowed}")
        return share
    if columns.winner not in sheet:
        problems.add(sheet.path, sheet.without(columns.winner))
        return np.full(len(sheet), np.nan)
    winner = sheet[columns.winner]
    share = winner.each(lambda v: WORDS.get(v.lower(), np.nan))
    bad = ~winner.each(lambda v: v.lower() in WORDS)
    allowed = f"allowed: {', '.join(WORDS)}"
    problems.add_rows(sheet, bad, lambda r: f"winner is {winner.at(r)!r}, {allowed}")
    return share


@dataclass(frozen=True, eq=False)
class _Items:
    """The items table, or what takes its place."""

    path: Path | None
    pool: Text
    item: Text
    content: Text | None
    numbers: dict[str, np.ndarray]
    """Quality and each covariate asked for, [rows]."""
    lines: np.ndarray

    @classmethod
    def shown(cls, told: _Verdicts) -> _Items:
        """Every item that was shown, of verdicts that come without an items table."""
        sides = [
            pd.DataFrame(
                {
                    "pool": np.asarray(told.pool.values, object)[told.pool.codes],
                    "item": np.asarray(side.values, object)[side.codes],
                    "line": told.sheet.lines,
                }
            )
            for side in (told.sheet["first"], told.sheet["second"])
        ]
        each = pd.concat(sides).drop_duplicates(["pool", "item"])
        quality = {"quality": np.full(len(each), np.nan)}
        lines = each["line"].to_numpy()
        return cls(None, Text.of(each["pool"]), Text.of(each["item"]), None, quality, lines)

    def _rows(self, pool: Text, item: Text) -> np.ndarray:
        """[rows of a table] row here of each item; -1 for an unknown one."""
        names = {name: i for i, name in enumerate(self.item.values)}
        p = pool.within({name: i for i, name in enumerate(self.pool.values)})
        i = item.within(names)
        known = pd.Index(self.pool.codes * len(names) + self.item.codes)
        found = known.get_indexer(pd.Index(np.where((p < 0) | (i < 0), -1, p * len(names) + i)))
        return np.asarray(found)

    def find(
        self, sheet: Sheet, pool: Text, sides: tuple[str, str], problems: Problems
    ) -> tuple[np.ndarray, ...]:
        """[rows of a table] rows here of both items it names, with a problem for unknown ones."""
        new = pool.within({name: i for i, name in enumerate(self.pool.values)}) < 0
        problems.add_rows(sheet, new, lambda r: f"pool {pool.at(r)!r} is not in {self.path}")
        found = []
        for side in sides:
            rows = self._rows(pool, sheet[side])

            def what(r: int, item: Text = sheet[side]) -> str:
                return f"item {item.at(r)!r} of pool {pool.at(r)!r} is not in {self.path}"

            problems.add_rows(sheet, (rows < 0) & ~new, what)
            found.append(rows)
        return tuple(found)

    def frame(self, merge_pools: bool) -> tuple[list[str], pd.DataFrame, list[str]]:
        """Pools, items and contents as `Tables` has them."""
        pool, names = self.pool.codes, np.asarray(self.item.values, object)[self.item.codes]
        pools = self.pool.values
        if merge_pools:
            names = np.asarray(self.pool.values, object)[pool] + "/" + names
            pool, pools = np.zeros_like(pool), [ALL]
        content = Text.of(pd.Series(names)) if self.content is None else self.content
        columns = {"pool": pool, "item": names, "content": content.codes, **self.numbers}
        return pools, pd.DataFrame(columns), content.values


def _read_items(
    path: Path, covariates: Sequence[str], pool: str, content: str | None, problems: Problems
) -> _Items:
    named = [content] if content not in (None, "content") else []
    sheet = read_sheet(path, ("item", *covariates, *named))
    owner = sheet[content] if content is not None and content in sheet else None
    _check_names(sheet, (pool, "item", *([content] if owner else [])), problems)
    numbers = {"quality": np.full(len(sheet), np.nan)}
    for name in dict.fromkeys(("quality", *covariates)):
        if name not in sheet:
            continue
        value = _numbers(sheet[name])
        bad = ~(np.abs(value) <= LARGEST)
        if name not in covariates:
            bad &= sheet[name].each(lambda v: v != "")
        allowed = f"allowed: numbers within +-{LARGEST:g}"
        problems.add_rows(sheet, bad, lambda r, n=name: f"{n} is {sheet[n].at(r)!r}, {allowed}")
        numbers[name] = value
    pools, item = _pool(sheet, pool), sheet["item"]
    again = pd.DataFrame({"pool": pools.codes, "item": item.codes}).duplicated().to_numpy()
    problems.add_rows(sheet, again, lambda r: f"item {item.at(r)!r} of pool {pools.at(r)!r} again")
    for single in np.flatnonzero(np.bincount(pools.codes) < 2):
        problems.add(path, f"pool {pools.values[single]!r} has 1 item, needs 2 or more")
    return _Items(path, pools, item, owner, numbers, sheet.lines)


def _read_anchors(
    path: Path | str | None, pool: str, known: _Items, problems: Problems
) -> pd.DataFrame:
    if path is None:
        return pd.DataFrame({name: np.zeros(0, np.int64) for name in ("pool", "better", "worse")})
    sheet = read_sheet(Path(path), ("better", "worse"))
    _check_names(sheet, (pool, "better", "worse"), problems)
    pools, better = _pool(sheet, pool), sheet["better"]
    same = _same(better, sheet["worse"])
    problems.add_rows(
        sheet, same, lambda r: f"better and worse are the same item, {better.at(r)!r}"
    )
    found = known.find(sheet, pools, ("better", "worse"), problems)
    return pd.DataFrame({"pool": known.pool.codes[found[0]], "better": found[0], "worse": found[1]})


def _pool(sheet: Sheet, name: str) -> Text:
    """The column of pools; where there is none, all rows are of one."""
    return sheet[name] if name in sheet else Text(np.zeros(len(sheet), np.int64), [ALL])


def _check_names(sheet: Sheet, names: Sequence[str], problems: Problems) -> None:
    for name in names:
        if name in sheet:
            empty = sheet[name].each(lambda v: v == "")
            problems.add_rows(sheet, empty, lambda r, n=name: f"{n} is empty")


def _numbers(text: Text) -> np.ndarray:
    """[rows] NaN for what is no number."""
    values = pd.to_numeric(pd.Series(text.values, dtype=object), errors="coerce")
    return values.to_numpy(float)[text.codes]


def _same(one: Text, other: Text) -> np.ndarray:
    """[rows] where two columns have the same value."""
    return one.codes == other.within({v: i for i, v in enumerate(one.values)})


def _totals(verdicts: pd.DataFrame, n_pools: int, n_judges: int) -> np.ndarray:
    """[pools x judges] how many verdicts each has, repeats counted."""
    fit = verdicts["pool"] * n_judges + verdicts["judge"]
    totals = np.zeros(n_pools * n_judges, np.int64)
    np.add.at(totals, fit.to_numpy(), verdicts["count"].to_numpy())
    return totals


def _summary(path: Path, read: pd.DataFrame, tables: Tables, ties: Ties) -> list[str]:
    total = tables.counts[["n_verdicts", "n_errors", "n_ties"]].sum()
    kept, tied = total["n_verdicts"], total["n_ties"]
    how = "counted as half a win each" if ties == "half" else "dropped"
    said = [f"{path.name}: {len(read)} rows, {kept} verdicts, of which {tied} ties, {how}"]
    if total["n_errors"]:
        said.append(f"{total['n_errors']} errors dropped, never taken for ties")
    unknown = tables.verdicts.loc[~tables.verdicts["shown"], "count"].sum()
    if unknown:
        said.append(f"{unknown} verdicts of unknown order, which say nothing about position")
    return said
