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


STUDY = 12
"""Pools of each judge in the paper's study, 60 over five judges."""


def add_study_counts(
    t: Table, enable: np.ndarray, rows: list[dict[str, Any]], sets: int, size: int = STUDY
) -> None:
    """Add what a study of the paper's size counts where no enable is right: false enables, pools of
    a judge with one, and the mean upper end of the 95 % interval of their share (Clopper and
    Pearson).

    Args:
      enable: [judge, pool, row] shares of the label sets.
    """
    n_judges = len(enable)
    counts = {
        "study_false_enables": enable.sum(0).T * sets,  # [row, pool]
        "study_pools_touched": (enable > 0).sum(0).T.astype(float),
    }
    for quantity, values in counts.items():
        numbers = size * np.stack(stats.mean_interval(values, seed=t.seed), -1)
        for row, pools, (mean, *interval) in zip(rows, values, numbers, strict=True):
            studies = functools.partial(study_sums, pools, t.seed)
            t.add(quantity, mean, interval, len(pools), studies=studies, **row)
    for row, pools in zip(rows, counts["study_pools_touched"], strict=True):
        studies = functools.partial(study_upper_ends, pools, n_judges, t.seed)
        mean = studies(size, None).mean()
        t.add("study_cp_upper", mean, n_pools=len(pools), studies=studies, **row)


def study_sums(values: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """Sums of values [pool] in studies of so many pools."""
    return size * study_means(values, seed, size, seeds)


def study_upper_ends(
    touched: np.ndarray, n_judges: int, seed: int, size: int, seeds: int | None
) -> np.ndarray:
    """Upper ends of the interval of the share of touched pools in such studies, from the number of
    judges [pool] for which a pool is touched."""
    n = n_judges * size
    counts = np.rint(study_sums(touched, seed, size, seeds)).astype(int)
    ends = np.array([stats.count_interval(k, n)[2] for k in range(counts.max() + 1)])
    return ends[counts]


def study_means(values: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """Means of values [1, pool] in studies of so many pools."""
    return stats.bootstrap_means(values, seed=seed, size=size, resamples=stats.REPLICATES)


def study_rates(both: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """Ratios of the means of two values [2, pool] in such studies."""
    means = study_means(both, seed, size, seeds)
    with np.errstate(invalid="ignore"):
        return means[:, 0] / means[:, 1]
