"""Intervals of fits of pools: `jbt fit`, over all pools and of each, `jbt fit --joint`, `jbt
identify`; and the plausible ranks of `jbt status`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng

from benchmarks.calibration import (
    COMPARED,
    Run,
    cell,
    claim,
    correlated,
    described,
    grid,
    noise_of_pairs,
    ordered_pairs,
    parts,
    said,
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
MANY = 10_000
"""Pools of the study whose estimates are the average effects."""


@dataclass(frozen=True)
class Population:
    """Pools of a few contents, every ordered pair shown once."""

    pools: int = 12
    """Of a study (count)."""
    contents: int = 4
    twice: int = 2
    """Contents rendered twice in each pool (count)."""
    sd: float = 1.0
    """Standard deviation of quality, logits."""
    corr: float = 0.0
    """Correlation of quality and the covariate of a content's first rendering."""
    offset: float | None = None
    """By how much the covariate of a second rendering is larger; None: by a standard normal."""
    c_sd: float = 0.0
    """Standard deviation of c between pools."""
    unlike: float = 0.0
    """Standard deviation of the quality of a content's renderings, logits."""
    noise: float = 0.0
    """Standard deviation of what each two items of a pool add to their verdicts, logits."""

    @property
    def words(self) -> str:
        return said(
            f"{self.pools} pools, sd {self.sd:g}, corr {self.corr:g}",
            self.contents != 4 and f"contents {self.contents}",
            self.twice != 2 and f"twice {self.twice}",
            self.c_sd and f"sd of c {self.c_sd:g}",
            self.unlike and f"renderings' qualities {self.unlike:g} apart",
            self.noise and f"noise of pairs {self.noise:g}",
        )


def drawn(
    rng: Generator,
    s: Population,
    judges: Sequence[tuple[float, float, float]],
    *,
    alone: bool = False,
    pairs: int | None = None,
    pure: bool = False,
    lapses: float = 0.0,
    second: float = 0.0,
    ties: float = 0.0,
) -> tuple[own.Batch, np.ndarray]:
    """The verdicts of judges on the same pools; and the true quality [judges, pools, items].

    Args:
      judges: c, kappa and discrimination of each.
      alone: whether each judge is a study of its own, with other qualities of the items.
      pairs: ordered pairs in each pool that the last judge saw (count); None: all.
      pure: whether the verdicts of judges without a bias have no noise of pairs.
      lapses: share of verdicts that are guesses.
      second: c of a second covariate, correlated with the first; 0 for none.
      ties: see `verdicts`; they are left out.
    """
    content = np.arange(s.contents + s.twice) % s.contents
    base = rng.normal(size=(s.pools, s.contents))
    x = base[:, content]
    moved = rng.normal(size=(s.pools, s.twice))
    x[:, s.contents :] += moved if s.offset is None else s.offset
    covariates = {"words": x}
    if second:
        covariates["lists"] = 0.5 * x + rng.normal(size=x.shape)
    sides, qualities, shares = ordered_pairs(len(content)), [], []
    for c, kappa, factor in judges:
        if alone or not qualities:
            quality = correlated(rng, base, s.sd, s.corr)[:, content]
            quality = quality + s.unlike * rng.normal(size=x.shape)
        qualities.append(quality)
        biased = c != 0
        phi = factor * quality + (c + s.c_sd * biased * rng.normal(size=(s.pools, 1))) * x
        if second and biased:
            phi = phi + second * covariates["lists"]
        sd = s.noise if biased or not pure else 0.0
        noise = noise_of_pairs(rng, (*x.shape, len(content)), sd)[:, *sides]
        shares.append(verdicts(rng, phi, sides, noise + kappa, lapses, ties))
    if pairs:
        shares[-1][rng.random(shares[-1].shape).argsort(1) >= pairs] = np.nan
    tables = tables_of(np.stack(shares), sides, covariates, content)
    return own.Batch.of(tables, [*covariates], standardise=False), np.stack(qualities)


