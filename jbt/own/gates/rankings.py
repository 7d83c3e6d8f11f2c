"""Rank contents by the naive and the bias-aware fit of each judge, and find where they differ."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jaxtyping import Array

from jbt import quick_compilation, runtime
from jbt.gate import exact_top
from jbt.kernel import metrics
from jbt.own.fits.batch import Batch
from jbt.own.fits.pools import check_sizes, fit
from jbt.own.shared_coefficients.chunks import in_chunks
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
    def of(cls, tables: Tables, batch: Batch, prior: Prior | None = None) -> Rankings:
        """Fit both models.

        Args:
          tables: tables with pools not merged.
          batch: batch of these tables, or of the same with their pools merged.
          prior: default `Prior()`.

        Raises:
          ValueError: every pool has only one content.
        """
        pool = tables.items["pool"].to_numpy()
        owner, _, first = in_order_of_names(
            pool, map(tables.contents.__getitem__, tables.items["content"])
        )
        shape = len(tables.judges), len(tables.items)
        sizes = np.bincount(pool[first])
        n_pairs = int((sizes * (sizes - 1) // 2).sum())
        what = f"orders of {n_pairs} pairs of contents by {shape[0]} judges"
        remedy = f"{limits.ONE_JUDGE}; or give only the pools with labels"
        limits.check(8 * shape[0] * (3 * shape[1] + PAIRS * n_pairs), what, remedy)
        naive, aware, status = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, int)
        fitted = batch.tables.items["pool"].to_numpy()
        rows = [np.flatnonzero(fitted == p) for p in range(len(batch.tables.pools))]
        for at, pool_fit in enumerate(fit(batch, k=1, prior=prior, intervals=False)):
            p, judge = divmod(at, len(tables.judges))
            cells = judge, rows[p]
            status[cells] = pool_fit.status
            if pool_fit.usable:
                naive[cells], aware[cells] = pool_fit.theta_naive, pool_fit.theta
        by_content = (values[:, first] for values in (naive, aware, status))
        return cls(tables, pool[first], owner, *by_content)

    def orders(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """[2, J, pairs] how the naive and the bias-aware ranking order the contents a and b
        [pairs]: 1 if a is above, -1 if b is, 0 if they are tied; NaN if the fit is not usable."""
        both = np.stack([self.naive, self.aware])
        return metrics.order(both[..., a], both[..., b])

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of contents of the same pool: two arrays [pairs] into E."""
        pairs = [np.zeros((2, 0), int)]
        for members in self.pools():
            pairs.append(members[np.stack(np.triu_indices(len(members), 1))])
        a, b = np.concatenate(pairs, 1)
        return a, b

    def disputed(self, a: np.ndarray, b: np.ndarray, *, tie_breaks: bool = False) -> np.ndarray:
        """[J, pairs] whether the two rankings order contents a and b strictly oppositely.

        Args:
          tie_breaks: whether a pair that only one of them ties counts, too.
        """
        naive, aware = self.orders(a, b)
        return differ(naive, aware, tie_breaks)

    def n_disputed(self, *, tie_breaks: bool = False) -> np.ndarray:
        """[J, pools] number of `disputed` pairs."""
        a, b = self.pairs()
        disputed = self.disputed(a, b, tie_breaks=tie_breaks)
        n_pools = len(self.tables.pools)
        counts = [np.bincount(self.pool[a], pairs, n_pools) for pairs in disputed]
        return np.stack(counts).astype(int)

    def pools(self) -> Iterator[np.ndarray]:
        """The contents of each pool, into E."""
        order = np.argsort(self.pool, kind="stable")
        sizes = np.bincount(self.pool, minlength=len(self.tables.pools))
        yield from np.split(order, np.cumsum(sizes)[:-1])

    def check_k(self, k: int) -> None:
        """Raise `ValueError` unless k is an integer smaller than the number of contents of every
        pool that has several."""
        check_count("k", k)
        sizes = np.bincount(self.pool, minlength=len(self.tables.pools)).tolist()
        check_sizes(dict(zip(self.tables.pools, sizes, strict=True)), k)

    def tops(self, k: int, seed: int) -> np.ndarray:
        """The naive and the bias-aware top k of each judge.

        Both have exactly k contents: ties are broken by the same random permutation of the pool.

        Args:
          k: size of the tops (count of contents).
          seed: seed of the permutations.

        Returns:
          [2, J, E] whether a content is in the naive and in the bias-aware top; False throughout in
          pools with no more than k contents, or whose fits are not usable.

        Raises:
          ValueError: k not below the contents of some pool that has several.
        """
        self.check_k(k)
        names, pools = self.tables.pools, list(self.pools())
        shape = len(pools), max(map(len, pools))
        at, order = np.full(shape, -1), np.zeros(shape, int)
        for p, (name, members) in enumerate(zip(names, pools, strict=True)):
            at[p, : len(members)] = members
            order[p, : len(members)] = seeded(seed, "ties", name).permutation(len(members))
        real = (at >= 0) & ((at >= 0).sum(1, keepdims=True) > k)
        estimates = np.stack([self.naive, self.aware])
        with runtime.precision("float64"):
            pools = np.moveaxis(estimates[..., at], 2, 0), order, real
            tops = np.moveaxis(in_chunks(lambda stack: _exact_tops(*stack, k), pools), 0, 2)
        inside = np.zeros(estimates.shape, bool)
        inside[..., at[real]] = tops[..., real]
        return inside & np.isfinite(estimates).all(0)

    def swapped(self, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """[J, E] the contents only in the bias-aware top k, and those only in the naive top k: the
        same number of both in every pool. Arguments and errors as `tops`."""
        naive, aware = self.tops(k, seed)
        return aware & ~naive, naive & ~aware


def differ(naive: np.ndarray, aware: np.ndarray, tie_breaks: bool) -> np.ndarray:
    """`Rankings.disputed`, given what `Rankings.orders` returns."""
    return np.isfinite(naive + aware) & (naive != aware) & (tie_breaks | (naive * aware < 0))


def seeded(seed: int, *names: str) -> np.random.Generator:
    """A generator that depends only on the seed and these names: what is drawn, for which pool."""
    return np.random.default_rng([seed, zlib.crc32("/".join(names).encode())])


@partial(quick_compilation.jit, static_argnames="k")
def _exact_tops(estimates: Array, order: Array, real: Array, k: int) -> Array:
    """[pools, 2, J, M] tops of estimates of this shape; order and real are [pools, M]."""

    def one_pool(estimates: Array, order: Array, real: Array) -> Array:
        return jax.vmap(jax.vmap(lambda v: exact_top(v, k, order, real)))(estimates)

    return jax.vmap(one_pool)(estimates, order, real)
