"""Intervals of `jbt identify` about a bias that changes with quality: c of the stronger and of the
weaker half of a pool's contents, their difference, and gamma.

A pool has a few contents, some or all rendered twice. The judge's bias is (c + gamma q) x, with q
about the mean of the pool's contents and x likewise. c of a half is the mean of c + gamma q over
the truly stronger contents of the study's pools. In some settings an assumption of the fit fails:
c changes with quality in a step, or with the pool's mean quality as well; quality is skewed, goes
with x, or spreads more where x is large; one order alone is shown, and kappa fixed at 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from benchmarks.calibration import Cell
from benchmarks.calibration._pools import LAM_B, Pools, Setting, chunks, draw
from jbt import runtime
from jbt.own.shared_coefficients import bias_slope
from jbt.own.shared_coefficients.between import about_contents
from jbt.own.shared_coefficients.bias_slope import BiasSlope
from jbt.types import Comparisons, Prior

FEWEST, MOST, POOLS, POOLS_AT_ONCE = 40, 150, 1_800, 400
"""Fewest and most studies of a setting, enough pools, and pools fitted at once (counts)."""
NAMES = {
    "c": "c of an average content",
    "stronger": "c of the stronger half of the contents",
    "weaker": "c of the weaker half of the contents",
    "difference": "difference of c between the halves",
    "gamma": "gamma",
}
STEP = "c is no line in quality: gamma stands for a best line"


@dataclass(frozen=True)
class Case:
    """A setting of studies, with how c depends on quality."""

    pools: Setting
    gamma: float
    step: bool = False
    """Whether c has one value in each half, 1.6 gamma apart, instead of a slope."""
    absolute: bool = False
    """Whether c goes with quality itself, not with its distance from the pool's mean."""
    spread: float = 0.0
    """Log of the factor of a quality's distance from 0 for each unit of x."""
    skewed: bool = False
    """Whether quality is exponentially distributed."""
    one_order: bool = False

    @property
    def words(self) -> str:
        """The setting in words."""
        s = self.pools
        parts = [f"gamma {self.gamma:g}", s.words]
        if s.twice == s.contents and s.paired_pools == 1:
            parts.append("all twice")
        parts += ["c in a step"] * self.step + ["c with the pool's mean quality"] * self.absolute
        parts += [f"quality spreads by exp({self.spread:g} x)"] * (self.spread != 0)
        parts += ["skewed quality"] * self.skewed + ["one order"] * self.one_order
        return ", ".join(parts)

    def draw(
        self, rng: np.random.Generator, studies: int
    ) -> tuple[Pools, np.ndarray, np.ndarray, np.ndarray]:
        """Pools, [F, M] c of each content, and how often each pair was shown and won."""
        s, pools = self.pools, draw(rng, self.pools, studies)
        q, m = pools.quality, self.pools.contents
        if self.skewed:
            q = s.sd * (rng.exponential(size=q.shape) - 1)
        q = q * np.exp(self.spread * pools.x[:, :m])
        pools = replace(pools, quality=q)
        about = q if self.absolute else q - q.mean(1, keepdims=True)
        if self.step:
            about = 0.8 * np.sign(q - np.median(q, 1, keepdims=True))
        c = s.c + s.c_sd * rng.normal(size=(len(q), 1)) + self.gamma * about
        x, kappa = about_contents(pools.design)[0][:, :, 0], 0 if self.one_order else s.kappa
        phi = (q[:, pools.content] + c[:, pools.content] * x)[:, :, None]
        shown = pools.shown * (np.triu(np.ones(pools.shown.shape[1:])) if self.one_order else 1)
        wins = rng.binomial(shown.astype(int), expit(phi - phi.mT + kappa)).astype(float)
        return pools, c, shown, wins


ALL = Setting(pools=30, contents=4, twice=4)
CORRELATED = replace(ALL, corr=0.8)
CASES = (
    *(Case(replace(ALL, pools=n), g) for n in (30, 10, 100) for g in (0.0, 0.5, 1.0)),
    *(Case(Setting(pools=30), g) for g in (0.0, 0.5)),
    *(Case(CORRELATED, g) for g in (0.0, 1.0)),
    Case(CORRELATED, 0.0, one_order=True),
    Case(ALL, 0.5, one_order=True),
    Case(ALL, 0.0, spread=0.5),
    Case(ALL, 0.5, skewed=True),
    Case(ALL, 0.5, absolute=True),
    Case(ALL, 0.5, step=True),
    *(Case(replace(ALL, sd=sd), 0.5) for sd in (0.4, 2.5)),
    Case(replace(ALL, paired_pools=0.5, c_sd=0.3), 0.5),
    Case(Setting(pools=1, contents=16, twice=16), 0.5),
)


def fitted(
    case: Case, rng: np.random.Generator, studies: int
) -> tuple[Pools, np.ndarray, BiasSlope]:
    """The pools, c of each content, and the fit of every study."""
    pools, c, *counts = case.draw(rng, studies)
    comparisons = jax.vmap(Comparisons)(*(jnp.asarray(v) for v in counts))
    f = len(pools.owner)
    kappa = np.full(f, not case.one_order)
    part = bias_slope.stack(pools.design, comparisons, np.ones((f, 1), bool), kappa, pools.owner)
    prior = Prior(1.0, LAM_B)
    return pools, c, bias_slope.fit([part], prior, studies)


def targets(case: Case, pools: Pools, c: np.ndarray, study: int) -> dict[str, float]:
    """The truth of a study."""
    rows = pools.owner == study
    rank = (-pools.quality[rows]).argsort(1).argsort(1)
    m, half = rank.shape[1], rank.shape[1] // 2
    stronger, weaker = c[rows][rank < half].mean(), c[rows][rank >= m - half].mean()
    return {
        "c": case.pools.c,
        "stronger": stronger,
        "weaker": weaker,
        "difference": stronger - weaker,
        "gamma": np.nan if case.step else case.gamma,
    }


def cells(studies: int, seed: int) -> Iterator[Cell]:
    with runtime.precision("float64"):
        for number, case in enumerate(CASES):
            rng = np.random.default_rng([seed, number])
            n = min(studies, max(POOLS // case.pools.pools, FEWEST), MOST)
            rows: list[dict[str, tuple[float, float]]] = []
            for chunk in chunks(n, case.pools.pools, POOLS_AT_ONCE):
                pools, c, fit = fitted(case, rng, chunk)
                for study in range(chunk):
                    truth = targets(case, pools, c, study)
                    results = fit.known(study, 0)
                    rows.append({k: (v - truth[k], r.half_width) for k, v, r in results})
            for name, words in NAMES.items():
                error, half = np.array([row[name] for row in rows]).T
                if np.isnan(error).all():
                    continue
                printed = np.isfinite(half)
                width = float(np.median(2 * half[printed])) if printed.any() else np.nan
                covered = int((np.abs(error) <= half)[printed].sum())
                yield Cell(
                    f"{words} (jbt identify)",
                    case.words,
                    n,
                    int(printed.sum()),
                    covered,
                    median_width=width,
                    note=STEP if case.step else "",
                    may_miss=case.step,
                )
