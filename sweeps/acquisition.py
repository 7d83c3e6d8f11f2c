"""Spending a budget of comparisons on the top k, with cached verdicts.

The paper's evaluation of acquisition (curves, the table of rules at B = 120, the allocation at B =
200, the 2 x 2 ablation of model and rule, the ablation of the score) on as many pools as it takes
to tell the rules apart; and three of its observations looked into: the naive model's plateau, the
waste of global uncertainty, and recall above that of the full data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats, study
from jbt.acquisition import RULES
from sweeps import _active as active
from sweeps._active import Case

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROTOCOL = "frozen"
SECOND_POSITION = -0.84
"""The paper's position estimate for GPT-4o-mini, whose recall it found to fall with the budget."""
ALLOCATION_BUDGET = 200
ABLATED = ("top_k_aware", "round_robin")
NAIVE = (*ABLATED, "random")
WASTE = ("top_k_aware", "global_uncertainty", "round_robin", "random")
CEILING = ("top_k_aware", "random")
"""Rules that are also run with the naive model, with an unbiased judge, with other judges."""

# Llama-3.1-8B, 10 pools. Its tables disagree on top_k_aware at B = 120: 0.81 in the table of rules,
# 0.82 in the 2 x 2 ablation, 0.76 in the ablation of the score.
PAPER: active.Paper = {
    **{
        ("recall", "bias_aware", rule, 8, 120): value
        for rule, value in {
            "top_k_aware": 0.81,
            "thompson": 0.72,
            "lucb": 0.67,
            "global_uncertainty": 0.60,
            "round_robin": 0.61,
            "random": 0.61,
            "no_variance": 0.75,
            "no_informativeness": 0.73,
            "entropy_only": 0.67,
        }.items()
    },
    **{
        ("delta", "bias_aware", rule, 8, 120): value
        for rule, value in {
            "thompson": -0.09,
            "lucb": -0.14,
            "global_uncertainty": -0.21,
            "round_robin": -0.20,
            "random": -0.20,
            # Against the 0.76 of the ablation of the score.
            "no_variance": -0.01,
            "no_informativeness": -0.03,
            "entropy_only": -0.09,
        }.items()
    },
    ("recall", "naive", "round_robin", 8, 120): 0.50,
    ("recall", "naive", "top_k_aware", 8, 120): 0.51,
    ("delta", "naive", "round_robin", 8, 120): -0.01,
    # "About three times more than round-robin at distance 0", which spends 2 / 30 there.
    ("share_at_boundary", "bias_aware", "top_k_aware", 8, 200): 3 * 2 / 30,
}
PAPER_SYNERGY = (0.82 - 0.61) - (0.51 - 0.50)


