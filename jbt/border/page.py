"""One HTML page of several reports, which opens without a network: style and figures stand in it.

Whatever a user's tables say is text: it is escaped, and figures are images, in which nothing runs.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

import pandas as pd

from jbt import __version__
from jbt.border import plots
from jbt.border.report import Report, Section, cells_of, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --accent: #56b4e9; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; border-top: 1px solid var(--line); padding-top: 1.2rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin-bottom: .3rem; overflow-wrap: anywhere; }
.answer { border-left: 4px solid var(--accent); padding: .1rem 1rem; font-size: 1.05rem; }
p, li { overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; max-width: 22rem; overflow-wrap: break-word; }
td:first-child { min-width: 6rem; }
td:not(:first-child) { white-space: nowrap; }
.number { text-align: right; }
img { max-width: 100%; background: #fff; border-radius: 4px; }
code, pre { font: .85rem/1.5 ui-monospace, monospace; background: var(--soft); }
pre { padding: .6rem; overflow-x: auto; }
summary { cursor: pointer; font-weight: 600; margin-top: .8rem; }
"""


@dataclass(frozen=True, eq=False)
class Chapter:
    """A part of a page."""

    title: str
    report: Report
    """Its own title is not shown."""
    figure: Figure | None = None
    command: str | None = None
    """What prints this part."""
    answered: bool = True
    """Whether its report's answer is shown: not where that of the page says it."""


def page(title: str, answer: Sequence[str], chapters: Sequence[Chapter]) -> str:
    """The page: its title, the answer, a chapter for each part."""
    body = [f"<h1>{_text(title)}</h1>", '<div class="answer">']
    body += [*(f"<p>{_text(line)}</p>" for line in answer), "</div>"]
    for chapter in chapters:
        body += _chapter(chapter)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="generator" content="jbt {__version__}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _text(text: object) -> str:
    return escape(printable(str(text)))


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f"<section>\n<h2>{_text(chapter.title)}</h2>"
    if chapter.answered:
        yield from (f"<p>{_text(line)}</p>" for line in chapter.report.answer)
    if chapter.figure is not None:
        image = BytesIO()
        plots.save(chapter.figure, image, kind="svg")
        source = base64.b64encode(image.getvalue()).decode()
        alt = f"Figure: {chapter.report.title}"
        yield f'<p><img alt="{_text(alt)}" src="data:image/svg+xml;base64,{source}"></p>'
    for section in chapter.report.ordered():
        yield from _section(section)
    if chapter.command is not None:
        yield f"<p>Printed by <code>{_text(chapter.command)}</code></p>"
    yield "</section>"


def _section(section: Section) -> Iterator[str]:
    title = _text(section.title)
    yield f"<details><summary>{title}</summary>" if section.detail else f"<h3>{title}</h3>"
    if section.lines:
        yield "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in section.lines) + "</ul>"
    if section.table is not None:
        yield _table(section.table)
    if section.detail:
        yield "</details>"


def _table(table: pd.DataFrame) -> str:
    right = [pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes]
    kinds = [' class="number"' if is_right else "" for is_right in right]
    rows = [
        "".join(
            f"<{tag}{kind}>{_text(cell)}</{tag}>" for cell, kind in zip(row, kinds, strict=True)
        )
        for tag, row in zip(["th", *["td"] * len(table)], cells_of(table), strict=True)
    ]
    lines = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return f'<div class="scroll"><table>\n{lines}</table></div>'
