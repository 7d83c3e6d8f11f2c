"""The report: one HTML file made of finished runs, the paper's numbers and its claims."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from jbt import __version__
from jbt.border import files

from . import claims as claims_file
from .documents import Choice, name_of, number, value
from .figures import svg
from .runs import OUTCOME, Run

TEMPLATE = Path(__file__).with_name("template.html")
HTML, CSV, JSON = "report.html", "report.csv", "report.json"

NOT_COMPARED = "not compared"
MARKS = ("yes", "no", "calibrated", NOT_COMPARED)
"""What `consistent` may be on the page."""

COLUMNS = (
    *("sweep", "setting", "quantity", *OUTCOME),
    *("paper_pools", "role", "source", "command"),
)
"""Of the rows of all runs."""
Row = dict[str, Any]
"""A row of a table; `setting` is a dict of the columns that are not empty, all else text."""

SHOWN_ROWS = 60
"""Rows of an experiment beyond the paper's numbers that the page shows; the CSV has all."""

FORMAT = "#.3g"
LARGE = 1000
"""From here on, numbers are whole."""


def write(
    runs: Sequence[Run],
    absent: dict[str, str],
    preset: str,
    command: str,
    out: Path,
    overwrite: bool = False,
) -> Path:
    """Write the report and the files beside it; returns the path of the page.

    Args:
      runs: in the order of the page.
      absent: name of a sweep that is left out -> why.
      preset: of the runs.
      command: that makes the report.
      out: folder for the files.
      overwrite: see `files.check_replaceable`.

    Raises:
      ValueError: jinja2 is not installed; a file cannot be written, or written over.
    """
    template = environment().from_string(TEMPLATE.read_text(encoding="utf-8"))
    rows = [rows_of(run) for run in runs]
    together = [row for of_run in rows for row in of_run]
    claims = claim_lines(runs)
    html = template.render(
        preset=preset,
        command=command,
        version=__version__,
        marks=MARKS,
        counts=claims_file.counts(claims_file.read()),
        claims=claims,
        parts=parts(together),
        experiments=[experiment(*of_run) for of_run in zip(runs, rows, strict=True)],
        absent=absent,
        files=(CSV, JSON),
    )
    out.mkdir(parents=True, exist_ok=True)
    overwrite |= files.is_own(out / HTML)  # the files beside it bear no mark of their own
    made = {
        "preset": preset,
        "command": command,
        "claims": claims,
        "absent": absent,
        "rows": together,
    }
    texts = {
        CSV: frame(together).to_csv(index=False),
        JSON: json.dumps(made, ensure_ascii=False) + "\n",
        HTML: html,
    }
    for name, text in texts.items():
        files.write_together({out / name: text}, overwrite=overwrite)
    return out / HTML


def environment() -> Any:
    """Jinja's, with escaping.

    Raises:
      ValueError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise ValueError("the report needs jinja2: pip install 'judge-bt[report]'") from None
    return jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def rows_of(run: Run) -> list[Row]:
    """All rows of a run, each with its setting and its number's place in the paper."""
    setting = [c for c in run.table if c not in (*OUTCOME, "quantity")]
    made = []
    for row, beside in zip(run.table.to_dict("records"), run.beside(), strict=True):
        made.append(
            {
                "sweep": run.name,
                "setting": {c: row[c] for c in setting if row[c]},
                "quantity": row["quantity"],
                **{name: row[name] for name in OUTCOME},
                "paper": beside.printed if beside else row["paper"],
                "paper_pools": str(beside.pools) if beside else "",
                "role": beside.role if beside else "",
                "source": beside.source if beside else "",
                "command": run.record["command"],
            }
        )
    return made


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows for the files beside the page; a setting is a text as in `paper.csv`."""
    texts = [" ".join(f"{c}={v}" for c, v in row["setting"].items()) for row in rows]
    written = [{**row, "setting": text} for row, text in zip(rows, texts, strict=True)]
    return pd.DataFrame(written, columns=list(COLUMNS))


# --- what the page shows


def compact(text: str) -> str:
    """A number of any size in three digits, or whole."""
    try:
        large = abs(float(text)) >= LARGE
    except ValueError:
        return text
    return number(text, ",.0f" if large else FORMAT).removesuffix(".")


def interval(row: Row) -> str:
    """An estimate and its 95 % interval."""
    first, low, high = (compact(row[name]) for name in ("estimate", "ci_low", "ci_high"))
    return f"{first} [{low}, {high}]" if low and high else first


def studies(row: Row) -> str:
    """Where 95 % of studies of the paper's size lie."""
    low, high = compact(row["replicate_low"]), compact(row["replicate_high"])
    return f"{low or 'none'} to {high or 'none'}" if low or high else ""


