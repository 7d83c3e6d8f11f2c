"""What recall costs: a cheap biased judge with the correction against a dear one without, in
dollars a pool, and what the labels of a gate add when pools share them.

The paper's cost figure and its table of the anchors' cost, with the twins of its judges on pools
like its own. The cheap judge is also run without the correction, as where a gate does not switch it
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from jbt import stats, twins
from jbt.acquisition import reports, run
from jbt.experiments.declare import Group, cases, check_increasing
from jbt.experiments.labelled_arrays import SEEDS
from jbt.experiments.plots import CYCLE, Line, Panel
from jbt.experiments.table import Table
from jbt.simulation.simulate import stream
from jbt.types import Prior

from ._shared import calibration, prices
from ._shared.active import RunSettings, at_best_budget, shared, task_of
from ._shared.calibration import SHARE

N_ITEMS, K = 30, 5
"""Size and top set of the pools that twins are calibrated on."""
CHEAP, DEAR = "gpt_4o_mini", "gpt_5_1"
"""The judge that is corrected, and the one that is not."""
CASES = {
    (CHEAP, "bias_aware"): ("GPT-4o-mini, corrected", "blue"),
    (CHEAP, "naive"): ("GPT-4o-mini, not corrected", "sky"),
    (DEAR, "naive"): ("GPT-5.1, not corrected", "vermilion"),
}
"""Judge and model inside the loop -> name and colour in the figure."""
RULES = ("top_k_aware", "random")
"""Acquisition rules."""
VERDICT_PRICE = {CHEAP: (293 * 0.15 + 16 * 0.60) / 1e6, DEAR: (293 * 1.25 + 16 * 10) / 1e6}
"""Dollars a comparison of 293 input tokens and 16 output tokens on average, by judge."""
LABELS = 40 * prices.LABEL
"""Dollars for the labels of one decision of the gate."""
REFIT_EVERY = 8
"""Verdicts between refits (count)."""


class Cell(NamedTuple):
    """A condition: runs of one rule from one acquisition seed."""

    judge: str
    model: str
    acquisition_seed: int
    displaced: float
    rule: str


@dataclass(frozen=True, kw_only=True)
class Cost(RunSettings):
    """What recall costs: a cheap judge corrected against a dear one, and a gate's labels shared."""

    name = "cost"
    shown = ("times_cheaper",)
    columns = ("judge", "budget", "n_pools_sharing", "model", "rule", "target")
    presets = {
        "smoke": {"pools": 16, "n_seeds": 2, "budget": (32, 64), "target": (0.4, 0.89)},
        "paper": {"pools": 5, "n_seeds": 8, "n_samples": 1500, "membership": "counted"},
    }
    units = calibration.UNITS
    panel_size = {"width": 4.6, "height": 4.8}

    pools: int = 1000
    budget: tuple[int, ...] = (30, 64, 120, 200, 264, 320, 400, 528, 600, 800, 870)
    """Budgets of the table (verdicts), increasing; curves end at the largest, at most 870. At the
    paper's prices 264 cost $0.014, 528 of the dear judge $0.28 and 800 $0.42."""
    target: Annotated[tuple[float, ...], partial(check_increasing, least=0.01, most=1)] = (
        0.6,
        0.65,
        0.7,
        0.75,
        0.89,
        0.93,
        1.0,
    )
    """Recalls to be reached, increasing, in (0, 1]; 1 means at least 0.995, which prints as 1."""

    def check(self):
        super().check()
        most = N_ITEMS * (N_ITEMS - 1)
        check_increasing("budget", self.budget, least=REFIT_EVERY, most=most)

    def experiment(self, loop, key, condition):
        """One run on one pool; the condition holds the twin, the model and the acquisition seed."""
        condition, steps = twins.displaced(key, condition)
        draw = twins.paper_pool(n_items=N_ITEMS, k=K)
        pool = draw(stream(key, "pool"), condition)
        answers = twins.answers(key, pool, condition)
        task = task_of(pool, answers, condition, Prior())
        run_key = jax.random.fold_in(stream(key, "acquisition"), condition[SEEDS])
        trace = run(run_key, task, loop, self.budget)
        of_calibration = {"targets": twins.observed(answers, pool, K), "steps": steps}
        return {"recall": trace.recall, "status": trace.status.max(), **of_calibration}

    def groups(self):
        """One group a rule."""
        runs = [(*case, seed, 0.0) for case in CASES for seed in range(self.n_seeds)]
        runs += [(*case, 0, way) for way in twins.DISPLACED for case in CASES]
        at = reports(self.budget, REFIT_EVERY).tolist()
        axes = {"recall": {"budget": at}, **calibration.AXES}
        of_judges = twins.conditions([twins.twin(judge) for judge, *_ in runs])
        loops, groups = self.loops(RULES, K, REFIT_EVERY), []
        for rule, (experiment, number) in shared(self.experiment, loops).items():
            cells = [Cell(*run, rule) for run in runs]
            conditions = cases(cells, aware=lambda cell: float(cell.model == "bias_aware"))
            conditions["conditions"] |= {**of_judges, "rule": number}
            groups.append(
                Group(
                    rule,
                    experiment,
                    **conditions,
                    n_items=N_ITEMS,
                    pools=self.pools,
                    axes=axes,
                    fits=len(at),
                )
            )
        return groups

    def table(self, ds, t):
        self.add_prices(t)
        recall = calibration.opened_by_seed(ds["recall"], ds, self.n_seeds)
        calibration.add_means(t, "recall", recall.sel(budget=list(self.budget)), SHARE)
        frontiers = self.frontiers(recall)
        for frontier in frontiers:
            self.add_reached(frontier, t)
        for rule in RULES:
            cheap, _, dear = (f for f in frontiers if f.row["rule"] == rule)
            self.add_comparison(cheap, dear, t)

    def add_prices(self, t: Table) -> None:
        """Add what follows from prices alone: cost of a budget, without and with a gate's
        labels."""

        def add(quantity: str, value: float, **columns: Any) -> None:
            t.add(quantity, value, studies=lambda *_: np.full(1, value), **columns)

        for (judge, price), budget in product(VERDICT_PRICE.items(), self.budget):
            add("cost", budget * price, judge=judge, budget=budget)
        for sharing in prices.SHARING:
            gated = {"judge": CHEAP, "n_pools_sharing": sharing}
            add("anchor_cost", LABELS / sharing, **gated)
            for budget in self.budget:
                alone = budget * VERDICT_PRICE[CHEAP]
                add("cost", alone + LABELS / sharing, budget=budget, **gated)
                add("overhead", 1 + LABELS / alone / sharing, budget=budget, **gated)

    def frontiers(self, recall: xr.Dataset) -> list[Frontier]:
        """Frontier of each condition, from recalls [condition, acquisition_seed, budget, pool]."""
        budgets = recall["budget"].values.astype(float)
        data, open_ = (
            recall[name].mean(SEEDS).transpose("condition", "budget", "pool").values
            for name in ("value", "pools")
        )
        resampled = stats.bootstrap_means(data, seed=self.seed)
        means = np.concatenate([data.mean(-1)[None], resampled])
        out = []
        for i in range(len(data)):
            row = {name: str(recall[name].values[i]) for name in ("judge", "model", "rule")}
            dollars = budgets * VERDICT_PRICE[row["judge"]]
            out.append(Frontier(row, dollars, data[i], open_[i], means[:, i], self.seed))
        return out

    def add_reached(self, frontier: Frontier, t: Table) -> None:
        """Add recall at the best budget, which a study of the paper's size chooses on the pools
        whose recall it reports; and each target's cost."""
        row = {**frontier.row, "n_pools": frontier.recall.shape[-1]}
        mean, *interval = stats.mean_interval(at_best_budget(frontier.recall), seed=self.seed)
        best = {"studies": lambda size, _: frontier.of_studies(size).max(-1)}
        t.add("best_recall", mean, interval, **best, **row)
        for target in self.target:
            reach = partial(frontier.reach, target)
            dollars, *resampled = reach()
            interval = prices.of_resamples(np.array(resampled), row["n_pools"])
            t.add("cost_to_reach", dollars, interval, studies=reach, target=target, **row)

    def add_comparison(self, cheap: Frontier, dear: Frontier, t: Table) -> None:
        """Add how many times cheaper the cheap judge reaches each target than the dear one, without
        a gate's labels and with a pool's share of them."""
        n, of_dear = cheap.recall.shape[-1], twins.known()[DEAR].pools

        def times(
            target: float, labels: float, dear_size: int | None, size: int | None, *_: Any
        ) -> np.ndarray:
            with np.errstate(divide="ignore", invalid="ignore"):
                return dear.reach(target, dear_size) / (cheap.reach(target, size) + labels)

        for target, sharing in product(self.target, (None, *prices.SHARING)):
            labels = LABELS / sharing if sharing else 0.0
            ratios = times(target, labels, None, None)
            interval = prices.of_resamples(ratios[1:], n)
            studies = partial(times, target, labels, of_dear)
            row = {**cheap.row, "target": target, "n_pools_sharing": sharing}
            t.add("times_cheaper", ratios[0], interval, n, studies=studies, **row)

    def panels(self, table):
        """Recall against dollars; and how many times cheaper the cheap judge is, where both reach a
        target."""
        frontiers = [
            Line(
                {"judge": judge, "model": model, "rule": rule},
                name if rule == RULES[0] else "",  # the dotted lines are of random pairs
                colour,
                {"ls": "-" if rule == RULES[0] else ":"},
            )
            for rule in RULES
            for (judge, model), (name, colour) in CASES.items()
        ]
        times = [
            Line(
                {"n_pools_sharing": n},
                f"gate, pools that share it: {n}" if n else "no gate",
                colour,
            )
            for n, colour in zip((0, *prices.SHARING), CYCLE, strict=False)
        ]
        dollars = table.budget.astype(float) * table.judge.map(VERDICT_PRICE)
        return [
            Panel(
                "dollars",
                {"quantity": "recall"},
                frontiers,
                (
                    "dollars for the verdicts on a pool",
                    f"recall of the top {K} (bands: 95 %)",
                    "The cheap judge, corrected, is cheaper\nbut does not reach a high recall",
                ),
                log="x",
                table=table.assign(dollars=dollars),
            ),
            Panel(
                "target",
                {"quantity": "times_cheaper", "rule": RULES[0]},
                times,
                (
                    f"recall of the top {K} that both judges reach",
                    "times cheaper than GPT-5.1 (bars: 95 %)",
                    "A gate's labels cost more than they save\n"
                    "if few pools share them (crosses: the paper)",
                ),
                log="y",
                level=1.0,
                points=True,
                table=table.fillna({"n_pools_sharing": 0}),
            ),
        ]


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

    def reach(self, target: float, size: int | None = None, *_: Any) -> np.ndarray:
        """[1 + R] dollars of the cheapest budget whose mean recall reaches the target, NaN if none
        does; with `size`, [R] of studies of so many pools."""
        means = self.means if size is None else self.of_studies(size)
        return prices.first_reached(self.dollars, means, min(target, twins.PERFECT))

    def of_studies(self, size: int) -> np.ndarray:
        """[R, T] mean recalls of studies of so many pools."""
        means = stats.study_means(self.carried, seed=self.seed, size=size, same_pools=True)
        return np.clip(means, *SHARE)


SWEEP = Cost

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
