"""A command's report: on screen, and the figure of its folder."""

import io
import re
import sys

import numpy as np
import pandas as pd

from jbt.border.report import Report, Section
from jbt.experiments import plots

TABLE = pd.DataFrame({"model": ["a|b", "long\nname"], "theta": [0.123456, np.nan]})
SECTIONS = [
    Section("Models", ["two of them"], TABLE),
    Section("How to read this", ["with care"], detail=True),
]
REPORT = Report("Fit of *v*", ["read 2 rows"], SECTIONS, answer=["a is best"])


def test_on_screen_columns_are_aligned_and_nothing_moves_the_cursor():
    lines = REPORT.text().splitlines()
    assert lines[:4] == ["a is best", "", "Models", "two of them"]
    assert lines[4:8] == ["model       theta", "a|b        0.1235", "long name", ""]
    assert lines[8:] == ["Notes", "read 2 rows", "", "--verbose adds: How to read this"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_colour(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    hostile = Report("t", [], [Section("[bold]x[/bold] :smile:", ["\x1b[2J"])], ["a is best"])
    monkeypatch.setattr(sys, "stdout", Terminal())
    hostile.show()
    text = sys.stdout.getvalue()
    assert "\x1b[36ma is best\x1b[0m" in text
    assert re.sub(r"\x1b\[\d*m", "", text) == hostile.text() + "\n"


def test_names_are_no_tex_and_lacking_glyphs_are_one_line(tmp_path, capsys):
    figure, ax = plots.new_figure()
    ax.set_yticks(range(3), ["a$x$b", "$x_{$", "\u4e2d\u6587"])
    REPORT.write(tmp_path, TABLE, figure)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())
    assert "the font lacks 2 characters of the names;" in capsys.readouterr().err


NAMES = [
    "$(touch done) `touch done`",
    "<script>alert(1)</script>\\|[a](b)",
    "\x1b[2J\x1b]0;title\x07\x9b31mred",
    "a\u2028b\x85c\x0bd\u202ee",
]
"""Names that mean something to a shell, Markdown, HTML or a terminal."""


def test_in_markdown_no_name_is_more_than_text():
    table = pd.DataFrame({"$w_{$|<b>=\x1b[1m": NAMES, "theta": 1.0})
    text = Report(NAMES[1], NAMES, [Section(NAMES[1], NAMES, table)], NAMES).markdown("figure.png")
    assert not re.search(r"[^\n -~\u00a1-\U0010ffff]|[\u2028\u202e]", text)
    bare = re.sub(r"\\[\\`*_<>|\[\]#]", "", text).replace("](figure.png)", "")
    assert not re.search(r"[`<]|\]\(", bare)
    (block,) = re.findall(r"(?:^\|.*\n)+", bare, re.MULTILINE)
    assert len({line.count("|") for line in block.splitlines()}) == 1
