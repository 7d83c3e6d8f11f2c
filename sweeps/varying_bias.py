"""A judge whose bias grows with quality: who still finds the top k, and where correction stops
helping. Beyond the paper, whose judges have one bias each.

Bias and its growth gamma are in units of the quality that the judge sees: at gamma = 0.5 the bias
of an item grows by half of what its quality grows. Two kinds of pool: the paper's, of statements,
with a judge that gives its likelier verdict, and Gaussian ones, at several correlations of quality
and covariate, with one that draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, twins
from jbt.acquisition import Loop, Task, reports, run
from jbt.experiments.declare import Group, Sweep, cases, check_increasing, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Line, Panel
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, stream
from jbt.types import Comparisons, Pool, Status

from ._shared.active import variant_of
from ._shared.scenario import MapPrior

N_ITEMS, K, REFIT_EVERY = 30, 5, 8
ALL = N_ITEMS * (N_ITEMS - 1)
"""Every verdict."""
KINDS = {"statement_bank": (0.0,), "gaussian": (0.0, 0.2, 0.4, 0.6, 0.75)}
"""Kind of pool -> its correlations of quality and covariate."""
JUDGES = {
    "statement_bank": {"bias": 5.0, "position": 0.9, "pair_noise": 2.5, "argmax": 1.0},
    "gaussian": {"bias": 1.0, "position": 0.0, "pair_noise": 0.0, "argmax": 0.0},
}
"""Kind of pool -> its judge: c* for x = 1 over x = 0, kappa* in favour of the first shown, standard
deviation of its preference for a pair, all in units of quality; and whether it gives its likelier
verdict, or draws it. The judge of the bank has the bias, position and pair noise, in statements,
near which the region of the paper's first judge lies (`jbt.twins.regions`); that of Gaussian pools,
in logits, is the judge of `sweeps.crossing`."""


RULE = "entropy_reduction_fresh"
"""Of the runs that choose pairs."""


class Cell(NamedTuple):
    """A condition of one method."""

    interaction: float
    rho: float
    model: str
    pool_kind: str
    judge: str
    rule: str
    """How verdicts are chosen; all: none is left out."""
    design: str


METHODS = {
    ("naive", "all", "unpaired"): ("black", "naive"),
    ("bias_aware", "all", "unpaired"): ("blue", "one bias for all answers"),
    ("local", "all", "unpaired"): ("vermilion", "one bias, verdicts near the top alone"),
    ("interaction", "all", "unpaired"): ("orange", "bias and its growth"),
    ("bias_aware", "all", "paired"): ("green", "answers in two lengths, one bias"),
    ("bias_aware", RULE, "paired"): ("sky", "two lengths, chosen pairs"),
}
"""Model, rule and design of a method -> colour and label in the figure."""
METHOD = ("model", "rule", "design")
COUNTING = {"model": "naive", "rule": "all", "design": "unpaired"}
"""Labels of the method that counts wins in every verdict, with which the others are compared."""
TITLES = {
    "statement_bank": "One bias for all answers fails where it grows,\n"
    "answers in two lengths do not (the paper's pools)",
    "gaussian": "The same on Gaussian pools,\nless strongly",
}
"""Kind of pool -> title of its panel."""


# --- pools and verdicts


def gaussian(key: Key[Array, ""], condition: Condition) -> Pool:
    """A pool whose quality and covariate are correlated as the condition says."""
    return pools.gaussian(key, N_ITEMS, sd=1.2, rho=condition["rho"], covariate="binary")


DRAWN = {"statement_bank": twins.paper_pool(), "gaussian": gaussian}
"""Kind -> draws a pool of 30 items, half of them with x = 1."""


def verdicts_of(key: Key[Array, ""], pool: Pool, condition: Condition) -> Comparisons:
    """Every verdict; of contents in both forms as many of them, at random."""
    shown = pairs.every_pair(pool)
    if pool.design.content is not None:
        shown = jnp.minimum(pairs.spread_evenly(stream(key, "shown"), shown, ALL), 1)
    return judges.reveal(twins.answers(key, pool, condition), shown)


FITS = {"local": estimators.local, "interaction": estimators.interaction}
"""Models with a fit of their own: `local`, bias-aware and refitted to the verdicts at the boundary,
and the MAP with an interaction. The others differ in a mask, which is traced."""


@dataclass(frozen=True, kw_only=True)
class VaryingBias(MapPrior, Sweep):
    """What changes for rankings and coefficients if bias grows with quality?"""

    name = "varying_bias"
    columns = ("pool", "judge", "interaction", "rho", "model", "rule", "budget", "design")
    presets = {
        "smoke": {
            "pools": 8,
            "pool": ("statement_bank",),
            "interaction": (0.0, 0.5),
            "budget": 16,
        },
        "paper": {"pools": 10},
    }
    units = {"interaction": "pure number"}
    panel_size = {"width": 4.6, "height": 4.2, "below": {"ncols": 1, "fontsize": 9}}

    pools: int = 400
    """Number of pools simulated at every condition, at most 2^32."""
    pool: Annotated[tuple[str, ...], partial(check_listed, known=list(KINDS))] = tuple(KINDS)
    """Kinds of pool."""
    interaction: Annotated[tuple[float, ...], check_increasing] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Growth gamma* of the bias with quality (logits of bias per logit of quality), increasing."""
    budget: int = 200
    """Budget of the runs that choose pairs, in verdicts."""

    def check(self):
        super().check()
        if self.interaction[0] <= -1:
            raise ValueError(
                f"interaction must be above -1, got {self.interaction[0]:g}: at x = 1 the judge "
                "would prefer the worse"
            )
        if not REFIT_EVERY <= self.budget < ALL:
            raise ValueError(f"budget must lie in {REFIT_EVERY}..{ALL - 1}, got {self.budget}")

    def groups(self):
        kinds = [(kind, rho) for kind in self.pool for rho in KINDS[kind]]
        groups = []
        for model, rule, design in METHODS:
            # One program for all kinds of pool.
            program = partial(self.experiment, design, FITS.get(model), rule)
            for kind, rho in kinds:
                labels = (rho, model, kind, "default", rule, design)
                cells = [Cell(gamma, *labels) for gamma in self.interaction]
                conditions = cases(cells, aware=lambda cell: float(cell.model != "naive"))
                judge = {"discrimination": 1.0, **JUDGES[kind]}
                conditions["conditions"] |= {n: np.full(len(cells), v) for n, v in judge.items()}
                conditions["conditions"]["kind"] = np.int32(list(DRAWN).index(kind))
                groups.append(
                    Group(
                        f"{kind}-{rho:g}-{design}-{model}-{rule}",
                        program,
                        **conditions,
                        n_items=N_ITEMS * (1 + (design == "paired")),
                        pools=self.pools,
                        fits=6 if rule == "all" else len(reports([self.budget], REFIT_EVERY)),
                    )
                )
        return groups

    def experiment(self, design, fit, rule, key, condition):
        """One pool and method, which only the condition's numbers tell from others of its group."""
        of_pool = stream(key, "pool"), condition
        pool = jax.lax.switch(condition["kind"], list(DRAWN.values()), *of_pool)
        pool = pools.in_both_forms(pool) if design == "paired" else pool
        if rule == "all":
            verdicts = verdicts_of(key, pool, condition)
            fit = fit or partial(fit_map, variant=variant_of(condition))
            found = fit(verdicts, pool.design, self.prior)
            recall = metrics.top_k_recall(found.parameters.theta, pool.quality, K)
            status = found.status
        else:
            task = Task.build(pool, twins.answers(key, pool, condition), prior=self.prior)
            loop = Loop(rule, K, REFIT_EVERY, "frozen")
            trace = run(stream(key, "acquisition"), task, loop, [self.budget])
            recall, status = trace.recall[-1], trace.status.max()
        # What the verdicts do not identify is no failure of the fit.
        status = jnp.where(status == Status.FLAT, Status.CONVERGED, status)
        return {"recall": recall, "status": status}

    def table(self, ds, t):
        """Recall of each method, and the correlation at which its gain over counting wins in every
        verdict ends."""
        for kind in self.pool:
            of_kind = where(ds, pool_kind=kind)["recall"]
            counting = where(of_kind, **COUNTING).drop_vars(METHOD)
            for method in METHODS:
                labels = dict(zip(METHOD, method, strict=True))
                recall = where(of_kind, **labels)
                t.means("recall", recall, pool=kind, budget=self.budget_of(labels["rule"]))
                if labels == COUNTING or len(KINDS[kind]) < 2:
                    continue
                benefit = recall - counting
                for gamma in self.interaction:
                    line = where(benefit, interaction=gamma).swap_dims(condition="rho")
                    at = {"interaction": gamma, "judge": "default", "pool": kind, **labels}
                    t.crossing(line, budget=self.budget_of(labels["rule"]), **at)

    def budget_of(self, rule: str) -> int:
        """Verdicts of a method."""
        return ALL if rule == "all" else self.budget

    def headline(self, table):
        """Rows to print: recall on uncorrelated pools, and crossings."""
        shown = where(table, quantity=["recall", "crossing"])
        return shown[shown.rho.isna() | (shown.rho == 0)]

    def panels(self, table):
        lines = [
            Line(dict(zip(METHOD, method, strict=True)), label, colour)
            for method, (colour, label) in METHODS.items()
        ]
        return [
            Panel(
                "interaction",
                {"quantity": "recall", "rho": 0, "pool": kind, "budget": [self.budget, ALL]},
                lines,
                (
                    r"growth of the bias with quality, $\gamma$",
                    f"recall of the top {K} (bands: 95 %)",
                    TITLES[kind],
                ),
            )
            for kind in self.pool
        ]


SWEEP = VaryingBias

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
