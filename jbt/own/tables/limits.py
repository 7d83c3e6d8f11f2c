"""Estimate what products of a table's counts take, and stop before it is taken.

Judges times pools, pairs of items, squares of covariates: each may be a thousand times as large as
its table. Whatever allocates such a product asks `check` first.
"""

from __future__ import annotations

import jax
import numpy as np

from jbt.own.tables.sheets import Source, TableError
from jbt.simulation import memory

SMALL = 2**30
"""Bytes that any machine has: below them nothing is checked."""

CELL = 100
"""Bytes that reading a table holds for each pair of a judge and a pool."""

FIT = 1000
"""Bytes of the result of fitting one pool to one judge's verdicts, besides its arrays."""

MANY = 20
"""Judges of a table that may still be compared one by one (count)."""

FEWEST = 6
"""Verdicts of a judge below which nothing is known about it: not even unanimous ones differ from a
coin at the 5 % level (2 x 0.5^5 is .06)."""

SECONDS_A_JUDGE = 0.1
"""Time of a judge's report card or leaderboard, however few its verdicts."""

PATIENCE = 60.0
"""Seconds that may be spent on judges about whom nothing is known."""

PROFILE = 225
"""Numbers that profiling a coefficient holds for each pair of parameters: measured from 20 to 150
covariates."""

AT_ONCE = 1024
"""Fits that are profiled at a time."""

ONE_JUDGE = "--judge-column none takes all verdicts as one judge's, --judge NAME those of one judge"

ALONE = "without --joint each judge is fitted alone"


def lacking(needed: int) -> str | None:
    """How much memory so many bytes are, and how much there is, in words; None if there is enough,
    or if the size of the memory is not known."""
    if needed < SMALL:
        return None
    available = memory.there_is(jax.local_devices()[0])
    if available is None or needed <= available:
        return None
    there = max(available, 0) / 2**30
    return f"some {needed / 2**30:.3g} GiB of memory, and there are {there:.3g}"


def check(needed: int, what: str, remedy: str) -> None:
    """Raise `TableError` where `what` would take more bytes than there are.

    Args:
      needed: bytes, estimated.
      what: a plural that names the counts: "results of 10 judges on 20 pools".
      remedy: what to do instead, with the option.
    """
    if amount := lacking(needed):
        raise TableError(f"{what} need {amount}: {remedy}")


def check_profiles(n_fits: int, n_coefficients: int, n_parameters: int) -> None:
    """Raise `TableError` where profiling coefficients would not fit into memory.

    Args:
      n_coefficients, n_parameters: of each fit.
    """
    needed = 8 * PROFILE * min(n_fits, AT_ONCE) * n_coefficients * n_parameters**2
    what = f"profiles of {n_coefficients} coefficients among {n_parameters} parameters of a fit"
    check(needed, what, "fewer --covariates")


def crowd(sizes: np.ndarray) -> bool:
    """Whether judges seem to be voters: many, most with too few verdicts to say anything of them.

    Args:
      sizes: [judges] verdicts of each.
    """
    return len(sizes) > MANY and bool((sizes < FEWEST).mean() > 0.5)


def check_judges(source: Source, column: str, n_pools: int, sizes: np.ndarray) -> None:
    """Raise `TableError` where the column of judges seems to name the voters of a crowd, or where
    results of all judges on all pools would not fit into memory.

    Args:
      source, column: the table of verdicts and its column of judges.
      sizes: [judges] rows of each.
    """
    n_judges, few = len(sizes), int((sizes < FEWEST).sum())
    if few * SECONDS_A_JUDGE > PATIENCE:
        raise TableError(
            f"{source}: {n_judges} judges in {sizes.sum()} rows, {few} of them with fewer than "
            f"{FEWEST}: the column {column!r} is probably the voter, not a judge: {ONE_JUDGE}"
        )
    what = f"{source}: results of {n_judges} judges on {n_pools} pools"
    check(CELL * n_judges * n_pools, what, ONE_JUDGE)
