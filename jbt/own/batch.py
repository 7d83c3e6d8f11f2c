"""A user's tables as padded batches: every pool with every judge, in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import runtime
from jbt.identifiability import silent_parts
from jbt.own import tables as own_tables
from jbt.own.tables import Columns, Tables, Ties, Transform
from jbt.types import Comparisons, Design, Variant

Position = Literal["yes", "no", "auto"]

COMPILING = 10**8
"""What compiling for one more shape costs, in the units of a pool's N^3."""


@dataclasses.dataclass(frozen=True)
class PoolTable:
    """One pool as one judge saw it."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    items: tuple[str, ...]
    n_verdicts: int
    """Valid verdicts, counting repeats."""
    n_errors: int
    repeated: bool
    """Some pair was judged more than once, in one order where that is known."""
    constant_covariates: tuple[bool, ...]
    """Which covariates take one value over the whole pool."""
    position: bool
    """Whether kappa is estimated; else it is fixed at 0."""
    prior_selected: tuple[str, ...]
    """Which of theta (up to a constant), c, kappa and phi (likewise) the comparisons made are
    silent about, so that the prior chooses them. kappa is none of them where it is fixed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Pools of similar size, padded to one shape; every leaf has a leading axis over them."""

    index: np.ndarray
    """Which of `Batch.pools`."""
    design: Design
    comparisons: Comparisons
    variant: Variant
    """c is free; kappa is free or fixed in each pool."""


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Every pool and judge, in groups of similar size, in float64."""

    pools: list[PoolTable]
    """In the order of the items table, each pool with every judge in the order of the verdicts."""
    groups: tuple[Group, ...]
    covariates: list[str]
    """Name of each covariate, with its transformation: "words", "log(words)"."""
    units: str
    """What one unit of a covariate is, in words."""

    @classmethod
    def of(
        cls,
        tables: Tables,
        covariates: Sequence[str] = (),
        *,
        transform: Transform = "none",
        standardise: bool = True,
        position: Position = "auto",
    ) -> Batch:
        """Tables that were read, see `load`."""
        x, names, units = own_tables.covariate_values(tables, covariates, transform, standardise)
        layout = _Layout.of(tables, x)
        free = _position(tables, position)
        pools: dict[int, PoolTable] = {}
        groups = []
        for members in _by_size(layout.sizes):
            group, silent = _group(tables, layout, members, free)
            groups.append(group)
            pools.update(_facts(tables, layout, group, silent))
        return cls([pools[i] for i in range(len(free))], tuple(groups), names, units)


