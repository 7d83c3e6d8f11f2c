"""A user's own verdict tables: read, validate, and turn into one padded batch.

The only reader of files. Two tables, CSV (or Parquet with the extra `parquet`):

    verdicts   pool, first, second, winner = first | second | tie | error,
               optional judge, optional count
    items      pool, item, optional content, optional quality (not read yet), any numeric
               covariate columns; not needed when no covariate is asked for

A wrong table raises `VerdictError`, whose one line names file, line and what is allowed.
Errors of the judge are counted and dropped, never taken for ties.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt.identifiability import prior_selected
from jbt.types import Comparisons, Design

Transform = Literal["none", "log", "log1p"]
MOST = 10**9
"""Largest count, and LARGEST the largest covariate: beyond them float64 loses what they say."""

LARGEST = 1e100

WINNERS = ("first", "second", "tie", "error")


class VerdictError(ValueError):
    """A table that cannot be used; the message is one line for the person who made it."""


@dataclasses.dataclass(frozen=True)
class PoolTable:
    """One pool as one judge saw it."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    items: list[str]
    n_verdicts: int
    """Valid verdicts, counting repeats."""
    n_errors: int
    repeated: bool
    """Some ordered pair was judged more than once."""
    constant_covariates: tuple[bool, ...]
    """Which covariates take one value over the whole pool."""
    prior_selected: tuple[str, ...]
    """Which of theta (up to a constant), c, kappa and phi (likewise) the comparisons made are
    silent about, so that the prior chooses them."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Every pool and judge, padded to one shape."""

    pools: list[PoolTable]
    design: Design
    """Leaves with a leading axis over `pools`."""
    comparisons: Comparisons
    """Likewise."""
    covariates: list[str]
    """Name of each covariate, with its transformation: "words", "log(words)"."""
    units: str
    """What one unit of a covariate is, in words."""


def read_verdicts(path: Path) -> pd.DataFrame:
    """The verdicts table, validated: string columns pool, first, second, winner, judge
    (empty where the table has none) and the integer column count.

    Raises:
      VerdictError: see the module.
    """
    table = _read(path, ("pool", "first", "second", "winner"))
    _check_names(path, table, ("pool", "first", "second"))
    same = table["first"] == table["second"]
    if same.any():
        row = table[same].iloc[0]
        raise _error(path, row.name, f"first and second are the same item, {row['first']!r}")
    wrong = ~table["winner"].isin(WINNERS)
    if wrong.any():
        row = table[wrong].iloc[0]
        raise _error(path, row.name, f"winner is {row.winner!r}, allowed: {', '.join(WINNERS)}")
    if "judge" not in table:
        table["judge"] = ""
    else:
        _check_names(path, table, ("judge",))
    if "count" in table:
        count = pd.to_numeric(table["count"], errors="coerce")
        bad = ~((count >= 0) & (count <= MOST) & (count == np.floor(count)))
        if bad.any():
            row = table[bad].iloc[0]
            raise _error(
                path, row.name, f"count is {row['count']!r}, allowed: integers from 0 to {MOST}"
            )
        table["count"] = count.astype(np.int64)
    else:
        table["count"] = 1
    return table


def read_items(path: Path, covariates: Sequence[str]) -> pd.DataFrame:
    """The items table, validated: string columns pool, item and (if there) content, and the
    covariates asked for as floats.

    Raises:
      VerdictError: see the module.
    """
    table = _read(path, ("pool", "item", *covariates))
    _check_names(path, table, ("pool", "item", *(["content"] if "content" in table else [])))
    twice = table.duplicated(["pool", "item"])
    if twice.any():
        row = table[twice].iloc[0]
        raise _error(path, row.name, f"item {row['item']!r} of pool {row['pool']!r} again")
    for name in covariates:
        value = pd.to_numeric(table[name], errors="coerce")
        bad = ~(value.abs() <= LARGEST)
        if bad.any():
            row = table[bad].iloc[0]
            raise _error(
                path, row.name, f"{name} is {row[name]!r}, allowed: numbers within +-{LARGEST:g}"
            )
        table[name] = value.astype(float)
    sizes = table.groupby("pool", sort=False).size()
    if (sizes < 2).any():
        raise VerdictError(
            f"{path}: pool {sizes.index[sizes < 2][0]!r} has 1 item, needs 2 or more"
        )
    return table


