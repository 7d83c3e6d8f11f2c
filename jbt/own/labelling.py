"""What to have labelled, so that a gate can decide: a table for annotators, in random order.

Only where the naive and the bias-aware ranking of some judge differ does a label tell them apart,
and where they do is known before any label is bought. The order is a random one, and so are which
of two is named first and which item stands for a content: nothing in the table says which ranking
has what. Of several judges' disputes together, the first labels are a random draw of each judge's
own, whoever else disputes them too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.batch import Batch
from jbt.own.layout import count_within
from jbt.own.rankings import Rankings, seeded
from jbt.own.tables import Tables
from jbt.simulate import check_seed
from jbt.types import Prior, check_count

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
    contents; n_asked: how many of these are in `table`."""
    n_labels: int
    """Pairs or contents on which the rankings of some judge differ."""


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
      tables: pools not merged.
      batch: of these tables, or of the same with their pools merged.
      labels: disputed: pairs of contents that the two rankings order oppositely; swaps: of these,
        one that the naive top k alone has and one that the bias-aware alone has; members: the
        contents that one top k alone has, each by itself.
      k: size of the top set (count of contents).
      n: labels wanted (count); default all there are.
      tie_breaks: whether pairs that one ranking ties and the other does not are disputed.
      prior: default `Prior()`.
      seed: of every draw.

    Raises:
      ValueError: an argument out of range, more labels than there are, none at all.
    """
    if labels not in KINDS:
        raise ValueError(f"labels must be one of {', '.join(KINDS)}, got {labels!r}")
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
        raise ValueError(f"no {noun}: naive and bias-aware rank alike, no label tells them apart")
    if n is not None and n > there.sum():
        raise ValueError(f"n is {n}, but there are {there.sum()} {noun}")
    pool = rankings.pool[what[0]]
    order = _order(tables, pool, labels, seed)[:n]
    judges = {
        "judge": tables.judges,
        "n_pools": [len(np.unique(pool[of])) for of in differing],
        "n_labels": differing.sum(1),
        "n_asked": differing[:, order].sum(1),
    }
    table = _table(rankings, what[:, order], differing[:, order], seed)
    return Labelling(table, pd.DataFrame(judges), int(there.sum()))


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
