"""Sweeps on acquisition: settings, the run of one rule on one pool, and the comparison of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from jbt import stats, twins
from jbt.acquisition import RULES, Loop, Task, Trace, panel_rules, reports, run
from jbt.acquisition.loop import Queries, refit
from jbt.acquisition.panel_rules import alike, one_of
from jbt.acquisition.rules import DEFAULT_RULES, families
from jbt.acquisition.runs import bought
from jbt.acquisition.runs import check as check_run
from jbt.experiments.declare import Group, Sweep, check_increasing
from jbt.experiments.labelled_arrays import SEEDS, rows_of, scalars, where
from jbt.experiments.plots import Line, lines_of
from jbt.experiments.table import Table
from jbt.kernel import metrics
from jbt.kernel.membership import DRAWS
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Design, Parameters, Pool, Prior, Variant, check_count

from . import calibration
from .calibration import SHARE, SIGNED, add_means
from .judge import Case, JudgeSettings
from .scenario import MapPrior

REFERENCE = "top_k_aware"
"""The rule that each family of rules is compared with. Holm's correction is within a family, as
over the paper's five baselines."""
PAPER: dict[str, Any] = {"pools": 10, "n_samples": 1500, "membership": "counted"}
"""Sizes of the paper's runs of rules, beside the acquisition seeds."""
SMOKE: dict[str, Any] = {
    "pools": 16,
    "rule": (REFERENCE, "round_robin", "entropy_reduction_fresh"),
    "budget": (16, 40),
    "n_seeds": 2,
}
SMALL_STUDY = 10
"""Pools of each of the paper's tests (count)."""
TEST_BUDGET = 120
"""Budget of the paper's tests (verdicts)."""


@dataclass(frozen=True, kw_only=True)
class RunSettings(Sweep):
    """Repeats of the active loop on a pool, and its estimate of the membership."""

    n_seeds: Annotated[int, check_count] = 4
    """Number of acquisition seeds for each pool, over which its results are averaged."""
    n_samples: int | None = None
    """Number of draws for the membership probabilities. By default 64, or 1500 with --membership
    counted."""
    membership: str = "conditional"
    """How membership probabilities are estimated. conditional: the mean over scrambled Sobol draws
    of each item's chance given the rest of the draw. counted: the share of antithetic normal draws,
    as in the paper."""

    def decided(self):
        s = super().decided()
        return s if s.n_samples is not None else replace(s, n_samples=DRAWS.get(s.membership))

    def loops(
        self, rules: Sequence[str], k: int, refit_every: int, protocol: str = "frozen"
    ) -> list[Loop]:
        """The loop of each rule."""
        how = k, refit_every, protocol, self.n_samples, self.membership
        return [Loop(rule, *how) for rule in rules]


def check_rules(name: str, rules: Sequence[str]) -> None:
    """Raise `ValueError` for an unknown rule, one named twice, or no reference among them."""
    for rule in rules:
        panel_rules.resolve(rule)
    if REFERENCE not in rules:
        raise ValueError(f"{name} must include {REFERENCE}, with which the others are compared")
    if len(set(rules)) < len(rules):
        raise ValueError(f"{name} lists a name twice: {' '.join(rules)}")


def check_runs(n_items: int, loops: Sequence[Loop], budgets: Sequence[int]) -> None:
    """Raise `ValueError` for runs that make no sense; see `jbt.acquisition.run`."""
    # Made without compiling anything.
    x, items = jnp.asarray(np.zeros((n_items, 1))), jnp.asarray(np.ones(n_items, bool))
    for loop in loops:
        check_run(Design(x, None, items, n_items), loop, reports(budgets, loop.refit_every))


