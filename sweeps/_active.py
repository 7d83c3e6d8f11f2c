"""What the two experiments on acquisition share: the settings, the run of one pool, and the
comparison of rules with the pool as the unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import judges, metrics, pairs, pools, stats, study
from jbt.acquisition import RULES, Loop, Task, reports, run
from jbt.acquisition.loop import Queries
from jbt.acquisition.rules import families
from jbt.acquisition.run import check as check_run
from jbt.simulate import Condition, Experiment, stream
from jbt.types import Prior, Variant, check_positive

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

REFERENCE = "top_k_aware"
"""Each family of rules is compared with this one and corrected for itself (Holm), as the paper does
with its five baselines."""
SMALL_STUDY = 10
"""Pools of the paper's tests (count)."""
LEADING = (
    "protocol",
    "judge",
    "bias",
    "position",
    "discrimination",
    "model",
    "rule",
    "refit_every",
    "budget",
)
SETTING = LEADING[:-1]


@dataclass(frozen=True, kw_only=True)
class Settings(study.Settings):
    pools: int = 1000
    """Pools simulated at every condition (count)."""
    rule: tuple[str, ...] = tuple(RULES)
    """Acquisition rules; top_k_aware, with which the others are compared, among them."""
    budget: tuple[int, ...] = (60, 120, 200, 320)
    """Budgets of the table (verdicts); runs go on to the largest."""
    n_seeds: int = 4
    """Acquisition seeds a pool (count), averaged within the pool."""
    bias: float = 1.5
    """True bias c* (logits for x = 1 over x = 0)."""
    position: float = 0.35
    """True position bias kappa* (logits in favour of the first shown)."""
    sd: float = 1.25
    """Standard deviation of quality (logits)."""
    n_items: int = 30
    """Items of a pool, half of them with x = 1 (count)."""
    k: int = 5
    """Size of the top set (count)."""
    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa (1/logit^2)."""
    n_samples: int = 1500
    """Draws for the membership (count)."""


@dataclass(frozen=True)
class Case:
    """A judge and the model inside the loop."""

    judge: str
    bias: float
    position: float
    discrimination: float
    model: str = "bias_aware"
    argmax: bool = False
    """Frozen verdicts are the more probable ones instead of draws."""


def experiment(s: Settings, settings: Loop) -> Experiment:
    """Run one rule on one pool; the condition holds the case and the acquisition seed."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = pools.gaussian(
            stream(key, "pool"), s.n_items, sd=s.sd, rho=jnp.zeros(()), covariate="binary"
        )
        judge = judges.of_condition(condition)
        probability = judges.verdict_probability(pool, judge)
        out = {}
        if settings.protocol == "frozen":
            drawn = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
            likelier = judges.frozen_argmax(stream(key, "pair noise"), pool, judge)
            answers = jnp.where(condition["argmax"] > 0, likelier, drawn)
        else:
            answers = probability
            uncertain = (probability > 0.2) & (probability < 0.8)
            every = pairs.every_pair(pool)
            out["uncertain"] = (uncertain * every).sum() / every.sum()
        free = condition["aware"] > 0
        variant, prior = Variant(free[None], free), Prior(s.lam, s.lam_b)
        task = Task.build(pool, answers, variant=variant, prior=prior)
        own = jax.random.fold_in(stream(key, "acquisition"), condition["seed"])
        trace = run(own, task, settings, s.budget)
        at = np.searchsorted(reports(s.budget, settings.refit_every), reported(s, settings))
        out |= {"recall": trace.recall[at], "status": trace.status.max()}
        return out | allocations(s, trace.queries, pool.quality)

    return one


def reported(s: Settings, settings: Loop) -> np.ndarray:
    """Budgets whose recall is kept: the whole curve of cached verdicts, else those of the table,
    which do not depend on R."""
    whole = settings.protocol == "frozen"
    return reports(s.budget, settings.refit_every) if whole else np.array(s.budget)


def allocations(s: Settings, queries: Queries, quality: Array) -> dict[str, Array]:
    """Share of the showings by distance from the boundary, at each budget of the table."""
    rows = []
    for budget in s.budget:
        shown = jnp.concatenate([queries.first[:budget], queries.second[:budget]])
        counts = (shown == jnp.arange(s.n_items)[:, None]).sum(1).astype(quality.dtype)
        rows.append(metrics.allocation(counts, quality, s.k))
    return {"allocation": jnp.stack(rows)}


