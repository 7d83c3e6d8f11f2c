"""The arena: acquisition rules on a fixed set of scenarios, the same pools for all.

A scenario is a question that somebody has: so many answers, a top k, a judge with its faults, and
the way in which verdicts arrive. All rules choose pairs for the same model in the loop, the
bias-aware one, or the naive one where the judge is fair; a rule's own estimates only choose pairs.
Between two refits rules that count wins see every verdict, updated (`fresh`) rules what every pick
tells about the variance, and the others only which pairs were asked. What is
measured is the share of the true top k that the model finds, eight times on the way: its mean, the
area under the curve; and the verdicts after which it has .9 of what one verdict on every ordered
pair gives.

A rule of your own joins by `--rule-file FILE`, every public function `(view, key) -> scores` of
which is a rule.
"""

from __future__ import annotations

import hashlib
import inspect
import runpy
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt.acquisition import RULES, Loop, Rule, run
from jbt.experiments.declare import Group, Sweep, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import CYCLE, Line, Panel
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, stream
from jbt.types import Comparisons, Pool

from ._shared.active import check_runs, recall_at, shared, task_of
from ._shared.scenario import MapPrior

LOOKS = 8
"""Reports of a run (count)."""
SHARE = 0.9
"""Of the recall with all ordered pairs, for the crossing."""
REFERENCE = "entropy_reduction_fresh"
"""The rule from whose area that of the others is subtracted."""
SMALL = 12
"""Most items with which rules that cost N^4 are run (count)."""
JBTS = tuple(rule for rule in RULES.values() if rule.family != "yours")
"""The rules of jbt, without those of users' files."""
COSTLY = ("asap", "knowledge_gradient")
DRAWN = (REFERENCE, "top_two", "swiss", "insertion", "top_k_aware", "random")
"""The rules that are drawn, beside those of a user's file."""
KINDS = ("statement_bank", "gaussian")
"""Kinds of pool, by whether `Scenario.bank` is 1."""


@dataclass(frozen=True)
class Scenario:
    """Pools, a judge, and how its verdicts arrive. What is a float is traced."""

    rho: float = 0.0
    """Correlation of quality and the binary covariate."""
    bias: float = 1.5
    position: float = 0.35
    discrimination: float = 1.0
    interaction: float = 0.0
    pair_noise: float = 0.0
    """Standard deviation of what the judge holds for or against a pair (logits): its preferences
    are then not transitive."""
    ties: float = 0.0
    """Log-odds below which the judge calls a tie, with frozen verdicts."""
    sd: float = 1.25
    n_items: int = 30
    k: int = 5
    bank: float = 0.0
    """1 if pools are the paper's, answers made of statements; 0 if qualities are normal."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""
    parallel: bool = False
    """The R verdicts arrive together."""
    aware: float = 1.0
    """1 if the model in the loop is bias-aware, 0 if it is naive."""
    protocol: str = "stochastic"
    step: int = 56
    """Verdicts between two looks (count)."""
    share: float = 1.0
    """Of the sweep's pools that are simulated."""

    @property
    def budgets(self) -> list[int]:
        """Verdicts at each look."""
        return [self.step * look for look in range(1, LOOKS + 1)]

    @property
    def numbers(self) -> dict[str, np.ndarray]:
        """Its condition."""
        return {n: np.array([v]) for n, v in vars(self).items() if isinstance(v, float)}

    @property
    def shape(self) -> tuple[Any, ...]:
        """What a program depends on."""
        return tuple(v for v in vars(self).values() if not isinstance(v, float))

    def loop(self, rule: Any) -> Loop:
        """The loop of one of the rules."""
        how = {"refit_every": self.refit_every, "parallel": self.parallel}
        return Loop(rule, self.k, protocol=self.protocol, **how)


