"""The figure of `cost`: recall against dollars, and how many times cheaper the cheap judge is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jbt import twins
from jbt.experiments import plots
from jbt.experiments.table import Table

from .._shared import calibration
from .settings import COLUMNS, K, Settings, cases

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPERS_BUDGETS = (200, 528, 800)
"""Budgets of the paper's points, those of the dear judge by its prices."""
STYLES = {
    ("cheap", "bias_aware"): ("blue", "corrected"),
    ("cheap", "naive"): ("sky", "not corrected"),
    ("dear", "naive"): ("vermilion", "not corrected"),
}


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.new_figure(2, width=5.8, height=5.2)
    draw_frontier(axes[0], ds, table, s)
    draw_times(axes[1], table, s)
    return fig


def draw_frontier(ax: Axes, ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw recall against dollars, the paper's points, and the range of studies of its size."""
    t = Table(COLUMNS, s)
    t.means("recall", calibration.by_seed(ds["recall"], s.n_seeds))
    rows = t.frame()
    sides = {s.cheap: "cheap", s.dear: "dear"}
    for (judge, model, rule), curve in rows.groupby(["judge", "model", "rule"], sort=False):
        curve = curve.assign(dollars=curve.budget.astype(float) * s.verdict_price[str(judge)])
        colour, corrected = STYLES[sides[str(judge)], str(model)]
        line = "-" if rule == s.rule[0] else ":"
        label = f"{judge}, {corrected}, {rule}"
        plots.line(ax, curve, "dollars", colour=colour, label=label, linestyle=line)
    for side, (judge, model) in zip(("cheap", "dear"), cases(s)[::2], strict=True):
        curve = table[(table.judge == judge) & (table.model == model) & table.paper.notna()]
        colour = plots.COLOURS[STYLES[side, model][0]]
        size = twins.known()[judge].pools
        studies = curve[(curve.quantity == "recall") & (curve.rule == s.rule[0])]
        studies = studies[studies.budget.isin(PAPERS_BUDGETS)]
        at = studies.budget.astype(float) * s.verdict_price[judge]
        label = f"95 % of studies of {size} pools" if len(studies) else None
        ax.vlines(at, studies.replicate_low, studies.replicate_high, colour, lw=3, alpha=0.5)
        ax.plot([], [], color=colour, lw=3, alpha=0.5, label=label)
        points = curve[(curve.quantity == "cost_to_reach") & (curve.rule == s.rule[0])]
        label = f"paper, {judge}" if len(points) else None
        ax.plot(points.paper, points.target, "x", ms=9, mew=2, color=colour, label=label)
    ax.set_xscale("log")
    ax.set_xlabel("dollars a pool, comparisons alone")
    ax.set_ylabel(f"recall of the top {K}")
    ax.set_title(f"{s.pools:,} pools (95 % bands)")
    ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    return ax


def draw_times(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw how many times cheaper the cheap judge is, where both reach a target."""
    rows = table[(table.quantity == "times_cheaper") & (table.rule == s.rule[0])]
    sharing = [None, *s.n_pools_sharing]
    for i, (n, colour) in enumerate(zip(sharing, plots.CYCLE * len(sharing), strict=False)):
        ratios = rows[rows.n_pools_sharing.isna() if n is None else rows.n_pools_sharing == n]
        label = (
            "no gate"
            if n is None
            else f"gate shared by {n:,} pools"
            if n > 1
            else "gate for one pool"
        )
        known = ratios.dropna(subset="ci_low")
        at = known.target.astype(float) + 0.002 * (i - len(sharing) / 2)
        plots.points(ax, known, at, colour=colour, label=label)
        papers = ratios.dropna(subset="paper")
        ax.plot(papers.target, papers.paper, "x", ms=8, mew=2, color=colour)
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set_xlim(min(s.target) - 0.02, max(s.target) + 0.02)
    ax.set_yscale("log")
    ax.set_xlabel("recall to be reached by both judges")
    ax.set_ylabel(f"{s.dear}'s cost over {s.cheap}'s, corrected")
    ax.set_title(f"Times cheaper, {s.rule[0]} (95 %; crosses: paper)")
    ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    return ax