def group(
    s: Settings, rule: str, cases: Sequence[Case], *, protocol: str, refit_every: int
) -> study.Group:
    """All cases and seeds of one rule: one compiled kernel."""
    settings = Loop(rule, s.k, refit_every, protocol, s.n_samples)
    each = [(case, seed) for case in cases for seed in range(s.n_seeds)]
    conditions = {
        name: np.array([float(getattr(c, name)) for c, _ in each])
        for name in ("bias", "position", "discrimination", "argmax")
    }
    conditions["aware"] = np.array([float(c.model == "bias_aware") for c, _ in each])
    conditions["seed"] = np.array([seed for _, seed in each])
    constant = {"protocol": protocol, "rule": rule, "refit_every": refit_every}
    labels: dict[str, Sequence[Any]] = {k: [v] * len(each) for k, v in constant.items()}
    for name in ("judge", "bias", "position", "discrimination", "model"):
        labels[name] = [getattr(c, name) for c, _ in each]
    labels["acquisition_seed"] = [seed for _, seed in each]
    at = reported(s, settings).tolist()
    distances = list(range(max(s.k, s.n_items - s.k)))
    return study.Group(
        f"{protocol}-{refit_every}-{rule}",
        experiment(s, settings),
        conditions,
        labels,
        s.n_items,
        s.pools,
        axes={
            "recall": {"budget": at},
            "allocation": {"table_budget": list(s.budget), "distance": distances},
        },
        fits=len(reports(s.budget, refit_every)),
    )


def check(s: Settings, protocol: str, refit_every: Sequence[int]) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    for name in ("sd", "lam", "lam_b", "discrimination"):
        value = getattr(s, name, None)
        if value is not None:
            check_positive(name, value)
    for name in ("bias", "position"):
        if not np.isfinite(getattr(s, name)):
            raise ValueError(f"{name} must be finite, got {getattr(s, name)}")
    if s.n_items < 4:
        raise ValueError(f"n_items must be at least 4, got {s.n_items}")
    if s.n_seeds < 1:
        raise ValueError(f"n_seeds must be at least 1, got {s.n_seeds}")
    if not s.budget or list(s.budget) != sorted(set(s.budget)):
        given = " ".join(map(str, s.budget)) or "nothing"
        raise ValueError(f"budget must be an increasing list, got {given}")
    if REFERENCE not in s.rule:
        raise ValueError(f"rule must include {REFERENCE}, with which the others are compared")
    if len(set(s.rule)) < len(s.rule):
        raise ValueError(f"rule lists a name twice: {' '.join(s.rule)}")
    if not refit_every or len(set(refit_every)) < len(refit_every):
        raise ValueError("refit_every must list at least one value, and none twice")
    design = pools.gaussian(
        jax.random.key(0), s.n_items, sd=1.0, rho=0.0, covariate="binary"
    ).design
    for rule in s.rule:
        for r in refit_every:
            settings = Loop(rule, s.k, r, protocol, s.n_samples)
            check_run(design, settings, reports(s.budget, r))


# --- from the saved results


def by_setting(ds: xr.Dataset, metric: str) -> dict[tuple[Any, ...], np.ndarray]:
    """Setting -> the metric [pools, axes], seeds averaged within the pool."""
    values = ds[metric].values.astype(float)
    columns = [ds[name].values.tolist() for name in SETTING]
    rows: dict[tuple[Any, ...], list[int]] = {}
    for i, setting in enumerate(zip(*columns, strict=True)):
        rows.setdefault(setting, []).append(i)
    return {setting: values[at].mean(0) for setting, at in rows.items()}


def with_rule(setting: tuple[Any, ...], rule: str) -> tuple[Any, ...]:
    at = SETTING.index("rule")
    return (*setting[:at], rule, *setting[at + 1 :])


def field(setting: tuple[Any, ...], name: str) -> Any:
    return setting[SETTING.index(name)]


Paper = Mapping[tuple[str, str, str, int, int], float]
"""(quantity, model, rule, refit_every, budget) -> the paper's number."""


