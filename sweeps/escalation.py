"""A purse for two judges, one cheap and biased, one dear and trusted: which judge to ask about
which pair. Recall of the top k against spending. Beyond the paper, whose cost figure compares
judges one at a time.

    cheap_naive, cheap_only   the cheap judge alone by Eq. acq, naive or bias-aware
    strong_only               the reference alone by Eq. acq
    every other strategy      a rule of `jbt.acquisition` with both judges in one model, the
                              reference's biases known to be zero

A verdict of the cheap judge costs 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax.numpy as jnp
import numpy as np

from jbt.acquisition import Loop, reports, run
from jbt.experiments.declare import Group, Sweep, cases, check_increasing
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Line, Panel
from jbt.simulation import judges
from jbt.simulation.simulate import stream
from jbt.types import Judge, check_positive

from ._shared.active import at_purses, shared, task_of_two
from ._shared.scenario import Correlated, VaryingBias

ALONE = ("cheap_naive", "cheap_only", "strong_only")
"""Strategies that ask one judge, by Eq. acq."""
CHEAP = ("cheap_naive", "cheap_only")
BOTH = ("escalation", "disputed", "reference_random", "entropy_reduction_fresh")
"""Strategies with both judges: rules of `jbt.acquisition`."""
REFIT_EVERY = 8
"""Verdicts between refits (count)."""
BIAS, POSITION = 1.5, 0.35
"""True biases c* and kappa* of the cheap judge (logits)."""
DISCRIMINATION = 2.0
"""Factor on quality in the logits of the reference, known to the models (pure number)."""
LINES = {
    "cheap_naive": ("black", ":", "cheap judge alone, not corrected"),
    "cheap_only": ("black", "--", "cheap judge alone, corrected"),
    "strong_only": ("orange", "--", "expensive judge alone"),
    "reference_random": ("sky", "-", "both, the expensive one on random pairs"),
    "escalation": ("green", "-", "both, the expensive one near the top-k boundary"),
    "disputed": ("purple", "-", "both, the expensive one on disputed pairs"),
    "entropy_reduction_fresh": ("vermilion", "-", "both, by expected gain per price"),
}
"""Strategies in the figure, with colour, line and label."""


class Cell(NamedTuple):
    """A strategy under one condition."""

    strategy: str
    rho: float
    price: float
    """Of a verdict of the reference; NaN where it cannot be asked."""


@dataclass(frozen=True, kw_only=True)
class Escalation(Correlated, VaryingBias, Sweep):
    """A purse spent on a cheap judge and a trusted, dearer one: whom to ask about which pair."""

    name = "escalation"
    columns = ("rho", "price", "strategy", "purse")
    presets = {
        "smoke": {
            "pools": 8,
            "n_items": 10,
            "k": 2,
            "rho": (0.0, 0.5),
            "price": (10.0,),
            "purse": (40.0, 80.0),
        },
        "paper": {"pools": 10},  # as its runs of the active loop
    }
    units = dict.fromkeys(("price", "purse"), "verdicts of the cheap judge")
    panel_size = {"width": 4.6, "height": 4.2, "below": {"ncols": 2, "fontsize": 9}}

    pools: int = 300
    """Pools simulated at every condition (count, at most 2^32)."""
    rho: tuple[float, ...] = (0.3, 0.5, 0.7)
    price: Annotated[tuple[float, ...], check_positive, check_increasing] = (10.0, 20.0, 100.0)
    """Prices of a verdict of the reference, in verdicts of the cheap judge; increasing."""
    purse: Annotated[tuple[float, ...], check_positive, check_increasing] = (
        60.0,
        120.0,
        240.0,
        480.0,
        870.0,
    )
    """Spending, in verdicts of the cheap judge; increasing. All ordered pairs of 30 items, each
    asked once of the cheap judge, cost 870."""

    def check(self):
        super().check()
        self.check_grid()

    @property
    def most_verdicts(self) -> int:
        """Verdicts that the largest purse buys if all of it goes to the cheap judge."""
        return min(int(max(self.purse)), self.n_items * (self.n_items - 1))

    def experiment(self, loop, key, condition):
        """One pool: spend the largest purse by a rule, and report what each purse had bought."""
        pool = self.draw(key, condition, self.covariate)
        cheap = Judge(jnp.full(1, BIAS), POSITION, interaction=self.interaction)
        trusted = Judge(jnp.zeros(1), 0.0, DISCRIMINATION)
        answers = [
            judges.frozen_draw(stream(key, name), pool, judge)
            for name, judge in (("verdicts", cheap), ("reference verdicts", trusted))
        ]
        prices = jnp.stack([condition["price_cheap"], condition["price_reference"]])
        task = task_of_two(
            pool,
            jnp.stack(answers, -1),
            condition,
            self.prior,
            DISCRIMINATION,
            prices,
            max(self.purse),
        )
        queries = run(stream(key, "acquisition"), task, loop, self.most_verdicts).queries
        return at_purses(queries, task, self.purse, self.k)

    def groups(self):
        """The correlations of a strategy and price."""
        rules = dict.fromkeys(ALONE, "top_k_aware") | {name: name for name in BOTH}
        loops = {r: Loop(r, self.k, REFIT_EVERY, "frozen") for r in rules.values()}
        programs = shared(self.experiment, list(loops.values()), n_judges=2)
        by_purse, groups = {"purse": self.purse}, []
        for strategy, rule in rules.items():
            for price in (np.nan,) if strategy in CHEAP else self.price:
                experiment, number = programs[rule]
                conditions = cases(
                    [Cell(strategy, rho, price) for rho in self.rho],
                    price_cheap=lambda cell: np.inf if cell.strategy == "strong_only" else 1.0,
                    price_reference=lambda cell: np.inf if cell.strategy in CHEAP else cell.price,
                    aware=lambda cell: float(cell.strategy != "cheap_naive"),
                )
                conditions["conditions"]["rule"] = number
                groups.append(
                    Group(
                        strategy if np.isnan(price) else f"{strategy}-{price}",
                        experiment,
                        **conditions,
                        n_items=self.n_items,
                        pools=self.pools,
                        axes=dict.fromkeys(("recall", "reference_asked", "status"), by_purse),
                        fits=2 * len(reports(self.most_verdicts, REFIT_EVERY)),
                    )
                )
        return groups

    def table(self, ds, t):
        t.means("recall", ds["recall"])

    def headline(self, table):
        """Recall with the largest purse."""
        return where(table, purse=self.purse[-1])

    def panels(self, table):
        """Recall against the budget at the middle price, for the least and the largest rho."""
        lines = [
            Line({"strategy": name}, label, colour, {"ls": ls, "shade": 0.12})
            for name, (colour, ls, label) in LINES.items()
        ]
        price = self.price[len(self.price) // 2]
        at_price = table[table.price.isin([np.nan, price])]

        def panel(rho: float, title: str) -> Panel:
            return Panel(
                "purse",
                {"quantity": "recall", "rho": rho},
                lines,
                (
                    "budget, in verdicts of the cheap judge",
                    f"share of the true top {self.k} found\n(bands: 95 % over pools)",
                    f"{title}\n(correlation of quality and length {rho:g})",
                ),
                log="x",
                table=at_price,
            )

        return [
            panel(
                self.rho[0],
                "Asked by expected gain, both judges\nfind most, or nearly, at every budget",
            ),
            panel(self.rho[-1], "Both are best only\nwith a large budget"),
        ]


SWEEP = Escalation

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
