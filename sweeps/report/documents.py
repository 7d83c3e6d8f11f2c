"""Tables and numbers in the documents, made from the results that are kept beside them.

README and `docs/**/*.md` mark what is made from `docs/results/NAME.csv` (`kept.py`):

    <!-- table crossing_factors quantity=crossing factor!=law
    - factor | value
    - covariate | continuous | covariate=continuous
    - c* | 2 | factor=bias value=2
    paper | paper:.2f
    ours |
    95 % of studies | range+verdict:.2f
    -->
    (a blank line, the table, a blank line)
    <!-- /table -->

    <!-- claims --> (the table of `sweeps/claims.csv`) <!-- /claims -->

    crosses at <!-- = crossing quantity=crossing -->0.421 [0.414, 0.428]<!-- -->

The first line of a table names the results and chooses rows of them. The lines that begin with `-`
are the rows of the page's table, their heading first, each with further choices after the last `|`.
Each other line is a column: its heading, `|`, further choices and what to show. A choice is
`column=value`, `column=value,value` (any of them; a comma before a space belongs to the value),
`column=` (empty) or `column!=value`; a value with spaces needs quotes. A later choice replaces an
earlier one of the same column, a row's that of a column of the page. To show there are

    estimate    the estimate and its interval (default)
    point       the estimate alone
    range       where 95 % of studies of the paper's size lie
    verdict     whether the paper's number is consistent: a tick, a cross, or "calibrated"
    COLUMN      any column of the table

or several joined by `+`; then `:` and Python's format of the numbers, default .3f. Where the paper
has two numbers, a cell shows both. A cell without a row of the results is empty.

`claims.csv` has a line a claim: the claim, where the paper makes it, a verdict and a note for
judges of one bias and for judges whose bias may grow with quality (empty where that was not tried),
the pages of `docs` that decide it, and the rows of results that bear on it (`NAME column=value
...`). Numbers in a note stand in braces, `{NAME column=value ... part:format}`.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .runs import OUTCOME, read

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = Path(__file__).resolve().parents[1] / "claims.csv"

PARTS = {
    "estimate": ("estimate", "ci_low", "ci_high"),
    "range": ("replicate_low", "replicate_high"),
    "point": ("estimate",),
    "verdict": ("consistent",),
}
MARKS = {"yes": "✓", "no": "✗"}
VERDICTS = ("holds", "not contradicted", "contradicted", "depends", "not tested", "")


@dataclasses.dataclass(frozen=True)
class Results:
    """The tables of results, and which of their rows were chosen."""

    table_of: Callable[[str], pd.DataFrame]
    """Name of results -> their table, every cell a text."""
    used: dict[str, set[int]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(set)
    )
    """Name of results -> rows that were chosen."""

    def rows(self, name: str, where: Mapping[str, str]) -> pd.DataFrame:
        """The rows that choices leave, perhaps none.

        Raises:
          ValueError: no such column.
        """
        rows = self.table_of(name)
        for choice, values in where.items():
            column = choice.removesuffix("!")
            if column not in rows:
                raise ValueError(f"no column {column}, only {', '.join(map(str, rows))}")
            rows = rows[rows[column].isin(re.split(",(?! )", values)) != choice.endswith("!")]
        self.used[name].update(rows.index)
        return rows


def parsed(text: str) -> tuple[dict[str, str], str]:
    """The choices `column=value`, and what to show, `part+part:format`.

    Raises:
      ValueError: two words that say what to show.
    """
    words = shlex.split(text)
    shown = [word for word in words if "=" not in word] or ["estimate"]
    if len(shown) > 1:
        raise ValueError(f"what to show is said twice: {' and '.join(shown)}")
    return dict(word.split("=", 1) for word in words if "=" in word), shown[0]


def asked(text: str, results: Results) -> tuple[pd.DataFrame, str]:
    """The rows that `NAME column=value ... part:format` chooses, and what to show of them.

    Raises:
      ValueError: there is no such row.
    """
    name, _, choice = text.partition(" ")
    where, shown = parsed(choice)
    rows = results.rows(name, where)
    if rows.empty:
        raise ValueError(f"no row has {' '.join(choice.split())}")
    return rows, shown


def cell(rows: pd.DataFrame, shown: str) -> str:
    """What to show of a row, or of the same row beside each number of the paper.

    Raises:
      ValueError: rows that differ in more than the paper's number; no such part of a row.
    """
    setting = [column for column in rows if column not in OUTCOME]
    if len(rows) > 1 and (vague := [c for c in setting if rows[c].nunique() > 1]):
        raise ValueError(f"{len(rows)} rows, which differ in {', '.join(map(str, vague))}")
    parts, _, spec = shown.partition(":")
    texts = [
        " ".join(filter(None, (part_of(row, part, spec or ".3f") for part in parts.split("+"))))
        for row in rows.to_dict("records")
    ]
    return " / ".join(dict.fromkeys(texts))


def part_of(row: Mapping[Any, str], part: str, spec: str) -> str:
    """A part of a row as text, empty where the row has none.

    Raises:
      ValueError: no such part.
    """
    columns = PARTS.get(part, (part,))
    if columns[0] not in row:
        raise ValueError(f"cannot show {part}: no column of that name")
    first, *ends = (number(row[column], spec) for column in columns)
    if part == "range":
        return f"{first or 'none'} to {ends[0] or 'none'}" if first or ends[0] else ""
    return f"{first} [{', '.join(ends)}]" if ends and all(ends) else MARKS.get(first, first)


def number(text: str, spec: str) -> str:
    """A number of a table, rounded, with a minus sign that is one; other texts as they are."""
    try:
        value = float(text)
    except ValueError:
        return text
    rounded = format(value, spec) if math.isfinite(value) else text
    if float(re.sub(r"[%,]", "", rounded)) == 0:
        rounded = rounded.replace("-", "")  # no zero is negative
    return rounded.replace("-", "\N{MINUS SIGN}")


# --- what marks make


def value(text: str, results: Results) -> str:
    """The number that `asked` chooses, in a sentence.

    Raises:
      ValueError: it is not there, or there is more than one.
    """
    return cell(*asked(text, results))


def table(text: str, results: Results) -> str:
    """The table that the lines of a mark ask for.

    Raises:
      ValueError: there is no heading, row or column; a row or column of the page without any of
        the results, or a cell with two.
    """
    first, *lines = text.strip().splitlines()
    heading, *rows = [line[2:] for line in lines if line.startswith("- ")] or [""]
    columns = [line for line in lines if not line.startswith("- ")]
    if not heading or not rows or not columns:
        raise ValueError("needs '- HEADING', rows '- LABEL | CHOICES', and columns")
    for line in (*rows, *columns):
        asked(f"{first} {line.rpartition('|')[2]}", Results(results.table_of))
    name, _, choice = first.partition(" ")
    made = []
    for row in rows:
        label, _, own = row.rpartition("|")
        cells = [label.strip()]
        for column in columns:
            where, shown = parsed(f"{choice} {column.rpartition('|')[2]} {own}")
            chosen = results.rows(name, where)
            cells.append("" if chosen.empty else cell(chosen, shown))
        made.append(cells)
    return markdown_table([heading, *(c.rpartition("|")[0].strip() for c in columns)], made)


def markdown_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a head or a label may be of several columns, `a | b`."""
    first = "| " + " | ".join(heads) + " |"
    under = "| " + " | ".join(["---"] * (first.count(" | ") + 1)) + " |"
    return "\n".join([first, under, *("| " + " | ".join(line) + " |" for line in lines)])


