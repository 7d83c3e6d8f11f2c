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
from numpy.random import Generator, default_rng
from scipy.special import expit

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
from jbt import identifiability, own
from jbt.acquisition import Loop, Task
from jbt.acquisition import run as acquire
from jbt.acquisition.runs import bought
from jbt.kernel.laplace import laplace
from jbt.own.fits.one_comparison import one_comparison
from jbt.own.fits.report import ALIKE
from jbt.own.fits.shared import SharedFit, SharedModel, fit_shared
from jbt.own.shared_coefficients import marginal_fit
from jbt.own.shared_coefficients.between import content_means, with_means
from jbt.own.shared_coefficients.intervals import known
from jbt.own.studies.report import plausible_ranks
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import stream
from jbt.types import Comparisons, Design, Judge, Panel, Prior, Status, Variant

AT_ONCE = 24_000
"""Most pools fitted at once (count)."""
KAPPA, BIAS = 0.3, 1.0
SDS = [0.4, 1.0, 2.5]
"""Standard deviations of quality, logits."""
MANY = 20_000
"""Pools of the study whose estimates are the average effects."""
NOT_NAMED = "the average effect is printed, which is nearer to 0"


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
    apart: float = 1.0
    """Standard deviation of the difference of two renderings."""
    c_sd: float = 0.0
    """Standard deviation of c between pools."""
    unlike: float = 0.0
    """Standard deviation of the quality of a content's renderings, logits."""
    noise: float = 0.0
    """Standard deviation of what each two items of a pool add to their verdicts, logits."""
    paired_pools: float = 1.0
    """Share of pools in which any content is rendered twice."""
    unequal: bool = False
    """Whether pools are shown a lognormal number of times (sd 1 of its log), not once."""

    @property
    def words(self) -> str:
        return said(
            f"{self.pools} pools, sd {self.sd:g}, corr {self.corr:g}",
            self.contents != 4 and f"contents {self.contents}",
            self.twice != 2 and f"twice {self.twice}",
            self.apart != 1 and f"renderings apart {self.apart:g}",
            self.c_sd and f"sd of c {self.c_sd:g}",
            self.unlike and f"renderings' qualities {self.unlike:g} apart",
            self.noise and f"noise of pairs {self.noise:g}",
            self.paired_pools < 1 and f"share paired {self.paired_pools:g}",
            self.unequal and "unequal pools",
        )


def draw(rng: Generator, s: Population, studies: int) -> tuple[Any, ...]:
    """The F pools of many studies, one study after the other: design, quality [F, N] of each item,
    covariate [F, N] and how often each pair is shown [F, N, N]."""
    f, m, n = studies * s.pools, s.contents, s.contents + s.twice
    base, pool, item = rng.normal(size=(f, m)), np.arange(f), np.arange(n)
    quality = correlated(rng, base, s.sd, s.corr)
    x = base[:, item % m]
    x[:, m:] += s.apart * rng.normal(size=(f, s.twice))
    paired = pool % s.pools < round(s.paired_pools * s.pools)
    mask = paired[:, None] | (item < m)
    times = np.ceil(rng.lognormal(0, 1, f)) if s.unequal else np.ones(f)
    shown = mask[:, :, None] & mask[:, None] & ~np.eye(n, dtype=bool)
    content = np.tile(item % m, (f, 1)).astype(np.int32)
    arrays = map(jnp.asarray, (x[:, :, None], content, mask))
    design = jax.vmap(lambda x, content, mask: Design(x, content, mask, m))(*arrays)
    quality = quality[:, item % m]
    if s.unlike:
        quality = quality + s.unlike * rng.normal(size=(f, n))
    return design, quality, x, shown * times[:, None, None]


