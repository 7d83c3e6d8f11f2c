"""The figure of `jbt fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border import plots
from jbt.border.report import each
from jbt.identifiability.profile_likelihood import PROFILE_DROP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.own.fits.analysis import Analysis

DRAWN = 40
"""Largest number of contents drawn."""

GREY = {"color": "grey", "ls": "none", "marker": "o", "ms": 4}
HOLLOW, NAIVE = "hollow: no interval, see the report", "uncorrected (c = kappa = 0)"

DEEPEST = 12.0
"""Nats below the maximum at which profile curves are cut off, if three points of each lie above."""


def figure(analysis: Analysis) -> Figure:
    """Draw qualities (of one pool) or coefficients of each judge (of several pools), beside the
    profile curves of c where there are covariates."""
    batch, n_judges = analysis.batch, len(analysis.judges)
    one_pool = len(batch.tables.pools) == 1
    panels = [_qualities if one_pool else _coefficients]
    panels += [_profiles] if batch.covariates else [_coefficients] if one_pool else []
    n = len(analysis.coefficients)
    if one_pool:
        n = sum(len(f.ranking[:DRAWN]) for f in analysis.fits)
    height = max(3.8, 0.16 * max(n, n_judges))
    drawn, axes = plots.new_figure(len(panels), width=4.8, height=height)
    for panel, ax in zip(panels, np.atleast_1d(axes), strict=True):
        panel(ax, analysis)
    return plots.legend_below(drawn, fontsize=8, ncols=3)


def _colour(j: int) -> str:
    return plots.CYCLE[j % len(plots.CYCLE)]


def _label(c: Any) -> str:
    return c.coefficient if c.judge is None else f"{c.judge}: {c.coefficient}"


def _interval(table: pd.DataFrame) -> pd.DataFrame:
    """Estimates with their ends as `plots.points` has them."""
    return table.rename(columns={"theta": "estimate", "low": "ci_low", "high": "ci_high"})


def _qualities(ax: Axes, analysis: Analysis) -> None:
    """A forest plot of the contents, the first judge's best on top."""
    fits = analysis.fits
    names = [ranking.content for ranking in fits[0].ranking[:DRAWN]]
    for j, fit in enumerate(fits):
        ranking = pd.DataFrame([vars(r) for r in fit.ranking]).set_index("content")
        ranking = _interval(ranking.loc[names])
        heights = -np.arange(len(names)) - (j + 1) / (len(fits) + 1) + 0.5
        style, colour = {"label": fit.judge or "theta"}, _colour(j)
        if ranking["ci_low"].isna().any():
            style["mfc"] = "white"
            ax.plot([], [], **GREY, mfc="white", label=HOLLOW)
        plots.points(ax, ranking, heights, colour=colour, horizontal=True, **style)
        ax.plot(ranking["theta_naive"], heights, "x", color=colour, ms=4, label=NAIVE)
    ax.set_yticks(-np.arange(len(names)), names)
    ax.set(xlabel="quality theta, logits", title="Quality without and with correction")


def _coefficients(ax: Axes, analysis: Analysis) -> None:
    """A forest plot of c and kappa by judge, over the central 90 % of the pools' own estimates."""
    table, of_pools = analysis.coefficients, analysis.of_pools
    for height, c in zip(-np.arange(float(len(table))), each(table), strict=True):
        if c.n_pools > 1:
            own = (of_pools["owner"] == c.owner) & (of_pools["coefficient"] == c.coefficient)
            low, high = np.quantile(of_pools["estimate"][own], [0.05, 0.95])
            ax.plot([low, high], [height, height], color=_colour(c.owner), alpha=0.25, lw=6)
        row, style = _interval(table.loc[[c.Index]]), {"mfc": "white"} if np.isnan(c.low) else {}
        colour = _colour(c.owner)
        plots.points(ax, row, [height], colour=colour, label="", horizontal=True, **style)
    ax.axvline(0, color="grey", lw=0.8, ls=":")
    ax.set_yticks(-np.arange(len(table)), [_label(c) for c in each(table)])
    ax.margins(y=0.5 / max(len(table), 1))
    ax.plot([], [], **GREY, label="all pools together, 95 %")
    if table["low"].isna().any():
        ax.plot([], [], **GREY, mfc="white", label=HOLLOW)
    if len(analysis.batch.tables.pools) > 1:
        ax.plot([], [], color="grey", alpha=0.25, lw=6, label="single pools, central 90 %")
    ax.set(xlabel="c and kappa, logits", title="Biases of each judge")


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
        label = _label(c) if d > 1 else c.judge or c.coefficient
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
