"""The command line of the report, and its first page; see `Options`."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from jbt import __version__
from jbt.border import inputs
from jbt.border.exits import exit_code
from jbt.experiments import store

from . import documents, kept
from .runs import OUTCOME, SWEEPS, read, record_of, sweep_names

DOCS = documents.ROOT / "docs"

ABOUT = """# The paper's numbers beside simulation

Made with jbt {version}. Intervals are 95 % over pools.
*Consistent* says whether the paper's number, to its printed digits, lies among 95 % of simulated
studies of the paper's own size; *calibrated* marks an input, whose agreement shows nothing; where
it is empty, many such studies find no number. Where a choice of ours is varied, each value is a
row. `table.csv` in the folder of a run has all its rows. The pages of this site are the documents,
with the numbers that are kept beside them."""
HEADS = ("quantity", "setting", "ours [95 %]", "95 % of studies of its size", "paper")
HEADS += ("consistent",)


@dataclasses.dataclass(frozen=True)
class Options:
    """Run the sweeps that are missing and make a site that opens without a network: all documents,
    after a page with every number of the paper beside ours and figures, which is
    OUT/report/site/index.html. Needs the extra docs. A run that is killed continues when the same
    command is given again."""

    preset: Literal["smoke", "paper", "full"] = "full"
    """Of every sweep."""
    out: Path = Path("results")
    """Folder for results and report."""
    only: tuple[str, ...] = ()
    """These sweeps (default all)."""
    run: bool = True
    """False: only from runs that are there."""
    documents: bool = False
    """Instead make what is marked in README and docs anew from docs/results."""
    collect: Path | None = None
    """Instead keep the tables of the runs in this folder in docs/results, then do as
    --documents."""
    variant: str = ""
    """With --collect: name for runs of other settings than those of the preset full."""


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m sweeps.report`; returns the exit code: 0, or 2 if a sweep failed."""
    given = sys.argv[1:] if argv is None else argv
    return exit_code(
        lambda: report(inputs.parse(Options, given, prog="python -m sweeps.report")),
        interrupted="\ninterrupted; the same command continues",
    )


def report(options: Options) -> int:
    """Do what the options say; returns the exit code."""
    if options.collect:
        print("written", *kept.collect(options.collect, options.only, options.variant))
        return 0
    if options.documents:
        print("written", *documents.renew(kept.table))
        return 0
    if not DOCS.is_dir() or find_spec("sphinx_book_theme") is None:
        raise ValueError("the report needs a checkout and pip install -e '.[docs]'")
    names, failed = options.only or sweep_names(), []
    for name in names if options.run else ():
        print(name, file=sys.stderr)
        words = ["-m", f"{SWEEPS}.{name}", "--preset", options.preset, "--out", str(options.out)]
        if subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL).returncode:
            failed.append(name)
    present = [n for n in names if n not in failed and (options.out / n / store.TABLE).is_file()]
    text = [ABOUT.format(version=__version__)]
    text += [f"Left out: `{name}`." for name in names if name not in present]
    for name in present:
        text += section(name, options.out / name)
    with tempfile.TemporaryDirectory() as folder:
        beginning = Path(folder, "report.md")
        beginning.write_text("\n\n".join(text) + "\n\n", encoding="utf-8")
        site = options.out / "report" / "site"
        words = ["-q", "-D", f"report={beginning}", "-d", folder, str(DOCS), str(site)]
        subprocess.run([sys.executable, "-m", "sphinx", *words], check=True)
    print(f"written: {site / 'index.html'}")
    return 2 if failed else 0


def section(name: str, folder: Path) -> Iterator[str]:
    """The paragraphs of a run: how it was made, its figure, rows beside numbers of the paper."""
    record = record_of(name, folder)
    yield f"## {name}"
    yield f"`{record['command']}`, at revision {record['git_revision']}"
    yield f"![Figure of {name}]({os.path.relpath(folder / store.FIGURE, DOCS)})"
    lines = []
    for row in read(folder / store.TABLE).to_dict("records"):
        if row["paper"]:
            known = [f"{c}={v}" for c, v in row.items() if v and c not in (*OUTCOME, "quantity")]
            setting = " ".join(known).replace("|", "\\|")
            ours, studies = (documents.part_of(row, p, ".3g") for p in ("estimate", "range"))
            of_paper = row["paper"], row["consistent"]
            lines.append([row["quantity"], f"`{setting}`", ours, studies, *of_paper])
    if lines:
        yield documents.markdown_table(HEADS, lines)


if __name__ == "__main__":
    raise SystemExit(main())
