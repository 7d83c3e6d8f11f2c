"""Recorded verdicts as a frozen judge: an answer for each ordered pair, and the top k by these
answers, by a quality column and by anchors."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array

from jbt import quick_compilation
from jbt.acquisition import Task
from jbt.acquisition.loop import refit
from jbt.kernel import metrics
from jbt.own.fits.batch import LARGEST_COUNTS, Batch, Group
from jbt.own.fits.pools import check_k
from jbt.own.replays.report import SCORED_BY
from jbt.own.tables.places import count_within, in_order_of_names
from jbt.own.tables.sheets import TableError, location
from jbt.own.tables.tables import Tables
from jbt.types import Comparisons, Design, Parameters, Prior, Variant, check_count, check_word

Model = Literal["naive", "bias_aware"]

LARGEST_ITEMS = 4 * LARGEST_COUNTS
"""Most items of a pool: a run holds several numbers for each ordered pair of them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Oracle:
    """Pools of similar size, each with the verdicts of one judge, [F], padded to one shape."""

    fits: np.ndarray
    """[F] index into `Batch.pools`."""
    names: list[str]
    """[F] name of the pool."""
    tasks: Task
    """Leaves [F, ...]."""
    tops: np.ndarray
    """[F, scored_by, M] 1 for contents in the top k, else 0; NaN where it is undefined."""
    n_verdicts: np.ndarray
    """[F] ordered pairs with a verdict."""