def load(
    verdicts: Path | str,
    items: Path | str | None = None,
    covariates: Sequence[str] = (),
    *,
    columns: Columns = Columns(),
    transform: Transform = "none",
    standardise: bool = True,
    judge: str | None = None,
    ties: Ties = "half",
    content: str | None = "content",
    merge_pools: bool = False,
    position: Position = "auto",
) -> Batch:
    """A user's tables as a batch: every pool with every judge, or with the one named.

    Args:
      verdicts, items, covariates, columns, judge, ties, content, merge_pools: see `tables.read`.
      transform, standardise: see `tables.covariate_values`.
      position: whether kappa is estimated, or fixed at 0. auto: in each pool where some pair was
        shown in both orders; without one, kappa rests on the additivity of the model and on the
        prior of quality, and takes in that better items were listed first, say.

    Raises:
      TableError: see `tables`.
    """
    read = own_tables.read(
        verdicts,
        items,
        covariates=covariates,
        columns=columns,
        judge=judge,
        ties=ties,
        content=content,
        merge_pools=merge_pools,
    )
    return Batch.of(
        read, covariates, transform=transform, standardise=standardise, position=position
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Layout:
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

    @classmethod
    def of(cls, tables: Tables, x: np.ndarray) -> _Layout:
        pool = tables.items["pool"].to_numpy()
        sizes = np.bincount(pool, minlength=len(tables.pools))
        label = tables.items["content"].to_numpy()
        owner, owners = pd.factorize(pool * len(tables.contents) + label)
        content = _count_within(owners // len(tables.contents))[owner]
        by_pool = tables.items["item"].to_numpy(object)[np.argsort(pool, kind="stable")]
        names = [tuple(some) for some in np.split(by_pool, np.cumsum(sizes)[:-1])]
        return cls(x, pool, _count_within(pool), content, sizes, names)


def _count_within(group: np.ndarray) -> np.ndarray:
    """How many of the same group came before."""
    return pd.Series(group).groupby(group).cumcount().to_numpy()


def _position(tables: Tables, position: Position) -> np.ndarray:
    """[pools x judges] whether kappa is free: with auto, where two items were shown in both orders,
    or two contents; never where no verdict's order is known."""
    fit = _fit(tables, tables.verdicts)
    shown = tables.verdicts["shown"].to_numpy()
    free = np.zeros(len(tables.pools) * len(tables.judges), bool)
    if position == "yes":
        free[:] = True
        free[fit] = False
        free[fit[shown]] = True
    if position == "auto":
        content = tables.items["content"].to_numpy()
        for number in (np.arange(len(content)), content):
            first, second = (number[tables.verdicts[s].to_numpy()] for s in ("first", "second"))
            pairs = pd.DataFrame({"fit": fit, "first": first, "second": second})
            pairs = pairs[shown & (first != second)].drop_duplicates()
            turned = pairs.rename(columns={"first": "second", "second": "first"})
            free[pairs.merge(turned)["fit"]] = True
    return free


def _fit(tables: Tables, verdicts: pd.DataFrame) -> np.ndarray:
    """[verdicts] which pool and judge, in the order of `Batch.pools`."""
    return (verdicts["pool"] * len(tables.judges) + verdicts["judge"]).to_numpy()


def _by_size(sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Pools to be padded to one shape: those more than half as large as the largest that is left,
    and smaller ones too while padding these costs less than compiling for another shape."""
    order = np.argsort(-sizes, kind="stable")
    while len(order):
        largest = int(sizes[order[0]])
        padding = np.cumsum(np.where(sizes[order] > largest / 2, 0, largest**3))
        n = int(np.searchsorted(padding, COMPILING, side="right"))
        yield np.sort(order[:n])
        order = order[n:]


def _group(
    tables: Tables, layout: _Layout, members: np.ndarray, free: np.ndarray
) -> tuple[Group, dict[str, np.ndarray]]:
    """These pools with every judge, and what their comparisons are silent about."""
    n_judges, n = len(tables.judges), int(layout.sizes[members].max())
    index = (members[:, None] * n_judges + np.arange(n_judges)).ravel()
    at = np.full(len(tables.pools), -1)
    at[members] = np.arange(len(members))

    rows = np.flatnonzero(at[layout.pool] >= 0)
    where = at[layout.pool[rows]], layout.place[rows]

    def padded(values: np.ndarray) -> np.ndarray:
        """[fits, N, ...] of [rows, ...], zero at padding."""
        out = np.zeros((len(members), n, *values.shape[1:]), values.dtype)
        out[where] = values[rows]
        return np.repeat(out, n_judges, axis=0)

    mask = padded(np.ones(len(layout.pool), bool))
    content = padded(layout.content)
    own = np.array_equal(layout.content[rows], layout.place[rows])
    n_contents = n if own else int(content.max()) + 1

    inside = at[tables.verdicts["pool"].to_numpy()] >= 0
    verdicts = tables.verdicts[inside]
    fit = at[verdicts["pool"].to_numpy()] * n_judges + verdicts["judge"].to_numpy()
    first, second = (layout.place[verdicts[side].to_numpy()] for side in ("first", "second"))
    cell = np.ravel_multi_index((fit, first, second), (len(index), n, n))
    count, share = verdicts["count"].to_numpy(), verdicts["p_first"].to_numpy()
    shown, wins = (
        # of no verdict at all, bincount makes integers
        np.bincount(cell, weight, len(index) * n * n).reshape(len(index), n, n).astype(float)
        for weight in (count, count * share)
    )
    with runtime.precision("float64"):
        # vmap, as a container's own shapes are those of one pool.
        design = jax.vmap(lambda *leaves: Design(*leaves, n_contents=n_contents))(
            jnp.asarray(padded(layout.x)),
            None if own else jnp.asarray(content),
            jnp.asarray(mask),
        )
        comparisons = jax.vmap(Comparisons)(jnp.asarray(shown), jnp.asarray(wins))
        variant = jax.vmap(Variant)(
            jnp.ones((len(index), layout.x.shape[1]), bool), jnp.asarray(free[index])
        )
    # Shown in both orders, a pair says of quality and covariates what it says with kappa known.
    known = np.where(free[index][:, None, None], shown, shown + shown.mT)
    return Group(index, design, comparisons, variant), silent_parts(design, known)


def _facts(
    tables: Tables, layout: _Layout, group: Group, silent: dict[str, np.ndarray]
) -> Iterator[tuple[int, PoolTable]]:
    """What is known of each pool of a group."""
    x = np.asarray(group.design.covariates)
    items = np.asarray(group.design.item_mask)[:, :, None]
    constant = np.where(items, x, -np.inf).max(1) == np.where(items, x, np.inf).min(1)
    repeated = np.any(np.asarray(group.comparisons.shown) > 1, axis=(1, 2))
    counts = tables.counts[["n_verdicts", "n_errors"]].to_numpy()[group.index]
    free = np.asarray(group.variant.kappa)
    for i, fit in enumerate(group.index.tolist()):
        pool, judge = divmod(fit, len(tables.judges))
        facts = PoolTable(
            pool=tables.pools[pool],
            judge=tables.judges[judge],
            items=layout.names[pool],
            n_verdicts=int(counts[i, 0]),
            n_errors=int(counts[i, 1]),
            repeated=bool(repeated[i]),
            constant_covariates=tuple(constant[i].tolist()),
            position=bool(free[i]),
            prior_selected=tuple(name for name, of in silent.items() if of[i]),
        )
        yield fit, facts
