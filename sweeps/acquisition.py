"""Spending a budget of comparisons on the top k, with cached verdicts.

The paper's evaluation of acquisition (curves, the table of rules at B = 120, the allocation at B =
200, the 2 x 2 ablation of model and rule, the ablation of the score), on enough pools to separate
the rules; and a closer look at three of its observations: the naive model's plateau, the waste of
global uncertainty, and recall above that of the full data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from jbt import stats
from jbt.acquisition.rules import DEFAULT_RULES
from jbt.experiments.labelled_arrays import SEEDS, scalars, where
from jbt.experiments.plots import Line, Panel, rule_name
from jbt.experiments.table import Table
from jbt.simulation import judges

from ._shared.active import PAPER, REFERENCE, SMOKE, Active, at_best_budget
from ._shared.calibration import add_means, by_seed
from ._shared.judge import Case

ALLOCATION_BUDGET = 200
ABLATED = (REFERENCE, "round_robin")
NAIVE = (*ABLATED, "random")
WASTE = (REFERENCE, "global_uncertainty", "round_robin", "random")
"""Rules that are also run with the naive model, with an unbiased judge."""
SHOWN = (
    REFERENCE,
    "thompson",
    "lucb",
    "global_uncertainty",
    "round_robin",
    "entropy_reduction_fresh",
)


@dataclass(frozen=True, kw_only=True)
class Acquisition(Active):
    """Which rule for the next pair finds most of the top k with cached verdicts?"""

    name = "acquisition"
    protocol = "frozen"
    presets = {"smoke": SMOKE, "paper": PAPER | {"n_seeds": 8}}

    budget: tuple[int, ...] = (32, 60, 120, 200, 320, 600, 870)
    """Budgets of the table, in verdicts. Curves end at the largest, which is at most N (N - 1) for
    N items."""
    refit_every: int = 8
    """Number of verdicts between refits."""

    @property
    def refits(self) -> tuple[int, ...]:
        return (self.refit_every,)

    def cases(self, rule: str) -> list[Case]:
        case = self.case()
        out = [case]
        if rule in NAIVE:
            out.append(replace(case, model="naive"))
        if rule in WASTE:
            unbiased = replace(judges.UNBIASED, discrimination=case.judge.discrimination)
            out.append(replace(case, name="unbiased", judge=unbiased))
        return out

    def table(self, ds, t):
        super().table(ds, t)
        recall = self.opened(ds["recall"], ds)
        self.synergy(recall, t)
        self.above_full_data(recall, t)

    def synergy(self, recall: xr.Dataset, t: Table) -> None:
        """Add the rule's gain with the bias-aware model minus its gain with the naive one; above 0,
        the two contributions are super-additive. Its rows are the rule's with the bias-aware model.
        """
        if not set(ABLATED) <= set(self.rule):
            return
        values = where(recall.sel(budget=list(self.budget)), judge=self.case().name)

        def gain(model: str) -> xr.Dataset:
            runs = [where(values, model=model, rule=rule) for rule in ABLATED]
            one, other = (run.isel(condition=0) for run in runs)
            return one - other

        synergy = gain("bias_aware") - gain("naive")
        add_means(t, "synergy", synergy, model="bias_aware", rule=REFERENCE)

    def above_full_data(self, recall: xr.Dataset, t: Table) -> None:
        """Add how far recall [condition, acquisition_seed, budget, pool] at the best budget exceeds
        recall at all N (N - 1) verdicts. Each half of the pools takes the best budget of the other
        half, because the largest of a hundred means is too large; the interval is for those two
        budgets. `best_above_full_data` is that largest mean, as in a study that chooses the budget
        on its own pools, with the error of the judges' calibration."""
        if recall["budget"].values[-1] != self.n_items * (self.n_items - 1):
            return
        if self.pools >= 4:
            values = recall["value"].mean(SEEDS)
            full = values.isel(budget=-1)
            best = full.copy(data=at_best_budget(values.values))
            t.means("recall_above_full_data", best - full)
        beyond = (recall - recall.isel(budget=-1)).transpose("condition", "budget", SEEDS, ...)
        for at, source in zip(beyond["value"], beyond["pools"].values, strict=True):

            def studies(size: int, seeds: int | None, source: np.ndarray = source) -> np.ndarray:
                pools = stats.with_seeds(source, seeds)
                means = stats.study_means(pools, seed=t.seed, size=size, same_pools=True)
                return means.max(1)

            best, row = at.values.mean((1, 2)).max(), scalars(at, t.columns)
            t.add("best_above_full_data", best, n_pools=self.pools, studies=studies, **row)

    def panels_of(self, ds, table):
        return [self.curves(ds), self.differences(table), self.allocation(ds)]

    @property
    def drawn(self) -> tuple[str, ...]:
        """Rules whose lines are drawn: those of `SHOWN`, and any that was named."""
        return *SHOWN, *(rule for rule in self.rule if rule not in DEFAULT_RULES)

    def curves(self, ds: xr.Dataset) -> Panel:
        """Mean recall at every budget kept."""
        t = Table(self.columns, self)
        t.means("recall", by_seed(ds["recall"], self.n_seeds))
        naive = Line(
            {"rule": REFERENCE, "model": "naive"},
            "the paper's rule without correction",
            "black",
            {"linestyle": ":"},
        )
        table, judge = t.frame(), {"judge": self.case().name}
        last = where(table, rule=REFERENCE, **judge).groupby("model").estimate.last()
        title = (
            f"In the end {last['bias_aware']:.2f} of the top {self.k} are found\n"
            f"with correction for bias, {last['naive']:.2f} without"
        )
        lines = [*self.lines(self.drawn, model="bias_aware"), naive]
        return Panel("budget", judge, lines, self.labels(title), table=table)

    def differences(self, table: pd.DataFrame) -> Panel:
        """Differences from the reference at B = 120 beside the paper's."""
        budget = self.budget_of_tests
        rows = where(table, quantity="delta", budget=budget, model="bias_aware")
        rows = rows[rows.judge != "unbiased"].sort_values("estimate", ascending=False)
        rules = rows.rule.drop_duplicates().tolist()
        first = rows.drop_duplicates("rule")
        ahead, behind = (first.ci_low > 0).sum(), (first.ci_high < 0).sum()
        x = f"share found minus that of the paper's rule\n(95 % over {self.pools:,} pools)"
        more = f"After {budget} verdicts {ahead} of {len(rules)} rules find more"
        title = f"{more}\nthan the paper's, {behind} find less"
        lines = [Line({}, "_", "blue", joined=False), Line({}, "the paper", "black", marker="x")]
        names = dict(zip(rules, map(rule_name, rules), strict=True))

        def room(ax):  # for the sides
            ax.margins(x=0.1)
            ax.locator_params(axis="x", nbins=5)

        at = {"level": 0.0, "sides": ("more", "less"), "sides_end": "bottom", "after": room}
        labels = x, "", title
        return Panel("rule", {}, lines, labels, names=names, down=True, table=rows, **at)

    def allocation(self, ds: xr.Dataset) -> Panel:
        """Showings of an item by its distance from the boundary, 1 if spent evenly."""
        budget = ALLOCATION_BUDGET if ALLOCATION_BUDGET in self.budget else self.budget[-1]
        near = ds["distance"].values < min(self.k, self.n_items - self.k)
        items = np.where(near, 2, 1)  # one on either side, or one
        share = by_seed(ds["allocation"].sel(table_budget=budget), self.n_seeds)
        share = where(share, judge=self.case().name, model="bias_aware")
        t = Table(("rule", "distance"), self)
        t.means("showings", share * xr.DataArray(self.n_items / items, dims="distance"))
        message = f"Rules that seek the top {self.k} show items"
        labels = (
            f"places of an item from the boundary of the top {self.k}",
            "showings of an item, 1 if all are equal\n(bands: 95 % over pools)",
            f"{message}\nnear its boundary most (first {budget} verdicts)",
        )
        return Panel("distance", {}, self.lines(self.drawn), labels, level=1, table=t.frame())


SWEEP = Acquisition


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
