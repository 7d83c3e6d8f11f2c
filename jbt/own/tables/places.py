"""Assign the rows of an items table to places in pools, and check that the fits fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.tables.limits import lacking
from jbt.own.tables.sheets import TableError
from jbt.own.tables.tables import Tables

MATRICES = 8
"""Matrices of all parameters by all others, in float64, that a fit holds at its peak: measured from
1,000 to 3,000 contents."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The pool, place and content of each row of the items table."""

    x: np.ndarray
    """[rows, D]"""
    pool: np.ndarray
    """[rows]"""
    place: np.ndarray
    """[rows] from 0 within each pool."""
    content: np.ndarray
    """[rows] numbered within each pool."""
    sizes: np.ndarray
    """[pools] number of items."""
    names: list[tuple[str, ...]]
    """Names of each pool's items."""
    contents: list[tuple[str, ...]]
    """Names of each pool's contents."""

    @classmethod
    def of(cls, tables: Tables, x: np.ndarray) -> Layout:
        items = tables.items[["pool", "item", "content"]]
        pool = items["pool"].to_numpy()
        owners = items.drop_duplicates(["pool", "content"])
        owners = owners.assign(
            place=count_within(owners["pool"].to_numpy()),
            name=np.asarray(tables.contents, object)[owners["content"]],
        )
        content = items.merge(owners, on=["pool", "content"], how="left")["place"].to_numpy()
        sizes = np.bincount(pool, minlength=len(tables.pools))
        names, contents = (
            frame.groupby("pool")[name].agg(tuple).tolist()
            for frame, name in ((items, "item"), (owners, "name"))
        )
        return cls(x, pool, count_within(pool), content, sizes, names, contents)


def too_large(tables: Tables) -> str | None:
    """Why the pool with most contents cannot be fitted on this machine, in a sentence; None if it
    can, or if the size of the memory is not known."""
    pool = tables.items.drop_duplicates(["pool", "content"])["pool"]
    sizes = np.bincount(pool, minlength=len(tables.pools))
    largest = int(sizes.argmax())
    amount = lacking(MATRICES * 8 * int(sizes[largest]) ** 2)
    if amount is None:
        return None
    return (
        f"pool {tables.pools[largest]!r} has {sizes[largest]} contents, whose fit needs {amount}: "
        "name a column of pools (--pool), or one of contents (--content) that several items share"
    )


def check_memory(tables: Tables) -> None:
    """Raise `TableError` for a pool that is `too_large`, before memory is allocated for it."""
    if reason := too_large(tables):
        raise TableError(reason)


def count_within(group: np.ndarray) -> np.ndarray:
    """[rows] number of earlier rows of the same group."""
    return pd.Series(group).groupby(group).cumcount().to_numpy()


def in_order_of_names(
    pool: np.ndarray, names: Iterable[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number what the rows name by pool and, within it, by name, so that what is drawn for a number
    does not depend on the order of the rows.

    Args:
      pool: [rows].
      names: [rows].

    Returns:
      [rows] number over all pools; [rows] number within the pool; [numbers] first row of each.
    """
    rank = np.unique(np.array(list(names), str), return_inverse=True)[1]
    _, first, number = np.unique(pool * len(rank) + rank, return_index=True, return_inverse=True)
    return number, count_within(pool[first])[number], first
