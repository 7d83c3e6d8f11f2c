"""Rows and curves of sweeps on acquisition: recall, comparisons of rules, where verdicts went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from jbt import stats, twins
from jbt.acquisition.rules import families
from jbt.experiments import labelled_arrays, plots
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.table import Table

from . import calibration
from .calibration import SHARE, SIGNED, V

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

from .active import COLUMNS, REFERENCE, Settings

SMALL_STUDY = 10
"""Pools of each of the paper's tests (count)."""


def own_judge(values: xr.DataArray) -> str:
    """Name of the settings' judge, the first that every rule is run with."""
    return str(values["judge"].values[0])


def by_seed(values: xr.DataArray, n_seeds: int) -> xr.DataArray:
    """A metric [condition, ..., pool] as [condition, acquisition_seed, ..., pool], without the
    displaced judges."""
    values = calibration.at(values)
    first = values.isel(condition=slice(None, None, n_seeds)).drop_vars(SEEDS)
    data = values.values.reshape(-1, n_seeds, *values.shape[1:]).astype(float)
    return xr.DataArray(data, first.coords, ("condition", SEEDS, *values.dims[1:]))


def opened(values: xr.DataArray, ds: xr.Dataset, n_seeds: int) -> xr.Dataset | None:
    """A metric as `by_seed` returns it, with the error of the judges' calibration in it (see
    `calibration.opened`); None where no judge of the paper is simulated."""
    ways = [calibration.at(values, way) for way in twins.DISPLACED]
    if not ways[0].sizes["condition"]:
        return None
    errors = {}
    for judge in dict.fromkeys(ways[0]["judge"].values):
        ways_here = select(ds, judge=judge)
        one = [
            calibration.at(ways_here, way).isel(condition=[0]) for way in (0.0, *twins.DISPLACED)
        ]
        (errors[judge],) = calibration.errors(one[0], one[1:], [twins.known()[str(judge)]])
    values_by_seed = by_seed(values, n_seeds).copy()
    weights = xr.zeros_like(values_by_seed.isel({SEEDS: 0, "pool": 0}, drop=True))
    weights = weights.expand_dims(weight=len(twins.TARGETS) + len(twins.PARAMETERS), axis=-1).copy()
    names = [n for n in ("judge", "model", "rule", "refit_every") if n in values_by_seed.coords]
    for i in range(values_by_seed.sizes["condition"]):
        label = {name: values_by_seed[name].values[i] for name in names}
        ways_here = [select(way, **label).values.astype(float) for way in ways]
        if len(ways_here[0]):
            error = errors[label["judge"]]
            weights[i] = error.weights(ways_here[0][0], ways_here[1][0])
            values_by_seed[i] = error.carried(values_by_seed.values[i], weights.values[i])
    return calibration.opened(values_by_seed, weights)


def select(values: V, **where: Any) -> V:
    """The conditions with these labels, each a value or a list of them."""
    chosen = np.ones(values.sizes["condition"], bool)
    for name, wanted in where.items():
        chosen &= np.isin(np.asarray(values[name]), wanted)
    return values.isel(condition=np.flatnonzero(chosen))


def rows(recall: xr.DataArray, ds: xr.Dataset, s: Settings, t: Table) -> None:
    """Add recall, its difference from the reference with tests, and the allocation, for every
    setting and budget of the table. `recall` [condition, acquisition_seed, budget, pool]."""
    at_budgets = recall.sel(budget=list(s.budget))
    open_ = opened(ds["recall"].sel(budget=list(s.budget)), ds, s.n_seeds)
    t.means("recall", at_budgets, carried=calibration.drawn_from(open_, SHARE))
    compare(at_budgets, open_, t)
    for at in np.flatnonzero(recall["rule"].values == REFERENCE):
        ahead(at_budgets, recall.isel(condition=at), s, t)
    share = ds["allocation"].sel(distance=0).rename(table_budget="budget")
    of_share = calibration.drawn_from(opened(share, ds, s.n_seeds), SHARE)
    t.means("share_at_boundary", by_seed(share, s.n_seeds), carried=of_share)


def compare(recall: xr.DataArray, open_: xr.Dataset | None, t: Table) -> None:
    """Compare each rule with the reference, for the same judge, model and refits. Tests are
    corrected at each budget within each family, as far as it was run. A small study has as many
    acquisition seeds a pool as this one, a replicate of the paper's study as many as that."""
    for at in np.flatnonzero(recall["rule"].values == REFERENCE):
        base = recall.isel(condition=at)
        same = {name: base[name].item() for name in ("judge", "model", "refit_every")}
        for names in families().values():
            rules = [name for name in names if name != REFERENCE]
            family = select(recall, rule=rules, **same)
            if family.sizes["condition"]:
                # Without the labels of the reference, those of the rules remain.
                delta = family - base.reset_coords(drop=True)
                of_delta = None
                if open_ is not None:
                    of_base = open_.isel(condition=at).reset_coords(drop=True)
                    of_delta = select(open_, rule=rules, **same) - of_base
                t.means("delta", delta, carried=calibration.drawn_from(of_delta, SIGNED))
                for budget in delta["budget"].values:
                    test(delta.sel(budget=budget), rules, len(rules) == len(delta), t)


