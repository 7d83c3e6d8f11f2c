"""Spending a budget of comparisons on the top k, with cached verdicts.

The paper's evaluation of acquisition (curves, the table of rules at B = 120, the allocation at B =
200, the 2 x 2 ablation of model and rule, the ablation of the score), on enough pools to separate
the rules; and a closer look at three of its observations: the naive model's plateau, the waste of
global uncertainty, and recall above that of the full data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from jbt import stats
from jbt.acquisition.rules import DEFAULT_RULES
from jbt.experiments import declare, plots
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.run import main
from jbt.experiments.table import Table
from jbt.simulation import judges

from ._shared import active, calibration, rule_comparison
from ._shared.judge import Case, named_case, number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALLOCATION_BUDGET = 200
ABLATED = ("top_k_aware", "round_robin")
NAIVE = (*ABLATED, "random")
WASTE = ("top_k_aware", "global_uncertainty", "round_robin", "random")
"""Rules that are also run with the naive model, with an unbiased judge."""


@dataclass(frozen=True, kw_only=True)
class Settings(active.Settings):
    budget: tuple[int, ...] = (32, 60, 120, 200, 320, 600, 870)
    """Budgets of the table (verdicts); curves end at the largest, at most N (N - 1)."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""


PRESETS = {
    "smoke": Settings(
        pools=16,
        rule=("top_k_aware", "round_robin", "entropy_reduction_fresh"),
        budget=(16, 40),
        n_seeds=2,
    ),
    "paper": Settings(pools=10, n_seeds=8, n_samples=1500, membership="counted"),
    "full": Settings(),
}


def cases(s: Settings, rule: str) -> list[Case]:
    """Judges and models that a rule is run with."""
    discrimination = number(s, "discrimination")
    case = named_case(s, discrimination)
    out = [case]
    if rule in NAIVE:
        out.append(replace(case, model="naive"))
    if rule in WASTE:
        unbiased = replace(judges.UNBIASED, discrimination=discrimination)
        out.append(replace(case, name="unbiased", judge=unbiased))
    return out


def groups(s: Settings) -> list[declare.Group]:
    return active.groups(s, lambda rule: cases(s, rule), "frozen", [s.refit_every])


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    recall = rule_comparison.by_seed(ds["recall"], s.n_seeds)
    rule_comparison.rows(recall, ds, s, t)
    open_ = rule_comparison.opened(ds["recall"], ds, s.n_seeds)
    at = {"budget": list(s.budget)}
    synergy(recall.sel(at), None if open_ is None else open_.sel(at), t)
    above_full_data(recall, None if open_ is None else open_["pools"], s, t)


def synergy(recall: xr.DataArray, open_: xr.Dataset | None, t: Table) -> None:
    """Add the rule's gain with the bias-aware model minus its gain with the naive one; above 0,
    the two contributions are super-additive. Its rows are the rule's with the bias-aware model.
    """
    judge = rule_comparison.own_judge(recall)

    def gain_difference(values: calibration.V) -> calibration.V | None:
        runs = {
            (model, rule): rule_comparison.select(values, judge=judge, model=model, rule=rule)
            for model in ("bias_aware", "naive")
            for rule in ABLATED
        }
        if not all(run.sizes["condition"] for run in runs.values()):
            return None
        one = {key: run.isel(condition=0).reset_coords(drop=True) for key, run in runs.items()}
        aware, naive = (one[m, ABLATED[0]] - one[m, ABLATED[1]] for m in ("bias_aware", "naive"))
        return aware - naive

    difference = gain_difference(recall)
    if difference is None:
        return
    row = rule_comparison.select(recall, judge=judge, model="bias_aware", rule=ABLATED[0]).isel(
        condition=0
    )
    where = {name: row[name].item() for name in active.COLUMNS if name != "budget"}
    carried = calibration.drawn_from(None if open_ is None else gain_difference(open_))
    t.means("synergy", difference, carried=carried, **where)


def above_full_data(
    by_seed: xr.DataArray, open_: xr.DataArray | None, s: Settings, t: Table
) -> None:
    """Add how far recall [condition, acquisition_seed, budget, pool] at the best budget exceeds
    recall at all N (N - 1) verdicts. Each half of the pools takes the best budget of the other
    half, because the largest of a hundred means is too large; the interval is for those two
    budgets. `best_above_full_data` is that largest mean, as in a study that chooses the budget on
    its own pools."""
    if by_seed["budget"].values[-1] != s.n_items * (s.n_items - 1):
        return
    recall = by_seed.mean(SEEDS)
    full = recall.isel(budget=-1)
    if s.pools >= 4:
        excess = full.copy(deep=True)
        for half in (0, 1):
            mean_elsewhere = recall.isel(pool=slice(1 - half, None, 2)).mean("pool")
            best = recall.isel(pool=slice(half, None, 2)).isel(
                budget=mean_elsewhere.argmax("budget")
            )
            excess[:, half::2] = best.values - full.values[:, half::2]
        t.means("recall_above_full_data", excess)
    drawn_from = by_seed if open_ is None else open_
    for at, source in zip(
        by_seed - by_seed.isel(budget=-1), drawn_from - drawn_from.isel(budget=-1), strict=True
    ):
        beyond, carried = (
            values.transpose("budget", SEEDS, "pool").values for values in (at, source)
        )

        def studies(size: int, seeds: int | None, carried: np.ndarray = carried) -> np.ndarray:
            pools = stats.with_seeds(carried, seeds)
            means = stats.bootstrap_means(pools, seed=t.seed, size=size, resamples=stats.REPLICATES)
            return means.max(1)

        where = {n: at[n].item() for n in active.COLUMNS if n in at.coords and n != "budget"}
        best = beyond.mean((1, 2)).max()
        t.add("best_above_full_data", best, n_pools=s.pools, studies=studies, **where)


