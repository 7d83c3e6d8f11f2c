"""Draw figures. Functions take and return Axes; colours are Okabe and Ito's, safe for colour-blind
readers; every estimate is drawn with its uncertainty."""

from __future__ import annotations

import re
import sys
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # matplotlib takes a third of a second, which --help should not wait for
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


def new_figure(
    n_columns: int = 1, *, n_rows: int = 1, width: float = 6.4, height: float = 4.4
) -> tuple[Figure, Any]:
    """A figure without global state (no pyplot), and its Axes [n_rows, n_columns]; dimensions of
    size 1 are dropped."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns)


def legend_below(figure: Figure, **style: Any) -> Figure:
    """Draw one legend of all panels below them, each label once; in one row by default."""
    named = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    once = {label: handle for pairs in named for handle, label in pairs}
    style = {"ncols": len(once), **style}
    figure.legend(once.values(), once.keys(), loc="outside lower center", **style)
    return figure


def save(figure: Figure, path: Path | BytesIO, *, literal: bool = True, kind: str = "png") -> None:
    """Write a figure. Characters that the font lacks are boxes; their number is printed on stderr.

    Args:
      literal: take no text for TeX: names are a user's own.
      kind: png or svg.
    """
    from matplotlib import rc_context, rcParams
    from matplotlib.text import Text

    for text in figure.findobj(Text) if literal else ():
        text.set_parse_math(False)
    with warnings.catch_warnings(record=True) as caught, rc_context():
        warnings.simplefilter("always")
        rcParams["text.parse_math"] = not literal  # for ticks that are made during drawing
        rcParams["svg.hashsalt"] = "jbt"  # the same ids each time
        figure.savefig(path, format=kind, dpi=150)
    missing = {str(w.message) for w in caught if re.match("Glyph .* missing", str(w.message))}
    for warning in caught:
        if str(warning.message) not in missing:
            place = warning.filename, warning.lineno
            warnings.warn_explicit(warning.message, warning.category, *place)
    if missing:
        print(
            f"figure.png: the font lacks {len(missing)} characters of the names; they are drawn as "
            "boxes",
            file=sys.stderr,
        )


def band(
    ax: Axes,
    x: Any,
    mean: Any,
    low: Any,
    high: Any,
    *,
    colour: str,
    label: str,
    shade: float = 0.25,
    **style: Any,
) -> Axes:
    """Draw a line [points] with its 95 % interval as a band.

    Args:
      colour: a name in `COLOURS`, or any Matplotlib colour.
      shade: opacity of the band; lower where many overlap.
      style: of the line.
    """
    colour = COLOURS.get(colour, colour)
    ax.fill_between(x, low, high, color=colour, alpha=shade, linewidth=0)
    ax.plot(x, mean, color=colour, label=label, **style)
    return ax


def points(
    ax: Axes, rows: Any, at: Any, *, colour: str, label: str, horizontal: bool = False, **style: Any
) -> Axes:
    """Draw estimates of a table's rows as points with their 95 % intervals.

    Args:
      rows: of a sweep's table, [rows].
      at: [rows] positions along the other axis.
      colour: as in `band`.
      horizontal: put estimates along the x axis.
      style: of the points.
    """
    error = [rows.estimate - rows.ci_low, rows.ci_high - rows.estimate]
    colour = COLOURS.get(colour, colour)
    style = {"fmt": "o", "ms": 4, "capsize": 2, "color": colour, "label": label, **style}
    if horizontal:
        ax.errorbar(rows.estimate, at, xerr=error, **style)
    else:
        ax.errorbar(at, rows.estimate, yerr=error, **style)
    return ax


def forest(ax: Axes, names: Any, series: Any) -> Axes:
    """Draw estimates of several quantities with their intervals, one below the other.

    Args:
      names: [rows], from the top.
      series: for each series its label, colour (as in `band`), and [rows] estimates, low and high
        ends; an estimate without an interval is hollow.
    """
    at, n = np.arange(len(names)), len(series)
    for i, (label, colour, estimate, low, high) in enumerate(series):
        y = at + 0.3 * (i - (n - 1) / 2)
        colour = COLOURS.get(colour, colour)
        known = np.isfinite(low) & np.isfinite(high)
        ax.hlines(y[known], low[known], high[known], color=colour, lw=1.5)
        ax.plot(estimate[known], y[known], "o", ms=4, color=colour, label=label)
        some = (np.isfinite(estimate) & ~known).any()
        hollow = f"{label}, no interval" if some else None
        ax.plot(estimate[~known], y[~known], "o", ms=4, mfc="none", color=colour, label=hollow)
    ax.set_yticks(at, names, fontsize=8)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="x", alpha=0.3)
    return ax
