"""A command's report: on screen, as Markdown, and in a folder."""

import csv
import io
import re
import sys

import numpy as np
import pandas as pd
import pytest

from jbt.border.outputs import NAMES
from jbt.border.report import Report, Section, cut, signed, with_interval
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
    assert REPORT.text(verbose=True).splitlines() == [*lines[:-1], "How to read this", "with care"]
    assert Report("t", [], [], answer=["\x1b[2J\rred"]).text() == " [2J red"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_colour_and_a_pipe_the_plain_text(monkeypatch, capsys):
    REPORT.show()
    assert capsys.readouterr().out == REPORT.text() + "\n"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = {}
    for colour in (True, False):
        if not colour:
            monkeypatch.setenv("NO_COLOR", "1")
        hostile = Report("t", [], [Section("[bold]x[/bold] :smile:", ["\x1b[2J"])], ["a is best"])
        monkeypatch.setattr(sys, "stdout", Terminal())
        hostile.show()
        shown[colour] = sys.stdout.getvalue()
    assert "\x1b[36ma is best\x1b[0m" in shown[True]
    for text in shown.values():
        assert re.sub(r"\x1b\[\d*m", "", text) == hostile.text() + "\n"


def test_wide_names_are_cut_in_the_middle_and_stay_apart():
    long = "x" * 20 + "y" * 40 + "z" * 20
    assert cut(["short", long]) == ["short", "x" * 17 + "\u2026" + "z" * 18]
    twins = ["x" * 20 + letter + "z" * 20 for letter in "ab"]
    assert cut(twins) == twins
    assert cut(["w" * 36]) == ["w" * 36]


def test_a_report_is_written_whole_or_not_at_all(tmp_path):
    """In Markdown names stand as they are."""
    out = tmp_path / "new" / "folder"
    REPORT.write(out, TABLE, plots.new_figure()[0])
    assert sorted(p.name for p in out.iterdir()) == sorted(NAMES)
    text = (out / "report.md").read_text().splitlines()
    assert text[0] == r"# Fit of \*v\*"
    assert {r"| a\|b | 0.1235 |", "| long name |  |", r"![Fit of \*v\*](figure.png)"} <= {*text}
    with (out / "table.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["model", "theta"], ["a|b", "0.123456"], ["long\nname", ""]]
    before = (out / "table.csv").read_bytes()
    (out / "report.md").unlink()
    (out / "report.md").mkdir()  # cannot be replaced by a file
    (out / "report.md" / "mine").touch()
    with pytest.raises(ValueError, match="cannot write"):
        REPORT.write(out, TABLE[:1], plots.new_figure()[0])
    assert (out / "table.csv").read_bytes() == before
    with pytest.raises(ValueError, match="cannot write to"):
        REPORT.write(out / "table.csv" / "below", TABLE, plots.new_figure()[0])


def test_names_are_no_tex_and_lacking_glyphs_are_one_line(tmp_path, capsys):
    figure, ax = plots.new_figure()
    ax.set_yticks(range(4), ["a$b", "a$x$b", "$x_{$", "\u4e2d\u6587"])
    ax.set_title("$x_{$")
    REPORT.write(tmp_path, TABLE, figure)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert not any(t.get_parse_math() for t in (ax.title, *ax.get_yticklabels()))
    shown = capsys.readouterr().err
    assert shown == (
        "figure.png: the font lacks 2 characters of the names; they are drawn as boxes\n"
    )
    # The figure of a sweep has TeX, and what is none is shown as it stands.
    figure, ax = plots.new_figure()
    ax.set_xlabel(plots.RHO_LABEL)
    ax.set_title("judge $x_{$")
    plots.save(figure, tmp_path / "figure.png")
    assert ax.xaxis.label.get_parse_math()
    assert not ax.title.get_parse_math()


def test_numbers_with_intervals():
    assert signed(1e-12) == "+0"
    assert signed(np.nan) == "-"
    assert with_interval(0.5, 0.25, 1.0) == "+0.5 [+0.25, +1]"
    assert with_interval(0.5, np.nan, np.nan) == "+0.5"
