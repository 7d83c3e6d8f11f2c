"""Compare trusted labels with the two rankings of each judge: which is right where they differ?

A label is used at most once. For pairs, every discordant label is one outcome. Labels of members
are matched into pairs: a content that only the bias-aware top k has, with one that only the naive
top k has, at random or in order. If the labels are a random draw of a pool's disputed pairs or
members, a correction that does not help wins no more of them than a fair coin would, see
`jbt.own.gates.decide`.
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
    """Labels of the members on which the two top k differ; all counts are [J, pools]."""

    n_disputed: np.ndarray
    """Contents in one top k and not in the other."""
    n_labelled: np.ndarray
    """Disputed contents that are labelled."""
    gain: np.ndarray
    """Labelled members in the bias-aware top alone minus those in the naive top alone."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Which ranking each discordant label favours."""

    discordant: pd.DataFrame
    """A row for each label on which the rankings of a judge differ, or matched pair of labels of
    members: judge, pool (numbers), at (row of the anchors), draw (number, random or by row: the
    label with the smallest one represents its pool in decisions over pools), turn (random number of
    the pool: over pools, labels come in this order), right (1 where the label agrees with the
    bias-aware ranking, 0 where it agrees with the naive one, 1/2 for neither)."""
    n_labels: np.ndarray
    """[pools] number of labels."""
    agreement: np.ndarray
    """[2, J] share of the labels that the naive and the bias-aware ranking have right, a tie being
    a half; for members, share of the labelled contents of each top k that are good. NaN without
    labels."""
    n_ties: np.ndarray
    """[J, pools] labels of pairs that only one ranking ties, left out unless `tie_breaks`."""
    tie_breaks: bool
    """Whether such labels count as discordant."""
    census: Census | None
    """None for labels of pairs."""

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """[J, pools] discordant labels that favour the bias-aware ranking, and the naive one."""
        return self._count(1.0), self._count(0.0)

    def one_a_pool(self) -> pd.DataFrame:
        """One discordant label for each judge and pool, the pools in a random order."""
        drawn = self.discordant.sort_values("draw", kind="stable")
        drawn = drawn.drop_duplicates(["judge", "pool"])
        return drawn.sort_values(["turn", "pool"], kind="stable")

    def _count(self, right: float) -> np.ndarray:
        labels = self.discordant[self.discordant["right"] == right]
        counts = np.zeros((self.agreement.shape[1], len(self.n_labels)), int)
        np.add.at(counts, (labels["judge"].to_numpy(), labels["pool"].to_numpy()), 1)
        return counts


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
      tables: tables with the anchors to use; pools not merged.
      rankings: rankings of the same tables; their anchors do not matter.
      k: size of the tops, for labels of members (count of contents).
      seed: seed of every draw.
      tie_breaks: whether labels of pairs also count where only one ranking ties the two: they
        favour the other ranking if it orders the pair as labelled, and else the ranking that ties.
      in_order: match members, and choose a pool's representative, in the order of the table instead
        of at random, so that more labels do not change what the first rows gave.

    Raises:
      ValueError: k out of range, for labels of members.
    """
    if tables.members.empty:
        compared = _of_pairs(tables, rankings, seed, tie_breaks, in_order)
    else:
        compared = _of_members(tables, rankings, k, seed, in_order)
    # Depends on name and seed only: neither on what is labelled nor on the order of any table.
    turn = np.array([seeded(seed, "turn", name).random() for name in tables.pools])
    discordant = compared.discordant
    discordant = discordant.assign(turn=turn[discordant["pool"].to_numpy()])
    return dataclasses.replace(compared, discordant=discordant)


def split(tables: Tables, share: float, seed: int) -> tuple[Tables, Tables]:
    """Split the anchors at random between two copies of the tables: by pool, because labels of one
    pool are not independent; by label where there is one pool.

    Args:
      share: share of the pools with labels, or of the labels, for the second copy; in (0, 1).

    Raises:
      ValueError: there is only one label or none.
    """
    name = "anchors" if tables.members.empty else "members"
    table = getattr(tables, name)
    pools = table["pool"].unique()
    # By name, so that the draw does not depend on the order of any rows.
    if len(pools) > 1:
        unit = table["pool"].to_numpy()
        units = np.array(sorted(pools, key=tables.pools.__getitem__))
    else:
        unit, items = np.arange(len(table)), tables.items["item"].to_numpy(str)
        sides = ["better", "worse"] if tables.members.empty else ["item"]
        units = np.lexsort([items[table[side]] for side in sides])
    if len(units) < 2:
        raise ValueError(f"nothing can be held out of {len(units)} labels")
    n = min(max(round(share * len(units)), 1), len(units) - 1)
    held = np.isin(unit, seeded(seed, "held out").permutation(units)[:n])
    parts = (table[rows].reset_index(drop=True) for rows in (~held, held))
    kept, out = (dataclasses.replace(tables, **{name: part}) for part in parts)
    return kept, out


def _of_pairs(
    tables: Tables, rankings: Rankings, seed: int, tie_breaks: bool, in_order: bool
) -> Outcomes:
    anchors = tables.anchors
    better, worse = (rankings.owner[anchors[side].to_numpy()] for side in ("better", "worse"))
    low, high = np.minimum(better, worse), np.maximum(better, worse)
    again, both = repeated(low * len(rankings.pool) + high, better)
    counts = ~again & ~both & (better != worse)
    pool, better, worse = anchors["pool"].to_numpy()[counts], better[counts], worse[counts]
    naive, aware = rankings.orders(better, worse)
    draw = np.arange(len(pool), dtype=float)
    by_name = np.lexsort((high[counts], low[counts]))
    for p in () if in_order else np.unique(pool).tolist():
        rows = by_name[pool[by_name] == p]
        draw[rows] = seeded(seed, "pairs", tables.pools[p]).random(len(rows))
    judge, at = np.nonzero(differ(naive, aware, tie_breaks))
    discordant = {
        "judge": judge,
        "pool": pool[at],
        "at": np.flatnonzero(counts)[at],
        "draw": draw[at],
        "right": np.where(aware[judge, at] > naive[judge, at], 1.0, 0.0),
    }
    compared = np.isfinite(naive + aware)
    agreement = np.stack([_mean((1 + order) / 2, compared) for order in (naive, aware)])
    n_labels = np.bincount(pool, minlength=len(tables.pools))
    broken = differ(naive, aware, True) & ~differ(naive, aware, tie_breaks)
    n_ties = np.stack([np.bincount(pool, ties, len(tables.pools)) for ties in broken]).astype(int)
    return Outcomes(pd.DataFrame(discordant), n_labels, agreement, n_ties, tie_breaks, None)


def _of_members(tables: Tables, rankings: Rankings, k: int, seed: int, in_order: bool) -> Outcomes:
    tops, (ins, outs) = rankings.tops(k, seed), rankings.swapped(k, seed)
    good, place = content_labels(tables, rankings)
    known = np.isfinite(good)
    n_pools, rows = len(tables.pools), []
    for p, members in enumerate(rankings.pools()):
        labelled = members[known[members]]
        for j in np.flatnonzero(ins[:, labelled].any(1) & outs[:, labelled].any(1)).tolist():
            rng = seeded(seed, "members", tables.pools[p])
            a, b = (rng.permutation(labelled[side[j, labelled]]) for side in (ins, outs))
            if in_order:
                a, b = (side[np.argsort(place[side])] for side in (a, b))
            for draw, (i, o) in enumerate(zip(a, b, strict=False)):
                right = TIE + (good[i] - good[o]) / 2
                rows.append((j, p, max(place[i], place[o]), draw, right))
    columns = ("judge", "pool", "at", "draw", "right")
    numbers = np.array(rows, float).reshape(-1, len(columns))
    discordant = pd.DataFrame(numbers, columns=list(columns)).astype(
        {"judge": int, "pool": int, "at": int}
    )

    def total(values: np.ndarray) -> np.ndarray:
        """[J, pools] sums of [J, E]."""
        return np.stack([np.bincount(rankings.pool, v, n_pools) for v in values]).astype(int)

    value = np.where(known, good, 0)
    census = Census(
        n_disputed=total(ins | outs),
        n_labelled=total((ins | outs) & known),
        gain=total(ins * value) - total(outs * value),
    )
    agreement = np.stack([_mean(np.broadcast_to(value, top.shape), top & known) for top in tops])
    n_labels = np.bincount(rankings.pool[known], minlength=n_pools)
    return Outcomes(discordant, n_labels, agreement, np.zeros_like(census.gain), False, census)


def content_labels(tables: Tables, rankings: Rankings) -> tuple[np.ndarray, np.ndarray]:
    """[E] whether each content is labelled a member, 1 or 0, or NaN if it is not labelled or its
    items are labelled both ways; and [E] the row of its first label."""
    owner = rankings.owner[tables.members["item"].to_numpy()]
    member = tables.members["member"].to_numpy()
    labelled = np.zeros((2, len(rankings.pool)), bool)
    labelled[member.astype(int), owner] = True
    place = np.zeros(len(rankings.pool), int)
    place[owner[::-1]] = np.arange(len(owner))[::-1]
    return np.where(labelled[0] ^ labelled[1], labelled[1], np.nan), place


def _mean(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """[J] mean over the counted entries of each row; NaN where there are none."""
    n = counted.sum(1)
    return np.where(n > 0, np.where(counted, values, 0).sum(1) / np.maximum(n, 1), np.nan)