def shared_fit(
    rng: Generator,
    s: Population,
    *,
    joint: bool = False,
    judge: float = 1.0,
    trusted: float = 1.0,
    beside: float = 0.0,
    **more: Any,
) -> SharedFit:
    """The average effects in one study of a biased judge.

    Args:
      joint: whether a trusted judge, whose biases are known to be 0, sees the pools, too.
      judge, trusted: their discriminations.
      beside: discrimination of another judge, biased the other way; 0 for none.
      more: arguments of `drawn`.
    """
    panel = [(BIAS if judge else 0.0, KAPPA, judge)]
    if beside:
        panel.append((-BIAS / 2, 0.0, beside))
    if joint:
        panel.append((0.0, 0.0, trusted))
    batch, _ = drawn(rng, s, panel, **more)
    names = batch.tables.judges
    together = own.Judges.of(batch.tables, reference=names[-1]) if joint else None
    return fit_shared(SharedModel.of(batch, together))


def of_judge(fit: SharedFit) -> pd.DataFrame:
    """Estimates of the first judge, and those that all share, by quantity."""
    return fit.estimates.drop_duplicates("quantity").set_index("quantity")


def average_effects(run: Run, s: Population, **judged: Any) -> pd.Series:
    """The estimates in one study of many pools, by quantity: what intervals are about where
    something varies that the model has not."""
    rng = default_rng([run.seed, run.number, MANY])
    return of_judge(shared_fit(rng, replace(s, pools=MANY), **judged))["estimate"]


