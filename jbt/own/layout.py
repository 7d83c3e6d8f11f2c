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
    """[rows, D] covariates."""
    pool: np.ndarray
    """[rows]"""
    place: np.ndarray
    """[rows], within its pool."""
    content: np.ndarray
    """[rows], numbered within its pool."""
    rows: list[np.ndarray]
    """Of each pool, in its items' order."""
    items: list[tuple[str, ...]]
    """Names, of each pool."""
    contents: list[tuple[str, ...]]
    """Likewise."""

    @classmethod
    def of(cls, tables: Tables, x: np.ndarray) -> Layout:
        pool = tables.items["pool"].to_numpy()
        label = tables.items["content"].to_numpy()
        owner, owners = pd.factorize(pool * len(tables.contents) + label)
        pool_of, label_of = np.divmod(owners, len(tables.contents))
        number = count_within(pool_of)
        rows = _split(pool, np.arange(len(pool)), len(tables.pools))
        return cls(
            x,
            pool,
            count_within(pool),
            number[owner],
            rows,
            _names(tables.items["item"].to_numpy(object), rows),
            _names(
                np.asarray(tables.contents, object)[label_of],
                _split(pool_of, np.arange(len(owners)), len(tables.pools)),
            ),
        )

    @property
    def sizes(self) -> np.ndarray:
        """[pools] how many items each has."""
        return np.array([len(rows) for rows in self.rows])

    @property
    def n_contents(self) -> np.ndarray:
        """[pools]"""
        return np.array([len(contents) for contents in self.contents])


def _split(pool: np.ndarray, values: np.ndarray, n_pools: int) -> list[np.ndarray]:
    """The values of each pool, in their order."""
    ends = np.cumsum(np.bincount(pool, minlength=n_pools))
    return np.split(values[np.argsort(pool, kind="stable")], ends[:-1])


def _names(names: np.ndarray, rows: list[np.ndarray]) -> list[tuple[str, ...]]:
    return [tuple(names[some]) for some in rows]


def count_within(group: np.ndarray) -> np.ndarray:
    """How many of the same group came before each."""
    return pd.Series(group).groupby(group).cumcount().to_numpy()
