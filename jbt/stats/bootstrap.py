"""Intervals by resampling pools."""

from __future__ import annotations

import numpy as np

from jbt.stats.intervals import LEVEL, MANY, student_interval

RESAMPLES = 2000
REPLICATES = 4000
"""Small studies drawn from many pools."""
MOST_BLOCKS = 20_000
"""Most pools resampled one by one. More are resampled in this many blocks, so that neither time nor
memory grows with their number."""


def bootstrap_means(
    values: np.ndarray, *, seed: int, size: int | None = None, resamples: int = RESAMPLES
) -> np.ndarray:
    """Means over resampled pools.

    All rows are resampled together, so differences between them stay paired. Beyond 20,000 pools,
    blocks of neighbouring pools are resampled; their means scatter as those of pools do.

    Args:
      values: [..., P] a number a pool; NaN (no result) is left out of its mean.
      seed: seed of the resampling.
      size: pools drawn, with replacement; default P (the bootstrap). Smaller sizes give the
        sampling distribution of a smaller study.
      resamples: number of resamples, R.

    Returns:
      [R, ...].

    Raises:
      ValueError: no pools.
    """
    n = values.shape[-1]
    if n == 0:
        raise ValueError("no pools to resample")
    flat = values.reshape(-1, n)
    rng = np.random.default_rng([seed, n])
    if size is not None:
        means = _means_of_few(flat, rng, size, resamples)
        return means.reshape(resamples, *values.shape[:-1])
    known = np.isfinite(flat)
    filled = np.where(known, flat, 0.0)
    if n > MOST_BLOCKS:
        begin = np.linspace(0, n, MOST_BLOCKS, endpoint=False).astype(int)
        filled = np.add.reduceat(filled, begin, -1, dtype=np.float64)
        known = np.add.reduceat(known, begin, -1, dtype=np.float64)
        n = MOST_BLOCKS
    totals, counts = filled.T.astype(np.float64), known.T.astype(np.float64)
    even = bool((counts == 1).all())
    means = np.empty((resamples, flat.shape[0]))
    step = max(1, 4_000_000 // n)
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = rng.integers(0, n, (rows, n))
        weights = np.stack([np.bincount(d, minlength=n) for d in drawn]).astype(np.float64)
        total = n if even else weights @ counts
        with np.errstate(invalid="ignore"):  # no known pool drawn: the mean is undefined, NaN
            means[begin : begin + rows] = weights @ totals / total
    return means.reshape(resamples, *values.shape[:-1])


def _means_of_few(
    flat: np.ndarray, rng: np.random.Generator, size: int, resamples: int
) -> np.ndarray:
    """[R, rows] means of `size` drawn pools, without touching the others."""
    drawn = rng.integers(0, flat.shape[-1], (resamples, size))
    means = np.empty((resamples, len(flat)))
    for row, values in enumerate(flat):
        sample = values[drawn].astype(np.float64)
        known = np.isfinite(sample)
        with np.errstate(invalid="ignore"):
            means[:, row] = np.where(known, sample, 0).sum(1) / known.sum(1)
    return means


def study_means(
    values: np.ndarray, *, seed: int, size: int, same_pools: bool = False
) -> np.ndarray:
    """Means [R, G] that studies of `size` pools find at each of G points, from `values` [G, P]:
    fresh pools at every point, or the same pools at all points."""
    if same_pools:
        return bootstrap_means(values, seed=seed, size=size, resamples=REPLICATES)
    points = [
        _means_of_few(v[None], np.random.default_rng([seed, i, len(v)]), size, REPLICATES)
        for i, v in enumerate(values)
    ]
    return np.concatenate(points, axis=-1)


def with_seeds(values: np.ndarray, seeds: int | None) -> np.ndarray:
    """Means over acquisition seeds [..., P] that scatter over pools as means of `seeds` would.

    Var(mean of a pool) = between + within / seeds. Both parts are estimated from the seeds at hand;
    one factor then moves the pools' means towards (or away from) their overall mean, which stays.

    Args:
      values: [..., S, P] a number for each seed and pool.
      seeds: acquisition seeds of the study in question; None for as many as there are. A single
        seed says nothing about others, so its numbers are returned unchanged.
    """
    mean = values.mean(-2)
    s = values.shape[-2]
    if seeds in (None, s) or s == 1 or mean.shape[-1] == 1:
        return mean
    within = values.var(-2, ddof=1).mean(-1, keepdims=True)
    total = mean.var(-1, ddof=1, keepdims=True)
    wanted = np.maximum(total - within / s, 0) + within / seeds
    factor = np.sqrt(np.divide(wanted, total, out=np.ones_like(total), where=total > 0))
    overall = mean.mean(-1, keepdims=True)
    return overall + factor * (mean - overall)


def mean_interval(values: np.ndarray, *, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over the last axis (pools) with its interval: mean, low, high. NaN is left out.

    For 30 pools or more, the interval is the percentile bootstrap's. For 5 to 29, where that covers
    too rarely, it is Student's t. For fewer than 5, or fewer than 30 that are all alike, there is
    none: NaN.
    """
    tail = (1 - LEVEL) / 2
    bootstrapped = np.quantile(bootstrap_means(values, seed=seed), [tail, 1 - tail], axis=0)
    student = student_interval(values)[1:]
    low, high = np.where(np.isfinite(values).sum(-1) < MANY, student, bootstrapped)
    return np.asarray(np.nanmean(values, axis=-1)), np.asarray(low), np.asarray(high)


def jackknife_interval(without_one: np.ndarray) -> tuple[float, float, float]:
    """Mean of the leave-one-out estimates, with the jackknife's interval (Tukey 1958; t with P - 1
    degrees of freedom): mean, low, high.

    Args:
      without_one: [P] the estimate without each pool in turn.
    """
    from scipy.special import stdtrit

    n = len(without_one)
    mean = float(without_one.mean())
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * np.sqrt((n - 1) * without_one.var()))
    return mean, mean - half, mean + half