def oracles(
    tables: Tables, batch: Batch, k: int, model: Model, prior: Prior
) -> tuple[list[Oracle], list[str]]:
    """Make judges that can be asked from the verdicts of a batch, pools of similar size together;
    and notes about them, in sentences.

    Args:
      k: size of the top set (count of contents).
      model: the model fitted; its fit to all verdicts gives the top k of `full_data`.

    Raises:
      ValueError: k out of range, a pool with too many items, nothing to ask.
    """
    check_word("model", model, get_args(Model))
    check_count("k", k)
    n_judges = len(tables.judges)
    _check_size(batch)
    check_k(batch, k)
    several = np.array([len(pool.contents) > 1 for pool in batch.pools])
    pool = tables.items["pool"].to_numpy()
    # By name, so that the random draws of a run do not depend on the order of the rows.
    _, place, _ = in_order_of_names(pool, tables.items["item"])
    owner = _owners(tables, batch, place)
    by_anchors = top_by_anchors if tables.members.empty else top_by_members
    trusted = np.stack([top(tables, owner, k) for top in (top_by_quality, by_anchors)], 1)
    unknown = np.zeros(len(batch.pools), bool)
    of_unknown = tables.verdicts[~tables.verdicts["shown"]]
    unknown[of_unknown["pool"] * n_judges + of_unknown["judge"]] = True
    judges, tied, repeated = [], 0, 0
    for group in batch.groups:
        answers, means = _answers(tables, group, place)
        n_verdicts = (~np.isnan(answers)).sum((1, 2))
        kept = np.flatnonzero((n_verdicts > 0) & several[group.index])
        if not len(kept):
            continue
        fits = group.index[kept]
        repeated += int(means[kept].sum())
        aware = np.full(len(kept), model == "bias_aware")
        kappa = aware & np.asarray(group.variant.kappa)[kept] & ~unknown[fits]
        items = _by_name(tables, group, place, owner)
        items = jax.tree.map(lambda v, at=kept: v[at], items)
        tasks, top = _tasks(items, jnp.asarray(answers[kept]), aware, kappa, prior, k)
        tops = np.asarray(top, float)[:, None]
        tied += int((tops.sum((1, 2)) > k).sum())
        tops = np.concatenate([tops, trusted[fits // n_judges, :, : tops.shape[2]]], 1)
        names = [batch.pools[i].pool for i in fits]
        judges.append(Oracle(fits, names, tasks, tops, n_verdicts[kept]))
    if not judges:
        raise ValueError("there is nothing to ask: no pool has verdicts on more than one content")
    return judges, _notes(tables, judges, unknown, repeated, tied, k)


def _check_size(batch: Batch) -> None:
    """Raise `ValueError` for a pool whose matrices would be too large."""
    for noun, most in {"contents": LARGEST_COUNTS, "items": LARGEST_ITEMS}.items():
        sizes = [len(getattr(pool, noun)) for pool in batch.pools]
        if (n := max(sizes)) > most:
            name = batch.pools[sizes.index(n)].pool
            raise ValueError(f"pool {name!r} has {n} {noun}; at most {most} are allowed")


def _answers(tables: Tables, group: Group, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[F, N, N] the mean share won by the item shown first, NaN without a verdict; and [F] whether
    any is a mean of several verdicts. `place` [rows of items] numbers the items of each pool."""
    at = np.full(len(tables.pools) * len(tables.judges), -1)
    at[group.index] = np.arange(len(group.index))
    fit = at[tables.verdicts["pool"] * len(tables.judges) + tables.verdicts["judge"]]
    verdicts = tables.verdicts[fit >= 0]
    first, second = (place[verdicts[side]] for side in ("first", "second"))
    count, share = verdicts["count"].to_numpy(float), verdicts["p_first"].to_numpy()
    n = group.items.item_mask.shape[1]
    shown, won = np.zeros((2, len(group.index), n, n))
    np.add.at(shown, (fit[fit >= 0], first, second), count)
    np.add.at(won, (fit[fit >= 0], first, second), count * share)
    answers = np.divide(won, shown, out=np.full_like(won, np.nan), where=shown > 0)
    return answers, np.any(shown > 1, axis=(1, 2))


def _owners(tables: Tables, batch: Batch, place: np.ndarray) -> np.ndarray:
    """[rows of items] content of each item within its pool, numbered by name; the item's place
    where the batch's designs have no contents."""
    pool, shared = tables.items["pool"].to_numpy(), np.zeros(len(tables.pools), bool)
    for group in batch.groups:
        shared[group.index // len(tables.judges)] = group.items.content is not None
    names = map(tables.contents.__getitem__, tables.items["content"])
    return np.where(shared[pool], in_order_of_names(pool, names)[1], place)


def _by_name(tables: Tables, group: Group, place: np.ndarray, owner: np.ndarray) -> Design:
    """The group's design with its items at these places, and these contents."""
    pools, n = group.index // len(tables.judges), group.items.item_mask.shape[1]
    items = tables.items["pool"].to_numpy()
    rows = np.flatnonzero(np.isin(items, pools))
    at = items[rows], place[rows]
    before = np.tile(np.arange(n), (len(tables.pools), 1))
    content = np.zeros_like(before)
    before[at], content[at] = count_within(items)[rows], owner[rows]
    covariates = jnp.take_along_axis(group.items.covariates, before[pools][..., None], 1)
    contents = None if group.items.content is None else jnp.asarray(content[pools])
    return dataclasses.replace(group.items, covariates=covariates, content=contents)


@partial(quick_compilation.jit, static_argnames="k")
def _tasks(
    design: Design, answers: Array, c: Array, kappa: Array, prior: Prior, k: int
) -> tuple[Task, Array]:
    """Build the tasks, and fit each to all its verdicts for the top k."""

    def one(design: Design, answers: Array, c: Array, kappa: Array) -> tuple[Task, Array]:
        variant = Variant(jnp.full(design.n_covariates, c), kappa)
        prior_ = Prior(*(jnp.asarray(v, design.dtype) for v in (prior.lam, prior.lam_b)))
        task = Task(jnp.zeros(design.n_contents), design, answers, prior_, variant)
        known = ~jnp.isnan(answers)
        comparisons = Comparisons(known.astype(design.dtype), jnp.where(known, answers, 0))
        parameters, _ = refit(comparisons, Parameters.zeros(design), task)
        return task, metrics.top_set(parameters.theta, k, design.content_mask())

    return jax.vmap(one)(design, answers, c, kappa)


def _notes(
    tables: Tables,
    judges: list[Oracle],
    unknown: np.ndarray,
    repeated: int,
    tied: int,
    k: int,
) -> list[str]:
    fits = np.concatenate([judge.fits for judge in judges])
    left_out = len(unknown) - len(fits)
    noun = "pools" if len(tables.judges) == 1 else "pools of a judge"
    notes = []
    if left_out:
        notes.append(f"{left_out} {noun} left out: no verdict, or only one content")
    if repeated:
        notes.append(
            f"ordered pairs judged more than once (in {repeated} {noun}) have the mean of their "
            "verdicts as their answer, which counts as one verdict"
        )
    if unknown[fits].any():
        notes.append(
            f"{unknown[fits].sum()} {noun} have verdicts of unknown order, which are asked in the "
            "recorded direction; kappa is fixed at 0 there"
        )
    if tied:
        notes.append(
            f"all verdicts leave a tie at the boundary of the top {k} in {tied} {noun}: any of the "
            "tied contents counts"
        )
    pools = np.unique(fits // len(tables.judges))
    defined = np.zeros((len(tables.pools), len(SCORED_BY)), bool)
    for judge in judges:
        defined[judge.fits // len(tables.judges)] = ~np.isnan(judge.tops).any(2)
    for number, label in ((1, "quality"), (2, "anchors")):
        if label == "anchors" and not len(tables.anchors) + len(tables.members):
            continue
        if label == "quality" and tables.items["quality"].isna().all():
            continue
        n = defined[pools, number].sum()
        notes.append(
            f"{label} define{'s' * (label == 'quality')} the top {k} in {n} of {len(pools)} pools"
        )
    return notes


# --- the top k by trusted labels


def top_by_quality(tables: Tables, owner: np.ndarray, k: int) -> np.ndarray:
    """The contents of highest quality in the table, with all that tie with the k-th place.

    Args:
      owner: [rows of items] content of each item, numbered within its pool.
      k: size of the top set.

    Returns:
      [pools, M] 1 for the top set, else 0; all NaN in pools with an item without a quality; M is
      the number of contents of the largest pool.

    Raises:
      TableError: two items of one content have different qualities.
    """
    pool, quality = tables.items["pool"].to_numpy(), tables.items["quality"].to_numpy(float)
    given = np.full((len(tables.pools), owner.max() + 1), -np.inf)
    known = ~np.isnan(quality)
    given[pool[known], owner[known]] = quality[known]
    for row in np.flatnonzero(known & (given[pool, owner] != quality)).tolist():
        content = tables.contents[tables.items["content"].to_numpy()[row]]
        problem = f"content {content!r} of pool {tables.pools[pool[row]]!r} has different qualities"
        raise TableError(f"{location(tables.items_path, int(tables.item_lines[row]))}: {problem}")
    cut = -np.sort(-given, axis=1)[:, k - 1 : k]
    top = np.where(given >= cut, 1.0, 0.0)
    top[pool[~known]] = np.nan
    return top


def top_by_anchors(tables: Tables, owner: np.ndarray, k: int) -> np.ndarray:
    """The top k by anchors, where they define it.

    Anchors are chained: if a is better than b and b better than c, a is better than c. They define
    the top k of a pool if each of k contents is better than each of the others, and none the other
    way round; the order within the two sets does not matter.

    Args and returns: as `top_by_quality`; all NaN in pools where anchors do not define it.
    """
    top, size = _unknown(tables, owner)
    pool, better, worse = (tables.anchors[c].to_numpy() for c in ("pool", "better", "worse"))
    for p in np.unique(pool).tolist():
        in_pool, m = pool == p, int(size[p])
        reaches = np.zeros((m, m), bool)
        reaches[owner[better[in_pool]], owner[worse[in_pool]]] = True
        for _ in range(m.bit_length()):  # doubles the length of the chains
            reaches |= reaches @ reaches
        strict = reaches & ~reaches.T
        # A content of the set is above at least m - k others, one outside above fewer.
        inside = strict.sum(1) >= m - k
        if inside.sum() == k and strict[np.ix_(inside, ~inside)].all():
            top[p] = 0
            top[p, :m] = inside
    return top


def top_by_members(tables: Tables, owner: np.ndarray, k: int) -> np.ndarray:
    """The top k by labels of members, in pools where k contents are labelled yes, or all but k no.

    A content whose items are labelled both ways counts as unlabelled.

    Args and returns: as `top_by_quality`; all NaN in pools where labels do not define it.
    """
    top, size = _unknown(tables, owner)
    pool, item, member = (tables.members[c].to_numpy() for c in ("pool", "item", "member"))
    labelled = np.zeros((2, *top.shape), bool)
    labelled[member.astype(int), pool, owner[item]] = True
    outside, inside = labelled & ~labelled[::-1]
    for p in np.unique(pool).tolist():
        if inside[p].sum() == k:
            top[p] = inside[p]
        elif outside[p].sum() == size[p] - k:
            top[p] = (np.arange(top.shape[1]) < size[p]) & ~outside[p]
    return top


def _unknown(tables: Tables, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[pools, M] NaN, and [pools] number of contents."""
    size = pd.Series(owner).groupby(tables.items["pool"].to_numpy()).max().to_numpy() + 1
    return np.full((len(size), size.max()), np.nan), size
