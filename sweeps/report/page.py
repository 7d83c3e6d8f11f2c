"""The report: one HTML file made of finished runs, the paper's numbers and its claims."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from jbt import __version__
from jbt.border import files, plots
from jbt.experiments import results

from . import claims as claims_file
from .documents import Choice, name_of, number, value
from .runs import OUTCOME, Run

TEMPLATE = Path(__file__).with_name("template.html")
HTML, CSV, JSON = "report.html", "report.csv", "report.json"

SHOWN_ROWS = 60
"""Rows of an experiment beyond the paper's numbers that the page shows; the CSV has all."""

FORMAT = ".3g"
LARGE = 1000
"""From here on, numbers are whole."""


def write(
    runs: Sequence[Run], absent: dict[str, str], preset: str, command: str, out: Path
) -> Path:
    """Write the report and the files beside it; returns the path of the page.

    Args:
      runs: in the order of the page.
      absent: name of a sweep that is left out -> why.
      preset: of the runs.
      command: that makes the report.
      out: folder for the files.

    Raises:
      ValueError: jinja2 is not installed.
    """
    template = environment().from_string(TEMPLATE.read_text(encoding="utf-8"))
    rows = pd.concat([rows_of(run) for run in runs]) if runs else pd.DataFrame()
    claims = claim_lines(runs)
    counted = claims_file.counts(claims_file.read())
    html = template.render(
        preset=preset,
        command=command,
        version=__version__,
        counts=counted,
        claims=claims,
        parts=parts(rows),
        experiments=[experiment(run) for run in runs],
        absent=absent,
        files=(CSV, JSON),
    )
    out.mkdir(parents=True, exist_ok=True)
    made = {"preset": preset, "command": command, "claims": claims, "absent": absent}
    made["rows"] = rows.to_dict("records")
    files.write_text(out / CSV, rows.to_csv(index=False))
    files.write_text(out / JSON, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    files.write_text(out / HTML, html)
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


def rows_of(run: Run) -> pd.DataFrame:
    """All rows of a run, with their setting in words and their number's place in the paper."""
    beside = run.beside()
    varied, throughout = setting_columns(run.table)
    columns = {
        "sweep": run.name,
        "setting": [setting(row, varied) for row in run.table.to_dict("records")],
        "throughout": setting(run.table.iloc[0].to_dict(), throughout) if len(run.table) else "",
        "quantity": run.table.quantity,
        **{name: run.table[name] for name in OUTCOME},
        "source": [n.source if n else "" for n in beside],
        "paper_pools": [str(n.pools) if n else "" for n in beside],
        "role": [n.role if n else "" for n in beside],
        "command": run.record["command"],
    }
    return pd.DataFrame(columns)


def setting_columns(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The columns whose values differ between rows, and those that are the same throughout."""
    named = [c for c in table if c not in (*OUTCOME, "quantity")]
    varied = [c for c in named if table[c].nunique() > 1]
    return varied, [c for c in named if c not in varied]


def setting(row: dict[Any, str], columns: Sequence[str]) -> str:
    """Values of these columns in words."""
    return ", ".join(f"{name_of(c)} {name_of(c, row[c])}" for c in columns if row[c])


# --- what the page shows


def compact(text: str) -> str:
    """A number of any size in three digits, or whole."""
    try:
        large = abs(float(text)) >= LARGE
    except ValueError:
        return text
    return number(text, ",.0f" if large else FORMAT)


def interval(row: dict[Any, str]) -> str:
    """An estimate and its 95 % interval."""
    first, low, high = (compact(row[name]) for name in ("estimate", "ci_low", "ci_high"))
    return f"{first} [{low}, {high}]" if low and high else first


def studies(row: dict[Any, str]) -> str:
    """Where 95 % of studies of the paper's size lie."""
    low, high = compact(row["replicate_low"]), compact(row["replicate_high"])
    return f"{low or 'none'} to {high or 'none'}" if low or high else ""


def line(row: dict[Any, str]) -> dict[str, str]:
    """A row of the results as the page shows it."""
    _, _, note = _place(row["source"])
    return {
        "quantity": name_of("quantity", row["quantity"]).replace("_", " "),
        "setting": row["setting"],
        "ours": interval(row),
        "studies": studies(row),
        "paper": number(row["paper"], "g"),
        "paper_pools": row["paper_pools"],
        "consistent": row["consistent"] or "undecided",
        "pools": row["n_pools"],
        "note": note,
        "sweep": row["sweep"],
    }


def _place(source: str) -> tuple[tuple[int, int], str, str]:
    """Order, name and remark of a place in the paper: tables, figures, then named paragraphs."""
    name, remark = re.fullmatch(r"(.*?)(?:[:;]\s*|\s+(?=\()|$)(.*)", source).groups()  # type: ignore[union-attr]
    numbered = re.fullmatch(r"(Table|Figure) (\d+)", name)
    kind = {"Table": 0, "Figure": 1}[numbered[1]] if numbered else 2
    return (kind, int(numbered[2]) if numbered else 0), name, remark


def parts(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The tables, figures and paragraphs of the paper that have numbers beside ours."""
    by_name: dict[str, list[dict[Any, str]]] = {}
    order: dict[str, tuple[int, int]] = {}
    for row in rows.to_dict("records") if len(rows) else []:
        if row["source"]:
            rank, name, _ = _place(row["source"])
            order[name] = rank
            by_name.setdefault(name, []).append(row)
    made = []
    for name in sorted(by_name, key=lambda name: order[name]):
        found = by_name[name]
        marks = [row["consistent"] or "undecided" for row in found]
        made.append(
            {
                "id": re.sub(r"\W+", "-", name.lower()),
                "name": name,
                "lines": [line(row) for row in found],
                "counts": {m: marks.count(m) for m in ("yes", "no", "calibrated", "undecided")},
                "sweeps": list(dict.fromkeys(row["sweep"] for row in found)),
                "commands": list(dict.fromkeys(row["command"] for row in found)),
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


def experiment(run: Run) -> dict[str, Any]:
    """What the page shows of a sweep: its command, its figure, its rows beyond the paper."""
    everything = rows_of(run)
    shown = run.numbers()
    if run.sweep.headline is not None:
        shown = run.sweep.headline(shown, run.settings)
    chosen = everything.loc[[i for i in shown.index if everything.paper[i] == ""]]
    return {
        "name": run.name,
        "description": run.sweep.description,
        "record": run.record,
        "throughout": everything.throughout.iloc[0] if len(everything) else "",
        "svg": svg(run),
        "lines": [line(row) for row in chosen.head(SHOWN_ROWS).to_dict("records")],
        "rows": len(everything),
    }


def svg(run: Run) -> str:
    """The figure of a run as an inline SVG, whose ids are the run's own."""
    with results.open_results(run.folder) as dataset:
        figure = run.sweep.figure(dataset, run.numbers(), run.settings)
    buffer = io.BytesIO()
    plots.save(figure, buffer, kind="svg")
    text = buffer.getvalue().decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{run.name}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="Figure of {run.name}" ', 1)
