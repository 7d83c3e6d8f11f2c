"""Where a curve crosses zero, with intervals."""

from __future__ import annotations

import math

import numpy as np

from jbt.stats.bootstrap import bootstrap_means
from jbt.stats.intervals import FEWEST, LEVEL, MANY


def first_crossing(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where y first changes from positive to not positive, linearly interpolated.

    Args:
      x: [G] increasing, or [..., G] a grid for each curve.
      y: [..., G].

    Returns:
      [...] crossing in units of x; without a crossing, +inf if y is positive anywhere (it stays
      so), -inf if it never is. NaN counts as not positive.
    """
    y = np.asarray(y, float)
    falls = (y[..., :-1] > 0) & (y[..., 1:] <= 0)
    i = falls.argmax(-1)[..., None] + np.arange(2)
    (x0, x1), (y0, y1) = (
        np.moveaxis(np.take_along_axis(v, i, -1), -1, 0) for v in (np.broadcast_to(x, y.shape), y)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = x0 + (x1 - x0) * y0 / (y0 - y1)
    never = np.where((y > 0).any(-1), np.inf, -np.inf)
    return np.where(falls.any(-1), crossing, never)


def largest_increase(y: np.ndarray, *, seed: int) -> tuple[float, float, float]:
    """The largest increase of a mean curve between neighbouring points, with an interval: largest,
    low, high. The curve falls everywhere if high is below 0, and rises somewhere if low is above 0.

    The largest of several estimates is too large on average. So the interval comes from a
    simultaneous band around all increases, of one width in standard errors, which a bootstrap of
    pools finds.

    Args:
      y: [G, P] the curve of each pool, resampled whole. NaN is left out of its mean.
      seed: seed of the resampling.

    Returns:
      Negative where the estimated curve falls everywhere; low and high NaN for one pool.
    """
    steps = np.diff(y, axis=0)
    means = bootstrap_means(steps, seed=seed)
    mean, error = np.nanmean(steps, axis=-1), means.std(0)
    if steps.shape[-1] < 2:
        return float(mean.max()), np.nan, np.nan
    distance = np.divide(abs(means - mean), error, out=np.zeros_like(means), where=error > 0)
    half = np.quantile(distance.max(1), LEVEL) * error
    return float(mean.max()), float((mean - half).max()), float((mean + half).max())


def finite_or_nan(x: float | np.ndarray) -> float:
    """NaN, which tables leave empty, for infinity (no crossing on the grid); else x."""
    return float(x) if np.isfinite(x) else float("nan")


def percentiles(samples: np.ndarray, *, n_units: int | None = None) -> tuple[float, float]:
    """The central 95 % of samples that may be infinite: order statistics, as interpolation
    between infinities is undefined.

    Args:
      n_units: pools that were resampled. For fewer than 30 the interval is expanded to the levels
        at which that of a mean is as wide as Student's t (Hesterberg 2015, "What teachers should
        know about the bootstrap", section 5.3); for fewer than 5 there is none: NaN.
    """
    if n_units is not None and n_units < FEWEST:
        return math.nan, math.nan
    level = LEVEL
    if n_units is not None and n_units < MANY:
        from scipy.special import ndtr, stdtrit

        quantile = stdtrit(n_units - 1, (1 + level) / 2) * math.sqrt(n_units / (n_units - 1))
        level = float(2 * ndtr(quantile) - 1)
    tail = (1 - level) / 2
    low = np.quantile(samples, tail, method="lower")
    high = np.quantile(samples, 1 - tail, method="higher")
    return float(low), float(high)


def crossing_interval(samples: np.ndarray, *, n_units: int | None = None) -> tuple[float, float]:
    """Percentile interval of resampled crossings, `n_units` as in `percentiles`. A resample without
    a crossing counts as beyond the grid's end on its side; an end of the interval there is NaN."""
    low, high = percentiles(samples, n_units=n_units)
    return finite_or_nan(low), finite_or_nan(high)
