"""A user's tables as padded batches: every pool with every judge that judged it, in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import runtime
from jbt.identifiability import unidentified_parts
from jbt.own.choices import Columns, Model, Position, Ties
from jbt.own.tables import limits
from jbt.own.tables import tables as own_tables
from jbt.own.tables.places import Layout, check_memory, count_within
from jbt.own.tables.sheets import Table
from jbt.own.tables.tables import Tables, repeats
from jbt.own.tables.verdicts import USUAL
from jbt.types import Comparisons, Design, Rows, Variant, Verdicts, check_word

Result = TypeVar("Result")

COMPILING = 10**8
"""Cost of compiling for one more shape, in the units of a pool's N^3."""

LARGEST_COUNTS = 512
"""Number of items above which a pool's verdicts are kept as rows instead of counts. It is SHARED
where contents have at least RENDERINGS items each: counts are then larger than all other arrays."""

SHARED, RENDERINGS = 64, 2

COUNTS = 4
"""Numbers for each ordered pair of items that making counts holds at its peak."""

LARGEST_TABLE = 2**22
"""Largest number of table cells searched for null directions in one call."""


@dataclasses.dataclass(frozen=True)
class PoolTable:
    """Facts about one pool and one judge."""

    pool: str
    judge: str | None
    """None where the table names no judge."""
    items: tuple[str, ...]
    n_verdicts: int
    """Valid verdicts, counting repeats."""
    n_errors: int
    repeated: bool
    """Whether some pair was judged more than once, in the same order where that is known."""
    constant_covariates: tuple[bool, ...]
    """Which covariates take one value over the whole pool."""
    position: bool
    """Whether kappa is estimated; else it is fixed at 0."""
    contents: tuple[str, ...]
    """The owners of the qualities of the items."""
    prior_selected: tuple[str, ...]
    """Which of theta (up to a constant), c, kappa and phi (likewise) the comparisons do not
    identify, so that the prior chooses them. A fixed kappa is not among them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """Pools of similar size, padded to one shape; every leaf has a leading axis over fits."""

    index: np.ndarray
    """[F] positions of the fits in `Batch.pools`."""
    row: np.ndarray
    """[pools, J] number, from 0 to F - 1, of the fit of each pool and judge."""
    items: Design
    """The content and the covariates of each item."""
    design: Design
    """The design of the comparisons: of the items; of the contents alone for rows."""
    comparisons: Verdicts
    """Counts; rows where known and unknown orders mix or counts would be too large."""
    variant: Variant
    """c is free; kappa is free or fixed in each pool."""

    @property
    def n_parameters(self) -> int:
        """Parameters of a fit, at padding too: qualities, c and kappa."""
        return self.design.n_contents + self.variant.c.shape[1] + 1


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """All pools with all judges, in groups of similar size, in float64."""

    pools: list[PoolTable]
    """Ordered by pool as in the items table, then by judge as in the verdicts."""
    fitted: np.ndarray
    """[pools x judges] position in `pools` of the fit of each, see `_fitted`."""
    groups: tuple[Group, ...]
    covariates: list[str]
    """Name of each covariate, with its transformation: "words", "log(words)"."""
    units: str
    """The unit of a covariate, in words."""
    tables: Tables
    model: Model
    """How the tables were turned into the batch."""

    @classmethod
    def of(cls, tables: Tables, covariates: Sequence[str] = (), **model: Any) -> Batch:
        """A batch of tables that were read.

        Args:
          model: the other fields of `Model`: transform, standardise, position.

        Raises:
          ValueError: the tables were read with Davidson's ties; an argument is not allowed.
        """
        asked = Model(covariates=tuple(covariates), **model)
        asked.check()
        if tables.ties == "davidson":
            raise ValueError("--ties davidson is for jbt leaderboard only: half or drop")
        check_memory(tables)
        n_judges, n_pools = len(tables.judges), len(tables.pools)
        results = f"results of {n_judges} judges on {n_pools} pools"
        limits.check(limits.FIT * n_judges * n_pools, results, limits.ONE_JUDGE)
        x, names, units = own_tables.covariate_values(
            tables, asked.covariates, asked.transform, asked.standardise
        )
        layout = Layout.of(tables, x)
        free = kappa_free(tables, asked.position)
        as_rows = _listed(tables, layout, free)
        fitted = _fitted(tables)
        groups = [
            _group(tables, layout, pool_numbers[members], fitted, free, rows)
            for rows in (False, True)
            for pool_numbers in (np.flatnonzero(as_rows == rows),)
            for members in _by_size(layout.sizes[pool_numbers])
        ]
        repeated = _repeated(tables)
        facts = dict(pair for group in groups for pair in _facts(tables, layout, group, repeated))
        judges, errors = tables.judges, tables.counts["n_errors"].tolist()
        pools = [
            facts[i]
            if i == fit
            else dataclasses.replace(facts[fit], judge=judges[i % len(judges)], n_errors=errors[i])
            for i, fit in enumerate(fitted.ravel().tolist())
        ]
        return cls(pools, fitted.ravel(), tuple(groups), names, units, tables, asked)

    def of_tables(self, tables: Tables) -> Batch:
        """Other tables, with the same model."""
        return Batch.of(tables, **vars(self.model))

    def of_all(
        self, results: Mapping[int, Result], copy: Callable[[Result, PoolTable], Result]
    ) -> list[Result]:
        """The results of all pools and judges, in their order, from those of the groups' fits by
        position; `copy` makes the result of another judge without verdicts on the same pool."""
        return [
            results[fit] if i == fit else copy(results[fit], self.pools[i])
            for i, fit in enumerate(self.fitted.tolist())
        ]

    def sharing(self, group: Group) -> np.ndarray:
        """Positions in a group of the pools with verdicts on items that share contents. In other
        pools the quality of each item absorbs any covariate, so that c is not identified."""
        pools = [self.pools[i] for i in group.index]
        return np.flatnonzero([p.n_verdicts > 0 and len(p.contents) < len(p.items) for p in pools])


def load(
    verdicts: Table,
    items: Table | None = None,
    covariates: Sequence[str] = (),
    *,
    columns: Columns = USUAL,
    judge: str | None = None,
    ties: Ties = "half",
    content: str | None = "content",
    merge_pools: bool = False,
    **model: Any,
) -> Batch:
    """Read a user's tables into a batch: all pools with all judges, or with the one named.

    Args:
      verdicts, items, covariates, columns, judge, ties, content, merge_pools: see `tables.read`.
      model: the other fields of `Model`: transform, standardise, position.

    Raises:
      TableError: see `tables`; a pool too large for the memory of this machine.
      ValueError: an argument is not allowed.
    """
    Model(**model).check()
    tables = own_tables.read(
        verdicts,
        items,
        covariates=covariates,
        columns=columns,
        judge=judge,
        ties=ties,
        content=content,
        merge_pools=merge_pools,
    )
    return Batch.of(tables, covariates, **model)


def kappa_free(tables: Tables, position: Position) -> np.ndarray:
    """[pools x judges] whether kappa is free: with auto, where two items, or two contents, were
    shown in both orders; never where no verdict's order is known.

    Raises:
      ValueError: position is not a `Position`.
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
            swapped = pairs.rename(columns={"first": "second", "second": "first"})
            free[pairs.merge(swapped)["fit"]] = True
    return free


