"""A user's tables as padded batches: every pool with every judge, in float64.

A pool's verdicts are counted over its pairs of items, as everywhere in jbt. They are kept as rows
where counts would be mostly zeros, in a large pool whose items share a few contents, and where the
order is known for only some of those that tell kappa.
"""

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
from jbt.identifiability import null_space, silent_parts
from jbt.own import tables as own_tables
from jbt.own.layout import Layout, count_within
from jbt.own.tables import Columns, Tables, Ties, Transform
from jbt.types import Comparisons, Design, Rows, Variant

Position = Literal["yes", "no", "auto"]

COMPILING = 10**8
"""What compiling for one more shape costs, in the units of a pool's N^3; and ROW, what a verdict
that is kept as a row does."""

ROW = 10**3

COUNTED = 64
"""Items up to which a pool's verdicts are counted even if its items share a few contents."""


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
    """With rows, of contents: see `Design.of_contents`."""
    comparisons: Comparisons | Rows
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
    tables: Tables
    """What it was made of."""
    layout: Layout
    """Where each row of the items table went."""

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
        layout = Layout.of(tables, x)
        free = _position(tables, position)
        facts = _Facts.of(tables, layout, free)
        as_rows = _as_rows(tables, layout, free)
        n_rows = np.bincount(tables.verdicts["pool"], minlength=len(tables.pools))
        groups, pools = [], {}
        for group_of, kept, cost in (
            (_counted, ~as_rows, layout.sizes.astype(float) ** 3),
            (_listed, as_rows, ROW * n_rows.astype(float)),
        ):
            for members in _by_cost(np.flatnonzero(kept), cost):
                group, silent = group_of(tables, layout, members, free)
                groups.append(group)
                pools.update(facts.of_group(tables, layout, group, silent))
        pools = [pools[i] for i in range(len(free))]
        return cls(pools, tuple(groups), names, units, tables, layout)

    def sharing(self, group: Group) -> np.ndarray:
        """Which fits of a group, from 0, have verdicts on items that share contents. In the others
        every item's own quality absorbs any covariate, so that c is not identified."""
        pool = group.index // len(self.tables.judges)
        judged = self.tables.counts["n_verdicts"].to_numpy()[group.index] > 0
        return np.flatnonzero(judged & (self.layout.n_contents[pool] < self.layout.sizes[pool]))


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


def _as_rows(tables: Tables, layout: Layout, free: np.ndarray) -> np.ndarray:
    """[pools] whose verdicts are kept as rows, see the module."""
    large = (layout.sizes > COUNTED) & (layout.sizes >= 2 * layout.n_contents)
    unknown = ~tables.verdicts["shown"].to_numpy() & free[_fit(tables, tables.verdicts)]
    large[tables.verdicts["pool"].to_numpy()[unknown]] = True
    return large


def _by_cost(pools: np.ndarray, cost: np.ndarray) -> Iterator[np.ndarray]:
    """Pools to be padded to one shape: those not much smaller than the largest that is left, and
    smaller ones too while padding these costs less than compiling for another shape.

    Args:
      cost: [all pools] of each.
    """
    pools = pools[np.argsort(-cost[pools], kind="stable")]
    while len(pools):
        largest = cost[pools[0]]
        padding = np.cumsum(np.where(8 * cost[pools] > largest, 0, largest))
        n = int(np.searchsorted(padding, COMPILING, side="right"))
        yield np.sort(pools[:n])
        pools = pools[n:]


@dataclasses.dataclass(frozen=True, eq=False)
class _Frame:
    """The fits of a group: some pools with every judge."""

    index: np.ndarray
    """[fits] which of `Batch.pools`."""
    verdicts: pd.DataFrame
    """Of these pools."""
    fit: np.ndarray
    """[verdicts] which of the fits."""

    @classmethod
    def of(cls, tables: Tables, members: np.ndarray) -> _Frame:
        n_judges = len(tables.judges)
        at = np.full(len(tables.pools), -1)
        at[members] = np.arange(len(members))
        verdicts = tables.verdicts[at[tables.verdicts["pool"].to_numpy()] >= 0]
        fit = at[verdicts["pool"].to_numpy()] * n_judges + verdicts["judge"].to_numpy()
        index = (members[:, None] * n_judges + np.arange(n_judges)).ravel()
        return cls(index, verdicts, fit)


