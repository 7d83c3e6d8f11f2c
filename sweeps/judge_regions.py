"""What follows from the paper's numbers when the judge's form is left open: its rules at a budget,
for every kind of judge that its numbers on all verdicts allow.

A twin (`jbt.twins`) has one constant bias, and errors of the pair alone. The judges here are
members of the regions of `jbt.twins.regions`: their bias may grow with quality, their errors may
belong to items or statements, and each agrees with what the paper prints of the real judge's fits
of all verdicts. The table of rules was no part of that choice, so it is a test: whether some member
agrees with all of it.

A judge that gives its likelier verdict has no unit of logits. Where verdicts are drawn afresh
(`--protocol stochastic`) it is the one in which as many pairs are uncertain as of the paper's open
judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from jbt import estimators, twins
from jbt.acquisition import Loop, Task, reports, run
from jbt.acquisition.rules import DEFAULT_RULES
from jbt.acquisition.runs import check as check_run
from jbt.experiments import declare, plots
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.kernel.membership import DRAWS
from jbt.simulation import judges, pairs
from jbt.simulation.judges import PUBLISHED
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.twins import regions
from jbt.types import Comparisons, Design, Fit, Prior, Variant

from . import judges as sweep_judges
from ._shared.active import REFERENCE, RunSettings, allocation, check_rules, design_of
from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

N_ITEMS, K = 30, 5
ALL = N_ITEMS * (N_ITEMS - 1)
"""Every verdict."""
BIASED = "biased"
"""Entry of the column `judge`: the mean over the five, with weights as the paper's pools."""


def fitted(verdicts: Comparisons, design: Design, prior: Prior, free: Array) -> Fit:
    """MAP of the bias-aware model or, with c and kappa not free, of the naive one."""
    return fit_map(verdicts, design, prior, Variant(free[None], free))


def local(verdicts: Comparisons, design: Design, prior: Prior, free: Array) -> Fit:
    return estimators.local(verdicts, design, prior)


ESTIMATORS = {"naive": fitted, "bias_aware": fitted, "local": local}
"""Fits of every verdict, in the rule's column."""

