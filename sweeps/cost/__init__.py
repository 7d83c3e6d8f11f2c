"""What recall costs: a cheap biased judge with the correction against a dear one without, in
dollars a pool, and what the labels of a gate add when pools share them.

The paper's cost figure and its table of the anchors' cost, with the twins of its judges on pools
like its own. The cheap judge is also run without the correction: what is bought where a gate does
not switch it on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Key

from jbt import stats, twins
from jbt.acquisition import RULES, Loop, Task, reports, run
from jbt.experiments import declare
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.table import Table
from jbt.kernel.membership import DRAWS
from jbt.simulation import pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Variant, check_count
from sweeps._shared import active, calibration, prices
from sweeps._shared.calibration import SHARE

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

N_ITEMS, K = 30, 5
"""Of the pools that the twins are calibrated on."""
COLUMNS = ("judge", "budget", "n_pools_sharing", "model", "rule", "target")
PRICES = (
    *("cheap_input", "cheap_output", "dear_input", "dear_output"),
    *("input_tokens", "output_tokens", "cheap_reasoning", "dear_reasoning", "label_price"),
)


@dataclass(frozen=True, kw_only=True)
class Settings(declare.Settings):
    pools: int = 1000
    """Pools simulated at every condition (count)."""
    cheap: str = "gpt_4o_mini"
    """The judge that is corrected, one of `jbt.twins.known()`."""
    dear: str = "gpt_5_1"
    """The judge that is not, another of them."""
    oracle: Literal["argmax", "draws"] | None = None
    """How the verdicts of both were cached: the likelier one, or one draw; default each judge's
    own."""
    others: str = "uniform"
    """Qualities of the items that are not fully correct, one of `jbt.simulation.pools.OTHERS`."""
    rule: tuple[str, ...] = ("top_k_aware", "random")
    """Acquisition rules, of `jbt.acquisition.RULES`."""
    budget: tuple[int, ...] = (30, 64, 120, 200, 264, 320, 400, 528, 600, 800, 870)
    """Budgets of the table (verdicts), increasing; curves go on to the largest, at most 870. At the
    paper's prices 264 cost $0.014, 528 of the dear judge $0.28 and 800 $0.42."""
    target: tuple[float, ...] = (0.6, 0.65, 0.7, 0.75, 0.89, 0.93, 1.0)
    """Recalls to be reached, increasing, in (0, 1]; of 1, 0.995, what is printed so at least."""
    n_pools_sharing: tuple[int, ...] = prices.SHARING
    """Pools that reuse one decision of the gate (count), increasing."""
    cheap_input: float = 0.15
    """Dollars per million input tokens of the cheap judge."""
    cheap_output: float = 0.60
    """Dollars per million output tokens of the cheap judge."""
    dear_input: float = 1.25
    """Dollars per million input tokens of the dear judge."""
    dear_output: float = 10.0
    """Dollars per million output tokens of the dear judge."""
    input_tokens: float = 293.0
    """Input tokens of a comparison (mean count)."""
    output_tokens: float = 16.0
    """Output tokens of a comparison (mean count)."""
    cheap_reasoning: float = 0.0
    """Hidden tokens of a comparison that the cheap judge is paid as output (mean count)."""
    dear_reasoning: float = 0.0
    """The same of the dear judge."""
    n_anchors: int = 40
    """Trusted labels of one decision of the gate (count)."""
    label_price: float = prices.LABEL
    """Dollars a trusted label."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""
    n_seeds: int = 4
    """Acquisition seeds a pool (count), averaged within the pool."""
    n_samples: int | None = None
    """S, draws for the membership (count); default 64, or 1500 if counted."""
    membership: str = "conditional"
    """How it is estimated: `conditional`, the mean over scrambled Sobol draws of each item's chance
    given the rest of the draw; `counted`, the share of antithetic normal draws, as in the paper."""

    def decided(self) -> Settings:
        if self.n_samples is not None:
            return self
        return replace(self, n_samples=DRAWS.get(self.membership))

    @property
    def verdict_price(self) -> dict[str, float]:
        """Dollars a comparison, by judge."""
        tokens = self.output_tokens + self.cheap_reasoning, self.output_tokens + self.dear_reasoning
        cheap = self.input_tokens * self.cheap_input + tokens[0] * self.cheap_output
        dear = self.input_tokens * self.dear_input + tokens[1] * self.dear_output
        return {self.cheap: cheap / 1e6, self.dear: dear / 1e6}

    @property
    def labels(self) -> float:
        """Dollars for the labels of one decision."""
        return self.n_anchors * self.label_price


PRESETS = {
    "smoke": Settings(pools=16, n_seeds=2, budget=(32, 64), target=(0.4, 0.89)),
    "paper": Settings(pools=5, n_seeds=8, n_samples=1500, membership="counted"),
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    if s.cheap == s.dear:
        raise ValueError(f"cheap and dear must be two judges, got {s.cheap} twice")
    if s.others not in pools.OTHERS:
        raise ValueError(f"others must be one of {', '.join(pools.OTHERS)}, got {s.others!r}")
    for name in PRICES:
        value = getattr(s, name)
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and at least 0, got {value}")
    check_count("refit_every", s.refit_every)
    check_count("n_anchors", s.n_anchors, least=0)
    check_count("n_seeds", s.n_seeds)
    declare.check_listed("rule", s.rule, list(RULES))
    declare.check_increasing("budget", s.budget, least=s.refit_every, most=N_ITEMS * (N_ITEMS - 1))
    declare.check_increasing("target", s.target, least=0.01, most=1)
    declare.check_increasing("n_pools_sharing", s.n_pools_sharing, least=1)


def cases(s: Settings) -> list[tuple[str, str]]:
    """Judges and the models inside the loop."""
    return [(s.cheap, "bias_aware"), (s.cheap, "naive"), (s.dear, "naive")]


def groups(s: Settings) -> list[declare.Group]:
    """One group a rule: all judges, models and acquisition seeds share a kernel."""
    check(s)
    each = [(*case, seed, 0.0) for case in cases(s) for seed in range(s.n_seeds)]
    each += [(*case, 0, way) for way in twins.DISPLACED for case in cases(s)]
    conditions = twins.conditions(
        [twins.twin(judge, oracle=s.oracle, others=s.others) for judge, *_ in each]
    )
    conditions["aware"] = np.array([float(model == "bias_aware") for _, model, *_ in each])
    conditions["seed"] = np.array([seed for *_, seed, _ in each])
    conditions["displaced"] = np.array([way for *_, way in each])
    labels = {
        "judge": [judge for judge, *_ in each],
        "model": [model for _, model, *_ in each],
        "displaced": conditions["displaced"].tolist(),
        SEEDS: [seed for *_, seed, _ in each],
    }
    at = reports(s.budget, s.refit_every).tolist()
    return [
        declare.Group(
            rule,
            experiment(s, Loop(rule, K, s.refit_every, "frozen", s.n_samples, s.membership)),
            conditions,
            {**labels, "rule": [rule] * len(each)},
            N_ITEMS,
            s.pools,
            axes={"recall": {"budget": at}, **calibration.AXES},
            fits=len(at),
        )
        for rule in s.rule
    ]


def experiment(s: Settings, loop: Loop) -> Experiment:
    """One run on one pool; the condition holds the twin, the model and the acquisition seed."""
    draw = twins.paper_pool(s.others, n_items=N_ITEMS, k=K)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        condition, steps = twins.displaced(key, condition)
        pool = draw(stream(key, "pool"), condition)
        free = condition["aware"] > 0
        answers = twins.answers(key, pool, condition)
        task = Task.build(pool, answers, variant=Variant(free[None], free))
        own = jax.random.fold_in(stream(key, "acquisition"), condition["seed"])
        trace = run(own, task, loop, s.budget)
        of_calibration = {"targets": twins.observed(answers, pool, K), "steps": steps}
        return {"recall": trace.recall, "status": trace.status.max(), **of_calibration}

    return one


# --- from the saved results


@dataclass(frozen=True)
class Frontier:
    """What one judge and model reach with one rule, and for what."""

    row: dict[str, Any]
    """Its columns."""
    dollars: np.ndarray
    """[T] of every budget on the curve."""
    recall: np.ndarray
    """[T, P]"""
    carried: np.ndarray
    """[T, P] with the error of the judge's calibration."""
    means: np.ndarray
    """[1 + R, T] of all pools, then of resampled ones, the same in all frontiers."""
    seed: int

    def reach(self, target: float, size: int | None = None) -> np.ndarray:
        """[1 + R] dollars of the cheapest budget whose mean recall is the target, NaN if none is;
        or [R] of studies of so many pools."""
        means = self.means if size is None else self.of_studies(size)
        return prices.first_reached(self.dollars, means, min(target, twins.PERFECT))

    def of_studies(self, size: int) -> np.ndarray:
        """[R, T] mean recalls of studies of so many pools."""
        means = stats.bootstrap_means(
            self.carried, seed=self.seed, size=size, resamples=stats.REPLICATES
        )
        return np.clip(means, *SHARE)

    def at_best_budget(self) -> np.ndarray:
        """[P] recall at the budget that is best for the other half of the pools."""
        found = self.recall[-1].copy()
        for half in (0, 1) if found.size > 1 else ():
            best = self.recall[:, 1 - half :: 2].mean(-1).argmax()
            found[half::2] = self.recall[best, half::2]
        return found


