"""The report: on one page, the paper's numbers beside those of runs, and all documents."""

from __future__ import annotations

import base64
import html
import importlib.util
import mimetypes
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jbt import __version__
from jbt.experiments import store

from .documents import ROOT, markdown_table, part_of
from .runs import OUTCOME, Run

DOCS = ROOT / "docs"
HEADS = ("quantity", "setting", "ours [95 %]", "95 % of studies of its size", "paper")
HEADS += ("consistent", "in the paper")

ABOUT = """# The paper's numbers beside simulation

Made by `{command}` with jbt {version}, from the tables of the preset `{preset}`. Intervals are 95 %
over pools. *Consistent* says whether the paper's number, to its printed digits, lies among 95 % of
simulated studies of the paper's own size; *calibrated* marks an input, whose agreement shows
nothing; where it is empty, many such studies find no number. Where a choice of ours is varied, each
value is a row. `report.csv` has all rows. Below stand the documents, with the numbers that are kept
beside them."""


def check_tools() -> None:
    """Check that the documents are there, and what makes pages of them.

    Raises:
      ValueError: they are not.
    """
    if not DOCS.is_dir() or importlib.util.find_spec("sphinx_book_theme") is None:
        raise ValueError("the report needs Sphinx: pip install -e '.[docs]' in a checkout of jbt")


def markdown(runs: Sequence[Run], absent: Mapping[str, str], preset: str, command: str) -> str:
    """The beginning of the page: for each run its figure, and its rows beside numbers of the paper.

    Args:
      absent: name of a sweep that is left out -> why.
      preset: of the runs.
      command: that makes the report.
    """
    text = [ABOUT.format(command=command, version=__version__, preset=preset)]
    text += [f"Left out: `{name}`, {reason}." for name, reason in absent.items()]
    for run in runs:
        figure = (run.folder / store.FIGURE).resolve()
        text += [
            f"## {run.name}",
            f"`{run.record['command']}`: {run.record}",
            f'<img alt="Figure of {run.name}" src="{figure}">',
        ]
        if lines := [*beside_paper(run)]:
            text.append(markdown_table(HEADS, lines))
    return "\n\n".join(text) + "\n\n"


def beside_paper(run: Run) -> Iterator[list[str]]:
    """The cells of a run's rows beside numbers of the paper."""
    places = run.places()
    for row, place in zip(run.table.to_dict("records"), places, strict=True):
        if row["paper"]:
            known = [f"{c}={v}" for c, v in row.items() if v and c not in (*OUTCOME, "quantity")]
            setting = " ".join(known).replace("|", "\\|")
            ours, studies = (part_of(row, part, ".3g") for part in ("estimate", "range"))
            of_paper = row["paper"], row["consistent"], place
            yield [row["quantity"], f"`{setting}`", ours, studies, *of_paper]


def one_page(beginning: str) -> str:
    """The site on one page, after a beginning in Markdown, with all that it shows in it.

    Raises:
      ValueError: Sphinx could not make it.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.md")
        report.write_text(beginning, encoding="utf-8")
        options = ["-q", "-b", "singlehtml", "-D", f"report={report}", "-d", f"{folder}/doctrees"]
        sphinx = [sys.executable, "-m", "sphinx", *options, str(DOCS), f"{folder}/site"]
        made = subprocess.run(sphinx, capture_output=True, text=True, check=False)
        if made.returncode:
            raise ValueError(f"Sphinx made no page: {made.stderr.strip()}")
        text = Path(folder, "site", "index.html").read_text(encoding="utf-8")
        text = text.replace(
            "<head>", f'<head><meta name="generator" content="jbt {__version__}">', 1
        )
        return inlined(text, Path(folder, "site"))


def inlined(page: str, folder: Path) -> str:
    """A page with the files in it that it names; one that is not there is not named."""

    def within(match: re.Match[str]) -> str:
        name, path = match[1], folder / match[2].partition("?")[0]
        if not path.is_file():
            return ""
        if path.suffix == ".html":  # browsers open no frame of more than 2 MB of data
            return f'srcdoc="{html.escape(path.read_text(encoding="utf-8"))}"'
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        return f'{name}="data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"'

    return re.sub(r'\b(src|href)="([^"#:]+)"', within, page)