FAIR: dict[str, Any] = {"bias": 0.0, "position": 0.0, "aware": 0.0}
FROZEN: dict[str, Any] = {"protocol": "frozen"}
TEN: dict[str, Any] = {"n_items": 10, "k": 3, "refit_every": 1, "step": 16}
SCENARIOS: dict[str, Scenario] = {
    "fair judge": Scenario(**FAIR),
    "biased judge": Scenario(),
    "biased, correlated": Scenario(rho=0.3),
    "biased, strongly correlated": Scenario(rho=0.7),
    "bias grows with quality": Scenario(interaction=0.5),
    "position bias": Scenario(bias=0.0, position=2.4),
    "noisy judge": Scenario(discrimination=0.4, bias=0.6),
    "sure judge": Scenario(discrimination=3.0, bias=4.5),
    "not transitive": Scenario(pair_noise=1.0),
    "near ties": Scenario(sd=0.5),
    "made of statements": Scenario(bank=1.0, sd=1.5),
    "one verdict a pair, fair": Scenario(**FAIR, **FROZEN),
    "one verdict a pair": Scenario(**FROZEN),
    "one verdict, with ties": Scenario(ties=0.5, **FROZEN),
    "best of 30": Scenario(k=1),
    "best half": Scenario(k=15),
    "batches of 56": Scenario(refit_every=56, parallel=True),
    "ten answers, fair": Scenario(**FAIR, **TEN),
    "ten answers": Scenario(**TEN),
    "a hundred answers": Scenario(n_items=100, k=10, refit_every=32, step=192, share=1 / 16),
}
"""Name -> scenario. A changed scenario gets another name."""


@dataclass(frozen=True, kw_only=True)
class Arena(MapPrior, Sweep):
    """Every acquisition rule on a fixed set of scenarios, the same pools for all."""

    name = "arena"
    shown = ("area", "lead", "crossing")
    columns = ("scenario", "rule", "budget", "share")
    presets = {
        "smoke": {
            "pools": 8,
            "scenario": ("ten answers", "ten answers, fair"),
            "rule": (REFERENCE, "random", "swiss"),
        },
        "paper": {"pools": 30},
    }
    units = {"look": "index of the report", "full": "share of k"}
    panel_size = {"width": 9.0, "height": 8.5}

    pools: int = 256
    scenario: Annotated[tuple[str, ...], partial(check_listed, known=[*SCENARIOS])] = tuple(
        SCENARIOS
    )
    """Scenarios, by name."""
    rule: tuple[str, ...] = tuple(name for name in RULES if RULES[name].family != "ablations")
    """Acquisition rules to run. entropy_reduction_fresh must be among them, as the others are
    compared with it. Rules whose cost grows with the fourth power of the number of items run on
    small pools only."""
    rule_file: str | None = None
    """A Python file with rules of your own: its public functions (view, key) -> scores [N, N], and
    its objects of the class Rule."""

    def decided(self):
        if self.rule_file is None:
            return self
        own = own_rules(Path(self.rule_file))
        RULES.update(own)
        return replace(self, rule=tuple(dict.fromkeys((*self.rule, *own))))

    def digests(self):
        if self.rule_file is None:
            return {}
        return {"rule_file": hashlib.sha256(Path(self.rule_file).read_bytes()).hexdigest()[:16]}

    def check(self):
        super().check()
        check_listed("rule", self.rule, [*RULES])
        if REFERENCE not in self.rule or len(self.rule) < 2:
            raise ValueError(f"rule must list {REFERENCE} and a rule to compare it with")
        for name in self.scenario:
            if len(self.rules_of(SCENARIOS[name])) < 2:
                raise ValueError(f"rule must list two rules that run on '{name}'")
        smallest = min((SCENARIOS[name] for name in self.scenario), key=lambda s: s.n_items)
        for rule in self.rules_of(smallest):
            try:
                check_runs(smallest.n_items, [smallest.loop(rule)], smallest.budgets)
            except Exception as error:  # a user's function may raise anything
                cause = f"{type(error).__name__}: {error}"
                raise ValueError(f"rule {rule} fails on a trial problem: {cause}") from error

    def rules_of(self, scenario: Scenario) -> list[str]:
        """The rules that run on a scenario."""
        small = scenario.n_items <= SMALL
        return [rule for rule in self.rule if small or rule not in COSTLY]

    def groups(self):
        programs: dict[Any, Any] = {}
        found = []
        for name in self.scenario:
            scenario = SCENARIOS[name]
            loops = [scenario.loop(rule) for rule in self.rules_of(scenario)]
            of_rules = shared(partial(self.experiment, scenario), loops)
            of_rules = programs.setdefault(scenario.shape, of_rules)
            found += [
                Group(
                    f"{name}-{rule}",
                    experiment,
                    scenario.numbers | {"rule": number},
                    {"scenario": [name], "rule": [rule]},
                    scenario.n_items,
                    max(2, round(self.pools * scenario.share)),
                    {"recall": {"look": range(1, LOOKS + 1)}},
                    fits=scenario.budgets[-1] // scenario.refit_every,
                )
                for rule, (experiment, number) in of_rules.items()
            ]
        return found

    def experiment(self, scenario, loop, key, condition):
        """One rule on one pool."""
        pool, logits, once = drawn(scenario, key, condition)
        every = pairs.every_pair(pool)
        answers = once if scenario.protocol == "frozen" else jax.nn.sigmoid(logits)
        task = task_of(pool, answers, condition, self.prior)
        full = fit_map(Comparisons(every, every * once), pool.design, self.prior, task.variant)
        trace = run(stream(key, "acquisition"), task, loop, scenario.budgets)
        return {
            "recall": recall_at(scenario.budgets, trace, scenario.refit_every),
            "full": metrics.top_k_recall(full.parameters.theta, pool.quality, scenario.k),
            "status": trace.status.max(),
        }

    def table(self, ds, t):
        for name in self.scenario:
            scenario = SCENARIOS[name]
            of_scenario = where(ds, scenario=name).dropna("pool", how="all")
            recall = of_scenario["recall"].assign_coords(budget=("look", scenario.budgets))
            t.means("recall", recall)
            area = recall.mean("look")
            t.means("area", area)
            others = where(area, rule=[rule for rule in self.rule if rule != REFERENCE])
            t.means("lead", others - self.of_reference(area))
            full = self.of_reference(of_scenario["full"])
            for of_rule in recall.swap_dims(look="budget").transpose("condition", ...):
                t.crossing(SHARE * full - of_rule, "budget", share=SHARE)

    def of_reference(self, values):
        """A metric of the reference, which is subtracted from others pool by pool."""
        return where(values, rule=REFERENCE).isel(condition=0).reset_coords(drop=True)

    def panels(self, table):
        shown = [rule for rule in self.rule if rule in DRAWN or RULES[rule].family == "yours"]
        lines = [
            Line({"rule": rule}, rule, colour)
            for rule, colour in zip(shown, cycle([*CYCLE, "black"]), strict=False)
        ]
        labels = (
            "recall of the top k, mean over the run (bars: 95 %)",
            "",
            f"{REFERENCE} leads,\nor nearly, in most scenarios",
        )
        return [Panel("scenario", {"quantity": "area"}, lines, labels, names=self.scenario)]


