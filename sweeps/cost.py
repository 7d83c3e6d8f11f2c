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

from jbt import pools, stats, study, sweep, twins
from jbt.acquisition import RULES, Loop, Task, reports, run
from jbt.membership import DRAWS
from jbt.simulate import Condition, Experiment, stream
from jbt.tables import SEEDS, Table
from jbt.types import Variant, check_count
from sweeps import _active as active
from sweeps import _prices as prices

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_ITEMS, K = 30, 5
"""Of the pools that the twins are calibrated on."""
COLUMNS = ("judge", "budget", "n_pools_sharing", "model", "rule", "target")
PRICES = (
    *("cheap_input", "cheap_output", "dear_input", "dear_output"),
    *("input_tokens", "output_tokens", "cheap_reasoning", "dear_reasoning", "label_price"),
)


@dataclass(frozen=True, kw_only=True)
class Settings(sweep.Settings):
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
    """Qualities of the items that are not fully correct, one of `jbt.pools.OTHERS`."""
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
    sweep.check_listed("rule", s.rule, list(RULES))
    sweep.check_increasing("budget", s.budget, least=s.refit_every, most=N_ITEMS * (N_ITEMS - 1))
    sweep.check_increasing("target", s.target, least=0.01, most=1)
    sweep.check_increasing("n_pools_sharing", s.n_pools_sharing, least=1)


def cases(s: Settings) -> list[tuple[str, str]]:
    """Judges and the models inside the loop."""
    return [(s.cheap, "bias_aware"), (s.cheap, "naive"), (s.dear, "naive")]


def groups(s: Settings) -> list[sweep.Group]:
    """One group a rule: all judges, models and acquisition seeds share a kernel."""
    check(s)
    each = [(judge, model, seed) for judge, model in cases(s) for seed in range(s.n_seeds)]
    conditions = twins.conditions(
        [twins.twin(judge, oracle=s.oracle, others=s.others) for judge, *_ in each]
    )
    conditions["aware"] = np.array([float(model == "bias_aware") for _, model, _ in each])
    conditions["seed"] = np.array([seed for *_, seed in each])
    labels = {
        "judge": [judge for judge, *_ in each],
        "model": [model for _, model, _ in each],
        SEEDS: [seed for *_, seed in each],
    }
    at = reports(s.budget, s.refit_every).tolist()
    return [
        sweep.Group(
            rule,
            experiment(s, Loop(rule, K, s.refit_every, "frozen", s.n_samples, s.membership)),
            conditions,
            {**labels, "rule": [rule] * len(each)},
            N_ITEMS,
            s.pools,
            axes={"recall": {"budget": at}},
            fits=len(at),
        )
        for rule in s.rule
    ]


def experiment(s: Settings, loop: Loop) -> Experiment:
    """One run on one pool; the condition holds the twin, the model and the acquisition seed."""
    draw = twins.paper_pool(s.others, n_items=N_ITEMS, k=K)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        free = condition["aware"] > 0
        answers = twins.answers(key, pool, condition)
        task = Task.build(pool, answers, variant=Variant(free[None], free))
        own = jax.random.fold_in(stream(key, "acquisition"), condition["seed"])
        trace = run(own, task, loop, s.budget)
        return {"recall": trace.recall, "status": trace.status.max()}

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
        return stats.bootstrap_means(
            self.recall, seed=self.seed, size=size, resamples=stats.REPLICATES
        )

    def at_best_budget(self) -> np.ndarray:
        """[P] recall at the budget that is best for the other half of the pools."""
        found = self.recall[-1].copy()
        for half in (0, 1) if found.size > 1 else ():
            best = self.recall[:, 1 - half :: 2].mean(-1).argmax()
            found[half::2] = self.recall[best, half::2]
        return found


def frontiers(recall: xr.DataArray, s: Settings, seed: int) -> list[Frontier]:
    """Of recalls [condition, acquisition_seed, budget, pool]."""
    budgets = recall["budget"].values.astype(float)
    values = recall.mean(SEEDS).transpose("condition", "budget", "pool")
    data = values.values.astype(float)
    means = np.concatenate([data.mean(-1)[None], stats.bootstrap_means(data, seed=seed)])
    names = ("judge", "model", "rule")
    rows = [{name: str(values[name].values[i]) for name in names} for i in range(len(data))]
    return [
        Frontier(row, budgets * s.verdict_price[row["judge"]], data[i], means[:, i], seed)
        for i, row in enumerate(rows)
    ]


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    of_prices(s, t)
    recall = active.by_seed(ds["recall"], s.n_seeds)
    t.means("recall", recall.sel(budget=list(s.budget)))
    found = frontiers(recall, s, t.seed)
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
        interval = prices.of_resamples(dollars[1:])
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
            interval = prices.of_resamples(times[1:])
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


