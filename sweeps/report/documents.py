"""Tables and numbers in the documents, made from the results that are kept beside them.

README and `docs/**/*.md` mark what is made from `docs/results/NAME.csv` (`kept.py`):

    <!-- table crossing_factors quantity=crossing factor!=law by=factor,value
    paper | covariate=continuous paper:.2f
    continuous x | covariate=continuous
    95 % of studies | covariate=continuous range+verdict:.2f
    -->
    (a blank line, the table, a blank line)
    <!-- /table -->

    <!-- claims --> (the table of `claims.csv`) <!-- /claims -->

    crosses at <!-- = crossing quantity=crossing -->0.421 [0.414, 0.428]<!-- -->

The first line of a table names the results and chooses rows of them; the values of the columns
after `by` name the rows of the page's table. Each further line is a column: its heading, `|`,
further choices and what to show. A choice is `column=value`, `column=value,value` (any of them),
`column=` (empty) or `column!=value`; a value with spaces needs quotes. A later choice replaces an
earlier one of the same column. To show there are

    estimate    the estimate and its interval (default)
    point       the estimate alone
    range       where 95 % of studies of the paper's size lie
    verdict     whether the paper's number is consistent: a tick, a cross, or "calibrated"
    COLUMN      any column of the table

or several joined by `+`; then `:` and Python's format of the numbers, default .3f. A heading with
a column in braces stands for one column a value: `B = {budget} | budget=60,120`. Where the paper
has two numbers, a cell shows both. A cell without a row is empty.

Rows that no column of the results names are lines of their own, the heading first:

    - choice
    - baseline |
    - larger spread | sd=1.25

Names of rules, judges and so on come from `names.csv`.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from jbt.simulation.judges import PUBLISHED

from . import claims
from .runs import OUTCOME

ROOT = Path(__file__).resolve().parents[2]
NAMES = Path(__file__).with_name("names.csv")

TABLE = re.compile(r"<!-- table (.*?)-->\n.*?<!-- /table -->", re.DOTALL)
CLAIMS = re.compile(r"<!-- claims -->\n.*?<!-- /claims -->", re.DOTALL)
INLINE = re.compile(r"<!-- = (.*?) -->.*?<!-- -->", re.DOTALL)

DEFAULT_FORMAT = ".3f"
PARTS = {
    "estimate": ("estimate", "ci_low", "ci_high"),
    "point": ("estimate",),
    "range": ("replicate_low", "replicate_high"),
}
MARKS = {"yes": "✓", "no": "✗"}


def pages() -> list[Path]:
    """The documents that may hold marks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@functools.cache
def names() -> dict[tuple[str, str], str]:
    """(column, value) -> what people read; (column, "") -> the name of the column."""
    with NAMES.open(encoding="utf-8", newline="") as file:
        return {(row["column"], row["value"]): row["name"] for row in csv.DictReader(file)}


def name_of(column: str, value: str = "") -> str:
    """What people read for a value of a column, or for the column."""
    if column == "judge" and value in PUBLISHED:
        return PUBLISHED[value].model
    return names().get((column, value), (value or column).replace("_", " "))


# --- what a mark asks for


@dataclasses.dataclass(frozen=True)
class Choice:
    """Rows of a table, and what to show of them."""

    where: dict[str, str]
    """column, or column! for all others -> values, separated by commas."""
    parts: tuple[str, ...] = ("estimate",)
    spec: str = DEFAULT_FORMAT

    @classmethod
    def parse(cls, words: Sequence[str]) -> Choice:
        """Read `column=value` and `part+part:format`.

        Raises:
          ValueError: two words that say what to show.
        """
        pairs = [word.partition("=") for word in words if "=" in word]
        where = {column: values for column, _, values in pairs}
        shown = [word for word in words if "=" not in word]
        if len(shown) > 1:
            raise ValueError(f"what to show is said twice: {' and '.join(shown)}")
        parts, _, spec = (shown[0] if shown else "estimate").partition(":")
        return cls(where, tuple(parts.split("+")), spec or DEFAULT_FORMAT)

    def within(self, where: dict[str, str]) -> Choice:
        """This choice among the rows of an earlier one."""
        return dataclasses.replace(self, where=_replaced(where, self.where))

    def only(self, column: str, value: str) -> Choice:
        """This choice with one value of a column."""
        return dataclasses.replace(self, where={**self.where, column: value})

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """The chosen rows, perhaps none.

        Raises:
          ValueError: no such column.
        """
        chosen = pd.Series(True, table.index)
        for name, values in self.where.items():
            column = name.removesuffix("!")
            if column not in table:
                raise ValueError(f"no column {column}, only {', '.join(map(str, table))}")
            wanted = [text for value in values.split(",") for text in (value, _plain(value))]
            chosen &= table[column].isin(wanted) != name.endswith("!")
        return table[chosen]

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """The chosen rows.

        Raises:
          ValueError: no such column, or no such row.
        """
        rows = self.rows(table)
        if rows.empty:
            raise ValueError(f"no row has {' '.join(f'{c}={v}' for c, v in self.where.items())}")
        return rows

    def cell(self, rows: pd.DataFrame) -> str:
        """What to show of a row, or of the same row beside each number of the paper.

        Raises:
          ValueError: rows that differ in more than the paper's number.
        """
        setting = [c for c in rows if c not in OUTCOME]
        if vague := [c for c in setting if rows[c].nunique() > 1]:
            raise ValueError(f"{len(rows)} rows, which differ in {', '.join(map(str, vague))}")
        texts = [
            " ".join(filter(None, (shown(row, part, self.spec) for part in self.parts)))
            for row in rows.to_dict("records")
        ]
        return " / ".join(dict.fromkeys(texts))


