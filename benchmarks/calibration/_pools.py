"""Studies of many small pools, fitted by `marginal_fit.maximum`: a study is an owner."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from benchmarks.calibration import Cell
from jbt import runtime
from jbt.own.fits.report import ALIKE
from jbt.own.shared_coefficients import marginal_fit
from jbt.own.shared_coefficients.between import content_means, with_means
from jbt.own.shared_coefficients.intervals import known
from jbt.own.shared_coefficients.marginal_fit import Maximum, PoolStack
from jbt.types import Comparisons, Design, Panel, Prior

LAM_B = 0.1
LEVEL_ALIKE = ALIKE
UNLIKE = (
    "an average over unlike pools is biased towards 0; the report warns where its test finds it"
)


@dataclass(frozen=True)
class Setting:
    """A setting of studies: pools of a few contents, every ordered pair shown once."""

    pools: int = 12
    contents: int = 4
    twice: int = 2
    """Contents rendered twice in each pool (count)."""
    sd: float = 1.0
    """Standard deviation of quality, logits."""
    corr: float = 0.0
    """Correlation of quality and the covariate of a content's first rendering."""
    apart: float = 1.0
    """Standard deviation of the difference of two renderings."""
    c: float = 1.0
    c_sd: float = 0.0
    """Standard deviation of c between pools."""
    kappa: float = 0.3
    paired_pools: float = 1.0
    """Share of pools in which any content is rendered twice."""
    unequal: bool = False
    """Whether pools are shown a lognormal number of times (sd 1 of its log), not once."""

    @property
    def words(self) -> str:
        """Differences from the default, in words."""
        names = {"apart": "renderings apart", "c_sd": "sd of c", "paired_pools": "share paired"}
        changed = [f"{self.pools} pools", f"sd {self.sd:g}", f"corr {self.corr:g}"]
        default = Setting()
        for name in ("contents", "twice", "apart", "c_sd", "paired_pools"):
            if getattr(self, name) != getattr(default, name):
                changed.append(f"{names.get(name, name)} {getattr(self, name):g}")
        return ", ".join(changed + ["unequal pools"] * self.unequal)


@dataclass(frozen=True)
class Pools:
    """F pools of N items, M contents."""

    design: Design
    quality: np.ndarray
    """[F, M]"""
    x: np.ndarray
    """[F, N]"""
    content: np.ndarray
    """[N]"""
    shown: np.ndarray
    """[F, N, N]"""
    owner: np.ndarray = field(repr=False)
    """[F] number of the pool's study."""


def draw(rng: np.random.Generator, s: Setting, studies: int) -> Pools:
    """The pools of many studies."""
    f, m, n = studies * s.pools, s.contents, s.contents + s.twice
    base = rng.normal(size=(f, m))
    quality = s.sd * (s.corr * base + np.sqrt(1 - s.corr**2) * rng.normal(size=(f, m)))
    content = np.r_[np.arange(m), np.arange(s.twice)]
    x = base[:, content]
    x[:, m:] += s.apart * rng.normal(size=(f, s.twice))
    mask = np.ones((f, n), bool)
    unpaired = np.arange(f) % s.pools >= round(s.paired_pools * s.pools)
    mask[unpaired, m:] = False
    times = np.ones(f)
    if s.unequal:
        times = np.ceil(rng.lognormal(0, 1, f))
    pairs = mask[:, :, None] & mask[:, None] & ~np.eye(n, dtype=bool)
    with runtime.precision("float64"):
        design = jax.vmap(partial(Design, n_contents=m))(
            jnp.asarray(x[:, :, None]),
            jnp.asarray(np.tile(content, (f, 1)).astype(np.int32)),
            jnp.asarray(mask),
        )
    owner = np.repeat(np.arange(studies), s.pools)
    return Pools(design, quality, x, content, pairs * times[:, None, None], owner)


