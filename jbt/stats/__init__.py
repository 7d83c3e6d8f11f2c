"""Intervals, tests and crossings, with the pool as the unit."""

from jbt.stats.bootstrap import (
    MOST_BLOCKS,
    REPLICATES,
    RESAMPLES,
    bca_interval,
    bootstrap_means,
    jackknife_interval,
    mean_interval,
    study_means,
    with_seeds,
)
from jbt.stats.crossings import (
    crossing_interval,
    finite_or_nan,
    first_crossing,
    largest_increase,
    percentiles,
    sign_changes,
)
from jbt.stats.intervals import Tested, cluster_test, count_interval, share_interval, spearman
from jbt.stats.permutation import (
    MOST_ENUMERATED,
    PERMUTATIONS,
    holm,
    paired_permutation,
    small_study_p,
    small_study_power,
    smallest_p,
)

__all__ = [
    "MOST_BLOCKS",
    "MOST_ENUMERATED",
    "PERMUTATIONS",
    "REPLICATES",
    "RESAMPLES",
    "Tested",
    "bca_interval",
    "bootstrap_means",
    "cluster_test",
    "count_interval",
    "crossing_interval",
    "finite_or_nan",
    "first_crossing",
    "holm",
    "jackknife_interval",
    "largest_increase",
    "mean_interval",
    "paired_permutation",
    "percentiles",
    "share_interval",
    "sign_changes",
    "small_study_p",
    "small_study_power",
    "smallest_p",
    "spearman",
    "study_means",
    "with_seeds",
]
