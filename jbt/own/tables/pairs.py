"""Verdicts pair by pair: the one table from which agreement, flips and report cards count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jbt import stats
from jbt.own.tables.tables import Tables

PAIR = ["low", "high"]
"""A pair of items, as rows of `Tables.items`, in one order whoever was shown first."""


def pairs(tables: Tables) -> pd.DataFrame:
    """The verdicts of each judge on each pair in each order.

    Returns:
      A row for each judge, pair (low, high), low_first (whether `low` was shown first), shown
      (whether the order is known), source (pool of the file) and pool (which may be merged): their
      count, and as means over them share, what low won of them, won, the same with graded verdicts
      for the side that they favour, and ties.
    """
    verdicts = tables.verdicts
    sides = np.sort(verdicts[["first", "second"]], axis=1)
    low_first = (verdicts["first"] < verdicts["second"]).to_numpy()
    share = np.where(low_first, verdicts["p_first"], 1 - verdicts["p_first"])
    won = (np.sign(share - 0.5) + 1) / 2
    means = pd.DataFrame({"share": share, "won": won, "ties": won == 0.5}, verdicts.index)
    rows = verdicts[["judge", "shown", "source", "pool", "count"]].join(
        means.mul(verdicts["count"], axis=0)
    )
    rows = rows.assign(low=sides[:, 0], high=sides[:, 1], low_first=low_first)
    keys = ["judge", *PAIR, "low_first", "shown", "source", "pool"]
    table = rows.groupby(keys, as_index=False, sort=False).sum()
    for name in means:
        table[name] /= table["count"]
    return table


def both_orders(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of `pairs` in which a judge was shown both orders, side by side: columns that end in
    `_first` where `low` came first, in `_second` where it came second."""
    shown = table[table["shown"]]
    keys = ["judge", "pool", "source", *PAIR]
    first, second = shown[shown["low_first"]], shown[~shown["low_first"]]
    return first.merge(second, on=keys, suffixes=("_first", "_second"))


def trusted_pairs(tables: Tables) -> pd.Series:
    """Whether `low` is the better item (1 or 0) of each labelled pair, by low and high."""
    labels = tables.anchors[["better", "worse"]].to_numpy()
    index = pd.MultiIndex.from_arrays(list(np.sort(labels, axis=1).T), names=PAIR)
    return pd.Series((labels[:, 0] < labels[:, 1]).astype(float), index, name="low_better")


def flips(tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    """How often each judge contradicts itself when two items are shown in the other order.

    Returns:
      n_pairs: [fits] pairs of items that were shown in both orders, numbered as in `Batch.pools`.
      n_flips: [fits] contradictions, summed over these pairs: the difference between the shares
        that an item won shown first and shown second. 1 where the other item won, a half where one
        verdict is a tie, 0 where both agree; repeats count by their mean.
    """
    both = both_orders(pairs(tables))
    fit = both["pool"] * len(tables.judges) + both["judge"]
    apart = (both["share_first"] - both["share_second"]).abs()
    n_fits = len(tables.pools) * len(tables.judges)
    return np.bincount(fit, minlength=n_fits), np.bincount(fit, apart, n_fits)


@dataclass(frozen=True)
class Agreement:
    """How often a judge prefers the item that the trusted verdicts prefer."""

    share: float
    """Share of these pairs; a tie of the judge is half an agreement."""
    n_pairs: int
    """Pairs that both have judged and that the trusted verdicts do not tie (count)."""

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval of the share lies above a half."""
        return stats.count_interval(round(self.share * self.n_pairs), self.n_pairs)[1] > 0.5


def agreement(tables: Tables, trusted: np.ndarray) -> dict[str, Agreement]:
    """The agreement with the trusted judges [J] of each other judge that shares a pair with them,
    by its name. All verdicts on a pair are summed, in both orders."""
    table = pairs(tables)
    judge = table["judge"].mask(trusted[table["judge"]], -1)
    lead = ((table["share"] - 0.5) * table["count"]).groupby([judge, table["low"], table["high"]])
    signs = np.sign(lead.sum().round(12)).unstack("judge")
    if -1 not in signs:
        return {}
    preferred = signs.pop(-1)
    same = (1 + signs.mul(preferred[preferred != 0], axis=0)) / 2
    return {
        str(tables.judges[g]): Agreement(float(column.mean()), int(column.count()))
        for g, column in same.items()
        if column.count()
    }


def agreement_in_words(agreements: Mapping[str, Agreement]) -> list[str]:
    """Describe the agreements beside a joint fit in which every judge's discrimination is 1."""
    if not agreements:
        return []
    shares = [f"{judge} on {a.share:.0%} of {a.n_pairs}" for judge, a in agreements.items()]
    return [
        f"agreement with the trusted verdicts, on the pairs that these decide: {', '.join(shares)}",
        "every judge is assumed to be equally sensitive to quality (discrimination 1); a less "
        "sensitive judge pulls theta towards 0, and its c appears to oppose what the trusted "
        "verdicts favour (jbt fit --joint estimates the discrimination)",
        *nobody_agrees(agreements),
    ]


def nobody_agrees(agreements: Mapping[Any, Agreement]) -> Iterator[str]:
    """Warn where no judge clearly agrees with the trusted verdicts."""
    if agreements and not any(a.clear for a in agreements.values()):
        yield (
            "warning: no judge agrees with the trusted verdicts clearly more often than a coin "
            "would; if these say nothing about quality, every joint number is wrong"
        )