def frontiers(
    recall: xr.DataArray, carried: xr.DataArray, s: Settings, seed: int
) -> list[Frontier]:
    """Of recalls [condition, acquisition_seed, budget, pool], and the same with the error of the
    judges' calibration."""
    budgets = recall["budget"].values.astype(float)
    values = recall.mean(SEEDS).transpose("condition", "budget", "pool")
    data = values.values.astype(float)
    open_ = carried.mean(SEEDS).transpose("condition", "budget", "pool").values
    means = np.concatenate([data.mean(-1)[None], stats.bootstrap_means(data, seed=seed)])
    names = ("judge", "model", "rule")
    rows = [{name: str(values[name].values[i]) for name in names} for i in range(len(data))]
    return [
        Frontier(row, budgets * s.verdict_price[row["judge"]], data[i], open_[i], means[:, i], seed)
        for i, row in enumerate(rows)
    ]


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    of_prices(s, t)
    recall = active.by_seed(ds["recall"], s.n_seeds)
    open_ = active.opened(ds["recall"], ds, s.n_seeds)
    assert open_ is not None  # every judge here is a twin
    at = {"budget": list(s.budget)}
    t.means("recall", recall.sel(at), carried=calibration.drawn_from(open_.sel(at), SHARE))
    found = frontiers(recall, open_["pools"], s, t.seed)
    for frontier in found:
        reached(frontier, s, t)
    for rule in s.rule:
        cheap, _, dear = (f for f in found if f.row["rule"] == rule)
        compare(cheap, dear, s, t)


