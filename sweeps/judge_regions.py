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
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, twins
from jbt.acquisition import Loop, reports, run
from jbt.acquisition.rules import DEFAULT_RULES
from jbt.acquisition.runs import check as check_run
from jbt.experiments import declare, plots
from jbt.experiments.declare import Group
from jbt.experiments.labelled_arrays import SEEDS, where
from jbt.experiments.plots import Panel
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.simulation import judges, pairs
from jbt.simulation.judges import PUBLISHED
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.twins import regions
from jbt.types import Comparisons, Design, Fit, Prior, Variant, check_count, check_word

from . import judges as of_judges
from ._shared.active import (
    REFERENCE,
    RunSettings,
    allocation,
    check_rules,
    design_of,
    shared,
    task_of,
)
from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from jbt.experiments.table import Table

N_ITEMS, K = 30, 5
ALL = N_ITEMS * (N_ITEMS - 1)
"""Every verdict."""
BIASED = "biased"
"""Entry of the column `judge`: the mean over the five, with weights as the paper's pools."""
ESTIMATORS = ("naive", "bias_aware", "local")
"""Fits of every verdict, in the rule's column."""
TWO, NAIVE = (REFERENCE, "random"), "naive_model_"
"""Rules that are also run with the naive model, and what their names begin with there."""
ROWS = {
    "top_k_aware": "Eq. acq",
    "thompson": "Thompson",
    "lucb": "LUCB",
    "global_uncertainty": "global uncertainty",
    "round_robin": "round robin",
    "random": "random pairs",
    "naive": "all verdicts, naive",
    "bias_aware": "all verdicts, corrected",
}
"""Rows of the figure, those of the paper: rule or estimator -> name."""
TABLE = "table_of_judges"
"""Rule of the group whose results are those of `sweeps.judges`."""


