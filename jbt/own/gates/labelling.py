"""What to have labelled, so that a gate can decide: a table for annotators, in random order.

Only where the naive and the bias-aware ranking of some judge differ does a label tell them apart,
and where they do is known before any label is bought. The order is a random one, and so are which
of two is named first and which item stands for a content: nothing in the table says which ranking
has what. Of several judges' disputes together, the first labels are a random draw of each judge's
own, whoever else disputes them too. What has been asked already is left out of this order, which
stays the same otherwise: the next labels of the same draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.fits.batch import Batch
from jbt.own.gates.rankings import Rankings, seeded
from jbt.own.tables.places import count_within
from jbt.own.tables.reading import TableError
from jbt.own.tables.tables import Tables
from jbt.simulation.simulate import check_seed
from jbt.types import Prior, check_count, check_word

KINDS = ("disputed", "swaps", "members")


@dataclass(frozen=True, eq=False)
class Labelling:
    """What to have labelled."""

    table: pd.DataFrame
    """Of pairs: pool, first, second, better; of members: pool, item, member. The last is empty, to
    be filled in, and then this is a table of anchors. With several judges, judges: whose rankings
    differ there."""
    judges: pd.DataFrame
    """judge, n_pools and n_labels: in how many pools its rankings differ so, on how many pairs or
    contents; n_listed: how many of these the anchors list already; n_asked: how many are in
    `table`. With these and the anchors' answers, if each is discordant: most_used, how many decide
    over all pools at most (one of each, of members matches of two; in one pool alone all), and
    most_in_pool, how many in one pool."""
    n_labels: int
    """Pairs or contents on which the rankings of some judge differ."""
    n_listed: int
    """Of these, listed by the anchors."""

    def to_frame(self) -> pd.DataFrame:
        return self.table


def labelling(
    tables: Tables,
    batch: Batch,
    *,
    labels: str = "disputed",
    k: int = 1,
    n: int | None = None,
    tie_breaks: bool = False,
    prior: Prior | None = None,
    seed: int = 0,
) -> Labelling:
    """What to have labelled of these verdicts.

    Pairs come in passes over the pools, one of each pool a pass, as over pools one of each decides;
    members a pool at a time, as they tell most together. At most 2 k contents of a pool and judge.

    Args:
      tables: pools not merged. What their anchors list, answered or not, is left out.
      batch: of these tables, or of the same with their pools merged.
      labels: disputed: pairs of contents that the two rankings order oppositely; swaps: of these,
        one that the naive top k alone has and one that the bias-aware alone has; members: the
        contents that one top k alone has, each by itself.
      k: size of the top set (count of contents).
      n: labels wanted (count), or as many as there are; default all.
      tie_breaks: whether pairs that one ranking ties and the other does not are disputed.
      prior: default `Prior()`.
      seed: of every draw.

    Raises:
      TableError: the anchors are labels of another kind.
      ValueError: an argument out of range, no labels, or none that the anchors do not list.
    """
    check_word("labels", labels, KINDS)
    check_word("tie_breaks", tie_breaks, (True, False))
    check_seed(seed)
    if n is not None:
        check_count("n", n)
    rankings = Rankings.of(tables, batch, prior)
    ins, outs = rankings.swapped(k, seed)
    if labels == "members":
        what, differing = np.arange(len(rankings.pool))[None], ins | outs
    else:
        what = np.stack(rankings.pairs())
        a, b = what
        swapped = (ins[:, a] & outs[:, b]) | (outs[:, a] & ins[:, b])
        disputed = rankings.disputed(a, b, tie_breaks=tie_breaks)
        differing = swapped & disputed if labels == "swaps" else disputed
    there = differing.any(0)
    what, differing = what[:, there], differing[:, there]
    noun = {"disputed": "disputed pairs", "swaps": "disputed pairs of swapped contents"}.get(
        labels, labels
    )
    if not there.any():
        raise ValueError(f"no {noun}: {_why_none(rankings, ins | outs, labels, k, tie_breaks)}")
    listed = _among(what, tables.listed, rankings)
    if listed.all():
        raise ValueError(f"all {len(listed)} {noun} are among the anchors already (--anchors)")
    pool = rankings.pool[what[0]]
    order = _order(tables, pool, labels, seed)
    # Named in full before any is left out, so that the names do not hang on what is.
    table = _table(rankings, what[:, order], differing[:, order], seed)
    asked = np.flatnonzero(~listed[order])[:n]
    table = table.iloc[asked].reset_index(drop=True)
    known = tables.members[["item"]] if labels == "members" else tables.anchors[["better", "worse"]]
    counting = _among(what, known.to_numpy(), rankings)
    counting[order[asked]] = True
    sides = (ins[:, what[0]], outs[:, what[0]]) if labels == "members" else (differing,)
    in_pools = np.min([_by_pool(of & counting, pool, len(tables.pools)) for of in sides], axis=0)
    judges = {
        "judge": tables.judges,
        "n_pools": [len(np.unique(pool[of])) for of in differing],
        "n_labels": differing.sum(1),
        "n_listed": differing[:, listed].sum(1),
        "n_asked": differing[:, order[asked]].sum(1),
        "most_used": (in_pools > 0).sum(1) if len(tables.pools) > 1 else in_pools.sum(1),
        "most_in_pool": in_pools.max(1),
    }
    return Labelling(table, pd.DataFrame(judges), len(listed), int(listed.sum()))


def _why_none(
    rankings: Rankings, swapped: np.ndarray, labels: str, k: int, tie_breaks: bool
) -> str:
    """Why there are no labels of this kind, and of which there are some."""
    if not np.isfinite(rankings.naive + rankings.aware).any():
        return "there are no rankings to compare, as no fit is usable (jbt fit says why)"
    a, b = rankings.pairs()
    oppositely = int(rankings.disputed(a, b).any(0).sum())
    broken = int(rankings.disputed(a, b, tie_breaks=True).any(0).sum()) - oppositely
    others = []
    if labels != "disputed" and oppositely:
        others.append(f"pairs that they order oppositely ({oppositely}: --labels disputed)")
    if labels != "members" and swapped.any():
        n_swapped = swapped.any(0).sum()
        others.append(f"contents in one top {k} alone ({n_swapped}: --labels members)")
    if broken and not (tie_breaks and labels == "disputed"):
        counted = "--labels disputed --tie-breaks, and jbt gate --tie-breaks"
        others.append(f"pairs that only one of them orders ({broken}: {counted})")
    if not others:
        return "naive and bias-aware rank alike, no label tells them apart"
    why = f"naive and bias-aware have the same top {k} in every pool"
    if labels != "members" and (labels == "disputed" or swapped.any()):
        why = "naive and bias-aware order none oppositely"
    return f"{why}; but there are {', and '.join(others)}"


def _among(what: np.ndarray, rows: np.ndarray, rankings: Rankings) -> np.ndarray:
    """[labels] which of these contents, or pairs of contents, [1 or 2, labels] are those that rows
    of items [n, 1 or 2] show.

    Raises:
      TableError: pairs are to be found among members, or members among pairs.
    """
    if not len(rows):
        return np.zeros(what.shape[1], bool)
    if rows.shape[1] != len(what):
        kinds = "members", "pairs"
        wanted, found = kinds[len(what) - 1], kinds[rows.shape[1] - 1]
        raise TableError(f"labels are to be {wanted}, but the anchors are labels of {found}")
    shape = (len(rankings.pool),) * len(what)
    of, shown = (
        np.ravel_multi_index(tuple(np.sort(v, axis=0)), shape)
        for v in (what, rankings.owner[rows.T])
    )
    return np.isin(of, shown)


def _by_pool(which: np.ndarray, pool: np.ndarray, n_pools: int) -> np.ndarray:
    """[J, pools] how many of which [J, labels]."""
    return np.stack([np.bincount(pool[of], minlength=n_pools) for of in which])


def _order(tables: Tables, pool: np.ndarray, labels: str, seed: int) -> np.ndarray:
    """A random order of what may be labelled, [labels] of which the pools are given."""
    within = np.zeros(len(pool))
    for p in np.unique(pool).tolist():
        within[pool == p] = seeded(seed, "order", tables.pools[p]).random((pool == p).sum())
    shuffled = np.lexsort((within, pool))
    turn = np.empty(len(pool), int)
    turn[shuffled] = count_within(pool[shuffled])
    rng = seeded(seed, "pools")
    if labels == "members":
        return np.lexsort((turn, rng.permutation(len(tables.pools))[pool]))
    return np.lexsort((rng.random(len(pool)), turn))


def _table(rankings: Rankings, what: np.ndarray, differing: np.ndarray, seed: int) -> pd.DataFrame:
    tables, rng = rankings.tables, seeded(seed, "items")
    # Items in a random order, so that the first of a content is any of them.
    rows = rng.permutation(len(rankings.owner))
    item = np.empty(len(rankings.pool), int)
    item[rankings.owner[rows]] = rows
    names = tables.items["item"].to_numpy(object)[item[what]]
    sides = ["item"] if len(what) == 1 else ["first", "second"]
    names = rng.permuted(names, axis=0)
    table = {"pool": np.asarray(tables.pools, object)[rankings.pool[what[0]]]}
    table |= dict(zip(sides, names, strict=True))
    table = pd.DataFrame(table)
    if len(tables.judges) > 1:
        known = [judge or "" for judge in tables.judges]
        table["judges"] = [
            "; ".join(name for name, of in zip(known, d, strict=True) if of) for d in differing.T
        ]
    return table.assign(**{"member" if len(what) == 1 else "better": ""})