PAPERS_BUDGETS = (200, 528, 800)
"""Of its points, of the dear judge by its prices."""
STYLES = {
    ("cheap", "bias_aware"): ("blue", "corrected"),
    ("cheap", "naive"): ("sky", "not corrected"),
    ("dear", "naive"): ("vermilion", "not corrected"),
}


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    from jbt import plots

    fig, axes = plots.new_figure(2, width=5.8, height=5.2)
    draw_frontier(axes[0], ds, table, s)
    draw_times(axes[1], table, s)
    return fig


def draw_frontier(ax: Axes, ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Axes:
    """Recall against dollars, the paper's points, and where studies of its size fall here."""
    from jbt import plots

    t = Table(COLUMNS, s)
    t.means("recall", active.by_seed(ds["recall"], s.n_seeds))
    rows = t.frame()
    sides = {s.cheap: "cheap", s.dear: "dear"}
    for (judge, model, rule), mine in rows.groupby(["judge", "model", "rule"], sort=False):
        mine = mine.assign(dollars=mine.budget.astype(float) * s.verdict_price[str(judge)])
        colour, corrected = STYLES[sides[str(judge)], str(model)]
        line = "-" if rule == s.rule[0] else ":"
        label = f"{judge}, {corrected}, {rule}"
        plots.line(ax, mine, "dollars", colour=colour, label=label, linestyle=line)
    for side, (judge, model) in zip(("cheap", "dear"), cases(s)[::2], strict=True):
        mine = table[(table.judge == judge) & (table.model == model) & table.paper.notna()]
        colour = plots.COLOURS[STYLES[side, model][0]]
        size = twins.known()[judge].pools
        studies = mine[(mine.quantity == "recall") & (mine.rule == s.rule[0])]
        studies = studies[studies.budget.isin(PAPERS_BUDGETS)]
        at = studies.budget.astype(float) * s.verdict_price[judge]
        label = f"95 % of studies of {size} pools" if len(studies) else None
        ax.vlines(at, studies.replicate_low, studies.replicate_high, colour, lw=3, alpha=0.5)
        ax.plot([], [], color=colour, lw=3, alpha=0.5, label=label)
        points = mine[(mine.quantity == "cost_to_reach") & (mine.rule == s.rule[0])]
        label = f"paper, {judge}" if len(points) else None
        ax.plot(points.paper, points.target, "x", ms=9, mew=2, color=colour, label=label)
    ax.set_xscale("log")
    ax.set_xlabel("dollars a pool, comparisons alone")
    ax.set_ylabel(f"recall of the top {K}")
    ax.set_title(f"{s.pools:,} pools (95 % bands)")
    ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    return ax


def draw_times(ax: Axes, table: pd.DataFrame, s: Settings) -> Axes:
    """How many times cheaper the cheap judge is, where both reach a target."""
    from jbt import plots

    rows = table[(table.quantity == "times_cheaper") & (table.rule == s.rule[0])]
    sharing = [None, *s.n_pools_sharing]
    for i, (n, colour) in enumerate(zip(sharing, plots.CYCLE * len(sharing), strict=False)):
        mine = rows[rows.n_pools_sharing.isna() if n is None else rows.n_pools_sharing == n]
        label = (
            "no gate"
            if n is None
            else f"gate shared by {n:,} pools"
            if n > 1
            else "gate for one pool"
        )
        known = mine.dropna(subset="ci_low")
        at = known.target.astype(float) + 0.002 * (i - len(sharing) / 2)
        plots.points(ax, known, at, colour=colour, label=label)
        papers = mine.dropna(subset="paper")
        ax.plot(papers.target, papers.paper, "x", ms=8, mew=2, color=colour)
    ax.axhline(1, color="black", linewidth=0.8)
    ax.set_xlim(min(s.target) - 0.02, max(s.target) + 0.02)
    ax.set_yscale("log")
    ax.set_xlabel("recall to be reached by both judges")
    ax.set_ylabel(f"{s.dear}'s cost over {s.cheap}'s, corrected")
    ax.set_title(f"Times cheaper, {s.rule[0]} (95 %; crosses: paper)")
    ax.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    return ax


SWEEP = sweep.Sweep(
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
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(study.main(SWEEP))