@dataclass(frozen=True, kw_only=True)
class JudgeRegions(MapPrior, RunSettings):
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
            "two_by_two": False,
        },
        "paper": {"pools": 10, "n_seeds": 6, "n_samples": 1500, "membership": "counted"},
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
    n_large: Annotated[int, partial(check_count, least=0)] = 200
    """Pools of 100 items of one judge, Llama (count); 0 for none."""

    def check(self):
        super().check()
        declare.check_listed("judge", self.judge, list(regions.read()))
        declare.check_increasing("budget", self.budget, most=ALL - 1)
        check_word("protocol", self.protocol, ("frozen", "stochastic"))
        check_rules(self.rule)
        for rule in self.rule:
            check_run(design_of(N_ITEMS), self.loop(rule), reports(self.budget, self.refit_every))

    @property
    def frozen(self) -> bool:
        return self.protocol == "frozen"

    @property
    def two(self) -> tuple[str, ...]:
        """Rules that are also run with the naive model."""
        return TWO if self.two_by_two and set(TWO) <= set(self.rule) else ()

    @property
    def simulated(self) -> list[regions.Member]:
        """The judges simulated."""
        known = regions.read()
        return [member for name in self.judge for member in known[name][: self.members]]

    def loop(self, rule: str) -> Loop:
        given = (self.protocol, self.n_samples, self.membership)
        return Loop(rule, K, self.refit_every, *given)

    # --- experiments: each returns all metrics, NaN for those that are not of it

    def unknown(self) -> dict[str, Array]:
        """Recall and share of the showings at the boundary by seed and budget, and recall by model
        and size of the top set, where none is measured."""
        runs = jnp.full((self.n_seeds, len(self.budget) + 1), jnp.nan, jnp.float32)
        at = jnp.full((len(of_judges.MODELS), len(of_judges.K)), jnp.nan, jnp.float32)
        return {"recall": runs, "share_at_boundary": runs, "recall_at": at}

    def active(self, loop: Loop, key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        """Runs of one rule on one pool."""
        pool = twins.paper_pool()(stream(key, "pool"), condition)
        answers = (twins.answers if self.frozen else twins.probability)(key, pool, condition)
        task = task_of(pool, answers, condition, self.prior)
        at = np.searchsorted(reports(self.budget, self.refit_every), self.budget)

        def of_seed(seed: Array) -> tuple[Array, Array, Array]:
            run_key = jax.random.fold_in(stream(key, "acquisition"), seed)
            trace = run(run_key, task, loop, self.budget)
            share = allocation(self.budget, K, trace.queries, pool.quality)[:, 0]
            recall, share = (jnp.append(v, jnp.nan) for v in (trace.recall[at], share))
            return recall, share, trace.status.max()

        recall, share, status = jax.vmap(of_seed)(jnp.arange(self.n_seeds))
        measured = {"recall": recall, "share_at_boundary": share, "status": status.max()}
        return self.unknown() | measured

    def every_verdict(
        self, estimate: Callable[..., Fit], key: Key[Array, ""], condition: Condition
    ) -> dict[str, Array]:
        """One fit of all verdicts."""
        pool = twins.paper_pool()(stream(key, "pool"), condition)
        verdicts = judges.reveal(twins.answers(key, pool, condition), pairs.every_pair(pool))
        fit = estimate(verdicts, pool.design, self.prior, condition["aware"] > 0)
        recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, K)
        unknown = self.unknown()
        return unknown | {"recall": unknown["recall"].at[:, -1].set(recall), "status": fit.status}

    def table_of_judges(
        self, n_items: int, k: int, key: Key[Array, ""], condition: Condition
    ) -> dict[str, Array]:
        """What `sweeps.judges` measures of a judge, from all verdicts on one pool."""
        out = of_judges.Judges(n_probes=1).experiment(n_items, k, key, condition)
        return self.unknown() | {"recall_at": out["recall"], "status": out["status"]}

    def groups(self):
        members = self.simulated
        parameters = np.array([[getattr(m, name) for name in regions.BOUNDS] for m in members])
        unit = np.ones(len(members)) if self.frozen else regions.unit(parameters)
        conditions = regions.conditions(parameters, unit) | {"displaced": np.zeros(len(members))}
        labels = {
            "judge": [m.name for m in members],
            "member": [m.member for m in members],
            "interaction": [m.interaction for m in members],
        }
        runs: dict[str, Sequence[Any]] = {
            SEEDS: range(self.n_seeds),
            "budget": [*self.budget, ALL],
        }
        at_sizes = {"model": list(of_judges.MODELS), "k": list(of_judges.K)}
        axes = {"recall": runs, "share_at_boundary": runs, "recall_at": at_sizes}

        def group(
            rules: list[str],
            experiment: Experiment,
            fits: int,
            *,
            number: np.int32 | None = None,
            name: str = "",
            chosen: Sequence[int] = range(len(members)),
            n_items: int = N_ITEMS,
            n_pools: int = self.pools,
        ) -> Group:
            """Rules that differ in a mask alone share a program."""
            of_rule = [rule for rule in rules for _ in chosen]
            at = [*chosen] * len(rules)
            aware = [float(r != "naive" and not r.startswith(NAIVE)) for r in of_rule]
            traced = {n: v[at] for n, v in conditions.items()} | {"aware": np.array(aware)}
            traced |= {} if number is None else {"rule": number}
            of_runs = {n: [v[i] for i in at] for n, v in labels.items()}
            of_runs |= {"rule": of_rule, "n_items": [n_items] * len(at)}
            sizes = (n_items, n_pools, axes, fits)
            return Group(name or "-".join(rules), experiment, traced, of_runs, *sizes)

        refits = self.n_seeds * len(reports(self.budget, self.refit_every))
        groups = []
        for rule, (one, number) in shared(self.active, [self.loop(r) for r in self.rule]).items():
            names = [rule] + [f"{NAIVE}{rule}"] * (rule in self.two)
            groups += [group([name], one, refits, number=number) for name in names]
        if self.frozen:
            groups.append(group([*ESTIMATORS[:2]], partial(self.every_verdict, fitted), 2))
            groups.append(group([*ESTIMATORS[2:]], partial(self.every_verdict, local), 2))
            of_large = [i for i, m in enumerate(members) if m.name == of_judges.LARGE_JUDGE]
            for n_items, k, n_pools, chosen in (
                (N_ITEMS, K, self.pools, range(len(members))),
                (of_judges.LARGE, of_judges.LARGE_TOP, self.n_large, of_large),
            ):
                if n_pools and len(chosen):
                    experiment = partial(self.table_of_judges, n_items, k)
                    sizes = {"chosen": chosen, "n_items": n_items, "n_pools": n_pools}
                    fits, name = len(of_judges.MODELS), f"{TABLE}_{n_items}"
                    groups.append(group([TABLE], experiment, fits, name=name, **sizes))
        return groups

    # --- the table

    def table(self, ds, t):
        order = ("condition", "budget", SEEDS, "pool")
        recall, share = (ds[n].transpose(*order) for n in ("recall", "share_at_boundary"))
        runs, share = (values.sel(budget=list(self.budget)) for values in (recall, share))

        def of(rule: str) -> xr.DataArray:
            return where(runs, rule=rule).drop_vars("rule")

        for rule in self.rule:
            t.means("recall", where(runs, rule=rule), k=K)
        for rule in self.rule:
            if rule != REFERENCE:
                t.means("delta", where(runs, rule=rule) - of(REFERENCE), k=K)
        t.means("share_at_boundary", where(share, rule=self.rule), k=K)
        if self.two:
            for rule in TWO:
                t.means("recall", where(runs, rule=f"{NAIVE}{rule}"), k=K)
            naive = of(f"{NAIVE}{TWO[0]}") - of(f"{NAIVE}{TWO[1]}")
            t.means("synergy", of(TWO[0]) - of(TWO[1]) - naive, rule=REFERENCE, k=K)
        if self.frozen:
            every = recall.sel(budget=[ALL])
            for name in ESTIMATORS:
                t.means("recall", where(every, rule=name), k=K)
            full = where(every, rule="bias_aware").isel(budget=0).drop_vars(("rule", "budget"))
            t.means("above_full_data", of(REFERENCE) - full, rule=REFERENCE, k=K)
            of_table = where(ds["recall_at"], rule=TABLE).drop_vars("rule").rename(model="rule")
            self.rows_of_all_verdicts(of_table, t)
        ranges(t.frame(), t)
        self.over_judges(t.frame(), t)

    def rows_of_all_verdicts(self, recall: xr.DataArray, t: Table) -> None:
        """Add recall by the models and sizes of the top set of `sweeps.judges`, for every
        member."""
        large, top = of_judges.LARGE, of_judges.LARGE_TOP
        for n_items, n_pools, rules, sizes in (
            (N_ITEMS, self.pools, ["naive", "bias_aware"], [1, 3, 10]),
            (N_ITEMS, self.pools, ["order_swap_dropped", "residualised"], [K]),
            (large, self.n_large, ["naive", "bias_aware"], [top]),
        ):
            rows = where(recall, n_items=n_items).isel(pool=slice(n_pools))
            if rows.sizes["condition"]:
                t.means("recall", rows.sel(rule=rules, k=sizes), budget=n_items * (n_items - 1))

    def over_judges(self, rows: pd.DataFrame, t: Table) -> None:
        """Add means over the five judges of their least and of their largest recall of all
        verdicts."""
        if set(self.judge) != set(judges.GATED):
            return
        counts = {name: PUBLISHED[name].pools for name in self.judge}
        ends = where(rows, quantity=["recall_least", "recall_largest"], budget=ALL)
        for (quantity, rule, k), of in ends.groupby(["quantity", "rule", "k"], sort=False):
            share = of.judge.map(counts).to_numpy() / sum(counts.values())
            mean = float(share @ of.estimate)
            # At most: the judges share their pools.
            half = float(share @ ((of.ci_high - of.ci_low) / 2))
            interval, n = (mean - half, mean + half), int(of.n_pools.min())
            row = {"rule": rule, "budget": ALL, "n_items": N_ITEMS, "k": k, "judge": BIASED}
            t.add(str(quantity), mean, interval, n, **row)

    # --- what is shown

    @property
    def shown(self) -> list[int]:
        """Budgets that are printed and drawn."""
        return [120 if 120 in self.budget else self.budget[-1], ALL]

    def headline(self, table):
        """Rows to print: the first member's at one budget, and the ranges."""
        here = table.budget.isna() | table.budget.isin(self.shown)
        return table[here & (table.member.isna() | (table.member == 0))]

    def panels(self, table):
        """Recall of every member in a row for each rule of the paper, and the paper's: of the first
        judge and the last."""
        recall = where(table, quantity="recall", budget=self.shown, k=K, rule=list(ROWS))
        x = f"recall of the top {K} after {self.shown[0]} verdicts, or all"

        def rows(ax: Axes, judge: str) -> None:
            of = where(recall, judge=judge)
            best = of[of.member == 0]
            for rows, column, marker, colour, label in (
                (of, "estimate", "|", "C7", "judge that the paper's other numbers allow"),
                (best, "estimate", "o", plots.COLOURS["blue"], "the best of these"),
                (best, "paper", "x", "black", "paper"),
            ):
                at = rows.rule.map(list(ROWS).index)
                ax.plot(rows[column], at, marker, color=colour, label=label)
            ax.set_yticks(range(len(ROWS)), ROWS.values())
            ax.invert_yaxis()

        return [
            Panel(
                labels=(x, "", title(where(table, judge=judge), judge)),
                after=partial(rows, judge=judge),
            )
            for judge in dict.fromkeys((self.judge[0], self.judge[-1]))
        ]


