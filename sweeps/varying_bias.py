"""A judge whose bias grows with quality: who still finds the top k, who measures the growth, and
where correction stops paying. Beyond the paper, whose judges have one bias each.

Bias and its growth gamma are in units of the quality that the judge sees: at gamma = 0.5 the bias
of an item grows by half of what its quality grows. Two kinds of pool: the paper's, of statements,
with a judge that gives its likelier verdict, and Gaussian ones, at several correlations of quality
and covariate, with one that draws it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import estimators, twins
from jbt.acquisition import Loop, Task, reports, rules, run
from jbt.acquisition.views import View
from jbt.estimators import reference
from jbt.experiments import declare
from jbt.experiments.declare import Group, Sweep, check_increasing, check_listed
from jbt.experiments.labelled_arrays import where
from jbt.experiments.plots import Line, Panel
from jbt.kernel import metrics
from jbt.kernel.fit import fit_map
from jbt.kernel.membership import DRAWS, membership, sobol_normals
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, stream
from jbt.types import Comparisons, Fit, Pool, Posterior, Prior, Status, Variant, check_count

from ._shared.scenario import MapPrior

if TYPE_CHECKING:
    import xarray as xr

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


class Cell(NamedTuple):
    """A condition of one method."""

    interaction: float
    rho: float
    model: str
    pool_kind: str
    judge: str
    rule: str
    """How verdicts are chosen; all: none is left out."""
    design: str


METHOD = ("model", "rule", "design")
"""Labels of a method."""
SHOWN = {
    ("naive", "all", "unpaired"): ("black", "naive"),
    ("bias_aware", "all", "unpaired"): ("blue", "bias-aware"),
    ("local", "all", "unpaired"): ("vermilion", "bias-aware, verdicts near the top"),
    ("interaction", "all", "unpaired"): ("orange", "interaction"),
    ("interaction", "all", "paired"): ("green", "interaction, both forms"),
    ("bias_aware", "entropy_reduction_fresh", "unpaired"): ("purple", "adaptive"),
    ("bias_aware", "entropy_reduction_fresh", "paired"): ("sky", "adaptive, both forms"),
}
"""Method -> colour and label in the figure."""


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


def stretch_of(pool: Pool, condition: Condition) -> Float[Array, " M"]:
    """How much the judge stretches the quality of each content, in one form: with gamma known, the
    model with gamma is the bias-aware one of u = (1 + gamma x) theta."""
    return 1 + condition["interaction"] * pool.design.covariates[:, 0]


def of_stretched(prior: Prior, stretch: Float[Array, " M"]) -> Prior:
    """The prior of u that is this one of theta = u / stretch."""
    return Prior(prior.lam / stretch**2, prior.lam_b)


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


# --- methods that see every verdict


class Judged(NamedTuple):
    """A pool with every verdict, as a method gets it."""

    sweep: VaryingBias
    key: Key[Array, ""]
    pool: Pool
    condition: Condition
    verdicts: Comparisons


class Found(NamedTuple):
    """What a method makes of a pool."""

    theta: tuple[Float[Array, " M"], ...]
    """Rankings; a census of the disputed members keeps the better of two."""
    status: Array
    c: Any = jnp.nan
    gamma: Any = jnp.nan
    covered: tuple[Any, Any] = (jnp.nan, jnp.nan)
    """Whether the intervals of c and gamma hold the truth."""

    @classmethod
    def of(cls, fit: Fit, stretch: Any = 1.0) -> Found:
        """What a fit to stretched qualities says."""
        return cls((fit.parameters.theta / stretch,), fit.status, fit.parameters.c.reshape(-1)[0])


def fitted(j: Judged) -> Found:
    """The MAP of the naive or of the bias-aware model, as the condition says."""
    free = j.condition["aware"] > 0
    variant = Variant(free[None], free)
    return Found.of(fit_map(j.verdicts, j.pool.design, j.sweep.prior, variant))


def local(j: Judged) -> Found:
    """Bias-aware, refitted to the verdicts at the boundary."""
    return Found.of(estimators.local(j.verdicts, j.pool.design, j.sweep.prior))


def interaction(j: Judged) -> Found:
    """The MAP with an interaction; c and gamma from verdicts alone, in units of the judge's quality
    where it draws its verdicts."""
    fit = estimators.interaction(j.verdicts, j.pool.design, j.sweep.prior)
    alone = estimators.estimate_interaction(j.verdicts, j.pool.design)
    sd = jnp.sqrt(jnp.diag(alone.covariance))
    c, gamma = alone.fit.parameters.c[0], alone.interaction[0]
    near = (
        jnp.abs(c - j.condition["bias"]) <= Z * sd[j.pool.design.n_contents],
        jnp.abs(gamma - j.condition["interaction"]) <= Z * sd[-1],
    )
    # Frozen likelier verdicts have another unit, and intervals take verdicts for draws.
    known = (j.condition["argmax"] == 0) & (alone.fit.status == Status.CONVERGED)
    c_covered, gamma_covered = (jnp.where(known, v, jnp.nan) for v in near)
    return Found((fit.parameters.theta,), fit.status, c, gamma, (c_covered, gamma_covered))


def census(j: Judged) -> Found:
    """Every member of the one top set and not of the other is labelled without error, and the set
    with more true members is kept."""
    both = estimators.naive, estimators.bias_aware
    naive, aware = (fit(j.verdicts, j.pool.design, j.sweep.prior) for fit in both)
    status = jnp.maximum(naive.status, aware.status)
    return Found((naive.parameters.theta, aware.parameters.theta), status)


def with_reference(j: Judged) -> Found:
    """The joint fit of every verdict and of some by a judge of the same discrimination that has no
    bias, on pairs that the two rankings order differently."""
    naive, aware = census(j).theta
    allowed = reference.disputed(reference.Rankings(j.pool, naive, aware, K))
    shown = reference.asked(stream(j.key, "asked"), allowed, j.sweep.n_reference)
    biases = ("bias", "position", "interaction")
    unbiased = dict(j.condition) | {name: 0 * j.condition[name] for name in biases}
    oracle = twins.answers(stream(j.key, "reference"), j.pool, unbiased)
    panel = reference.beside(j.verdicts, judges.reveal(oracle, shown))
    return Found.of(reference.joint(panel, j.pool.design, j.sweep.prior))


def known(j: Judged) -> Found:
    """The model with gamma, by one who knows it."""
    stretch = stretch_of(j.pool, j.condition)
    prior = of_stretched(j.sweep.prior, stretch)
    return Found.of(estimators.bias_aware(j.verdicts, j.pool.design, prior), stretch)


METHODS = {
    "naive": fitted,
    "bias_aware": fitted,
    "local": local,
    "known": known,
    "interaction": interaction,
    "census": census,
    "reference": with_reference,
}
ALIKE = (
    ("naive", "bias_aware"),
    ("local",),
    ("known",),
    ("interaction",),
    ("census",),
    ("reference",),
)
"""Models that differ in a mask, which is traced, are one program."""
PAIRED = ("naive", "interaction")
"""First of the models that are also given contents in both forms."""
DESIGNS = ("unpaired", "paired")


@dataclass(frozen=True, kw_only=True)
class VaryingBias(MapPrior, Sweep):
    """Rankings, measurements and crossings where the judge's bias grows with quality."""

    name = "varying_bias"
    columns = ("pool", "judge", "interaction", "rho", "model", "rule", "budget", "design")
    presets = {
        "smoke": {
            "pools": 8,
            "pool": ("statement_bank",),
            "interaction": (0.0, 0.5),
            "budget": (16,),
            "rule": ("top_k_aware",),
        },
        "paper": {"pools": 10},
    }
    units = {
        **dict.fromkeys(("interaction", "interaction_hat"), "pure number"),
        "c_hat": "logits",
        **dict.fromkeys(("flat", "c_covered", "interaction_covered"), "share of pools"),
    }
    panel_size = {"height": 4.8, "below": {"ncols": 4, "fontsize": 8}}

    pools: int = 400
    """Pools simulated at every condition (count, at most 2^32)."""
    pool: Annotated[tuple[str, ...], partial(check_listed, known=list(KINDS))] = tuple(KINDS)
    """Kinds of pool."""
    interaction: Annotated[tuple[float, ...], check_increasing] = (0.0, 0.25, 0.5, 0.75, 1.0)
    """Growth of the bias with quality, gamma* (pure numbers), increasing."""
    budget: Annotated[tuple[int, ...], partial(check_increasing, most=ALL - 1)] = (60, 120, 200)
    """Budgets of the adaptive rules (verdicts)."""
    rule: Annotated[tuple[str, ...], partial(check_listed, known=[*RULES, KNOWING])] = (
        *RULES,
        KNOWING,
    )
    """Adaptive rules; the last is Eq. acq by one who knows the growth."""
    n_reference: Annotated[int, check_count] = 60
    """Verdicts of a reference without bias, on disputed pairs (count)."""

    def check(self):
        super().check()
        if self.interaction[0] <= -1:
            raise ValueError(
                f"interaction must be above -1, got {self.interaction[0]:g}: at x = 1 the judge "
                "would prefer the worse"
            )

    def groups(self):
        every = [
            *(("unpaired", models, "all") for models in ALIKE),
            *(("paired", models, "all") for models in ALIKE if models[0] in PAIRED),
            *((d, ("bias_aware",), r) for d in DESIGNS for r in self.rule if r != KNOWING),
            *(("unpaired", ("known",), r) for r in self.rule if r in (RULES[0], KNOWING)),
        ]
        return [self.group(kind, *runs) for kind in self.pool for runs in every]

    def group(self, kind: str, design: str, models: tuple[str, ...], rule: str) -> Group:
        """Models that are one program, on one kind of pool and design."""
        of = KINDS[kind]
        cells = [
            Cell(gamma, rho, model, kind, "default", rule, design)
            for model in models
            for gamma, rho in itertools.product(self.interaction, of.rho)
        ]
        numbers = {"bias": of.bias, "position": of.position, "discrimination": 1.0}
        numbers |= {"pair_noise": of.pair_noise, "argmax": float(of.argmax)}
        conditions = declare.cases(
            cells,
            **{name: lambda _, v=value: v for name, value in numbers.items()},
            aware=lambda cell: float(cell.model != "naive"),
        )
        return Group(
            f"{kind}-{design}-{'-'.join(models)}-{rule}",
            partial(self.experiment, cells[0]),
            **conditions,
            n_items=N_ITEMS * (1 + (design == "paired")),
            pools=self.pools,
            axes={"recall": {"budget": [*self.budget, ALL]}},
            fits=6 if rule == "all" else len(reports(self.budget, REFIT_EVERY)),
        )

    def experiment(self, cell, key, condition):
        """One pool and method, which only the condition's numbers tell from others of its group."""
        pool = drawn(cell.pool_kind, key, condition)
        pool = pools.in_both_forms(pool) if cell.design == "paired" else pool
        recall = jnp.full(len(self.budget) + 1, jnp.nan, jnp.float32)
        if cell.rule == "all":
            verdicts = verdicts_of(key, pool, condition)
            found = METHODS[cell.model](Judged(self, key, pool, condition, verdicts))
            best = [metrics.top_k_recall(theta, pool.quality, K) for theta in found.theta]
            recall = recall.at[-1].set(jnp.stack(best).max())
        else:
            method = self.knowing if cell.model == "known" else self.adaptive
            at_budgets, status = method(cell.rule, key, pool, condition)
            found = Found((), status)
            recall = recall.at[:-1].set(at_budgets)
        # What the verdicts do not identify is no failure of the fit.
        flat = found.status == Status.FLAT
        numbers = {
            "recall": recall,
            "c_hat": found.c,
            "interaction_hat": found.gamma,
            "flat": flat,
            "c_covered": found.covered[0],
            "interaction_covered": found.covered[1],
        }
        numbers = {name: jnp.asarray(v, jnp.float32) for name, v in numbers.items()}
        return {**numbers, "status": jnp.where(flat, Status.CONVERGED, found.status)}

    def adaptive(
        self, rule: str, key: Key[Array, ""], pool: Pool, condition: Condition
    ) -> tuple[Array, Array]:
        """Recall at each budget, and status, of the active loop with the bias-aware model."""
        at = np.searchsorted(reports(self.budget, REFIT_EVERY), self.budget)
        task = Task.build(pool, twins.answers(key, pool, condition), prior=self.prior)
        loop = Loop(rule, K, REFIT_EVERY, "frozen")
        trace = run(stream(key, "acquisition"), task, loop, self.budget)
        return trace.recall[at], trace.status.max()

    def knowing(
        self, rule: str, key: Key[Array, ""], pool: Pool, condition: Condition
    ) -> tuple[Array, Array]:
        """The same of Eq. acq by one who knows gamma and ranks accordingly, and asks accordingly if
        the rule is `KNOWING`."""
        answers, stretch = twins.answers(key, pool, condition), stretch_of(pool, condition)
        known = of_stretched(self.prior, stretch)

        def score(view: View, key: Key[Array, ""]) -> Float[Array, "N N"]:
            return rules.top_k_aware(of_scaled_quality(view, 1 / stretch), key)

        asks = rules.Rule(score, tried=True) if rule == KNOWING else rule
        prior = known if rule == KNOWING else self.prior
        task, loop = Task.build(pool, answers, prior=prior), Loop(asks, K, REFIT_EVERY, "frozen")
        queries = run(stream(key, "acquisition"), task, loop, self.budget).queries

        def at(budget: int) -> tuple[Array, Array]:
            asked = jnp.zeros_like(task.answers, pool.design.dtype)
            asked = asked.at[queries.first[:budget], queries.second[:budget]].set(1)
            fit = estimators.bias_aware(judges.reveal(answers, asked), pool.design, known)
            theta = fit.parameters.theta / stretch
            return metrics.top_k_recall(theta, pool.quality, K), fit.status

        recall, status = zip(*map(at, self.budget), strict=True)
        return jnp.stack(recall), jnp.stack(status).max()

    def table(self, ds, t):
        for kind in self.pool:
            of_kind = where(ds, pool_kind=kind)
            counting = where(of_kind, model="naive", rule="all", design="unpaired")
            counting = counting["recall"].sel(budget=ALL, drop=True).drop_vars(METHOD)
            keys = zip(*(of_kind[name].values for name in METHOD), strict=True)
            for key in dict.fromkeys(keys):
                labels = dict(zip(METHOD, map(str, key), strict=True))
                of = where(of_kind, **labels).drop_vars([*METHOD, "pool_kind"])
                self.rows(of, counting, {"pool": kind, **labels}, t)

    def rows(
        self, of: xr.Dataset, counting: xr.DataArray, labels: dict[str, Any], t: Table
    ) -> None:
        """Add the rows of one method: recall, its gain over counting wins in every verdict, the
        correlation at which that ends, and the bias measured."""
        model, rule, design = (labels[name] for name in METHOD)
        recall = of["recall"].sel(budget=[ALL] if rule == "all" else list(self.budget))
        t.means("recall", recall, **labels)
        if (model, design) != ("naive", "unpaired"):
            benefit = recall - counting
            t.means("benefit", benefit, **labels)
            if len(KINDS[labels["pool"]].rho) > 1:
                for gamma, budget in itertools.product(self.interaction, recall.budget.values):
                    line = where(benefit, interaction=gamma).sel(budget=budget, drop=True)
                    line = line.swap_dims(condition="rho").drop_vars("interaction")
                    at = {"interaction": gamma, "budget": budget, "judge": "default", **labels}
                    t.crossing(line, **at)
        if rule != "all" or model in ("naive", "census"):
            return
        at = {"budget": ALL, **labels}
        t.means("c_hat", of["c_hat"], **at)
        if model == "interaction":
            t.shares("flat", of["flat"], **at)
            t.means("interaction_hat", of["interaction_hat"], **at)
            for name in ("c_covered", "interaction_covered"):
                if np.isfinite(of[name]).any():
                    t.shares(name, of[name], **at)

    def headline(self, table):
        """Rows to print: recall on uncorrelated pools, crossings, and what was measured."""
        kept = ["recall", "crossing", "c_hat", "interaction_hat", "c_covered"]
        shown = where(table, quantity=[*kept, "interaction_covered"])
        return shown[shown.rho.isna() | (shown.rho == 0)]

    def panels(self, table):
        """Recall of every verdict, and of the rule at its largest budget, against the growth."""

        def line(key: tuple[str, ...], colour: str, label: str) -> Line:
            labels: dict[str, Any] = dict(zip(METHOD, key, strict=True))
            if labels["rule"] != "all":
                labels["budget"] = self.budget[-1]
                label += f", {self.budget[-1]} verdicts"
            return Line(labels, label, colour)

        return [
            Panel(
                "interaction",
                {"quantity": "recall", "rho": 0, "pool": kind},
                [line(key, *style) for key, style in SHOWN.items()],
                (
                    *(r"growth of the bias with quality, $\gamma^*$", f"top-{K} recall"),
                    f"{kind}, {self.pools:,} pools (95 %)",
                ),
            )
            for kind in self.pool
        ]


SWEEP = VaryingBias

if __name__ == "__main__":
    raise SystemExit(SWEEP.main())
