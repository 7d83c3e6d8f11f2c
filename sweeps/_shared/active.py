"""Settings, the run of one pool and the comparison of rules, with the pool as the unit, for all
sweeps on acquisition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Key

from jbt import stats, twins
from jbt.acquisition import Loop, Task, reports, run
from jbt.acquisition.loop import Queries
from jbt.acquisition.rules import DEFAULT_RULES, families
from jbt.acquisition.runs import check as check_run
from jbt.border import plots
from jbt.experiments import declare, labelled_arrays
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.table import Table
from jbt.kernel import metrics
from jbt.kernel.membership import DRAWS
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Variant, check_positive

from . import calibration
from .calibration import SHARE, SIGNED, V
from .judge import Case, JudgeSettings, check_judge, pools_of
from .scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

REFERENCE = "top_k_aware"
"""The rule that each family of rules is compared with. Holm's correction is within a family, as
over the paper's five baselines."""
SMALL_STUDY = 10
"""Pools of each of the paper's tests (count)."""
COLUMNS = (
    "protocol",
    "judge",
    "bias",
    "position",
    "discrimination",
    "pair_noise",
    "model",
    "rule",
    "refit_every",
    "budget",
)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Repeats of the active loop on a pool, and its estimate of the membership."""

    n_seeds: int = 4
    """Acquisition seeds a pool (count), averaged within the pool."""
    n_samples: int | None = None
    """S, draws for the membership (count); default 64, or 1500 if counted."""
    membership: str = "conditional"
    """Estimate of the membership: `conditional`, the mean over scrambled Sobol draws of each item's
    chance given the rest of the draw; `counted`, the share of antithetic normal draws, as in the
    paper."""


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, RunSettings, JudgeSettings):
    pools: int = 1000
    rule: tuple[str, ...] = DEFAULT_RULES
    """Acquisition rules; top_k_aware, with which the others are compared, among them."""
    budget: tuple[int, ...] = (60, 120, 200, 320)
    """Budgets of the table (verdicts); runs go on to the largest."""

    def defaults(self) -> dict[str, Any]:
        return {"n_samples": DRAWS.get(self.membership)} | super().defaults()


def experiment(s: Settings, settings: Loop) -> Experiment:
    """Runs one rule on one pool; the condition holds the case and the acquisition seed."""
    draw = pools_of(s)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        condition, steps = twins.displaced(key, condition)
        pool = draw(stream(key, "pool"))
        answers = twins.answers(key, pool, condition)
        out = {"targets": twins.observed(answers, pool, s.k, s.prior), "steps": steps}
        if settings.protocol != "frozen":
            answers = twins.probability(key, pool, condition)
            uncertain = (answers > twins.DOUBT[0]) & (answers < twins.DOUBT[1])
            every = pairs.every_pair(pool)
            out["uncertain"] = (uncertain * every).sum() / every.sum()
        free = condition["aware"] > 0
        task = Task.build(pool, answers, variant=Variant(free[None], free), prior=s.prior)
        run_key = jax.random.fold_in(stream(key, "acquisition"), condition["seed"])
        trace = run(run_key, task, settings, s.budget)
        at = np.searchsorted(reports(s.budget, settings.refit_every), reported(s, settings))
        out |= {"recall": trace.recall[at], "status": trace.status.max()}
        return out | allocations(s, trace.queries, pool.quality)

    return one


def reported(s: Settings, settings: Loop) -> np.ndarray:
    """Budgets whose recall is kept: the whole curve with cached verdicts, else those of the table,
    which do not depend on R."""
    whole = settings.protocol == "frozen"
    return reports(s.budget, settings.refit_every) if whole else np.array(s.budget)


def allocations(s: Settings, queries: Queries, quality: Array) -> dict[str, Array]:
    """Share of the showings by distance from the boundary, at each budget of the table. Items of
    equal quality are ranked by their numbers."""
    item = jnp.arange(s.n_items)
    before = (quality > quality[:, None]) | ((quality == quality[:, None]) & (item < item[:, None]))
    place = before.sum(1).astype(quality.dtype)
    rows = []
    for budget in s.budget:
        shown = jnp.concatenate([queries.first[:budget], queries.second[:budget]])
        counts = (shown == item[:, None]).sum(1).astype(quality.dtype)
        rows.append(metrics.allocation(counts, -place, s.k))
    return {"allocation": jnp.stack(rows)}


def group(
    s: Settings, rule: str, cases: Sequence[Case], *, protocol: str, refit_every: int
) -> declare.Group:
    """All cases and seeds of one rule: one compiled kernel. Twins as calibrated are also run
    displaced, with one acquisition seed."""
    settings = Loop(rule, s.k, refit_every, protocol, s.n_samples, s.membership)
    runs = [(case, seed, 0.0) for case in cases for seed in range(s.n_seeds)]
    runs += [(case, 0, way) for way in twins.DISPLACED for case in cases if case.name == s.judge]
    conditions = judges.conditions([c.judge for c, *_ in runs])
    conditions["pair_noise"] = np.array([c.pair_noise for c, *_ in runs])
    constant = {"protocol": protocol, "rule": rule, "refit_every": refit_every}
    labels: dict[str, Sequence[Any]] = {k: [v] * len(runs) for k, v in constant.items()}
    labels |= {"judge": [c.name for c, *_ in runs], "model": [c.model for c, *_ in runs]}
    labels |= {name: list(values) for name, values in conditions.items()}
    labels["displaced"] = [way for *_, way in runs]
    conditions["displaced"] = np.array(labels["displaced"])
    conditions["argmax"] = np.full(len(runs), float(s.oracle == "argmax"))
    conditions["aware"] = np.array([float(c.model == "bias_aware") for c, *_ in runs])
    conditions["seed"] = np.array([seed for _, seed, _ in runs])
    labels[SEEDS] = [seed for _, seed, _ in runs]
    at = reported(s, settings).tolist()
    distances = list(range(max(s.k, s.n_items - s.k)))
    return declare.Group(
        f"{protocol}-{refit_every}-{rule}",
        experiment(s, settings),
        conditions,
        labels,
        s.n_items,
        s.pools,
        axes={
            "recall": {"budget": at},
            "allocation": {"table_budget": list(s.budget), "distance": distances},
            **calibration.AXES,
        },
        fits=len(reports(s.budget, refit_every)),
    )


def groups(
    s: Settings, cases: Callable[[str], Sequence[Case]], protocol: str, refit_every: Sequence[int]
) -> list[declare.Group]:
    """The groups of every rule and number of verdicts between refits, with the cases of a rule.

    Raises:
      ValueError: settings that make no sense, before anything runs.
    """
    check(s, protocol, refit_every)
    return [
        group(s, rule, cases(rule), protocol=protocol, refit_every=r)
        for r in refit_every
        for rule in s.rule
    ]


def check(s: Settings, protocol: str, refit_every: Sequence[int]) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    check_judge(s, protocol)
    s.check_prior()
    for name in ("sd", "discrimination"):
        value = getattr(s, name, None)
        if value is not None:
            check_positive(name, value)
    if s.n_items < 4:
        raise ValueError(f"n_items must be at least 4, got {s.n_items}")
    if s.n_seeds < 1:
        raise ValueError(f"n_seeds must be at least 1, got {s.n_seeds}")
    declare.check_increasing("budget", s.budget)
    if REFERENCE not in s.rule:
        raise ValueError(f"rule must include {REFERENCE}, with which the others are compared")
    if len(set(s.rule)) < len(s.rule):
        raise ValueError(f"rule lists a name twice: {' '.join(s.rule)}")
    if not refit_every or len(set(refit_every)) < len(refit_every):
        raise ValueError("refit_every must list at least one value, and none twice")
    design = pools.gaussian(
        jax.random.key(0), s.n_items, sd=1.0, rho=0.0, covariate="binary"
    ).design
    for rule in s.rule:
        for r in refit_every:
            settings = Loop(rule, s.k, r, protocol, s.n_samples, s.membership)
            check_run(design, settings, reports(s.budget, r))
    scenario: dict[str, Any] = {"k": s.k, "rho": [0.0], "covariate": "binary"}
    pools.check_balance(str(s.pool), s.n_items, s.max_correlation, **scenario)


# --- from the saved results


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
    """Adds recall, its difference from the reference with tests, and the allocation, for every
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
    """Compares each rule with the reference, for the same judge, model and refits. Tests are
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
    """The paper's budget of tests, or the table's largest where it has not that one."""
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


UNITS = {
    "recall": "share of the top k",
    "allocation": "share of showings",
    "uncertain": "share of ordered pairs with 0.2 < p < 0.8",
    "status": "status of the fits, the worst of a run",
    "budget": "verdicts",
    "table_budget": "verdicts",
    "distance": "places from the boundary",
    "bias": "logits per unit of the covariate",
    "position": "logits",
    "discrimination": "factor",
    "pair_noise": "logits",
    "refit_every": "verdicts",
    "acquisition_seed": "id",
    **calibration.UNITS,
}


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
