"""Rank contents by the naive and the bias-aware fit of each judge, and find where they differ."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from jbt.kernel import metrics
from jbt.own.fits.batch import Batch
from jbt.own.fits.pools import check_sizes, fit
from jbt.own.tables import limits
from jbt.own.tables.places import in_order_of_names
from jbt.own.tables.tables import Tables
from jbt.types import Prior, check_count

PAIRS = 6
"""Numbers for each pair of contents and judge that comparing two rankings holds."""


@dataclass(frozen=True, eq=False)
class Rankings:
    """The two fits of each judge, for the contents of each pool of the file. Where pools were
    merged for the fit, a pool has the merged contents that its items show."""

    tables: Tables
    """Pools not merged."""
    k: int
    """Size of the top set (count of contents)."""
    pool: np.ndarray
    """[E] pool of each content; a content of two pools has two entries. Contents are numbered by
    pool and name, so that what is drawn for them does not depend on the order of any rows."""
    owner: np.ndarray
    """[rows of items] content of each item, into E."""
    naive: np.ndarray
    """[J, E] quality with c = kappa = 0, logits; NaN where the fit is not usable."""
    aware: np.ndarray
    """[J, E] quality in the bias-aware model, likewise."""
    status: np.ndarray
    """[J, E] `Status` of the fit that the content belongs to."""

    @classmethod
    def of(cls, tables: Tables, batch: Batch, k: int, prior: Prior | None = None) -> Rankings:
        """Fit both models.

        Args:
          tables: tables with pools not merged.
          batch: batch of these tables, or of the same with their pools merged.
          k: size of the top set (count of contents).
          prior: default `Prior()`.

        Raises:
          ValueError: k not below the contents of some pool that has several; none has.
        """
        pool = tables.items["pool"].to_numpy()
        names = map(tables.contents.__getitem__, tables.items["content"])
        owner, _, first = in_order_of_names(pool, names)
        n_judges, n_items = shape = len(tables.judges), len(pool)
        sizes = np.bincount(pool[first])
        check_count("k", k)
        check_sizes(dict(zip(tables.pools, sizes.tolist(), strict=True)), k)
        n_pairs = int((sizes * (sizes - 1) // 2).sum())
        what = f"orders of {n_pairs} pairs of contents by {n_judges} judges"
        remedy = f"{limits.ONE_JUDGE}; or give only the pools with labels"
        limits.check(8 * n_judges * (3 * n_items + PAIRS * n_pairs), what, remedy)
        naive, aware, status = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, int)
        rows = batch.tables.items.groupby("pool").indices
        for number, pool_fit in enumerate(fit(batch, k=1, prior=prior, intervals=False)):
            fitted_pool, judge = divmod(number, n_judges)
            cells = judge, rows[fitted_pool]
            status[cells] = pool_fit.status
            if pool_fit.usable:
                naive[cells], aware[cells] = pool_fit.theta_naive, pool_fit.theta
        by_content = (values[:, first] for values in (naive, aware, status))
        return cls(tables, k, pool[first], owner, *by_content)

    def orders(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """[2, J, pairs] how the naive and the bias-aware ranking order the contents a and b
        [pairs]: 1 if a is above, -1 if b is, 0 if they are tied; NaN if the fit is not usable."""
        both = np.stack([self.naive, self.aware])
        return metrics.order(both[..., a], both[..., b])

    def pools(self) -> list[np.ndarray]:
        """The contents of each pool, into E."""
        sizes = np.bincount(self.pool, minlength=len(self.tables.pools))
        return np.split(np.arange(len(self.pool)), np.cumsum(sizes)[:-1])

    def pairs(self) -> np.ndarray:
        """[2, pairs] all pairs of contents of the same pool, into E."""
        pairs = [members[np.stack(np.triu_indices(len(members), 1))] for members in self.pools()]
        return np.concatenate(pairs, 1)

    def key(self, contents: np.ndarray) -> np.ndarray:
        """[n] a number for each content or pair of contents [1 or 2, n], in either order."""
        return contents.min(0) * len(self.pool) + contents.max(0)

    def by_pool(self, values: np.ndarray, pool: np.ndarray) -> np.ndarray:
        """[J, pools] sums of whole numbers or booleans [J, n], given the pool of each [n]."""
        sums = [np.bincount(pool, row, len(self.tables.pools)) for row in values]
        return np.stack(sums).astype(int)

    def swapped(self, seed: int) -> np.ndarray:
        """The contents in only one top k of each judge.

        Both tops have exactly k contents: contents tied with the k-th place are taken in an order
        drawn for the pool, the same in both rankings (`jbt.gate.exact_top`).

        Args:
          seed: seed of these orders.

        Returns:
          [2, J, E] whether a content is only in the bias-aware top k, and whether it is only in the
          naive one, the same number of both in every pool; False throughout in pools with no more
          than k contents, or whose fits are not usable.
        """
        estimates = np.stack([self.naive, self.aware])
        tops = np.zeros(estimates.shape, bool)
        for name, members in zip(self.tables.pools, self.pools(), strict=True):
            if (m := len(members)) <= self.k:
                continue
            turn = seeded(seed, "ties", name).permutation(m)
            values = estimates[..., members]
            cut = np.sort(values, -1)[..., m - self.k, None]
            # 2 above the k-th place, 1 tied with it, 0 below.
            place = (values > cut + metrics.TIED) + 1 * (values >= cut - metrics.TIED)
            taken = np.argsort(turn - m * place, -1)[..., : self.k]
            tops[..., members] = (np.arange(m) == taken[..., None]).any(-2)
        naive, aware = tops & np.isfinite(estimates).all(0)
        return np.stack([aware & ~naive, naive & ~aware])

    def drawn(self, pool: np.ndarray, seed: int, what: str) -> np.ndarray:
        """[2, n] numbers in [0, 1), drawn for each pool by its name; `pool` [n]."""
        numbers = np.zeros((2, len(pool)))
        for p in np.unique(pool).tolist():
            rows = np.flatnonzero(pool == p)
            numbers[:, rows] = seeded(seed, what, self.tables.pools[p]).random((2, len(rows)))
        return numbers


def seeded(seed: int, *names: str) -> np.random.Generator:
    """A generator that depends only on the seed and these names: what is drawn, for which pool."""
    return np.random.default_rng([seed, zlib.crc32("/".join(names).encode())])
