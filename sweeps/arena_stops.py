"""Two stops on the scenarios of the arena: how often is the top k wrong, and what does each cost?

`posterior` stops at the first look at which P(the estimated top k is right) is at least .95, on
runs of the rule that `jbt ask` uses (`entropy_reduction_fresh`). `anytime` stops when tests of
single pairs show it (`jbt.acquisition.anytime`), on runs of a naive model that ask for these tests
(`pivot`). Items within the zone of each other are equally right. Right is meant twice: of quality,
and of what the judge prefers, its bias included. The second is all that `anytime` promises, and
only where preferences are differences of one number an item: not in "not transitive".
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp

from jbt.acquisition import anytime, init, step
from jbt.acquisition.loop import look
from jbt.acquisition.rules import ZONE, pivot_of
from jbt.acquisition.stopping import certainty, top_set
from jbt.experiments.declare import Group, Sweep, check_listed
from jbt.experiments.plots import Line, Panel
from jbt.simulation.simulate import stream

from ._shared.active import shared, task_of
from ._shared.scenario import MapPrior
from .arena import SCENARIOS, drawn

STOPS = {
    "posterior": ("entropy_reduction_fresh", "quality"),
    "anytime": ("pivot", "preference"),
}
"""Stop -> the rule whose runs it ends, and what it promises to find the top k of."""
STOPPED = {
    name: scenario
    for name, scenario in SCENARIOS.items()
    if scenario.protocol == "stochastic" and scenario.n_items <= 30 and not scenario.parallel
}
"""The scenarios in which a pair can be asked again and a run is short."""
LEVEL = 0.95
"""Certainty at which `posterior` stops; `anytime` errs in at most the rest."""
LOOKED_EVERY = 64
"""Verdicts between looks (count)."""


@dataclass(frozen=True, kw_only=True)
class ArenaStops(MapPrior, Sweep):
    """When to stop, on the scenarios of the arena: errors and costs of two stops."""

    name = "arena_stops"
    columns = ("scenario", "stop", "of")
    presets = {
        "smoke": {"pools": 8, "scenario": ("ten answers, fair",), "budget": 256},
        "paper": {"pools": 30},
    }
    units = {
        "verdicts": "verdicts",
        **dict.fromkeys(("stopped", "wrong_quality", "wrong_preference"), "share of runs"),
    }
    panel_size = {"width": 6.0, "height": 6.5}

    pools: int = 1000
    scenario: Annotated[tuple[str, ...], partial(check_listed, known=[*STOPPED])] = (*STOPPED,)
    """Scenarios, by name."""
    budget: int = 4096
    """Most verdicts of a run (count), a multiple of 64."""

    def check(self):
        super().check()
        if self.budget < 1 or self.budget % LOOKED_EVERY:
            raise ValueError(f"budget must be a multiple of {LOOKED_EVERY}, got {self.budget}")

    def groups(self):
        programs: dict[Any, Any] = {}
        found = []
        for name in self.scenario:
            scenario = STOPPED[name]
            for stop, (rule, _) in STOPS.items():
                of_rule = shared(partial(self.experiment, scenario, stop), [scenario.loop(rule)])
                experiment, number = programs.setdefault((stop, scenario.shape), of_rule[rule])
                conditions = scenario.numbers | {"rule": number}
                labels = {"scenario": [name], "stop": [stop]}
                sizes = (scenario.n_items, self.pools)
                group = Group(f"{name}-{stop}", experiment, conditions, labels, *sizes, fits=500)
                found.append(group)
        return found

    def experiment(self, scenario, stop, loop, key, condition):
        """A run on one pool, as one of the stops ends it."""
        pool, preference, _ = drawn(scenario, key, condition)
        if stop == "anytime":  # the pivot is the last of the judge's own top k
            condition = condition | {"aware": jnp.zeros(())}
            loop = dataclasses.replace(loop, rule=pivot_of(ZONE))
        task = task_of(pool, jax.nn.sigmoid(preference), condition, self.prior)
        blocks = LOOKED_EVERY // loop.refit_every
        quality = condition["discrimination"] * pool.design.of_items(pool.quality)  # in logits

        def one_look(carry, _):
            state, evidence = carry
            state, asked = jax.lax.scan(lambda s, _: step(s, task, loop), state, length=blocks)
            asked = jax.tree.map(jnp.ravel, asked)
            if stop == "anytime":
                evidence = anytime.add_verdicts(evidence, asked, zone=ZONE, alpha=1 - LEVEL)
                top, sure = anytime.shown_top_set(evidence, loop.k)
            else:
                view: Any = look(state, task, loop)
                top = view.design.of_items(top_set(view))
                sure = certainty(view, ZONE) >= LEVEL
            across = top[:, None] & ~top
            wrong = (across & (quality - quality[:, None] >= ZONE)).any()
            against = (across & (better.T >= ZONE)).any()
            return (state, evidence), (sure, wrong, against, state.status)

        better = (preference - preference.T) / 2  # without the position: the mean of both orders
        none = anytime.Evidence.none(scenario.n_items, task.design.dtype)
        start = init(stream(key, "acquisition"), task, loop), none
        looks = self.budget // LOOKED_EVERY
        _, (sure, wrong, against, status) = jax.lax.scan(one_look, start, length=looks)
        stopped, at = sure.any(), sure.argmax()
        return {
            "stopped": stopped * 1.0,
            "verdicts": jnp.where(stopped, (at + 1.0) * LOOKED_EVERY, self.budget),
            "wrong_quality": (stopped & wrong[at]) * 1.0,
            "wrong_preference": (stopped & against[at]) * 1.0,
            "status": status.max(),
        }

    def table(self, ds, t):
        t.shares("stopped", ds["stopped"])
        t.means("verdicts", ds["verdicts"])
        for of in ("quality", "preference"):
            wrong = ds[f"wrong_{of}"]
            t.shares("wrong", wrong, of=of)
            t.shares("wrong_stops", wrong.where(ds["stopped"] > 0), of=of)

    def panels(self, table):
        def panel(quantity: str, axis: str, title: str, lines: list[Line]) -> Panel:
            at, labels = {"quantity": quantity}, (axis, "", title)
            return Panel("scenario", at, lines, labels, names=self.scenario)

        tests = {"stop": "anytime"}
        wrong = [
            Line({"stop": "posterior", "of": "quality"}, "by certainty; of quality", "blue"),
            Line(tests | {"of": "quality"}, "by tests; of quality", "orange"),
            Line(tests | {"of": "preference"}, "by tests; of preference", "vermilion"),
        ]
        verdicts = [
            Line({"stop": "posterior"}, "by certainty", "blue"),
            Line(tests, "by tests", "vermilion"),
        ]
        never = f"verdicts, mean, at most {self.budget} (bars: 95 %)"
        return [
            panel(
                "wrong",
                "share of runs that end with a wrong top k (bars: 95 %)",
                "Tests are hardly ever wrong about what\nthe judge prefers, and often never stop",
                wrong,
            ),
            panel(
                "verdicts",
                never,
                "Tests take more verdicts than\ncertainty, except for 'ten answers'",
                verdicts,
            ),
        ]


SWEEP = ArenaStops


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
