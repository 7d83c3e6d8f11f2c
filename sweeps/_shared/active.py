"""Settings, the run of one pool and the groups of all sweeps on acquisition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import twins
from jbt.acquisition import Loop, Task, panel_rules, reports, run
from jbt.acquisition.loop import Queries
from jbt.acquisition.rules import DEFAULT_RULES
from jbt.acquisition.runs import check as check_run
from jbt.experiments import declare
from jbt.experiments.labelled_arrays import SEEDS
from jbt.kernel import metrics
from jbt.kernel.membership import DRAWS
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Design, Variant, check_positive

from . import calibration
from .judge import Case, JudgeSettings, check_judge, pools_of
from .scenario import MapPrior

if TYPE_CHECKING:
    pass

REFERENCE = "top_k_aware"
"""The rule that each family of rules is compared with. Holm's correction is within a family, as
over the paper's five baselines."""
COLUMNS = (
    "protocol",
    "judge",
    "bias",
    "position",
    "discrimination",
    "pair_noise",
    "model",
    "rule",
    "refit_every",
    "budget",
)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Repeats of the active loop on a pool, and its estimate of the membership."""

    n_seeds: int = 4
    """Acquisition seeds a pool (count), averaged within the pool."""
    n_samples: int | None = None
    """S, draws for the membership (count); default 64, or 1500 if counted."""
    membership: str = "conditional"
    """Estimate of the membership: `conditional`, the mean over scrambled Sobol draws of each item's
    chance given the rest of the draw; `counted`, the share of antithetic normal draws, as in the
    paper."""


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, RunSettings, JudgeSettings):
    pools: int = 1000
    rule: tuple[str, ...] = DEFAULT_RULES
    """Acquisition rules; top_k_aware, with which the others are compared, among them."""
    budget: tuple[int, ...] = (60, 120, 200, 320)
    """Budgets of the table (verdicts); runs end at the largest."""

    def defaults(self) -> dict[str, Any]:
        return {"n_samples": DRAWS.get(self.membership)} | super().defaults()


def experiment(s: Settings, settings: Loop) -> Experiment:
    """Run one rule on one pool; the condition holds the case and the acquisition seed."""
    draw = pools_of(s)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        condition, steps = twins.displaced(key, condition)
        pool = draw(stream(key, "pool"))
        answers = twins.answers(key, pool, condition)
        out = {"targets": twins.observed(answers, pool, s.k, s.prior), "steps": steps}
        if settings.protocol != "frozen":
            answers = twins.probability(key, pool, condition)
            uncertain = (answers > twins.DOUBT[0]) & (answers < twins.DOUBT[1])
            every = pairs.every_pair(pool)
            out["uncertain"] = (uncertain * every).sum() / every.sum()
        free = condition["aware"] > 0
        task = Task.build(pool, answers, variant=Variant(free[None], free), prior=s.prior)
        run_key = jax.random.fold_in(stream(key, "acquisition"), condition["seed"])
        trace = run(run_key, task, settings, s.budget)
        at = np.searchsorted(reports(s.budget, settings.refit_every), reported(s, settings))
        out |= {"recall": trace.recall[at], "status": trace.status.max()}
        return out | {"allocation": allocation(s.budget, s.k, trace.queries, pool.quality)}

    return one


def reported(s: Settings, settings: Loop) -> np.ndarray:
    """Budgets whose recall is kept: the whole curve with cached verdicts, else those of the table,
    which do not depend on R."""
    whole = settings.protocol == "frozen"
    return reports(s.budget, settings.refit_every) if whole else np.array(s.budget)


def allocation(
    budgets: Sequence[int], k: int, queries: Queries, quality: Float[Array, " M"]
) -> Float[Array, "budgets places"]:
    """Share of the showings by distance from the boundary, at each budget. Items of equal quality
    are ranked by their numbers."""
    item = jnp.arange(len(quality))
    before = (quality > quality[:, None]) | ((quality == quality[:, None]) & (item < item[:, None]))
    place = before.sum(1).astype(quality.dtype)
    rows = []
    for budget in budgets:
        shown = jnp.concatenate([queries.first[:budget], queries.second[:budget]])
        counts = (shown == item[:, None]).sum(1).astype(quality.dtype)
        rows.append(metrics.allocation(counts, -place, k))
    return jnp.stack(rows)


def group(
    s: Settings, rule: str, cases: Sequence[Case], *, protocol: str, refit_every: int
) -> declare.Group:
    """All cases and seeds of one rule: one compiled kernel. Twins as calibrated are also run
    displaced, with one acquisition seed."""
    settings = Loop(rule, s.k, refit_every, protocol, s.n_samples, s.membership)
    runs = [(case, seed, 0.0) for case in cases for seed in range(s.n_seeds)]
    runs += [(case, 0, way) for way in twins.DISPLACED for case in cases if case.name == s.judge]
    conditions = judges.conditions([c.judge for c, *_ in runs])
    conditions["pair_noise"] = np.array([c.pair_noise for c, *_ in runs])
    constant = {"protocol": protocol, "rule": rule, "refit_every": refit_every}
    labels: dict[str, Sequence[Any]] = {k: [v] * len(runs) for k, v in constant.items()}
    labels |= {"judge": [c.name for c, *_ in runs], "model": [c.model for c, *_ in runs]}
    labels |= {name: list(values) for name, values in conditions.items()}
    labels["displaced"] = [way for *_, way in runs]
    conditions["displaced"] = np.array(labels["displaced"])
    conditions["argmax"] = np.full(len(runs), float(s.oracle == "argmax"))
    conditions["aware"] = np.array([float(c.model == "bias_aware") for c, *_ in runs])
    conditions["seed"] = np.array([seed for _, seed, _ in runs])
    labels[SEEDS] = [seed for _, seed, _ in runs]
    at = reported(s, settings).tolist()
    distances = list(range(max(s.k, s.n_items - s.k)))
    return declare.Group(
        f"{protocol}-{refit_every}-{rule}",
        experiment(s, settings),
        conditions,
        labels,
        s.n_items,
        s.pools,
        axes={
            "recall": {"budget": at},
            "allocation": {"table_budget": list(s.budget), "distance": distances},
            **calibration.AXES,
        },
        fits=len(reports(s.budget, refit_every)),
    )


def groups(
    s: Settings, cases: Callable[[str], Sequence[Case]], protocol: str, refit_every: Sequence[int]
) -> list[declare.Group]:
    """The groups of every rule and number of verdicts between refits, with the cases of a rule.

    Raises:
      ValueError: settings that make no sense, before anything runs.
    """
    check(s, protocol, refit_every)
    return [
        group(s, rule, cases(rule), protocol=protocol, refit_every=r)
        for r in refit_every
        for rule in s.rule
    ]


def check(s: Settings, protocol: str, refit_every: Sequence[int]) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    check_judge(s, protocol)
    s.check_prior()
    for name in ("sd", "discrimination"):
        value = getattr(s, name, None)
        if value is not None:
            check_positive(name, value)
    if s.n_items < 4:
        raise ValueError(f"n_items must be at least 4, got {s.n_items}")
    if s.n_seeds < 1:
        raise ValueError(f"n_seeds must be at least 1, got {s.n_seeds}")
    declare.check_increasing("budget", s.budget)
    check_rules(s.rule)
    if not refit_every or len(set(refit_every)) < len(refit_every):
        raise ValueError("refit_every must list at least one value, and none twice")
    design = design_of(s.n_items)
    for rule in s.rule:
        for r in refit_every:
            settings = Loop(rule, s.k, r, protocol, s.n_samples, s.membership)
            check_run(design, settings, reports(s.budget, r))
    scenario: dict[str, Any] = {"k": s.k, "rho": [0.0], "covariate": "binary"}
    pools.check_balance(str(s.pool), s.n_items, s.max_correlation, **scenario)


def check_rules(rules: Sequence[str]) -> None:
    """Raise `ValueError` for an unknown rule, one named twice, or no reference among them."""
    for rule in rules:
        panel_rules.resolve(rule)
    if REFERENCE not in rules:
        raise ValueError(f"rule must include {REFERENCE}, with which the others are compared")
    if len(set(rules)) < len(rules):
        raise ValueError(f"rule lists a name twice: {' '.join(rules)}")


def design_of(n_items: int) -> Design:
    """A design of this size to check runs with, made without compiling anything."""
    x, items = np.zeros((n_items, 1)), np.ones(n_items, bool)
    return Design(jnp.asarray(x), None, jnp.asarray(items), n_items)


UNITS = {
    "allocation": "share of showings",
    "distance": "places from the boundary",
    **calibration.UNITS,
}
