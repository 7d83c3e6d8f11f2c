"""Run and show experiments in a notebook: a sweep without its files, and figures.

    from jbt.experiments import notebook
    from sweeps import acquisition

    SMOKE = notebook.start()
    shown = notebook.run(acquisition.SWEEP, pools=16 if SMOKE else 200)
    shown.figure()

The notebooks of the repository run at two sizes, see `PRESET`.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jbt import runtime
from jbt.border.report import Result
from jbt.experiments import store
from jbt.experiments.declare import Sweep
from jbt.experiments.run import fill, table_of
from jbt.experiments.work import Work

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

PRESET = "JBT_PRESET"
"""Environment variable with the size of a notebook's runs: smoke, or full (the default)."""
DOTS_PER_INCH = 110


def start() -> bool:
    """Start JAX as a sweep does, and show figures as images. Call it before anything is computed.

    Returns:
      Whether the notebook shall run at the size of smoke.

    Raises:
      ValueError: JBT_PRESET is neither smoke nor full.
    """
    preset = os.environ.get(PRESET, "full")
    if preset not in ("smoke", "full"):
        raise ValueError(f"{PRESET} must be smoke or full, got {preset!r}")
    runtime.start()
    if shell := _shell():
        from matplotlib.figure import Figure

        shell.display_formatter.formatters["image/png"].for_type(Figure, png)
    return preset == "smoke"


def _shell() -> Any:
    """IPython's shell, or None outside a notebook."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def png(figure: Figure) -> bytes:
    """A figure as PNG, the same bytes each time."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return file.getvalue()


@dataclass(frozen=True, eq=False)
class Explored:
    """A sweep's results in memory."""

    sweep: Sweep
    results: xr.Dataset
    """Every metric, pools last."""
    table: pd.DataFrame
    """As `python -m sweeps.NAME` writes it; of `sweeps.crossing.explore` without the paper's
    numbers."""

    def figure(self) -> Figure:
        """Draw what a run draws."""
        return self.sweep.figure(self.table)

    def panel(self, number: int) -> Figure:
        """Draw one panel of it alone, from 0."""
        from jbt.experiments import plots

        panel = self.sweep.panels(self.table)[number]
        return plots.draw([panel], self.table, width=7.0)  # with room for names beside it

    def rows(self, *quantities: str) -> pd.DataFrame:
        """The table's rows of some quantities, without columns that are empty in all of them."""
        rows = self.table[self.table.quantity.isin(quantities)]
        return rows.dropna(axis=1, how="all").reset_index(drop=True)


@runtime.defaults()
def run(kind: type[Sweep], **changes: Any) -> Explored:
    """Run a sweep in memory: its full preset with some fields changed, its smoke preset where
    `preset="smoke"` is given. Its numbers are those of the command with the same options.

    Raises:
      ValueError: no such field; settings that make no sense.
    """
    with tempfile.TemporaryDirectory() as out:
        sweep = kind.at(**changes, out=Path(out)).decided()
        sweep.check()
        runtime.start()
        work, folder = Work(sweep), Path(out) / sweep.name
        with store.locked(folder):
            loaded = fill(work, folder, folder / store.RESULTS).results().load()
    return Explored(sweep, loaded, table_of(sweep, loaded))


def panel(draw: Callable[..., Any], *arguments: Any, **options: Any) -> Figure:
    """A figure with one panel, drawn by a function of Axes: `panel(draw_rates,
    shown.results, shown.sweep)`. Lines without a legend are named at their ends."""
    from jbt.experiments import plots

    figure, ax = plots.new_figure()
    draw(ax, *arguments, **options)
    if ax.get_legend() is None and ax.get_legend_handles_labels()[0]:
        plots.label_ends(ax)
    return figure


def report(result: Result, title: str = "", notes: Sequence[str] = (), **options: Any) -> None:
    """Print what the command behind a result of `jbt.own` prints.

    Args:
      title, notes: of the report, such as `tables.summary`.
      options: of the result's own report.
    """
    print(result.report(title, list(notes), **options).text())