TWO, NAIVE = (REFERENCE, "random"), "naive_model_"
"""Rules that are also run with the naive model, and what their names begin with there."""
TABLE = "table_of_judges"
"""Rule of the group whose results are those of `sweeps.judges`."""
MODELS, BASELINES = ("naive", "bias_aware"), ("order_swap_dropped", "residualised")
UNKNOWN = np.full((len(sweep_judges.MODELS), len(sweep_judges.K)), np.nan, np.float32)
"""Recall by model and size of the top set in groups that do not measure it."""
Results = TypeVar("Results", xr.Dataset, xr.DataArray)


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, RunSettings, declare.Sweep):
    pools: int = 400
    n_seeds: int = 2
    """Acquisition seeds a pool (count), averaged within the pool."""
    judge: tuple[str, ...] = tuple(judges.GATED)
    """Judges of the paper whose regions are simulated."""
    members: int = 16
    """Members of each region that are simulated, those most unlike each other (count); the first
    is the one that agrees best with the fits of all verdicts."""
    rule: tuple[str, ...] = DEFAULT_RULES
    """Acquisition rules; top_k_aware, with which the others are compared, among them."""
    budget: tuple[int, ...] = (60, 120, 200)
    """Budgets (verdicts)."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""
    protocol: str = "frozen"
    """frozen: each ordered pair has one verdict, the likelier. stochastic: every query draws one,
    and fits of all verdicts are left out."""
    two_by_two: bool = True
    """Whether top_k_aware and random, if both are run, are also run with the naive model."""
    n_large: int = 200
    """Pools of 100 items of one judge, Llama (count); 0 for none."""

    def decided(self) -> Self:
        if self.n_samples is not None:
            return self
        return replace(self, n_samples=DRAWS.get(self.membership))


PRESETS = {
    "smoke": Settings(
        pools=8,
        n_seeds=1,
        judge=("llama",),
        members=2,
        rule=("top_k_aware", "random"),
        budget=(16, 40),
        n_large=0,
        two_by_two=False,
    ),
    "paper": Settings(pools=10, n_seeds=6, n_samples=1500, membership="counted"),
    "full": Settings(),
}


def members(s: Settings) -> list[regions.Member]:
    """The judges simulated."""
    known = regions.read()
    return [member for name in s.judge for member in known[name][: s.members]]


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    s.check_prior()
    declare.check_listed("judge", s.judge, list(regions.read()))
    declare.check_increasing("budget", s.budget, most=ALL - 1)
    for name in ("members", "n_seeds"):
        if getattr(s, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(s, name)}")
    if s.protocol not in ("frozen", "stochastic"):
        raise ValueError(f"protocol must be frozen or stochastic, got {s.protocol!r}")
    if s.n_large < 0:
        raise ValueError(f"n_large must be at least 0, got {s.n_large}")
    check_rules(s.rule)
    for rule in s.rule:
        check_run(design_of(N_ITEMS), loop(s, rule), reports(s.budget, s.refit_every))


def loop(s: Settings, rule: str) -> Loop:
    return Loop(rule, K, s.refit_every, s.protocol, s.n_samples, s.membership)


def active(s: Settings, rule: str) -> Experiment:
    """Experiment: runs of one rule on one pool; recall and share of the showings at the boundary
    [seed, budget], unknown for all verdicts."""
    draw, settings = twins.paper_pool(), loop(s, rule)
    answers = twins.answers if s.protocol == "frozen" else twins.probability
    at = np.searchsorted(reports(s.budget, s.refit_every), s.budget)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool, free = draw(stream(key, "pool"), condition), condition["aware"] > 0
        variant = Variant(free[None], free)
        task = Task.build(pool, answers(key, pool, condition), variant=variant, prior=s.prior)

        def of_seed(seed: Array) -> tuple[Array, Array, Array]:
            trace = run(
                jax.random.fold_in(stream(key, "acquisition"), seed), task, settings, s.budget
            )
            share = allocation(s.budget, K, trace.queries, pool.quality)[:, 0]
            recall, share = (jnp.append(v, jnp.nan) for v in (trace.recall[at], share))
            return recall, share, trace.status.max()

        recall, share, status = jax.vmap(of_seed)(jnp.arange(s.n_seeds))
        out = {"recall": recall, "share_at_boundary": share, "status": status.max()}
        return out | {"recall_at": jnp.asarray(UNKNOWN)}

    return one


def every_verdict(s: Settings, estimate: Callable[..., Fit]) -> Experiment:
    """Experiment: one fit of all verdicts."""
    draw = twins.paper_pool()

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        verdicts = judges.reveal(twins.answers(key, pool, condition), pairs.every_pair(pool))
        fit = estimate(verdicts, pool.design, s.prior, condition["aware"] > 0)
        recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, K)
        unknown = jnp.full(len(s.budget), jnp.nan, recall.dtype)
        recall = jnp.broadcast_to(jnp.append(unknown, recall), (s.n_seeds, len(s.budget) + 1))
        out = {"recall": recall, "share_at_boundary": unknown_of(s), "status": fit.status}
        return out | {"recall_at": jnp.asarray(UNKNOWN)}

    return one


def table_of_judges(s: Settings, n_items: int, k: int) -> Experiment:
    """Experiment: what `sweeps.judges` measures of a judge, from all verdicts on one pool."""
    measured = sweep_judges.experiment(sweep_judges.Settings(n_probes=1), n_items, k)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        out = measured(key, condition)
        kept = dict.fromkeys(("recall", "share_at_boundary"), unknown_of(s))
        return kept | {"recall_at": out["recall"], "status": out["status"]}

    return one


def unknown_of(s: Settings) -> Float[Array, "seeds budgets"]:
    """For groups without runs."""
    return jnp.full((s.n_seeds, len(s.budget) + 1), jnp.nan, jnp.float32)


def axes_of(s: Settings) -> dict[str, dict[str, Sequence[Any]]]:
    runs: dict[str, Sequence[Any]] = {
        SEEDS: list(range(s.n_seeds)),
        "budget": [*s.budget, ALL],
    }
    return {
        "recall": runs,
        "share_at_boundary": runs,
        "recall_at": {"model": list(sweep_judges.MODELS), "k": list(sweep_judges.K)},
    }


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    simulated = members(s)
    parameters = np.array([[getattr(m, name) for name in regions.BOUNDS] for m in simulated])
    unit = regions.unit(parameters) if s.protocol == "stochastic" else np.ones(len(parameters))
    conditions = regions.conditions(parameters, unit)
    labels = {"judge": [m.name for m in simulated], "member": [m.member for m in simulated]}
    labels["interaction"] = [m.interaction for m in simulated]
    axes = axes_of(s)
    refits = s.n_seeds * len(reports(s.budget, s.refit_every))
    # Runs that differ in a mask alone share a program.
    runs = [([rule], active(s, rule)) for rule in s.rule]
    if s.two_by_two and set(TWO) <= set(s.rule):
        runs = [(n + [f"{NAIVE}{n[0]}"] * (n[0] in TWO), e) for n, e in runs]
    fits_of = {e: [n for n in ESTIMATORS if ESTIMATORS[n] == e] for e in ESTIMATORS.values()}
    if s.protocol == "frozen":
        runs += [(names, every_verdict(s, estimate)) for estimate, names in fits_of.items()]

    def group(names: list[str], experiment: Experiment) -> declare.Group:
        of_rules = {name: values * len(names) for name, values in labels.items()}
        of_rules["rule"] = [name for name in names for _ in simulated]
        n = len(of_rules["rule"])
        traced = {name: np.concatenate([v] * len(names)) for name, v in conditions.items()}
        naive = [name == "naive" or name.startswith(NAIVE) for name in of_rules["rule"]]
        traced["aware"] = 1.0 - np.array(naive)
        fits = 2 if names[0] in ESTIMATORS else refits
        name, labelled = "-".join(names), of_rules | {"n_items": [N_ITEMS] * n}
        return declare.Group(
            name, experiment, traced, labelled, N_ITEMS, s.pools, axes=axes, fits=fits
        )

    every = [group(names, experiment) for names, experiment in runs]
    return every + (tables_of_judges(s, conditions, labels) if s.protocol == "frozen" else [])


def tables_of_judges(
    s: Settings, conditions: dict[str, np.ndarray], labels: dict[str, list[Any]]
) -> list[declare.Group]:
    """All members on the usual pools, and those of one judge on large ones."""
    of_large = np.array(labels["judge"]) == sweep_judges.LARGE_JUDGE
    sizes = [(N_ITEMS, K, s.pools, np.ones(len(of_large), bool))]
    sizes.append((sweep_judges.LARGE, sweep_judges.LARGE_TOP, s.n_large, of_large))
    found = []
    for n_items, k, n_pools, chosen in sizes:
        if n_pools and chosen.any():
            kept = {name: np.asarray(v)[chosen].tolist() for name, v in labels.items()}
            kept |= {"rule": [TABLE] * chosen.sum(), "n_items": [n_items] * chosen.sum()}
            found.append(
                declare.Group(
                    f"{TABLE}_{n_items}",
                    table_of_judges(s, n_items, k),
                    {n: v[chosen] for n, v in (conditions | {"displaced": 0 * of_large}).items()},
                    kept,
                    n_items,
                    n_pools,
                    axes=axes_of(s),
                    fits=len(sweep_judges.MODELS),
                )
            )
    return found


COLUMNS = ("judge", "member", "interaction", "rule", "budget", "n_items", "k")


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    recall = ds["recall"].transpose("condition", "budget", SEEDS, "pool")
    of_rule = {name: _where(recall, name) for name in (*s.rule, *ESTIMATORS)}
    for name in s.rule:
        t.means("recall", of_rule[name].sel(budget=list(s.budget)), k=K)
    base = of_rule[REFERENCE].sel(budget=list(s.budget))
    plain = base.drop_vars("rule")
    for name in s.rule:
        if name != REFERENCE:
            t.means("delta", of_rule[name].sel(budget=list(s.budget)) - plain, k=K)
    t.means("share_at_boundary", _shares(ds, s), k=K)
    if s.two_by_two and set(TWO) <= set(s.rule):
        naive = [_where(recall, f"{NAIVE}{rule}").sel(budget=list(s.budget)) for rule in TWO]
        for values in naive:
            t.means("recall", values, k=K)
        naive = naive[0].drop_vars("rule") - naive[1].drop_vars("rule")
        other = of_rule[TWO[1]].sel(budget=list(s.budget)).drop_vars("rule")
        t.means("synergy", plain - other - naive, rule=REFERENCE, k=K)
    if s.protocol == "frozen":
        for name in ESTIMATORS:
            t.means("recall", of_rule[name].sel(budget=[ALL]), k=K)
        full = of_rule["bias_aware"].sel(budget=ALL).drop_vars(("rule", "budget"))
        t.means("above_full_data", base - full, k=K)
        rows_of_all_verdicts(_where(ds, TABLE), s, t)
    ranges(t.frame(), t)
    over_judges(t.frame(), s, t)


def _shares(ds: xr.Dataset, s: Settings) -> xr.DataArray:
    """Shares of showings at the boundary, of the rules with the bias-aware model."""
    of = ds["share_at_boundary"].transpose("condition", "budget", SEEDS, "pool")
    return of.isel(condition=np.flatnonzero(of["rule"].isin(s.rule))).sel(budget=list(s.budget))


def rows_of_all_verdicts(ds: xr.Dataset, s: Settings, t: Table) -> None:
    """Add recall by the models and sizes of the top set of `sweeps.judges`, for every member."""
    recall = ds["recall_at"].drop_vars("rule").rename(model="rule")
    for n_items, n_pools in ((N_ITEMS, s.pools), (sweep_judges.LARGE, s.n_large)):
        of = recall.isel(condition=np.flatnonzero(recall["n_items"].values == n_items))
        if of.sizes["condition"]:
            wanted = [1, 3, 10] if n_items == N_ITEMS else [sweep_judges.LARGE_TOP]
            rows = of.isel(pool=slice(n_pools))
            every = n_items * (n_items - 1)
            t.means("recall", rows.sel(rule=list(MODELS), k=wanted), budget=every)
            if n_items == N_ITEMS:
                t.means("recall", rows.sel(rule=list(BASELINES), k=[K]), budget=every)


def _where(results: Results, rule: str) -> Results:
    return results.isel(condition=np.flatnonzero(results["rule"].values == rule))


def ranges(rows: pd.DataFrame, t: Table) -> None:
    """Add, for each judge, the least and the largest mean over the members of its region, and how
    many of them agree with the paper's number; with its whole table of rules, in a row without a
    rule."""
    same = ["judge", "quantity", "rule", "budget", "n_items", "k"]
    for (judge, quantity, *place), of in rows.groupby(same, sort=False, dropna=False):
        where: dict[str, Any] = dict(zip(same[2:], place, strict=True)) | {"judge": judge}
        for name, at in (("least", of.estimate.argmin()), ("largest", of.estimate.argmax())):
            row = of.iloc[at]
            ends = (row.ci_low, row.ci_high)
            t.add(f"{quantity}_{name}", row.estimate, ends, int(row.n_pools), beside="", **where)
        if of.paper.notna().any():
            agree = float((of.consistent != "no").sum())
            t.add(f"{quantity}_members_consistent", agree, **where)
    of_rules = rows.quantity.isin(["recall", "delta"]) & ~rows.rule.isin([*ESTIMATORS, TABLE])
    for judge, of in rows[of_rules & rows.paper.notna()].groupby("judge", sort=False):
        good = of.groupby("member").consistent.agg(lambda v: (v != "no").all())
        t.add("members_consistent_with_rules", float(good.sum()), judge=judge)
        t.add("members", float(len(good)), judge=judge)


def over_judges(rows: pd.DataFrame, s: Settings, t: Table) -> None:
    """Add means over the five judges of their least and of their largest recall of all verdicts."""
    if set(s.judge) != set(judges.GATED):
        return
    counts = {name: PUBLISHED[name].pools for name in s.judge}
    ends = rows[rows.quantity.isin(["recall_least", "recall_largest"]) & (rows.budget == ALL)]
    for (quantity, rule, k), of in ends.groupby(["quantity", "rule", "k"], sort=False):
        share = of.judge.map(counts).to_numpy() / sum(counts.values())
        mean = float(share @ of.estimate)
        # At most: the judges share their pools.
        half = float(share @ ((of.ci_high - of.ci_low) / 2))
        place: dict[str, Any] = {
            "rule": rule,
            "budget": ALL,
            "n_items": N_ITEMS,
            "k": k,
            "judge": BIASED,
        }
        t.add(str(quantity), mean, (mean - half, mean + half), int(of.n_pools.min()), **place)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: the first member's at one budget, and the ranges."""
    budget = 120 if 120 in s.budget else s.budget[-1]
    here = table.budget.isna() | table.budget.isin([budget, ALL])
    return table[here & (table.member.isna() | (table.member == 0))]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.facets(len(s.judge), min(3, len(s.judge)), width=4.6, height=4.4)
    budget = 120 if 120 in s.budget else s.budget[-1]
    rows = table[(table.quantity == "recall") & table.budget.isin([budget, ALL]) & (table.k == K)]
    for ax, judge in zip(axes, s.judge, strict=True):
        draw_judge(ax, rows[rows.judge == judge], (*s.rule, *ESTIMATORS))
        ax.set_title(_title(table[table.judge == judge], judge), fontsize=10)
        ax.set_xlabel(f"top-{K} recall, B = {budget} or all")
    fig.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="lower right")
    return fig