def claims(_: str, results: Results) -> str:
    """The verdicts counted, and the table of claims.

    Raises:
      ValueError: an unknown verdict; rows or numbers that are not there.
    """
    forms = ["one_bias", "growing_bias"]
    heads, lines = ["one bias a judge", "if it may grow"], []
    table = read(CLAIMS)
    if unknown := set(table[forms].to_numpy().ravel()) - set(VERDICTS):
        raise ValueError(f"unknown verdict {unknown.pop()!r}")
    for claim in table.to_dict("records"):
        if claim["support"]:
            asked(claim["support"], results)  # the rows that bear on it are there
        first, *others = claim["pages"].split()
        links = [f"[{claim['claim']}]({first})"]
        links += [f"[{Path(p.partition('#')[0]).stem.replace('-', ' ')}]({p})" for p in others]
        cells = [", ".join(links)]
        for form in forms:
            verdict, note = claim[form], claim[f"{form}_note"]
            note = re.sub(r"\{(.*?)\}", lambda match: value(match[1], results), note)
            joint = " on** " if verdict == "depends" and note else "**: " if note else "**"
            cells.append(f"**{verdict}{joint}{note}" if verdict else note or "not tried")
        lines.append(cells)
    counts = [
        [verdict or "not tried", *(str((table[form] == verdict).sum()) for form in forms)]
        for verdict in VERDICTS
    ]
    counted = markdown_table(["verdict", "one bias", heads[1]], counts)
    return counted + "\n\n" + markdown_table(["claim", *heads], lines)


MARKED: tuple[tuple[str, Callable[[str, Results], str]], ...] = (
    (r"(<!-- claims( )-->\n).*?(<!-- /claims -->)", claims),
    (r"(<!-- table (.*?)-->\n).*?(<!-- /table -->)", table),
    (r"(<!-- = (.*?) -->).*?(<!-- -->)", value),
)
"""What is marked (before it, what it asks for, after it), and what makes it."""


def renewed(text: str, results: Results, page: str = "page") -> str:
    """A page with all that is marked made anew.

    Raises:
      ValueError: a mark that cannot be made; the message quotes it.
    """

    def made(make: Callable[[str, Results], str], match: re.Match[str]) -> str:
        before, text, after = match.groups()
        try:
            shown = make(text, results)
        except ValueError as error:
            mark = text.partition("\n")[0].strip() or "claims"
            raise ValueError(f"{page}: <!-- {mark} ...: {error}") from None
        return before + (f"\n{shown}\n\n" if before.endswith("\n") else shown) + after

    for pattern, make in MARKED:
        text = re.sub(pattern, functools.partial(made, make), text, flags=re.DOTALL)
    return text


def pages() -> list[Path]:
    """The documents that may hold marks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renew(results: Results) -> list[str]:
    """Write all documents anew; returns those that changed.

    Raises:
      ValueError: a mark that cannot be made; then nothing is written.
    """
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages()}
    new = {name: renewed(text, results, name) for name, text in texts.items()}
    changed = [name for name in new if new[name] != texts[name]]
    for name in changed:
        (ROOT / name).write_text(new[name], encoding="utf-8")
    return changed
