"""What trusted labels say of two rankings of each judge: which was right where they differ.

A label is used once at most. Of pairs, every discordant label is one outcome. Labels of members are
made pairs: a content that the bias-aware top k alone has, with one that the naive top k alone has,
at random or as they come, and none of them twice. Labels of a random draw of a pool's disputed
pairs, or of its disputed members, then tell as little in favour of a correction that does not help
as fair coins do, see `jbt.own.gates.decide`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.gates.rankings import Rankings, differ, seeded
from jbt.own.tables.anchors import TIE, repeated
from jbt.own.tables.tables import Tables


@dataclass(frozen=True, eq=False)
class Census:
    """Labels of the members on which the two top k differ; counts are [J, pools]."""

    n_disputed: np.ndarray
    """Contents in one top k and not in the other."""
    n_labelled: np.ndarray
    """Of these, labelled."""
    gain: np.ndarray
    """Labelled members in the bias-aware top alone less those in the naive top alone."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The labels beside the rankings."""

    table: pd.DataFrame
    """A row for each label on which the rankings of a judge differ, or pair of labels of members:
    judge, pool (numbers), at (place in the table of anchors), draw (a number: the label of a pool
    that has the least stands for it), turn (of the pool, a random number), right (1 where the
    bias-aware ranking has it as the label says, 0 where the naive has it, 1/2 for neither)."""
    n_labels: np.ndarray
    """[pools] labels given."""
    agreement: np.ndarray
    """[2, J] share of the labels that the naive and the bias-aware ranking have right, a tie being
    a half; of members, share of the labelled contents of each top k that are good. NaN without."""
    n_ties: np.ndarray
    """[J, pools] labels of pairs that one ranking ties and the other does not, and which do not
    count (`tie_breaks`)."""
    tie_breaks: bool
    """Whether they do."""
    census: Census | None
    """None of pairs."""

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """[J, pools] labels in favour of the bias-aware ranking, and of the naive."""
        return self._count(self.table, 1.0), self._count(self.table, 0.0)

    def one_a_pool(self) -> pd.DataFrame:
        """The table with one row of each judge and pool, the pools in a random order."""
        drawn = self.table.sort_values("draw", kind="stable").drop_duplicates(["judge", "pool"])
        return drawn.sort_values(["turn", "pool"], kind="stable")

    def _count(self, table: pd.DataFrame, right: float) -> np.ndarray:
        of = table[table["right"] == right]
        found = np.zeros((self.agreement.shape[1], len(self.n_labels)), int)
        np.add.at(found, (of["judge"].to_numpy(), of["pool"].to_numpy()), 1)
        return found


def outcomes(
    tables: Tables,
    rankings: Rankings,
    k: int,
    seed: int,
    *,
    tie_breaks: bool = False,
    in_order: bool = False,
) -> Outcomes:
    """Compare labels with rankings.

    Args:
      tables: with the anchors to be used; pools not merged.
      rankings: of the same tables, whatever their anchors.
      k: size of the tops, for labels of members (count of contents).
      seed: of every draw.
      tie_breaks: whether labels of pairs count, too, where one ranking ties the two and the other
        does not: in favour of the one that orders them as labelled, or against the one that orders
        them otherwise.
      in_order: whether members are matched, and a pool's one label chosen, in the order of the
        table instead of at random, so that what its first rows say stays as more come.

    Raises:
      ValueError: k out of range, for labels of members.
    """
    if tables.members.empty:
        found = _of_pairs(tables, rankings, seed, tie_breaks, in_order)
    else:
        found = _of_members(tables, rankings, k, seed, in_order)
    # Of the name and the seed alone: not of what is labelled, nor of the order of any table.
    turn = np.array([seeded(seed, "turn", name).random() for name in tables.pools])
    table = found.table.assign(turn=turn[found.table["pool"].to_numpy()])
    return dataclasses.replace(found, table=table)


def split(tables: Tables, share: float, seed: int) -> tuple[Tables, Tables]:
    """The same tables with some of the anchors each, at random: whole pools, as labels of one pool
    go together; single labels where there is one pool.

    Args:
      share: of the pools with labels, or of the labels, that the second has; between 0 and 1.

    Raises:
      ValueError: one label, of which there are no two parts.
    """
    name = "anchors" if tables.members.empty else "members"
    table = getattr(tables, name)
    pools = table["pool"].unique()
    unit = table["pool"].to_numpy() if len(pools) > 1 else np.arange(len(table))
    units = np.unique(unit)
    if len(units) < 2:
        raise ValueError(f"nothing can be held out of {len(units)} labels")
    n = min(max(round(share * len(units)), 1), len(units) - 1)
    held = np.isin(unit, seeded(seed, "held out").permutation(units)[:n])
    kept, out = (table[of].reset_index(drop=True) for of in (~held, held))
    return dataclasses.replace(tables, **{name: kept}), dataclasses.replace(tables, **{name: out})