SWEEP = Arena


def drawn(
    scenario: Scenario, key: Key[Array, ""], condition: Condition
) -> tuple[Pool, Float[Array, "N N"], Float[Array, "N N"]]:
    """A pool of the scenario, the judge's log-odds that the first shown wins, and one verdict on
    every ordered pair."""
    sizes = {"n_items": scenario.n_items, "k": scenario.k, "covariate": "binary"}
    numbers = {"sd": condition["sd"], "rho": condition["rho"]}
    kinds = [pools.POOLS[n](stream(key, n), **sizes, **numbers) for n in KINDS]
    pool = jax.tree.map(partial(jnp.where, condition["bank"] > 0), *kinds)
    noise = judges.pair_preference(stream(key, "preference"), pool)
    judge = judges.of_condition(condition)
    logits = judges.verdict_logits(pool, judge, condition["pair_noise"] * noise)
    uniform = jax.random.uniform(stream(key, "verdicts"), logits.shape, logits.dtype)
    tie = jnp.abs(logits) < condition["ties"]
    once = jnp.where(tie, 0.5, (uniform < jax.nn.sigmoid(logits)).astype(logits.dtype))
    return pool, logits, once


def own_rules(file: Path) -> dict[str, Rule]:
    """The rules in a file of the user's: its public functions of (view, key), and its `Rule`s.

    Raises:
      ValueError: the file cannot be run, has no rule, or one with the name of a rule of jbt.
    """
    try:
        names = runpy.run_path(str(file))
    except Exception as error:
        raise ValueError(f"{file} cannot be run: {type(error).__name__}: {error}") from error
    own: dict[str, Rule] = {}
    for name, value in names.items():
        if name.startswith("_") or value in JBTS:
            continue
        plain: Any = inspect.unwrap(value) if callable(value) else value
        here = inspect.isfunction(plain) and plain.__code__.co_filename == str(file)
        if here and [*inspect.signature(plain).parameters] == ["view", "key"]:
            own[name] = Rule(cast("Any", value), gain=False)
        elif isinstance(value, Rule):
            own[name] = replace(value, family="yours")
    if not own:
        raise ValueError(f"{file} has no function (view, key) -> scores")
    if taken := [name for name in own if RULES.get(name) in JBTS]:
        raise ValueError(f"{file} has a rule {taken[0]}, as jbt has: give it another name")
    return own


if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