def rows(ds: xr.Dataset, s: Settings, paper: Paper) -> list[list[Any]]:
    """Recall, difference from the reference with its tests, and allocation, for every setting and
    budget of the table. The paper's numbers stand beside the default judge's."""
    every = by_setting(ds, "recall")
    at = np.searchsorted(ds["budget"].values, s.budget)
    recall = {setting: values[:, at].T for setting, values in every.items()}  # [budgets, pools]
    share = by_setting(ds, "allocation")
    tests = compare(recall, s)
    out = []
    for setting, values in recall.items():
        quantities = {
            "recall": np.stack(stats.mean_interval(values, seed=s.seed)),
            **tests.get(setting, {}),
            "share_at_boundary": np.stack(
                stats.mean_interval(share[setting][:, :, 0].T, seed=s.seed)
            ),
        }
        comparable = field(setting, "judge") == "default" and is_default(s)
        which = tuple(field(setting, name) for name in ("model", "rule", "refit_every"))
        for b, budget in enumerate(s.budget):
            for name, numbers in quantities.items():
                ours = [*numbers[:, b], *[None] * (3 - len(numbers))]
                beside = paper.get((name, *which, budget)) if comparable else None
                known = int(np.isfinite(values[b]).sum())
                out.append([*setting, budget, name, *ours, known, beside])
    return out


def is_default(s: Settings) -> bool:
    """Whether the pools and the judge are those that the paper's numbers are set beside."""
    names = ("bias", "position", "sd", "n_items", "k", "lam", "lam_b")
    names += tuple(n for n in ("discrimination", "uncertain") if hasattr(s, n))
    return all(getattr(s, name) == getattr(type(s), name) for name in names)


def compare(
    recall: Mapping[tuple[Any, ...], np.ndarray], s: Settings
) -> dict[tuple[Any, ...], dict[str, np.ndarray]]:
    """Each rule against the reference, for the same judge, model and refits: setting -> name ->
    [estimate (low, high), budgets]. Corrected within each family, as far as it was run, at each
    budget; a small study has as many acquisition seeds a pool as this one."""
    out = {}
    for reference, base in recall.items():
        if field(reference, "rule") != REFERENCE:
            continue
        for family in families().values():
            mine = [with_rule(reference, rule) for rule in family if rule != REFERENCE]
            mine = [setting for setting in mine if setting in recall]
            if not mine:
                continue
            delta = np.stack([recall[setting] - base for setting in mine])  # [F, budgets, P]
            p = stats.holm(stats.paired_permutation(delta, seed=s.seed).T).T
            power = [
                stats.small_study_power(delta[:, b], size=SMALL_STUDY, seed=s.seed)
                for b in range(delta.shape[1])
            ]
            for f, setting in enumerate(mine):
                out[setting] = {
                    "delta": np.stack(stats.mean_interval(delta[f], seed=s.seed)),
                    "p_holm": p[f][None],
                    "power_at_10_pools": np.stack(power, axis=1)[f][None],
                }
    return out


TEST_BUDGET = 120
"""Of the paper's tests (verdicts)."""


def budget_of_tests(s: Settings) -> int:
    """The paper's, or the largest where it is not in the table."""
    return TEST_BUDGET if TEST_BUDGET in s.budget else s.budget[-1]


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """What is printed: recall and differences at one budget, and what has none of its own."""
    everywhere = ~table.quantity.isin(
        ["recall", "delta", "p_holm", "power_at_10_pools", "share_at_boundary"]
    )
    shown = table.quantity.isin(["recall", "delta", "p_holm", "power_at_10_pools"])
    return table[everywhere | (shown & (table.budget == budget_of_tests(s)))]


UNITS = {
    "recall": "share of the top k",
    "allocation": "share of showings",
    "uncertain": "share of ordered pairs with 0.2 < p < 0.8",
    "status": "status of the fits, the worst of a run",
    "budget": "verdicts",
    "table_budget": "verdicts",
    "distance": "places from the boundary",
    "bias": "logits per unit of the covariate",
    "position": "logits",
    "discrimination": "factor",
    "refit_every": "verdicts",
    "acquisition_seed": "id",
}


def draw_curve(
    ax: Axes, budget: np.ndarray, values: np.ndarray, rule: str, *, seed: int, label: str = ""
) -> Axes:
    """Mean recall [pools, budgets] against the budget, with its band."""
    from jbt import plots

    colour, line = (RULES[rule].colour, RULES[rule].line) if rule in RULES else ("black", ":")
    mean, low, high = stats.mean_interval(values.T, seed=seed)
    colour = plots.COLOURS[colour]
    return plots.band(
        ax, budget, mean, low, high, colour=colour, label=label or rule, linestyle=line
    )