def judged(
    rng: np.random.Generator,
    pools: Pools,
    c: np.ndarray | float,
    kappa: float,
    s: float = 1.0,
    shown: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """How often each pair was shown, and how often the first then won [F, N, N].

    Args:
      c: [F] or a number.
      s: the judge's discrimination.
    """
    shown = pools.shown if shown is None else shown
    phi = s * pools.quality[:, pools.content] + np.reshape(c, (-1, 1)) * pools.x
    p = 1 / (1 + np.exp(-(phi[:, :, None] - phi[:, None, :] + kappa)))
    return shown, rng.binomial(shown.astype(int), p).astype(float)


def fitted(
    pools: Pools, verdicts: list[tuple[np.ndarray, np.ndarray]], n_known: int = 0
) -> tuple[Maximum, list[PoolStack]]:
    """Every study's shared parameters. With one judge: c, kappa, b, log sd. With several, the last
    `n_known` unbiased: c and kappa of each, b, their discriminations, log sd."""
    studies, j = int(pools.owner[-1]) + 1, len(verdicts)
    with runtime.precision("float64"):
        counts = [jnp.asarray(np.stack(v, -1)) for v in zip(*verdicts, strict=True)]
        if j == 1:
            comparisons = jax.vmap(Comparisons)(*(v[..., 0] for v in counts))
        else:
            comparisons = jax.vmap(Comparisons)(*counts)
        design, comparisons = with_means(pools.design, comparisons, content_means(pools.design))
        f = len(pools.owner)
        loadings = np.zeros((f, 3, j, 2 * j + 1))
        for g in range(j - n_known):
            loadings[:, 0, g, g] = loadings[:, 2, g, j + g] = 1
        loadings[:, 1, :, 2 * j] = 1
        if j > 1:
            sharing = jnp.asarray(np.tile(np.eye(j), (f, 1, 1)))
            comparisons = jax.vmap(Panel)(comparisons, jnp.ones((f, j)), sharing)
        loadings = jnp.asarray(loadings.reshape(f, 3 * j, -1))
        part = PoolStack(comparisons, design, loadings, pools.owner)
        graded = None if j == 1 else np.r_[np.ones(j - 1, bool), False]
        top = marginal_fit.maximum(
            [part], Prior(), np.full(2 * j + 1, LAM_B), studies, spread=True, graded=graded
        )
    return top, [part]


def cell(
    interval: str,
    setting: str,
    top: Maximum,
    parts: list[PoolStack],
    place: int,
    truth: float,
    *,
    alike: bool = False,
) -> Cell:
    """The coverage of one parameter's interval; with `alike`, in the studies whose test for
    different values in the pools finds nothing."""
    direction = np.zeros((1, top.at.shape[1]))
    direction[0, place] = 1
    found = [known(top, parts, s, direction, np.array([True])) for s in range(len(top.at))]
    estimates = pd.concat(found)
    half_width = (estimates["high"] - estimates["low"]).to_numpy() / 2
    if alike:
        half_width = np.where(estimates["p_alike"] < LEVEL_ALIKE, np.nan, half_width)
    printed = np.isfinite(half_width)
    covered = np.abs(top.at[:, place] - truth)[printed] <= half_width[printed]
    width = float(np.median(2 * half_width[printed])) if printed.any() else np.nan
    counts = (len(half_width), int(printed.sum()), int(covered.sum()))
    return Cell(interval, setting, *counts, median_width=width)


def chunks(studies: int, pools: int, largest: int = 24_000) -> Iterator[int]:
    """Numbers of studies to fit at once, so that at most `largest` pools are fitted at once."""
    size = max(largest // pools, 1)
    for start in range(0, studies, size):
        yield min(size, studies - start)


def pooled(cells: list[Cell]) -> Cell:
    """Cells of one setting, drawn in chunks, as one."""
    totals = {
        name: sum(getattr(c, name) for c in cells) for name in ("studies", "printed", "covered")
    }
    widths = [c.median_width for c in cells if c.printed]
    width = float(np.median(widths)) if widths else np.nan
    return dataclasses.replace(cells[0], **totals, median_width=width)