SHOWN = (
    "top_k_aware",
    "thompson",
    "lucb",
    "global_uncertainty",
    "round_robin",
    "random",
    "entropy_reduction_fresh",
)


def drawn_rules(s: Settings) -> tuple[str, ...]:
    """Rules whose lines are drawn: those of `SHOWN`, and any that was named."""
    return *SHOWN, *(rule for rule in s.rule if rule not in DEFAULT_RULES)


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, (curves, differences, allocation) = plots.facets(3, width=6.4, height=5.0)
    draw_curves(curves, ds, s)
    draw_table(differences, table, s)
    draw_allocation(allocation, ds, s)
    return fig


def draw_curves(ax: Axes, ds: xr.Dataset, s: Settings) -> Axes:
    rows = rule_comparison.curves(rule_comparison.by_seed(ds["recall"], s.n_seeds), s)
    rows = rows[rows.judge == rule_comparison.own_judge(ds["recall"])]
    rule_comparison.draw_curves(ax, rows[rows.model == "bias_aware"], drawn_rules(s), s)
    naive = rows[(rows.rule == ABLATED[0]) & (rows.model == "naive")]
    label = f"{ABLATED[0]}, naive model"
    plots.line(ax, naive, "budget", colour="black", label=label, linestyle=":")
    ax.set_title(f"Frozen judge, {s.pools:,} pools (95 % bands)")
    plots.label_ends(ax)
    return ax


def draw_table(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """Draw differences from the reference at B = 120 beside the paper's."""
    budget = rule_comparison.budget_of_tests(s)
    deltas = table[(table.quantity == "delta") & (table.budget == budget)]
    deltas = deltas[(deltas.judge != "unbiased") & (deltas.model == "bias_aware")]
    deltas = deltas.sort_values("estimate", ascending=False)
    rules = deltas.rule.drop_duplicates().tolist()
    label = f"{s.pools:,} pools (95 %)"
    simulated = deltas.drop_duplicates("rule")
    plots.points(ax, simulated, range(len(rules)), colour="blue", label=label, horizontal=True)
    if (paper := deltas.dropna(subset="paper")).size:
        at = [rules.index(rule) for rule in paper.rule]
        vermilion = plots.COLOURS["vermilion"]
        ax.plot(paper.paper, at, "x", color=vermilion, label="paper (10 pools)")
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(rules)), rules)
    ax.invert_yaxis()
    ax.set_xlabel(f"recall minus that of {active.REFERENCE}, B = {budget}")
    ax.set_title("Rules against Eq. acq")
    ax.legend(fontsize=8)
    return ax


def draw_allocation(ax: Axes, ds: xr.Dataset, s: Settings) -> Axes:
    """Draw showings of an item by its distance from the boundary, 1 if spent evenly."""
    budget = ALLOCATION_BUDGET if ALLOCATION_BUDGET in s.budget else s.budget[-1]
    distance = ds["distance"].values
    items = np.where(distance < min(s.k, s.n_items - s.k), 2, 1)  # one on either side, or one
    share = rule_comparison.by_seed(ds["allocation"].sel(table_budget=budget), s.n_seeds)
    judge = rule_comparison.own_judge(share)
    share = rule_comparison.select(share, judge=judge, model="bias_aware", rule=drawn_rules(s))
    t = Table(("rule", "distance"), s)
    t.means("showings", share * xr.DataArray(s.n_items / items, dims="distance"))
    for rule, rows in t.frame().groupby("rule", sort=False):
        plots.line(ax, rows, "distance", label=str(rule), **plots.rule_style(str(rule)))
    ax.axhline(1, color="black", linestyle=":", linewidth=0.8)
    ax.set_xlabel("distance from the boundary, places in true quality")
    ax.set_ylabel("showings of an item, 1 = spent evenly")
    ax.set_title(f"Where the budget goes, B = {budget}")
    plots.label_ends(ax)
    return ax


SWEEP = declare.legacy(
    "acquisition",
    "Acquisition rules with cached verdicts: budget curves, tests, allocation, ablations.",
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
