"""What a command answers: its report on screen, and with `--out` a folder of Markdown, CSV and a
figure; its numbers as JSON with `--json`.

report = Report("Fit of verdicts.csv", lead, [Section("Judges", ["a sentence"], frame)])
print(report.text())
report.write(Path("results"), frame, figure)
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from jbt.border import files
from jbt.border.outputs import NAMES
from jbt.border.terminal import direct

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST = 36
"""Characters of a name in a table of models."""


@dataclass(frozen=True, eq=False)
class Section:
    """A heading, sentences, and a table below them."""

    title: str
    lines: Sequence[str] = ()
    """Sentences: lines on screen, list items in Markdown."""
    table: pd.DataFrame | None = None
    """Cells hold text, booleans or numbers. Numbers are shown with four digits, undefined ones
    empty; the index is not shown."""
    detail: bool = False
    """Shown on screen with --verbose only."""


@dataclass(frozen=True, eq=False)
class Report:
    """A command's results: the answer, sections, then notes."""

    title: str
    lead: Sequence[str]
    """Notes: what was read, and what it does not support."""
    sections: Sequence[Section]
    answer: Sequence[str] = ()
    """The answer to the command's question, in a line or two."""

    def text(self, *, verbose: bool = False) -> str:
        """Plain text: columns aligned by spaces, no control characters.

        Args:
          verbose: with the sections of detail, which are else only named.
        """
        blocks = self._blocks(verbose=verbose)
        return "\n\n".join("\n".join([*title, *lines]) for title, lines in blocks)

    def show(self, *, verbose: bool = False) -> None:
        """Print the text; on a terminal the answer in colour and headings in bold."""
        stream = direct(sys.stdout)
        if not stream.isatty():
            print(self.text(verbose=verbose))
            return
        from rich.console import Console

        console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        for number, (title, lines) in enumerate(self._blocks(verbose=verbose)):
            if number:
                console.print()
            for heading in title:
                console.print(heading, style="bold")
            for line in lines:
                console.print(line, style="cyan" if not number and self.answer else None)

    def _blocks(self, *, verbose: bool) -> Iterator[tuple[list[str], list[str]]]:
        """The headings and the lines of each part."""
        if self.answer:
            yield [], list(map(printable, self.answer))
        hidden = []
        for section in self.ordered():
            if section.detail and not verbose:
                hidden.append(section.title)
                continue
            table = [] if section.table is None else _aligned(section.table)
            yield [printable(section.title)], list(map(printable, [*section.lines, *table]))
        if hidden:
            yield [], [printable(f"--verbose adds: {'; '.join(hidden)}")]

    def ordered(self) -> list[Section]:
        """All sections, with what was read after the last that is no detail."""
        read = [Section("Notes", self.lead)] if self.lead else []
        return sorted([*self.sections, *read], key=lambda section: section.detail)

    def markdown(self, figure: str | None = None) -> str:
        """The report as Markdown.

        Args:
          figure: file of a figure to show at the end.
        """
        parts = [f"# {_escaped(self.title)}", _items(self.answer)]
        for section in self.ordered():
            parts += [f"## {_escaped(section.title)}", _items(section.lines)]
            if section.table is not None:
                parts.append(_piped(section.table))
        if figure is not None:
            parts.append(f"![{_escaped(self.title)}]({figure})")
        return "\n\n".join(filter(None, parts)) + "\n"

    def write(
        self,
        out: Path,
        table: pd.DataFrame,
        figure: Figure,
        *,
        more: Mapping[str, Any] = MappingProxyType({}),
        overwrite: bool = False,
    ) -> None:
        """Write `report.md`, `table.csv` and `figure.png` to a folder: all, or none.

        Args:
          out: the folder, made if need be.
          table: every number, a row for each estimated quantity; undefined cells are left empty.
          figure: without global state, as from `plots.new_figure`.
          more: further tables and figures, by the name of their file.
          overwrite: see `files.check_replaceable`.

        Raises:
          ValueError: a file cannot be written, or written over.
        """
        from jbt.border import plots

        report, csv, png = NAMES
        contents = {report: self.markdown(png).encode()}
        for name, content in {png: figure, csv: table, **more}.items():
            if isinstance(content, pd.DataFrame):
                rows = content.to_csv(index=False, lineterminator="\n")
                contents[name] = rows.encode()
            else:
                plots.save(content, image := BytesIO())
                contents[name] = image.getvalue()
        contents[report] += files.mark(contents).encode()
        files.make_folder(out)
        files.write_together({out / n: c for n, c in contents.items()}, overwrite=overwrite)