SWEEP = JudgeRegions


def fitted(verdicts: Comparisons, design: Design, prior: Prior, free: Array) -> Fit:
    """MAP of the bias-aware model or, with c and kappa not free, of the naive one."""
    return fit_map(verdicts, design, prior, Variant(free[None], free))


def local(verdicts: Comparisons, design: Design, prior: Prior, free: Array) -> Fit:
    return estimators.local(verdicts, design, prior)


def ranges(rows: pd.DataFrame, t: Table) -> None:
    """Add, for each judge, the least and the largest mean over the members of its region, and how
    many of them agree with the paper's number; with its whole table of rules, in a row without a
    rule."""
    same = ["judge", "quantity", "rule", "budget", "n_items", "k"]
    for (judge, quantity, *place), of in rows.groupby(same, sort=False, dropna=False):
        setting: dict[str, Any] = dict(zip(same[2:], place, strict=True)) | {"judge": judge}
        for name, at in (("least", of.estimate.argmin()), ("largest", of.estimate.argmax())):
            row = of.iloc[at]
            ends = (row.ci_low, row.ci_high)
            t.add(f"{quantity}_{name}", row.estimate, ends, int(row.n_pools), beside="", **setting)
        if of.paper.notna().any():
            agree = float((of.consistent != "no").sum())
            t.add(f"{quantity}_members_consistent", agree, **setting)
    of_rules = rows.quantity.isin(["recall", "delta"]) & ~rows.rule.isin([*ESTIMATORS, TABLE])
    for judge, of in rows[of_rules & rows.paper.notna()].groupby("judge", sort=False):
        good = of.groupby("member").consistent.agg(lambda v: (v != "no").all())
        t.add("members_consistent_with_rules", float(good.sum()), judge=judge)
        t.add("members", float(len(good)), judge=judge)


def title(rows: pd.DataFrame, judge: str) -> str:
    """The judge, and how many of its members the paper's table of rules does not contradict."""
    counts = where(rows, quantity=["members_consistent_with_rules", "members"]).estimate
    model = PUBLISHED[judge].model
    if counts.empty:
        return model
    agree, n = counts.astype(int)
    return f"{model}: {agree} of {n} judges have\nthe paper's whole table of rules"


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
