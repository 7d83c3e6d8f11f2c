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
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from jbt import __version__
from jbt.experiments import store

from .documents import CLAIMS, ROOT, Results, markdown_table, parsed, part_of
from .runs import OUTCOME, Run, read

DOCS = ROOT / "docs"
MARKS = ("yes", "no", "calibrated", "not compared")
"""What `consistent` may be on the page."""
COLUMNS = ("sweep", "setting", "quantity", *OUTCOME, "paper_pools", "role", "source", "command")

ABOUT = """# The paper's numbers beside simulation

Made by `{command}` with jbt {version}, from the tables of the preset `{preset}`. Intervals are 95 %
over pools. *Consistent* says whether the paper's number, to its printed digits, lies among 95 % of
simulated studies of the paper's own size; *calibrated* marks an input, whose agreement shows
nothing; *not compared*, that these results have no number for it, or that many such studies find
none. Where a choice of ours is varied, each value is a row. `report.csv` has all rows. Below stand
the documents, with the numbers that are kept beside them.
"""


def check_tools() -> None:
    """Check that the documents are there, and what makes pages of them.

    Raises:
      ValueError: they are not.
    """
    if not DOCS.is_dir() or importlib.util.find_spec("sphinx_book_theme") is None:
        raise ValueError("the report needs Sphinx: pip install -e '.[docs]' in a checkout of jbt")


def frame(runs: Sequence[Run]) -> pd.DataFrame:
    """The rows of all runs with their place in the paper, a setting as `paper.csv` writes it."""
    tables = [pd.DataFrame(columns=pd.Index(COLUMNS))]
    for run in runs:
        setting = run.table.drop(columns=[*OUTCOME, "quantity"]).to_dict("records")
        numbers, fields = run.beside(), ("printed", "pools", "role", "source")
        beside = {
            name: [str(getattr(number, field, "")) for number in numbers]
            for name, field in zip(("paper", *COLUMNS[-4:-1]), fields, strict=True)
        }
        rows = run.table.assign(
            sweep=run.name,
            setting=[" ".join(f"{c}={v}" for c, v in row.items() if v) for row in setting],
            command=run.record["command"],
            **beside,
        )
        tables.append(rows[[*COLUMNS]])
    return pd.concat(tables, ignore_index=True)


def markdown(
    runs: Sequence[Run], rows: pd.DataFrame, absent: Mapping[str, str], preset: str, command: str
) -> str:
    """The beginning of the page.

    Args:
      runs: whose figures are shown.
      rows: theirs, see `frame`.
      absent: name of a sweep that is left out -> why.
      preset: of the runs.
      command: that makes the report.
    """
    rows = rows.assign(
        place=rows.source.str.extract(r"^([^:;(]*[^:;( ])", expand=False),
        consistent=rows.consistent.replace("", MARKS[-1]),
    )
    counts, sections = [], []
    for place, part in rows.groupby("place"):
        counts.append([str(place), *(str((part.consistent == mark).sum()) for mark in MARKS)])
        sections += [f"## {place}", beside_paper(part)]
    figures = [
        f"### {run.name}\n\n`{run.record['command']}`: {run.record}\n\n"
        f'<img alt="Figure of {run.name}" src="{(run.folder / store.FIGURE).resolve()}">'
        for run in runs
    ]
    text = [
        ABOUT.format(command=command, version=__version__, preset=preset),
        markdown_table(["in the paper", *MARKS], counts),
        "## The paper's claims, and how many of the numbers that bear on them agree",
        markdown_table(["claim", "in the paper", "agree"], agreement(runs)),
        *sections,
        "## The runs",
        *figures,
        *(f"Left out: `{name}`, {reason}." for name, reason in absent.items()),
    ]
    return "\n\n".join(text) + "\n\n"


def beside_paper(rows: pd.DataFrame) -> str:
    """Rows beside numbers of the paper."""
    heads = ["sweep", "quantity", "setting", "ours [95 %]", "95 % of studies of its size"]
    heads += ["paper", "its pools", "consistent", "where"]
    lines = []
    for row in rows.to_dict("records"):
        setting = row["setting"].replace("|", "\\|")
        ours, studies = (part_of(row, part, ".3g") for part in ("estimate", "range"))
        line = [row["sweep"], row["quantity"], f"`{setting}`", ours, studies, row["paper"]]
        lines.append([*line, row["paper_pools"], row["consistent"], row["source"]])
    return markdown_table(heads, lines)


def agreement(runs: Sequence[Run]) -> list[list[str]]:
    """Claim, its place in the paper, and how many rows of these runs that bear on it agree."""
    tables = {run.name: run.table for run in runs}
    lines = []
    for claim in read(CLAIMS).to_dict("records"):
        name, _, choice = claim["support"].partition(" ")
        if name in tables:
            rows = Results(tables.__getitem__).rows(name, parsed(choice)[0])
            yes, no = ((rows.consistent == mark).sum() for mark in ("yes", "no"))
            lines += [[claim["claim"], claim["paper"], f"{yes} of {yes + no}"]] * bool(yes + no)
    return lines


def one_page(beginning: str) -> str:
    """The site on one page, after a beginning in Markdown, with all that it shows in it.

    Raises:
      ValueError: Sphinx could not make it.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.md")
        report.write_text(beginning, encoding="utf-8")
        sphinx = [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-b",
            "singlehtml",
            "-D",
            f"report={report}",
        ]
        places = ["-d", f"{folder}/doctrees", str(DOCS), f"{folder}/site"]
        made = subprocess.run([*sphinx, *places], capture_output=True, text=True, check=False)
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
