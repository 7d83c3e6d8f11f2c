"""The figure of `jbt fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jbt.border import plots
from jbt.identifiability.profile_likelihood import PROFILE_DROP
from jbt.own.fits.batch import Batch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.own.fits.analysis import JudgeSummary

DRAWN = 40
"""Largest number of contents drawn."""

DEEPEST = 12.0
"""Nats below the maximum at which profile curves are cut off, if three points of each lie above."""


def figure(batch: Batch, judges: list[JudgeSummary]) -> Figure:
    """Draw qualities (of one pool) or coefficients of each judge (of several pools), beside the
    profile curves of c where there are covariates."""
    one_pool = len(batch.tables.pools) == 1
    panels = [_qualities if one_pool else _coefficients]
    panels += [_profiles] if batch.covariates else [_coefficients] if one_pool else []
    n = max(len(_rows(judges, one_pool)), len(judges))
    drawn, axes = plots.new_figure(len(panels), height=max(4.4, 0.16 * n))
    for panel, ax in zip(panels, np.atleast_1d(axes), strict=True):
        panel(ax, judges)
    return drawn


def _rows(judges: list[JudgeSummary], one_pool: bool) -> list[Any]:
    if not one_pool:
        return [c for judge in judges for c in judge.coefficients]
    return [content for judge in judges for content in judge.fits[0].ranking[:DRAWN]]


def _colour(j: int) -> str:
    return plots.CYCLE[j % len(plots.CYCLE)]


def _qualities(ax: Axes, judges: list[JudgeSummary]) -> None:
    """A forest plot of the contents, the first judge's best on top."""
    names = [ranking.content for ranking in judges[0].fits[0].ranking[:DRAWN]]
    for j, judge in enumerate(judges):
        ranking = pd.DataFrame([vars(r) for r in judge.fits[0].ranking]).set_index("content")
        ranking = ranking.loc[names].rename(
            columns={"theta": "estimate", "low": "ci_low", "high": "ci_high"}
        )
        heights = -np.arange(len(names)) - (j + 1) / (len(judges) + 1) + 0.5
        has_intervals = ranking["ci_low"].notna().all()
        reason = "prior-selected" if "theta" in judge.fits[0].prior_selected else "no interval"
        label = (judge.judge or "theta") + ("" if has_intervals else f" ({reason})")
        style = {} if has_intervals else {"mfc": "white"}
        plots.points(ax, ranking, heights, colour=_colour(j), label=label, horizontal=True, **style)
        naive = "naive, c = kappa = 0" if j == len(judges) - 1 else None
        ax.plot(ranking["theta_naive"], heights, "x", color=_colour(j), ms=4, label=naive)
    ax.set_yticks(-np.arange(len(names)), names)
    ax.set_xlabel("quality theta, logits")
    ax.legend(fontsize="small")


def _coefficients(ax: Axes, judges: list[JudgeSummary]) -> None:
    """A forest plot of c and kappa by judge, over the central 90 % of the pools' own estimates."""
    labels = []
    for j, judge in enumerate(judges):
        for coefficient in judge.coefficients:
            height = -float(len(labels))
            labels.append(
                coefficient.name if judge.judge is None else f"{judge.judge}: {coefficient.name}"
            )
            if coefficient.n_pools > 1:
                low, high = np.quantile(coefficient.values, [0.05, 0.95])
                ax.plot([low, high], [height, height], color=_colour(j), alpha=0.25, lw=6)
            row = pd.DataFrame(
                {
                    "estimate": [coefficient.estimate],
                    "ci_low": coefficient.low,
                    "ci_high": coefficient.high,
                }
            )
            style = {"mfc": "white"} if np.isnan(coefficient.low) else {}
            plots.points(ax, row, [height], colour=_colour(j), label="", horizontal=True, **style)
    ax.axvline(0, color="grey", lw=0.8, ls=":")
    ax.set_yticks(-np.arange(len(labels)), labels)
    ax.margins(y=0.5 / max(len(labels), 1))
    grey = {"color": "grey", "ls": "none", "marker": "o", "ms": 4}
    ax.plot([], [], **grey, label="all pools together, 95 %")
    if any(np.isnan(c.low) for judge in judges for c in judge.coefficients):
        ax.plot([], [], **grey, mfc="white", label="no interval: see the report")
    if len(judges[0].fits) > 1:
        ax.plot([], [], color="grey", alpha=0.25, lw=6, label="pools' own, central 90 %")
    ax.set_xlabel("c and kappa, logits")
    ax.legend(fontsize="small")


def _profiles(ax: Axes, judges: list[JudgeSummary]) -> None:
    """Profile likelihood of each c; the points were computed, the curve is a spline."""
    from scipy.interpolate import CubicSpline

    styles, lowest, third = ("-", "--", "-.", ":"), -2 * PROFILE_DROP, -DEEPEST
    for j, judge in enumerate(judges):
        for d, coefficient in enumerate(judge.c):
            if not np.isfinite(coefficient.log_likelihood).all():
                continue
            fine = np.linspace(coefficient.grid[0], coefficient.grid[-1], 200)
            curve = CubicSpline(coefficient.grid, coefficient.log_likelihood)(fine)
            points, curve = coefficient.log_likelihood - curve.max(), curve - curve.max()
            lowest, third = min(lowest, points.min()), min(third, np.sort(points)[-3])
            # Different widths keep flat curves from hiding each other.
            width = 1.5 * (len(judges) - j) if coefficient.prior_selected else 1.5
            label = (
                coefficient.name if judge.judge is None else f"{judge.judge}: {coefficient.name}"
            )
            ax.plot(fine, curve, styles[d % 4], color=_colour(j), label=label, lw=width)
            ax.plot(coefficient.grid, points, "o", color=_colour(j), ms=3)
    bottom = 1.05 * max(lowest, third)
    ax.axhline(
        -PROFILE_DROP, color="grey", lw=0.8, ls=":", label="95 % if verdicts are independent"
    )
    ax.set_ylim(bottom, -bottom / 20)
    ax.set_xlabel(f"c, logits per {judges[0].c[0].unit if len(judges[0].c) == 1 else 'unit'}")
    ax.set_ylabel("profile log-likelihood less its largest, nats")
    ax.legend(fontsize="small")