@dataclass(frozen=True, kw_only=True)
class Active(MapPrior, RunSettings, JudgeSettings):
    """Acquisition rules on one judge's pools."""

    columns = (
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
    units = {"share_at_boundary": "share of showings", **calibration.UNITS}
    panel_size = {"below": {"ncols": 4, "fontsize": 9}}

    pools: int = 1000
    rule: Annotated[tuple[str, ...], check_rules] = DEFAULT_RULES
    """Acquisition rules. The others are compared with top_k_aware, which must be among them."""
    budget: tuple[int, ...] = (60, 120, 200, 320)
    """Budgets of the table, in verdicts. Runs end at the largest."""

    def check(self):
        super().check()
        check_increasing("budget", self.budget)
        if not self.refits or len(set(self.refits)) < len(self.refits):
            raise ValueError("refit_every must list at least one value, and none twice")
        for r in self.refits:
            loops = self.loops(self.rule, self.k, r, self.protocol)
            check_runs(self.n_items, loops, self.budget)
        pool = str(self.pool), self.n_items, self.max_correlation
        pools.check_balance(*pool, k=self.k, rho=[0.0], covariate="binary")

    @property
    def refits(self) -> tuple[int, ...]:
        """Each R, verdicts between refits."""
        raise NotImplementedError

    def cases(self, rule: str) -> list[Case]:
        """Judges and models that a rule is run with, the settings' judge first."""
        return [self.case()]

    def reported(self, refit_every: int) -> list[int]:
        """Budgets whose recall is kept: the whole curve with cached verdicts, else those of the
        table, which do not depend on R."""
        whole = self.protocol == "frozen"
        return reports(self.budget, refit_every).tolist() if whole else [*self.budget]

    def experiment(self, loop, key, condition):
        """Run one rule on one pool; the condition holds the case and the acquisition seed."""
        condition, steps = twins.displaced(key, condition)
        pool = self.draw(stream(key, "pool"))
        answers = twins.answers(key, pool, condition)
        out = {"targets": twins.observed(answers, pool, self.k, self.prior), "steps": steps}
        if self.protocol != "frozen":
            answers = twins.probability(key, pool, condition)
            uncertain = (answers > twins.DOUBT[0]) & (answers < twins.DOUBT[1])
            every = pairs.every_pair(pool)
            out["uncertain"] = (uncertain * every).sum() / every.sum()
        task = task_of(pool, answers, condition, self.prior)
        run_key = jax.random.fold_in(stream(key, "acquisition"), condition["seed"])
        trace = run(run_key, task, loop, self.budget)
        return out | {
            "recall": recall_at(self.reported(loop.refit_every), trace, loop.refit_every),
            "status": trace.status.max(),
            "share_at_boundary": share_at_boundary(
                self.budget, self.k, trace.queries, pool.quality
            ),
        }

    def groups(self):
        """The seeds of a rule and a case; and of a twin as calibrated, two displaced ones with one
        acquisition seed."""
        groups = []
        for r in self.refits:
            programs = shared(self.experiment, self.loops(self.rule, self.k, r, self.protocol))
            axes = {
                "recall": {"budget": self.reported(r)},
                "share_at_boundary": {"table_budget": self.budget},
                **calibration.AXES,
            }
            for rule, case, seeds, ways in self.runs():
                experiment, number = programs[rule]
                n = len(ways)
                judge = judges.conditions([case.judge] * n)
                judge |= {"pair_noise": np.full(n, case.pair_noise), "displaced": np.array(ways)}
                constant = {"protocol": self.protocol, "rule": rule, "refit_every": r}
                constant |= {"judge": case.name, "model": case.model}
                conditions = judge | {
                    "rule": number,
                    "argmax": np.full(n, float(self.oracle == "argmax")),
                    "aware": np.full(n, float(case.model == "bias_aware")),
                    "seed": np.array(seeds),
                }
                group = Group(
                    f"{self.protocol}-{len(groups)}-{r}-{rule}",
                    experiment,
                    conditions,
                    {**{name: [v] * n for name, v in constant.items()}, SEEDS: seeds, **judge},
                    self.n_items,
                    self.pools,
                    axes,
                    fits=len(reports(self.budget, r)),
                )
                groups.append(group)
        return groups

    def runs(self) -> Iterator[tuple[str, Case, Sequence[int], Sequence[float]]]:
        """Rule, case, acquisition seeds and displacements of each group."""
        for rule in self.rule:
            for case in self.cases(rule):
                yield rule, case, range(self.n_seeds), [0.0] * self.n_seeds
                if case.name == self.judge:
                    yield rule, case, [0] * len(twins.DISPLACED), twins.DISPLACED

    # --- the table

    def table(self, ds, t):
        """Recall, its difference from the reference with tests, and the allocation, for every
        setting and budget of the table."""
        recall = self.opened(ds["recall"].sel(budget=list(self.budget)), ds)
        add_means(t, "recall", recall, SHARE)
        for base, same in references(recall):
            for names in families().values():
                rules = [name for name in names if name != REFERENCE]
                # Without the labels of the reference, those of the rules remain.
                delta = where(recall, rule=rules, **same) - base.reset_coords(drop=True)
                if delta.sizes["condition"]:
                    self.compare(delta, len(rules), t)
        for base, same in references(recall["value"]):
            self.ahead(where(recall["value"], rule=families()["baselines"], **same), base, t)
        share = ds["share_at_boundary"].rename(table_budget="budget")
        add_means(t, "share_at_boundary", self.opened(share, ds), SHARE)

    def opened(self, values: xr.DataArray, ds: xr.Dataset) -> xr.Dataset:
        """A metric [condition, acquisition_seed, ..., pool], beside the same with the error of the
        judges' calibration."""
        return calibration.opened_by_seed(values, ds, self.n_seeds)

    def compare(self, opened: xr.Dataset, n_rules: int, t: Table) -> None:
        """Compare a family of rules, of n_rules, with the reference, for the same judge, model and
        refits. Tests are corrected at each budget within the family, as far as it was run. A small
        study has as many acquisition seeds a pool as this one, a replicate of the paper's study as
        many as that. The paper's p-values, corrected for a whole family, stand beside those of a
        whole family alone.

        A replicate has the paper's pools, but at most our number of acquisition seeds: exact
        p-values depend on ties between recalls, which means over another number of seeds would not
        have.
        """
        add_means(t, "delta", opened, SIGNED)
        delta = opened["value"]
        beside = "p_holm" if len(delta) == n_rules else ""
        for budget in delta["budget"].values:
            at_budget = delta.sel(budget=budget)
            by_pool = at_budget.values.astype(float)
            p = stats.holm(stats.paired_permutation(by_pool.mean(1), seed=t.seed))
            power = stats.small_study_power(by_pool.mean(1), size=SMALL_STUDY, seed=t.seed)
            for f, (row, _) in enumerate(rows_of(at_budget, t.columns)):

                def studies(
                    size: int, seeds: int | None, f: int = f, by_pool: np.ndarray = by_pool
                ) -> np.ndarray:
                    mean = by_pool[:, :seeds].mean(1)
                    return stats.small_study_p(mean, size=size, seed=t.seed)[:, f]

                row["n_pools"] = delta.sizes["pool"]
                t.add("p_holm", p[f], studies=studies, beside=beside, **row)
                t.add("power_at_10_pools", power[f], **row)

    def ahead(self, baselines: xr.DataArray, base: xr.DataArray, t: Table) -> None:
        """Share of studies of the paper's size in which the reference's difference from each of the
        paper's rules is significant: a claim."""
        if len(baselines) < len(families()["baselines"]) or self.pools < 5 * SMALL_STUDY:
            return
        size = twins.known()[self.judge].pools if self.judge else SMALL_STUDY
        delta = baselines - base.reset_coords(drop=True)
        for budget in delta["budget"].values:
            pools = delta.sel(budget=budget).values.mean(1)
            p = stats.small_study_p(pools, size=size, seed=t.seed)
            row = {"n_pools": pools.shape[-1], "budget": budget, **scalars(base, t.columns)}
            t.add("told_from_all", (p < 0.05).all(1).mean(), **row)

    @property
    def budget_of_tests(self) -> int:
        """The paper's budget of tests, or the table's largest where that is missing."""
        return TEST_BUDGET if TEST_BUDGET in self.budget else self.budget[-1]

    def headline(self, table):
        """Rows to print: those at one budget, and quantities without a budget."""
        return table[table.budget.isna() | (table.budget == self.budget_of_tests)]

    def labels(self, title: str) -> tuple[str, str, str]:
        """Of a panel of recall against the budget."""
        found = f"share of the true top {self.k} found\n(bands: 95 % over {self.pools:,} pools)"
        return "verdicts asked for in a pool", found, title

    def lines(self, **labels: Any) -> list[Line]:
        """Lines of the rules that were run but for ablations, each in its style."""
        return lines_of((r for r in self.rule if RULES[r].family != "ablations"), **labels)


def shared(
    experiment: Callable[[Loop, Key[Array, ""], Condition], Any],
    loops: Sequence[Loop],
    n_judges: int = 1,
) -> dict[str, tuple[Experiment, np.int32]]:
    """For each rule of loops that differ in their rules alone, `experiment(loop, key, condition)`
    without the loop, and the rule's number, which condition["rule"] must be. Rules that need the
    same arithmetic get one object, hence one program in groups of as many conditions."""
    names, found = [str(loop.rule) for loop in loops], {}
    for rules in alike(names, n_judges):

        def run_of(key: Key[Array, ""], condition: Condition, rules: list[str] = rules) -> Any:
            loop = replace(loops[0], rule=one_of(rules, condition["rule"]))
            return experiment(loop, key, condition)

        found |= {rule: (run_of, np.int32(number)) for number, rule in enumerate(rules)}
    return found


def references(recall: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The runs of the reference, with the labels of the runs that each is compared with."""
    for at in np.flatnonzero(recall["rule"].values == REFERENCE):
        base = recall.isel(condition=at)
        yield base, {name: base[name].item() for name in ("judge", "model", "refit_every")}


def share_at_boundary(
    budgets: Sequence[int], k: int, queries: Queries, quality: Float[Array, " M"]
) -> Float[Array, " budgets"]:
    """Share of the showings that the two items at the boundary get, at each budget. Items of equal
    quality are ranked by their numbers."""
    item = jnp.arange(len(quality))
    before = (quality > quality[:, None]) | ((quality == quality[:, None]) & (item < item[:, None]))
    place = before.sum(1)
    rows = []
    for budget in budgets:
        shown = jnp.concatenate([queries.first[:budget], queries.second[:budget]])
        counts = (shown == item[:, None]).sum(1).astype(quality.dtype)
        at_boundary = (place == k - 1) | (place == k)
        rows.append(jnp.where(at_boundary, counts, 0).sum() / counts.sum())
    return jnp.stack(rows)


def recall_at(budgets: Sequence[int], trace: Trace, refit_every: int) -> Float[Array, " budgets"]:
    """Recall of a run of one judge at its budgets."""
    return trace.recall[np.searchsorted(reports(budgets, refit_every), budgets)]


def variant_of(condition: Condition) -> Variant:
    """The bias-aware model, or the naive one where the condition says so."""
    free = condition["aware"] > 0
    return Variant(free[None], free)


def task_of(pool: Pool, answers: Array, condition: Condition, prior: Prior) -> Task:
    """The task with the model of the condition."""
    return Task.build(pool, answers, variant=variant_of(condition), prior=prior)


def task_of_two(
    pool: Pool,
    answers: Float[Array, "N N 2"],
    condition: Condition,
    prior: Prior,
    discrimination: float,
    price: Float[Array, " 2"],
    purse: float,
) -> Task:
    """As `task_of`, with a second judge of this discrimination and without biases, which the model
    knows; prices and purse in one unit."""
    free = jnp.stack([condition["aware"] > 0, jnp.array(False)])
    return Task.build(
        pool,
        answers,
        variant=Variant(free[None], free),
        prior=prior,
        discrimination=jnp.array([1.0, discrimination]),
        price=price,
        purse=purse,
    )


def at_purses(queries: Queries, task: Task, purses: Sequence[float], k: int) -> dict[str, Array]:
    """Recall of the top k, verdicts of the last judge (count) and status [purses], of a run of
    several judges: fits of all verdicts that each purse pays, also between two refits."""
    panelists, judge = task.panelists, queries.judge
    assert panelists is not None
    assert judge is not None  # with several judges, every query names its judge
    spent = jnp.cumsum(jnp.where(judge < 0, 0.0, panelists.price[judge.clip(0)]))

    def at(purse: Array) -> dict[str, Array]:
        paid = (spent <= purse * (1 + 1e-5)) & (judge >= 0)
        start = Parameters.zeros(task.design, task.n_judges)
        parameters, status = refit(bought(queries, paid, task), start, task)
        recall = metrics.top_k_recall(parameters.theta, task.quality, k)
        asked = (paid & (judge == len(panelists.price) - 1)).sum()
        return {"recall": recall, "reference_asked": asked, "status": status}

    return jax.vmap(at)(jnp.asarray(purses, spent.dtype))


def at_best_budget(recall: Float[np.ndarray, "... T P"]) -> Float[np.ndarray, "... P"]:
    """Recall of each pool at the budget that is best for the other half of the pools; of one pool
    alone, at the last."""
    out = recall[..., -1, :].copy()
    for half in (0, 1) if out.shape[-1] > 1 else ():
        best = recall[..., 1 - half :: 2].mean(-1).argmax(-1)[..., None, None]
        out[..., half::2] = np.take_along_axis(recall[..., half::2], best, -2)[..., 0, :]
    return out
