"""A judge whose bias grows with quality: who still finds the top k, who measures the growth, and
where correction stops paying. Beyond the paper, whose judges have one bias each.

Bias and its growth gamma are in units of the quality that the judge sees: at gamma = 0.5 the bias
of an item grows by half of what its quality grows. Two kinds of pool: the paper's, of statements,
with a judge that gives its likelier verdict, and Gaussian ones, at several correlations of quality
and covariate, with one that draws it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from jbt import estimators, twins
from jbt.acquisition import Loop, Task, reports, rules, run
from jbt.acquisition.views import View
from jbt.estimators import reference
from jbt.experiments import declare, plots
from jbt.experiments.run import main
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.kernel.membership import DRAWS, membership, sobol_normals
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Comparisons, Judge, Pool, Posterior, Prior, Status, Variant

from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from jbt.experiments.table import Table

N_ITEMS, K, REFIT_EVERY = 30, 5, 8
ALL = N_ITEMS * (N_ITEMS - 1)
"""Every verdict."""
RULES = ("top_k_aware", "entropy_reduction_fresh")
KNOWING = "top_k_aware_knowing"
"""Eq. acq with the memberships and variances of one who knows how the bias grows."""
Z = 1.96


@dataclass(frozen=True)
class Kind:
    """A kind of pool and its judge."""

    bias: float
    """c*, for x = 1 over x = 0; this and the next two in units of quality."""
    position: float
    """kappa*, in favour of the first shown."""
    pair_noise: float
    """Standard deviation of the judge's preference for a pair."""
    argmax: bool
    """Whether it gives its likelier verdict; else it draws."""
    rho: tuple[float, ...]
    """Correlations of quality and covariate."""


KINDS = {
    "statement_bank": Kind(5.0, 0.9, 2.5, True, (0.0,)),
    "gaussian": Kind(1.0, 0.0, 0.0, False, (0.0, 0.2, 0.4, 0.6, 0.75)),
}
"""The judge of the bank has the bias, position and pair noise, in statements, near which the region
of the paper's first judge lies (`jbt.twins.regions`); that of Gaussian pools, in logits, is the
judge of `sweeps.crossing`."""


