"""Rows of `sweeps.gate`: how often a rule enables the correction in a class of pools, what follows,
and the labels that it takes."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from jbt import stats
from jbt.experiments.table import Studies, Table
from jbt.gate import LABELS

from . import prices
from .reliability import stacked

HARMED = ("agreement_harmed", "recall_harmed")
"""Classes of pools that the correction does not help, in the order of pairs and in recall."""
TESTS = ("sign", "sign_sequential")
POWER = 0.8
"""Share of the pools helped by the correction in which it should be enabled."""
STUDY = 12
"""Pools of each judge in the paper's study, 60 over five judges."""


def classes(part: xr.Dataset) -> dict[str, xr.DataArray]:
    """Membership of the pools in each class, 0 or 1."""
    rises = part["bias_aware_recall"] > part["naive_recall"] + 1e-6
    harmed = part["right"] <= part["wrong"], ~rises
    members = zip((*HARMED, "helped"), (*harmed, rises), strict=True)
    return {name: inside.astype(float) for name, inside in members}


def studies_of(values: np.ndarray, seed: int, of_means: Any = lambda means: means[:, 0]) -> Studies:
    """Numbers of studies of so many pools, made of means [R, n] of values [n, pool]."""

    def studies(size: int, _: int | None) -> np.ndarray:
        return of_means(stats.study_means(values, seed=seed, size=size, same_pools=True))

    return studies


def over_last(means: np.ndarray) -> np.ndarray:
    """Ratios [R, n - 1] of means [R, n] to the last; NaN where that is 0."""
    with np.errstate(invalid="ignore"):
        return means[:, :-1] / means[:, -1:]


def add_means(t: Table, quantity: str, values: xr.DataArray, **columns: Any) -> None:
    """Add means over judges and pools [judge, pool, ...], in the precision of the simulation."""
    rows, pools = stacked(values.mean("judge"), t)
    numbers = zip(*stats.mean_interval(pools, seed=t.seed), strict=True)
    for row, of_row, (mean, *interval) in zip(rows, pools, numbers, strict=True):
        studies = studies_of(of_row[None], t.seed)
        t.add(quantity, mean, interval, len(of_row), studies=studies, **row | columns)


def add_rates(t: Table, enable: xr.DataArray, inside: xr.DataArray, **columns: Any) -> None:
    """Add enable rates over the pools of a class, with the pool as the unit over all judges.

    Args:
      enable: [judge, pool, ...], a row for each of the other dimensions.
      inside: [judge, pool] 1 for the class.
    """
    if not inside.any():
        return
    rows, above = stacked((enable * inside).mean("judge"), t)
    both = np.concatenate([above, inside.mean("judge").values[None]])
    resampled = over_last(stats.bootstrap_means(both, seed=t.seed))
    ends = np.nanquantile(resampled, [0.025, 0.975], axis=0).T
    n = int(inside.any("judge").sum())
    for i, row in enumerate(rows):
        studies = studies_of(both[[i, -1]], t.seed, lambda means: over_last(means)[:, 0])
        interval = tuple(ends[i]) if n >= stats.FEWEST else (np.nan, np.nan)
        rate = above[i].mean() / both[-1].mean()
        t.add("enable_rate", rate, interval, n, studies=studies, **row | columns)


def add_study_counts(t: Table, enable: xr.DataArray, sets: int, **columns: Any) -> None:
    """Add what a study of the paper's size counts where no enable is right: false enables, pools of
    a judge with one, and the mean upper end of the 95 % interval of their share (Clopper and
    Pearson).

    Args:
      enable: [judge, pool, ...] shares of the label sets.
    """
    counts = {
        "study_false_enables": enable.sum("judge") * sets,
        "study_pools_touched": (enable > 0).sum("judge"),
    }
    columns["n_pools"] = enable.sizes["pool"]
    for quantity, of_pools in counts.items():
        rows, values = stacked(of_pools.astype(float), t)
        numbers = STUDY * np.stack(stats.mean_interval(values, seed=t.seed), -1)
        for row, pools, (mean, *interval) in zip(rows, values, numbers, strict=True):
            studies = partial(study_sums, pools, t.seed)
            t.add(quantity, mean, interval, studies=studies, **row | columns)
    for row, pools in zip(rows, values, strict=True):
        studies = partial(study_upper_ends, pools, enable.sizes["judge"], t.seed)
        t.add("study_cp_upper", studies(STUDY, None).mean(), studies=studies, **row | columns)


def study_sums(values: np.ndarray, seed: int, size: int, seeds: int | None) -> np.ndarray:
    """Sums of values [pool] in studies of so many pools."""
    return size * studies_of(values[None], seed)(size, seeds)


def study_upper_ends(
    touched: np.ndarray, n_judges: int, seed: int, size: int, seeds: int | None
) -> np.ndarray:
    """Upper ends of the interval of the share of touched pools in such studies, from the number of
    judges [pool] for which a pool is touched."""
    counts = np.rint(study_sums(touched, seed, size, seeds)).astype(int)
    n = n_judges * size
    ends = np.array([stats.count_interval(k, n)[2] for k in range(counts.max() + 1)])
    return ends[counts]


def add_power(t: Table, part: xr.Dataset, **columns: Any) -> None:
    """Add the labels bought until a test enables in the wanted share of helped pools, by kind of
    label."""
    helped = classes(part)["helped"]
    if not helped.any():
        return
    n = int(helped.any("judge").sum())

    # Small numbers of labels and large ones together.
    names = [p + name for name in ("labels_used", "enable_rate") for p in ("", "many_")]
    weighted = [(part[name] * helped).mean("judge") for name in names]
    for rule, labels in itertools.product(TESTS, LABELS):
        of_test = [v.sel(labels=labels, rule=rule) for v in weighted]
        curves = [v.transpose(..., "pool").values for v in of_test]
        rows = np.concatenate([*curves, helped.mean("judge").values[None]])
        resampled = stats.bootstrap_means(rows, seed=t.seed)
        means = over_last(np.concatenate([rows.mean(-1)[None], resampled]))
        bought, enabled = np.split(means, 2, axis=1)
        needed = prices.first_reached(bought, enabled, POWER)
        interval = prices.of_resamples(needed[1:], n)
        t.add("labels_needed", needed[0], interval, n, rule=rule, labels=labels, **columns)
