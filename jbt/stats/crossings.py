"""Where a curve crosses zero, and how surely."""

from __future__ import annotations

import numpy as np


def first_crossing(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where y first changes from positive to not positive, linearly interpolated.

    Args:
      x: [G] increasing.
      y: [..., G].

    Returns:
      [...] crossing in units of x; without one, +inf if y is positive anywhere (it stays so),
      -inf if it never is. NaN counts as not positive.
    """
    y = np.asarray(y, float)
    falls = (y[..., :-1] > 0) & (y[..., 1:] <= 0)
    i = falls.argmax(-1)
    y0 = np.take_along_axis(y, i[..., None], -1)[..., 0]
    y1 = np.take_along_axis(y, i[..., None] + 1, -1)[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        at = x[i] + (x[i + 1] - x[i]) * y0 / (y0 - y1)
    never = np.where((y > 0).any(-1), np.inf, -np.inf)
    return np.where(falls.any(-1), at, never)


def sign_changes(y: np.ndarray) -> np.ndarray:
    """How often y changes between positive and not positive along the last axis."""
    positive = np.asarray(y) > 0
    return (positive[..., 1:] != positive[..., :-1]).sum(-1)


def finite_or_nan(x: float | np.ndarray) -> float:
    """Infinity (no crossing on the grid) to NaN, which tables leave empty."""
    return float(x) if np.isfinite(x) else float("nan")


def percentiles(samples: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The central `level` of some samples, which may be infinite: order statistics, as
    interpolation between infinities is undefined."""
    tail = (1 - level) / 2
    low = np.quantile(samples, tail, method="lower")
    high = np.quantile(samples, 1 - tail, method="higher")
    return float(low), float(high)


def crossing_interval(samples: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of resampled crossings. Resamples without a crossing count as
    beyond the grid's end on their side; an end that lies there is NaN."""
    low, high = percentiles(samples, level)
    return finite_or_nan(low), finite_or_nan(high)
