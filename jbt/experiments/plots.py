"""Draw the tables of sweeps: what `jbt.border.plots` draws, and what only experiments need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt.border import plots
from jbt.border.plots import COLOURS, CYCLE, band, legend_below, new_figure, points
from jbt.border.plots import forest as forest
from jbt.experiments.labelled_arrays import where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RULE_STYLES = {
    "top_k_aware": ("blue", "-"),
    "thompson": ("orange", "-"),
    "lucb": ("green", "-"),
    "global_uncertainty": ("purple", "-"),
    "round_robin": ("sky", "-"),
    "random": ("black", "-"),
    "no_variance": ("sky", ":"),
    "no_informativeness": ("purple", ":"),
    "entropy_only": ("green", ":"),
    "top_k_aware_fresh": ("blue", "--"),
    "entropy_reduction": ("vermilion", "-"),
    "entropy_reduction_fresh": ("vermilion", "--"),
    "top_two": ("black", "--"),
    "asap_fast": ("green", "--"),
    "swiss": ("orange", "--"),
    "insertion": ("purple", "--"),
}
"""Colour and line style of each acquisition rule; for a rule without an entry see `rule_style`."""

RULE_NAMES = {
    "top_k_aware": "the paper's rule",
    "thompson": "Thompson",
    "lucb": "LUCB",
    "global_uncertainty": "D-optimality",
    "no_variance": "paper's without variance",
    "no_informativeness": "paper's without p(1 - p)",
    "entropy_only": "paper's entropy alone",
    "top_k_aware_fresh": "paper's rule, updated",
    "entropy_reduction_fresh": "entropy reduction, updated",
    "asap": "ASAP",
    "asap_fast": "ASAP, fast",
    "insertion": "sorted insertion",
    "eubo": "EUBO",
    "swiss": "Swiss",
}
"""Acquisition rule -> its name in figures; other rules are named as in code, without underscores.
An updated rule takes every pick into account before the next one."""

_others: dict[str, int] = {}
"""Rules in the order in which their styles were asked for."""

RHO_LABEL = r"correlation of quality and covariate, $\rho$"


@dataclass(frozen=True)
class Line:
    """Estimates of some rows of a panel against one of its columns."""

    where: Mapping[str, Any]
    """Column -> its value in these rows, or several."""
    label: str
    colour: str
    """As in `band`."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `band`, or of `points` where `joined` is False."""
    joined: bool = True
    """A line with its 95 % intervals as a band; else points, each with its interval."""
    scale: float = 1.0
    """Factor on the estimates of a line."""
    shift: float = 0.0
    """By how much points stand beside their place on the axis."""
    marker: str = ""
    """Drawn at each number of `column` instead, without an interval."""
    column: str = "paper"

    @classmethod
    def of_rule(cls, rule: str, **where: Any) -> Line:
        """The line of an acquisition rule, with its name, in its style."""
        style = rule_style(rule)
        return cls({"rule": rule, **where}, rule_name(rule), style.pop("colour"), style)


