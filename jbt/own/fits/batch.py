"""A user's tables as padded batches: every pool with every judge, in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import runtime
from jbt.identifiability import prior_selected, silent_parts
from jbt.own.tables import tables as own_tables
from jbt.own.tables.places import Layout, check_memory, count_within
from jbt.own.tables.reading import Table
from jbt.own.tables.tables import Tables, Ties, Transform
from jbt.own.tables.verdicts import USUAL, Columns
from jbt.types import Comparisons, Design, Rows, Variant, Verdicts, check_word

Position = Literal["yes", "no", "auto"]

COMPILING = 10**8
"""What compiling for one more shape costs, in the units of a pool's N^3."""


LARGEST_COUNTS = 512
"""Items of a pool beyond which its verdicts are kept as rows instead of counts; and SHARED if its
contents have RENDERINGS items each, or more: the counts are larger than all else then."""

SHARED, RENDERINGS = 64, 2

LARGEST_TABLE = 2**22
"""Cells of the tables that are looked through for null directions together."""


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
    contents: tuple[str, ...]
    """What owns the qualities of the items."""
    prior_selected: tuple[str, ...]
    """Which of theta (up to a constant), c, kappa and phi (likewise) the comparisons made are
    silent about, so that the prior chooses them. kappa is none of them where it is fixed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Pools of similar size, padded to one shape; every leaf has a leading axis over them."""

    index: np.ndarray
    """Which of `Batch.pools`."""
    items: Design
    """Which content each item shows, and its covariates."""
    design: Design
    """That of the comparisons: of the items, or of the contents alone where they are rows."""
    comparisons: Verdicts
    """Counts; or rows, where known and unknown orders mix or counts would be too large."""
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
        check_memory(tables)
        x, names, units = own_tables.covariate_values(tables, covariates, transform, standardise)
        layout = Layout.of(tables, x)
        free = kappa_free(tables, position)
        listed = _listed(tables, layout, free)
        groups = [
            _group(tables, layout, which[members], free, rows)
            for rows in (False, True)
            for which in (np.flatnonzero(listed == rows),)
            for members in _by_size(layout.sizes[which])
        ]
        repeated = _repeated(tables)
        pools = dict(facts for group in groups for facts in _facts(tables, layout, group, repeated))
        return cls([pools[i] for i in range(len(free))], tuple(groups), names, units, tables)

    def sharing(self, group: Group) -> np.ndarray:
        """Which fits of a group, from 0, have verdicts on items that share contents. In the others
        every item's own quality absorbs any covariate, so that c is not identified."""
        pools = [self.pools[at] for at in group.index]
        return np.flatnonzero([p.n_verdicts > 0 and len(p.contents) < len(p.items) for p in pools])


