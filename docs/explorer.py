"""The crossing as a page with sliders that needs no Python: its grid of numbers, and the page.

    python docs/explorer.py simulate              # docs/explorer.npz, some 7 minutes of CPU
    python docs/explorer.py page --out FILE       # one HTML file, from the grid alone

The grid holds the mean benefit of the bias-aware over the naive ranking, its 95 % interval over
pools and the recall of both, at every correlation under every setting of four controls. The page
has Bokeh within it, asks for nothing from elsewhere and opens from disk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jbt.border import files, plots, terminal
from jbt.simulation import theory
from sweeps import crossing

GRID = Path(__file__).with_name("explorer.npz")
CONTROLS = {
    "bias": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
    "sd": (0.6, 0.9, 1.2, 1.8, 2.5),
    "k": (1, 3, 5, 10),
    "interaction": (0.0, 0.25, 0.5, 1.0),
}
"""Field of `sweeps.crossing.Crossing` -> values, in the order of the grid's axes."""
LABELS = {
    "bias": "bias c* of the judge, logits per unit of the covariate",
    "sd": "standard deviation of quality, logits",
    "k": "size k of the top set, of 30 answers",
    "interaction": "growth gamma of the bias with quality",
}
RHO = tuple(round(0.1 * i, 1) for i in range(10))
POOLS = 1000
NUMBERS = ("benefit", "low", "high", "naive", "bias_aware")
UNIT = 1e-4
"""Step in which the numbers are kept, far below their error."""


@dataclass(frozen=True)
class Grid:
    """What the page shows."""

    controls: dict[str, tuple[float, ...]]
    rho: tuple[float, ...]
    values: np.ndarray
    """[numbers, controls..., rho] shares of k, in the order of `NUMBERS`."""
    made: dict[str, Any]
    """Settings and versions that the numbers were made with."""

    def save(self, path: Path) -> None:
        about = {"controls": self.controls, "rho": self.rho, "made": self.made}
        counts = np.round(self.values / UNIT).astype(np.int16)
        with path.open("wb") as file:
            np.savez_compressed(file, values=counts, about=np.array(json.dumps(about)))

    @classmethod
    def load(cls, path: Path) -> Grid:
        with np.load(path) as saved:
            about = json.loads(str(saved["about"]))
            controls = {name: tuple(values) for name, values in about["controls"].items()}
            return cls(controls, tuple(about["rho"]), saved["values"] * UNIT, about["made"])


def simulate(
    controls: dict[str, tuple[float, ...]] = CONTROLS,
    rho: tuple[float, ...] = RHO,
    settings: crossing.Crossing = crossing.EXPLORED,
    **options: Any,
) -> Grid:
    """Run `crossing.explore` under every setting of the controls.

    Args:
      settings: of everything that has no control.
      options: of `crossing.explore`.
    """
    from jbt.experiments import provenance

    combinations = list(itertools.product(*controls.values()))
    rows = []
    for values in terminal.bar(combinations, name="explorer", unit="setting"):
        changes = dict(zip(controls, values, strict=True))
        table = crossing.explore(settings, rho=rho, **changes, **options).table
        shown = table.set_index("quantity")
        benefit = shown.loc["benefit"]
        recall = [shown.loc[f"{model}_recall"].estimate for model in ("naive", "bias_aware")]
        rows.append([benefit.estimate, benefit.ci_low, benefit.ci_high, *recall])
    shape = [len(values) for values in controls.values()]
    numbers = np.array(rows, float).reshape(*shape, len(NUMBERS), len(rho))
    fields = ("pools", "seed", "n_items", "position", "discrimination", "lam", "lam_b", "covariate")
    made = {name: getattr(settings, name) for name in fields} | provenance.packages()
    del made["git_revision"]
    return Grid(controls, rho, np.moveaxis(numbers, -2, 0), made)


def strides(controls: dict[str, Sequence[float]]) -> list[int]:
    """How many rows of the flattened grid one step of each control skips."""
    sizes = [len(values) for values in controls.values()]
    return [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]


MOVED = """
const places = sliders.map(s => s.categories.indexOf(s.value));
const row = places.reduce((sum, place, i) => sum + place * strides[i], 0);
const n = rho.length;
const shown = {rho: rho};
for (const name of names) shown[name] = grid[name].slice(row * n, (row + 1) * n);
source.data = shown;
const at = law[row];
limit.location = at === null ? -1 : at;
limit.visible = at !== null;
const b = shown.benefit;
let text = b[0] <= 0 ? "Correction helps at no correlation shown"
                     : "Correction helps at every correlation shown";
for (let i = 1; i < n; i++) {
    if (b[i - 1] > 0 && b[i] <= 0) {
        const cross = rho[i - 1] + (rho[i] - rho[i - 1]) * b[i - 1] / (b[i - 1] - b[i]);
        text = "Correction stops helping at a correlation of " + cross.toFixed(2);
        break;
    }
}
if (at !== null) text += " (in large pools without noise: " + at.toFixed(2) + ")";
answer.text = text;
"""
"""Shows the row of the grid that the sliders point at."""

STYLE = """<meta name="viewport" content="width=device-width">
<style>
  html { color-scheme: light dark; background: white; }
  @media (prefers-color-scheme: dark) {
    html { background: #121212; }
    body { color-scheme: light; color: black; filter: invert(0.93) hue-rotate(180deg); }
  }
</style>
"""
"""Where the reader's system is dark, so is the page: its colours are turned, hues kept."""


