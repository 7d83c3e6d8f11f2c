"""Draw figures. Functions take and return Axes; colours are Okabe and Ito's, safe for colour-blind
readers; every estimate is drawn with its uncertainty."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
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

RULE_STYLES = {
    "top_k_aware": ("blue", "-"),
    "thompson": ("orange", "-"),
    "lucb": ("green", "-"),
    "global_uncertainty": ("purple", "-"),
    "round_robin": ("sky", "-"),
    "random": ("yellow", "-"),
    "no_variance": ("sky", ":"),
    "no_informativeness": ("purple", ":"),
    "entropy_only": ("green", ":"),
    "top_k_aware_fresh": ("blue", "--"),
    "entropy_reduction": ("vermilion", "-"),
    "entropy_reduction_fresh": ("vermilion", "--"),
    "top_two": ("black", "--"),
    "top_k_aware_either_order": ("blue", "-."),
    "thompson_inside_first": ("orange", ":"),
    "thompson_by_priority": ("orange", "-."),
    "thompson_other_order": ("yellow", "--"),
    "thompson_random_fallback": ("yellow", ":"),
    "thompson_inside_first_random_fallback": ("yellow", "-."),
    "lucb_width_1": ("green", "--"),
    "lucb_width_3": ("green", "-."),
    "lucb_inside_first": ("sky", "--"),
    "lucb_by_priority": ("sky", "-."),
    "lucb_other_order": ("purple", "--"),
    "lucb_random_fallback": ("purple", "-."),
    "lucb_inside_first_random_fallback": ("vermilion", ":"),
}
"""Colour and line style of each acquisition rule; a rule without an entry is black and dotted."""

RHO_LABEL = r"corr(quality, covariate), $\rho$"


def new_figure(
    n_columns: int = 1, *, n_rows: int = 1, width: float = 6.4, height: float = 4.4
) -> tuple[Figure, Any]:
    """A figure without global state (no pyplot), and its Axes [n_rows, n_columns]; dimensions of
    size 1 are dropped."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns)


def save(figure: Figure, path: Path | BytesIO, *, literal: bool = False, kind: str = "png") -> None:
    """Write a figure, by default as PNG. A text with `$` that is not valid TeX is shown literally.
    Characters that the font lacks are boxes; their number is printed on stderr.

    Args:
      literal: treat no text as TeX, as where names are a user's own.
      kind: png or svg.
    """
    from matplotlib import rc_context, rcParams
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if literal or not _is_tex(text.get_text()):
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


def _is_tex(text: str) -> bool:
    """Whether a text is valid TeX, or Matplotlib does not take it for TeX."""
    from matplotlib.mathtext import MathTextParser

    try:
        for line in text.splitlines():
            if line.count("$") - line.count(r"\$"):
                MathTextParser("agg").parse(line)
    except ValueError:
        return False
    return True


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


def line(
    ax: Axes, rows: Any, x: str, *, colour: str, label: str, scale: float = 1.0, **style: Any
) -> Axes:
    """Draw estimates of a table's rows against one of its columns, 95 % intervals as a band.

    Args:
      rows: of a sweep's table, [rows].
      x: column for the x axis.
      scale: factor on the estimates.
      colour, style: as in `band`.
    """
    numbers = (scale * rows[c] for c in ("estimate", "ci_low", "ci_high"))
    return band(ax, rows[x].astype(float), *numbers, colour=colour, label=label, **style)


def rule_style(rule: str) -> dict[str, Any]:
    """The `colour` and `linestyle` with which `line` draws an acquisition rule."""
    colour, linestyle = RULE_STYLES.get(rule, ("black", ":"))
    return {"colour": colour, "linestyle": linestyle}


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


LABEL_SIZE = 8
"""Of the labels of `label_ends` (points)."""

INSIDE = 0.8
"""A line that ends left of this share of the panel's width is labelled inside the panel."""