def of_prices(s: Settings, t: Table) -> None:
    """What follows from the prices alone: dollars of a budget, and with the labels of a gate."""

    def add(quantity: str, value: float, **where: Any) -> None:
        t.add(quantity, value, studies=lambda *_: np.full(1, value), **where)

    for judge, price in s.verdict_price.items():
        for budget in s.budget:
            add("cost", budget * price, judge=judge, budget=budget)
    for sharing in s.n_pools_sharing:
        gated = {"judge": s.cheap, "n_pools_sharing": sharing}
        add("anchor_cost", s.labels / sharing, **gated)
        for budget in s.budget:
            alone = budget * s.verdict_price[s.cheap]
            add("cost", alone + s.labels / sharing, budget=budget, **gated)
            times = float(prices.overhead(s.labels, alone, sharing))
            add("overhead", times, budget=budget, **gated)


def reached(frontier: Frontier, s: Settings, t: Table) -> None:
    """Recall at the best budget, which a study of the paper's size chooses by the pools whose
    recall it then reports; and of each target what it costs, and how many such studies reach it."""
    row, n = frontier.row, frontier.recall.shape[-1]
    mean, *interval = stats.mean_interval(frontier.at_best_budget(), seed=t.seed)

    def best_of_studies(size: int, _: int | None) -> np.ndarray:
        return frontier.of_studies(size).max(-1)

    t.add("best_recall", mean, interval, n, studies=best_of_studies, **row)
    for target in s.target:

        def studies(size: int, _: int | None, target: float = target) -> np.ndarray:
            return frontier.reach(target, size)

        dollars = frontier.reach(target)
        interval = prices.of_resamples(dollars[1:], n)
        t.add("cost_to_reach", dollars[0], interval, n, studies=studies, target=target, **row)
        of_its_size = frontier.reach(target, twins.known()[row["judge"]].pools)
        share = np.isfinite(of_its_size).mean()
        t.add("reached_by_studies", share, n_pools=n, target=target, **row)


def compare(cheap: Frontier, dear: Frontier, s: Settings, t: Table) -> None:
    """How many times cheaper the cheap judge reaches each target than the dear one, without the
    labels of a gate and with a pool's part of them."""
    n = cheap.recall.shape[-1]
    of_dear = twins.known()[s.dear].pools
    for target in s.target:
        own, other = cheap.reach(target), dear.reach(target)
        for sharing in (None, *s.n_pools_sharing):
            labels = s.labels / sharing if sharing else 0.0

            def studies(
                size: int, _: int | None, target: float = target, labels: float = labels
            ) -> np.ndarray:
                return _ratio(dear.reach(target, of_dear), cheap.reach(target, size) + labels)

            times = _ratio(other, own + labels)
            interval = prices.of_resamples(times[1:], n)
            where = {**cheap.row, "target": target, "n_pools_sharing": sharing}
            t.add("times_cheaper", times[0], interval, n, studies=studies, **where)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / below


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """What the paper gives, and what the targets cost; not every budget."""
    whole = table.quantity.isin(["best_recall", "cost_to_reach", "reached_by_studies"])
    times = (table.quantity == "times_cheaper") & table.estimate.notna()
    return table[whole | times | table.paper.notna()]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from sweeps.cost import figure as _cost_figure

    return _cost_figure.figure(ds, table, s)


SWEEP = declare.Sweep(
    "cost",
    "What recall costs: a cheap judge corrected against a dear one, and a gate's labels shared.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "recall": "1 (share of the top k)",
        "status": "status of the fits, the worst of a run",
        "budget": "verdicts",
        "acquisition_seed": "id",
        **calibration.UNITS,
    },
    headline=headline,
)
