"""Intervals of fits of pools: `jbt fit`, over all pools and of each, `jbt fit --joint`, `jbt
identify`; and the plausible ranks of `jbt status`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng

from benchmarks.calibration import (
    FEW,
    GUESSES,
    cell,
    claim,
    correlated,
    grid,
    ordered_pairs,
    parts,
    tables_of,
    verdicts,
)
from jbt import own
from jbt.acquisition import Loop, Task
from jbt.acquisition import run as acquire
from jbt.acquisition.runs import bought
from jbt.kernel.laplace import laplace
from jbt.own.fits.one_comparison import one_comparison
from jbt.own.fits.report import ALIKE
from jbt.own.fits.shared import SharedFit, SharedModel, fit_shared
from jbt.own.studies.report import plausible_ranks
from jbt.simulation import judges, pools
from jbt.simulation.simulate import stream
from jbt.types import Judge, Prior, Variant

KAPPA, BIAS = 0.3, 1.0
SDS = [0.4, 1.0, 2.5]
"""Standard deviations of quality, logits."""


def drawn(
    rng: Generator,
    judges: Sequence[tuple[float, float, float]],
    *,
    pools: int = 12,
    contents: int = 4,
    twice: int = 2,
    sd: float = 1.0,
    corr: float = 0.5,
    offset: float | None = None,
    sd_c: float = 0.0,
    unlike: float = 0.0,
    alone: bool = False,
    pairs: int | None = None,
    lapses: float = 0.0,
    second: float = 0.0,
) -> tuple[own.Batch, np.ndarray]:
    """The verdicts of judges on pools of a few contents, every ordered pair shown once; and the
    true quality [judges, pools, items].

    Args:
      judges: c, kappa and discrimination of each.
      pools: of a study (count).
      twice: contents rendered twice in each pool (count).
      sd: standard deviation of quality, logits.
      corr: correlation of quality and the covariate of a content's first rendering.
      offset: by how much the covariate of a second rendering is larger; None: by a standard normal.
      sd_c: standard deviation of c between pools.
      unlike: standard deviation of the quality of a content's renderings, logits.
      alone: whether each judge is a study of its own, with other qualities of the items.
      pairs: ordered pairs in each pool that the last judge saw (count); None: all.
      lapses: share of verdicts that are guesses.
      second: c of a second covariate, correlated with the first; 0 for none.
    """
    content = np.arange(contents + twice) % contents
    base = rng.normal(size=(pools, contents))
    x = base[:, content]
    moved = rng.normal(size=(pools, twice))
    x[:, contents:] += moved if offset is None else offset
    covariates = {"words": x}
    if second:
        covariates["lists"] = 0.5 * x + rng.normal(size=x.shape)
    sides, qualities, shares = ordered_pairs(len(content)), [], []
    for c, kappa, factor in judges:
        if alone or not qualities:
            quality = correlated(rng, base, sd, corr)[:, content]
            quality = quality + unlike * rng.normal(size=x.shape)
        qualities.append(quality)
        phi = factor * quality
        if c:
            phi = phi + (c + sd_c * rng.normal(size=(pools, 1))) * x
            phi = phi + second * covariates.get("lists", x)
        shares.append(verdicts(rng, phi, sides, kappa, lapses))
    if pairs:
        shares[-1][rng.random(shares[-1].shape).argsort(1) >= pairs] = np.nan
    tables = tables_of(np.stack(shares), sides, covariates, content)
    return own.Batch.of(tables, [*covariates], standardise=False), np.stack(qualities)


def shared_fit(
    rng: Generator, *, joint: bool = False, trusted: float = 1.0, **population: Any
) -> SharedFit:
    """The average effects in one study of a biased judge.

    Args:
      joint: whether a judge whose biases are known to be 0 sees the pools, too.
      trusted: its discrimination.
      population: arguments of `drawn`.
    """
    panel = [(BIAS, KAPPA, 1.0), (0.0, 0.0, trusted)][: 1 + joint]
    batch, _ = drawn(rng, panel, **population)
    together = own.Judges.of(batch.tables, reference=batch.tables.judges[-1]) if joint else None
    return fit_shared(SharedModel.of(batch, together))


def of_judge(fit: SharedFit) -> pd.DataFrame:
    """Estimates of the first judge, and those that all share, by quantity."""
    return fit.estimates.drop_duplicates("quantity").set_index("quantity")


def average_effects(**judged: Any) -> pd.Series:
    """The estimates in one study of many pools, by quantity: what intervals are about where
    something varies that the model has not."""
    return of_judge(shared_fit(default_rng(0), **{**judged, "pools": 10_000}))["estimate"]


@claim(
    "`jbt fit`, over all pools",
    grid(sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(sd_c=[0.3, 0.5])
    + grid(unlike=[0.3, 0.6, 1.2], pools=[12, 40])
    + grid(
        {"pools": 1, "contents": 12, "twice": 6},
        {"pools": 4},
        {"pools": 6, "sd_c": 0.3},
        {"pools": 80, "contents": 5, "twice": 1},
    )
    + grid(pools=40, sd_c=[0.0, 0.3, 0.5, 1.0])
    + grid(pools=100, sd_c=0.5),
)
def fit(rng, studies, **population):
    """c and kappa of a judge over all its pools: average effects, where something varies."""
    truth = {"c": BIAS, "kappa": KAPPA}
    if population.get("sd_c") or population.get("unlike"):
        truth = average_effects(**population)
    found = []
    for n in parts(studies, 50):
        batch, _ = drawn(rng, [(BIAS, KAPPA, 1.0)] * n, alone=True, **population)
        found.append(own.fit_judges(batch).estimates)
    found = pd.concat(found).set_index("quantity")[["low", "high", "p_alike"]]
    low, high, p_alike = found.loc["c"].to_numpy(float).T
    yield cell("c over all pools", (low, high), truth["c"])
    alike = np.where(p_alike < ALIKE, np.nan, low), high
    rejected = np.mean(p_alike[np.isfinite(low)] < ALIKE)
    name = "c, where the test for different c in the pools finds nothing"
    yield cell(name, alike, truth["c"], miss=FEW * bool(rejected > 0.5))
    low, high, _ = found.loc["kappa"].to_numpy(float).T
    yield cell("kappa over all pools", (low, high), truth["kappa"])


@claim(
    "`jbt fit --joint`",
    grid(pools=40, twice=0, sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(pools=40, twice=0, trusted=[0.5, 2.0])
    + grid(pools=40, twice=0, sd_c=[0.3, 0.5, 1.0])
    + grid({}, {"sd_c": 0.5}, pools=100, twice=0)
    + grid(pools=12, twice=[0, 2])
    + grid(pools=[40, 12], twice=0, pairs=3)
    + grid(pools=60, twice=0, contents=3, pairs=1),
)
def joint(rng, studies, twice, contents=5, sd=1.0, corr=0.5, trusted=1.0, **population):
    """A biased judge together with one whose biases are known to be zero; arguments as of
    `shared_fit`."""
    judged = {"twice": twice, "contents": contents, "sd": sd, "corr": corr, "trusted": trusted}
    judged |= {"joint": True, **population}
    truth: Any = {"c": BIAS, "kappa": KAPPA, "discrimination": 1 / trusted}
    if not twice:  # else the slope is that on the mean of two renderings
        truth["slope"] = trusted * sd * corr
    if population.get("sd_c"):
        truth = average_effects(**judged)[[*truth]].to_dict()
    fits = [of_judge(shared_fit(rng, **judged)) for _ in range(studies)]
    for name, value in truth.items():
        ends = np.array([fit.reindex([name])[["low", "high"]].iloc[0] for fit in fits], float).T
        miss = ""
        if name == "discrimination" and value == 2:
            miss = "the prior shrinks towards its mean"
        elif name in ("c", "discrimination") and np.isfinite(ends[0]).mean() < 0.25:
            miss = FEW
        yield cell(name, ends, value, miss=miss)


@claim(
    "`jbt fit`, on one comparison",
    grid({}, {"sd_c": 0.5}, {"unlike": 0.6}, pools=[12, 40])
    + grid({"sd_c": 1.0}, {"unlike": 1.2}, {"lapses": 0.15}, {"second": 0.5}, pools=40)
    + grid({}, {"sd_c": 0.5}, {"pairs": 3}, joint=True, twice=0, pools=[12, 40])
    + grid({"sd_c": 1.0}, {"second": 0.5}, joint=True, twice=0, pools=40)
    + grid(joint=True, unlike=0.6, pools=40),
)
def fit_one_comparison(rng, studies, joint=False, **judged):
    """c of a judge on one comparison, alone or with a trusted judge; it is the generating one.

    Args:
      judged: arguments of `drawn`.
    """
    ends = np.full((studies, 2), np.nan)
    for study in ends:
        one = one_comparison(shared_fit(rng, joint=joint, **judged), 0)
        if not isinstance(one, str):
            study[:] = one.c[["low", "high"]].iloc[0]  # of the first covariate
    interval = "c of `jbt fit --joint`" if joint else "c of `jbt fit`"
    yield cell(interval, ends.T, BIAS, miss=GUESSES if "lapses" in judged else "")


LARGER = {"pools": 1, "contents": 12}, {"pools": 12, "contents": 5}


@claim(
    "`jbt fit`, each pool",
    grid({"pools": 1, "contents": 6}, *LARGER, sd=SDS) + grid(*LARGER, sd=1.0, kappa=4.0),
)
def one_pool(rng, studies, sd, pools, contents, kappa=KAPPA):
    """A judge of its own in each study, with pools from which the sd of quality is estimated. All
    of a study's contents count. There is no covariate."""
    fits, truths = [], []
    population = {"pools": pools, "contents": contents, "twice": 0, "sd": sd, "corr": 0.0}
    for n in parts(studies, 50):
        batch, quality = drawn(rng, [(0.0, kappa, 1.0)] * n, alone=True, **population)
        fits += own.fit(own.Batch.of(batch.tables))  # without the covariate
        truths += [
            *(quality - quality.mean(-1, keepdims=True)).swapaxes(0, 1).reshape(-1, contents)
        ]
    miss = "qualities are widely spread; the report says so"
    ends = [f.theta_low for f in fits], [f.theta_high for f in fits]
    yield cell("theta of a pool", ends, truths, miss=miss)
    miss = "the prior shrinks towards its mean"
    if kappa > KAPPA:
        miss = "a large kappa; the report says so"
    ends = [f.kappa_low for f in fits], [f.kappa_high for f in fits]
    yield cell("kappa of a pool", ends, kappa, miss=miss)


