"""Draw the tables of sweeps: what `jbt.border.plots` draws, and what only experiments need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt.border.plots import COLOURS, CYCLE, band, legend_below, new_figure, points
from jbt.border.plots import forest as forest
from jbt.border.plots import save as save
from jbt.experiments.labelled_arrays import where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RHO_LABEL = r"correlation of quality and covariate, $\rho$"
STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Line:
    """Estimates of some rows of a panel against one of its columns."""

    where: Mapping[str, Any]
    """Column -> its value in these rows, or several."""
    label: str
    colour: str
    """As in `band`."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `band`, or of `points`."""


def lines_of(rules: Iterable[str], **where: Any) -> list[Line]:
    """A line for each acquisition rule, each in a colour and style of its own."""
    lines = []
    for i, rule in enumerate(rules):
        style = {"linestyle": STYLES[i // len(CYCLE) % len(STYLES)]}
        colour = CYCLE[i % len(CYCLE)]
        lines.append(Line({"rule": rule, **where}, rule, colour, style))
    return lines


@dataclass(frozen=True)
class Panel:
    """Rows of a table against one of its columns, a line a series: a line with its 95 % intervals
    as a band; or, where places have names or `points` says so, points with their intervals. Numbers
    of the paper are crosses in the colour of the line."""

    x: str
    """Column."""
    where: Mapping[str, Any]
    """Column -> its value in all rows of the panel, or several."""
    lines: Sequence[Line]
    labels: tuple[str, str, str]
    """Of the x axis, of the y axis, and the title."""
    level: int | float | None = None
    """Where a reference line is drawn across the estimates; default nowhere."""
    log: str = ""
    """Axes with a logarithmic scale: x, y or xy."""
    names: Sequence[str] = ()
    """Values of the column, which then stand on the y axis from the top down, with estimates on the
    x axis."""
    points: bool = False
    after: Callable[[Axes], Any] | None = None
    """Draws what is not a line of the table: a limit, say."""
    table: Any = None
    """What to draw in place of the sweep's table."""

    def draw(self, ax: Axes, table: Any, *, legend: bool = True) -> None:
        """Draw the panel."""
        from matplotlib.ticker import LogLocator, NullLocator

        if self.level is not None:
            across = ax.axvline if self.names else ax.axhline
            across(self.level, color="black", linewidth=0.8)
        rows = where(table if self.table is None else self.table, **self.where)
        place = {name: i for i, name in enumerate(self.names)}
        for i, line in enumerate(self.lines):
            of_line, colour = where(rows, **line.where), COLOURS.get(line.colour, line.colour)
            if not len(of_line):
                continue
            # What draws nothing is not named: Matplotlib leaves out names that begin with _.
            label = line.label if of_line.estimate.count() else "_"
            style = {"colour": colour, "label": label, **line.style}
            if self.names:  # lines stand a little apart
                at = of_line[self.x].map(place) + 0.7 * ((i + 0.5) / len(self.lines) - 0.5)
            else:
                at = of_line[self.x].astype(float)
            if self.names or self.points:
                points(ax, of_line, at, horizontal=bool(self.names), **style)
            else:
                ends = of_line[["estimate", "ci_low", "ci_high"]]
                band(ax, at, *ends.to_numpy().T, **style)
            crosses = (of_line.paper, at) if self.names else (at, of_line.paper)
            ax.plot(*crosses, "x", ms=8, mew=2, color=colour)
        if rows.paper.count():
            ax.plot([], [], "x", color="black", label="the paper")
        if self.after is not None:
            self.after(ax)
        for name in self.log:
            ax.set(**{f"{name}scale": "log"})
            axis = ax.xaxis if name == "x" else ax.yaxis
            axis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}")
            axis.set_minor_locator(NullLocator())
        if self.names:
            ax.set_yticks(range(len(self.names)), self.names, fontsize=8)
            ax.set_ylim(len(self.names) - 0.5, -0.5)
        x, y, title = self.labels
        ax.set(xlabel=x, ylabel=y)
        ax.set_title(title, fontsize=11)
        if legend and ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=8)


def draw(
    panels: Sequence[Panel], table: Any, *, below: Mapping[str, Any] | None = None, **size: Any
) -> Figure:
    """A figure of some panels.

    Args:
      below: options of one legend below the figure, of the lines of all panels, instead of one in
        every panel.
      size: as in `facets`.
    """
    figure, axes = facets(len(panels), **size)
    for ax, panel in zip(axes, panels, strict=True):
        panel.draw(ax, table, legend=below is None)
    return figure if below is None else legend_below(figure, **below)


def facets(n: int, *, width: float = 5.0, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, row by row, at most two in a row, and their Axes [n].

    Args:
      width, height: of a panel (inches).
    """
    n_columns = min(n, 2)
    figure, axes = new_figure(n_columns, n_rows=-(-n // n_columns), width=width, height=height)
    panels = list(np.ravel(axes))
    for ax in panels[n:]:
        ax.remove()
    return figure, panels[:n]
