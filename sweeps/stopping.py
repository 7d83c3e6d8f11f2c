"""Stopping when the top k is sure enough: how often is it right, and what is saved?

A run of the active loop looks at its posterior after every refit and stops at the first look at
which P(the estimated top k is the true one) is at least a level. A posterior probability may be
looked at as often as one likes: if model and prior are right, the sets called sure at .95 are right
in at least 95 % of the runs that stop, whatever the rule. What is missing there is due to the
Laplace approximation; elsewhere to the assumption that fails. Another reason to stop is measured
too: the rest of the budget could hardly change the memberships.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array, Bool, Float, Int, Key

from jbt import twins
from jbt.acquisition import Loop, Task, init, step
from jbt.acquisition.loop import State, look
from jbt.acquisition.stopping import attainable, certainty, top_set
from jbt.acquisition.task import PROTOCOLS
from jbt.acquisition.views import View
from jbt.experiments.declare import Group, Sweep, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, Line
from jbt.experiments.table import Table
from jbt.simulation import pools
from jbt.simulation.simulate import stream
from jbt.types import container

from ._shared import truths
from ._shared.active import check_runs, task_of
from ._shared.reliability import BINS, add_bins, binned, of_bins
from ._shared.scenario import MapPrior

LEVELS = (0.8, 0.9, 0.95, 0.99)
"""Certainties at which runs stop."""
GAIN = 0.05
"""Share of the entropy of the memberships: a run stops where the rest of the budget is expected to
remove less."""
FEWEST = 20
"""Fewest pools with looks in a bin for the bin to have a row (count)."""
OF_BINS = ("looks", "sum_certainty", "sum_right")
DRAWN = {
    "prior": "as assumed",
    "unbiased": "no bias, as assumed",
    "rho_0.8": "quality goes with length (0.8)",
    "pair_noise": "the same error at every query",
    "naive": "bias left out",
}
"""Scenarios in the figure and their names there."""


@container
class Looks:
    """What a run sees when it looks, and what is true."""

    asked: Int[Array, " T"]
    """Verdicts so far."""
    certainty: Float[Array, " T"]
    """P(the estimated top k is the true one)."""
    attainable: Float[Array, " T"]
    """Share of the entropy that the rest of the budget can remove."""
    right: Bool[Array, " T"]
    """Whether the estimated top k is the true one."""
    recall: Float[Array, " T"]
    """Share of the true top k in the estimated one."""
    status: Int[Array, " T"]


def looks(key: Key[Array, ""], task: Task, loop: Loop, budget: int | Array, blocks: int) -> Looks:
    """Run `blocks` blocks and look after each.

    Args:
      key: of the run.
      budget: verdicts that the run may take, for `attainable`.
    """

    def seen(state: State) -> Looks:
        view = look(state, task, loop)
        assert isinstance(view, View)  # there is one judge
        top, true = top_set(view), view.is_top(task.quality)
        return Looks(
            state.asked,
            certainty(view),
            attainable(view, jnp.asarray(budget - state.asked, task.design.dtype)),
            (top == true).all(),
            (top & true).sum() / loop.k,
            state.status,
        )

    def block(state: State, _: None):
        return step(state, task, loop)[0], seen(state)

    state, before = jax.lax.scan(block, init(key, task, loop), length=blocks)
    # The first look is before any verdict.
    return jax.tree.map(lambda many, last: jnp.append(many[1:], last), before, seen(state))


def at_first(reached: Bool[Array, " T"], run: Looks) -> dict[str, Array]:
    """The run, ended at the first of these looks, or at the last look if there is none.

    Returns:
      whether it stopped; verdicts; certainty and whether the top k is right there, NaN if it did
      not stop; recall.
    """
    stopped, at = reached.any(), jnp.where(reached.any(), reached.argmax(), -1)
    return {
        "stopped": stopped * 1.0,
        "verdicts": run.asked[at].astype(run.recall.dtype),
        "certainty": jnp.where(stopped, run.certainty[at], jnp.nan),
        "right": jnp.where(stopped, run.right[at], jnp.nan),
        "recall": run.recall[at],
    }


def reliability(run: Looks) -> dict[str, Array]:
    """By bin of certainty: looks, their certainties summed, and looks with the top k right. Looks
    without a new verdict, when all have been asked, are left out."""
    new = jnp.diff(run.asked, prepend=0) > 0
    return dict(zip(OF_BINS, binned(run.certainty, run.right, new), strict=True))


@dataclass(frozen=True, kw_only=True)
class Stopping(MapPrior, Sweep):
    """Stopping when the top k is sure enough: how often it is right, and what is saved."""

    name = "stopping"
    columns = ("protocol", "scenario", "rule", "stop", "level", "bin")
    presets = {
        "smoke": {
            "pools": 16,
            "scenario": ("prior", "naive"),
            "n_items": 6,
            "budget": 40,
            "refit_every": 8,
        },
        "paper": {"pools": 10, "n_items": 30, "k": 5, "rule": "top_k_aware", "budget": 320},
    }
    units = {
        "scenario": "name",
        "level": "1 (probability)",
        "bin": "1 (lower end of a bin of certainty)",
        "looks": "count",
        "sum_certainty": "1 (sum of certainties)",
        "sum_right": "count",
    }
    panel_size = {"width": 4.6, "height": 4.2}

    pools: int = 1000
    scenario: Annotated[tuple[str, ...], partial(check_listed, known=[*truths.TRUTHS])] = (
        *truths.TRUTHS,
    )
    """Pools, judges and models. prior: quality, c* and kappa* drawn from the prior of the fit.
    unbiased: no bias, and a fit that knows. one_order: prior, each pair askable in one order only.
    Then one assumption fails: sd_0.4, sd_2.5: spread of quality; rho_0.4, rho_0.8: correlation of
    quality and covariate; growing: a bias that grows by 0.5 a logit of quality; pair_noise: errors
    about pairs, as large as the noise of a draw, which the likelier verdict is taken of where
    verdicts are cached; naive: c* = 1, fitted without c and kappa."""
    n_items: int = 10
    """Items of a pool (count). The paper's pools have 30."""
    k: int = 1
    """Size of the top set (count). In the paper 5."""
    rule: str = "entropy_reduction_fresh"
    """Acquisition rule."""
    refit_every: int = 4
    """R, verdicts between refits and thus between looks (count)."""
    budget: int = 400
    """Most verdicts of a run, rounded up to a multiple of R; with cached verdicts, at most every
    ordered pair."""

    def check(self):
        super().check()
        for protocol in PROTOCOLS:
            check_runs(self.n_items, [self.loop(protocol)], [self.budget_of(protocol)])

    def loop(self, protocol: str) -> Loop:
        """The loop with cached verdicts, one for each ordered pair (frozen), or with a new draw at
        every query (stochastic)."""
        return Loop(self.rule, self.k, self.refit_every, protocol)

    def budget_of(self, protocol: str) -> int:
        """Most verdicts of a run."""
        every_pair = self.n_items * (self.n_items - 1)
        return min(self.budget, every_pair) if protocol == "frozen" else self.budget

    def experiment(self, loop, key, condition):
        """A run on one pool, as it stops at each level."""
        frozen = loop.protocol == "frozen"
        condition = truths.drawn_judge(key, condition)
        of_condition = {"sd": condition["sd"], "rho": condition["rho"]}
        pool = pools.gaussian(stream(key, "pool"), self.n_items, **of_condition)
        answers = (twins.answers if frozen else twins.probability)(key, pool, condition)
        allowed = truths.may_be_asked(key, condition, pool.design.n_items)
        answers = jnp.where(allowed, answers, jnp.nan)
        task = task_of(pool, answers, condition, self.prior)
        budget = most = self.budget_of(loop.protocol)
        if frozen:
            n_pairs = (jnp.isfinite(answers) & ~jnp.eye(len(answers), dtype=bool)).sum()
            budget = jnp.minimum(most, n_pairs)
        blocks = -(-most // loop.refit_every)
        run = looks(stream(key, "acquisition"), task, loop, budget, blocks)
        idle = (run.attainable < GAIN) & (run.asked < run.asked[-1])
        levels = jnp.array(LEVELS)
        stops = {
            "level": jax.vmap(lambda level: at_first(run.certainty >= level, run))(levels),
            "gain": at_first(idle, run),
        }
        out = {f"at_{at}_{name}": v for at, stop in stops.items() for name, v in stop.items()}
        out |= {"at_end_verdicts": run.asked[-1], "at_end_recall": run.recall[-1]}
        return out | reliability(run) | {"status": run.status.max()}

    def groups(self):
        """All scenarios with cached verdicts, and with fresh ones."""
        at_levels = ("stopped", "verdicts", "certainty", "right", "recall")
        axes = {f"at_level_{name}": {"level": LEVELS} for name in at_levels}
        simulated = [truths.TRUTHS[name] for name in self.scenario]
        return [
            Group(
                protocol,
                partial(self.experiment, self.loop(protocol)),
                truths.conditions(simulated, self.prior),
                {
                    "protocol": [protocol] * len(simulated),
                    "rule": [self.rule] * len(simulated),
                    "scenario": self.scenario,
                },
                self.n_items,
                self.pools,
                axes=axes | {name: {"bin": BINS} for name in OF_BINS},
                fits=2 * self.budget_of(protocol) // self.refit_every,
            )
            for protocol in PROTOCOLS
        ]

    def table(self, ds, t):
        self.add_stops(ds, "level", t, stop="certainty")
        self.add_stops(ds, "gain", t, stop="gain", level=GAIN)
        names = ("certainty", "right", "overconfidence")
        add_bins(t, ds[list(OF_BINS)], names, fewest=FEWEST, stop="none")

    def add_stops(self, ds: xr.Dataset, at: str, t: Table, **columns: Any) -> None:
        """Add the rows of runs that stop: share of runs, certainty and share right where they stop,
        and what is saved and lost by stopping."""
        t.shares("stopped", ds[f"at_{at}_stopped"], **columns)
        t.shares("right", ds[f"at_{at}_right"], **columns)
        t.means("certainty", ds[f"at_{at}_certainty"], **columns)
        # Runs that do not stop spend everything.
        t.means("saved", 1 - ds[f"at_{at}_verdicts"] / ds["at_end_verdicts"], **columns)
        t.means("recall_lost", ds["at_end_recall"] - ds[f"at_{at}_recall"], **columns)

    def headline(self, table):
        """Runs that stop at a certainty of 0.95."""
        return where(table, stop="certainty", level=0.95)

    def panels(self, table):
        """Share right against certainty, over all looks at fresh verdicts."""
        lines = [
            Line({"scenario": scenario}, label, colour)
            for (scenario, label), colour in zip(DRAWN.items(), CYCLE, strict=False)
        ]
        labels = (
            "certainty of the model",
            f"share with the top {self.k} right (bars: 95 %)",
            "Certainty is right where assumptions hold\nand too high elsewhere",
        )
        fresh = where(table, protocol="stochastic", stop="none")
        return [of_bins(fresh, ("certainty", "right"), lines, labels)]


SWEEP = Stopping

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
