"""Tables to rows of text: CSV, data frames, or Parquet with the extra `parquet`.

CSV may be separated by commas, tabs or semicolons, encoded in UTF-8 or, with a byte order mark, in
UTF-16, and packed by gzip. Nothing is guessed beyond that: a row that does not fit the header, a
quoted field that does not end or bytes that are no text are problems, reported with their line.
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from jbt.border.inputs import read_bytes
from jbt.own.tables.decoding import LONGEST_HEADER, Damaged, damage, decode, read_csv
from jbt.own.tables.outcomes import NUMBER

SHOWN = 20
"""Problems listed in full; the others are counted."""

ALIKE = 3
"""Problems of the same words that are listed: a misspelt column is one mistake, not one a row."""

BROKEN = re.compile("[\n\r\0]")


@runtime_checkable
class Convertible(Protocol):
    """A data frame of another library, polars or Arrow."""

    def to_pandas(self) -> pd.DataFrame: ...


Table = Path | str | pd.DataFrame | Convertible
"""A table as the user gives it: a file or a data frame."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A data frame; messages call it by the name of its argument."""

    name: str
    data: pd.DataFrame

    def __str__(self) -> str:
        return self.name


Source = Path | Frame
"""Where a table is read from."""


def source_of(table: Table, name: str) -> Source:
    """The source of a table that the user passed as the argument `name`."""
    data = table.to_pandas() if isinstance(table, Convertible) else table
    if isinstance(data, pd.DataFrame):
        return Frame(name, data)
    if not isinstance(data, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path or a data frame, got {type(table).__name__}")
    return Path(data)


def location(source: Source, line: int) -> str:
    """A line of a file, from 1, or a row of a data frame, from 0 as `iloc` counts, for messages."""
    return f"{source}, {'row' if isinstance(source, Frame) else 'line'} {line}"


class TableError(ValueError):
    """A table that cannot be used; the message has one line a problem, for the person who made
    it: the first twenty, at most three of the same words, then how many more there are."""


class Problems:
    """Collects what is wrong with a user's tables, so that all of it is reported at once."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, str, str]] = []
        """Number of the source, line, where, what."""
        self._sources: dict[Source, int] = {}
        self.count = 0

    def add(self, source: Source, what: str, line: int | None = None) -> None:
        """Add one problem of a table, or of one of its lines."""
        number = self._sources.setdefault(source, len(self._sources))
        where = str(source) if line is None else location(source, line)
        self._found.append((number, line or 0, where, what))
        self.count += 1

    def check(self) -> None:
        """Raise `TableError` if there are any."""
        lines, alike = [], Counter[tuple[int, str]]()
        for source, _, where, what in sorted(self._found):
            alike[source, what] += 1
            if alike[source, what] <= ALIKE:
                lines.append(f"{where}: {what}")
        lines = lines[:SHOWN]
        if more := self.count - len(lines):
            lines.append(f"and {more} more problems")
        if lines:
            raise TableError("\n".join(lines))

    def end(self, source: Source, what: str, line: int | None = None) -> NoReturn:
        """Add a problem that makes further checks impossible, and raise `TableError`."""
        self.add(source, what, line)
        self.check()
        raise AssertionError


@dataclass(frozen=True, eq=False)
class Sheet:
    """Rows of a table, and where problems with them go."""

    source: Source
    rows: pd.DataFrame
    """Text is categorical. The index is the line of the file on which a row begins; its number from
    1 in a Parquet table, its position from 0 in a data frame."""
    problems: Problems
    has_pools: bool = True
    """Whether the table has a column of pools."""
    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    """All columns as they stand in the table."""

    def refuse(self, bad: Any, what: Callable[[Any], str]) -> None:
        """Add one problem for each bad row.

        Args:
          bad: [rows]
          what: describes the problem of a row, given the row.
        """
        at, lines = np.flatnonzero(bad), self.rows.index.to_numpy()
        for row in at[:SHOWN]:
            self.problems.add(self.source, what(self.rows.iloc[row]), int(lines[row]))
        self.problems.count += max(len(at) - SHOWN, 0)

    def refuse_empty(self, *columns: str | None) -> None:
        """Add one problem for each empty field of these columns, where the table has them."""
        for name in columns:
            if name in self.rows:
                self.refuse(self.rows[name] == "", lambda _, n=name: f"{n} is empty")

    def values(self, name: str, meaning: Callable[[str], float | None], allowed: str) -> np.ndarray:
        """[rows] what the fields of a column mean: NaN for None, and for a problem.

        Args:
          meaning: of one field; raises `KeyError` for a field that is not allowed.
          allowed: what is, for the message.
        """

        def read(field: str) -> float | None:
            try:
                return meaning(field)
            except KeyError:
                return np.inf

        value = each(self.rows[name], read, float)
        bad = np.isinf(value)
        self.refuse(bad, lambda row: f"{name} is {row[name]!r}, {allowed}")
        return np.where(bad, np.nan, value)


def number(
    low: float, high: float, *, whole: bool = False, empty: bool = False
) -> Callable[[str], float]:
    """The meaning (`Sheet.values`) of a number from `low` to `high`, in decimal notation.

    Args:
      empty: whether a field may be empty.
    """

    def read(field: str) -> float:
        value = float(field) if NUMBER.fullmatch(field) else np.nan
        allowed = low <= value <= high and (value.is_integer() or not whole)
        if not allowed and (field or not empty):
            raise KeyError(field)
        return value

    return read


def each(column: pd.Series, function: Callable[[Any], Any], kind: Any = None) -> np.ndarray:
    """[rows] a function of the values, called once for each distinct value; of this dtype."""
    values = pd.Categorical(column)
    return np.array([function(v) for v in values.categories.tolist()], kind)[values.codes]


def read_sheet(
    source: Source, needed: Sequence[str], optional: Sequence[str], problems: Problems
) -> Sheet:
    """Read some columns of a table as text without spaces around it; rows that cannot be read are
    left out and are problems.

    Raises:
      TableError: all problems so far, where nothing can be made of the table: no such file, not
        text, a needed column missing, no rows.
    """
    table, wrong = _read(source, {*needed, *optional}, problems)
    header = list(map(str, table.columns))
    for name in header:
        if name and header.count(name) > 1:
            problems.end(source, f"two columns are called {name!r}")
    for name in needed:
        if name not in header:
            names = ", ".join(map(repr, header[:12])) + ", ..." * (len(header) > 12)
            is_file = isinstance(source, Path)
            hint = "; separators are commas, tabs or semicolons" * (is_file and len(header) == 1)
            if is_file and {"model_a", "model_b"} <= {*header}:
                hint = f"; make tables of it by jbt import {source} --out DIR"
            problems.end(source, f"no column {name!r}; columns are {names}{hint}")
    by_case = {name.lower(): name for name in reversed(header)}
    columns = {}
    for name in (*needed, *optional):
        if name in header:
            columns[name] = texts(table.iloc[:, header.index(name)], str.strip)
        elif other := by_case.get(name.lower()):
            problems.add(source, f"column {other!r} has to be called {name!r} to be read")
    for line, what in wrong.items():
        problems.add(source, what, line)
    sheet = Sheet(source, pd.DataFrame(columns, table.index), problems, cells=table)
    for name in columns:
        broken = each(sheet.rows[name], lambda v: bool(BROKEN.search(v)))
        sheet.refuse(broken, lambda _, n=name: f"a line break or a NUL character within {n}")
    if not len(table):
        problems.check()
        problems.end(source, "no rows below the header")
    return sheet


def column_names(source: Source, needed: Sequence[str]) -> list[str]:
    """All columns of a table.

    Args:
      needed: some that it has.

    Raises:
      TableError: nothing can be made of the file.
    """
    return list(map(str, _read(source, set(needed), Problems(), LONGEST_HEADER)[0]))


def read_cells(source: Source, needed: Sequence[str]) -> pd.DataFrame:
    """Read a whole table as text, one column for each of its own; cells may hold line breaks.

    Args:
      needed: columns that it must have.

    Raises:
      TableError: nothing can be made of the file.
    """
    problems = Problems()
    sheet = read_sheet(source, needed, [], problems)
    problems.check()
    cells = {str(name): texts(column).astype(object) for name, column in sheet.cells.items()}
    return pd.DataFrame(cells)


def _read(
    source: Source, known: set[str], problems: Problems, most: int | None = None
) -> tuple[pd.DataFrame, dict[int, str]]:
    """Read all cells of a table: values, or of CSV text as it stands, by line (`Sheet.rows`); and
    what is wrong with other lines. `most`: characters of a text to read."""
    if isinstance(source, Frame):
        return source.data.set_axis(np.arange(len(source.data))), {}
    try:
        with damage():
            data = read_bytes(source)
            if source.suffix == ".parquet":
                table = pd.read_parquet(io.BytesIO(data))
                return table.set_axis(np.arange(1, len(table) + 1)), {}
            text = decode(data)
            if text.lstrip()[:1] in ("[", "{"):
                what = f"make tables of it by jbt import {source} --out DIR"
                raise Damaged(f"is JSON, no table: {what}")
            return read_csv(text[:most], known)
    except Damaged as damaged:
        problems.end(source, str(damaged), damaged.line)


def texts(column: pd.Series, change: Callable[[str], str] = str) -> pd.Categorical:
    """[rows] values as CSV would have them, then changed."""
    if pd.api.types.is_datetime64_any_dtype(column):
        column = column.astype("string")
    codes, values = pd.factorize(column)
    texts = [change(v if isinstance(v, str) else _as_csv(v)) for v in values.tolist()]
    texts += [""] * (-1 in codes)  # a missing value is -1, the last
    merged, distinct = pd.factorize(np.array(texts, object))
    return pd.Categorical.from_codes(merged[codes], pd.Index(distinct, dtype=object))


def _as_csv(value: object) -> str:
    """A value as CSV would have it. 1.0, which is what a nullable integer becomes on the way, is
    "1" again; yes and no are "1" and "0"."""
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return str(value)
