"""Files to columns of text: CSV, or Parquet with the extra `parquet`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SHOWN = 20
"""Problems said in full; of the others, how many there are."""


class TableError(ValueError):
    """A table that cannot be used; the message has one line a problem, for the person who made
    it: the first twenty, then how many more there are."""


class Problems:
    """What is wrong with a user's tables, gathered so that all of it is said at once."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, str]] = []
        self._paths: list[Path] = []
        self.count = 0

    def add(self, path: Path, what: str, line: int | None = None) -> None:
        """One problem of a file, or of one of its lines."""
        if path not in self._paths:
            self._paths.append(path)
        where = f"{path}: " if line is None else f"{path}, line {line}: "
        self._found.append((self._paths.index(path), line or 0, where + what))
        self.count += 1

    def add_rows(self, sheet: Sheet, bad: np.ndarray, what: Callable[[int], str]) -> None:
        """One problem for each row of a table.

        Args:
          bad: [rows] where it is.
          what: it is, in words, given the row.
        """
        rows = np.flatnonzero(bad)
        for row in rows[:SHOWN]:
            self.add(sheet.path, what(int(row)), int(sheet.lines[row]))
        self.count += max(len(rows) - SHOWN, 0)

    def check(self) -> None:
        """Raise `TableError` if there are any."""
        if self.count:
            said = [text for _, _, text in sorted(self._found)[:SHOWN]]
            if self.count > SHOWN:
                said.append(f"and {self.count - SHOWN} more problems")
            raise TableError("\n".join(said))


@dataclass(frozen=True, eq=False)
class Text:
    """A column: which of its distinct values each row has."""

    codes: np.ndarray
    """[rows] into `values`."""
    values: list[str]

    @classmethod
    def of(cls, column: pd.Series) -> Text:
        codes, values = pd.factorize(column)
        return cls(codes, list(values))

    def each(self, of: Callable[[str], float | bool]) -> np.ndarray:
        """[rows] a function of the values, called once for each that is distinct."""
        return np.array([of(v) for v in self.values])[self.codes]

    def at(self, row: int) -> str:
        return self.values[self.codes[row]]

    def within(self, vocabulary: dict[str, int]) -> np.ndarray:
        """[rows] the number each value has in a vocabulary, -1 where it has none."""
        return np.array([vocabulary.get(v, -1) for v in self.values], np.int64)[self.codes]


@dataclass(frozen=True, eq=False)
class Sheet:
    """A table as it stands in a file: text without spaces around it."""

    path: Path
    columns: dict[str, Text]
    lines: np.ndarray
    """[rows] line of the file, or row of a Parquet table."""

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Text:
        return self.columns[name]

    def without(self, name: str) -> str:
        """That a column is missing, in words."""
        there = ", ".join(map(repr, list(self.columns)[:12]))
        return f"no column {name!r}; columns are {there}"


def read_sheet(path: Path, required: Sequence[str]) -> Sheet:
    """A table of a file.

    Raises:
      TableError: no such file, not a table, a column missing.
    """
    table = _read(path, required)
    columns = {str(name): Text.of(table[name]) for name in table.columns}
    return Sheet(path, columns, table.index.to_numpy())


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