def _of_pairs(
    tables: Tables, rankings: Rankings, seed: int, tie_breaks: bool, in_order: bool
) -> Outcomes:
    of = tables.anchors
    better, worse = (rankings.owner[of[side].to_numpy()] for side in ("better", "worse"))
    low, high = np.minimum(better, worse), np.maximum(better, worse)
    again, both = repeated(low * len(rankings.pool) + high, better)
    counts = ~again & ~both & (better != worse)
    pool, better, worse = of["pool"].to_numpy()[counts], better[counts], worse[counts]
    naive, aware = rankings.orders(better, worse)
    draw = np.arange(len(pool), dtype=float)
    for p in () if in_order else np.unique(pool).tolist():
        draw[pool == p] = seeded(seed, "pairs", tables.pools[p]).random((pool == p).sum())
    judge, at = np.nonzero(differ(naive, aware, tie_breaks))
    table = {
        "judge": judge,
        "pool": pool[at],
        "at": np.flatnonzero(counts)[at],
        "draw": draw[at],
        "right": np.where(aware[judge, at] > naive[judge, at], 1.0, 0.0),
    }
    compared = np.isfinite(naive + aware)
    agreement = np.stack([_mean((1 + of) / 2, compared) for of in (naive, aware)])
    n_labels = np.bincount(pool, minlength=len(tables.pools))
    broken = differ(naive, aware, True) & ~differ(naive, aware, tie_breaks)
    n_ties = np.stack([np.bincount(pool, of, len(tables.pools)) for of in broken]).astype(int)
    return Outcomes(pd.DataFrame(table), n_labels, agreement, n_ties, tie_breaks, None)


def _of_members(tables: Tables, rankings: Rankings, k: int, seed: int, in_order: bool) -> Outcomes:
    tops, (ins, outs) = rankings.tops(k, seed), rankings.swapped(k, seed)
    good, place = content_labels(tables, rankings)
    known = np.isfinite(good)
    n_pools, rows = len(tables.pools), []
    for p, members in enumerate(rankings.pools()):
        labelled = members[known[members]]
        for j in np.flatnonzero(ins[:, labelled].any(1) & outs[:, labelled].any(1)).tolist():
            rng = seeded(seed, "members", tables.pools[p])
            a, b = (rng.permutation(labelled[of[j, labelled]]) for of in (ins, outs))
            if in_order:
                a, b = (side[np.argsort(place[side])] for side in (a, b))
            for draw, (i, o) in enumerate(zip(a, b, strict=False)):
                right = TIE + (good[i] - good[o]) / 2
                rows.append((j, p, max(place[i], place[o]), draw, right))
    columns = ("judge", "pool", "at", "draw", "right")
    of = pd.DataFrame(np.array(rows, float).reshape(-1, len(columns)), columns=list(columns))
    table = of.astype({"judge": int, "pool": int, "at": int})

    def total(values: np.ndarray) -> np.ndarray:
        """[J, pools] of [J, E]."""
        return np.stack([np.bincount(rankings.pool, v, n_pools) for v in values]).astype(int)

    value = np.where(known, good, 0)
    census = Census(
        n_disputed=total(ins | outs),
        n_labelled=total((ins | outs) & known),
        gain=total(ins * value) - total(outs * value),
    )
    agreement = np.stack([_mean(np.broadcast_to(value, of.shape), of & known) for of in tops])
    n_labels = np.bincount(rankings.pool[known], minlength=n_pools)
    return Outcomes(table, n_labels, agreement, np.zeros_like(census.gain), False, census)


def content_labels(tables: Tables, rankings: Rankings) -> tuple[np.ndarray, np.ndarray]:
    """[E] whether each content is labelled a member, 1 or 0: NaN where it is not labelled, or its
    items are labelled both ways; and the place of its first label in their table."""
    of = rankings.owner[tables.members["item"].to_numpy()]
    member = tables.members["member"].to_numpy()
    said = np.zeros((2, len(rankings.pool)), bool)
    said[member.astype(int), of] = True
    place = np.zeros(len(rankings.pool), int)
    place[of[::-1]] = np.arange(len(of))[::-1]
    return np.where(said[0] ^ said[1], said[1], np.nan), place


def _mean(values: np.ndarray, some: np.ndarray) -> np.ndarray:
    """[J] over some of each row; NaN where there are none."""
    n = some.sum(1)
    return np.where(n > 0, np.where(some, values, 0).sum(1) / np.maximum(n, 1), np.nan)
