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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Array, Key

from jbt import twins
from jbt.acquisition import Loop, reports, run
from jbt.acquisition.rules import DEFAULT_RULES, families
from jbt.acquisition.task import PROTOCOLS
from jbt.experiments.declare import Group, check_increasing, check_listed
from jbt.experiments.labelled_arrays import SEEDS, where
from jbt.experiments.plots import Line, Panel
from jbt.experiments.table import Table
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.simulation import judges, pairs
from jbt.simulation.judges import PUBLISHED
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.twins import regions
from jbt.types import Prior, check_count, check_word

from ._shared.active import (
    PAPER,
    REFERENCE,
    TEST_BUDGET,
    RunSettings,
    check_rules,
    check_runs,
    recall_at,
    share_at_boundary,
    shared,
    task_of,
    variant_of,
)
from .judges import LARGE, LARGE_JUDGE, LARGE_TOP

N_ITEMS, K = 30, 5
ALL = N_ITEMS * (N_ITEMS - 1)
"""Every verdict."""
FULL = ("naive", "bias_aware")
"""Fits of every verdict, in the rule's column."""
TWO, NAIVE = (REFERENCE, "random"), "naive_model_"
"""Rules that are also run with the naive model, and what their names begin with there."""
ROWS = (REFERENCE, *families()["baselines"], *FULL)
"""Rows of the figure, those of the paper: rules, and fits of every verdict."""


