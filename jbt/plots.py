"""Figures. Functions take and return Axes; colours are Okabe and Ito's, safe for
colour-blind readers; uncertainty is drawn, never only a line."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
}
CYCLE = [COLOURS[c] for c in ("blue", "orange", "green", "vermilion", "purple", "sky")]

RHO_LABEL = r"corr(quality, covariate), $\rho$"


def new_figure(
    n_columns: int = 1, *, n_rows: int = 1, width: float = 6.4, height: float = 4.4
) -> tuple[Figure, Any]:
    """A figure without global state (no pyplot), and its Axes, [n_rows, n_columns] without the
    axes that are 1."""
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns)


def band(
    ax: Axes, x: Any, mean: Any, low: Any, high: Any, *, colour: str, label: str, **line: Any
) -> Axes:
    """A line with its 95 % interval as a band."""
    ax.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(x, mean, color=colour, label=label, **line)
    return ax


def crossing_mark(ax: Axes, at: float, low: float, high: float, *, colour: str, label: str) -> Axes:
    """A crossing on the zero line with its 95 % interval; nothing if there is none."""
    if np.isfinite(at):
        left = at - low if np.isfinite(low) else np.nan
        right = high - at if np.isfinite(high) else np.nan
        ax.errorbar(
            [at],
            [0],
            xerr=[[left], [right]],
            fmt="o",
            color=colour,
            capsize=4,
            zorder=5,
            label=label,
        )
    return ax