@dataclass(frozen=True)
class Panel:
    """Rows of a table against one of its columns, a line a series."""

    x: str | Callable[[Any], Any] = "estimate"
    """Column, or a function of the panel's rows that gives each its place."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Column -> its value in all rows of the panel, or several."""
    lines: Iterable[Line] = ()
    """Default none: `before` and `after` draw the whole panel."""
    labels: tuple[str, str, str] = ("", "", "")
    """Of the x axis, of the y axis, and the title."""
    level: int | float | None = None
    """Where a reference line is drawn across the estimates; default nowhere."""
    level_style: str = "-"
    sides: tuple[str, str] | None = None
    """What it means to lie above the level and below it, "helps" and "hurts", say."""
    sides_end: str = "right"
    """Where on the line of the level they are written, as in `sides`."""
    log: str = ""
    """Axes with a logarithmic scale: x, y or xy."""
    ticks: Mapping[str, Sequence[int | float]] = field(default_factory=dict)
    """x, y -> the only ticks."""
    names: Sequence[str] | Mapping[Any, str] = ()
    """Names of the places 0, 1, ... of the x axis: values of the column, where x is one, or what
    each is called."""
    down: bool = False
    """Places stand on the y axis, from the top down, and estimates on the x axis."""
    name_style: Mapping[str, Any] = field(default_factory=dict)
    """Of the names, such as rotation and fontsize."""
    legend: int | float | Mapping[str, Any] | None = None
    """Size of a legend's letters (points), or its options; by default each line is named at its
    end. 0 for no names."""
    before: Callable[[Axes], Any] | None = None
    after: Callable[[Axes], Any] | None = None
    """Draw what is not a line of the table, below the lines and above them: a limit, say, or a
    number of the paper."""
    table: Any = None
    """What to draw in place of the sweep's table."""

    def draw(self, ax: Axes, table: Any, *, named: bool = True) -> None:
        """Draw the panel; without names where the figure names the lines of all panels."""
        if self.level is not None:
            across = ax.axvline if self.down else ax.axhline
            across(self.level, color="black", linewidth=0.8, linestyle=self.level_style)
        if self.before is not None:
            self.before(ax)
        rows = where(table if self.table is None else self.table, **self.where)
        rows = rows.assign(place=self.places(rows))
        for series in self.lines:
            of_line, style = where(rows, **series.where), dict(series.style)
            # What draws nothing is not named: Matplotlib leaves out names that begin with _.
            label = series.label if of_line.estimate.count() else "_"
            known = {"colour": series.colour, "label": label, **style}
            beside = of_line.place + series.shift
            if series.marker:
                numbers = of_line[series.column]
                at = (numbers, beside) if self.down else (beside, numbers)
                colour = COLOURS.get(series.colour, series.colour)
                label = series.label if numbers.count() else None  # nothing drawn
                ax.plot(*at, series.marker, color=colour, label=label, **style)
            elif series.joined:
                ends = series.scale * of_line[["estimate", "ci_low", "ci_high"]]
                band(ax, of_line.place, *ends.to_numpy().T, **known)
            else:
                points(ax, of_line, beside, horizontal=self.down, **known)
        if self.after is not None:
            self.after(ax)
        if self.sides and self.level is not None:
            sides(ax, self.level, *self.sides, end=self.sides_end)
        for axis in self.log:
            ax.set(**{f"{axis}scale": "log"})
        if self.ticks:
            ticks(ax, **self.ticks)
        if self.names:
            axis = ax.yaxis if self.down else ax.xaxis
            names = self.names.values() if isinstance(self.names, Mapping) else self.names
            axis.set_ticks(range(len(names)), names, **self.name_style)
        if self.down:
            ax.invert_yaxis()
        x, y, title = self.labels
        ax.set(xlabel=x, ylabel=y)
        ax.set_title(title, fontsize=11)
        if named and self.legend is None:
            label_ends(ax)
        elif named and self.legend and ax.get_legend_handles_labels()[0]:
            options = self.legend if isinstance(self.legend, Mapping) else {"fontsize": self.legend}
            ax.legend(**options)

    def places(self, rows: Any) -> Any:
        """Where the rows stand on their axis."""
        if callable(self.x):
            return np.asarray(self.x(rows), float)
        if self.names:
            return rows[self.x].map({name: i for i, name in enumerate(self.names)})
        return rows[self.x].astype(float)


def reference(ax: Axes, at: float, label: str, *, colour: str) -> Axes:
    """Draw a dotted vertical line at a number, of the paper's, say."""
    ax.axvline(at, color=COLOURS.get(colour, colour), linestyle=":", label=label)
    return ax


def sides(ax: Axes, level: float, above: str, below: str, *, end: str = "right") -> Axes:
    """Write beside a reference line what its two sides mean: "helps" above it, say, in green, and
    "hurts" below it, in red.

    Args:
      end: of the line, left or right; or top or bottom of a vertical one, whose right counts as
        above. Nothing is written where the line lies outside the axes.
    """
    from matplotlib.patheffects import withStroke

    upright = end in ("bottom", "top")
    low, high = sorted(ax.get_xlim() if upright else ax.get_ylim())
    if not low <= level <= high:
        return ax
    place = 0.02 if end in ("left", "bottom") else 0.98
    beside = ("left", "right") if upright else ("bottom", "top")
    for word, colour, side, step in zip((above, below), SIDES, beside, (4, -4), strict=True):
        ax.annotate(
            word,
            xy=(level, place) if upright else (place, level),
            xytext=(step, 0) if upright else (0, step),
            xycoords=ax.get_xaxis_transform() if upright else ax.get_yaxis_transform(),
            textcoords="offset points",
            color=COLOURS[colour],
            fontsize=LABEL_SIZE,
            ha=side if upright else end,
            va=end if upright else side,
            path_effects=[withStroke(linewidth=2, foreground="white")],  # on other lines
        )
    return ax


def draw(
    panels: Sequence[Panel], table: Any, *, below: Mapping[str, Any] | None = None, **size: Any
) -> Figure:
    """A figure of some panels.

    Args:
      below: options of one legend below the figure, of the lines of all panels, instead of names in
        every panel.
      size: as in `facets`.
    """
    figure, axes = facets(len(panels), **size)
    for ax, panel in zip(axes, panels, strict=True):
        panel.draw(ax, table, named=below is None)
    return figure if below is None else legend_below(figure, **below)