def load(
    verdicts: Path,
    items: Path | None = None,
    covariates: Sequence[str] = (),
    *,
    transform: Transform = "none",
    standardise: bool = True,
    judge: str | None = None,
) -> Batch:
    """Both tables as one padded batch: every pool with every judge, or with the one named.

    Args:
      verdicts, items: files; items may be left out when no covariate is asked for.
      covariates: columns of the items table.
      transform: applied to every covariate: none, log or log1p.
      standardise: subtract the mean and divide by the standard deviation (divisor n) over
        all rows of the items table, after the transformation; else use them as they are.
      judge: one judge's verdicts only.

    To be called, like what uses the batch, within `runtime.precision("float64")`.

    Raises:
      VerdictError: see the module; also for a covariate that is constant over the table, the
        log of a number that has none, an unknown judge or item.
    """
    table = read_verdicts(verdicts)
    if covariates and items is None:
        raise VerdictError(f"covariates {', '.join(covariates)} need an items table (--items)")
    repeated_names = [c for i, c in enumerate(covariates) if c in covariates[:i]]
    if repeated_names:
        raise VerdictError(f"covariate {repeated_names[0]!r} is asked for twice")
    if items is not None:
        item_table = read_items(items, covariates)
        _check_known(verdicts, table, items, item_table)
    else:
        item_table = _items_of(table)
    x = _covariates(items, item_table, covariates, transform, standardise)
    judges = list(dict.fromkeys(table["judge"]))
    if judge is not None:
        if judge not in judges or judges == [""]:
            known = "the table has no judge column" if judges == [""] else ", ".join(judges)
            raise VerdictError(f"{verdicts}: no judge {judge!r}: {known}")
        judges = [judge]
        table = table[table["judge"] == judge]
    return _batch(table, item_table, x, judges, _names(covariates, transform), standardise)