@dataclass(frozen=True, kw_only=True)
class Settings(active.Settings):
    budget: tuple[int, ...] = (32, 60, 120, 200, 320, 600, 870)
    """Budgets of the table (verdicts); the curves go on to the largest, at most N (N - 1)."""
    discrimination: float = 1.0
    """Factor on quality in the judge's logits (pure number)."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""


PRESETS = {
    "smoke": Settings(
        pools=16,
        rule=("top_k_aware", "round_robin", "entropy_reduction_fresh"),
        budget=(16, 40),
        n_seeds=2,
        n_samples=200,
    ),
    "paper": Settings(pools=10, n_seeds=8),
    "full": Settings(),
}


def cases(s: Settings, rule: str) -> list[Case]:
    """The judges and models a rule is run with."""
    judge = (s.bias, s.position, s.discrimination)
    out = [Case("default", *judge)]
    if rule in NAIVE:
        out.append(Case("default", *judge, model="naive"))
    if rule in WASTE:
        out.append(Case("unbiased", 0.0, 0.0, s.discrimination))
    if rule in CEILING:
        out += [
            Case("second_position", s.bias, SECOND_POSITION, s.discrimination),
            Case("argmax", *judge, argmax=True),
        ]
    return out


def groups(s: Settings) -> list[study.Group]:
    active.check(s, PROTOCOL, [s.refit_every])
    return [
        active.group(s, rule, cases(s, rule), protocol=PROTOCOL, refit_every=s.refit_every)
        for rule in s.rule
    ]


def table(ds: xr.Dataset, s: Settings) -> pd.DataFrame:
    rows = active.rows(ds, s, PAPER)
    recall = active.by_setting(ds, "recall")
    return study.tidy_table(
        active.LEADING, [*rows, *synergy(recall, ds, s), *above_full_data(recall, ds, s)]
    )


def synergy(recall: dict[Any, np.ndarray], ds: xr.Dataset, s: Settings) -> list[list[Any]]:
    """What the rule gains with the bias-aware model beyond what it gains with the naive one: above
    0, the two contributions are super-additive."""
    by = {
        (active.field(v, "model"), active.field(v, "rule")): v
        for v in recall
        if active.field(v, "judge") == "default"
    }
    models = ("bias_aware", "naive")
    if not all((m, rule) in by for m in models for rule in ABLATED):
        return []
    aware, naive = (recall[by[m, ABLATED[0]]] - recall[by[m, ABLATED[1]]] for m in models)
    out = []
    for budget in s.budget:
        at = int(np.searchsorted(ds["budget"].values, budget))
        interval = stats.mean_interval((aware - naive)[:, at], seed=s.seed)
        default = (budget, s.refit_every) == (active.TEST_BUDGET, 8) and active.is_default(s)
        paper = PAPER_SYNERGY if default else None
        lead = [*by["bias_aware", ABLATED[0]], budget, "synergy"]
        out.append([*lead, *map(float, interval), s.pools, paper])
    return out


def above_full_data(recall: dict[Any, np.ndarray], ds: xr.Dataset, s: Settings) -> list[list[Any]]:
    """By how much recall at the best budget exceeds recall at all N (N - 1) verdicts. The best
    budget for each half of the pools is that of the other half, as the largest of a hundred means
    is too large; the interval is for those two budgets."""
    budgets = ds["budget"].values
    if budgets[-1] != s.n_items * (s.n_items - 1) or s.pools < 4:
        return []
    out = []
    for setting, values in recall.items():
        excess = np.empty(s.pools)
        for half in (0, 1):
            at = int(values[1 - half :: 2].mean(0).argmax())
            excess[half::2] = (values[:, at] - values[:, -1])[half::2]
        interval = stats.mean_interval(excess, seed=s.seed)
        lead = [*setting, int(budgets[-1])]
        out.append([*lead, "recall_above_full_data", *map(float, interval), s.pools])
    return out


SHOWN = (
    "top_k_aware",
    "thompson",
    "lucb",
    "global_uncertainty",
    "round_robin",
    "random",
    "entropy_reduction_fresh",
)


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from jbt import plots

    fig, axes = plots.new_figure(3, width=5.6, height=5.0)
    draw_curves(axes[0], ds, s)
    draw_table(axes[1], table, s)
    draw_allocation(axes[2], ds, s)
    return fig


def draw_curves(ax: Axes, ds: xr.Dataset, s: Settings) -> Axes:
    budget = ds["budget"].values
    for setting, values in active.by_setting(ds, "recall").items():
        judge, model, rule = (active.field(setting, n) for n in ("judge", "model", "rule"))
        if judge == "default" and model == "bias_aware" and rule in SHOWN:
            active.draw_curve(ax, budget, values, rule, seed=s.seed)
        if judge == "default" and model == "naive" and rule == ABLATED[0]:
            label = f"{rule}, naive model"
            active.draw_curve(ax, budget, values, "naive", seed=s.seed, label=label)
    ax.set_xlabel("budget, verdicts")
    ax.set_ylabel(f"recall of the top {s.k}")
    ax.set_title(f"Frozen judge, {s.pools:,} pools (95 % bands)")
    ax.legend(fontsize=8, loc="lower right")
    return ax


def draw_table(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Differences from the reference at B = 120, beside the paper's."""
    from jbt import plots

    budget = active.budget_of_tests(s)
    mine = table[(table.quantity == "delta") & (table.budget == budget)]
    mine = mine[(mine.judge == "default") & (mine.model == "bias_aware")]
    mine = mine.sort_values("estimate", ascending=False)
    y = np.arange(len(mine))
    error = [mine.estimate - mine.ci_low, mine.ci_high - mine.estimate]
    label = f"{s.pools:,} pools (95 %)"
    ax.errorbar(mine.estimate, y, xerr=error, fmt="o", ms=4, capsize=2, label=label)
    if mine.paper.notna().any():
        vermilion = plots.COLOURS["vermilion"]
        ax.plot(mine.paper, y, "x", color=vermilion, label="paper (10 pools)")
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(y, mine.rule)
    ax.invert_yaxis()
    ax.set_xlabel(f"recall minus that of {active.REFERENCE}, B = {budget}")
    ax.set_title("Rules against Eq. acq")
    ax.legend(fontsize=8)
    return ax


def draw_allocation(ax: Axes, ds: xr.Dataset, s: Settings) -> Axes:
    """Showings of an item by its distance from the boundary, 1 if spent evenly."""
    from jbt import plots

    budget = ALLOCATION_BUDGET if ALLOCATION_BUDGET in s.budget else s.budget[-1]
    at = s.budget.index(budget)
    distance = ds["distance"].values
    both_sides = distance < min(s.k, s.n_items - s.k)
    items = np.where(both_sides, 2, 1)
    for setting, share in active.by_setting(ds, "allocation").items():
        judge, model, rule = (active.field(setting, n) for n in ("judge", "model", "rule"))
        if judge != "default" or model != "bias_aware" or rule not in SHOWN:
            continue
        colour, line = RULES[rule].colour, RULES[rule].line
        mean = share[:, at].mean(0) * s.n_items / items
        ax.plot(distance, mean, color=plots.COLOURS[colour], linestyle=line, label=rule)
    ax.axhline(1, color="black", linestyle=":", linewidth=0.8)
    ax.set_xlabel("distance from the boundary, places in true quality")
    ax.set_ylabel("showings of an item, 1 = spent evenly")
    ax.set_title(f"Where the budget goes, B = {budget}")
    ax.legend(fontsize=8)
    return ax


SWEEP = study.Sweep(
    "acquisition",
    "Acquisition rules with cached verdicts: budget curves, tests, allocation, ablations.",
    PRESETS,
    groups,
    table,
    figure,
    units=active.UNITS,
    headline=active.headline,
)

if __name__ == "__main__":
    raise SystemExit(study.main(SWEEP))
