"""Choose the labels from which a gate can decide: a table for annotators, in random order.

A label favours one ranking only where the naive and the bias-aware ranking of some judge differ,
and these places are known before any label is bought. The order of the rows, which of two items is
named first and which item stands for a content are random, so the table does not show what a
ranking says. For each judge, the first of its labels are a random draw of those on which its
rankings differ, whichever other judges share them. Rows asked before are left out and the order of
the others stays the same, so these are the next labels of the same draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.fits.batch import Batch
from jbt.own.gates.rankings import Rankings, seeded
from jbt.own.tables.places import count_within
from jbt.own.tables.sheets import TableError
from jbt.own.tables.tables import Tables
from jbt.simulation.simulate import check_seed
from jbt.types import Prior, check_count, check_word

KINDS = ("disputed", "swaps", "members")


@dataclass(frozen=True, eq=False)
class Labelling:
    """The labels to ask for."""

    table: pd.DataFrame
    """For pairs the columns pool, first, second, better; for members pool, item, k, member. The
    last is empty; filled in, this is a table of anchors. With several judges, the column judges
    names those whose rankings differ there."""
    judges: pd.DataFrame
    """judge; n_pools, n_labels: pools, and pairs or contents, on which its rankings differ;
    n_listed: how many of the labels the anchors list already; n_asked: how many are in `table`.
    Upper bounds, reached if all labels in `table` and the anchors' answers are discordant:
    most_used, labels that decide over all pools (one of each pool, for members a match of two; all
    if there is one pool), and most_in_pool, labels that decide in one pool."""
    n_labels: int
    """Pairs or contents on which the rankings of some judge differ (count)."""
    n_listed: int
    """How many of them the anchors list."""


def labelling(
    tables: Tables,
    batch: Batch,
    *,
    labels: str = "disputed",
    k: int = 1,
    n: int | None = None,
    prior: Prior | None = None,
    seed: int = 0,
) -> Labelling:
    """Choose the labels to ask for.

    Pairs come in passes over the pools, one pair of each pool in a pass, because the decision over
    pools uses one pair of each. Members come a pool at a time, because a pool's members are
    matched with one another; there are at most 2 k for each pool and judge.

    Args:
      tables: tables with pools not merged. What their anchors list, answered or not, is left out.
      batch: batch of these tables, or of the same with their pools merged.
      labels: disputed: pairs of contents that the two rankings order oppositely; swaps: disputed
        pairs of a content only in the naive top k and one only in the bias-aware top k; members:
        single contents that are in only one top k.
      k: size of the top set (count of contents).
      n: labels wanted (count), or as many as there are; default all.
      prior: default `Prior()`.
      seed: root of every draw.

    Raises:
      TableError: the anchors are labels of another kind.
      ValueError: an argument out of range, no labels, or none that the anchors do not list.
    """
    check_word("labels", labels, KINDS)
    check_seed(seed)
    if n is not None:
        check_count("n", n)
    rankings = Rankings.of(tables, batch, prior)
    ins, outs = rankings.swapped(k, seed)
    if labels == "members":
        contents, differing = np.arange(len(rankings.pool))[None], ins | outs
    else:
        contents = rankings.pairs()
        a, b = contents
        naive, aware = rankings.orders(a, b)
        differing = naive * aware < 0
        if labels == "swaps":
            differing &= (ins[:, a] & outs[:, b]) | (outs[:, a] & ins[:, b])
    candidates = differing.any(0)
    contents, differing = contents[:, candidates], differing[:, candidates]
    noun = {"disputed": "disputed pairs", "swaps": "disputed pairs of swapped contents"}.get(
        labels, labels
    )
    if not candidates.any():
        raise ValueError(f"no {noun}: {_why_none(rankings, ins | outs, labels, k)}")
    if labels == "members":
        tables.check_members_of(k)
    listed = _among(contents, tables.listed, rankings)
    if listed.all():
        raise ValueError(f"all {len(listed)} {noun} are among the anchors already (--anchors)")
    pool = rankings.pool[contents[0]]
    order = _order(tables, pool, labels, seed)
    turned = _by_seed(tables, pool, seed, "sides")[0] < 0.5
    # Names are drawn for all labels, so that they do not depend on which are left out.
    table = _table(rankings, contents[:, order], differing[:, order], turned[order], k, seed)
    asked = np.flatnonzero(~listed[order])[:n]
    table = table.iloc[asked].reset_index(drop=True)
    known = tables.members[["item"]] if labels == "members" else tables.anchors[["better", "worse"]]
    counting = _among(contents, known.to_numpy(), rankings)
    counting[order[asked]] = True
    sides = (differing,)
    if labels == "members":
        sides = ins[:, contents[0]], outs[:, contents[0]]
    in_pools = np.min([rankings.by_pool(side & counting, pool) for side in sides], axis=0)
    judges = {
        "judge": tables.judges,
        "n_pools": (rankings.by_pool(differing, pool) > 0).sum(1),
        "n_labels": differing.sum(1),
        "n_listed": differing[:, listed].sum(1),
        "n_asked": differing[:, order[asked]].sum(1),
        "most_used": (in_pools > 0).sum(1) if len(tables.pools) > 1 else in_pools.sum(1),
        "most_in_pool": in_pools.max(1),
    }
    return Labelling(table, pd.DataFrame(judges), len(listed), int(listed.sum()))


def _why_none(rankings: Rankings, swapped: np.ndarray, labels: str, k: int) -> str:
    """Say why there are no labels of this kind, and which kinds have some."""
    if not np.isfinite(rankings.naive + rankings.aware).any():
        return "there are no rankings to compare, because no fit is usable (jbt fit says why)"
    naive, aware = rankings.orders(*rankings.pairs())
    n_oppositely, n_swapped = (naive * aware < 0).any(0).sum(), swapped.any(0).sum()
    others = []
    if labels != "disputed" and n_oppositely:
        others.append(f"pairs ordered oppositely ({n_oppositely}: --labels disputed)")
    if labels != "members" and n_swapped:
        others.append(f"contents in only one top {k} ({n_swapped}: --labels members)")
    if not others:
        return "naive and bias-aware order no pair oppositely, so no label favours one of them"
    why = f"naive and bias-aware have the same top {k} in every pool"
    if labels != "members" and n_swapped:
        why = "naive and bias-aware order none oppositely"
    return f"{why}; but there are {', and '.join(others)}"


def _among(contents: np.ndarray, rows: np.ndarray, rankings: Rankings) -> np.ndarray:
    """[labels] whether each content or pair of contents [1 or 2, labels] is among those of the
    items in `rows` [n, 1 or 2].

    Raises:
      TableError: one is of pairs and the other of members.
    """
    if not len(rows):
        return np.zeros(contents.shape[1], bool)
    if rows.shape[1] != len(contents):
        kinds = "members", "pairs"
        wanted, listed = kinds[len(contents) - 1], kinds[rows.shape[1] - 1]
        raise TableError(f"labels of {wanted} are wanted, but the anchors are labels of {listed}")
    shape = (len(rankings.pool),) * len(contents)
    candidates, shown = (
        np.ravel_multi_index(tuple(np.sort(v, axis=0)), shape)
        for v in (contents, rankings.owner[rows.T])
    )
    return np.isin(candidates, shown)


def _order(tables: Tables, pool: np.ndarray, labels: str, seed: int) -> np.ndarray:
    """Draw an order of the labels, given the pool of each [labels]."""
    within, among = _by_seed(tables, pool, seed, "order")
    shuffled = np.lexsort((within, pool))
    turn = np.empty(len(pool), int)
    turn[shuffled] = count_within(pool[shuffled])
    if labels == "members":
        of_pool = np.array([seeded(seed, "pools", name).random() for name in tables.pools])
        return np.lexsort((turn, of_pool[pool]))
    return np.lexsort((among, turn))


def _by_seed(tables: Tables, pool: np.ndarray, seed: int, what: str) -> np.ndarray:
    """[2, n] numbers in [0, 1), drawn for each pool by its name; `pool` [n]."""
    drawn = np.zeros((2, len(pool)))
    for p in np.unique(pool).tolist():
        rows = np.flatnonzero(pool == p)
        drawn[:, rows] = seeded(seed, what, tables.pools[p]).random((2, len(rows)))
    return drawn


def _table(
    rankings: Rankings,
    contents: np.ndarray,
    differing: np.ndarray,
    turned: np.ndarray,
    k: int,
    seed: int,
) -> pd.DataFrame:
    tables, items = rankings.tables, rankings.tables.items
    # Assigned in a random order, so that any item of a content may stand for it.
    rows = np.argsort(items["item"].to_numpy(str), kind="stable")
    rows = rows[np.argsort(_by_seed(tables, items["pool"].to_numpy()[rows], seed, "items")[0])]
    item = np.empty(len(rankings.pool), int)
    item[rankings.owner[rows]] = rows
    names = tables.items["item"].to_numpy(object)[item[contents]]
    names = np.where(turned, names[::-1], names)
    sides = ["item"] if len(contents) == 1 else ["first", "second"]
    table = {"pool": np.asarray(tables.pools, object)[rankings.pool[contents[0]]]}
    table |= dict(zip(sides, names, strict=True))
    table = pd.DataFrame(table)
    if len(tables.judges) > 1:
        judges = np.array([judge or "" for judge in tables.judges], object)
        table["judges"] = ["; ".join(judges[by_label]) for by_label in differing.T]
    return table.assign(**({"k": k, "member": ""} if len(contents) == 1 else {"better": ""}))