def _replaced(where: dict[str, str], later: dict[str, str]) -> dict[str, str]:
    """Choices of columns, with later ones in place of earlier ones of the same column."""
    columns = {column.rstrip("!") for column in later}
    return {c: v for c, v in where.items() if c.rstrip("!") not in columns} | later


def _plain(text: str) -> str:
    """A number as tables write it."""
    try:
        return f"{float(text):.6g}"
    except ValueError:
        return text


def shown(row: dict[Any, str], part: str, spec: str = DEFAULT_FORMAT) -> str:
    """A part of a row as text; empty where the row has none.

    Raises:
      ValueError: no such part.
    """
    if part == "verdict":
        return MARKS.get(row["consistent"], row["consistent"])
    columns = PARTS.get(part, (part,))
    if columns[0] not in row:
        raise ValueError(f"cannot show {part}: no column of that name")
    first, *ends = (number(row[column], spec) for column in columns)
    if part == "range":
        return f"{first or 'none'} to {ends[0] or 'none'}" if first or ends[0] else ""
    return f"{first} [{', '.join(ends)}]" if ends and all(ends) else first


def number(text: str, spec: str = DEFAULT_FORMAT) -> str:
    """A number of a table, rounded, with a minus sign that is one; other texts as they are."""
    try:
        value = float(text)
    except ValueError:
        return text
    rounded = format(value, spec) if math.isfinite(value) else text
    if float(re.sub(r"[%,]", "", rounded)) == 0:
        rounded = rounded.replace("-", "")  # no zero is negative
    return rounded.replace("-", "\N{MINUS SIGN}")


TableOf = Callable[[str], pd.DataFrame]
"""Name of results -> their table."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """What a marked table asks for."""

    name: str
    """Of the results."""
    by: list[str]
    """Columns whose values name a row."""
    heading: list[str]
    """Of the rows that are lines of their own: one or none."""
    rows: dict[str, dict[str, str]]
    """Name of such a row -> its choices; where there are none, one without a name."""
    columns: dict[str, Choice]
    """Heading -> choice."""

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Read the lines of a mark.

        Raises:
          ValueError: nothing names a row, or a line has no heading.
        """
        first, *lines = text.strip().splitlines()
        name, *words = shlex.split(first)
        by = [w.removeprefix("by=").split(",") for w in words if w.startswith("by=")]
        everywhere = Choice.parse([w for w in words if not w.startswith("by=")])
        heading = [line[2:].strip() for line in lines if line.startswith("- ") and "|" not in line]
        rows: dict[str, dict[str, str]] = {}
        columns: dict[str, Choice] = {}
        for line in lines or ["estimate |"]:
            label, bar, rest = map(str.strip, line.partition("|"))
            if label.startswith("- "):
                if bar:
                    rows[label[2:].strip()] = Choice.parse(shlex.split(rest)).where
            elif bar:
                choice = Choice.parse(shlex.split(rest))
                columns |= _spread(label, choice.within(everywhere.where))
            else:
                raise ValueError(f"a column needs a heading and |, got {line!r}")
        if not (by or rows) or len(heading) != bool(rows):
            raise ValueError("by=COLUMN,... must say what names a row, or '- HEADING' and rows")
        return cls(name, by[0] if by else [], heading, rows or {"": {}}, columns)

    def choices(self) -> Iterator[Choice]:
        """What each cell shows, but for the columns that name a row."""
        for where in self.rows.values():
            for choice in self.columns.values():
                yield dataclasses.replace(choice, where=_replaced(choice.where, where))

    def markdown(self, table: pd.DataFrame) -> str:
        """The table of these rows.

        Raises:
          ValueError: a row or column without any rows of the results, or two of them in a cell.
        """
        if absent := [c for c in self.by if c not in table]:
            raise ValueError(f"no column {absent[0]}, only {', '.join(map(str, table))}")
        for choice in self.columns.values():
            choice.of(table)
        parts = [choice.rows(table) for choice in self.choices()]
        chosen = table.loc[sorted({i for part in parts for i in part.index})]
        keys = chosen[self.by].drop_duplicates().to_dict("records") if self.by else [{}]
        headings = [*map(name_of, self.by), *self.heading, *self.columns]
        lines = [headings, ["---"] * len(headings)]
        for key in keys:
            cells = iter(zip(self.choices(), parts, strict=True))
            for label in self.rows:
                line = [name_of(str(column), value) for column, value in key.items()]
                line += [label] * len(self.heading)
                row = [next(cells) for _ in self.columns]
                found = [part[_has(part, key)] for _, part in row]
                if all(part.empty for part in found):
                    continue
                texts = ["" if p.empty else c.cell(p) for (c, _), p in zip(row, found, strict=True)]
                lines.append(line + texts)
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _has(rows: pd.DataFrame, key: dict[Any, str]) -> pd.Series:
    """Whether each row has these values."""
    same = pd.Series(True, rows.index)
    for column, value in key.items():
        same &= rows[column] == value
    return same


