"""Paired permutation tests, families of tests, and their p-values and power in small studies."""

from __future__ import annotations

import numpy as np

PERMUTATIONS = 9999
SMALL_STUDIES = 1000
"""Small studies drawn from many pools, each with a test."""
MOST_ENUMERATED = 20
"""Most pools for which every sign pattern is tried: 2^19 patterns, each with its opposite."""
MOST_SUMS = 4_000_000
"""Most numbers in an array of patterns, or of their sums."""


def smallest_p(n: int) -> float:
    """The smallest two-sided p-value that an exact paired permutation test of n pools can give,
    2 / 2^n: no study of five can be significant at 5 %."""
    return 2.0 ** (1 - n)


def paired_permutation(differences: np.ndarray, *, seed: int) -> np.ndarray:
    """Two-sided p-values of paired differences whose sign is exchangeable under the null.

    The statistic is the absolute mean. Where n is at most 20, all 2^n sign patterns are enumerated,
    and the smallest p is `smallest_p`. Otherwise 9,999 patterns are drawn, the observed one is
    counted among them, and the smallest p is 1 / 10,000.

    Args:
      differences: [..., n] a difference a pool, the same pools in all rows.
      seed: seed of the drawn patterns.

    Returns:
      [...], NaN where a difference is not finite.
    """
    flat = np.asarray(differences, np.float64).reshape(-1, differences.shape[-1])
    n = flat.shape[-1]
    # Differences of recalls lie on a lattice, rounded to float32: equal sums count as equal.
    observed = np.abs(flat.sum(-1)) - 1e-6 * np.abs(flat).sum(-1)
    as_extreme = np.zeros(len(flat))
    step = max(1, MOST_SUMS // max(n, len(flat)))  # sums of all rows at once
    if n <= MOST_ENUMERATED:
        # A pattern is as extreme as its opposite: the last sign stays.
        half = 2 ** (n - 1)
        for begin in range(0, half, step):
            number = np.arange(begin, min(begin + step, half))
            patterns = 2.0 * ((number[:, None] >> np.arange(n)) & 1) - 1
            as_extreme += (np.abs(patterns @ flat.T) >= observed).sum(0)
        p = as_extreme / half
    else:
        rng = np.random.default_rng([seed, n])
        for begin in range(0, PERMUTATIONS, step):
            rows = min(step, PERMUTATIONS - begin)
            patterns = 2 * rng.integers(0, 2, (rows, n), np.int8) - 1
            as_extreme += (np.abs(patterns.astype(float) @ flat.T) >= observed).sum(0)
        p = (1 + as_extreme) / (1 + PERMUTATIONS)
    p = np.where(np.isfinite(flat).all(-1), p, np.nan)
    return p.reshape(differences.shape[:-1])


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment of p-values over the last axis, one family. NaN stays NaN and
    counts as one of the family."""
    p = np.asarray(p, float)
    order = np.argsort(p, axis=-1)
    m = p.shape[-1]
    stepped = np.take_along_axis(p, order, -1) * (m - np.arange(m))
    adjusted = np.minimum(np.maximum.accumulate(stepped, -1), 1)
    out = np.empty_like(adjusted)
    np.put_along_axis(out, order, adjusted, -1)
    return out


def small_study_p(
    differences: np.ndarray, *, size: int, seed: int, replace: bool = True
) -> np.ndarray:
    """p-values that studies of `size` pools find for several differences: exact paired permutation
    tests, Holm-corrected over the family.

    Args:
      differences: [F, P] a family of differences, each with a number a pool.
      size: pools of a study, drawn from the P; at most 12, so that the test is exact.
      seed: seed of the draws.
      replace: draw a study's pools with replacement.

    Returns:
      [1000, F], NaN where a difference is not finite.
    """
    n = differences.shape[1]
    rng = np.random.default_rng([seed, n])
    drawn = np.stack([rng.choice(n, size, replace=replace) for _ in range(SMALL_STUDIES)])
    return holm(paired_permutation(differences[:, drawn], seed=seed).T)


def small_study_power(differences: np.ndarray, *, size: int, seed: int) -> np.ndarray:
    """Share of studies of `size` pools that call each of several differences significant: the share
    of `small_study_p` below .05, a study's pools drawn without replacement.

    Returns:
      [F] shares, significant in either direction; NaN for fewer than 5 `size` pools, too few to
      represent the population, and where a difference is not finite.
    """
    family, n = differences.shape
    if n < 5 * size:
        return np.full(family, np.nan)
    power = (small_study_p(differences, size=size, seed=seed, replace=False) < 0.05).mean(0)
    return np.where(np.isfinite(differences).all(-1), power, np.nan)
