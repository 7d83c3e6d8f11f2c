"""Tables and numbers in the documents, made from the results that are kept beside them.

README and `docs/**/*.md` mark what is made from `docs/results/NAME.csv` (`kept.py`):

    <!-- table crossing_factors quantity=crossing
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
`column=value`, `column=value,value` (any of them; a comma before a space belongs to the value) or
`column=` (empty); a value with spaces needs quotes. A later choice replaces an earlier one of the
same column, a row's that of a column of the page. To show there are

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

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .runs import OUTCOME, read

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = ROOT / "sweeps" / "claims.csv"

PARTS = {
    "estimate": ("estimate", "ci_low", "ci_high"),
    "range": ("replicate_low", "replicate_high"),
    "point": ("estimate",),
    "verdict": ("consistent",),
}
MARKS = {"yes": "✓", "no": "✗"}
VERDICTS = ("holds", "not contradicted", "contradicted", "depends", "not tested", "")


TableOf = Callable[[str], pd.DataFrame]
"""Name of results -> their table, every cell a text."""


def asked(text: str, table_of: TableOf) -> tuple[pd.DataFrame, str]:
    """The rows, perhaps none, that `NAME column=value ... part:format` chooses, and what to show of
    them."""
    name, *words = shlex.split(text)
    rows, shown, where = table_of(name), "estimate", {}
    for word in words:
        if "=" in word:
            column, where[column] = word.split("=", 1)
        else:
            shown = word
    for column, values in where.items():
        rows = rows[rows[column].isin(re.split(",(?! )", values))]
    return rows, shown


def cell(rows: pd.DataFrame, shown: str) -> str:
    """What to show of a row, or of the same row beside each number of the paper.

    Raises:
      ValueError: rows that differ in more than the paper's number.
    """
    setting = rows.drop(columns=[*OUTCOME], errors="ignore")
    if len(setting.drop_duplicates()) > 1:
        raise ValueError(f"{len(rows)} rows")
    parts, _, spec = shown.partition(":")
    texts = [
        " ".join(filter(None, (part_of(row, part, spec or ".3f") for part in parts.split("+"))))
        for row in rows.to_dict("records")
    ]
    return " / ".join(dict.fromkeys(texts))


def part_of(row: Mapping[Any, str], part: str, spec: str) -> str:
    """A part of a row as text, empty where the row has none."""
    first, *ends = (number(row[column], spec) for column in PARTS.get(part, (part,)))
    if part == "range":
        return f"{first} to {ends[0]}" if first else ""
    return f"{first} [{', '.join(ends)}]" if ends and all(ends) else MARKS.get(first, first)


def number(text: str, spec: str) -> str:
    """A number of a table, rounded, with a minus sign that is one; other texts as they are."""
    try:
        value = float(text)
    except ValueError:
        return text
    rounded = format(value, spec)
    if float(re.sub(r"[%,]", "", rounded)) == 0:
        rounded = rounded.replace("-", "")  # no zero is negative
    return rounded.replace("-", "\N{MINUS SIGN}")


# --- what marks make


def value(text: str, table_of: TableOf) -> str:
    """The number that a mark chooses, in a sentence.

    Raises:
      ValueError: it is not there, or there is more than one.
    """
    rows, shown = asked(text, table_of)
    if rows.empty:
        raise ValueError("no such row")
    return cell(rows, shown)


def table(text: str, table_of: TableOf) -> str:
    """The table that the lines of a mark ask for.

    Raises:
      ValueError: a cell with two rows.
    """
    first, *lines = text.strip().splitlines()
    heading, *rows = [line[2:] for line in lines if line.startswith("- ")]
    columns = [line.rpartition("|") for line in lines if not line.startswith("- ")]
    made = []
    for row in rows:
        label, _, own = row.rpartition("|")
        cells = [cell(*asked(f"{first} {column} {own}", table_of)) for *_, column in columns]
        made.append([label.strip(), *cells])
    return markdown_table([heading, *(head.strip() for head, *_ in columns)], made)


def markdown_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a head or a label may be of several columns, `a | b`."""
    first = "| " + " | ".join(heads) + " |"
    under = "| " + " | ".join(["---"] * (first.count(" | ") + 1)) + " |"
    return "\n".join([first, under, *("| " + " | ".join(line) + " |" for line in lines)])


def claims(_: str, table_of: TableOf) -> str:
    """The verdicts counted, and the table of claims.

    Raises:
      ValueError: numbers that are not there.
    """
    forms = ["one_bias", "growing_bias"]
    heads, lines = ["one bias a judge", "if it may grow"], []
    table = read(CLAIMS)
    for claim in table.to_dict("records"):
        if claim["support"]:
            asked(claim["support"], table_of)
        first, *others = claim["pages"].split()
        links = [f"[{claim['claim']}]({first})"]
        links += [f"[{Path(p.partition('#')[0]).stem.replace('-', ' ')}]({p})" for p in others]
        cells = [", ".join(links)]
        for form in forms:
            verdict, note = claim[form], claim[f"{form}_note"]
            note = re.sub(r"\{(.*?)\}", lambda match: value(match[1], table_of), note)
            joint = " on** " if verdict == "depends" and note else "**: " if note else "**"
            cells.append(f"**{verdict}{joint}{note}" if verdict else note or "not tried")
        lines.append(cells)
    counts = [
        [verdict or "not tried", *(str((table[form] == verdict).sum()) for form in forms)]
        for verdict in VERDICTS
    ]
    counted = markdown_table(["verdict", "one bias", heads[1]], counts)
    return counted + "\n\n" + markdown_table(["claim", *heads], lines)


MARKED: tuple[tuple[str, Callable[[str, TableOf], str]], ...] = (
    (r"(<!-- claims( )-->\n).*?(<!-- /claims -->)", claims),
    (r"(<!-- table (.*?)-->\n).*?(<!-- /table -->)", table),
    (r"(<!-- = (.*?) -->).*?(<!-- -->)", value),
)
"""What is marked (before it, what it asks for, after it), and what makes it."""


def renewed(text: str, table_of: TableOf) -> str:
    """A page with all that is marked made anew.

    Raises:
      ValueError: a mark that cannot be made.
    """
    for pattern, make in MARKED:

        def made(match: re.Match[str], make: Callable[[str, TableOf], str] = make) -> str:
            before, text, after = match.groups()
            try:
                shown = make(text, table_of)
            except (KeyError, ValueError) as error:
                raise ValueError(f"<!-- {text.strip()} -->: {error}") from error
            return before + (f"\n{shown}\n\n" if before.endswith("\n") else shown) + after

        text = re.sub(pattern, made, text, flags=re.DOTALL)
    return text


def pages() -> list[Path]:
    """The documents that may hold marks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renew(table_of: TableOf) -> list[str]:
    """Write all documents anew; returns those that changed.

    Raises:
      ValueError: a mark that cannot be made; then nothing is written.
    """
    changed = {}
    for page in pages():
        text = page.read_text(encoding="utf-8")
        try:
            new = renewed(text, table_of)
        except ValueError as error:
            raise ValueError(f"{page.relative_to(ROOT)}: {error}") from error
        if new != text:
            changed[page] = new
    for page, text in changed.items():
        page.write_text(text, encoding="utf-8")
    return [str(page.relative_to(ROOT)) for page in changed]
