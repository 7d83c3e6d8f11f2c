"""A user's tables as one padded batch: every pool with every judge, in float64.

Errors of the judge are counted and dropped, never taken for ties.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import runtime
from jbt.identifiability import silent_parts
from jbt.own import tables
from jbt.own.tables import TableError
from jbt.types import Comparisons, Design

Transform = Literal["none", "log", "log1p"]


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
    """Some ordered pair was judged more than once."""
    constant_covariates: tuple[bool, ...]
    """Which covariates take one value over the whole pool."""
    prior_selected: tuple[str, ...]
    """Which of theta (up to a constant), c, kappa and phi (likewise) the comparisons made are
    silent about, so that the prior chooses them."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Every pool and judge, padded to one shape, in float64."""

    pools: list[PoolTable]
    """In the order of the items table, each pool with every judge in the order of the verdicts."""
    design: Design
    """Leaves with a leading axis over `pools`."""
    comparisons: Comparisons
    """Likewise."""
    covariates: list[str]
    """Name of each covariate, with its transformation: "words", "log(words)"."""
    units: str
    """What one unit of a covariate is, in words."""


def load(
    verdicts: Path | str,
    items: Path | str | None = None,
    covariates: Sequence[str] = (),
    *,
    transform: Transform = "none",
    standardise: bool = True,
    judge: str | None = None,
) -> Batch:
    """Both tables as one padded batch: every pool with every judge, or with the one named.

    Args:
      verdicts, items: files (see `tables`); items may be left out when no covariate is asked for.
      covariates: columns of the items table.
      transform: applied to every covariate: none, log or log1p.
      standardise: subtract the mean and divide by the standard deviation (divisor n) over
        all rows of the items table, after the transformation; else use them as they are.
      judge: one judge's verdicts only.

    Raises:
      TableError: see `tables`; also for a covariate that is constant over the table, the
        log of a number that has none, an unknown judge or item.
    """
    verdicts = Path(verdicts)
    verdict_table = tables.read_verdicts(verdicts)
    if covariates and items is None:
        raise TableError(f"covariates {', '.join(covariates)} need an items table (--items)")
    repeated_names = [c for i, c in enumerate(covariates) if c in covariates[:i]]
    if repeated_names:
        raise TableError(f"covariate {repeated_names[0]!r} is asked for twice")
    if items is None:
        item_table = _items_of(verdict_table)
    else:
        items = Path(items)
        item_table = tables.read_items(items, covariates)
    rows = _rows_of_items(verdict_table, item_table)
    for side, row in rows.items():
        if (row < 0).any():
            unknown = verdict_table[row < 0].iloc[0]
            what = f"item {unknown[side]!r} of pool {unknown['pool']!r} is not in {items}"
            raise tables.at_line(verdicts, unknown.name, what)
    x = _covariates(items, item_table, covariates, transform, standardise)
    judges = verdict_table["judge"].unique().tolist()
    if judge is not None:
        if judge not in judges or judges == [""]:
            known = "the table has no judge column" if judges == [""] else ", ".join(judges)
            raise TableError(f"{verdicts}: no judge {judge!r}: {known}")
        judges = [judge]
    names = [c if transform == "none" else f"{transform}({c})" for c in covariates]
    units = "standard deviation of" if standardise else "unit of"
    layout = _Layout.of(item_table)
    pools, design, comparisons = _batch(layout, x, verdict_table, rows, judges)
    return Batch(pools, design, comparisons, names, units)


