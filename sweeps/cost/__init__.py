"""What recall costs: a cheap biased judge with the correction against a dear one without, in
dollars a pool, and what the labels of a gate add when pools share them.

The paper's cost figure and its table of the anchors' cost, with the twins of its judges on pools
like its own. The cheap judge is also run without the correction, as where a gate does not switch it
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Key

from jbt import stats, twins
from jbt.acquisition import Loop, Task, reports, run
from jbt.experiments import declare
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.table import Table
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Variant

from .._shared import calibration, prices
from .._shared.calibration import SHARE

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure
from .settings import COLUMNS, N_ITEMS, PRESETS, K, Settings, cases, check


def groups(s: Settings) -> list[declare.Group]:
    """One group a rule: all judges, models and acquisition seeds share a kernel."""
    check(s)
    runs = [(*case, seed, 0.0) for case in cases(s) for seed in range(s.n_seeds)]
    runs += [(*case, 0, way) for way in twins.DISPLACED for case in cases(s)]
    conditions = twins.conditions(
        [twins.twin(judge, oracle=s.oracle, others=s.others) for judge, *_ in runs]
    )
    conditions["aware"] = np.array([float(model == "bias_aware") for _, model, *_ in runs])
    conditions["seed"] = np.array([seed for *_, seed, _ in runs])
    conditions["displaced"] = np.array([way for *_, way in runs])
    labels = {
        "judge": [judge for judge, *_ in runs],
        "model": [model for _, model, *_ in runs],
        "displaced": conditions["displaced"].tolist(),
        SEEDS: [seed for *_, seed, _ in runs],
    }
    at = reports(s.budget, s.refit_every).tolist()
    return [
        declare.Group(
            rule,
            experiment(s, Loop(rule, K, s.refit_every, "frozen", s.n_samples, s.membership)),
            conditions,
            {**labels, "rule": [rule] * len(runs)},
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
        run_key = jax.random.fold_in(stream(key, "acquisition"), condition["seed"])
        trace = run(run_key, task, loop, s.budget)
        of_calibration = {"targets": twins.observed(answers, pool, K), "steps": steps}
        return {"recall": trace.recall, "status": trace.status.max(), **of_calibration}

    return one


@dataclass(frozen=True)
class Frontier:
    """Recall that one judge and model reach with one rule, and its cost."""

    row: dict[str, Any]
    """Columns of its rows."""
    dollars: np.ndarray
    """[T] cost of every budget on the curve."""
    recall: np.ndarray
    """[T, P]"""
    carried: np.ndarray
    """[T, P] recall with the error of the judge's calibration."""
    means: np.ndarray
    """[1 + R, T] mean recall of all pools, then of resampled ones, the same in all frontiers."""
    seed: int

    def reach(self, target: float, size: int | None = None) -> np.ndarray:
        """[1 + R] dollars of the cheapest budget whose mean recall reaches the target, NaN if none
        does; with `size`, [R] of studies of so many pools."""
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
        recall = self.recall[-1].copy()
        for half in (0, 1) if recall.size > 1 else ():
            best = self.recall[:, 1 - half :: 2].mean(-1).argmax()
            recall[half::2] = self.recall[best, half::2]
        return recall


def frontiers(
    recall: xr.DataArray, carried: xr.DataArray, s: Settings, seed: int
) -> list[Frontier]:
    """Frontier of each condition, from recalls [condition, acquisition_seed, budget, pool] and the
    same with the error of the judges' calibration."""
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
    price_rows(s, t)
    recall = calibration.by_seed(ds["recall"], s.n_seeds)
    open_ = calibration.opened_by_seed(ds["recall"], ds, s.n_seeds)
    assert open_ is not None  # every judge here is a twin
    at = {"budget": list(s.budget)}
    t.means("recall", recall.sel(at), carried=calibration.drawn_from(open_.sel(at), SHARE))
    curves = frontiers(recall, open_["pools"], s, t.seed)
    for frontier in curves:
        reached(frontier, s, t)
    for rule in s.rule:
        cheap, _, dear = (f for f in curves if f.row["rule"] == rule)
        compare(cheap, dear, s, t)


def price_rows(s: Settings, t: Table) -> None:
    """Add what follows from prices alone: cost of a budget, without and with a gate's labels."""

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
    """Add recall at the best budget, which a study of the paper's size chooses on the pools whose
    recall it reports; and each target's cost and the share of such studies that reach it."""
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
    """Add how many times cheaper the cheap judge reaches each target than the dear one, without a
    gate's labels and with a pool's share of them."""
    n = cheap.recall.shape[-1]
    of_dear = twins.known()[s.dear].pools
    for target in s.target:
        cheap_dollars, dear_dollars = cheap.reach(target), dear.reach(target)
        for sharing in (None, *s.n_pools_sharing):
            labels = s.labels / sharing if sharing else 0.0

            def studies(
                size: int, _: int | None, target: float = target, labels: float = labels
            ) -> np.ndarray:
                return _ratio(dear.reach(target, of_dear), cheap.reach(target, size) + labels)

            times = _ratio(dear_dollars, cheap_dollars + labels)
            interval = prices.of_resamples(times[1:], n)
            where = {**cheap.row, "target": target, "n_pools_sharing": sharing}
            t.add("times_cheaper", times[0], interval, n, studies=studies, **where)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / below


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows beside the paper's numbers and costs of the targets; not every budget."""
    whole = table.quantity.isin(["best_recall", "cost_to_reach", "reached_by_studies"])
    times = (table.quantity == "times_cheaper") & table.estimate.notna()
    return table[whole | times | table.paper.notna()]


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from . import drawing

    return drawing.figure(ds, table, s)


SWEEP = declare.legacy(
    "cost",
    "What recall costs: a cheap judge corrected against a dear one, and a gate's labels shared.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units=calibration.UNITS,
    headline=headline,
)
