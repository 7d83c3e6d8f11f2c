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
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jbt import runtime
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
    """
    runtime.start()
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        from matplotlib.figure import Figure

        shell.display_formatter.formatters["image/png"].for_type(Figure, png)
    return os.environ.get(PRESET) == "smoke"


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
