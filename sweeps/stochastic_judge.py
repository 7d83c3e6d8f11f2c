"""Spending a budget on a judge that draws a fresh verdict at every query and may be asked again.

The paper's robustness check: the greedy rule asks the same pair again and again until the posterior
is refitted. Every rule is run with a refit after every 2 verdicts, as in the paper, and after every
8, beside rules that update between refits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import root_scalar
from scipy.stats import norm

from jbt import twins
from jbt.experiments import declare, plots
from jbt.experiments.run import main

from ._shared import active, rule_comparison
from ._shared.judge import named_case, number

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table


@dataclass(frozen=True, kw_only=True)
class Settings(active.Settings):
    uncertain: float | None = None
    """Expected share of ordered pairs with 0.2 < p < 0.8, which determines the discrimination where
    no judge is named; default the paper's 0.43. It also set the unit of the twins that answer with
    the likelier verdict."""
    discrimination: float | None = None
    """Factor on quality in the judge's logits (pure number), which overrides `uncertain`; default
    from `uncertain`, or the twin's."""
    refit_every: tuple[int, ...] = (2, 8)
    """R, verdicts between refits (count)."""

    def defaults(self) -> dict[str, Any]:
        values = super().defaults()
        if self.judge is None:
            values |= {"uncertain": twins.UNCERTAIN, "discrimination": None}
        return values


PRESETS = {
    "smoke": Settings(
        pools=16,
        rule=("top_k_aware", "round_robin", "entropy_reduction_fresh"),
        refit_every=(8,),
        budget=(16, 40),
        n_seeds=2,
    ),
    "paper": Settings(pools=10, n_seeds=6, n_samples=1500, membership="counted"),
    "full": Settings(),
}


def uncertain_share(s: Settings, discrimination: float) -> float:
    """Expected share of ordered pairs of a pool with 0.2 < p < 0.8: a pair's logit is Gaussian
    about kappa* + c* (x_i - x_j), an item's quality counting discrimination + gamma* x."""
    n, ones = s.n_items, s.n_items // 2
    mixed = ones * (n - ones) / (n * (n - 1))
    both = ones * (ones - 1) / (n * (n - 1))
    numbers = ("sd", "bias", "position", "interaction", "pair_noise")
    sd, bias, position, interaction, noise = (number(s, name) for name in numbers)
    low, high = (np.log(p / (1 - p)) for p in twins.DOUBT)
    total = 0.0
    slopes = discrimination, discrimination + interaction
    cases = (
        (0, 0, 1 - 2 * mixed - both),
        (1, 1, both),
        (1, 0, mixed),
        (0, 1, mixed),
    )
    for first, second, weight in cases:
        mean = position + bias * (first - second)
        spread = math.hypot(sd * slopes[first], sd * slopes[second], noise)
        total += weight * (norm.cdf((high - mean) / spread) - norm.cdf((low - mean) / spread))
    return float(total)


@cache
def discrimination_of(s: Settings) -> float:
    """Discrimination of the settings, or the one that gives the expected share `s.uncertain`.

    Raises:
      ValueError: no discrimination gives this share.
    """
    if s.discrimination is not None:
        return s.discrimination
    uncertain = number(s, "uncertain")
    grid = np.geomspace(1e-3, 1e3, 601)
    share = np.array([uncertain_share(s, d) for d in grid])
    falls = np.flatnonzero((share[:-1] >= uncertain) & (share[1:] < uncertain))
    if not falls.size:
        raise ValueError(
            f"uncertain must lie between {share.min():.2g} and {share.max():.2g} for this bias, "
            f"position and sd, got {uncertain}"
        )
    at = falls[-1]
    bracket = (grid[at], grid[at + 1])
    root = root_scalar(lambda d: uncertain_share(s, d) - uncertain, bracket=bracket)
    return float(root.root)


def groups(s: Settings) -> list[declare.Group]:
    if s.judge is not None and s.uncertain is not None:
        raise ValueError(
            f"uncertain is not for --judge {s.judge}, whose share of uncertain pairs is its twin's"
        )
    return active.groups(
        s, lambda rule: [named_case(s, discrimination_of(s))], "stochastic", s.refit_every
    )


JUDGE = ("protocol", "judge", "bias", "position", "discrimination", "pair_noise")


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    uncertain = ds["uncertain"].isel(condition=0)
    judge = {name: uncertain[name].item() for name in JUDGE}
    uncertain = uncertain.reset_coords(drop=True)
    t.means("uncertain_pairs", uncertain, **judge)
    rule_comparison.rows(rule_comparison.by_seed(ds["recall"], s.n_seeds), ds, s, t)


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
    fig, axes = plots.facets(len(s.refit_every), width=6.0, height=5.0)
    for ax, refit_every in zip(axes, s.refit_every, strict=True):
        draw_curves(ax, table, s, refit_every)
    for ax in axes[1:]:
        ax.sharey(axes[0])
    axes[0].autoscale(axis="y")
    for ax in axes:
        plots.label_ends(ax)
    return fig


def draw_curves(ax: Axes, table: pd.DataFrame, s: Settings, refit_every: int) -> Axes:
    rows = table[(table.quantity == "recall") & (table.refit_every == refit_every)]
    rule_comparison.draw_curves(ax, rows, SHOWN, s)
    paper = rows[rows.paper.notna()]
    if len(paper):
        label = f"paper, {active.REFERENCE} (its own judge)"
        ax.plot(paper.budget, paper.paper, "x", color="black", label=label)
    ax.set_title(f"Fresh verdicts, refit after every {refit_every}, {s.pools:,} pools (95 %)")
    return ax


SWEEP = declare.legacy(
    "stochastic_judge",
    "Acquisition rules when every query draws a fresh verdict and pairs may be asked again.",
    PRESETS,
    groups,
    active.COLUMNS,
    table,
    figure,
    units=active.UNITS,
    headline=rule_comparison.headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