def _listed(tables: Tables, layout: Layout, free: np.ndarray) -> np.ndarray:
    """[pools] whether verdicts are kept as rows: counts would be too large; or kappa is free and
    the order of some verdicts, which kappa does not enter, is unknown."""
    unknown = tables.verdicts[~tables.verdicts["shown"]]
    mixed = np.zeros(len(free), bool)
    mixed[_fit(tables, unknown)] = True
    sizes, n_contents = layout.sizes, np.array([len(contents) for contents in layout.contents])
    large = (sizes > LARGEST_COUNTS) | ((sizes > SHARED) & (sizes >= RENDERINGS * n_contents))
    return large | (mixed & free).reshape(len(tables.pools), -1).any(1)


def _fit(tables: Tables, verdicts: pd.DataFrame) -> np.ndarray:
    """[verdicts] number of the pool and judge, in the order of `Batch.pools`."""
    return (verdicts["pool"] * len(tables.judges) + verdicts["judge"]).to_numpy()


def _fitted(tables: Tables) -> np.ndarray:
    """[pools, judges] position of the fit of each: its own where there are verdicts. Elsewhere the
    prior decides alone, and the first judge without verdicts on the pool stands for the others. The
    first pool without verdicts of a judge is fitted too, as its intervals ask whether it could have
    judged several pools."""
    n = tables.counts["n_verdicts"].to_numpy().reshape(len(tables.pools), -1)
    position = np.arange(n.size).reshape(n.shape)
    own, pools, judges = n > 0, np.arange(len(n)), np.arange(n.shape[1])
    first_judge, first_pool = own.argmin(1), own.argmin(0)
    own[pools, first_judge] = own[first_pool, judges] = True
    return np.where(own, position, position[pools, first_judge][:, None])


