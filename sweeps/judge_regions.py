"""What follows from the paper's numbers when the judge's form is left open: its rules at a budget,
for every kind of judge that its numbers on all verdicts allow.

A twin (`jbt.twins`) has one constant bias, and errors of the pair alone. The judges here are
members of the regions of `jbt.twins.regions`: their bias may grow with quality, their errors may
belong to items or statements, and each agrees with what the paper prints of the real judge's fits
of all verdicts. The table of rules was no part of that choice, so it is a test: whether some member
agrees with all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Key

from jbt import estimators, twins
from jbt.acquisition import Loop, Task, reports, run
from jbt.acquisition.rules import DEFAULT_RULES
from jbt.acquisition.runs import check as check_run
from jbt.border import plots
from jbt.experiments import declare
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.kernel.membership import DRAWS
from jbt.simulation import judges, pairs
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.twins import regions
from jbt.types import Fit

from ._shared.active import REFERENCE, RunSettings, design_of
from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

N_ITEMS, K = 30, 5
ALL = N_ITEMS * (N_ITEMS - 1)
"""Every verdict."""
ESTIMATORS = {
    "naive": estimators.naive,
    "bias_aware": estimators.bias_aware,
    "local": estimators.local,
}
"""Fits of every verdict, in the rule's column."""


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, RunSettings, declare.Settings):
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
    if REFERENCE not in s.rule:
        raise ValueError(f"rule must include {REFERENCE}, with which the others are compared")
    if len(set(s.rule)) < len(s.rule):
        raise ValueError(f"rule lists a name twice: {' '.join(s.rule)}")
    for rule in s.rule:
        check_run(design_of(N_ITEMS), loop(s, rule), reports(s.budget, s.refit_every))


def loop(s: Settings, rule: str) -> Loop:
    return Loop(rule, K, s.refit_every, "frozen", s.n_samples, s.membership)


def active(s: Settings, rule: str) -> Experiment:
    """Experiment: runs of one rule on one pool; recall [seed, budget], unknown for all verdicts."""
    draw, settings = twins.paper_pool(), loop(s, rule)
    at = np.searchsorted(reports(s.budget, s.refit_every), s.budget)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        task = Task.build(pool, twins.answers(key, pool, condition), prior=s.prior)

        def of_seed(seed: Array) -> tuple[Array, Array]:
            trace = run(
                jax.random.fold_in(stream(key, "acquisition"), seed), task, settings, s.budget
            )
            return jnp.append(trace.recall[at], jnp.nan), trace.status.max()

        recall, status = jax.vmap(of_seed)(jnp.arange(s.n_seeds))
        return {"recall": recall, "status": status.max()}

    return one


def every_verdict(s: Settings, name: str) -> Experiment:
    """Experiment: one fit of all verdicts."""
    draw, estimate = twins.paper_pool(), ESTIMATORS[name]

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        verdicts = judges.reveal(twins.answers(key, pool, condition), pairs.every_pair(pool))
        fit: Fit = estimate(verdicts, pool.design, s.prior)
        recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, K)
        unknown = jnp.full(len(s.budget), jnp.nan, recall.dtype)
        recall = jnp.broadcast_to(jnp.append(unknown, recall), (s.n_seeds, len(s.budget) + 1))
        return {"recall": recall, "status": fit.status}

    return one


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    simulated = members(s)
    parameters = np.array([[getattr(m, name) for name in regions.BOUNDS] for m in simulated])
    conditions = regions.conditions(parameters)
    labels = {"judge": [m.name for m in simulated], "member": [m.member for m in simulated]}
    labels["interaction"] = [m.interaction for m in simulated]
    axes = {"recall": {SEEDS: list(range(s.n_seeds)), "budget": [*s.budget, ALL]}}
    runs = {rule: active(s, rule) for rule in s.rule}
    runs |= {name: every_verdict(s, name) for name in ESTIMATORS}
    return [
        declare.Group(
            name,
            experiment,
            conditions,
            labels | {"rule": [name] * len(simulated)},
            N_ITEMS,
            s.pools,
            axes=axes,
            fits=s.n_seeds * len(reports(s.budget, s.refit_every)) if name in s.rule else 2,
        )
        for name, experiment in runs.items()
    ]


COLUMNS = ("judge", "member", "interaction", "rule", "budget")


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    recall = ds["recall"].transpose("condition", "budget", SEEDS, "pool")
    of_rule = {name: _where(recall, name) for name in (*s.rule, *ESTIMATORS)}
    for name in s.rule:
        t.means("recall", of_rule[name].sel(budget=list(s.budget)))
    for name in ESTIMATORS:
        t.means("recall", of_rule[name].sel(budget=[ALL]))
    base = of_rule[REFERENCE].sel(budget=list(s.budget))
    plain = base.drop_vars("rule")
    for name in s.rule:
        if name != REFERENCE:
            t.means("delta", of_rule[name].sel(budget=list(s.budget)) - plain)
    full = of_rule["bias_aware"].sel(budget=ALL).drop_vars(("rule", "budget"))
    t.means("above_full_data", base - full)
    ranges(t.frame(), s, t)


def _where(recall: xr.DataArray, rule: str) -> xr.DataArray:
    return recall.isel(condition=np.flatnonzero(recall["rule"].values == rule))


def ranges(rows: pd.DataFrame, s: Settings, t: Table) -> None:
    """Add, for each judge, the least and the largest mean over the members of its region, and how
    many of them agree with the paper's number; with all of its numbers at once, in a row without a
    rule."""
    same = ["judge", "quantity", "rule", "budget"]
    for (judge, quantity, rule, _), of in rows.groupby(same, sort=False):
        where = {"judge": judge, "rule": rule, "budget": of.budget.iloc[0]}
        for name, at in (("least", of.estimate.argmin()), ("largest", of.estimate.argmax())):
            row = of.iloc[at]
            ends = (row.ci_low, row.ci_high)
            t.add(f"{quantity}_{name}", row.estimate, ends, int(row.n_pools), beside="", **where)
        if of.paper.notna().any():
            agree = float((of.consistent != "no").sum())
            t.add(f"{quantity}_members_consistent", agree, **where)
    for judge, of in rows[rows.paper.notna()].groupby("judge", sort=False):
        good = of.groupby("member").consistent.agg(lambda v: (v != "no").all())
        t.add("members_consistent_with_all", float(good.sum()), judge=judge)
        t.add("members", float(len(good)), judge=judge)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: the first member's at one budget, and the ranges."""
    budget = 120 if 120 in s.budget else s.budget[-1]
    here = table.budget.isna() | table.budget.isin([budget, ALL])
    return table[here & (table.member.isna() | (table.member == 0))]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.facets(len(s.judge), min(3, len(s.judge)), width=4.6, height=4.4)
    budget = 120 if 120 in s.budget else s.budget[-1]
    rows = table[(table.quantity == "recall") & table.budget.isin([budget, ALL])]
    for ax, judge in zip(axes, s.judge, strict=True):
        draw_judge(ax, rows[rows.judge == judge], judge, (*s.rule, *ESTIMATORS))
        ax.set_xlabel(f"top-{K} recall, B = {budget} or all")
    fig.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="lower right")
    return fig


def draw_judge(ax: Axes, rows: pd.DataFrame, judge: str, names: Sequence[str]) -> Axes:
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
    ax.set_title(judge)
    return ax


def _named(rule: str) -> str:
    return f"{rule}, all" if rule in ESTIMATORS else rule


SWEEP = declare.Sweep(
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
