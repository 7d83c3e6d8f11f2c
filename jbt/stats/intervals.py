"""Intervals and tests in closed form: means of few pools, shares, clusters, ranks."""

from __future__ import annotations

from typing import Literal

import numpy as np

Method = Literal["exact", "wilson"]

LEVEL = 0.95
"""Coverage of every interval."""

FEWEST = 5
"""Fewest units for an interval of a mean: fewer do not show how far their distribution is from a
normal one, and Student's t of three recalls covers 90 % instead of 95."""

FEWEST_CLUSTERS = 10
"""Fewest clusters for the interval of a share of clustered units."""

MANY = 30
"""Fewest units with which the percentile bootstrap covers at least 93 %."""

END = 1.0
"""Units that `bounded_interval` adds at either end of the range: nearly z^2 / 4, which Wilson's
interval of a share adds to either count. Adding half as much covers 85 % where all of 100 units are
at an end."""


def student_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over the last axis (pools) with Student's interval: mean, low, high. NaN is left out.
    Fewer than `FEWEST` pools, or pools that are all alike, have no interval: NaN."""
    from scipy.special import stdtrit

    known = np.isfinite(values)
    n = known.sum(-1)
    total = np.where(known, values, 0).sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / n
        square = np.where(known, values - mean[..., None], 0) ** 2
        error = np.sqrt(square.sum(-1) / ((n - 1.0) * n))
        half = stdtrit(np.maximum(n - 1, 1), (1 + LEVEL) / 2) * error
    # Alike up to rounding, as means over seeds are.
    half = np.where((n >= FEWEST) & (error > 1e-12 * np.maximum(abs(mean), 1)), half, np.nan)
    return np.asarray(mean), np.asarray(mean - half), np.asarray(mean + half)


def bounded_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over the last axis (pools) of numbers from 0 to 1, with an interval that covers at least
    95 %: mean, low, high. NaN is left out; fewer than `FEWEST` pools have no interval: NaN.

    The interval is Student's t of the sample with one more pool at 0 and one at 1, cut off at these
    ends. Where most pools are at an end, as recall near 1 is, a small sample does not show those
    far from it, and Student's t alone covers 40 to 90 %. The added pools stand for them, as Agresti
    and Coull (1998) add two of each outcome to a share. Among many pools they weigh little.
    """
    from scipy.special import stdtrit

    known = np.isfinite(values)
    n = known.sum(-1)
    filled = np.where(known, values, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = filled.sum(-1) / n
        middle = (filled.sum(-1) + END) / (n + 2 * END)
        variance = ((filled**2).sum(-1) + END) / (n + 2 * END) - middle**2
        half = stdtrit(np.maximum(n - 1, 1), (1 + LEVEL) / 2) * np.sqrt(variance / (n - 1.0))
    half = np.where(n >= FEWEST, half, np.nan)
    low, high = np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
    return np.asarray(mean), np.asarray(low), np.asarray(high)


def count_interval(
    successes: int, n: int, *, method: Method = "exact"
) -> tuple[float, float, float]:
    """The share of successes with its interval: share, low, high.

    Args:
      method: "exact" (Clopper & Pearson 1934), which covers at least 95 %; "wilson" (1927), which
        is shorter and covers it on average.
    """
    from scipy.stats import binomtest

    test = binomtest(successes, n)
    low, high = test.proportion_ci(LEVEL, method=method)
    return test.statistic, low, high


def share_interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share of ones among zeros and ones, over the last axis (pools), with its exact interval:
    share, low, high. NaN is left out; if nothing else remains, all three are NaN. The bootstrap has
    no interval for a share of 0 or 1."""

    def of_row(row: np.ndarray) -> tuple[float, float, float]:
        known = row[np.isfinite(row)]
        if not len(known):
            return np.nan, np.nan, np.nan
        return count_interval(int(known.sum()), len(known))

    rows = np.array([of_row(row) for row in values.reshape(-1, values.shape[-1])])
    share, low, high = (v.reshape(values.shape[:-1]) for v in rows.T)
    return share, low, high


def clustered_share(won: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
    """A share over clusters of different sizes, with its interval: share, low, high.

    Wilson's interval at the effective number of units, share (1 - share) / variance (Korn &
    Graubard 1998; Dean & Pagano 2015), with the variance of the ratio from leaving out each cluster
    in turn and the quantile of Student's t. Where fewer than `FEWEST` clusters have either outcome
    they do not show how alike a cluster's units are, and each cluster counts as one unit. Fewer
    than `FEWEST_CLUSTERS` have no interval: NaN.

    Args:
      won: [G] units of a cluster that have the property (from 0 to weight).
      weight: [G] units of a cluster. Clusters without any are left out.
    """
    won, weight = won[weight > 0], weight[weight > 0]
    n_units, g = weight.sum(), len(weight)
    if not g:
        return np.nan, np.nan, np.nan
    share = float(won.sum() / n_units)
    if g < FEWEST_CLUSTERS or weight.max() == n_units:
        return share, np.nan, np.nan
    even = n_units**2 / (weight**2).sum()  # clusters of equal size that would say as much
    left_out = (won - share * weight) / (1 - weight / n_units)
    variance = (g - 1) / g * (left_out**2).sum() / n_units**2
    rare = min((won > 0).sum(), (won < weight).sum()) < FEWEST
    low, high = effective_share(*map(np.asarray, (share, variance, even, rare)))
    return share, float(low), float(high)


def effective_share(
    share: np.ndarray, variance: np.ndarray, even: np.ndarray, rare: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of shares at the effective number of units, share (1 - share) / variance,
    with the quantile of Student's t: low, high.

    Args:
      share: estimates; those outside 0 to 1 count as its ends.
      variance: their variances.
      even: effective numbers of clusters; the degrees of freedom are one less.
      rare: whether too few clusters have either outcome to show how alike a cluster's units are;
        then each cluster counts as one unit, at most.
    """
    from scipy.special import ndtri, stdtrit

    share, even = np.clip(share, 0, 1), np.maximum(even, 1)
    spread = share * (1 - share)
    n = np.where((variance > 0) & (spread > 0), spread / np.where(variance > 0, variance, 1), even)
    n = np.where(rare, np.minimum(n, even), n)
    z = ndtri((1 + LEVEL) / 2)
    n = n * (z / stdtrit(np.maximum(even - 1, 1), (1 + LEVEL) / 2)) ** 2
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(spread / n + z**2 / (4 * n**2))
    return np.asarray(np.maximum(middle - half, 0)), np.asarray(np.minimum(middle + half, 1))