def each(table: pd.DataFrame) -> Iterator[Any]:
    """The rows of a table, with its columns for attributes."""
    return table.itertuples()


def signed(x: float) -> str:
    """A number with three digits and a sign; rounding errors of zero are zero, NaN is a dash."""
    if math.isnan(x):
        return "-"
    return "+0" if abs(x) < 1e-9 else f"{x:+.3g}"


def counted(n: int, noun: str) -> str:
    """Such as `1 pool`, `3 pools`, `2 matches`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}{'es' if noun.endswith('ch') else 's'}"


def range_of(log_likelihood: float) -> str:
    """Largest less smallest log-likelihood; rounding errors of zero are zero."""
    return f"{log_likelihood if log_likelihood > 1e-6 else 0:.1f}"


def with_interval(x: Any, low: Any, high: Any, spec: str = "", unit: str = "") -> str:
    """A number with its interval, if there is one: `+0.3 [+0.1, +0.5]`, `57 % [50, 64]`; a dash if
    it is undefined.

    Args:
      spec: of `format`; default `signed`.
      unit: printed after the number.
    """
    if math.isnan(x):
        return "-"
    spec = spec.replace(".", "z.", 1)  # z: -0.001 is 0.00, not -0.00
    number, *ends = (format(v, spec) if spec else signed(v) for v in (x, low, high))
    defined = not (math.isnan(low) or math.isnan(high))
    return number + unit + (f" [{', '.join(ends)}]" if defined else "")


def percent(share: Any, low: Any = math.nan, high: Any = math.nan, digits: int = 0) -> str:
    """A share in percent, with its interval if there is one; nothing if it is undefined."""
    shares = (100 * share, 100 * low, 100 * high)
    return "" if math.isnan(share) else with_interval(*shares, f".{digits}f", " %")


def cut(names: Collection[str], width: int = WIDEST) -> list[str]:
    """Names with the middle left out of those that are wider, for a table or a figure; names that
    would then be alike stay whole."""
    left, right = -(-width // 2) - 1, width // 2
    short = {name: name for name in names}
    for name in short:
        if len(name) > width:
            short[name] = f"{name[:left]}\u2026{name[-right:]}"
    times = Counter(short.values())
    return [short[name] if times[short[name]] == 1 else name for name in names]


def cells_of(table: pd.DataFrame) -> list[list[str]]:
    """Header and rows as text."""
    return [list(map(str, table.columns))] + [
        [_cell(v) for v in row] for row in table.itertuples(index=False, name=None)
    ]


def _cell(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return ""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def printable(text: str) -> str:
    """The text without characters that move a terminal's cursor or break a line: names come from
    the user."""
    return "".join(c if c.isprintable() else " " for c in text)


def _aligned(table: pd.DataFrame) -> list[str]:
    cells = cells_of(table)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in lines)


def _piped(table: pd.DataFrame) -> str:
    header, *rows = [[_escaped(cell) for cell in row] for row in cells_of(table)]
    rule = ["--:" if pd.api.types.is_numeric_dtype(dtype) else "---" for dtype in table.dtypes]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def _escaped(text: str) -> str:
    """The text with Markdown's characters escaped, so that it is shown literally."""
    return "".join(f"\\{c}" if c in "\\`*_<>|[]#$" else c for c in printable(text))


@runtime_checkable
class Result(Protocol):
    """What one analysis of a user's verdicts found."""

    @property
    def report(self) -> Callable[..., Report]:
        """The result in words, from a title and notes on what was read."""
        ...

    def to_frame(self) -> pd.DataFrame:
        """Every number, a row for each thing estimated."""
        ...

    def record(self) -> Any:
        """As JSON has it; undefined is null."""
        ...

    def figure(self) -> Figure:
        """The result drawn, without matplotlib's global state."""
        ...