def lines(rows: Sequence[Row]) -> tuple[list[dict[str, str]], str]:
    """Rows of one sweep as the page shows them, and the setting that they share."""
    columns = list(dict.fromkeys(c for row in rows for c in row["setting"]))
    shared = [c for c in columns if len({row["setting"].get(c) for row in rows}) == 1]
    varied = [c for c in columns if c not in shared]
    made = []
    for row in rows:
        made.append(
            {
                "quantity": name_of("quantity", row["quantity"]),
                "setting": words(row, varied),
                "ours": interval(row),
                "studies": studies(row),
                "paper": row["paper"].replace("-", "\N{MINUS SIGN}"),
                "paper_pools": row["paper_pools"],
                "consistent": row["consistent"] or NOT_COMPARED,
                "pools": row["n_pools"],
                "note": _place(row["source"])[2],
                "sweep": row["sweep"],
            }
        )
    return made, words(rows[0], shared) if rows else ""


def words(row: Row, columns: Sequence[str]) -> str:
    """Values of these columns of a setting in words."""
    known = {c: row["setting"][c] for c in columns if c in row["setting"]}
    return ", ".join(f"{name_of(c)} {name_of(c, v)}" for c, v in known.items())


def _place(source: str) -> tuple[tuple[int, int], str, str]:
    """Order, name and remark of a place in the paper: tables, figures, then named paragraphs."""
    name, remark = re.fullmatch(r"(.*?)(?:[:;]\s*|\s+(?=\()|$)(.*)", source).groups()  # type: ignore[union-attr]
    numbered = re.fullmatch(r"(Table|Figure) (\d+)", name)
    kind = {"Table": 0, "Figure": 1}[numbered[1]] if numbered else 2
    return (kind, int(numbered[2]) if numbered else 0), name, remark


def parts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The tables, figures and paragraphs of the paper that have numbers beside ours."""
    by_name: dict[tuple[tuple[int, int], str], list[Row]] = {}
    for row in rows:
        if row["source"]:
            by_name.setdefault(_place(row["source"])[:2], []).append(row)
    made = []
    for (_, name), here in sorted(by_name.items(), key=lambda item: item[0][0]):
        marks = [row["consistent"] or NOT_COMPARED for row in here]
        by_sweep = {row["sweep"]: [r for r in here if r["sweep"] == row["sweep"]] for row in here}
        sweeps = []
        for sweep, of_sweep in by_sweep.items():
            shown, shared = lines(of_sweep)
            command = of_sweep[0]["command"]
            sweeps.append({"name": sweep, "lines": shown, "shared": shared, "command": command})
        made.append(
            {
                "id": re.sub(r"\W+", "-", name.lower()),
                "name": name,
                "sweeps": sweeps,
                "counts": {m: marks.count(m) for m in MARKS},
            }
        )
    return made


def claim_lines(runs: Sequence[Run]) -> list[dict[str, str]]:
    """The paper's claims, their verdicts, and how many of the rows that bear on them agree."""
    tables = {run.name: run.table for run in runs}

    def fill(text: str) -> str:
        try:
            return value(text, lambda name: tables[name])
        except (KeyError, ValueError):
            return "(not among these results)"

    made = []
    for claim in claims_file.read():
        texts = dataclasses.asdict(claim)
        for form in ("one_bias", "growing_bias"):
            note = texts[f"{form}_note"]
            texts[form], texts[f"{form}_note"] = claims_file.verdict_of(texts[form], note, fill)
        texts["agreement"] = ""
        if claim.results() in tables:
            chosen = Choice.parse(claim.conditions()).rows(tables[claim.results()])
            agree = claims_file.agreement(chosen)
            if compared := agree["yes"] + agree["no"]:
                texts["agreement"] = f"{agree['yes']} of {compared}"
        made.append(texts)
    return made


def experiment(run: Run, rows: Sequence[Row]) -> dict[str, Any]:
    """What the page shows of a sweep: its command, its figure, its rows beyond the paper."""
    shown = run.sweep.headline(run.numbers())
    beyond = [rows[i] for i in shown.index if not rows[i]["paper"]]
    made, shared = lines(beyond[:SHOWN_ROWS])
    return {
        "name": run.name,
        "description": run.sweep.description(),
        "record": run.record,
        "svg": svg(run),
        "shared": shared,
        "lines": made,
        "rows": len(rows),
    }