@dataclass(frozen=True, kw_only=True)
class Settings(MapPrior, declare.Sweep):
    pools: int = 400
    pool: tuple[str, ...] = tuple(KINDS)
    """Kinds of pool."""
    interaction: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Growth of the bias with quality, gamma* (pure numbers), increasing."""
    budget: tuple[int, ...] = (60, 120, 200)
    """Budgets of the adaptive rules (verdicts)."""
    rule: tuple[str, ...] = (*RULES, KNOWING)
    """Adaptive rules; the last is Eq. acq by one who knows the growth."""
    n_reference: int = 60
    """Verdicts of a reference without bias, on disputed pairs (count)."""


PRESETS = {
    "smoke": Settings(
        pools=8,
        pool=("statement_bank",),
        interaction=(0.0, 0.5),
        budget=(16,),
        rule=("top_k_aware",),
    ),
    "paper": Settings(pools=10),
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    s.check_prior()
    declare.check_listed("pool", s.pool, list(KINDS))
    declare.check_listed("rule", s.rule, [*RULES, KNOWING])
    declare.check_increasing("interaction", s.interaction)
    if s.interaction[0] <= -1:
        raise ValueError(
            f"interaction must be above -1, got {s.interaction[0]:g}: at x = 1 the judge "
            "would prefer the worse"
        )
    declare.check_increasing("budget", s.budget, most=ALL - 1)
    if s.n_reference < 1:
        raise ValueError(f"n_reference must be at least 1, got {s.n_reference}")


# --- pools and verdicts


def drawn(kind: str, key: Key[Array, ""], condition: Condition) -> Pool:
    """A pool of 30 items, half of them with x = 1."""
    if kind == "gaussian":
        options = {"sd": 1.2, "rho": condition["rho"], "covariate": "binary"}
        return pools.gaussian(stream(key, "pool"), N_ITEMS, **options)
    return twins.paper_pool()(stream(key, "pool"), condition)


def verdicts_of(key: Key[Array, ""], pool: Pool, condition: Condition) -> Comparisons:
    """Every verdict; of contents in both forms as many of them, at random."""
    shown = pairs.every_pair(pool)
    if pool.design.content is not None:
        shown = jnp.minimum(pairs.spread_evenly(stream(key, "shown"), shown, ALL), 1)
    return judges.reveal(twins.answers(key, pool, condition), shown)


# --- methods: each a function (key, pool, condition, settings) -> what it found


def found(
    recall: Array,
    status: Array,
    c: Any = jnp.nan,
    gamma: Any = jnp.nan,
    covered: Any = (jnp.nan, jnp.nan),
) -> dict[str, Array]:
    """Metrics of a method of every verdict. What the verdicts do not identify counts in `flat`; it
    is no failure of the fit."""
    flat = status == Status.FLAT
    numbers = {"recall": recall, "c_hat": c, "interaction_hat": gamma, "flat": flat}
    numbers |= {"c_covered": covered[0], "interaction_covered": covered[1]}
    status = jnp.where(flat, Status.CONVERGED, status)
    return {n: jnp.asarray(v, jnp.float32) for n, v in numbers.items()} | {"status": status}


def recall_of(theta: Float[Array, " M"], pool: Pool) -> Float[Array, ""]:
    return metrics.top_k_recall(theta, pool.quality, K)


def fitted(key: Key[Array, ""], pool: Pool, condition: Condition, s: Settings):
    """Method: the MAP of the naive or of the bias-aware model, as the condition says."""
    free = condition["aware"] > 0
    verdicts = verdicts_of(key, pool, condition)
    fit = fit_map(verdicts, pool.design, s.prior, Variant(free[None], free))
    return found(recall_of(fit.parameters.theta, pool), fit.status, fit.parameters.c[0])


def local(key: Key[Array, ""], pool: Pool, condition: Condition, s: Settings):
    """Method: bias-aware, refitted to the verdicts at the boundary."""
    fit = estimators.local(verdicts_of(key, pool, condition), pool.design, s.prior)
    return found(recall_of(fit.parameters.theta, pool), fit.status, fit.parameters.c[0])


def interaction(key: Key[Array, ""], pool: Pool, condition: Condition, s: Settings):
    """Method: recall of the MAP with an interaction; c and gamma from verdicts alone, in units of
    the judge's quality where it draws its verdicts."""
    verdicts = verdicts_of(key, pool, condition)
    fit = estimators.interaction(verdicts, pool.design, s.prior)
    alone = estimators.estimate_interaction(verdicts, pool.design)
    sd = jnp.sqrt(jnp.diag(alone.covariance))
    c, gamma = alone.fit.parameters.c[0], alone.interaction[0]
    near = [
        jnp.abs(c - condition["bias"]) <= Z * sd[pool.design.n_contents],
        jnp.abs(gamma - condition["interaction"]) <= Z * sd[-1],
    ]
    # Frozen likelier verdicts have another unit, and intervals take verdicts for draws.
    known = (condition["argmax"] == 0) & (alone.fit.status == Status.CONVERGED)
    covered = [jnp.where(known, v, jnp.nan) for v in near]
    return found(recall_of(fit.parameters.theta, pool), fit.status, c, gamma, covered)


def census(key: Key[Array, ""], pool: Pool, condition: Condition, s: Settings):
    """Method: every member of the one top set and not of the other is labelled without error, and
    the set with more true members is kept."""
    verdicts = verdicts_of(key, pool, condition)
    fits = [e(verdicts, pool.design, s.prior) for e in (estimators.naive, estimators.bias_aware)]
    recalls = [recall_of(fit.parameters.theta, pool) for fit in fits]
    return found(jnp.maximum(recalls[0], recalls[1]), jnp.maximum(fits[0].status, fits[1].status))


def with_reference(key: Key[Array, ""], pool: Pool, condition: Condition, s: Settings):
    """Method: the joint fit of every verdict and of some by a judge of the same discrimination that
    has no bias, on pairs that the two rankings order differently."""
    verdicts = verdicts_of(key, pool, condition)
    fits = [e(verdicts, pool.design, s.prior) for e in (estimators.naive, estimators.bias_aware)]
    naive, aware = (fit.parameters.theta for fit in fits)
    rankings = reference.Rankings(pool, naive, aware, K)
    shown = reference.asked(stream(key, "asked"), reference.disputed(rankings), s.n_reference)
    unbiased = dict(condition) | {n: 0 * condition[n] for n in ("bias", "position", "interaction")}
    oracle = judges.reveal(twins.answers(stream(key, "reference"), pool, unbiased), shown)
    fit = reference.joint(reference.beside(verdicts, oracle), pool.design, s.prior)
    return found(recall_of(fit.parameters.theta, pool), fit.status, fit.parameters.c[0, 0])


