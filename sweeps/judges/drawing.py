"""The figure of `judges`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jbt.experiments import plots
from jbt.simulation.judges import PUBLISHED

from .rows import BIASED

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Any) -> Figure:
    fig, axes = plots.new_figure(2, n_rows=2, width=6.4, height=4.8)
    draw_judges(axes[0][0], table, s)
    draw_capability(axes[0][1], table, s)
    draw_boundary(axes[1][0], ds, s)
    draw_sizes(axes[1][1], table)
    return fig


def of_judges(table: pd.DataFrame, s: Any, quantity: str, model: str) -> pd.DataFrame:
    """Rows of one quantity, one a judge, in the order of the paper's table."""
    rows = table[(table.quantity == quantity) & (table.model == model)]
    rows = rows[(rows.n_items == 30) & (rows.k == 5) & rows.judge.isin(s.judge)]
    return rows.drop_duplicates("judge").set_index("judge").reindex(list(s.judge))


def draw_judges(ax: Axes, table: pd.DataFrame, s: Any) -> Axes:
    """Draw recall of both models: range of studies of the paper's size, and the paper's number."""
    series = []
    for model, colour, label in (
        ("naive", "orange", "naive (calibrated)"),
        ("bias_aware", "blue", "bias-aware"),
    ):
        rows = of_judges(table, s, "recall", model)
        numbers = (rows[c].to_numpy() for c in ("estimate", "replicate_low", "replicate_high"))
        series.append((f"{label}, twins; studies of its size (95 %)", colour, *numbers))
    names = [PUBLISHED[name].model for name in s.judge]
    plots.forest(ax, names, series)
    for i, model in enumerate(("naive", "bias_aware")):
        rows = of_judges(table, s, "recall", model)
        y = np.arange(len(rows)) + 0.3 * (i - 0.5)
        ax.plot(rows.paper, y, "x", color="black", ms=5, label=None if i else "paper")
    ax.set_xlabel("recall of the top 5")
    ax.set_title("The paper's judges, N = 30")
    ax.legend(fontsize=7, loc="center left")
    return ax


def draw_capability(ax: Axes, table: pd.DataFrame, s: Any) -> Axes:
    """Draw gain against competence, ours and the paper's."""
    naive = of_judges(table, s, "recall", "naive")
    gain = of_judges(table, s, "benefit", "bias_aware")
    colour, label = plots.COLOURS["blue"], "twins; studies of its size (95 %)"
    ax.axhline(0, color="black", linewidth=0.8)
    # Where almost no pool gains, the mean itself may lie outside the range of small studies.
    ax.vlines(naive.estimate, gain.replicate_low, gain.replicate_high, color=colour, label=label)
    ax.plot(naive.estimate, gain.estimate, "o", ms=4, color=colour)
    ax.plot(naive.paper, gain.paper, "x", color="black", label="paper")
    named = [name for name in s.judge if PUBLISHED[name].naive_recall < 0.95]
    for i, name in enumerate(named):
        x, y = naive.estimate[name], gain.estimate[name]
        if np.isfinite(x):
            aside = (4, 4 + 10 * (i % 2))  # some lie close together
            where = {"xytext": aside, "textcoords": "offset points", "fontsize": 7}
            ax.annotate(PUBLISHED[name].model, (x, y), **where)
    ax.set_xlabel("naive recall of the top 5")
    ax.set_ylabel("gain: bias-aware minus naive recall")
    ax.set_title("Where correction helps")
    ax.legend(fontsize=7)
    return ax


def draw_boundary(ax: Axes, ds: xr.Dataset, s: Any) -> Axes:
    """Draw naive estimates of terse and elaborated items by quality, for the first judge."""
    boundary = ds["boundary"].isel(condition=0).transpose("elaborated", "quality", "pool")
    quality = boundary["quality"].values
    for x, colour, label in ((0, "green", "terse"), (1, "vermilion", "elaborated")):
        pools = boundary.sel(elaborated=x).values.astype(float)
        low, middle, high = np.nanquantile(pools, [0.025, 0.5, 0.975], axis=-1)
        label = f"{label}: median of pools' means, 95 % of pools"
        plots.band(ax, quality, middle, low, high, colour=colour, label=label)
    ax.axhline(0, color="black", linestyle=":", label="naive cut-off")
    ax.set_xlabel("true quality, statements (true less false)")
    ax.set_ylabel("naive estimate above the cut-off, logits")
    ax.set_title(f"Elaborated answers cross the boundary: {PUBLISHED[s.judge[0]].model}")
    ax.legend(fontsize=7)
    return ax


def draw_sizes(ax: Axes, table: pd.DataFrame) -> Axes:
    """Draw recall at k, mean over the biased judges."""
    rows = table[(table.quantity == "recall") & (table.judge == BIASED)]
    for model, colour in (("naive", "orange"), ("bias_aware", "blue")):
        recalls = rows[rows.model == model]
        if len(recalls):
            plots.points(ax, recalls, recalls.k, colour=colour, label=f"{model}, twins", ls="-")
            ax.plot(
                recalls.k, recalls.paper, "x", color=plots.COLOURS[colour], label=f"{model}, paper"
            )
    ax.set_xlabel("k, size of the top set asked for")
    ax.set_ylabel("recall of the top k")
    ax.set_title("The same pools at other k, mean of the five biased judges")
    if len(rows):
        ax.legend(fontsize=7)
    return ax