def limits(controls: dict[str, Sequence[float]]) -> list[float | None]:
    """The crossing law of each row, None where the bias grows with quality or is 0."""
    out: list[float | None] = []
    for values in itertools.product(*controls.values()):
        at = dict(zip(controls, values, strict=True))
        s = crossing.Crossing(**{**at, "k": int(at["k"])})
        known = s.has_limit and s.bias > 0
        out.append(round(theory.crossing_law(s.ratio), 4) if known else None)
    return out


def page(grid: Grid, first: dict[str, float] | None = None) -> str:
    """The page as HTML.

    Args:
      first: value of each control at the beginning; default the paper's scenario, or where the grid
        lacks it, the middle.
    """
    from bokeh.document import Document
    from bokeh.embed import file_html
    from bokeh.layouts import column
    from bokeh.models import (
        CategoricalSlider,
        ColumnDataSource,
        CustomJS,
        Div,
        HoverTool,
        Span,
    )
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    usual = crossing.Crossing()
    places = []
    for name, values in grid.controls.items():
        wanted = (first or {}).get(name, getattr(usual, name))
        places.append(values.index(wanted) if wanted in values else len(values) // 2)
    row = int(np.dot(places, strides(grid.controls)))
    n = len(grid.rho)
    flat = {
        name: [round(float(v), 4) for v in values.reshape(-1)]
        for name, values in zip(NUMBERS, grid.values, strict=True)
    }
    law = limits(grid.controls)
    now = {name: values[row * n : (row + 1) * n] for name, values in flat.items()}
    source = ColumnDataSource({"rho": list(grid.rho), **now})
    blue, orange, black = (plots.COLOURS[c] for c in ("blue", "vermilion", "black"))
    sliders = [
        CategoricalSlider(
            categories=[f"{v:g}" for v in values],
            value=f"{values[place]:g}",
            title=LABELS[name],
            sizing_mode="stretch_width",
            stylesheets=[f".noUi-handle {{ background: {blue}; }}"],
        )
        for place, (name, values) in zip(places, grid.controls.items(), strict=True)
    ]
    common = {"sizing_mode": "stretch_width", "tools": "", "toolbar_location": None}
    common |= {"x_range": (grid.rho[0], grid.rho[-1])}
    k = "top k"
    gain = figure(height=300, y_range=(-0.65, 0.65), **common)
    gain.varea("rho", "low", "high", source=source, fill_color=blue, fill_alpha=0.25)
    drawn = gain.line("rho", "benefit", source=source, color=blue, line_width=2)
    gain.add_layout(Span(location=0, dimension="width", line_color=black))
    limit = Span(dimension="height", line_color=black, line_dash="dashed")
    gain.add_layout(limit)
    gain.yaxis.axis_label = f"recall of the {k}: bias-aware minus naive"
    gain.add_tools(
        HoverTool(
            renderers=[drawn],
            tooltips=[("rho", "@rho"), ("benefit", "@benefit [@low, @high]")],
            mode="vline",
        )
    )
    both = figure(height=220, y_range=(0, 1), **common)
    both.line("rho", "naive", source=source, color=black, line_width=2, legend_label="naive")
    both.line(
        "rho", "bias_aware", source=source, color=orange, line_width=2, legend_label="bias-aware"
    )
    both.legend.location, both.legend.orientation = "bottom_left", "horizontal"
    both.yaxis.axis_label = f"recall of the {k}"
    both.xaxis.axis_label = "correlation of quality and covariate"
    answer = Div(text="", styles={"font-weight": "bold", "font-size": "110%"})
    about = Div(
        text=f"{grid.made['pools']:,} simulated pools of {grid.made['n_items']} items at each "
        "correlation, with every ordered pair judged once. The band is a 95 % interval over pools. "
        "The dashed line shows where large pools without noise cross; there is none for a bias "
        "that grows."
    )
    moved = CustomJS(
        args={
            "sliders": sliders,
            "strides": strides(grid.controls),
            "rho": list(grid.rho),
            "names": list(NUMBERS),
            "grid": flat,
            "law": law,
            "source": source,
            "limit": limit,
            "answer": answer,
        },
        code=MOVED,
    )
    for slider in sliders:
        slider.js_on_change("value", moved)
    document = Document()
    shown = (*sliders, answer, gain, both, about)
    room = {"padding": "0 12px", "box-sizing": "border-box"}  # for the handles at either end
    document.add_root(column(*shown, sizing_mode="stretch_width", styles=room))
    document.js_on_event("document_ready", moved)
    html = file_html(document, INLINE, title="The crossing, by hand")
    return html.replace("<head>", f"<head>\n{STYLE}", 1)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    simulating = commands.add_parser("simulate", help="make the grid again")
    simulating.add_argument("--pools", type=int, default=POOLS, help="pools a point (count)")
    simulating.add_argument("--out", type=Path, default=GRID)
    showing = commands.add_parser("page", help="make the page from the grid")
    showing.add_argument("--out", type=Path, required=True)
    showing.add_argument("--grid", type=Path, default=GRID)
    options = parser.parse_args(argv)
    if options.command == "simulate":
        from jbt import runtime

        runtime.start()
        settings = crossing.Crossing(pools=options.pools)
        files.write_whole(options.out, simulate(settings=settings, most_items=30).save)
    else:
        text = page(Grid.load(options.grid))
        files.write_whole(options.out, lambda path: path.write_text(text, encoding="utf-8"))
        print(f"{options.out}: {len(text) / 1e6:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