def known(key: Key[Array, ""], pool: Pool, condition: Condition, s: Settings):
    """Method: the model with gamma, by one who knows it."""
    verdicts, stretch = verdicts_of(key, pool, condition), stretch_of(pool, condition)
    fit = estimators.bias_aware(verdicts, pool.design, of_stretched(s.prior, stretch))
    return found(recall_of(fit.parameters.theta / stretch, pool), fit.status, fit.parameters.c[0])


def stretch_of(pool: Pool, condition: Condition) -> Float[Array, " M"]:
    """How much the judge stretches the quality of each content, in one form: with gamma known, the
    model with gamma is the bias-aware one of u = (1 + gamma x) theta."""
    return 1 + condition["interaction"] * pool.design.covariates[:, 0]


def of_stretched(prior: Prior, stretch: Float[Array, " M"]) -> Prior:
    """The prior of u that is this one of theta = u / stretch."""
    return Prior(prior.lam / stretch**2, prior.lam_b)


Method = Callable[..., dict[str, Array]]
METHODS: dict[str, Method] = {
    "naive": fitted,
    "bias_aware": fitted,
    "local": local,
    "known": known,
    "interaction": interaction,
    "census": census,
    "reference": with_reference,
}
DESIGNS = ("unpaired", "paired")
PAIRED = ("naive", "bias_aware", "interaction")
"""Methods that are also given contents in both forms."""