def ticks(ax: Axes, *, x: Sequence[int | float] = (), y: Sequence[int | float] = ()) -> Axes:
    """Major ticks at these numbers, printed as they are, and no minor ones."""
    for values, set_ticks in ((x, ax.set_xticks), (y, ax.set_yticks)):
        if len(values):
            set_ticks(values, [f"{value:g}" for value in values])
    ax.minorticks_off()
    return ax


def rule_style(rule: str) -> dict[str, Any]:
    """The `colour` and `linestyle` of an acquisition rule. Rules without an entry in
    `RULE_STYLES` have short dashes, each in a colour of its own."""
    number = _others.setdefault(rule, len(_others))
    colour, linestyle = RULE_STYLES.get(rule, (CYCLE[number % len(CYCLE)], (0, (1.5, 0.8))))
    return {"colour": colour, "linestyle": linestyle}


def rule_name(rule: str) -> str:
    """The name of an acquisition rule in figures."""
    return RULE_NAMES.get(rule, rule.replace("_", " "))


def facets(
    n: int, n_columns: int | None = None, *, width: float = 5.0, height: float = 4.0
) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, row by row, and their Axes [n].

    Args:
      n_columns: panels of a row, default at most two, which are legible at the width of a page;
        places of the last row may stay empty.
      width, height: of a panel (inches).
    """
    n_columns = n_columns or min(n, 2)
    n_rows = -(-n // n_columns)
    figure, axes = new_figure(n_columns, n_rows=n_rows, width=width, height=height)
    panels = list(np.ravel(axes))
    for ax in panels[n:]:
        ax.remove()
    return figure, panels[:n]


SIDES = ("green", "vermilion")
"""Colours of what lies above a reference line and below it."""

LABEL_SIZE = 9
"""Of the labels of `label_ends` (points)."""

LEADER = {"arrowstyle": "-", "lw": 0.5, "shrinkB": 1, "relpos": (0, 0.5)}
"""The thin line that joins the left of a label, which it never crosses, to the end of a line."""

INSIDE = 0.8
"""A line that ends left of this share of the panel's width is labelled inside the panel."""


def label_ends(ax: Axes) -> Axes:
    """Write every line's label at its right end, in its colour, instead of a legend. Labels beside
    the panel that would touch move apart, and a thin line joins each to its end; a line that ends
    well inside the panel is labelled there.

    Call it last: it reads the limits of the axes, and later changes of them misplace the labels.
    """
    from matplotlib.patheffects import withStroke

    ax.get_xlim()  # sets the limits of both axes, which Matplotlib puts off
    style: dict[str, Any] = {"xycoords": "axes fraction", "fontsize": LABEL_SIZE, "va": "center"}
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
            textcoords="offset points",
            color=line.get_color(),
            path_effects=[withStroke(linewidth=2, foreground="white")],  # on other lines
            **style,
        )
    ends.sort(key=lambda end: end[0])
    grid = ax.get_gridspec()
    rows = grid.nrows if grid else 1
    height = 0.75 * ax.figure.get_size_inches()[1] / rows  # type: ignore[union-attr]
    at = _apart([y for y, _, _ in ends], 1.25 * LABEL_SIZE / (72 * height))
    for (y, x, line), label_y in zip(ends, at, strict=True):
        ax.annotate(
            str(line.get_label()),
            xy=(x, y),
            xytext=(1.03, label_y),
            color=line.get_color(),
            annotation_clip=False,
            arrowprops={**LEADER, "color": line.get_color()},
            **style,
        )
    for line in lines:
        line.set_label(f"_{line.get_label()}")  # none is named again, by a legend or here
    return ax


def _apart(wanted: Sequence[float], gap: float) -> np.ndarray:
    """Places as near to the wanted ones (ascending) as least squares allow, at least a gap apart:
    isotonic regression of `wanted - i * gap`, kept between 0 and 1 where there is room."""
    from scipy.optimize import isotonic_regression

    steps = gap * np.arange(len(wanted))
    nearest = isotonic_regression(wanted - steps).x
    return np.clip(nearest, 0, max(1 - (len(wanted) - 1) * gap, 0)) + steps


def save(figure: Figure, path: Path | BytesIO, *, kind: str = "png") -> None:
    """Write a figure of a sweep, as PNG or SVG."""
    plots.save(figure, path, literal=False, kind=kind)