def _read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A table of stripped strings, indexed by the line of the file each row ends on."""
    try:
        table = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    except FileNotFoundError:
        raise VerdictError(f"{path}: no such file") from None
    except ImportError:
        raise VerdictError(f"{path}: reading Parquet needs the extra: jbt[parquet]") from None
    except OSError as error:
        raise VerdictError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise VerdictError(f"{path}: not a table: needs CSV in UTF-8") from None
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise VerdictError(f"{path}: two columns are called {twice[0]!r}")
    missing = [c for c in columns if c not in table]
    if missing:
        there = ", ".join(map(repr, table.columns[:12]))
        hint = "; is it separated by commas?" if len(table.columns) == 1 else ""
        raise VerdictError(f"{path}: no column {missing[0]!r}; columns are {there}{hint}")
    if table.empty:
        raise VerdictError(f"{path}: no rows below the header")
    return table


def _read_csv(path: Path) -> pd.DataFrame:
    # Strings as they stand (an item may be called "NA" or "007"), and rows that do not fit
    # the header refused: pandas would shift their columns.
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header, rows, lines = [], [], []
        try:
            for fields in reader:
                fields = [f.strip() for f in fields]
                if not any(fields):
                    continue
                if any("\0" in f for f in fields):
                    raise VerdictError(f"{path}, line {reader.line_num}: not text")
                if not header:
                    header = fields
                    continue
                if len(fields) != len(header):
                    found = f"{len(fields)} fields, the header has {len(header)}"
                    raise VerdictError(f"{path}, line {reader.line_num}: {found}")
                rows.append(fields)
                lines.append(reader.line_num)
        except csv.Error as error:
            raise VerdictError(f"{path}, line {reader.line_num}: not CSV ({error})") from None
    if not header:
        raise VerdictError(f"{path}: the file is empty")
    return pd.DataFrame(rows, columns=pd.Index(header), index=pd.Index(lines), dtype=str)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise VerdictError(f"{path}: not a readable table ({reason})") from None
    # 1.0, which is what a nullable integer becomes on the way, is "1" again.
    table = table.convert_dtypes().astype("string").fillna("")
    table = table.apply(lambda column: column.str.strip()).astype(object)
    return table.set_axis(np.arange(1, len(table) + 1), axis=0)


def _error(path: Path, line: Any, what: str) -> VerdictError:
    return VerdictError(f"{path}, line {line}: {what}")


def _check_names(path: Path, table: pd.DataFrame, columns: Sequence[str]) -> None:
    for name in columns:
        empty = table[name] == ""
        if empty.any():
            raise _error(path, table.index[empty][0], f"{name} is empty")


def _check_known(path: Path, verdicts: pd.DataFrame, items_path: Path, items: pd.DataFrame) -> None:
    known = pd.MultiIndex.from_frame(items[["pool", "item"]])
    for side in ("first", "second"):
        unknown = ~pd.MultiIndex.from_frame(verdicts[["pool", side]]).isin(known)
        if unknown.any():
            row = verdicts[unknown].iloc[0]
            what = f"item {row[side]!r} of pool {row['pool']!r} is not in {items_path}"
            raise _error(path, row.name, what)


def _items_of(verdicts: pd.DataFrame) -> pd.DataFrame:
    sides = [verdicts[["pool", s]].rename(columns={s: "item"}) for s in ("first", "second")]
    return pd.concat(sides).drop_duplicates(ignore_index=True)


def _names(covariates: Sequence[str], transform: Transform) -> list[str]:
    return [c if transform == "none" else f"{transform}({c})" for c in covariates]


def _covariates(
    path: Path | None,
    items: pd.DataFrame,
    names: Sequence[str],
    transform: Transform,
    standardise: bool,
) -> pd.DataFrame:
    x = items[list(names)].to_numpy(float)
    floor = {"none": -np.inf, "log": 0.0, "log1p": -1.0}[transform]
    bad = np.argwhere(x <= floor)
    if len(bad):
        row, column = bad[0]
        what = f"{transform} of {names[column]} = {x[row, column]:g} is undefined"
        raise VerdictError(f"{path}, line {items.index[row]}: {what}, needs values above {floor:g}")
    x = {"none": lambda v: v, "log": np.log, "log1p": np.log1p}[transform](x)
    spread = x.std(axis=0)
    # A constant's standard deviation is rounding, not exactly zero.
    constant = spread <= 1e-12 * np.maximum(np.abs(x).max(axis=0, initial=0), 1e-300)
    if constant.any():
        raise VerdictError(f"{path}: {names[int(constant.argmax())]} is the same for all items")
    x = (x - x.mean(axis=0)) / spread if standardise else x
    return pd.DataFrame(x, index=items.index)


def _batch(
    verdicts: pd.DataFrame,
    items: pd.DataFrame,
    x: pd.DataFrame,
    judges: list[str],
    names: list[str],
    standardise: bool,
) -> Batch:
    n = int(items.groupby("pool").size().max())
    shared = "content" in items and bool(items.duplicated(["pool", "content"]).any())
    m = int(items.groupby("pool")["content"].nunique().max()) if shared else n
    verdicts = _placed(verdicts, items)
    by_pool = {
        (judge, pool): rows
        for (judge, pool), rows in verdicts.groupby(["judge", "pool"], sort=False)
    }
    none = verdicts.iloc[:0]
    tables, designs, comparisons = [], [], []
    for pool, rows in items.groupby("pool", sort=False):
        covariates = np.zeros((n, x.shape[1]))
        covariates[: len(rows)] = x.loc[rows.index].to_numpy()
        content = np.zeros(n, int)
        if shared:
            content[: len(rows)] = pd.factorize(rows["content"])[0]
        design = Design.build(
            covariates, content if shared else None, np.arange(n) < len(rows), m if shared else None
        )
        constant = tuple(bool(v) for v in np.ptp(covariates[: len(rows)], axis=0) == 0)
        for judge in judges:
            seen = by_pool.get((judge, pool), none)
            counts = _count(seen, n)
            errors = seen["winner"] == "error"
            tables.append(
                PoolTable(
                    str(pool),
                    judge or None,
                    rows["item"].tolist(),
                    int(counts.shown.sum()),
                    int(seen["count"][errors].sum()),
                    bool((counts.shown > 1).any()),
                    constant,
                    prior_selected(design, np.asarray(counts.shown)),
                )
            )
            designs.append(design)
            comparisons.append(counts)
    units = "standard deviation of" if standardise else "unit of"
    return Batch(tables, _stack(designs), _stack(comparisons), names, units)


def _stack(containers: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *containers)


def _placed(verdicts: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """The verdicts with the places `i` and `j` of both items within their pool."""
    place = pd.Series(
        items.groupby("pool", sort=False).cumcount().to_numpy(),
        index=pd.MultiIndex.from_frame(items[["pool", "item"]]),
    )
    columns = {
        name: place.reindex(pd.MultiIndex.from_frame(verdicts[["pool", side]])).to_numpy(int)
        for name, side in (("i", "first"), ("j", "second"))
    }
    return verdicts.assign(**columns)


def _count(rows: pd.DataFrame, n: int) -> Comparisons:
    shown, wins = np.zeros((n, n)), np.zeros((n, n))
    winner = rows["winner"].to_numpy()
    count = np.where(winner == "error", 0, rows["count"].to_numpy(float))
    credit = np.where(winner == "first", 1.0, np.where(winner == "tie", 0.5, 0.0))
    pairs = rows["i"].to_numpy(), rows["j"].to_numpy()
    np.add.at(shown, pairs, count)
    np.add.at(wins, pairs, count * credit)
    return Comparisons.build(shown, wins)
