"""Spending a budget on a judge that draws a fresh verdict at every query and may be asked again.

The paper's robustness check: the greedy rule asks the same pair again and again until the posterior
is refitted. Every rule is run with a refit after every 2 verdicts, as in the paper, and after every
8, beside rules that update between refits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jbt.experiments.plots import Panel

from ._shared.active import PAPER, SMOKE, Active

DISCRIMINATION = 1.2140772217302545
"""Of a judge of our own: as many pairs are uncertain (0.2 < p < 0.8) as of the paper's judge, an
expected share of 0.43, with all other options at their defaults."""


@dataclass(frozen=True, kw_only=True)
class StochasticJudge(Active):
    """Acquisition rules when every query draws a fresh verdict and pairs may be asked again."""

    name = "stochastic_judge"
    protocol = "stochastic"
    presets = {"smoke": SMOKE | {"refit_every": (8,)}, "paper": PAPER | {"n_seeds": 6}}

    refit_every: tuple[int, ...] = (2, 8)
    """R, verdicts between refits (count)."""

    @property
    def refits(self) -> tuple[int, ...]:
        return self.refit_every

    def defaults(self) -> dict[str, Any]:
        own = {"discrimination": DISCRIMINATION} if self.judge is None else {}
        return super().defaults() | own

    def table(self, ds, t):
        of_run = ["model", "rule", "refit_every"]
        uncertain = ds["uncertain"].isel(condition=0).drop_vars(of_run)
        t.means("uncertain_pairs", uncertain)
        super().table(ds, t)

    def panels(self, table):
        return [
            Panel(
                "budget",
                {"quantity": "recall", "refit_every": refit_every},
                self.lines(),
                self.labels(f"Fitted again after every {refit_every} verdicts"),
            )
            for refit_every in self.refit_every
        ]


SWEEP = StochasticJudge

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