def _items_of(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The items table of verdicts that come without: every item that was shown."""
    sides = [verdicts[["pool", s]].rename(columns={s: "item"}) for s in ("first", "second")]
    return pd.concat(sides).drop_duplicates(ignore_index=True)


def _rows_of_items(verdicts: pd.DataFrame, items: pd.DataFrame) -> dict[str, np.ndarray]:
    """Row of the items table of each verdict's "first" and "second"; -1 for an unknown item."""
    pools, names = pd.Index(items["pool"].unique()), pd.Index(items["item"].unique())

    def number(pool: pd.Series, item: pd.Series) -> np.ndarray:
        p, i = pools.get_indexer(pd.Index(pool)), names.get_indexer(pd.Index(item))
        return np.where((p < 0) | (i < 0), -1, p * len(names) + i)

    known = pd.Index(number(items["pool"], items["item"]))
    return {
        side: known.get_indexer(pd.Index(number(verdicts["pool"], verdicts[side])))
        for side in ("first", "second")
    }


def _covariates(
    path: Path | str | None,
    items: pd.DataFrame,
    names: Sequence[str],
    transform: Transform,
    standardise: bool,
) -> np.ndarray:
    """[rows of the items table, D]"""
    x = items[list(names)].to_numpy(float)
    floor = {"none": -np.inf, "log": 0.0, "log1p": -1.0}[transform]
    bad = np.argwhere(x <= floor)
    if len(bad):
        row, column = bad[0]
        what = f"{transform} of {names[column]} = {x[row, column]:g} is undefined"
        raise TableError(f"{path}, line {items.index[row]}: {what}, needs values above {floor:g}")
    x = {"none": lambda v: v, "log": np.log, "log1p": np.log1p}[transform](x)
    spread = x.std(axis=0)
    # A constant's standard deviation is rounding, not exactly zero.
    constant = spread <= 1e-12 * np.maximum(np.abs(x).max(axis=0, initial=0), 1e-300)
    if constant.any():
        raise TableError(f"{path}: {names[int(constant.argmax())]} is the same for all items")
    return (x - x.mean(axis=0)) / spread if standardise else x


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Where each row of the items table goes in arrays [pools, N]."""

    pools: list[str]
    items: list[tuple[str, ...]]
    """Of each pool, in the order of the table."""
    pool: np.ndarray
    """[rows]"""
    place: np.ndarray
    """[rows], within its pool."""
    content: np.ndarray | None
    """[rows], numbered within its pool; None if every item is its own."""
    n_contents: int
    mask: np.ndarray
    """[pools, N], False for padding."""

    @classmethod
    def of(cls, items: pd.DataFrame) -> _Layout:
        pool, names = pd.factorize(items["pool"])
        place = _count_within(pool)
        sizes = np.bincount(pool)
        mask = np.arange(sizes.max()) < sizes[:, None]
        by_pool = items["item"].to_numpy(object)[np.argsort(pool, kind="stable")]
        ends = np.cumsum(sizes)
        each = [tuple(by_pool[e - n : e]) for e, n in zip(ends, sizes, strict=True)]
        content, n_contents = None, len(mask[0])
        if "content" in items:
            label, labels = pd.factorize(items["content"])
            owner, owners = pd.factorize(pool * len(labels) + label)
            if len(owners) < len(items):
                number = _count_within(owners // len(labels))
                content, n_contents = number[owner], int(number.max()) + 1
        return cls(list(names), each, pool, place, content, n_contents, mask)

    def padded(self, values: np.ndarray) -> np.ndarray:
        """[rows, ...] values as [pools, N, ...], zero at padding."""
        out = np.zeros((*self.mask.shape, *values.shape[1:]), values.dtype)
        out[self.pool, self.place] = values
        return out


def _count_within(group: np.ndarray) -> np.ndarray:
    """How many of the same group came before."""
    return pd.Series(group).groupby(group).cumcount().to_numpy()


def _batch(
    layout: _Layout,
    x: np.ndarray,
    verdicts: pd.DataFrame,
    rows: dict[str, np.ndarray],
    judges: list[str],
) -> tuple[list[PoolTable], Design, Comparisons]:
    n_pools, n = layout.mask.shape
    judge = pd.Index(judges).get_indexer(pd.Index(verdicts["judge"]))
    asked = judge >= 0
    judge, count = judge[asked], verdicts["count"].to_numpy()[asked]
    winner = verdicts["winner"].to_numpy(object)[asked]
    first, second = rows["first"][asked], rows["second"][asked]
    fit = layout.pool[first] * len(judges) + judge
    pair = fit, layout.place[first], layout.place[second]

    error = winner == "error"
    valid = np.where(error, 0, count)
    credit = np.select([winner == "first", winner == "tie"], [1.0, 0.5], 0.0)
    n_fits = n_pools * len(judges)
    shown, wins = np.zeros((n_fits, n, n)), np.zeros((n_fits, n, n))
    np.add.at(shown, pair, valid)
    np.add.at(wins, pair, valid * credit)
    n_verdicts, n_errors = np.zeros(n_fits, np.int64), np.zeros(n_fits, np.int64)
    np.add.at(n_verdicts, fit, valid)
    np.add.at(n_errors, fit, count - valid)

    covariates = layout.padded(x)
    items = layout.mask[:, :, None]
    highest = np.where(items, covariates, -np.inf).max(1)
    constant = highest == np.where(items, covariates, np.inf).min(1)
    content = None if layout.content is None else layout.padded(layout.content)

    def each_judge(values: np.ndarray) -> jax.Array:
        return jnp.asarray(np.repeat(values, len(judges), axis=0))

    with runtime.precision("float64"):
        # vmap, as a container's own shapes are those of one pool.
        design = jax.vmap(lambda *leaves: Design(*leaves, n_contents=layout.n_contents))(
            each_judge(covariates),
            None if content is None else each_judge(content),
            each_judge(layout.mask),
        )
        comparisons = jax.vmap(Comparisons)(jnp.asarray(shown), jnp.asarray(wins))
    silent = silent_parts(design, shown)
    repeated = np.any(shown > 1, axis=(1, 2))
    pools = [
        PoolTable(
            layout.pools[p],
            judges[g] or None,
            layout.items[p],
            int(n_verdicts[i]),
            int(n_errors[i]),
            bool(repeated[i]),
            tuple(constant[p].tolist()),
            tuple(name for name, of in silent.items() if of[i]),
        )
        for i, (p, g) in enumerate(np.ndindex(n_pools, len(judges)))
    ]
    return pools, design, comparisons