def load(
    verdicts: Table,
    items: Table | None = None,
    covariates: Sequence[str] = (),
    *,
    columns: Columns = USUAL,
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
      TableError: see `tables`; a pool that this machine has not the memory to fit.
      ValueError: an argument that is none of those allowed.
    """
    check_word("transform", transform, get_args(Transform))
    check_word("standardise", standardise, (True, False))
    check_word("position", position, get_args(Position))
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


def kappa_free(tables: Tables, position: Position) -> np.ndarray:
    """[pools x judges] whether kappa is free: with auto, where two items were shown in both orders,
    or two contents; never where no verdict's order is known.

    Raises:
      ValueError: position is none of `Position`.
    """
    check_word("position", position, get_args(Position))
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


def _listed(tables: Tables, layout: Layout, free: np.ndarray) -> np.ndarray:
    """[pools] whether verdicts are kept as rows: counts would be too large, or larger than all
    else; or kappa is free for some verdicts and, their order being unknown, not for others."""
    unknown = tables.verdicts[~tables.verdicts["shown"]]
    mixed = np.zeros(len(free), bool)
    mixed[_fit(tables, unknown)] = True
    sizes, n_contents = layout.sizes, np.array([len(some) for some in layout.contents])
    large = (sizes > LARGEST_COUNTS) | ((sizes > SHARED) & (sizes >= RENDERINGS * n_contents))
    return large | (mixed & free).reshape(len(tables.pools), -1).any(1)


def _fit(tables: Tables, verdicts: pd.DataFrame) -> np.ndarray:
    """[verdicts] which pool and judge, in the order of `Batch.pools`."""
    return (verdicts["pool"] * len(tables.judges) + verdicts["judge"]).to_numpy()


def _by_size(sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Pools to be padded to one shape: those more than half as large as the largest that is left,
    and all smaller ones too once padding these costs less than compiling for another shape."""
    order = np.argsort(-sizes, kind="stable")
    while len(order):
        largest = int(sizes[order[0]])
        n = int((sizes[order] > largest / 2).sum())
        if (len(order) - n) * largest**3 < COMPILING:
            n = len(order)
        yield np.sort(order[:n])
        order = order[n:]


def _group(
    tables: Tables, layout: Layout, members: np.ndarray, free: np.ndarray, listed: bool
) -> Group:
    """These pools with every judge, as counts or as rows."""
    n_judges, n = len(tables.judges), int(layout.sizes[members].max())
    index = (members[:, None] * n_judges + np.arange(n_judges)).ravel()
    at = np.full(len(tables.pools), -1)
    at[members] = np.arange(len(members))

    rows = np.flatnonzero(at[layout.pool] >= 0)
    where = at[layout.pool[rows]], layout.place[rows]

    def padded(values: np.ndarray) -> jax.Array:
        """[fits, N, ...] of [rows, ...], zero at padding."""
        out = np.zeros((len(members), n, *values.shape[1:]), values.dtype)
        out[where] = values[rows]
        return jnp.asarray(np.repeat(out, n_judges, axis=0))

    own = np.array_equal(layout.content[rows], layout.place[rows])
    n_contents = n if own else int(layout.content[rows].max()) + 1
    verdicts = tables.verdicts[at[tables.verdicts["pool"].to_numpy()] >= 0]
    fit = at[verdicts["pool"].to_numpy()] * n_judges + verdicts["judge"].to_numpy()
    with runtime.precision("float64"):
        # vmap, as a container's own shapes are those of one pool.
        items = jax.vmap(lambda *leaves: Design(*leaves, n_contents=n_contents))(
            padded(layout.x),
            None if own else padded(layout.content),
            padded(np.ones(len(layout.pool), bool)),
        )
        n_covariates = layout.x.shape[1]
        variant = jax.vmap(Variant)(
            jnp.ones((len(index), n_covariates), bool), jnp.asarray(free[index])
        )
        if not listed:
            return Group(
                index, items, items, _counts(layout, verdicts, fit, len(index), n), variant
            )
        real = np.zeros((len(members), n_contents), bool)
        real[where[0], layout.content[rows]] = True
        design = jax.vmap(
            lambda real: Design(jnp.zeros((n_contents, n_covariates)), None, real, n_contents)
        )(jnp.asarray(np.repeat(real, n_judges, axis=0)))
        return Group(index, items, design, _rows(layout, verdicts, fit, len(index)), variant)


def _counts(
    layout: Layout, verdicts: pd.DataFrame, fit: np.ndarray, n_fits: int, n: int
) -> Comparisons:
    first, second = (layout.place[verdicts[side].to_numpy()] for side in ("first", "second"))
    cell = np.ravel_multi_index((fit, first, second), (n_fits, n, n))
    count, share = verdicts["count"].to_numpy(), verdicts["p_first"].to_numpy()
    shown, wins = (
        # of no verdict at all, bincount makes integers
        np.bincount(cell, weight, n_fits * n * n).reshape(n_fits, n, n).astype(float)
        for weight in (count, count * share)
    )
    return jax.vmap(Comparisons)(jnp.asarray(shown), jnp.asarray(wins))


def _rows(layout: Layout, verdicts: pd.DataFrame, fit: np.ndarray, n_fits: int) -> Rows:
    """Like verdicts together in one row; as many rows for each fit, padding without verdicts."""
    keys = {
        "fit": fit,
        **{name: verdicts[name].to_numpy() for name in ("first", "second", "shown")},
    }
    weight = {
        "count": verdicts["count"].to_numpy(),
        "wins": (verdicts["count"] * verdicts["p_first"]).to_numpy(),
    }
    same = pd.DataFrame({**keys, **weight}).groupby(list(keys), as_index=False, sort=True).sum()
    fit = same["fit"].to_numpy()
    place = fit, count_within(fit)
    most = int(np.bincount(fit, minlength=n_fits).max(initial=1))

    def padded(values: np.ndarray) -> jax.Array:
        out = np.zeros((n_fits, most, *values.shape[1:]), values.dtype)
        out[place] = values
        return jnp.asarray(out)

    first, second = same["first"].to_numpy(), same["second"].to_numpy()
    return jax.vmap(Rows)(
        padded(layout.content[first].astype(np.int32)),
        padded(layout.content[second].astype(np.int32)),
        padded(layout.x[first] - layout.x[second]),
        padded(same["shown"].to_numpy(float)),
        padded(same["count"].to_numpy(float)),
        padded(same["wins"].to_numpy(float)),
    )


def _silent(group: Group) -> Iterator[tuple[str, ...]]:
    """What the comparisons of each pool of a group are silent about."""
    free = np.asarray(group.variant.kappa)
    if isinstance(group.comparisons, Rows):
        with runtime.precision("float64"):
            for i in range(len(free)):
                whole = group.items, group.design, group.comparisons
                items, design, rows = jax.tree.map(lambda leaf, i=i: leaf[i], whole)
                if not free[i]:
                    rows = dataclasses.replace(rows, ordered=jnp.zeros_like(rows.ordered))
                yield prior_selected(design, rows, items)
        return
    told = jax.device_get((group.items, group.comparisons))
    step = max(LARGEST_TABLE // group.items.item_mask.shape[1] ** 2, 1)
    for start in range(0, len(free), step):
        part = slice(start, start + step)
        items, made = jax.tree.map(lambda leaf, part=part: leaf[part], told)
        # Shown in both orders, a pair says of quality and covariates what it says with kappa known.
        shown = np.where(free[part, None, None], made.shown, made.shown + made.shown.mT)
        silent = silent_parts(items, shown)
        yield from (tuple(n for n, of in silent.items() if of[i]) for i in range(len(shown)))


def _repeated(tables: Tables) -> np.ndarray:
    """[fits] whether some pair was judged more than once, in one order where that is known."""
    verdicts = tables.verdicts
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    turn = ~verdicts["shown"].to_numpy() & (first > second)
    pair = {
        "fit": _fit(tables, verdicts),
        "first": np.where(turn, second, first),
        "second": np.where(turn, first, second),
        "shown": verdicts["shown"].to_numpy(),
    }
    count = pd.DataFrame({**pair, "count": verdicts["count"].to_numpy()})
    count = count.groupby(list(pair), as_index=False, sort=False).sum()
    again = count["count"].to_numpy() > 1
    repeated = np.zeros(len(tables.pools) * len(tables.judges), bool)
    repeated[count["fit"].to_numpy()[again]] = True
    return repeated


def _facts(
    tables: Tables, layout: Layout, group: Group, repeated: np.ndarray
) -> Iterator[tuple[int, PoolTable]]:
    """What is known of each pool of a group."""
    x = np.asarray(group.items.covariates)
    items = np.asarray(group.items.item_mask)[:, :, None]
    constant = np.where(items, x, -np.inf).max(1) == np.where(items, x, np.inf).min(1)
    counts = tables.counts[["n_verdicts", "n_errors"]].to_numpy()[group.index]
    free = np.asarray(group.variant.kappa)
    for i, (fit, silent) in enumerate(zip(group.index.tolist(), _silent(group), strict=True)):
        pool, judge = divmod(fit, len(tables.judges))
        facts = PoolTable(
            pool=tables.pools[pool],
            judge=tables.judges[judge],
            items=layout.names[pool],
            n_verdicts=int(counts[i, 0]),
            n_errors=int(counts[i, 1]),
            repeated=bool(repeated[fit]),
            constant_covariates=tuple(constant[i].tolist()),
            position=bool(free[i]),
            contents=layout.contents[pool],
            prior_selected=tuple(n for n in silent if free[i] or n != "kappa"),
        )
        yield fit, facts