def _counted(
    tables: Tables, layout: Layout, members: np.ndarray, free: np.ndarray
) -> tuple[Group, dict[str, np.ndarray]]:
    """These pools with every judge, as counts, and what their comparisons are silent about."""
    frame, n = _Frame.of(tables, members), int(layout.sizes[members].max())
    rows = np.concatenate([layout.rows[p] for p in members])
    where = np.repeat(np.arange(len(members)), layout.sizes[members]), layout.place[rows]

    def padded(values: np.ndarray) -> np.ndarray:
        """[fits, N, ...] of [rows, ...], zero at padding."""
        out = np.zeros((len(members), n, *values.shape[1:]), values.dtype)
        out[where] = values[rows]
        return np.repeat(out, len(tables.judges), axis=0)

    mask = padded(np.ones(len(layout.pool), bool))
    content = padded(layout.content)
    own = np.array_equal(layout.content[rows], layout.place[rows])
    n_contents = n if own else int(content.max()) + 1

    n_fits, verdicts = len(frame.index), frame.verdicts
    first, second = (layout.place[verdicts[side].to_numpy()] for side in ("first", "second"))
    cell = np.ravel_multi_index((frame.fit, first, second), (n_fits, n, n))
    count, share = verdicts["count"].to_numpy(), verdicts["p_first"].to_numpy()
    shown, wins = (
        np.bincount(cell, weight, n_fits * n * n).reshape(n_fits, n, n)
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
        variant = _variant(layout, free[frame.index])
    # Shown in both orders, a pair says of quality and covariates what it says with kappa known.
    known = np.where(free[frame.index][:, None, None], shown, shown + shown.mT)
    return Group(frame.index, design, comparisons, variant), silent_parts(design, known)


def _listed(
    tables: Tables, layout: Layout, members: np.ndarray, free: np.ndarray
) -> tuple[Group, dict[str, np.ndarray]]:
    """The same as rows."""
    frame, m = _Frame.of(tables, members), int(layout.n_contents[members].max())
    verdicts, n_fits = frame.verdicts, len(frame.index)
    place = count_within(frame.fit)
    n_rows = max(int(place.max(initial=-1)) + 1, 1)

    def padded(values: np.ndarray) -> np.ndarray:
        """[fits, R, ...] of [verdicts, ...], zero at padding."""
        out = np.zeros((n_fits, n_rows, *values.shape[1:]), values.dtype)
        out[frame.fit, place] = values
        return out

    first, second = (verdicts[side].to_numpy() for side in ("first", "second"))
    count = verdicts["count"].to_numpy(float)
    mask = np.arange(m) < layout.n_contents[frame.index // len(tables.judges)][:, None]
    with runtime.precision("float64"):
        comparisons = jax.vmap(Rows)(
            jnp.asarray(padded(layout.content[first]), jnp.int32),
            jnp.asarray(padded(layout.content[second]), jnp.int32),
            jnp.asarray(padded(layout.x[first] - layout.x[second])),
            jnp.asarray(padded(verdicts["shown"].to_numpy(float))),
            jnp.asarray(padded(count)),
            jnp.asarray(padded(count * verdicts["p_first"].to_numpy())),
        )
        nothing = jnp.zeros((n_fits, m, layout.x.shape[1]))
        design = jax.vmap(lambda *leaves: Design(*leaves, n_contents=m))(
            nothing, None, jnp.asarray(mask)
        )
        variant = _variant(layout, free[frame.index])
    group = Group(frame.index, design, comparisons, variant)
    return group, _silent_in_rows(tables, layout, group)


def _variant(layout: Layout, free: np.ndarray) -> Variant:
    c = jnp.ones((len(free), layout.x.shape[1]), bool)
    return jax.vmap(Variant)(c, jnp.asarray(free))


def _silent_in_rows(tables: Tables, layout: Layout, group: Group) -> dict[str, np.ndarray]:
    """`silent_parts` of rows, pool by pool."""
    silent = {name: np.zeros(len(group.index), bool) for name in ("theta", "c", "kappa", "phi")}
    each = jax.device_get((group.design, group.comparisons, group.variant.kappa))
    for i, fit in enumerate(group.index.tolist()):
        design, rows, free = jax.tree.map(lambda leaf, i=i: leaf[i], each)
        if not free:  # kappa known is as good as every order unknown
            rows = dataclasses.replace(rows, ordered=np.zeros_like(rows.ordered))
        directions = null_space(design, rows).directions
        items = layout.rows[fit // len(tables.judges)]
        x = layout.x[items] - layout.x[items].mean(0)
        theta, c, kappa = np.split(directions, [design.n_contents, -1], axis=1)
        theta = theta[:, design.item_mask]
        largest = np.abs(directions).max(1, initial=1e-300)
        moved = {
            "theta": np.ptp(theta, axis=1),
            "c": np.abs(c).max(1, initial=0),
            "kappa": np.abs(kappa[:, 0]) * free,
            "phi": np.ptp(theta[:, layout.content[items]] + c @ x.T, axis=1),
        }
        for name, by in moved.items():
            silent[name][i] = (by > 1e-6 * largest).any()
    return silent


@dataclasses.dataclass(frozen=True, eq=False)
class _Facts:
    """What the tables alone say of each pool and judge."""

    constant: np.ndarray
    """[pools, D]"""
    repeated: np.ndarray
    """[fits]"""
    free: np.ndarray
    """[fits]"""

    @classmethod
    def of(cls, tables: Tables, layout: Layout, free: np.ndarray) -> _Facts:
        x = pd.DataFrame(layout.x).groupby(layout.pool)
        fit, verdicts = _fit(tables, tables.verdicts), tables.verdicts
        first, second = (verdicts[side].to_numpy() for side in ("first", "second"))
        turned = np.where(verdicts["shown"], 1 + (first > second), 0)
        pair = np.minimum(first, second) * len(layout.pool) + np.maximum(first, second)
        one = pd.DataFrame({"fit": fit, "pair": pair, "turned": turned})
        repeated = np.zeros(len(free), bool)
        repeated[fit[one.duplicated().to_numpy() | (verdicts["count"].to_numpy() > 1)]] = True
        return cls(x.min().to_numpy() == x.max().to_numpy(), repeated, free)

    def of_group(
        self, tables: Tables, layout: Layout, group: Group, silent: dict[str, np.ndarray]
    ) -> Iterator[tuple[int, PoolTable]]:
        """What is known of each pool of a group."""
        counts = tables.counts[["n_verdicts", "n_errors"]].to_numpy()
        for i, fit in enumerate(group.index.tolist()):
            pool, judge = divmod(fit, len(tables.judges))
            facts = PoolTable(
                pool=tables.pools[pool],
                judge=tables.judges[judge],
                items=layout.items[pool],
                n_verdicts=int(counts[fit, 0]),
                n_errors=int(counts[fit, 1]),
                repeated=bool(self.repeated[fit]),
                constant_covariates=tuple(self.constant[pool].tolist()),
                position=bool(self.free[fit]),
                prior_selected=tuple(name for name, of in silent.items() if of[i]),
            )
            yield fit, facts