def every_verdict(s: Settings, kind: str, method: Method, paired: bool) -> Experiment:
    """Experiment: one method on one pool."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = drawn(kind, key, condition)
        pool = pools.in_both_forms(pool) if paired else pool
        out = method(key, pool, condition, s)
        unknown = jnp.full(len(s.budget), jnp.nan, jnp.float32)
        return out | {"recall": jnp.append(unknown, out["recall"])}

    return one


def adaptive(s: Settings, kind: str, rule: str, paired: bool) -> Experiment:
    """Experiment: the active loop with the bias-aware model."""
    settings = Loop(rule, K, REFIT_EVERY, "frozen")
    at = np.searchsorted(reports(s.budget, REFIT_EVERY), s.budget)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = drawn(kind, key, condition)
        pool = pools.in_both_forms(pool) if paired else pool
        task = Task.build(pool, twins.answers(key, pool, condition), prior=s.prior)
        trace = run(stream(key, "acquisition"), task, settings, s.budget)
        out = found(jnp.zeros(()), trace.status.max())
        return out | {"recall": jnp.append(trace.recall[at], jnp.nan).astype(jnp.float32)}

    return one


def knowing(s: Settings, kind: str, rule: str) -> Experiment:
    """Experiment: Eq. acq by one who knows gamma and ranks accordingly, and asks accordingly if the
    rule is `KNOWING`."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = drawn(kind, key, condition)
        answers = twins.answers(key, pool, condition)

        stretch = stretch_of(pool, condition)
        known_prior = of_stretched(s.prior, stretch)

        def score(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
            return rules.top_k_aware(of_scaled_quality(view, 1 / stretch), key)

        asks = rules.Rule(score, tried=True) if rule == KNOWING else rule
        settings = Loop(asks, K, REFIT_EVERY, "frozen")
        prior = known_prior if rule == KNOWING else s.prior
        task = Task.build(pool, answers, prior=prior)
        queries = run(stream(key, "acquisition"), task, settings, s.budget).queries

        def at(budget: int) -> tuple[Array, Array]:
            asked = jnp.zeros_like(task.answers, pool.design.dtype)
            asked = asked.at[queries.first[:budget], queries.second[:budget]].set(1)
            fit = estimators.bias_aware(judges.reveal(answers, asked), pool.design, known_prior)
            return recall_of(fit.parameters.theta / stretch, pool), fit.status

        recall, status = zip(*[at(budget) for budget in s.budget], strict=True)
        out = found(jnp.zeros(()), jnp.stack(status).max())
        return out | {"recall": jnp.stack([*recall, jnp.nan]).astype(jnp.float32)}

    return one


def of_scaled_quality(view: View, scale: Float[Array, " M"]) -> View:
    """The view of one for whom quality is the model's times a known factor."""
    m, posterior = len(scale), view.posterior
    of_all = jnp.append(scale, jnp.ones(len(posterior.root) - m, scale.dtype))
    mean = replace(posterior.mean, theta=posterior.mean.theta * scale)
    scaled = Posterior(mean, posterior.root * of_all, posterior.factor / of_all[:, None])
    normals = sobol_normals(DRAWS["conditional"], len(of_all), scale.dtype)
    return replace(
        view,
        posterior=scaled,
        covariance=view.covariance * of_all[:, None] * of_all,
        membership=membership(scaled, view.k, view.design.content_mask(), normals),
    )


def groups(s: Settings) -> list[declare.Group]:
    check(s)
    return [group for kind in s.pool for group in groups_of(s, kind)]


def groups_of(s: Settings, kind: str) -> list[declare.Group]:
    of = KINDS[kind]
    cells = list(itertools.product(s.interaction, of.rho))
    labels: dict[str, Any] = {"interaction": [g for g, _ in cells], "rho": [r for _, r in cells]}
    conditions = judges.conditions([Judge.of(of.bias, of.position, 1.0, g) for g, _ in cells])
    ones = np.ones(len(cells))
    conditions |= {"pair_noise": of.pair_noise * ones, "argmax": of.argmax * ones}
    conditions["rho"] = np.array(labels["rho"], float)
    axes = {"recall": {"budget": [*s.budget, ALL]}}
    runs: list[tuple[list[str], str, str, Experiment]] = []
    for design, models in (("unpaired", tuple(METHODS)), ("paired", PAIRED)):
        # Models of one method differ in a mask, which is traced.
        for method in dict.fromkeys(METHODS[m] for m in models):
            alike = [m for m in models if METHODS[m] == method]
            one = every_verdict(s, kind, method, design == "paired")
            runs.append((alike, "all", design, one))
    for design in DESIGNS:
        paired = design == "paired"
        asking = [r for r in s.rule if r != KNOWING]
        runs += [(["bias_aware"], r, design, adaptive(s, kind, r, paired)) for r in asking]
    asking = [r for r in s.rule if r in (RULES[0], KNOWING)]
    runs += [(["known"], r, "unpaired", knowing(s, kind, r)) for r in asking]
    out = []
    for models, rule, design, experiment in runs:
        n = len(models)
        named = {name: values * n for name, values in labels.items()}
        named["model"] = [m for m in models for _ in cells]
        same = {"pool_kind": kind, "judge": "default", "rule": rule, "design": design}
        named |= {name: [v] * len(named["model"]) for name, v in same.items()}
        traced = {name: np.tile(values, n) for name, values in conditions.items()}
        traced["aware"] = np.array([float(m != "naive") for m in named["model"]])
        name = f"{kind}-{design}-{'-'.join(models)}-{rule}"
        n_items = N_ITEMS * (1 + (design == "paired"))
        fits = len(reports(s.budget, REFIT_EVERY)) if rule != "all" else 6
        out.append(
            declare.Group(name, experiment, traced, named, n_items, s.pools, axes=axes, fits=fits)
        )
    return out


# --- from the saved results

COLUMNS = (
    *("pool", "judge", "interaction", "rho", "model", "rule", "budget"),
    "design",
)


def table(ds: xr.Dataset, s: Settings, t: Table) -> None:
    for kind in s.pool:
        of_kind = _where(ds, pool_kind=kind)
        counting = _where(of_kind, model="naive", rule="all", design="unpaired")
        keys = zip(*(of_kind[n].values for n in ("model", "rule", "design")), strict=True)
        for model, rule, design in dict.fromkeys(keys):
            labels = {"model": model, "rule": rule, "design": design}
            rows(_where(of_kind, **labels), counting, {"pool": kind, **labels}, s, t)


def _where(ds: xr.Dataset, **labels: str) -> xr.Dataset:
    chosen = np.ones(ds.sizes["condition"], bool)
    for name, value in labels.items():
        chosen &= ds[name].values == value
    return ds.isel(condition=np.flatnonzero(chosen)).drop_vars(labels)


def rows(
    of: xr.Dataset, counting: xr.Dataset, where: dict[str, str], s: Settings, t: Table
) -> None:
    """Add the rows of one method: recall, its gain over counting wins in every verdict, the
    correlation at which that ends, and the bias measured."""
    whole = where["rule"] == "all"
    budgets = [ALL] if whole else list(s.budget)
    recall = of["recall"].sel(budget=budgets)
    benefit = recall - counting["recall"].sel(budget=ALL, drop=True)
    t.means("recall", recall, **where)
    is_counting = (where["model"], where["design"]) == ("naive", "unpaired")
    if not is_counting:
        t.means("benefit", benefit, **where)
        if len(KINDS[where["pool"]].rho) > 1:
            crossings(benefit, where, t)
    if not whole or where["model"] in ("naive", "census"):
        return
    at = {"budget": ALL, **where}
    t.means("c_hat", of["c_hat"], **at)
    if where["model"] == "interaction":
        t.shares("flat", of["flat"], **at)
        t.means("interaction_hat", of["interaction_hat"], **at)
        for name in ("c_covered", "interaction_covered"):
            if np.isfinite(of[name]).any():
                t.shares(name, of[name], **at)


def crossings(benefit: xr.DataArray, where: dict[str, Any], t: Table) -> None:
    """Add the correlation at which a benefit [condition, budget, pool] ends, for each growth."""
    for gamma, budget in itertools.product(
        dict.fromkeys(benefit["interaction"].values.tolist()), benefit["budget"].values.tolist()
    ):
        chosen = np.flatnonzero(benefit["interaction"].values == gamma)
        line = benefit.sel(budget=budget, drop=True).isel(condition=chosen)
        line = line.swap_dims(condition="rho").drop_vars("interaction")
        t.crossing(line, interaction=gamma, budget=budget, judge="default", **where)


def headline(table: pd.DataFrame, s: Settings) -> pd.DataFrame:
    """Rows to print: recall on uncorrelated pools, crossings, and what was measured."""
    uncorrelated = table.rho.isna() | (table.rho == 0)
    kept = ["recall", "crossing", "c_hat", "interaction_hat", "c_covered", "interaction_covered"]
    return table[uncorrelated & table.quantity.isin(kept)]


SHOWN = {
    ("naive", "all", "unpaired"): ("black", "naive"),
    ("bias_aware", "all", "unpaired"): ("blue", "bias-aware"),
    ("local", "all", "unpaired"): ("vermilion", "bias-aware, verdicts near the top"),
    ("interaction", "all", "unpaired"): ("orange", "interaction"),
    ("interaction", "all", "paired"): ("green", "interaction, both forms"),
    ("bias_aware", "entropy_reduction_fresh", "unpaired"): ("purple", "adaptive"),
    ("bias_aware", "entropy_reduction_fresh", "paired"): ("sky", "adaptive, both forms"),
}


def figure(ds: xr.Dataset, table: pd.DataFrame, s: Settings) -> Figure:
    fig, axes = plots.facets(len(s.pool), height=4.8)
    recall = table[(table.quantity == "recall") & (table.rho == 0)]
    for ax, kind in zip(axes, s.pool, strict=True):
        draw_recall(ax, recall[recall.pool == kind], kind, s)
    lines = axes[0].get_legend_handles_labels()
    fig.legend(*lines, fontsize=8, ncols=4, loc="outside lower center")
    return fig


def draw_recall(ax: Axes, rows: pd.DataFrame, kind: str, s: Settings) -> Axes:
    """Draw recall of every verdict, and of the rule at its largest budget, against the growth."""
    for (model, rule, design), (colour, label) in SHOWN.items():
        of = rows[(rows.model == model) & (rows.rule == rule) & (rows.design == design)]
        if rule != "all":
            of = of[of.budget == s.budget[-1]]
            label += f", {s.budget[-1]} verdicts"
        plots.line(ax, of, "interaction", colour=colour, label=label)
    ax.set_xlabel(r"growth of the bias with quality, $\gamma^*$")
    ax.set_ylabel(f"top-{K} recall")
    ax.set_title(f"{kind}, {s.pools:,} pools (95 %)")
    return ax


SWEEP = declare.legacy(
    "varying_bias",
    "Rankings, measurements and crossings where the judge's bias grows with quality.",
    PRESETS,
    groups,
    COLUMNS,
    table,
    figure,
    units={
        "interaction": "pure number",
        "interaction_hat": "pure number",
        "c_hat": "logits",
        "flat": "share of pools",
        "c_covered": "share of pools",
        "interaction_covered": "share of pools",
    },
    headline=headline,
)

if __name__ == "__main__":
    raise SystemExit(main(SWEEP))
