"""Tables to columns of text: CSV, data frames, or Parquet with the extra `parquet`.

CSV may be separated by commas, tabs or semicolons, encoded in UTF-8 or, with a byte order mark, in
UTF-16, and packed by gzip. Nothing is guessed beyond that: a row that does not fit the header, a
quoted field that does not end or bytes that are no text are problems, reported with their line.
"""

from __future__ import annotations

import csv
import io
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from jbt.border.inputs import read_bytes
from jbt.own.tables.decoding import Damaged, csv_rows, decode, find_header

SHOWN = 20
"""Problems listed in full; the others are counted."""

ALIKE = 3
"""Problems of the same words that are listed: a misspelt column is one mistake, not one a row."""

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


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
        self._texts: list[tuple[int, int, str, str]] = []
        """Number of the source, line, where, what."""
        self._sources: list[Source] = []
        self.count = 0

    def add(self, source: Source, what: str, line: int | None = None) -> None:
        """Add one problem of a table, or of one of its lines."""
        if source not in self._sources:
            self._sources.append(source)
        where = str(source) if line is None else location(source, line)
        self._texts.append((self._sources.index(source), line or 0, where, what))
        self.count += 1

    def add_rows(self, sheet: Sheet, bad: np.ndarray, what: Callable[[int], str]) -> None:
        """Add one problem for each bad row of a table.

        Args:
          bad: [rows]
          what: describes the problem of a row, given its number.
        """
        self.add_lines(sheet.source, sheet.lines, bad, what)

    def add_lines(
        self, source: Source, lines: np.ndarray, bad: np.ndarray, what: Callable[[int], str]
    ) -> None:
        """`add_rows` for a table whose lines [rows] are known."""
        rows = np.flatnonzero(bad)
        for row in rows[:SHOWN]:
            self.add(source, what(int(row)), int(lines[row]))
        self.count += max(len(rows) - SHOWN, 0)

    def add_empty(self, sheet: Sheet, columns: Sequence[str]) -> None:
        """Add one problem for each empty field of these columns, where the table has them."""
        for name in columns:
            if name in sheet:
                self.add_rows(sheet, ~sheet[name].map(bool), lambda _, n=name: f"{n} is empty")

    def check(self) -> None:
        """Raise `TableError` if there are any."""
        if self.count:
            lines: list[str] = []
            alike = Counter[tuple[int, str]]()
            for source, _, where, what in sorted(self._texts):
                alike[source, what] += 1
                if len(lines) < SHOWN and alike[source, what] <= ALIKE:
                    lines.append(f"{where}: {what}")
            more = self.count - len(lines)
            raise TableError("\n".join([*lines, *[f"and {more} more problems"] * (more > 0)]))

    def end(self, source: Source, what: str, line: int | None = None) -> NoReturn:
        """Add a problem that makes further checks impossible, and raise `TableError`."""
        self.add(source, what, line)
        self.check()
        raise AssertionError


@dataclass(frozen=True, eq=False)
class Text:
    """A column of text, stored as a categorical: distinct values and a code for each row."""

    codes: np.ndarray
    """[rows] into `values`."""
    values: list[str]
    """Distinct values, in the order of first appearance; each appears."""

    @classmethod
    def of(cls, codes: np.ndarray, values: Iterable[object]) -> Text:
        """Make a column from values in any order, of which some may repeat, be unused or have
        spaces around them."""
        stripped = [str(v).strip() for v in values]
        number = {v: i for i, v in enumerate(dict.fromkeys(stripped))}
        merged = np.array([number[v] for v in stripped], np.int64)[codes]
        codes, used = pd.factorize(merged)
        distinct = list(number)
        return cls(codes, [distinct[i] for i in used])

    @classmethod
    def constant(cls, value: str, rows: int) -> Text:
        return cls(np.zeros(rows, np.int64), [value])

    def map(self, function: Callable[[str], float | bool]) -> np.ndarray:
        """[rows] a function of the values, called once for each distinct value."""
        return np.array([function(v) for v in self.values])[self.codes]

    def at(self, row: int) -> str:
        return self.values[self.codes[row]]

    def within(self, vocabulary: Sequence[str]) -> np.ndarray:
        """[rows] index of each value in a list, -1 where the list lacks it."""
        number = {v: i for i, v in enumerate(vocabulary)}
        return np.array([number.get(v, -1) for v in self.values], np.int64)[self.codes]

    def numbers(self) -> np.ndarray:
        """[rows] numbers in decimal notation; NaN for anything else."""
        return self.map(lambda v: float(v) if NUMBER.fullmatch(v) else np.nan)

    def equals(self, other: Text) -> np.ndarray:
        """[rows] where two columns have the same value."""
        return self.codes == other.within(self.values)


