"""Spending a budget on a judge that draws a fresh verdict at every query and may be asked again.

The paper's robustness check: the greedy rule asks the same pair again and again until the posterior
is refitted. Every rule is run with a refit after every 2 verdicts, as in the paper, and after every
8, beside rules that update between refits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import root_scalar
from scipy.stats import norm

from jbt import twins
from jbt.experiments import plots
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Panel

from ._shared.active import REFERENCE, Active
from ._shared.judge import Case, number

if TYPE_CHECKING:
    import pandas as pd


SHOWN = (
    *(REFERENCE, "thompson", "lucb", "global_uncertainty", "round_robin"),
    *("top_k_aware_fresh", "entropy_reduction_fresh", "top_two"),
)


@dataclass(frozen=True, kw_only=True)
class StochasticJudge(Active):
    """Acquisition rules when every query draws a fresh verdict and pairs may be asked again."""

    name = "stochastic_judge"
    protocol = "stochastic"
    presets = {
        "smoke": {
            "pools": 16,
            "rule": (REFERENCE, "round_robin", "entropy_reduction_fresh"),
            "refit_every": (8,),
            "budget": (16, 40),
            "n_seeds": 2,
        },
        "paper": {"pools": 10, "n_seeds": 6, "n_samples": 1500, "membership": "counted"},
    }
    panel_size = {"width": 6.0, "height": 5.0}

    uncertain: float | None = None
    """Expected share of ordered pairs with 0.2 < p < 0.8, which determines the discrimination where
    no judge is named; default the paper's 0.43. It also set the unit of the twins that answer with
    the likelier verdict."""
    discrimination: float | None = None
    """Factor on quality in the judge's logits (pure number), which overrides `uncertain`; default
    from `uncertain`, or the twin's."""
    refit_every: tuple[int, ...] = (2, 8)
    """R, verdicts between refits (count)."""

    @property
    def refits(self) -> tuple[int, ...]:
        return self.refit_every

    def defaults(self) -> dict[str, Any]:
        own = {"uncertain": twins.UNCERTAIN, "discrimination": None}
        return super().defaults() | (own if self.judge is None else {})

    def check(self):
        if self.judge is not None and self.uncertain is not None:
            problem = f"--judge {self.judge}, whose share of uncertain pairs is its twin's"
            raise ValueError(f"uncertain is not for {problem}")
        super().check()
        _ = self.own_discrimination

    def uncertain_share(self, discrimination: float) -> float:
        """Expected share of ordered pairs of a pool with 0.2 < p < 0.8: a pair's logit is Gaussian
        about kappa* + c* (x_i - x_j), an item's quality counting discrimination + gamma* x."""
        n, ones = self.n_items, self.n_items // 2
        mixed = ones * (n - ones) / (n * (n - 1))
        both = ones * (ones - 1) / (n * (n - 1))
        numbers = ("sd", "bias", "position", "interaction", "pair_noise")
        sd, bias, position, interaction, noise = (number(self, name) for name in numbers)
        low, high = (np.log(p / (1 - p)) for p in twins.DOUBT)
        slopes = discrimination, discrimination + interaction
        kinds = ((0, 0, 1 - 2 * mixed - both), (1, 1, both), (1, 0, mixed), (0, 1, mixed))
        total = 0.0
        for first, second, weight in kinds:
            mean = position + bias * (first - second)
            spread = math.hypot(sd * slopes[first], sd * slopes[second], noise)
            total += weight * (norm.cdf((high - mean) / spread) - norm.cdf((low - mean) / spread))
        return float(total)

    @cached_property
    def own_discrimination(self) -> float:
        """Discrimination of the settings, or the one that gives the expected share `uncertain`.

        Raises:
          ValueError: no discrimination gives this share.
        """
        if self.discrimination is not None:
            return self.discrimination
        uncertain, grid = number(self, "uncertain"), np.geomspace(1e-3, 1e3, 601)
        share = np.array([self.uncertain_share(d) for d in grid])
        falls = np.flatnonzero((share[:-1] >= uncertain) & (share[1:] < uncertain))
        if not falls.size:
            raise ValueError(
                f"uncertain must lie between {share.min():.2g} and {share.max():.2g} for this "
                f"bias, position and sd, got {uncertain}"
            )
        bracket = (grid[falls[-1]], grid[falls[-1] + 1])
        root = root_scalar(lambda d: self.uncertain_share(d) - uncertain, bracket=bracket)
        return float(root.root)

    def cases(self, rule: str) -> list[Case]:
        return [self.case(self.own_discrimination)]

    def table(self, ds, t):
        uncertain = ds["uncertain"].isel(condition=0)
        of_judge = [name for name in ("model", "rule", "refit_every") if name in uncertain.coords]
        t.means("uncertain_pairs", uncertain.drop_vars(of_judge))
        super().table(ds, t)

    def panels(self, table):
        return [self.curves(table, refit_every) for refit_every in self.refit_every]

    def curves(self, table: pd.DataFrame, refit_every: int) -> Panel:
        """Mean recall against the budget, with the paper's."""
        shown = {"quantity": "recall", "refit_every": refit_every}
        paper = where(table, **shown).dropna(subset="paper")

        def papers(ax):
            if len(paper):
                label = f"paper, {REFERENCE} (its own judge)"
                ax.plot(paper.budget, paper.paper, "x", color="black", label=label)

        every = f"Fresh verdicts, refit after every {refit_every}, {self.pools:,} pools (95 %)"
        labels = ("budget, verdicts", f"recall of the top {self.k}", every)
        lines = self.lines(SHOWN)
        return Panel("budget", shown, lines, labels, legend=0, after=papers)

    def figure(self, ds, table):
        fig = super().figure(ds, table)
        for ax in fig.axes[1:]:
            ax.sharey(fig.axes[0])
        fig.axes[0].autoscale(axis="y")
        for ax in fig.axes:
            plots.label_ends(ax)
        return fig


SWEEP = StochasticJudge

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
