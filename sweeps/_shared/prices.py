"""Prices of trusted labels, and the cost of reaching a point of a curve."""

from __future__ import annotations

import numpy as np

from jbt import stats

LABEL = 0.14 / 40
"""Dollars a trusted label: the paper's 40 for $0.14."""
SHARING = (1, 10, 100)
"""Pools that reuse one decision (the paper's)."""


def first_reached(spent: np.ndarray, curve: np.ndarray, wanted: float) -> np.ndarray:
    """Spending [R] at which the curve of each row first reaches `wanted`, interpolated linearly: at
    once if the curve starts there, NaN if it never gets there.

    Args:
      spent: [R, K], or [K] for all rows, increasing.
      curve: [R, K].
    """
    at = stats.first_crossing(spent, wanted - curve)
    at = np.where(curve[:, 0] >= wanted, spent[..., 0], at)
    return np.where(np.isfinite(at), at, np.nan)


def of_resamples(values: np.ndarray, n_pools: int) -> tuple[float, float]:
    """95 % interval over resamples, some of which may lack the number (NaN); none where more than
    2.5 % lack it, or from fewer than five pools."""
    if np.isnan(values).mean() > 0.025:
        return np.nan, np.nan
    return stats.percentiles(values[~np.isnan(values)], n_units=n_pools)
