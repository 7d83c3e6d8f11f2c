"""Figures of finished runs as SVG: inline in the report, and kept for the documents."""

from __future__ import annotations

import io
import re

from jbt.experiments import plots, results

from .documents import ROOT
from .runs import Run

KEPT = ROOT / "notebooks" / "figures"


def svg(run: Run) -> str:
    """The figure of a run as an inline SVG, whose ids are the run's own. Coordinates have two
    decimals (points)."""
    with results.open_results(run.folder) as dataset:
        figure = run.sweep.figure(dataset, run.numbers())
    buffer = io.BytesIO()
    plots.save(figure, buffer, kind="svg")
    text = buffer.getvalue().decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{run.name}-", text)
    text = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="Figure of {run.name}" ', 1)


def keep(run: Run, name: str) -> None:
    """Write the figure of a run where the documents show it, on white: pages may be dark."""
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}.svg").write_text(svg(run), encoding="utf-8")