@dataclass(frozen=True, eq=False)
class Sheet:
    """Columns of a table as they stand in it, without spaces around their text."""

    source: Source
    columns: dict[str, Text]
    """Those requested that the table has."""
    lines: np.ndarray
    """[rows] line of the file each begins on; row number from 1 in a Parquet table, position from
    0 in a data frame."""

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Text:
        return self.columns[name]


def read_sheet(
    source: Source, needed: Sequence[str], optional: Sequence[str], problems: Problems
) -> Sheet:
    """Read some columns of a table; rows that cannot be read are left out and are problems.

    Raises:
      TableError: all problems so far, where nothing can be made of the table: no such file, not
        text, a needed column missing, no rows.
    """
    try:
        if isinstance(source, Frame):
            sheet = _from_frame(source, source.data, 0, needed, optional, problems)
        elif source.suffix == ".parquet":
            table = _read_parquet(source, problems)
            sheet = _from_frame(source, table, 1, needed, optional, problems)
        else:
            sheet = _read_csv(source, needed, optional, problems)
    except FileNotFoundError:
        problems.end(source, "no such file")
    except OSError as error:
        problems.end(source, f"cannot be read: {(error.strerror or str(error)).splitlines()[0]}")
    for name, column in sheet.columns.items():
        broken = column.map(lambda v: "\n" in v or "\r" in v)
        problems.add_rows(sheet, broken, lambda _, n=name: f"a line break within {n}")
    if not len(sheet):
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
    problems = Problems()
    if isinstance(source, Frame):
        return list(map(str, source.data.columns))
    if source.suffix == ".parquet":
        return list(map(str, _read_parquet(source, problems).columns))
    return _header(source, _decode(source, problems), set(needed), problems)[0]


def read_cells(source: Source, needed: Sequence[str]) -> pd.DataFrame:
    """Read a whole table as text, one column for each of its own; cells may hold line breaks.

    Args:
      needed: columns that it must have.

    Raises:
      TableError: nothing can be made of the file.
    """
    problems = Problems()
    read_sheet(source, needed, [], problems)
    problems.check()
    if isinstance(source, Frame):
        return _texts(source.data)
    if source.suffix == ".parquet":
        return _texts(_read_parquet(source, problems))
    text = _decode(source, problems)
    _, separator = _header(source, text, set(needed), problems)
    return pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False)


def _texts(table: pd.DataFrame) -> pd.DataFrame:
    cells = {str(name): column.tolist() for name, column in table.items()}
    return pd.DataFrame(
        {n: ["" if pd.isna(v) else _as_csv(v) for v in c] for n, c in cells.items()}
    )


def _check_header(
    source: Source,
    header: list[str],
    needed: Sequence[str],
    optional: Sequence[str],
    problems: Problems,
) -> dict[str, int]:
    """The place of each requested column."""
    for name in dict.fromkeys(h for h in header if h and header.count(h) > 1):
        problems.end(source, f"two columns are called {name!r}")
    for name in needed:
        if name not in header:
            names = ", ".join(map(repr, header[:12])) + ", ..." * (len(header) > 12)
            is_file = isinstance(source, Path)
            hint = "; separators are commas, tabs or semicolons" * (is_file and len(header) == 1)
            problems.end(source, f"no column {name!r}; columns are {names}{hint}")
    for name in optional:
        alike = [h for h in header if h.lower() == name.lower()]
        if alike and name not in alike:
            problems.add(source, f"column {alike[0]!r} has to be called {name!r} to be read")
    return {name: header.index(name) for name in (*needed, *optional) if name in header}


def _decode(path: Path, problems: Problems) -> str:
    try:
        return decode(read_bytes(path))
    except Damaged as damaged:
        problems.end(path, str(damaged), damaged.line)


def _header(path: Path, text: str, known: set[str], problems: Problems) -> tuple[list[str], str]:
    try:
        return find_header(text, known)
    except Damaged as damaged:
        problems.end(path, str(damaged))


