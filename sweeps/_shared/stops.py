"""Table and figure of `sweeps.stopping`, from its saved results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats
from jbt.experiments import plots
from jbt.experiments.labelled_arrays import rows_of

from .truths import SOUND, TRUTHS

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

COLUMNS = ("protocol", "scenario", "model", "rule", "stop", "level", "bin")
EDGES = np.linspace(0, 1, 11)
"""Edges of the bins of certainty."""
FEWEST = 20
"""Fewest pools with looks in a bin for the bin to have a row (count)."""


def table(ds: xr.Dataset, s: Any, t: Table) -> None:
    stop_rows(ds, "level", {"stop": "certainty"}, t)
    stop_rows(ds, "gain", {"stop": "gain", "level": s.gain}, t)
    end = {"stop": "budget"}
    t.means("verdicts", ds["at_end_verdicts"], **end)
    t.means("certainty", ds["at_end_certainty"], **end)
    t.shares("right", ds["at_end_right"], **end)
    t.means("recall", ds["at_end_recall"], **end)
    overconfidence_rows(ds["at_end_certainty"], ds["at_end_right"], end, t)
    reliability_rows(ds, t)


def stop_rows(ds: xr.Dataset, at: str, where: dict[str, Any], t: Table) -> None:
    """Add the rows of runs that stop: share of runs, verdicts, certainty and share right where they
    stop, and what is lost by stopping."""
    of = {name: ds[f"at_{at}_{name}"] for name in ("stopped", "verdicts", "right", "certainty")}
    t.shares("stopped", of["stopped"], **where)
    t.shares("right", of["right"], **where)
    t.means("certainty", of["certainty"], **where)
    overconfidence_rows(of["certainty"], of["right"], where, t)
    # Runs that do not stop spend everything.
    t.means("verdicts", of["verdicts"], **where)
    t.means("saved", 1 - of["verdicts"] / ds["at_end_verdicts"], **where)
    stopped = of["verdicts"].where(of["stopped"] > 0)
    t.means("verdicts_of_stopped", stopped, **where)
    t.means("recall_lost", ds["at_end_recall"] - ds[f"at_{at}_recall"], **where)
    t.means("right_lost", ds["at_end_right"] - of["right"], **where)


def overconfidence_rows(
    certainty: xr.DataArray, right: xr.DataArray, where: dict[str, Any], t: Table
) -> None:
    """Add mean certainty minus the share right. The interval is that of the share, exact: the
    bootstrap has none where all are right, and certainties at a stop differ little."""
    known = right.transpose(..., "pool")
    rows = zip(rows_of(certainty, COLUMNS), rows_of(known, COLUMNS), strict=True)
    for (row, sure), (_, is_right) in rows:
        share, low, high = stats.share_interval(is_right.astype(float))
        n = int(np.isfinite(is_right).sum())
        mean = float(np.nansum(sure)) / n if n else np.nan
        t.add("overconfidence", mean - share, (mean - high, mean - low), n, **(row | where))


def reliability_rows(ds: xr.Dataset, t: Table) -> None:
    """Add each bin's mean certainty over all looks and the share of them with the top k right: as
    ratios of means over the same pools."""
    names = ("looks", "sum_certainty", "sum_right")
    sums = np.stack([ds[n].transpose("condition", "bin", "pool").values for n in names])
    filled = (sums[0] > 0).sum(-1) >= FEWEST  # [condition, bin]
    sums = sums[:, filled].astype(float)  # [3, rows, P]
    if not filled.any():
        return

    def ratios(means: np.ndarray) -> dict[str, np.ndarray]:
        looks, sure, right = np.moveaxis(means, -2, 0)
        return {
            "certainty": sure / looks,
            "right": right / looks,
            "overconfidence": (sure - right) / looks,
        }

    mean, n_pools = ratios(sums.mean(-1)), sums.shape[-1]
    with np.errstate(invalid="ignore"):  # a resample without looks in a bin
        resampled = ratios(stats.bootstrap_means(sums, seed=t.seed))
    labels = ("protocol", "scenario", "model", "rule")
    for i, (c, at) in enumerate(np.argwhere(filled)):
        where: dict[str, Any] = {name: ds[name].values[c] for name in labels}
        where |= {"stop": "none", "bin": ds["bin"].values[at]}
        for quantity, ratio in mean.items():
            interval = stats.percentiles(resampled[quantity][:, i], n_units=n_pools)
            t.add(quantity, ratio[i], interval, n_pools, **where)


PRINTED = ("stopped", "right", "certainty", "overconfidence", "saved", "recall_lost")


def headline(table: pd.DataFrame, s: Any) -> pd.DataFrame:
    """Rows to print: the first rule, at the level nearest .9 and where there is no more to gain."""
    near = min(s.level, key=lambda level: abs(level - 0.9))
    chosen = (table.stop == "gain") | ((table.stop == "certainty") & (table.level == near))
    return table[chosen & (table.rule == s.rule[0]) & table.quantity.isin(PRINTED)]


# --- figure


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Any) -> Figure:
    fig, axes = plots.facets(3, width=5.6, height=5.0)
    protocol = s.protocol[-1]
    rows = table[table.protocol == protocol]
    draw_reliability(axes[0], rows[rows.rule == s.rule[0]], protocol, s)
    draw_coverage(axes[1], rows[rows.rule == s.rule[0]], s)
    draw_cost(axes[2], rows, s)
    return fig


STYLES = {
    "prior": ("blue", "-"),
    "unbiased": ("sky", "-"),
    "one_order": ("green", "-"),
    "sd_0.4": ("purple", "--"),
    "rho_0.8": ("orange", "--"),
    "pair_noise": ("vermilion", "--"),
    "naive": ("black", "--"),
}
"""Colour and line of the scenarios whose reliability is drawn."""


def draw_reliability(ax: Axes, rows: pd.DataFrame, protocol: str, s: Any) -> Axes:
    """Draw the share right against the certainty, over all looks."""
    ax.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    looks = rows[rows.stop == "none"]
    for scenario in looks.scenario.unique():
        if scenario in STYLES or scenario not in TRUTHS:
            colour, line = STYLES.get(scenario, ("blue", "-"))
            of = looks[looks.scenario == scenario]
            at = of[of.quantity == "certainty"].estimate.values
            right = of[of.quantity == "right"]
            plots.points(ax, right, at, colour=colour, label=scenario, fmt="o", ms=3, ls=line)
    ax.set_xlabel("certainty (mean of a bin, all looks)")
    ax.set_ylabel(f"share of looks with the top {s.k} right")
    ax.set_title(f"{protocol}, {s.rule[0]}, {s.pools:,} pools")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8)
    return ax


def draw_coverage(ax: Axes, rows: pd.DataFrame, s: Any) -> Axes:
    """Draw the share right among stopped runs, by scenario and level."""
    scenarios = list(rows.scenario.unique())
    right = rows[(rows.stop == "certainty") & (rows.quantity == "right")]
    for i, (level, colour) in enumerate(zip(s.level, plots.CYCLE, strict=False)):
        of = right[(right.level == level) & right.estimate.notna()]
        at = [scenarios.index(name) + 0.18 * (i - (len(s.level) - 1) / 2) for name in of.scenario]
        plots.points(ax, of, at, colour=colour, label=f"level {level:g}", horizontal=True)
        ax.axvline(level, color=colour, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(scenarios)), scenarios)
    if SOUND[-1] in scenarios:
        ax.axhline(scenarios.index(SOUND[-1]) + 0.5, color="black", linewidth=0.8)
    ax.invert_yaxis()
    ax.set_xlabel("share right of the runs that stopped (95 %)")
    ax.set_title("Right where they stop; above the line assumptions hold")
    if right.estimate.notna().any():
        ax.legend(fontsize=8, loc="lower left")
    return ax


def draw_cost(ax: Axes, rows: pd.DataFrame, s: Any) -> Axes:
    """Draw the share of runs that stopped against the level, by rule, in the first scenario."""
    first = rows.scenario.iloc[0]
    stopped = rows[(rows.stop == "certainty") & (rows.quantity == "stopped")]
    for rule in s.rule:
        of = stopped[(stopped.rule == rule) & (stopped.scenario == first)]
        plots.line(ax, of, "level", label=rule, **plots.rule_style(rule))
    plots.ticks(ax, x=s.level)
    ax.set_xlabel("level at which a run stops")
    ax.set_ylabel("share of runs that stop (95 %)")
    ax.set_title(f"{first}, by rule")
    ax.legend(fontsize=8)
    return ax
