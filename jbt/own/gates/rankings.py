"""Both rankings of each judge, naive and bias-aware, and where they differ, pool by pool."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import pandas as pd
from jaxtyping import Array

from jbt import runtime
from jbt.gate import exact_top
from jbt.kernel import metrics
from jbt.own.fits.batch import Batch
from jbt.own.fits.pools import check_sizes, fit
from jbt.own.tables.tables import Tables
from jbt.types import Prior, check_count


@dataclass(frozen=True, eq=False)
class Rankings:
    """What the two fits of each judge say of the contents of each pool of the file. Where pools
    were merged for the fit, a pool has those of the merged contents that its items show."""

    tables: Tables
    """Pools not merged."""
    pool: np.ndarray
    """[E] of each content, pools apart."""
    owner: np.ndarray
    """[rows of items] content of each, into E."""
    naive: np.ndarray
    """[J, E] quality under c = kappa = 0, logits; NaN where a fit is not usable."""
    aware: np.ndarray
    """[J, E] quality under the bias-aware model, likewise."""
    status: np.ndarray
    """[J, E] of the fits that a content is in, see `Status`."""

    @classmethod
    def of(cls, tables: Tables, batch: Batch, prior: Prior | None = None) -> Rankings:
        """Fit them.

        Args:
          tables: pools not merged.
          batch: of these tables, or of the same with their pools merged.
          prior: default `Prior()`.

        Raises:
          ValueError: every pool has only one content.
        """
        content = tables.items["content"].to_numpy()
        owner, known = pd.factorize(
            tables.items["pool"].to_numpy() * len(tables.contents) + content
        )
        shape = len(tables.judges), len(tables.items)
        naive, aware, status = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, int)
        fitted = batch.tables.items["pool"].to_numpy()
        rows = [np.flatnonzero(fitted == p) for p in range(len(batch.tables.pools))]
        for at, one in enumerate(fit(batch, k=1, prior=prior, intervals=False)):
            pool, judge = divmod(at, len(tables.judges))
            status[judge, rows[pool]] = one.status
            if one.usable:
                naive[judge, rows[pool]], aware[judge, rows[pool]] = one.theta_naive, one.theta
        first = np.unique(owner, return_index=True)[1]
        each = (v[:, first] for v in (naive, aware, status))
        return cls(tables, known // len(tables.contents), owner, *each)

    def orders(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """[2, J, pairs] how naive and bias-aware order the contents a and b [pairs]: 1 where a is
        above, -1 where b is, 0 where they are tied; NaN where a fit is not usable."""
        both = np.stack([self.naive, self.aware])
        return metrics.order(both[..., a], both[..., b])

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of contents of one pool, in no meaningful order: [pairs] into E, twice."""
        some = [np.zeros((2, 0), int)]
        for members in self.pools():
            some.append(members[np.stack(np.triu_indices(len(members), 1))])
        a, b = np.concatenate(some, 1)
        return a, b

    def disputed(self, a: np.ndarray, b: np.ndarray, *, tie_breaks: bool = False) -> np.ndarray:
        """[J, pairs] whether the two rankings order contents a and b strictly oppositely.

        Args:
          tie_breaks: whether it is enough that one of them ties the two and the other does not.
        """
        naive, aware = self.orders(a, b)
        return differ(naive, aware, tie_breaks)

    def n_disputed(self, *, tie_breaks: bool = False) -> np.ndarray:
        """[J, pools] pairs that are `disputed` (count)."""
        a, b = self.pairs()
        disputed = self.disputed(a, b, tie_breaks=tie_breaks)
        n_pools = len(self.tables.pools)
        return np.stack([np.bincount(self.pool[a], of, n_pools) for of in disputed]).astype(int)

    def pools(self) -> Iterator[np.ndarray]:
        """The contents of each pool."""
        order = np.argsort(self.pool, kind="stable")
        sizes = np.bincount(self.pool, minlength=len(self.tables.pools))
        yield from np.split(order, np.cumsum(sizes)[:-1])

    def check_k(self, k: int) -> None:
        """Raise `ValueError` unless k is an integer below the contents of every pool that has
        several."""
        check_count("k", k)
        sizes = np.bincount(self.pool, minlength=len(self.tables.pools)).tolist()
        check_sizes(dict(zip(self.tables.pools, sizes, strict=True)), k)

    def tops(self, k: int, seed: int) -> np.ndarray:
        """The two top k of each judge.

        Both have exactly k contents: ties are broken by one permutation of the pool's.

        Args:
          k: size of the tops (count of contents).
          seed: of the permutations.

        Returns:
          [2, J, E] who is in the naive and in the bias-aware top; nobody of a pool that has no
          more than k contents, or whose fits are not usable.

        Raises:
          ValueError: k not below the contents of some pool that has several.
        """
        self.check_k(k)
        names, several = self.tables.pools, list(self.pools())
        shape = len(several), max(map(len, several))
        at, order = np.full(shape, -1), np.zeros(shape, int)
        for p, (name, members) in enumerate(zip(names, several, strict=True)):
            at[p, : len(members)] = members
            order[p, : len(members)] = seeded(seed, "ties", name).permutation(len(members))
        real = (at >= 0) & ((at >= 0).sum(1, keepdims=True) > k)
        estimates = np.stack([self.naive, self.aware])
        with runtime.precision("float64"):
            tops = np.asarray(_exact_tops(estimates[..., at], k, order, real))
        found = np.zeros(estimates.shape, bool)
        found[..., at[real]] = tops[..., real]
        return found & np.isfinite(estimates).all(0)

    def swapped(self, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """[J, E] the contents in the bias-aware top k alone, and those in the naive top k alone: as
        many of both in every pool. Arguments and errors of `tops`."""
        naive, aware = self.tops(k, seed)
        return aware & ~naive, naive & ~aware


def differ(naive: np.ndarray, aware: np.ndarray, tie_breaks: bool) -> np.ndarray:
    """`Rankings.disputed` of what `Rankings.orders` returns."""
    return np.isfinite(naive + aware) & (naive != aware) & (tie_breaks | (naive * aware < 0))


def seeded(seed: int, *names: str) -> np.random.Generator:
    """Draws that depend on the seed and on these names alone: what is drawn, of which pool."""
    return np.random.default_rng([seed, zlib.crc32("/".join(names).encode())])


@partial(jax.jit, static_argnames="k")
def _exact_tops(estimates: Array, k: int, order: Array, real: Array) -> Array:
    """[2, J, pools, M] of estimates of this shape; order and real [pools, M]."""
    of_pools = jax.vmap(lambda v, o, r: exact_top(v, k, o, r))
    return jax.vmap(jax.vmap(lambda v: of_pools(v, order, real)))(estimates)