def fitted(design: Design, shares: Sequence[tuple[np.ndarray, ...]], studies: int) -> np.ndarray:
    """[parameters, 3, studies] low, high, and p of the test for values that differ between pools.

    The parameters are c, kappa and the slope b of quality, common to all judges, then
    discriminations: only the first judge is biased, and the last one's discrimination is 1.
    """
    j, f = len(shares), len(shares[0][0])
    counts = (jnp.asarray(np.stack(v, -1)) for v in zip(*shares, strict=True))
    design, counts = with_means(design, jax.vmap(Comparisons)(*counts), content_means(design))
    sharing = jnp.asarray(np.tile(np.eye(j), (f, 1, 1)))
    panel = jax.vmap(Panel)(counts, jnp.ones((f, j)), sharing)
    loadings = np.zeros((3, j, 3))  # of c, of the means' coefficient and of kappa
    loadings[0, 0, 0] = loadings[2, 0, 1] = 1
    loadings[1, :, 2] = 1
    loadings = jnp.asarray(np.tile(loadings.reshape(3 * j, 3), (f, 1, 1)))
    owner = np.repeat(np.arange(studies), f // studies)
    stacks = [marginal_fit.PoolStack(panel, design, loadings, owner)]
    weights, graded = np.full(3, 0.1), np.arange(j) < j - 1
    top = marginal_fit.maximum(stacks, Prior(), weights, studies, spread=True, graded=graded)
    parameters = np.eye(top.at.shape[1])[: 2 + j]
    identified = np.ones(len(parameters), bool)
    tables = [known(top, stacks, study, parameters, identified) for study in range(studies)]
    return np.stack([t[["low", "high", "p_alike"]] for t in tables], -1)


def studies_of(
    rng: Generator,
    s: Population,
    studies: int,
    c: float = BIAS,
    judge: float = 1.0,
    trusted: float | None = None,
    pairs: int | None = None,
) -> np.ndarray:
    """`fitted` for some studies; further arguments as of `joint`."""
    design, quality, x, shown = draw(rng, s, studies)
    noise = noise_of_pairs(rng, shown.shape, s.noise)

    def judged(c, kappa, factor, shown):
        """How often each pair was shown, and how often the first then won [F, N, N]."""
        phi = factor * quality + c * x
        p = expit(phi[:, :, None] - phi[:, None, :] + noise + kappa)
        return shown, rng.binomial(shown.astype(int), p).astype(float)

    of_judges = [judged(c + s.c_sd * rng.normal(size=(len(x), 1)), KAPPA, judge, shown)]
    if pairs:
        shown = few_pairs(rng, shown, pairs)
    if trusted is not None:
        of_judges.append(judged(0.0, 0.0, trusted, shown))
    return fitted(design, of_judges, studies)


def estimated(run: Run, s: Population, *judged: Any) -> np.ndarray:
    """`studies_of` all studies of a setting, some at a time."""
    sizes = parts(run.studies, max(AT_ONCE // s.pools, 1))
    return np.concatenate([studies_of(run.rng, s, n, *judged) for n in sizes], -1)


def average_effects(run: Run, s: Population, *judged: Any) -> np.ndarray:
    """[parameters] the estimates in one study of many pools: what intervals are about where
    something varies that the model has not."""
    rng = default_rng([run.seed, run.number, MANY])
    return studies_of(rng, replace(s, pools=MANY), 1, *judged)[:, :2, 0].mean(1)


def few_pairs(rng: Generator, shown: np.ndarray, pairs: int) -> np.ndarray:
    """[F, N, N] some pairs of each pool, each shown once in one of the two orders."""
    score = np.where(shown > 0, rng.random(shown.shape), 1)
    score = np.where(score < score.swapaxes(1, 2), score, 1)
    last = np.sort(score.reshape(len(score), -1))[:, pairs - 1]
    return (score <= last[:, None, None]).astype(float)


@claim(
    "`jbt fit`, over all pools",
    grid(sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(c_sd=[0.3, 0.5])
    + grid(unlike=[0.3, 0.6, 1.2], pools=[12, 40])
    + grid(paired_pools=0.5, c_sd=[0.0, 0.3])
    + grid(paired_pools=0.25)
    + grid(unequal=True, c_sd=[0.0, 0.3])
    + [
        {"apart": 0.02},
        {"pools": 1, "contents": 12, "twice": 6},
        {"pools": 4},
        {"pools": 6, "c_sd": 0.3},
        *grid(pools=40, c_sd=[0.0, 0.3]),
        {"pools": 80, "contents": 5, "twice": 1},
        {"pools": 100, "unequal": True, "c_sd": 0.3},
        *grid(pools=[40, 100], c_sd=0.5),
        {"pools": 40, "c_sd": 1.0},
        *grid(noise=[0.6, 1.2], pools=[12, 40]),
    ],
)
def fit(run, corr=0.5, **population):
    """c and kappa of a judge over all its pools: average effects, where something varies."""
    s = Population(corr=corr, **population)
    (low, high, p_alike), of_kappa, _ = estimated(run, s)
    c, kappa = BIAS, KAPPA
    if s.c_sd or s.unlike or s.noise:
        c, kappa, _ = average_effects(run, s)
        name = f"`jbt fit`: c on one comparison, {COMPARED}"
        yield cell(name, s.words, (low, high), BIAS, miss=NOT_NAMED)
    alike = np.where(p_alike < ALIKE, np.nan, low), high
    yield cell("`jbt fit`: c over all pools", s.words, (low, high), c)
    name = "`jbt fit`: c, where the test for different c in the pools finds nothing"
    rejected = np.mean(p_alike[np.isfinite(low)] < ALIKE)
    miss = "few studies print it: the test finds different c in most" * bool(rejected > 0.5)
    yield cell(name, s.words, alike, c, miss=miss)
    yield cell("`jbt fit`: kappa over all pools", s.words, of_kappa[:2], kappa)


FEW = 0.25
"""Below this share, the studies that print an interval are a selection."""


@claim(
    "`jbt fit --joint`",
    grid(sd=SDS, corr=[0.0, 0.5, 0.8])
    + grid(judge=[0.0, 0.3])
    + grid(trusted=[0.5, 2.0])
    + grid(c_sd=[0.3, 0.5])
    + [
        {"unequal": True},
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
    """A biased judge together with one whose biases are known to be zero.

    Args:
      judge, trusted: their discriminations.
      pairs: pairs in each pool that the trusted judge saw once, in a random order (count); None:
        all, in both orders.
    """
    s = Population(**{"pools": 40, "contents": 5, "twice": 0, "corr": 0.5} | population)
    c = BIAS if judge else 0.0
    judged = c, judge, trusted, pairs
    truths = {"c": c, "kappa": KAPPA, "slope of quality": trusted * s.sd * s.corr}
    truths["discrimination"] = judge / trusted
    if s.c_sd:
        truths = dict(zip(truths, average_effects(run, s, *judged), strict=True))
    words = said(
        s.words,
        not judge and "a judge of discrimination 0 (c = 0, verdicts depend on position alone)",
        judge not in (0, 1) and f"discrimination of the judge {judge:g}",
        trusted != 1 and f"discrimination of the trusted judge {trusted:g}",
        pairs and f"{pairs} trusted pairs a pool",
    )
    every = zip(truths.items(), estimated(run, s, *judged), strict=True)
    for (name, truth), (low, high, _) in every:
        miss = ""
        if name == "slope of quality" and s.twice:
            continue  # the slope is that on the mean of two renderings, which varies less
        if name == "discrimination" and truth == 2:
            miss = "at one standard deviation of its prior, which is centred on 1"
        elif name in ("c", "discrimination") and np.isfinite(low).mean() < FEW:
            miss = "few studies print it; in most the discrimination is partly the prior's"
        yield cell(f"`jbt fit --joint`: {name}", words, (low, high), truth, miss=miss)


@claim(
    "",
    grid(joint=True, pools=[12, 40], varied=[{}, {"c_sd": 0.5}])
    + grid(joint=True, varied=[{"c_sd": 1.0}, {"unlike": 0.6, "twice": 2}, {"noise": 0.6}])
    + grid(joint=True, pairs=3, pools=[12, 40])
    + grid(joint=True, judge=0.3)
    + grid(joint=True, varied={"sd": 1.5, "corr": 0.9, "noise": 1.2}, pure=True)
    + [{"joint": True, "beside": 0.7}, {"joint": True, "second": 0.5}]
    + grid(joint=True, ties=0.5),
    most=1000,
)
@claim(
    "`jbt fit`, on one comparison",
    grid(pools=[12, 40])
    + grid(pools=[12, 40], varied=[{"c_sd": 0.5}, {"unlike": 0.6}, {"noise": 0.6}])
    + grid(varied=[{"c_sd": 1.0}, {"unlike": 1.2}, {"noise": 1.2}])
    + grid(lapses=0.15)
    + grid(second=0.5)
    + grid(ties=0.5),
    most=1000,
)
def fit_one_comparison(run, pools=40, varied=None, joint=False, **judged):
    """c of a judge on one comparison, alone or with a trusted judge; it is the generating one.

    Args:
      varied: what differs from `Population`.
      judged: arguments of `shared_fit`.
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


def shared_fit(
    rng: Generator,
    s: Population,
    *,
    joint: bool = False,
    judge: float = 1.0,
    pairs: int | None = None,
    pure: bool = False,
    lapses: float = 0.0,
    beside: float = 0.0,
    second: float = 0.0,
    ties: float = 0.0,
) -> SharedFit:
    """The average effects in one study of `fit_one_comparison`, by whose tables they are fitted.

    Args:
      joint: whether a trusted judge sees the pools, too.
      judge, pairs: see `joint`.
      pure: whether the trusted judge's verdicts have no noise of pairs.
      lapses: share of verdicts that are guesses.
      beside: discrimination of another judge, biased the other way; 0 for none.
      second: c of a second covariate, correlated with the first; 0 for none.
      ties: see `verdicts`; they are left out.
    """
    _, quality, x, shown = draw(rng, s, 1)
    covariates = {"words": x}
    if second:
        covariates["lists"] = 0.5 * x + rng.normal(size=x.shape)
    sides = ordered_pairs(x.shape[1])
    shares = []
    others = [(-BIAS / 2, 0.0, beside)] * bool(beside) + [(0.0, 0.0, 1.0)] * joint
    for c, kappa, factor in [(BIAS, KAPPA, judge), *others]:
        of_pool = c + s.c_sd * (c != 0) * rng.normal(size=(s.pools, 1))
        phi = factor * quality + of_pool * x
        if second:
            phi = phi + second * (c != 0) * covariates["lists"]
        sd = 0.0 if pure and c == 0 else s.noise
        noise = np.broadcast_to(noise_of_pairs(rng, shown.shape, sd), shown.shape)
        shares.append(verdicts(rng, phi, sides, noise[:, *sides] + kappa, lapses, ties))
    if pairs:
        trusted = few_pairs(rng, shown, pairs)
        shares[-1][trusted[:, *sides] == 0] = np.nan
    content = np.arange(x.shape[1]) % s.contents
    tables = tables_of(np.stack(shares), sides, covariates, content)
    batch = own.Batch.of(tables, list(covariates), standardise=False)
    panel = own.Judges.of(tables, reference=tables.judges[-1]) if joint else None
    return fit_shared(SharedModel.of(batch, panel))


def fits_of(
    rng: Generator,
    pools: int,
    n: int,
    sd: float,
    corr: float = 0.0,
    twice: int = 0,
    kappa: float = KAPPA,
) -> list[tuple[own.PoolFit, np.ndarray]]:
    """Pools of n contents and one judge, fitted together, each with the true theta of its items."""
    content, sides = np.arange(n + twice) % n, ordered_pairs(n + twice)
    truths, x, shares = [], [], []
    for _ in range(pools):
        base = rng.normal(size=n)
        quality = correlated(rng, base, sd, corr)
        x.append(np.r_[base, base[:twice] + rng.normal(size=twice)])
        phi = quality[content] + BIAS * x[-1] * (twice > 0)
        shares.append(verdicts(rng, phi, sides, kappa))
        truths.append((quality - quality.mean())[content])
    tables = tables_of(np.array([shares]), sides, np.array(x), content)
    batch = own.Batch.of(tables, ["words"] if twice else [], standardise=False)
    return list(zip(own.fit(batch), truths, strict=True))


@claim(
    "`jbt fit`, each pool",
    grid(sd=SDS, size=[(1, 6), (1, 12), (12, 5)])
    + grid(sd=1.0, size=[(1, 12), (12, 5)], kappa=4.0),
    name="one_pool",
    most=1000,
)
def theta_and_kappa(run, sd, size, kappa=KAPPA):
    """A judge of its own in each study; `size`: its pools, from which the sd of quality is
    estimated, and the contents of each. All of a study's contents count."""
    pools, n = size
    found = [
        pair for _ in range(run.studies) for pair in fits_of(run.rng, pools, n, sd, kappa=kappa)
    ]
    fits, truths = zip(*found, strict=True)
    words = f"{pools} pools of {n} contents, sd {sd:g}, every ordered pair once"
    words += f", kappa {kappa:g}" * (kappa != KAPPA) + ", no covariate"
    miss = "the report says that these cover less than 95 %"
    ends = [f.theta_low for f in fits], [f.theta_high for f in fits]
    yield cell("`jbt fit`: theta of a pool", words, ends, truths, miss=miss)
    near = "0.3 lies near the mean of the prior, 0"
    miss = near if kappa == KAPPA else "a large kappa; the report says so"
    ends = [f.kappa_low for f in fits], [f.kappa_high for f in fits]
    yield cell("`jbt fit`: kappa of a pool", words, ends, kappa, miss=miss)


@claim("", grid(sd=SDS, corr=[0.0, 0.8]), name="one_pool")
def c_of_a_pool(run, sd, corr):
    """Studies are pools of one judge, fitted together."""
    rng = default_rng([run.seed, run.number, 1])
    fits = [f for f, _ in fits_of(rng, run.studies, 8, sd, corr, 4)]
    words = f"8 contents, 4 rendered twice, sd {sd:g}, corr {corr:g}, every ordered pair once"
    ends = [f.c_low for f in fits], [f.c_high for f in fits]
    yield cell("`jbt fit`: c of a pool", words, ends, BIAS)


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, None, None, None, None))
def bias_of_a_pool(key, sd, rho, twice, share):
    """`BiasEstimate` of one pool of ten contents, some of them rendered twice."""
    a, b, c = jax.random.split(key, 3)
    pool = pools.paired(a, 10, n_twice=twice, sd=sd, rho=rho, spread=1.0)
    every = pairs.every_pair(pool)
    shown = every * (jax.random.uniform(b, every.shape) < share)
    p = judges.verdict_probability(pool, Judge(jnp.full(1, BIAS), KAPPA))
    return identifiability.estimate_bias(judges.fresh_comparisons(c, p, shown), pool.design)


@claim(
    "`jbt identify`, one pool",
    grid(sd=SDS, rho=[0.0, 0.5, 0.8])
    + grid(sd=1.0, rho=0.5, twice=[0, 1, 10])
    + grid(sd=SDS, rho=0.5, share=[0.5, 0.25])
    + grid(sd=1.0, rho=0.5, twice=1, share=0.25),
    most=1000,
)
def identify(run, sd, rho, twice=4, share=1.0):
    """The prior-free intervals for c of one pool: that of the profile likelihood, which the command
    prints, and Wald's, which `identifiability.estimate_bias` also returns.

    The intervals assume nothing about quality, so its spread and its correlation with the covariate
    must not matter. Separated verdicts, and pools without a content rendered twice, have no
    interval.

    Args:
      twice: contents rendered twice (count).
      share: of the ordered pairs that is judged.
    """
    keys = jax.random.split(run.key, run.studies)
    setting = map(jnp.asarray, (sd, rho, twice, share))
    found = jax.device_get(bias_of_a_pool(keys, *setting))
    defined = found.status == Status.CONVERGED
    words = f"quality sd {sd:g}, corr {rho:g}, {twice} of 10 twice"
    words += f", {share:.0%} of the pairs" * (share < 1)
    miss = "with few verdicts a profile interval is approximate" if share < 1 else ""
    if miss and not defined.all():
        miss += "; the command prints why a pool has no estimate (flat, separated)"
    ends = np.where(defined, [found.low, found.high], np.nan)
    interval = "jbt identify: c of one pool,"
    yield cell(f"{interval} profile likelihood", words, ends, BIAS, miss=miss)
    ends = np.where(defined, [found.wald_low, found.wald_high], np.nan)
    miss = "jbt identify does not print it"
    yield cell(f"{interval} Wald, for comparison", words, ends, BIAS, miss=miss)


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
    most=200,
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