@claim(
    "`jbt identify` and `jbt fit`, c of one pool",
    grid(sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(contents=8, sd=SDS, corr=[0.0, 0.8])
    + grid(sd=1.0, corr=0.5, twice=[0, 1, 10])
    + grid(sd=SDS, corr=0.5, share=[0.5, 0.25])
    + grid(sd=1.0, corr=0.5, twice=1, share=0.25),
)
def identify(rng, studies, contents=10, twice=4, share=1.0, **population):
    """The prior-free interval for c of one pool, that of the profile likelihood; studies are pools
    of one judge. `jbt fit` prints it, too.

    It assumes nothing about quality, so its spread and its correlation with the covariate must not
    matter. Separated verdicts, and pools without a content rendered twice, have no interval.

    Args:
      twice: contents rendered twice (count).
      share: of the ordered pairs that is judged.
    """
    items = contents + twice
    population |= {"pools": studies, "contents": contents, "twice": twice, "offset": 1.0}
    judged = round(share * items * (items - 1))
    fits = own.fit(drawn(rng, [(BIAS, KAPPA, 1.0)], pairs=judged, **population)[0])
    ends = np.array([(*f.c_low, *f.c_high) for f in fits]).T
    miss = "with few verdicts the profile is approximate" if share < 1 else ""
    yield cell("c of one pool", ends, BIAS, miss=miss)


@functools.partial(jax.jit, static_argnames=("n", "aware", "budget"))
def studied(
    n: int, seed: Any, aware: bool, budget: int, sd: Any, twice: Any, rho: Any, interaction: Any
) -> Any:
    """Theta [n, M], root of the posterior [n, P, P] and true quality [n, M] after a run on each of
    n pools, which have a covariate if `aware`."""

    def one(number):
        key = jax.random.fold_in(jax.random.key(seed), number)
        drawn = stream(key, "pool")
        if aware:
            pool = pools.paired(drawn, 10, n_twice=twice, sd=sd, rho=rho, spread=1.0)
        else:
            pool = pools.gaussian(drawn, 20, sd=sd)
        judge = Judge(jnp.full(1, BIAS * aware), KAPPA, interaction=jnp.full(1, interaction))
        answers = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
        variant = Variant(jnp.full(1, aware), jnp.array(True))
        task = Task.build(pool, answers, variant=variant)
        trace = acquire(stream(key, "run"), task, Loop("entropy_reduction_fresh", k=3), budget)
        counts = bought(trace.queries, jnp.arange(budget) < budget, task)
        posterior = laplace(trace.parameters, counts, pool.design, Prior(), variant)
        return trace.parameters.theta, posterior.root, pool.quality

    return jax.lax.map(one, jnp.arange(n), batch_size=100)


@claim(
    "`jbt status`",
    grid(budget=[60, 180], twice=0, sd=SDS)
    + grid(budget=[60, 180], twice=10, corr=[0.0, 0.8], sd=SDS)
    + grid(budget=[60, 180], twice=3, corr=0.8, sd=SDS)
    + grid(budget=[60, 180], twice=10, interaction=0.5, sd=SDS),
)
def study(rng, studies, budget, twice, sd, corr=0.0, interaction=0.0):
    """The plausible ranks of contents, after verdicts that a rule chose; all contents of a pool
    count.

    Args:
      budget: verdicts (count).
      twice: of ten contents, those rendered twice (count); 0: of 20 contents without a covariate.
      interaction: growth of the bias with quality.
    """
    drawn = studied(studies, rng.integers(2**31), twice > 0, budget, sd, twice, corr, interaction)
    ends, ranks = [], []
    for theta, root, quality in zip(*map(np.asarray, drawn), strict=True):
        z = default_rng(0).standard_normal((4096, len(root)))
        ends.append(plausible_ranks(theta + z @ root[:, : len(theta)]))
        ranks.append(1 + (quality[:, None] < quality).sum(1))
    miss = "no verdict shows it" if interaction else ""
    ends = np.stack(ends, 1)
    yield cell("plausible rank of a content", ends, ranks, one_sided=True, miss=miss)
