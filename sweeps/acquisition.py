"""Spending a budget of comparisons on the top k, with cached verdicts.

The paper's evaluation of acquisition (curves, the table of rules at B = 120, the showings near the
boundary, the 2 x 2 ablation of model and rule, the ablation of the score), on enough pools to
separate the rules; and a closer look at two of its observations: the naive model's plateau, and
recall above that of the full data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from jbt import stats
from jbt.experiments.labelled_arrays import SEEDS, scalars, where
from jbt.experiments.plots import Line, Panel
from jbt.experiments.table import Table

from ._shared.active import PAPER, REFERENCE, SMOKE, Active
from ._shared.calibration import add_means
from ._shared.judge import Case

ABLATED = (REFERENCE, "round_robin")
"""Rules that are also run with the naive model."""


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
        return [case, replace(case, model="naive")] if rule in ABLATED else [case]

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
        values = recall.sel(budget=list(self.budget))

        def gain(model: str) -> xr.Dataset:
            runs = [where(values, model=model, rule=rule) for rule in ABLATED]
            one, other = (run.isel(condition=0) for run in runs)
            return one - other

        synergy = gain("bias_aware") - gain("naive")
        add_means(t, "synergy", synergy, model="bias_aware", rule=REFERENCE)

    def above_full_data(self, recall: xr.Dataset, t: Table) -> None:
        """Add how far recall [condition, acquisition_seed, budget, pool] at the best budget exceeds
        recall at all N (N - 1) verdicts, in a study that chooses the budget on its own pools, with
        the error of the judges' calibration."""
        if recall["budget"].values[-1] != self.n_items * (self.n_items - 1):
            return
        beyond = (recall - recall.isel(budget=-1)).transpose("condition", "budget", SEEDS, ...)
        for at, source in zip(beyond["value"], beyond["pools"].values, strict=True):

            def studies(size: int, seeds: int | None, source: np.ndarray = source) -> np.ndarray:
                pools = stats.with_seeds(source, seeds)
                means = stats.study_means(pools, seed=t.seed, size=size, same_pools=True)
                return means.max(1)

            best, row = at.values.mean((1, 2)).max(), scalars(at, t.columns)
            t.add("best_above_full_data", best, n_pools=self.pools, studies=studies, **row)

    def panels(self, table):
        naive = Line(
            {"rule": REFERENCE, "model": "naive"},
            f"{REFERENCE}, without correction",
            "black",
            {"linestyle": ":"},
        )
        title = f"With correction for bias\nmore of the top {self.k} are found"
        others = [rule for rule in self.rule if rule != REFERENCE]
        at = {"quantity": "delta", "budget": self.budget_of_tests, "model": "bias_aware"}
        x = f"share found minus that of {REFERENCE}\n(95 % over {self.pools:,} pools)"
        labels = x, "", f"Rules after {self.budget_of_tests} verdicts"
        return [
            Panel(
                "budget",
                {"quantity": "recall"},
                [*self.lines(model="bias_aware"), naive],
                self.labels(title),
            ),
            Panel("rule", at, [Line({}, "_", "blue")], labels, names=others, level=0.0),
        ]


SWEEP = Acquisition


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
