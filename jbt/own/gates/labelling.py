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
from typing import Any

import numpy as np
import pandas as pd

from jbt.own.fits.batch import Batch
from jbt.own.gates.rankings import Rankings
from jbt.own.tables.sheets import TableError
from jbt.own.tables.tables import Tables
from jbt.simulation.simulate import check_seed
from jbt.types import Prior, check_count, check_word

KINDS = {
    "disputed": "disputed pairs",
    "swaps": "disputed pairs of swapped contents",
    "members": "members",
}
"""Kinds of labels, with their names."""


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
    most_used, labels that decide over all pools (for members a match of two of each pool; all if
    there is one pool), and most_in_pool, labels that decide in one pool."""
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

    Pairs come in a random order over all pools, so that for each judge the first of them are a
    random draw from all pairs that its rankings dispute. Members come a pool at a time, because a
    pool's members are matched with one another; there are at most 2 k for each pool and judge.

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
    check_word("labels", labels, tuple(KINDS))
    check_seed(seed)
    if n is not None:
        check_count("n", n)
    members, noun = labels == "members", KINDS[labels]
    rankings = Rankings.of(tables, batch, k, prior)
    ins, outs = rankings.swapped(seed)
    a, b = rankings.pairs()
    disputed = np.prod(rankings.orders(a, b), 0) < 0
    contents, differing = np.stack([a, b]), disputed
    if members:
        contents, differing = np.arange(len(rankings.pool))[None], ins | outs
    elif labels == "swaps":
        differing = disputed & ((ins[:, a] & outs[:, b]) | (outs[:, a] & ins[:, b]))
    candidates = differing.any(0)
    contents, differing = contents[:, candidates], differing[:, candidates]
    if not candidates.any():
        n_disputed, n_swapped = (int(v.any(0).sum()) for v in (disputed, ins | outs))
        raise ValueError(f"no {noun}: {_why_none(rankings, n_disputed, n_swapped, labels)}")
    if members:
        tables.check_members_of(k)
    if len(tables.listed) and tables.listed.shape[1] != len(contents):
        kinds = ("members", "pairs") if members else ("pairs", "members")
        wanted = "labels of {} are wanted, but the anchors are labels of {}"
        raise TableError(wanted.format(*kinds))

    def among(rows: np.ndarray) -> np.ndarray:
        """[labels] which are among those of these rows of the items [n, 1 or 2]."""
        return np.isin(rankings.key(contents), rankings.key(rankings.owner[rows.T]))

    listed = among(tables.listed)
    if listed.all():
        raise ValueError(f"all {len(listed)} {noun} are among the anchors already (--anchors)")
    pool = rankings.pool[contents[0]]
    turn = rankings.drawn(pool, seed, "order")[0]
    of_pool = rankings.drawn(np.arange(len(tables.pools)), seed, "pools")[0]
    order = np.lexsort((turn, of_pool[pool] * members))
    # Names are drawn for all labels, so that they do not depend on which are left out.
    table = _table(rankings, contents, differing, seed).iloc[order]
    asked = order[~listed[order]][:n]
    table = table.loc[asked].reset_index(drop=True)
    counting = among(
        (tables.members[["item"]] if members else tables.anchors[["better", "worse"]]).to_numpy()
    )
    counting[asked] = True
    sides = (ins[:, contents[0]], outs[:, contents[0]]) if members else (differing,)
    in_pools = np.min([rankings.by_pool(side & counting, pool) for side in sides], axis=0)
    every = not members or len(tables.pools) == 1
    judges = {
        "judge": tables.judges,
        "n_pools": (rankings.by_pool(differing, pool) > 0).sum(1),
        "n_labels": differing.sum(1),
        "n_listed": differing[:, listed].sum(1),
        "n_asked": differing[:, asked].sum(1),
        "most_used": (in_pools if every else np.minimum(in_pools, 1)).sum(1),
        "most_in_pool": in_pools.max(1),
    }
    return Labelling(table, pd.DataFrame(judges), len(listed), int(listed.sum()))


def _why_none(rankings: Rankings, n_disputed: int, n_swapped: int, labels: str) -> str:
    """Say why there are no labels of this kind, and which kinds have some."""
    if not np.isfinite(rankings.naive + rankings.aware).any():
        return "there are no rankings to compare, because no fit is usable (jbt fit says why)"
    others = []
    if labels != "disputed" and n_disputed:
        others.append(f"pairs ordered oppositely ({n_disputed}: --labels disputed)")
    if labels != "members" and n_swapped:
        others.append(f"contents in only one top {rankings.k} ({n_swapped}: --labels members)")
    if not others:
        return "naive and bias-aware order no pair oppositely, so no label favours one of them"
    why = f"naive and bias-aware have the same top {rankings.k} in every pool"
    if labels != "members" and n_swapped:
        why = "naive and bias-aware order none oppositely"
    return f"{why}; but there are {', and '.join(others)}"


def _table(
    rankings: Rankings, contents: np.ndarray, differing: np.ndarray, seed: int
) -> pd.DataFrame:
    """`Labelling.table` of all these labels."""
    tables, items = rankings.tables, rankings.tables.items
    pool = rankings.pool[contents[0]]
    # Assigned in a random order, so that any item of a content may stand for it.
    rows = np.argsort(items["item"].to_numpy(str), kind="stable")
    rows = rows[np.argsort(rankings.drawn(items["pool"].to_numpy()[rows], seed, "items")[0])]
    item = np.empty(len(rankings.pool), int)
    item[rankings.owner[rows]] = rows
    names = items["item"].to_numpy(object)[item[contents]]
    names = np.where(rankings.drawn(pool, seed, "sides")[0] < 0.5, names[::-1], names)
    table: dict[str, Any] = {"pool": np.asarray(tables.pools, object)[pool]}
    table |= dict(zip(["item"] if len(names) == 1 else ["first", "second"], names, strict=True))
    if len(tables.judges) > 1:
        judges = np.array([judge or "" for judge in tables.judges], object)
        table["judges"] = ["; ".join(judges[by_label]) for by_label in differing.T]
    last = {"k": rankings.k, "member": ""} if len(names) == 1 else {"better": ""}
    return pd.DataFrame(table).assign(**last)
