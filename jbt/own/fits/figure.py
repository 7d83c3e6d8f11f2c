"""The figure of `jbt fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border.report import each
from jbt.experiments import plots
from jbt.identifiability.profile_likelihood import PROFILE_DROP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.own.fits.analysis import Analysis

DRAWN = 40
"""Largest number of contents drawn."""

GREY = {"color": "grey", "ls": "none", "marker": "o", "ms": 4}

UNCORRECTED = "Nothing is corrected: there is no coefficient"
"""Title where there is none."""

DEEPEST = 12.0
"""Nats below the maximum at which profile curves are cut off, if three points of each lie above."""


def figure(analysis: Analysis) -> Figure:
    """Draw qualities (of one pool) or coefficients of each judge (of several pools), beside the
    profile curves of c where there are covariates."""
    batch = analysis.batch
    n = len(analysis.coefficients)
    one_pool = len(batch.tables.pools) == 1
    panels = [_qualities if one_pool else _coefficients]
    panels += [_profiles] if batch.covariates else [_coefficients] if one_pool and n else []
    if one_pool:
        n = sum(len(f.ranking[:DRAWN]) for f in analysis.fits)
    height = max(3.8, 0.16 * n)
    drawn, axes = plots.facets(len(panels), width=4.8, height=height)
    for panel, ax in zip(panels, axes, strict=True):
        panel(ax, analysis)
    return plots.legend_below(drawn, fontsize=8, ncols=3)


def _colour(j: int) -> str:
    return plots.CYCLE[j % len(plots.CYCLE)]


def _label(c: Any, analysis: Analysis) -> str:
    """A coefficient as what the judge may prefer, in words."""
    batch = analysis.batch
    columns = dict(zip(batch.covariates, batch.model.covariates, strict=True))
    what = f"more {columns[c.name]}" if c.name in columns else "shown first"
    return what if c.judge is None else f"{c.judge}: {what}"


def _marks(ax: Axes, low: Any, what: str) -> None:
    """Name the marks in the legend, in grey: dots with an interval, hollow ones without."""
    none = np.isnan(low)
    if not none.all():
        ax.plot([], [], **GREY, label=f"{what}, 95 %")
    if none.any():
        ax.plot([], [], **GREY, mfc="white", label=f"{what}, no interval (see the report)")


def _points(ax: Axes, table: pd.DataFrame, at: Any, j: int, label: str) -> None:
    """Draw estimates of a judge at these heights, hollow where one has no interval."""
    rows = table.rename(columns={"theta": "estimate", "low": "ci_low", "high": "ci_high"})
    style = {"mfc": "white"} if rows["ci_low"].isna().any() else {}
    plots.points(ax, rows, at, colour=_colour(j), label=label, horizontal=True, **style)


def _qualities(ax: Axes, analysis: Analysis) -> None:
    """A forest plot of the contents, the first judge's best on top."""
    fits = analysis.fits
    names = [ranking.content for ranking in fits[0].ranking[:DRAWN]]
    for j, fit in enumerate(fits):
        ranking = pd.DataFrame([vars(r) for r in fit.ranking]).set_index("content").loc[names]
        heights = -np.arange(len(names)) - (j + 1) / (len(fits) + 1) + 0.5
        _points(ax, ranking, heights, j, fit.judge or "")
        if len(analysis.coefficients):
            ax.plot(ranking["theta_naive"], heights, "x", color=_colour(j), ms=4)
    what, title = "estimate", UNCORRECTED
    if len(analysis.coefficients):
        ax.plot([], [], "x", color="grey", ms=4, label="not corrected")
        what, title = "corrected", "Correction moves each quality from cross to circle"
    _marks(ax, [r.low for fit in fits for r in fit.ranking], what)
    ax.set_yticks(-np.arange(len(names)), names)
    ax.set_title(title)
    ax.set_xlabel("quality theta (logits)")


def _coefficients(ax: Axes, analysis: Analysis) -> None:
    """A forest plot of c and kappa by judge, over the central 90 % of the pools' own estimates."""
    table, of_pools = analysis.coefficients, analysis.of_pools
    for height, c in zip(-np.arange(float(len(table))), each(table), strict=True):
        if c.n_pools > 1:
            own = (of_pools["owner"] == c.owner) & (of_pools["coefficient"] == c.coefficient)
            low, high = np.quantile(of_pools["estimate"][own], [0.05, 0.95])
            ax.plot([low, high], [height, height], color=_colour(c.owner), alpha=0.25, lw=6)
        _points(ax, table.loc[[c.Index]], [height], c.owner, "")
    ax.axvline(0, color="grey", lw=0.8, ls=":")
    ax.set_yticks(-np.arange(len(table)), [_label(c, analysis) for c in each(table)])
    ax.set_ylim(-len(table), 0.5)
    _marks(ax, table["low"], "all pools together")
    if len(analysis.batch.tables.pools) > 1:
        ax.plot([], [], color="grey", alpha=0.25, lw=6, label="single pools, central 90 %")
    n, shown = table["low"].notna().sum(), (table["low"] * table["high"] > 0).sum()
    title = f"{shown} of {n} intervals show a preference" if n else "No interval (see the report)"
    ax.set_title(title if len(table) else UNCORRECTED)
    ax.set_xlabel("preference, c or kappa (logits; below 0: dislikes)")


def _profiles(ax: Axes, analysis: Analysis) -> None:
    """Profile likelihood of each c; the points were computed, the curve is a spline."""
    from scipy.interpolate import CubicSpline

    styles, lowest, third = ("-", "--", "-.", ":"), -2 * PROFILE_DROP, -DEEPEST
    of_c = analysis.coefficients[analysis.coefficients["quantity"] == "c"]
    grids, sums = (v.reshape(len(of_c), -1) for v in analysis.curves)
    n_judges = len(analysis.judges)
    d = len(of_c) // n_judges
    for i, (c, grid, log_likelihood) in enumerate(zip(each(of_c), grids, sums, strict=True)):
        if not np.isfinite(log_likelihood).all():
            continue
        fine = np.linspace(grid[0], grid[-1], 200)
        curve = CubicSpline(grid, log_likelihood)(fine)
        points, curve = log_likelihood - curve.max(), curve - curve.max()
        lowest, third = min(lowest, points.min()), min(third, np.sort(points)[-3])
        # Different widths keep flat curves from hiding each other.
        width = 1.5 * (n_judges - c.owner) if c.prior_selected else 1.5
        colour = _colour(c.owner)
        label = c.judge if d == 1 and c.judge else _label(c, analysis)
        ax.plot(fine, curve, styles[i % d % 4], color=colour, label=label, lw=width)
        ax.plot(grid, points, "o", color=colour, ms=3)
    bottom = 1.05 * max(lowest, third)
    ax.axhline(
        -PROFILE_DROP, color="grey", lw=0.8, ls=":", label="95 % if verdicts are independent"
    )
    ax.set_ylim(bottom, -bottom / 20)
    ax.set(
        xlabel=f"c, logits per {of_c['unit'].iloc[0] if d == 1 else 'unit'}",
        ylabel="log-likelihood minus its maximum",
        title="A peak measures c, a flat line does not",
    )