def _by_size(sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the pools to pad to one shape: those more than half as large as the largest remaining
    one, and all smaller ones once padding them costs less than compiling for another shape."""
    order = np.argsort(-sizes, kind="stable")
    while len(order):
        largest = int(sizes[order[0]])
        n = int((sizes[order] > largest / 2).sum())
        if (len(order) - n) * largest**3 < COMPILING:
            n = len(order)
        yield np.sort(order[:n])
        order = order[n:]


def _group(
    tables: Tables,
    layout: Layout,
    members: np.ndarray,
    fitted: np.ndarray,
    free: np.ndarray,
    as_rows: bool,
) -> Group:
    """The pools `members` with all judges, as counts or as rows."""
    n = int(layout.sizes[members].max())
    index, row = np.unique(fitted[members], return_inverse=True)
    row = row.reshape(len(members), -1)
    _check_size(len(index), n, layout.x.shape[1], as_rows)
    row_of_pool = np.full(len(tables.pools), -1)
    row_of_pool[members] = np.arange(len(members))
    pool_of_fit = row_of_pool[index // len(tables.judges)]

    rows = np.flatnonzero(row_of_pool[layout.pool] >= 0)
    cells = row_of_pool[layout.pool[rows]], layout.place[rows]

    def padded(values: np.ndarray) -> jax.Array:
        """[fits, N, ...] of [rows, ...], zero at padding."""
        array = np.zeros((len(members), n, *values.shape[1:]), values.dtype)
        array[cells] = values[rows]
        return jnp.asarray(array[pool_of_fit])

    own_qualities = np.array_equal(layout.content[rows], layout.place[rows])
    n_contents = n if own_qualities else int(layout.content[rows].max()) + 1
    verdicts = tables.verdicts[row_of_pool[tables.verdicts["pool"].to_numpy()] >= 0]
    fit = np.searchsorted(index, _fit(tables, verdicts))
    with runtime.precision("float64"):
        # vmap, as a container's own shapes are those of one pool.
        items = jax.vmap(lambda *leaves: Design(*leaves, n_contents=n_contents))(
            padded(layout.x),
            None if own_qualities else padded(layout.content),
            padded(np.ones(len(layout.pool), bool)),
        )
        n_covariates = layout.x.shape[1]
        variant = jax.vmap(Variant)(
            jnp.asarray(np.ones((len(index), n_covariates), bool)), jnp.asarray(free[index])
        )
        if not as_rows:
            counts = _counts(layout, verdicts, fit, len(index), n)
            return Group(index, row, items, items, counts, variant)
        real = np.zeros((len(members), n_contents), bool)
        real[cells[0], layout.content[rows]] = True
        design = jax.vmap(
            lambda real: Design(jnp.zeros((n_contents, n_covariates)), None, real, n_contents)
        )(jnp.asarray(real[pool_of_fit]))
        listed = _rows(layout, verdicts, fit, len(index))
        return Group(index, row, items, design, listed, variant)


def _check_size(n_fits: int, n: int, d: int, as_rows: bool) -> None:
    """Raise `TableError` where fits of n items and d covariates would not fit into memory."""
    items, shared = 2 * n * d, 5 * (2 * d + 2) ** 2
    pairs = 0 if as_rows else COUNTS * n**2
    what = f"{n_fits} fits of a pool and a judge, padded to {n} items, with {d} covariates,"
    smaller = "--judge NAME, fewer --covariates, or a table of only the items that were compared"
    limits.check(8 * n_fits * (items + shared + pairs), what, smaller)


def _counts(
    layout: Layout, verdicts: pd.DataFrame, fit: np.ndarray, n_fits: int, n: int
) -> Comparisons:
    first, second = (layout.place[verdicts[side].to_numpy()] for side in ("first", "second"))
    cell = np.ravel_multi_index((fit, first, second), (n_fits, n, n))
    count, share = verdicts["count"].to_numpy(), verdicts["p_first"].to_numpy()
    shown, wins = (
        # Without verdicts bincount returns integers.
        np.bincount(cell, weight, n_fits * n * n).reshape(n_fits, n, n).astype(float)
        for weight in (count, count * share)
    )
    return jax.vmap(Comparisons)(jnp.asarray(shown), jnp.asarray(wins))


def _rows(layout: Layout, verdicts: pd.DataFrame, fit: np.ndarray, n_fits: int) -> Rows:
    """Verdicts with identical keys merged into one row, padded to one number of rows a fit."""
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
    n_rows = int(np.bincount(fit, minlength=n_fits).max(initial=1))
    what = f"{n_fits} fits of a pool and a judge, padded to {n_rows} pairs of items,"
    limits.check(16 * n_fits * n_rows * (6 + layout.x.shape[1]), what, limits.ONE_JUDGE)

    def padded(values: np.ndarray) -> jax.Array:
        array = np.zeros((n_fits, n_rows, *values.shape[1:]), values.dtype)
        array[place] = values
        return jnp.asarray(array)

    first, second = same["first"].to_numpy(), same["second"].to_numpy()
    return jax.vmap(Rows)(
        padded(layout.content[first].astype(np.int32)),
        padded(layout.content[second].astype(np.int32)),
        padded(layout.x[first] - layout.x[second]),
        padded(same["shown"].to_numpy(float)),
        padded(same["count"].to_numpy(float)),
        padded(same["wins"].to_numpy(float)),
    )


def _unidentified(group: Group) -> Iterator[tuple[str, ...]]:
    """Yield what the comparisons of each pool of a group do not identify."""
    free = np.asarray(group.variant.kappa)
    if isinstance(group.comparisons, Rows):
        with runtime.precision("float64"):
            for i in range(len(free)):
                whole = group.items, group.comparisons
                items, rows = jax.tree.map(lambda leaf, i=i: leaf[i], whole)
                if not free[i]:
                    rows = dataclasses.replace(rows, ordered=jnp.zeros_like(rows.ordered))
                parts = unidentified_parts(items, rows)
                yield tuple(name for name, prior_chooses in parts.items() if prior_chooses)
        return
    leaves = jax.device_get((group.items, group.comparisons))
    step = max(LARGEST_TABLE // group.items.item_mask.shape[1] ** 2, 1)
    for start in range(0, len(free), step):
        part = slice(start, start + step)
        items, counts = jax.tree.map(lambda leaf, part=part: leaf[part], leaves)
        # A pair shown in both orders identifies quality and covariates as if kappa were known.
        shown = np.where(free[part, None, None], counts.shown, counts.shown + counts.shown.mT)
        parts = unidentified_parts(items, shown)
        yield from (
            tuple(n for n, prior_chooses in parts.items() if prior_chooses[i])
            for i in range(len(shown))
        )


def _repeated(tables: Tables) -> np.ndarray:
    """[fits] whether some pair was judged more than once, in the same order where that is known."""
    verdicts = tables.verdicts
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    turn = ~verdicts["shown"].to_numpy() & (first > second)
    pair = {
        "fit": _fit(tables, verdicts),
        "first": np.where(turn, second, first),
        "second": np.where(turn, first, second),
        "shown": verdicts["shown"].to_numpy(),
    }
    count = pd.DataFrame({**pair, "count": repeats(verdicts["count"]).to_numpy()})
    count = count.groupby(list(pair), as_index=False, sort=False).sum()
    often = count["count"].to_numpy() > 1
    repeated = np.zeros(len(tables.pools) * len(tables.judges), bool)
    repeated[count["fit"].to_numpy()[often]] = True
    return repeated


def _facts(
    tables: Tables, layout: Layout, group: Group, repeated: np.ndarray
) -> Iterator[tuple[int, PoolTable]]:
    """Yield the number and the `PoolTable` of each pool of a group."""
    x = np.asarray(group.items.covariates)
    items = np.asarray(group.items.item_mask)[:, :, None]
    constant = np.where(items, x, -np.inf).max(1) == np.where(items, x, np.inf).min(1)
    counts = tables.counts[["n_verdicts", "n_errors"]].to_numpy()[group.index]
    free = np.asarray(group.variant.kappa)
    for i, (fit, names) in enumerate(zip(group.index.tolist(), _unidentified(group), strict=True)):
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
            prior_selected=tuple(n for n in names if free[i] or n != "kappa"),
        )
        yield fit, facts