def _spread(heading: str, choice: Choice) -> dict[str, Choice]:
    """One column for each value of the column that a heading has in braces."""
    braced = re.search(r"\{(\w+)\}", heading)
    if not braced:
        return {heading: choice}
    column = braced[1]
    if column not in choice.where:
        raise ValueError(f"{heading}: needs {column}=VALUE,...")
    return {
        heading.replace(braced[0], name_of(column, value)): choice.only(column, value)
        for value in choice.where[column].split(",")
    }


def value(text: str, table_of: TableOf) -> str:
    """The number that `NAME column=value ... part:format` asks for.

    Raises:
      ValueError: it is not there, or there is more than one.
    """
    name, *words = shlex.split(text)
    choice = Choice.parse(words)
    return choice.cell(choice.of(table_of(name)))


# --- the documents


def renewed(text: str, table_of: TableOf, page: str = "page") -> str:
    """A page with all that is marked made anew.

    Raises:
      ValueError: a mark that cannot be made; the message quotes it.
    """

    def made(match: re.Match[str], make: Callable[[str], str]) -> str:
        asked = match[1] if match.re.groups else ""
        try:
            return make(asked)
        except ValueError as error:
            mark = asked.partition("\n")[0] or "claims"
            raise ValueError(f"{page}: <!-- {mark} ...: {error}") from None

    def table(text: str) -> str:
        mark = Mark.parse(text)
        return f"<!-- table {text}-->\n\n{mark.markdown(table_of(mark.name))}\n\n<!-- /table -->"

    def inline(text: str) -> str:
        return f"<!-- = {text} -->{value(text, table_of)}<!-- -->"

    def of_claims(_: str) -> str:
        made = claims.markdown(claims.read(), lambda text: value(text, table_of))
        return f"<!-- claims -->\n\n{made}\n\n<!-- /claims -->"

    text = CLAIMS.sub(lambda match: made(match, of_claims), text)
    text = TABLE.sub(lambda match: made(match, table), text)
    return INLINE.sub(lambda match: made(match, inline), text)


def choices(name: str) -> Iterator[Choice]:
    """What the documents choose from the results of this name."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in TABLE.finditer(text):
            mark = Mark.parse(match[1])
            yield from mark.choices() if mark.name == name else ()
        numbers = [match[1] for match in INLINE.finditer(text)]
        if CLAIMS.search(text):
            numbers += claims.asked()
        for asked in numbers:
            first, *words = shlex.split(asked)
            yield from [Choice.parse(words)] if first == name else ()


def renew(table_of: TableOf) -> list[Path]:
    """Write all documents anew; returns those that changed.

    Raises:
      ValueError: a mark that cannot be made; then nothing is written.
    """
    texts = {page: page.read_text(encoding="utf-8") for page in pages()}
    new = {
        page: renewed(text, table_of, str(page.relative_to(ROOT))) for page, text in texts.items()
    }
    changed = [page for page in new if new[page] != texts[page]]
    for page in changed:
        page.write_text(new[page], encoding="utf-8")
    return changed
