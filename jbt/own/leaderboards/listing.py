"""One pool's verdicts as rows, for pools too large for counts over all pairs of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jbt import runtime
from jbt.own.fits.judges import Judges
from jbt.own.tables import limits
from jbt.own.tables.tables import Tables
from jbt.types import Design, Rows, check_word

Difference = Literal["plain", "relative"]


@dataclass(frozen=True, eq=False)
class Listing:
    """The verdicts of one judge on one pool, a row for each row of the table, in float64."""

    rows: Rows
    design: Design
    contents: np.ndarray
    """[M] contents of the pool's items, as indices into `Tables.contents`."""
    source: np.ndarray
    """[R] pool of the file that each row comes from, as an index into `Tables.pools` as read."""
    sides: np.ndarray | None = None
    """[2, R, D] covariates of the first and of the second item, about their mean over the items of
    the pool of the file; None where differences are relative and no part belongs to one item."""


def listed(
    tables: Tables, x: np.ndarray, pool: int, judge: int, *, difference: Difference = "plain"
) -> Listing:
    """One judge's verdicts on one pool, as rows.

    Args:
      x: [rows of items, D] covariates.
      pool, judge: indices into `tables.pools` and `tables.judges`.
      difference: of a row's covariates a and b: a - b, or relative, (a - b) / (a + b), 0 where both
        are 0, as in the Arena's style control; only for covariates that are not negative.

    Raises:
      ValueError: a relative difference of negative covariates; an unknown difference.
    """
    check_word("difference", difference, get_args(Difference))
    verdicts = tables.verdicts
    verdicts = verdicts[(verdicts["pool"] == pool) & (verdicts["judge"] == judge)]
    in_pool = tables.items["pool"].to_numpy() == pool
    label = tables.items["content"].to_numpy()
    contents = np.unique(label[in_pool])
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    a, b = x[first], x[second]
    covariate_difference = a - b
    if difference == "relative":
        if (x < 0).any():
            raise ValueError("a relative difference needs covariates that are not negative")
        total = a + b
        covariate_difference = covariate_difference / np.where(total > 0, total, 1)
    with runtime.precision("float64"):
        rows = Rows.build(
            np.searchsorted(contents, label[first]),
            np.searchsorted(contents, label[second]),
            covariate_difference,
            verdicts["p_first"].to_numpy(),
            weight=verdicts["count"].to_numpy(),
            ordered=verdicts["shown"].to_numpy(),
        )
        design = Design.of_contents(len(contents), x.shape[1])
    source, sides = verdicts["source"].to_numpy(), None
    if difference == "plain":
        sides = about_the_mean(source, np.stack([first, second]), a, b)
    return Listing(rows, design, contents, source, sides)


def about_the_mean(
    source: np.ndarray, items: np.ndarray, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """[2, R, D] covariates of both sides, less their mean over the pool's items in the rows.

    Args:
      source: [R] pool of each row.
      items: [2, R] number of each row's items, each item in one pool.
      a, b: [R, D] their covariates.
    """
    sides, pools = np.stack([a, b]), np.tile(source, 2)
    _, place = np.unique(items, return_index=True)
    sums = np.zeros((source.max(initial=0) + 1, 1 + a.shape[1]))
    values = sides.reshape(len(pools), a.shape[1])[place]
    np.add.at(sums, pools[place], np.insert(values, 0, 1, axis=1))
    return sides - (sums[:, 1:] / np.maximum(sums[:, :1], 1))[source]


def stacked(
    listings: Sequence[Listing], free_kappa: np.ndarray, judges: Judges
) -> tuple[Rows, np.ndarray]:
    """Stack several judges' rows on one pool as rows of one judge, with separate covariates for
    each judge, 0 in the rows of the others. The coefficients are c [D, J] and then kappa [J], flat.
    This is a panel at discrimination 1 that any function of rows accepts.

    Args:
      listings: one a judge, J of them.
      free_kappa: [J] whether kappa is estimated; else it is 0.
      judges: say whose c and kappa are known to be 0.

    Returns:
      The rows, unordered (the position is a covariate), and which coefficients are free
      [(D + 1) J].
    """
    n_judges, d = len(listings), listings[0].rows.difference.shape[1]
    n_rows = sum(len(listing.source) for listing in listings)
    what = f"biases of {n_judges} judges and {d} covariates in {n_rows} verdicts"
    limits.check(24 * n_rows * (d + 1) * n_judges, what, limits.ALONE)
    with runtime.precision("float64"):
        differences = []
        for g, listing in enumerate(listings):
            rows = listing.rows
            loadings = np.zeros((len(rows.shown), d + 1, n_judges))
            loadings[:, :d, g] = rows.difference
            loadings[:, d, g] = np.asarray(rows.ordered) * free_kappa[g]
            differences.append(loadings.reshape(len(loadings), -1))
        stack = jax.tree.map(
            lambda *leaves: jnp.concatenate(leaves), *(listing.rows for listing in listings)
        )
        rows = Rows(
            stack.first,
            stack.second,
            jnp.asarray(np.concatenate(differences)),
            jnp.zeros_like(stack.ordered),
            stack.shown,
            stack.wins,
        )
    free = np.ones((d + 1, n_judges), bool) & ~judges.known
    free[d] &= free_kappa
    return rows, free.ravel()
