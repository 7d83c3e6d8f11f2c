"""Spending a budget on a judge that draws a fresh verdict at every query and may be asked again.

The paper's robustness check: with a posterior that is refitted now and then, the greedy rule asks
the same pair again and again until the next refit. Every rule, refitted after every 2 verdicts as
in the paper and after every 8, and rules that do not go stale in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import root_scalar
from scipy.stats import norm

from jbt import stats, study
from sweeps import _active as active
from sweeps._active import Case

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROTOCOL = "stochastic"
DOUBT = (0.2, 0.8)
PAPER_UNCERTAIN = 0.43

# Its own judge's logits, 10 pools, refitted after every 2 verdicts. Of the tests it names some.
PAPER: active.Paper = {
    **{
        ("recall", "bias_aware", "top_k_aware", 2, budget): recall
        for budget, recall in {60: 0.64, 120: 0.71, 200: 0.78, 320: 0.83}.items()
    },
    ("p_holm", "bias_aware", "round_robin", 2, 60): 0.039,
    ("p_holm", "bias_aware", "round_robin", 2, 120): 0.020,
    ("p_holm", "bias_aware", "round_robin", 2, 320): 0.031,
    ("p_holm", "bias_aware", "global_uncertainty", 2, 120): 0.031,
    ("p_holm", "bias_aware", "global_uncertainty", 2, 320): 0.020,
}


@dataclass(frozen=True, kw_only=True)
class Settings(active.Settings):
    uncertain: float = PAPER_UNCERTAIN
    """Expected share of ordered pairs with 0.2 < p < 0.8, from which the discrimination follows."""
    discrimination: float | None = None
    """Factor on quality in the judge's logits (pure number); default by `uncertain`, which is not
    looked at if this is given."""
    refit_every: tuple[int, ...] = (2, 8)
    """R, verdicts between refits (count)."""


PRESETS = {
    "smoke": Settings(
        pools=16,
        rule=("top_k_aware", "round_robin", "entropy_reduction_fresh"),
        refit_every=(8,),
        budget=(16, 40),
        n_seeds=2,
        n_samples=200,
    ),
    "paper": Settings(pools=10, n_seeds=6),
    "full": Settings(),
}


def uncertain_share(s: Settings, discrimination: float) -> float:
    """Expected share of ordered pairs of a pool with 0.2 < p < 0.8: the logit of a pair is Gaussian
    about kappa* + c* (x_i - x_j)."""
    n, ones = s.n_items, s.n_items // 2
    mixed = ones * (n - ones) / (n * (n - 1))
    spread = np.sqrt(2) * s.sd * discrimination
    low, high = (np.log(p / (1 - p)) for p in DOUBT)
    total = 0.0
    for shift, weight in ((0.0, 1 - 2 * mixed), (s.bias, mixed), (-s.bias, mixed)):
        mean = s.position + shift
        total += weight * (norm.cdf((high - mean) / spread) - norm.cdf((low - mean) / spread))
    return float(total)


@cache
def discrimination_of(s: Settings) -> float:
    """As given, or the one that makes the expected share of uncertain pairs `s.uncertain`.

    Raises:
      ValueError: a share that no discrimination gives.
    """
    if s.discrimination is not None:
        return s.discrimination
    grid = np.geomspace(1e-3, 1e3, 601)
    share = np.array([uncertain_share(s, d) for d in grid])
    falls = np.flatnonzero((share[:-1] >= s.uncertain) & (share[1:] < s.uncertain))
    if not falls.size:
        raise ValueError(
            f"uncertain must lie between {share.min():.2g} and {share.max():.2g} for this bias, "
            f"position and sd, got {s.uncertain}"
        )
    at = falls[-1]
    bracket = (grid[at], grid[at + 1])
    found = root_scalar(lambda d: uncertain_share(s, d) - s.uncertain, bracket=bracket)
    return float(found.root)


def groups(s: Settings) -> list[study.Group]:
    active.check(s, PROTOCOL, s.refit_every)
    judge = Case("default", s.bias, s.position, discrimination_of(s))
    return [
        active.group(s, rule, [judge], protocol=PROTOCOL, refit_every=r)
        for r in s.refit_every
        for rule in s.rule
    ]


def table(ds: xr.Dataset, s: Settings) -> pd.DataFrame:
    rows = active.rows(ds, s, PAPER)
    uncertain = stats.mean_interval(ds["uncertain"].values[0], seed=s.seed)
    judge: list[Any] = [PROTOCOL, "default", s.bias, s.position, discrimination_of(s)]
    share = [*judge, None, None, None, None, "uncertain_pairs", *map(float, uncertain), s.pools]
    paper = PAPER_UNCERTAIN if active.is_default(s) else None
    return study.tidy_table(active.LEADING, [[*share, paper], *rows])


SHOWN = (
    "top_k_aware",
    "thompson",
    "lucb",
    "global_uncertainty",
    "round_robin",
    "top_k_aware_fresh",
    "entropy_reduction_fresh",
    "top_two",
)


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from jbt import plots

    fig, axes = plots.new_figure(len(s.refit_every), width=6.0, height=5.0)
    axes = np.atleast_1d(axes)
    for ax, refit_every in zip(axes, s.refit_every, strict=True):
        draw_curves(ax, ds, table, s, refit_every)
    for ax in axes[1:]:
        ax.sharey(axes[0])
    axes[0].autoscale(axis="y")
    return fig


def draw_curves(
    ax: Axes, ds: xr.Dataset, table: pd.DataFrame, s: Settings, refit_every: int
) -> Axes:
    from jbt import plots

    budget = ds["budget"].values
    at = np.searchsorted(budget, s.budget)
    for setting, values in active.by_setting(ds, "recall").items():
        rule = active.field(setting, "rule")
        if active.field(setting, "refit_every") == refit_every and rule in SHOWN:
            active.draw_curve(ax, budget[at], values[:, at], rule, seed=s.seed)
    mine = table[(table.rule == active.REFERENCE) & (table.refit_every == refit_every)]
    mine = mine[(mine.quantity == "recall") & mine.paper.notna()]
    if len(mine):
        label = f"paper, {active.REFERENCE} (its own judge)"
        ax.plot(mine.budget, mine.paper, "x", color=plots.COLOURS["black"], label=label)
    ax.set_xlabel("budget, verdicts")
    ax.set_ylabel(f"recall of the top {s.k}")
    ax.set_title(f"Fresh verdicts, refit after every {refit_every}, {s.pools:,} pools (95 %)")
    ax.legend(fontsize=8)
    return ax


SWEEP = study.Sweep(
    "stochastic_judge",
    "Acquisition rules when every query draws a fresh verdict and pairs may be asked again.",
    PRESETS,
    groups,
    table,
    figure,
    units=active.UNITS,
    headline=active.headline,
)

if __name__ == "__main__":
    raise SystemExit(study.main(SWEEP))