@claim(
    "`jbt fit`, over all pools",
    grid(sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(c_sd=[0.3, 0.5])
    + grid(unlike=[0.3, 0.6, 1.2], pools=[12, 40])
    + [
        {"pools": 1, "contents": 12, "twice": 6},
        {"pools": 4},
        {"pools": 6, "c_sd": 0.3},
        *grid(pools=40, c_sd=[0.0, 0.3]),
        {"pools": 80, "contents": 5, "twice": 1},
        *grid(pools=[40, 100], c_sd=0.5),
        {"pools": 40, "c_sd": 1.0},
        *grid(noise=[0.6, 1.2], pools=[12, 40]),
    ],
)
def fit(run, corr=0.5, **population):
    """c and kappa of a judge over all its pools: average effects, where something varies."""
    s, truth = Population(corr=corr, **population), {"c": BIAS, "kappa": KAPPA}
    if s.c_sd or s.unlike or s.noise:
        truth = average_effects(run, s)
    found = []
    for n in parts(run.studies, 50):
        batch, _ = drawn(run.rng, s, [(BIAS, KAPPA, 1.0)] * n, alone=True)
        found.append(own.fit_judges(batch).estimates)
    found = pd.concat(found).set_index("quantity")[["low", "high", "p_alike"]]
    low, high, p_alike = found.loc["c"].to_numpy(float).T
    yield cell("`jbt fit`: c over all pools", s.words, (low, high), truth["c"])
    alike = np.where(p_alike < ALIKE, np.nan, low), high
    name = "`jbt fit`: c, where the test for different c in the pools finds nothing"
    rejected = np.mean(p_alike[np.isfinite(low)] < ALIKE)
    miss = "few studies print it: the test finds different c in most" * bool(rejected > 0.5)
    yield cell(name, s.words, alike, truth["c"], miss=miss)
    low, high, _ = found.loc["kappa"].to_numpy(float).T
    yield cell("`jbt fit`: kappa over all pools", s.words, (low, high), truth["kappa"])


FEW = 0.25
"""Below this share, the studies that print an interval are a selection."""


@claim(
    "`jbt fit --joint`",
    grid(sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(judge=[0.0, 0.3])
    + grid(trusted=[0.5, 2.0])
    + grid(c_sd=[0.3, 0.5])
    + [
        {"pools": 12},
        {"pools": 12, "twice": 2},
        {"pools": 100},
        *grid(pairs=3, pools=[40, 12]),
        {"pairs": 1, "pools": 60, "contents": 3},
        {"pools": 100, "c_sd": 0.5},
        {"c_sd": 1.0},
    ],
)
def joint(run, judge=1.0, trusted=1.0, pairs=None, **population):
    """A biased judge together with one whose biases are known to be zero; arguments as of
    `shared_fit`."""
    s = Population(**{"pools": 40, "contents": 5, "twice": 0, "corr": 0.5} | population)
    judged = {"joint": True, "judge": judge, "trusted": trusted, "pairs": pairs}
    truth = {"c": BIAS if judge else 0.0, "kappa": KAPPA}
    truth |= {"slope": trusted * s.sd * s.corr, "discrimination": judge / trusted}
    if s.c_sd:
        truth = average_effects(run, s, **judged)[[*truth]].to_dict()
    if s.twice:
        del truth["slope"]  # it is that on the mean of two renderings, which varies less
    words = said(
        s.words,
        not judge and "a judge of discrimination 0 (c = 0, verdicts depend on position alone)",
        judge not in (0, 1) and f"discrimination of the judge {judge:g}",
        trusted != 1 and f"discrimination of the trusted judge {trusted:g}",
        pairs and f"{pairs} trusted pairs a pool",
    )
    fits = [of_judge(shared_fit(run.rng, s, **judged)) for _ in range(run.studies)]
    for name, value in truth.items():
        ends = np.array([fit.reindex([name])[["low", "high"]].iloc[0] for fit in fits], float).T
        miss = ""
        if name == "discrimination" and value == 2:
            miss = "at one standard deviation of its prior, which is centred on 1"
        elif name in ("c", "discrimination") and np.isfinite(ends[0]).mean() < FEW:
            miss = "few studies print it; in most the discrimination is partly the prior's"
        what = "slope of quality" if name == "slope" else name
        yield cell(f"`jbt fit --joint`: {what}", words, ends, value, miss=miss)


@claim(
    "",
    grid(joint=True, pools=[12, 40], varied=[{}, {"c_sd": 0.5}])
    + grid(joint=True, varied=[{"c_sd": 1.0}, {"unlike": 0.6, "twice": 2}, {"noise": 0.6}])
    + grid(joint=True, pairs=3, pools=[12, 40])
    + grid(joint=True, judge=0.3)
    + grid(joint=True, varied={"sd": 1.5, "corr": 0.9, "noise": 1.2}, pure=True)
    + [{"joint": True, "beside": 0.7}, {"joint": True, "second": 0.5}]
    + grid(joint=True, ties=0.5),
)
@claim(
    "`jbt fit`, on one comparison",
    grid(pools=[12, 40])
    + grid(pools=[12, 40], varied=[{"c_sd": 0.5}, {"unlike": 0.6}, {"noise": 0.6}])
    + grid(varied=[{"c_sd": 1.0}, {"unlike": 1.2}, {"noise": 1.2}])
    + grid(lapses=0.15)
    + grid(second=0.5)
    + grid(ties=0.5),
)
def fit_one_comparison(run, pools=40, varied=None, joint=False, **judged):
    """c of a judge on one comparison, alone or with a trusted judge; it is the generating one.

    Args:
      varied: what differs from `Population`.
      judged: arguments of `shared_fit` and of `drawn`.
    """
    s = replace(Population(pools, twice=0 if joint else 2, corr=0.5), **varied or {})
    words = {
        "judge": "discrimination of the judge {:g}",
        "pairs": "{} trusted pairs a pool",
        "pure": "noise of the biased judge alone",
        "lapses": "{:g} of verdicts are guesses",
        "beside": "another biased judge of discrimination {:g}",
        "second": "a second covariate with c {:g}",
        "ties": "ties within {:g} logits left out",
    }
    misses = {
        "lapses": "guesses draw all logits towards 0",
        "ties": "decided verdicts are surer than those that could have been ties",
    }
    ends = np.full((run.studies, 2), np.nan)
    for study in ends:
        one = one_comparison(shared_fit(run.rng, s, joint=joint, **judged), 0)
        if not isinstance(one, str):
            of_it = one.c["covariate"] == "words"
            if joint:
                of_it &= one.c["judge"] == "0"
            for row in one.c[of_it].itertuples():
                study[:] = row.low, row.high
    interval = f"`jbt fit{' --joint' * joint}`: c on one comparison"
    if "ties" in judged:
        interval += f", {COMPARED}"
    setting, miss = said(s.words, described(words, judged)), described(misses, judged)
    yield cell(interval, setting, ends.T, BIAS, miss=miss)


@claim(
    "`jbt fit`, each pool",
    grid(sd=SDS, size=[(1, 6), (1, 12), (12, 5)])
    + grid(sd=1.0, size=[(1, 12), (12, 5)], kappa=4.0),
    name="one_pool",
)
def theta_and_kappa(run, sd, size, kappa=KAPPA):
    """A judge of its own in each study; `size`: its pools, from which the sd of quality is
    estimated, and the contents of each. All of a study's contents count."""
    pools, n = size
    s, fits, truths = Population(pools, n, twice=0, sd=sd), [], []
    for studies in parts(run.studies, 50):
        batch, quality = drawn(run.rng, s, [(0.0, kappa, 1.0)] * studies, alone=True)
        fits += own.fit(own.Batch.of(batch.tables))  # without the covariate
        truths += [*(quality - quality.mean(-1, keepdims=True)).swapaxes(0, 1).reshape(-1, n)]
    words = f"{pools} pools of {n} contents, sd {sd:g}, every ordered pair once"
    words += f", kappa {kappa:g}" * (kappa != KAPPA) + ", no covariate"
    miss = "the report says that these cover less than 95 %"
    ends = [f.theta_low for f in fits], [f.theta_high for f in fits]
    yield cell("`jbt fit`: theta of a pool", words, ends, truths, miss=miss)
    near = "0.3 lies near the mean of the prior, 0"
    miss = near if kappa == KAPPA else "a large kappa; the report says so"
    ends = [f.kappa_low for f in fits], [f.kappa_high for f in fits]
    yield cell("`jbt fit`: kappa of a pool", words, ends, kappa, miss=miss)


@claim(
    "`jbt identify` and `jbt fit`, c of one pool",
    grid(sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(contents=8, sd=SDS, corr=[0.0, 0.8])
    + grid(sd=1.0, corr=0.5, twice=[0, 1, 10])
    + grid(sd=SDS, corr=0.5, share=[0.5, 0.25])
    + grid(sd=1.0, corr=0.5, twice=1, share=0.25),
)
def identify(run, sd, corr, contents=10, twice=4, share=1.0):
    """The prior-free interval for c of one pool, that of the profile likelihood; studies are pools
    of one judge. `jbt fit` prints it, too.

    It assumes nothing about quality, so its spread and its correlation with the covariate must not
    matter. Separated verdicts, and pools without a content rendered twice, have no interval.

    Args:
      twice: contents rendered twice (count).
      share: of the ordered pairs that is judged.
    """
    s = Population(run.studies, contents=contents, twice=twice, sd=sd, corr=corr, offset=1.0)
    items = s.contents + twice
    judged = round(share * items * (items - 1))
    fits = own.fit(drawn(run.rng, s, [(BIAS, KAPPA, 1.0)], pairs=judged)[0])
    ends = np.array([(*f.c_low, *f.c_high) for f in fits]).T
    words = f"quality sd {sd:g}, corr {corr:g}, {twice} of {contents} twice"
    words += f", {share:.0%} of the pairs" * (share < 1)
    miss = "with few verdicts a profile interval is approximate" if share < 1 else ""
    if miss and np.isnan(ends).any():
        miss += "; the command prints why a pool has no estimate (flat, separated)"
    interval = "jbt identify: c of one pool, profile likelihood"
    yield cell(interval, words, ends, BIAS, miss=miss)


CASES = [
    ("20 contents, no covariate", 0, 0.0, 0.0),
    ("10 contents rendered twice", 10, 0.0, 0.0),
    ("10 contents rendered twice, corr .8", 10, 0.8, 0.0),
    ("10 contents, 3 of them rendered twice, corr .8", 3, 0.8, 0.0),
    ("10 contents rendered twice, bias growing with quality by .5", 10, 0.0, 0.5),
]
"""In words; contents rendered twice, where there is a covariate and c is fitted; correlation of
quality and covariate; interaction."""


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
    grid(budget=[60, 180], case=CASES[:1], sd=SDS) + grid(budget=[60, 180], case=CASES[1:], sd=SDS),
)
def study(run, budget, case, sd):
    """The plausible ranks of contents, after verdicts that a rule chose; all contents of a pool
    count."""
    words, twice, rho, interaction = case
    drawn = studied(run.studies, run.seed, twice > 0, budget, sd, twice, rho, interaction)
    ends, ranks = [], []
    for theta, root, quality in zip(*map(np.asarray, drawn), strict=True):
        z = default_rng(0).standard_normal((4096, len(root)))
        ends.append(plausible_ranks(theta + z @ root[:, : len(theta)]))
        ranks.append(1 + (quality[:, None] < quality).sum(1))
    setting = f"{words}, sd {sd:g}, {budget} verdicts"
    miss = "no verdict shows it" if interaction else ""
    interval, ends = "`jbt status`: plausible rank of a content", np.stack(ends, 1)
    yield cell(interval, setting, ends, ranks, one_sided=True, miss=miss)