def ahead(recall: xr.DataArray, base: xr.DataArray, s: Settings, t: Table) -> None:
    """Shares of studies of the paper's size in which the reference has the highest mean of the
    paper's rules, and in which its difference from each of them is significant: two claims."""
    same = {name: base[name].item() for name in ("judge", "model", "refit_every")}
    rules = [name for name in families()["baselines"] if name != REFERENCE]
    baselines = select(recall, rule=rules, **same)
    if len(baselines) < len(rules) or s.pools < 5 * SMALL_STUDY:
        return
    row = {
        name: base[name].item() for name in t.columns if name in base.coords and name != "budget"
    }
    size = twins.known()[s.judge].pools if s.judge else SMALL_STUDY
    for budget in baselines["budget"].values:
        delta = (
            (baselines - base.reset_coords(drop=True))
            .sel(budget=budget)
            .values.astype(float)
            .mean(1)
        )
        means = stats.bootstrap_means(delta, seed=t.seed, size=size, resamples=stats.REPLICATES)
        p = stats.small_study_p(delta, size=size, seed=t.seed)
        where = {"n_pools": delta.shape[-1], "budget": int(budget), **row}
        t.add("ahead_of_all", (means < 0).all(1).mean(), **where)
        t.add("told_from_all", (p < 0.05).all(1).mean(), **where)


def test(delta: xr.DataArray, rules: Sequence[str], whole_family: bool, t: Table) -> None:
    """p-values and power of one family [condition, acquisition_seed, pool] at one budget, in rows
    of these rules. The paper's p-values, corrected for a whole family, stand beside those of a
    whole family alone.

    A replicate has the paper's pools, but at most our number of acquisition seeds: exact p-values
    depend on ties between recalls, which means over another number of seeds would not have.
    """
    family = delta.values.astype(float)
    p = stats.holm(stats.paired_permutation(family.mean(1), seed=t.seed))
    power = stats.small_study_power(family.mean(1), size=SMALL_STUDY, seed=t.seed)
    for f, (row, _) in enumerate(labelled_arrays.rows_of(delta, t.columns)):
        if row["rule"] not in rules:
            continue

        def studies(size: int, seeds: int | None, f: int = f) -> np.ndarray:
            mean = family[:, :seeds].mean(1)
            return stats.small_study_p(mean, size=size, seed=t.seed)[:, f]

        row |= {"n_pools": delta.sizes["pool"]}
        beside = "p_holm" if whole_family else ""
        t.add("p_holm", p[f], studies=studies, beside=beside, **row)
        t.add("power_at_10_pools", power[f], **row)


TEST_BUDGET = 120
"""Budget of the paper's tests (verdicts)."""


def budget_of_tests(s: Settings) -> int:
    """The paper's budget of tests, or the table's largest where that is missing."""
    return TEST_BUDGET if TEST_BUDGET in s.budget else s.budget[-1]


AT_ONE_BUDGET = (
    *("recall", "delta", "p_holm", "power_at_10_pools"),
    *("ahead_of_all", "told_from_all"),
)
"""Quantities printed at the budget of the tests alone."""


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: recall and differences at one budget, and quantities without a budget."""
    everywhere = ~table.quantity.isin([*AT_ONE_BUDGET, "share_at_boundary"])
    shown = table.quantity.isin(AT_ONE_BUDGET)
    return table[everywhere | (shown & (table.budget == budget_of_tests(s)))]


def curves(recall: xr.DataArray, s: Settings) -> pd.DataFrame:
    """Rows of mean recall at every budget kept."""
    t = Table(COLUMNS, s)
    t.means("recall", recall)
    return t.frame()


def draw_curves(ax: Axes, rows: pd.DataFrame, rules: Sequence[str], s: Settings) -> Axes:
    """Draw mean recall against the budget with its band, for those of the rules that were run."""
    for rule in rules:
        if rule in s.rule:
            rule_rows = rows[rows.rule == rule]
            plots.line(ax, rule_rows, "budget", label=rule, **plots.rule_style(rule))
    ax.set_xlabel("budget, verdicts")
    ax.set_ylabel(f"recall of the top {s.k}")
    return ax
