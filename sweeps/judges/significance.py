"""Tests of the gains in the table of `judges`, and what small studies can show with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats
from jbt.experiments.table import Studies

if TYPE_CHECKING:
    from .rows import Twins

LEVEL = 0.05
"""Of the tests."""
WIDTHS, WIDTH_RESAMPLES = 400, 1000
"""Studies with a bootstrap interval, and resamples of each (counts)."""


def fill(biased: Twins) -> None:
    """Add exact paired permutation tests of each biased judge, corrected over judges, and the most
    that they can show."""
    t, counts, at = biased.t, biased.counts, {"model": "bias_aware", "k": 5}
    gains, (carried, blur) = biased.values("benefit", **at), biased.carried("benefit", **at)
    n = gains.shape[-1]
    rng = np.random.default_rng([t.seed, max(counts)])
    drawn = rng.integers(0, n, (stats.REPLICATES, max(counts)))
    plain = [gain[drawn[:, :size]] for gain, size in zip(gains, counts, strict=True)]
    judges = zip(gains, carried, blur, counts, strict=True)
    open_ = [studies_of_gains(*judge, stats.REPLICATES, rng) for judge in judges]
    corrected, p_open = (_corrected(studies, t.seed) for studies in (plain, open_))
    for i, p in enumerate(biased.judges):
        oracle = str(biased.results["oracle"].values[i])
        row: dict[str, Any] = {"judge": p.name, "oracle": oracle, "n_items": 30, **at}
        row |= {"pool": "statement_bank"}
        # Over all our pools it would be near 0: the estimate is the median of the paper's studies.
        median, share = np.median(corrected[:, i]), (corrected[:, i] < LEVEL).mean()
        t.add("p_holm", median, n_pools=n, studies=constant(p_open[:, i]), **row)
        width, widths = (interval_widths(v[i][:WIDTHS], t.seed) for v in (plain, open_))
        t.add("gain_interval_width", width.mean(), n_pools=n, studies=constant(widths), **row)
        t.add("power_at_paper_size", share, n_pools=n, **row)
        least = stats.smallest_p(counts[i])
        t.add("p_min", least, studies=constant(np.full(1, least)), **row)


def constant(values: np.ndarray) -> Studies:
    """Studies that find these values [R], whatever their size."""
    return lambda size, seeds: values


def _corrected(studies: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Holm's p-values [R, F] from studies [R, n] of each judge."""
    p_values = [stats.paired_permutation(gains, seed=seed) for gains in studies]
    return stats.holm(np.stack(p_values, axis=-1))


def studies_of_gains(
    gains: np.ndarray,
    carried: np.ndarray,
    blur: float,
    size: int,
    n_studies: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Gains [R, size] of the pools of studies, with the calibration's error in their means. Each
    study has a mean gain of its own, and draws its pools with more or less weight on high gains to
    match (exponential tilting), so that gains remain multiples of 1/k.

    Args:
      gains: [P].
      carried, blur: [P] gains with the calibration's error, and the further standard deviation of a
        study's mean.
    """
    levels, place = np.unique(np.round(gains, 6), return_inverse=True)
    share = np.bincount(place) / len(gains)
    variance = gains.var()
    beyond = max((carried.var() - variance) / size + blur**2, 0.0)
    shift = carried.mean() - gains.mean() + rng.normal(0.0, np.sqrt(beyond), n_studies)
    tilt = shift[:, None] * (levels - gains.mean()) / max(variance, 1e-12)
    weights = share * np.exp(tilt - tilt.max(1, keepdims=True))
    below = np.cumsum(weights, axis=1) / weights.sum(1, keepdims=True)
    drawn = rng.random((n_studies, size))
    index = (drawn[:, :, None] > below[:, None, :-1]).sum(-1)
    return levels[index]


def interval_widths(studies: np.ndarray, seed: int) -> np.ndarray:
    """Widths [R] of the 95 % percentile-bootstrap intervals for the mean gain in studies [R, n]."""
    size = studies.shape[-1]
    rng = np.random.default_rng([seed, *studies.shape])
    again = rng.integers(0, size, (WIDTH_RESAMPLES, size))
    means = np.stack([study[again].mean(-1) for study in studies])
    low, high = np.quantile(means, [0.025, 0.975], axis=-1)
    return high - low