@dataclass(frozen=True, kw_only=True)
class JudgeRegions(RunSettings):
    """The paper's rules for every kind of judge that its numbers on all verdicts allow."""

    name = "judge_regions"
    columns = ("judge", "member", "interaction", "rule", "budget", "n_items", "k")
    presets = {
        "smoke": {
            "pools": 8,
            "n_seeds": 1,
            "judge": ("llama",),
            "members": 2,
            "rule": TWO,
            "budget": (16, 40),
            "n_large": 0,
        },
        "paper": PAPER | {"n_seeds": 6},
    }
    units = {"interaction": "statements for x = 1 per statement"}
    panel_size = {"width": 4.8, "height": 3.8, "below": {"fontsize": 9, "ncols": 1}}

    pools: int = 400
    n_seeds: Annotated[int, check_count] = 2
    """Acquisition seeds a pool (count), averaged within the pool."""
    judge: tuple[str, ...] = tuple(judges.GATED)
    """Judges of the paper whose regions are simulated."""
    members: Annotated[int, check_count] = 16
    """Members of each region that are simulated, those most unlike each other (count); the first
    is the one that agrees best with the fits of all verdicts."""
    rule: Annotated[tuple[str, ...], check_rules] = DEFAULT_RULES
    """Acquisition rules; top_k_aware, with which the others are compared, among them."""
    budget: Annotated[tuple[int, ...], partial(check_increasing, most=ALL - 1)] = (60, 120, 200)
    """Budgets (verdicts)."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""
    protocol: Annotated[str, partial(check_word, allowed=PROTOCOLS)] = "frozen"
    """frozen: each ordered pair has one verdict, the likelier. stochastic: every query draws one,
    and fits of all verdicts are left out."""
    n_large: Annotated[int, partial(check_count, least=0)] = 200
    """Pools of 100 items of one judge, Llama (count); 0 for none."""

    def check(self):
        super().check()
        check_listed("judge", self.judge, list(regions.read()))
        check_runs(N_ITEMS, self.every_loop, self.budget)

    @property
    def every_loop(self) -> list[Loop]:
        """The loops of the rules."""
        return self.loops(self.rule, K, self.refit_every, self.protocol)

    @property
    def frozen(self) -> bool:
        return self.protocol == "frozen"

    @property
    def two(self) -> tuple[str, ...]:
        """Rules that are also run with the naive model."""
        return TWO if set(TWO) <= set(self.rule) else ()

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """Items, size of the top set, and pools of the fits of all verdicts."""
        sizes = [(N_ITEMS, K, self.pools)]
        if self.n_large and LARGE_JUDGE in self.judge:
            sizes.append((LARGE, LARGE_TOP, self.n_large))
        return sizes if self.frozen else []

    @property
    def simulated(self) -> list[regions.Member]:
        """The judges simulated."""
        known = regions.read()
        return [member for name in self.judge for member in known[name][: self.members]]

    # --- experiments: both return the same metrics, NaN for what is not theirs

    def active(self, loop: Loop, key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        """Runs of one rule on one pool."""
        pool = twins.paper_pool()(stream(key, "pool"), condition)
        answers = (twins.answers if self.frozen else twins.probability)(key, pool, condition)
        task = task_of(pool, answers, condition, Prior())

        def of_seed(seed: Array) -> tuple[Array, Array, Array]:
            run_key = jax.random.fold_in(stream(key, "acquisition"), seed)
            trace = run(run_key, task, loop, self.budget)
            share = share_at_boundary(self.budget, K, trace.queries, pool.quality)
            recall = recall_at(self.budget, trace, self.refit_every)
            return jnp.append(recall, jnp.nan), jnp.append(share, jnp.nan), trace.status.max()

        recall, share, status = jax.vmap(of_seed)(jnp.arange(self.n_seeds))
        return {"recall": recall, "share_at_boundary": share, "status": status.max()}

    def every_verdict(
        self, n_items: int, k: int, key: Key[Array, ""], condition: Condition
    ) -> dict[str, Array]:
        """The naive or the bias-aware fit of all verdicts on a pool of n_items."""
        pool = twins.paper_pool(n_items=n_items, k=k)(stream(key, "pool"), condition)
        verdicts = judges.reveal(twins.answers(key, pool, condition), pairs.every_pair(pool))
        fit = fit_map(verdicts, pool.design, Prior(), variant_of(condition))
        recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, k)
        unknown = jnp.full((self.n_seeds, len(self.budget) + 1), jnp.nan, jnp.float32)
        recall = unknown.at[:, -1].set(recall)
        return {"recall": recall, "share_at_boundary": unknown, "status": fit.status}

    def groups(self):
        refits = self.n_seeds * len(reports(self.budget, self.refit_every))
        groups = []
        for rule, (one, number) in shared(self.active, self.every_loop).items():
            names = [rule] + [f"{NAIVE}{rule}"] * (rule in self.two)
            groups += [self.group([name], one, refits, self.pools, rule=number) for name in names]
        for n, k, n_pools in self.sizes:
            full = partial(self.every_verdict, n, k)
            groups.append(self.group(FULL, full, 2, n_pools, n))
        return groups

    def group(
        self,
        rules: Sequence[str],
        experiment: Experiment,
        fits: int,
        n_pools: int,
        n_items: int = N_ITEMS,
        **numbers: np.int32,
    ) -> Group:
        """Rules that differ in a mask alone, for every member; of large pools, for those of one
        judge."""
        simulated = [m for m in self.simulated if n_items == N_ITEMS or m.name == LARGE_JUDGE]
        members, of_rule = simulated * len(rules), np.repeat(rules, len(simulated)).tolist()
        unit = 1.0 if self.frozen else twins.unit(regions.conditions(members))
        aware = np.array([float(not rule.startswith("naive")) for rule in of_rule])
        conditions = regions.conditions(members, unit) | {"aware": aware, **numbers}
        labels = {
            "judge": [m.name for m in members],
            "member": [m.member for m in members],
            "interaction": [m.interaction for m in members],
            "rule": of_rule,
            "n_items": [n_items] * len(members),
        }
        runs = {SEEDS: range(self.n_seeds), "budget": [*self.budget, ALL]}
        axes: dict[str, Any] = dict.fromkeys(("recall", "share_at_boundary"), runs)
        name = "-".join(rules) + f"-{n_items}" * (n_items == LARGE)
        return Group(name, experiment, conditions, labels, n_items, n_pools, axes, fits)

    # --- the table

    def table(self, ds, t):
        runs = ds.sel(budget=list(self.budget))

        def of(rule: str) -> xr.DataArray:
            return where(runs["recall"], rule=rule).drop_vars("rule")

        for rule in self.rule:
            t.means("recall", of(rule), rule=rule, k=K)
        for rule in self.rule:
            if rule != REFERENCE:
                t.means("delta", of(rule) - of(REFERENCE), rule=rule, k=K)
        t.means("share_at_boundary", where(runs["share_at_boundary"], rule=self.rule), k=K)
        if self.two:
            one, other = (f"{NAIVE}{rule}" for rule in TWO)
            for rule in (one, other):
                t.means("recall", of(rule), rule=rule, k=K)
            synergy = of(TWO[0]) - of(TWO[1]) - (of(one) - of(other))
            t.means("synergy", synergy, rule=REFERENCE, k=K)
        full = ds["recall"].sel(budget=ALL, drop=True)
        for n, k, n_pools in self.sizes:
            for name in FULL:
                values = where(full, rule=name, n_items=n).isel(pool=slice(n_pools))
                t.means("recall", values, budget=n * (n - 1), k=k)
        if self.frozen:
            aware = where(full, rule="bias_aware", n_items=N_ITEMS).drop_vars("rule")
            t.means("above_full_data", of(REFERENCE) - aware, rule=REFERENCE, k=K)
        ranges(t.frame(), t)

    # --- what is shown

    def headline(self, table):
        """Rows to print: the first member's, and the ranges."""
        return table[table.member.isna() | (table.member == 0)]

    def panels(self, table):
        """Recall of every member in a row for each rule of the paper, and the paper's: of the first
        judge and the last."""
        budget = TEST_BUDGET if TEST_BUDGET in self.budget else self.budget[-1]
        x = f"recall after {budget} verdicts, or all (naive, bias_aware)"
        allowed = "judge that the paper's other numbers allow"
        lines = [
            Line(
                {"member": range(1, self.members)},
                allowed,
                "C7",
                {"fmt": "|", "elinewidth": 0, "capsize": 0},
            ),
            Line({"member": 0}, "the best of these (bar: 95 % over pools)", "blue"),
        ]
        return [
            Panel(
                "rule",
                {"quantity": "recall", "judge": judge, "budget": [budget, ALL], "k": K},
                lines,
                (x, "", PUBLISHED[judge].model),
                names=ROWS,
                table=table.assign(paper=table.paper.where(table.member == 0)),
            )
            for judge in dict.fromkeys((self.judge[0], self.judge[-1]))
        ]


SWEEP = JudgeRegions


def ranges(rows: pd.DataFrame, t: Table) -> None:
    """Add, for each judge, the least and the largest mean over the members of its region, and how
    many of them agree with the paper's whole table of rules, in a row without a rule."""
    same = ["judge", "quantity", "rule", "budget", "n_items", "k"]
    for (judge, quantity, *place), of in rows.groupby(same, sort=False, dropna=False):
        setting: dict[str, Any] = dict(zip(same[2:], place, strict=True)) | {"judge": judge}
        for name, at in (("least", of.estimate.argmin()), ("largest", of.estimate.argmax())):
            row = of.iloc[at]
            ends = (row.ci_low, row.ci_high)
            t.add(f"{quantity}_{name}", row.estimate, ends, int(row.n_pools), beside="", **setting)
    of_rules = rows.quantity.isin(["recall", "delta"]) & ~rows.rule.isin(FULL)
    for judge, of in rows[of_rules & rows.paper.notna()].groupby("judge", sort=False):
        good = of.groupby("member").consistent.agg(lambda v: (v != "no").all())
        t.add("members_consistent_with_rules", float(good.sum()), judge=judge)
        t.add("members", float(len(good)), judge=judge)


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
