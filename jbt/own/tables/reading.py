"""Files to columns of text: CSV, or Parquet with the extra `parquet`.

CSV may be separated by commas, tabs or semicolons, encoded in UTF-8 or, with a byte order mark, in
UTF-16, and packed by gzip. Nothing is guessed beyond that: a row that does not fit the header, a
quoted field that does not end or bytes that are no text are problems, said with their line.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from jbt.border.inputs import read_bytes
from jbt.own.tables.decoding import NOT_TEXT, Damaged, decode

SHOWN = 20
"""Problems said in full; of the others, how many there are."""

SEPARATORS = ",\t;"

LONGEST_HEADER = 2**20
"""Characters looked at for the header."""

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


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
        self.add_lines(sheet.path, sheet.lines, bad, what)

    def add_lines(
        self, path: Path, lines: np.ndarray, bad: np.ndarray, what: Callable[[int], str]
    ) -> None:
        """`add_rows` of a table whose lines [rows] are known."""
        rows = np.flatnonzero(bad)
        for row in rows[:SHOWN]:
            self.add(path, what(int(row)), int(lines[row]))
        self.count += max(len(rows) - SHOWN, 0)

    def add_empty(self, sheet: Sheet, columns: Sequence[str]) -> None:
        """One problem for each row in which one of these columns, if it is there, is empty."""
        for name in columns:
            if name in sheet:
                self.add_rows(sheet, ~sheet[name].each(bool), lambda _, n=name: f"{n} is empty")

    def check(self) -> None:
        """Raise `TableError` if there are any."""
        if self.count:
            said = [text for _, _, text in sorted(self._found)[:SHOWN]]
            more = self.count - len(said)
            raise TableError("\n".join([*said, *[f"and {more} more problems"] * (more > 0)]))

    def end(self, path: Path, what: str, line: int | None = None) -> NoReturn:
        """A problem after which no more can be found."""
        self.add(path, what, line)
        self.check()
        raise AssertionError


@dataclass(frozen=True, eq=False)
class Text:
    """A column: which of its distinct values each row has."""

    codes: np.ndarray
    """[rows] into `values`."""
    values: list[str]
    """In the order in which they first appear; none that does not."""

    @classmethod
    def of(cls, codes: np.ndarray, values: Iterable[object]) -> Text:
        """A column whose values are in any order, some twice or with spaces around them."""
        stripped = [str(v).strip() for v in values]
        number = {v: i for i, v in enumerate(dict.fromkeys(stripped))}
        once = np.array([number[v] for v in stripped], np.int64)[codes]
        codes, used = pd.factorize(once)
        distinct = list(number)
        return cls(codes, [distinct[i] for i in used])

    @classmethod
    def constant(cls, value: str, rows: int) -> Text:
        return cls(np.zeros(rows, np.int64), [value])

    def each(self, of: Callable[[str], float | bool]) -> np.ndarray:
        """[rows] a function of the values, called once for each that is distinct."""
        return np.array([of(v) for v in self.values])[self.codes]

    def at(self, row: int) -> str:
        return self.values[self.codes[row]]

    def within(self, vocabulary: Sequence[str]) -> np.ndarray:
        """[rows] where each value stands in a list, -1 where it does not."""
        number = {v: i for i, v in enumerate(vocabulary)}
        return np.array([number.get(v, -1) for v in self.values], np.int64)[self.codes]

    def numbers(self) -> np.ndarray:
        """[rows] numbers in decimal notation; NaN for what is none."""
        return self.each(lambda v: float(v) if NUMBER.fullmatch(v) else np.nan)

    def equals(self, other: Text) -> np.ndarray:
        """[rows] where two columns have the same value."""
        return self.codes == other.within(self.values)


@dataclass(frozen=True, eq=False)
class Sheet:
    """Columns of a table as they stand in a file, without spaces around their text."""

    path: Path
    columns: dict[str, Text]
    """Those asked for that are there."""
    lines: np.ndarray
    """[rows] line of the file each begins on; its number from 1 in a Parquet table."""

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Text:
        return self.columns[name]


def read_sheet(
    path: Path, needed: Sequence[str], optional: Sequence[str], problems: Problems
) -> Sheet:
    """Some columns of a table; rows that cannot be read are left out and are problems.

    Raises:
      TableError: what was found so far, where nothing can be made of the file: none there, not
        text, a needed column missing, no rows.
    """
    try:
        if path.suffix == ".parquet":
            sheet = _read_parquet(path, needed, optional, problems)
        else:
            sheet = _read_csv(path, needed, optional, problems)
    except FileNotFoundError:
        problems.end(path, "no such file")
    except OSError as error:
        problems.end(path, f"cannot be read: {(error.strerror or str(error)).splitlines()[0]}")
    for name, column in sheet.columns.items():
        broken = column.each(lambda v: "\n" in v or "\r" in v)
        problems.add_rows(sheet, broken, lambda _, n=name: f"a line break within {n}")
    if not len(sheet):
        problems.check()
        problems.end(path, "no rows below the header")
    return sheet


def column_names(path: Path, needed: Sequence[str]) -> list[str]:
    """All columns of a table.

    Args:
      needed: some that it has.

    Raises:
      TableError: nothing can be made of the file.
    """
    if path.suffix == ".parquet":
        return list(map(str, pd.read_parquet(io.BytesIO(read_bytes(path))).columns))
    problems = Problems()
    return _header(path, _decode(path, problems), set(needed), problems)[0]


def _check_header(
    path: Path,
    header: list[str],
    needed: Sequence[str],
    optional: Sequence[str],
    problems: Problems,
) -> dict[str, int]:
    """Where each column asked for is."""
    for name in dict.fromkeys(h for h in header if h and header.count(h) > 1):
        problems.end(path, f"two columns are called {name!r}")
    for name in needed:
        if name not in header:
            there = ", ".join(map(repr, header[:12])) + ", ..." * (len(header) > 12)
            hint = "; separators are commas, tabs or semicolons" if len(header) == 1 else ""
            problems.end(path, f"no column {name!r}; columns are {there}{hint}")
    for name in optional:
        alike = [h for h in header if h.lower() == name.lower()]
        if alike and name not in alike:
            problems.add(path, f"column {alike[0]!r} has to be called {name!r} to be read")
    return {name: header.index(name) for name in (*needed, *optional) if name in header}


def _read_csv(
    path: Path, needed: Sequence[str], optional: Sequence[str], problems: Problems
) -> Sheet:
    text = _decode(path, problems)
    header, separator = _header(path, text, {*needed, *optional}, problems)
    at = _check_header(path, header, needed, optional, problems)
    sheet = _read_plain(path, text, header, separator, at)
    if sheet is None:
        sheet = _read_careful(path, text, header, separator, at, problems)
    return sheet


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


def find_header(text: str, known: Set[str] = frozenset()) -> tuple[list[str], str]:
    """The header, and the separator with which it has the most names that are known; of those with
    as many, the most names.

    Raises:
      Damaged: there is no header.
    """
    best: tuple[int, int, list[str], str] | None = None
    wrong = []
    for separator in SEPARATORS:
        fields = next(_rows(text[:LONGEST_HEADER], separator), (1, "the file is empty"))[1]
        if isinstance(fields, str):
            wrong.append(fields)
            continue
        found = len(known & set(fields)), len(fields), fields, separator
        if best is None or found[:2] > best[:2]:
            best = found
    if best is None:
        raise Damaged(wrong[0])
    if any("\0" in name for name in best[2]):
        raise Damaged(NOT_TEXT)
    return best[2], best[3]


def _rows(text: str, separator: str) -> Iterator[tuple[int, list[str] | str]]:
    """Each row that is not blank: the line on which it begins, and its fields without spaces around
    them, or what is wrong with it."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = [field.strip() for field in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            yield line, f"not CSV ({error}): is a quote missing?"
            continue
        if any(fields):
            yield line, fields