def _read_csv(
    path: Path, needed: Sequence[str], optional: Sequence[str], problems: Problems
) -> Sheet:
    text = _decode(path, problems)
    if text.lstrip()[:1] in ("[", "{"):
        problems.end(path, f"is JSON, no table: make tables of it by jbt import {path} --out DIR")
    header, separator = _header(path, text, {*needed, *optional}, problems)
    places = _check_header(path, header, needed, optional, problems)
    sheet = _read_plain(path, text, header, separator, places)
    # pandas says neither on which line a row begins nor that a quote is misplaced, and fills up a
    # row that is too short: the csv module, half as fast, reads every table that needs this.
    if sheet is None:
        sheet = _read_rows(path, text, header, separator, places, problems)
    return sheet


def _read_plain(
    path: Path, text: str, header: list[str], separator: str, places: dict[str, int]
) -> Sheet | None:
    """What `_read_rows` returns, if nothing is quoted and every line is a row of as many fields as
    the header; None for any other file."""
    text = text.replace("\r\n", "\n").removesuffix("\n")
    lines = text.split("\n")
    if (
        any(c in text for c in '"\r\0\ufeff')
        or {line.count(separator) for line in lines} != {len(header) - 1}
        or max(map(len, lines)) > csv.field_size_limit()
        or len(lines) == 1
    ):
        return None
    table = pd.read_csv(
        io.StringIO(text),
        sep=separator,
        header=None,
        names=list(range(len(header))),
        usecols=list(places.values()),
        skiprows=1,
        dtype=object,  # any other type, category too, may turn "007" into 7
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        skip_blank_lines=False,
        engine="c",
    )
    columns = {name: Text.of(*pd.factorize(table[at])) for name, at in places.items()}
    filled = np.any([column.map(bool) for column in columns.values()], axis=0)
    if len(table) != len(lines) - 1 or not filled.all():  # a blank row, to be left out
        return None
    return Sheet(path, columns, np.arange(2, len(lines) + 1))


def _read_rows(
    path: Path,
    text: str,
    header: list[str],
    separator: str,
    places: dict[str, int],
    problems: Problems,
) -> Sheet:
    """Read row by row, so that the line of whatever does not fit is known."""
    numbers: list[dict[str, int]] = [{} for _ in places]
    codes, lines = [array("l") for _ in places], array("l")
    columns = list(zip(places.values(), numbers, codes, strict=True))
    rows = csv_rows(text, separator, len(header))
    next(rows)
    for line, fields in rows:
        if isinstance(fields, str):
            problems.add(path, fields, line)
        elif "\0" in "".join(fields):
            problems.add(path, "holds a NUL character", line)
        else:
            lines.append(line)
            for place, number, code in columns:
                code.append(number.setdefault(fields[place], len(number)))
    texts = (Text.of(np.frombuffer(code, np.dtype("l")), number) for _, number, code in columns)
    return Sheet(path, dict(zip(places, texts, strict=True)), np.frombuffer(lines, np.dtype("l")))


def _read_parquet(path: Path, problems: Problems) -> pd.DataFrame:
    try:
        return pd.read_parquet(io.BytesIO(read_bytes(path)))
    except ImportError:
        problems.end(path, "reading Parquet needs the extra: judge-bt[parquet]")
    except (ValueError, KeyError, TypeError) as error:  # the last two where it is damaged
        problems.end(path, f"not a readable table ({str(error).splitlines()[0]})")


def _from_frame(
    source: Source,
    table: pd.DataFrame,
    start: int,
    needed: Sequence[str],
    optional: Sequence[str],
    problems: Problems,
) -> Sheet:
    """A data frame or Parquet table, whose rows are numbered from `start`."""
    header = [str(name) for name in table.columns]
    columns = {}
    for name, place in _check_header(source, header, needed, optional, problems).items():
        column = table.iloc[:, place]
        if pd.api.types.is_datetime64_any_dtype(column):
            column = column.astype("string")
        codes, values = pd.factorize(column)  # a missing value is -1, the last
        columns[name] = Text.of(codes, [*map(_as_csv, values.tolist()), ""])
    return Sheet(source, columns, np.arange(len(table)) + start)


def _as_csv(value: object) -> str:
    """A value as CSV would have it. 1.0, which is what a nullable integer becomes on the way, is
    "1" again; yes and no are "1" and "0"."""
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return str(value)
