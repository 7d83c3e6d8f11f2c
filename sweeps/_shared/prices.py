"""What trusted labels cost beside comparisons, at the paper's prices, and what it takes to reach a
point of a curve."""

from __future__ import annotations

import numpy as np

from jbt import stats

LABEL = 0.14 / 40
"""Dollars a trusted label: the paper's 40 for $0.14."""
POOL = 0.014
"""Dollars for a pool's comparisons by the cheap judge (the paper's)."""
SHARING = (1, 10, 100)
"""Pools that reuse one decision (the paper's)."""


def overhead(
    labels: float | np.ndarray, comparisons: float | np.ndarray, n_sharing: int
) -> np.ndarray:
    """How many times the cost of its comparisons a pool costs that bears its part of the labels.

    Args:
      labels: what the labels of one decision cost, in any unit.
      comparisons: what a pool's comparisons cost, in the same unit; if nothing, the result is
        infinite, or NaN where labels are free too.
      n_sharing: pools that reuse the decision (count).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 + np.divide(labels, comparisons) / n_sharing


def first_reached(spent: np.ndarray, curve: np.ndarray, wanted: float) -> np.ndarray:
    """[R] what is spent where the curve of each row first has what is wanted, straight between its
    points; at the first of them where it is there already, NaN where it never is.

    Args:
      spent: [R, K], or [K] for all rows, increasing.
      curve: [R, K].
    """
    spent = np.broadcast_to(spent, curve.shape)
    reached = curve >= wanted
    at, rows = reached.argmax(1), np.arange(len(curve))
    before = np.maximum(at - 1, 0)
    low, high = curve[rows, before], curve[rows, at]
    share = np.clip((wanted - low) / np.where(high > low, high - low, 1), 0, 1)
    spent_there = spent[rows, before] + share * (spent[rows, at] - spent[rows, before])
    return np.where(reached.any(1), spent_there, np.nan)


def of_resamples(values: np.ndarray, n_pools: int) -> tuple[float, float]:
    """Interval of a number that not every resample has; none where more than 2.5 % lack it, or of
    fewer than five pools."""
    if np.isnan(values).mean() > 0.025:
        return np.nan, np.nan
    return stats.percentiles(values[~np.isnan(values)], n_units=n_pools)
