"""Reading a user's tables: CSV, or Parquet with the extra `parquet`.

    verdicts   pool, first, second, winner = first | second | tie | error,
               optional judge, optional count
    items      pool, item, optional content, optional quality (not read yet), any numeric
               covariate columns

A wrong table raises `TableError`, whose one line names file, line and what is allowed.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

MOST = 10**9
"""Largest count, and LARGEST the largest covariate: beyond them float64 loses what they say."""

LARGEST = 1e100

WINNERS = ("first", "second", "tie", "error")


class TableError(ValueError):
    """A table that cannot be used; the message is one line for the person who made it."""


def read_verdicts(path: Path) -> pd.DataFrame:
    """The verdicts table, validated: string columns pool, first, second, winner, judge
    (empty where the table has none) and the integer column count.

    Raises:
      TableError: see the module.
    """
    table = _read(path, ("pool", "first", "second", "winner"))
    _check_names(path, table, ("pool", "first", "second"))
    same = table["first"] == table["second"]
    if same.any():
        row = table[same].iloc[0]
        raise at_line(path, row.name, f"first and second are the same item, {row['first']!r}")
    wrong = ~table["winner"].isin(WINNERS)
    if wrong.any():
        row = table[wrong].iloc[0]
        raise at_line(path, row.name, f"winner is {row.winner!r}, allowed: {', '.join(WINNERS)}")
    if "judge" not in table:
        table["judge"] = ""
    else:
        _check_names(path, table, ("judge",))
    if "count" in table:
        count = pd.to_numeric(table["count"], errors="coerce")
        bad = ~((count >= 0) & (count <= MOST) & (count == np.floor(count)))
        if bad.any():
            row = table[bad].iloc[0]
            raise at_line(
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
      TableError: see the module.
    """
    table = _read(path, ("pool", "item", *covariates))
    _check_names(path, table, ("pool", "item", *(["content"] if "content" in table else [])))
    twice = table.duplicated(["pool", "item"])
    if twice.any():
        row = table[twice].iloc[0]
        raise at_line(path, row.name, f"item {row['item']!r} of pool {row['pool']!r} again")
    for name in covariates:
        value = pd.to_numeric(table[name], errors="coerce")
        bad = ~(value.abs() <= LARGEST)
        if bad.any():
            row = table[bad].iloc[0]
            raise at_line(
                path, row.name, f"{name} is {row[name]!r}, allowed: numbers within +-{LARGEST:g}"
            )
        table[name] = value.astype(float)
    sizes = table.groupby("pool", sort=False).size()
    if (sizes < 2).any():
        raise TableError(f"{path}: pool {sizes.index[sizes < 2][0]!r} has 1 item, needs 2 or more")
    return table


def _read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A table of stripped strings, indexed by the line of the file each row ends on."""
    try:
        table = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    except FileNotFoundError:
        raise TableError(f"{path}: no such file") from None
    except ImportError:
        raise TableError(f"{path}: reading Parquet needs the extra: jbt[parquet]") from None
    except OSError as error:
        reason = (error.strerror or str(error)).splitlines()[0]
        raise TableError(f"{path}: cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise TableError(f"{path}: not a table: needs CSV in UTF-8") from None
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise TableError(f"{path}: two columns are called {twice[0]!r}")
    missing = [c for c in columns if c not in table]
    if missing:
        there = ", ".join(map(repr, table.columns[:12]))
        hint = "; is it separated by commas?" if len(table.columns) == 1 else ""
        raise TableError(f"{path}: no column {missing[0]!r}; columns are {there}{hint}")
    if table.empty:
        raise TableError(f"{path}: no rows below the header")
    return table


def _read_csv(path: Path) -> pd.DataFrame:
    # Strings as they stand (an item may be called "NA" or "007"), and rows that do not fit
    # the header refused: pandas would shift their columns.
    table = _read_plain(path)
    return _read_rows(path) if table is None else table


def _read_plain(path: Path) -> pd.DataFrame | None:
    """What `_read_rows` returns, ten times as fast, if nothing is quoted and every line is a row
    of as many fields as the header: then commas and line ends alone separate fields. None for any
    other file."""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except UnicodeDecodeError:
        return None
    if any(c in text for c in '"\r\0'):
        return None
    lines = text.split("\n")
    width = lines[0].count(",") + 1
    if {line.count(",") for line in lines} != {width - 1}:
        return None
    if max(map(len, lines)) > csv.field_size_limit():
        return None
    fields = [f.strip() for f in text.replace("\n", ",").split(",")]
    if not all(fields[::width]):  # the row may be blank, to be left out
        return None
    columns = {c: fields[width + c :: width] for c in range(width)}
    table = pd.DataFrame(columns, index=pd.RangeIndex(2, len(lines) + 1), dtype=str)
    return table.set_axis(pd.Index(fields[:width]), axis=1)


def _read_rows(path: Path) -> pd.DataFrame:
    """Row by row, so that the line of whatever does not fit is known."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header, rows, lines = [], [], []
        try:
            for fields in reader:
                fields = [f.strip() for f in fields]
                if not any(fields):
                    continue
                if any("\0" in f for f in fields):
                    raise TableError(f"{path}, line {reader.line_num}: not text")
                if not header:
                    header = fields
                    continue
                if len(fields) != len(header):
                    found = f"{len(fields)} fields, the header has {len(header)}"
                    raise TableError(f"{path}, line {reader.line_num}: {found}")
                rows.append(fields)
                lines.append(reader.line_num)
        except csv.Error as error:
            raise TableError(f"{path}, line {reader.line_num}: not CSV ({error})") from None
    if not header:
        raise TableError(f"{path}: the file is empty")
    return pd.DataFrame(rows, columns=pd.Index(header), index=pd.Index(lines), dtype=str)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path)
    except (ValueError, KeyError, TypeError) as error:  # the last two where it is damaged
        reason = str(error).splitlines()[0]
        raise TableError(f"{path}: not a readable table ({reason})") from None
    # 1.0, which is what a nullable integer becomes on the way, is "1" again.
    table = table.convert_dtypes().astype("string").fillna("")
    table = table.apply(lambda column: column.str.strip()).astype(object)
    return table.set_axis(np.arange(1, len(table) + 1), axis=0)


def at_line(path: Path, line: object, what: str) -> TableError:
    """The error of one line of a file."""
    return TableError(f"{path}, line {line}: {what}")


def _check_names(path: Path, table: pd.DataFrame, columns: Sequence[str]) -> None:
    for name in columns:
        empty = table[name] == ""
        if empty.any():
            raise at_line(path, table.index[empty][0], f"{name} is empty")