def label_ends(ax: Axes) -> Axes:
    """Write every line's label at its right end, in its colour, instead of a legend. Labels beside
    the panel that would touch move apart, and a thin line joins each to its end; a line that ends
    well inside the panel is labelled there.

    Call it last: it reads the limits of the axes, and later changes of them misplace the labels.
    """
    from matplotlib.patheffects import withStroke

    for set_limits in (ax.get_xlim, ax.get_ylim):  # which Matplotlib puts off
        set_limits()
    lines = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    ends = []
    for line in lines:
        data = np.asarray(line.get_xydata(), float)
        data = data[np.isfinite(data).all(1)]
        if not len(data):
            continue
        x, y = (line.get_transform() + ax.transAxes.inverted()).transform(data[-1])
        if x > INSIDE:
            ends.append((float(np.clip(y, 0, 1)), float(x), line))
            continue
        ax.annotate(
            str(line.get_label()),
            xy=(x, y),
            xytext=(5, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=_ink(line.get_color()),
            fontsize=LABEL_SIZE,
            va="center",
            path_effects=[withStroke(linewidth=2, foreground="white")],  # on other lines
        )
    ends.sort(key=lambda end: end[0])
    rows = ax.get_gridspec().nrows if ax.get_subplotspec() else 1  # type: ignore[union-attr]
    height = 0.75 * ax.figure.get_size_inches()[1] / rows  # type: ignore[union-attr]
    at = _apart([y for y, _, _ in ends], 1.25 * LABEL_SIZE / (72 * height))
    for (y, x, line), label_y in zip(ends, at, strict=True):
        ax.annotate(
            str(line.get_label()),
            xy=(x, y),
            xytext=(1.03, label_y),
            xycoords="axes fraction",
            color=_ink(line.get_color()),
            fontsize=LABEL_SIZE,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "lw": 0.5, "shrinkB": 1},
        )
    for line in lines:
        line.set_label(f"_{line.get_label()}")  # none is named again, by a legend or here
    return ax


def _ink(colour: Any) -> Any:
    """The colour of a text about what is drawn in a colour: yellow is darker."""
    return "#8A7F00" if colour == COLOURS["yellow"] else colour


def _apart(wanted: list[float], gap: float) -> list[float]:
    """Places as near to the wanted ones (ascending) as least squares allow, at least a gap apart:
    isotonic regression of `wanted - i * gap`, kept between 0 and 1 where there is room."""
    blocks: list[tuple[float, int]] = []  # mean and size of runs that touch
    for i, value in enumerate(wanted):
        mean, size = value - i * gap, 1
        while blocks and blocks[-1][0] >= mean:
            before, n = blocks.pop()
            mean, size = (before * n + mean * size) / (n + size), n + size
        blocks.append((mean, size))
    flat = [mean for mean, size in blocks for _ in range(size)]
    top = max(1 - (len(wanted) - 1) * gap, 0)
    return [min(max(value, 0), top) + i * gap for i, value in enumerate(flat)]


def crossing(ax: Axes, table: Any, *, colour: str) -> Axes:
    """Draw a table's crossing on the zero line, if it has one."""
    rows = table[(table.quantity == "crossing") & np.isfinite(table.estimate)][:1]
    for row in rows.itertuples():
        label = f"crossing {row.estimate:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]"
        style = {"ms": 6, "capsize": 4, "zorder": 5}
        points(ax, rows, [0.0], colour=colour, label=label, horizontal=True, **style)
    return ax


def facets(
    n: int, n_columns: int | None = None, *, width: float = 6.4, height: float = 4.4
) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, row by row, and their Axes [n].

    Args:
      n_columns: panels of a row, default all; places of the last row may stay empty.
      width, height: of a panel (inches).
    """
    n_columns = n_columns or n
    n_rows = -(-n // n_columns)
    figure, axes = new_figure(n_columns, n_rows=n_rows, width=width, height=height)
    panels = list(np.ravel(axes))
    for ax in panels[n:]:
        ax.remove()
    return figure, panels[:n]


def ticks(ax: Axes, *, x: Sequence[int | float] = (), y: Sequence[int | float] = ()) -> Axes:
    """Major ticks at these numbers, printed as they are, and no minor ones."""
    for values, set_ticks in ((x, ax.set_xticks), (y, ax.set_yticks)):
        if len(values):
            set_ticks(values, [f"{value:g}" for value in values])
    ax.minorticks_off()
    return ax