def _read_careful(
    path: Path,
    text: str,
    header: list[str],
    separator: str,
    at: dict[str, int],
    problems: Problems,
) -> Sheet:
    """Row by row, so that the line of whatever does not fit is known."""
    numbers: list[dict[str, int]] = [{} for _ in at]
    codes = [array("l") for _ in at]
    lines = array("l")
    columns = list(zip(at.values(), numbers, codes, strict=True))
    rows = _rows(text, separator)
    next(rows)
    for line, fields in rows:
        if isinstance(fields, str):
            problems.add(path, fields, line)
        elif len(fields) != len(header):
            what = f"{len(fields)} fields, the header has {len(header)}"
            problems.add(path, what, line)
        elif "\0" in "".join(fields):
            problems.add(path, "holds a NUL character", line)
        else:
            lines.append(line)
            for place, number, code in columns:
                code.append(number.setdefault(fields[place], len(number)))
    texts = (Text(np.frombuffer(code, np.dtype("l")), list(number)) for _, number, code in columns)
    return Sheet(path, dict(zip(at, texts, strict=True)), np.frombuffer(lines, np.dtype("l")))


def _read_plain(
    path: Path, text: str, header: list[str], separator: str, at: dict[str, int]
) -> Sheet | None:
    """What `_read_careful` returns, ten times as fast, if nothing is quoted and every line is a row
    of as many fields as the header: then separators and line ends alone separate fields. None for
    any other file."""
    text = text.replace("\r\n", "\n").removesuffix("\n")
    if any(c in text for c in '"\r\0\ufeff'):
        return None
    data = text.encode()
    units = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(units == ord("\n")), len(units))
    separators = np.searchsorted(np.flatnonzero(units == ord(separator)), ends)
    if not np.all(np.diff(separators, prepend=0) == len(header) - 1):
        return None
    if np.diff(ends, prepend=0).max() > csv.field_size_limit():
        return None
    if len(ends) == 1:
        return None
    table = pd.read_csv(
        io.BytesIO(data),
        sep=separator,
        header=None,
        names=list(range(len(header))),
        usecols=list(at.values()),
        skiprows=1,
        dtype=object,  # anything else may turn "007" into 7
        na_filter=False,
        quoting=csv.QUOTE_NONE,
        skip_blank_lines=False,
        engine="c",
        encoding="utf-8",
    )
    columns = {}
    for name, place in at.items():
        columns[name] = Text.of(*pd.factorize(table[place]))
    some = np.any([column.each(bool) for column in columns.values()], axis=0)
    if len(table) != len(ends) - 1 or not some.all():  # a blank row, to be left out
        return None
    return Sheet(path, columns, np.arange(2, len(ends) + 1))


def _read_parquet(
    path: Path, needed: Sequence[str], optional: Sequence[str], problems: Problems
) -> Sheet:
    try:
        table = pd.read_parquet(io.BytesIO(read_bytes(path)))
    except ImportError:
        problems.end(path, "reading Parquet needs the extra: judge-bt[parquet]")
    except (ValueError, KeyError, TypeError) as error:  # the last two where it is damaged
        problems.end(path, f"not a readable table ({str(error).splitlines()[0]})")
    header = [str(name) for name in table.columns]
    at = _check_header(path, header, needed, optional, problems)
    columns = {}
    for name, place in at.items():
        # 1.0, which is what a nullable integer becomes on the way, is "1" again.
        values = table.iloc[:, place].convert_dtypes().astype("string").fillna("")
        columns[name] = Text.of(*pd.factorize(values))
    return Sheet(path, columns, np.arange(1, len(table) + 1))
