"""Where the rows of an items table go: to which place of which pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.tables import Tables


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each row of the items table goes."""

    x: np.ndarray
    """[rows, D]"""
    pool: np.ndarray
    """[rows]"""
    place: np.ndarray
    """[rows], within its pool."""
    content: np.ndarray
    """[rows], numbered within its pool."""
    sizes: np.ndarray
    """[pools]"""
    names: list[tuple[str, ...]]
    """Of each pool's items."""
    contents: list[tuple[str, ...]]
    """Likewise."""

    @classmethod
    def of(cls, tables: Tables, x: np.ndarray) -> Layout:
        pool = tables.items["pool"].to_numpy()
        sizes = np.bincount(pool, minlength=len(tables.pools))
        label = tables.items["content"].to_numpy()
        owner, owners = pd.factorize(pool * len(tables.contents) + label)
        pool_of, label_of = np.divmod(owners, len(tables.contents))
        names = _by_pool(pool, tables.items["item"].to_numpy(object), len(tables.pools))
        known = np.asarray(tables.contents, object)[label_of]
        contents = _by_pool(pool_of, known, len(tables.pools))
        content = count_within(pool_of)[owner]
        return cls(x, pool, count_within(pool), content, sizes, names, contents)


def _by_pool(pool: np.ndarray, names: np.ndarray, n_pools: int) -> list[tuple[str, ...]]:
    """The names of each pool, in their order."""
    ends = np.cumsum(np.bincount(pool, minlength=n_pools))
    each = np.split(names[np.argsort(pool, kind="stable")], ends[:-1])
    return [tuple(some) for some in each]


def count_within(group: np.ndarray) -> np.ndarray:
    """How many of the same group came before."""
    return pd.Series(group).groupby(group).cumcount().to_numpy()
