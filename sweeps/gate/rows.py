"""Add rows of means over pools, and of rates and counts within a class of pools."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from jbt import stats

if TYPE_CHECKING:
    from jbt.experiments.table import Table


def add_means(t: Table, quantity: str, values: np.ndarray, rows: list[dict[str, Any]]) -> None:
    """Add means over pools, [row, pool]."""
    numbers = zip(*stats.mean_interval(values, seed=t.seed), strict=True)
    for row, pools, (mean, *interval) in zip(rows, values, numbers, strict=True):
        studies = functools.partial(study_means, pools[None], t.seed)
        t.add(quantity, mean, interval, len(pools), studies=studies, **row)


def add_rates(
    t: Table, quantity: str, enable: np.ndarray, inside: np.ndarray, rows: list[dict[str, Any]]
) -> None:
    """Add rates over the pools of a class, with the pool as the unit over all judges.

    Args:
      enable: [judge, pool, row].
      inside: [judge, pool] 1 for the class.
    """
    if not inside.any():
        return
    above = (enable * inside[..., None]).mean(0).T  # [row, pool]
    both = np.concatenate([above, inside.mean(0)[None]])
    means = stats.bootstrap_means(both, seed=t.seed)
    with np.errstate(invalid="ignore"):
        resampled = means[:, :-1] / means[:, -1:]
    ends = np.nanquantile(resampled, [0.025, 0.975], axis=0).T
    n = int(inside.any(0).sum())
    for row, inside_rate, interval in zip(rows, above, ends, strict=True):
        pair = np.stack([inside_rate, both[-1]])
        studies = functools.partial(study_rates, pair, t.seed)
        interval = tuple(interval) if n >= stats.FEWEST else (np.nan, np.nan)
        t.add(quantity, inside_rate.mean() / both[-1].mean(), interval, n, studies=studies, **row)


def add_counts(
    t: Table, enable: np.ndarray, inside: np.ndarray, rows: list[dict[str, Any]], sets: int
) -> None:
    """Add false enables, decisions, pools with a false enable for any judge, and the upper end of
    the 95 % interval of their share (Clopper and Pearson)."""
    n = int(inside.any(0).sum())
    touched = ((enable > 0) & (inside[..., None] > 0)).any(0).sum(0)
    counts = (enable * inside[..., None]).sum((0, 1)) * sets
    # As zeros and ones, for their exact interval.
    pools = np.arange(n) < touched[:, None] if n else np.full((len(rows), 1), np.nan)
    upper = stats.share_interval(pools.astype(float))[2]
    for row, count, n_touched, most in zip(rows, counts, touched, upper, strict=True):
        t.add("false_enables", round(float(count)), n_pools=n, **row)
        t.add("decisions", int(inside.sum()) * sets, n_pools=n, **row)
        t.add("pools_touched", int(n_touched), n_pools=n, **row)
        t.add("cp_upper", most, n_pools=n, **row)


def study_means(values: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """Means of values [1, pool] in studies of so many pools."""
    return stats.bootstrap_means(values, seed=seed, size=size, resamples=stats.REPLICATES)


def study_rates(both: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """Ratios of the means of two values [2, pool] in such studies."""
    means = study_means(both, seed, size, seeds)
    with np.errstate(invalid="ignore"):
        return means[:, 0] / means[:, 1]