def _title(rows: pd.DataFrame, judge: str) -> str:
    """The judge, and how many of its members the paper's table of rules does not contradict."""
    counts = [
        int(rows.estimate[rows.quantity == name].iloc[0])
        for name in ("members_consistent_with_rules", "members")
        if (rows.quantity == name).any()
    ]
    model = PUBLISHED[judge].model
    return f"{model}: {counts[0]} of {counts[1]} have its table" if counts else model


def draw_judge(ax: Axes, rows: pd.DataFrame, names: Sequence[str]) -> Axes:
    """Draw every member's recall in a row for each rule, and the paper's."""
    for y, name in enumerate(names):
        of = rows[rows.rule == name]
        first = of[of.member == 0]
        paper = of.paper.dropna().unique()
        blue = plots.COLOURS["blue"]
        for values, marker, colour, label in (
            (of.estimate, "|", blue, "members"),
            (first.estimate, "o", blue, "best member"),
            (paper, "x", "black", "paper"),
        ):
            ax.plot(values, [y] * len(values), marker, color=colour, label="" if y else label)
    ax.set_yticks(range(len(names)), [_named(name) for name in names])
    ax.invert_yaxis()
    return ax


def _named(rule: str) -> str:
    return f"{rule}, all" if rule in ESTIMATORS else rule


SWEEP = declare.legacy(
    "judge_regions",
    "The paper's rules for every kind of judge that its numbers on all verdicts allow.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={"interaction": "statements for x = 1 per statement"},
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
