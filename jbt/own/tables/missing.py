"""Verdicts that are missing: errors, and ties where they are dropped.

A fit leaves them out, which biases no coefficient where a verdict is missing whatever it would have
been. `losses` tests a consequence of that; `fills` puts in what they may have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jbt.border.report import each
from jbt.own.tables.lengths import larger, smaller
from jbt.own.tables.tables import Tables, repeats

FEWEST = 10
"""Pools with a missing verdict below which nothing is tested."""


def losses(tables: Tables, x: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    """Test whether missing verdicts depend on how much two items differ in a covariate, or on
    whether the one with more of it is shown first.

    A rank-sum test with the pools of the file as clusters, so that verdicts of a pool may depend on
    each other (Rosner, Glynn & Lee 2003): the score of each pool is the sum, over its verdicts, of
    the product of missing and of the rank of the difference (or its sign, in the order shown), both
    about their means over the judge. Their sum over its standard error is compared with Student's t
    (Ibragimov & Müller 2010), with a degree of freedom for each further pool with a missing
    verdict.

    A loss that depends on the verdict, but neither on the difference nor on the order, is not
    found. Nor is every loss that is found harmful: one that depends on the difference alone, not on
    the verdict, biases no coefficient.

    Args:
      x: [rows of items, D] covariates.
      names: [D]

    Returns:
      Two rows for each covariate: covariate, of (`difference` or `order`), p, and the shares of
      verdicts that are missing: more (where the difference exceeds its median, or reaches it if
      none does; where the item with more of it is shown first) and less (elsewhere; where it is
      shown second). No row with fewer than `FEWEST` pools with a missing verdict.
    """
    kinds = (tables.verdicts, tables.lost)
    rows = pd.concat(kinds, keys=[0.0, 1.0], names=["missing"]).reset_index("missing")
    n_pools = rows.loc[rows["missing"] > 0, "source"].nunique()
    columns = pd.Index(["covariate", "of", "p", "more", "less"])
    if n_pools < FEWEST:
        return pd.DataFrame(columns=columns)
    first, second = (rows[side].to_numpy() for side in ("first", "second"))
    missing, weight = rows["missing"].to_numpy(), rows["count"].to_numpy(float)
    judge, tests = rows["judge"].to_numpy(), []

    def about_the_mean(values: np.ndarray) -> np.ndarray:
        n, total = np.bincount(judge, weight), np.bincount(judge, weight * values)
        return values - (total / np.maximum(n, 1))[judge]

    def share(chosen: np.ndarray) -> float:
        return (
            float(np.average(missing[chosen], weights=weight[chosen])) if chosen.any() else np.nan
        )

    for name, apart in zip(names, (x[first] - x[second]).T, strict=True):
        rank = pd.Series(np.abs(apart).round(12)).rank().to_numpy()
        order = np.sign(apart) * rows["shown"].to_numpy()
        upper = rank > np.median(rank)
        upper = upper if upper.any() else rank >= np.median(rank)
        halves = upper, ~upper
        for of, score, more, less in (
            ("difference", rank, *halves),
            ("order", order, order > 0, order < 0),
        ):
            product = weight * about_the_mean(missing) * about_the_mean(score)
            p = _p(np.bincount(rows["source"], product), n_pools - 1)
            tests.append((name, of, p, share(more), share(less)))
    return pd.DataFrame(tests, columns=columns)


def _p(scores: np.ndarray, degrees: int) -> float:
    """Two-sided p of independent scores whose mean is 0; 1 where none is other than 0."""
    from scipy.special import stdtr

    error = np.sqrt((scores**2).sum())
    return float(2 * stdtr(degrees, -abs(scores.sum()) / error)) if error > 0 else 1.0


def fills(tables: Tables, covariates: Sequence[str]) -> Iterator[tuple[int, bool, Tables]]:
    """The tables with every missing verdict won by the item with more of a covariate, and with all
    won by the other one. A verdict on two items with equally much stays missing.

    Args:
      covariates: columns of the items; a transformation that keeps their order changes nothing.

    Yields:
      The number of the covariate, whether the item with more of it wins, and the tables.
    """
    first, second = (tables.lost[side].to_numpy() for side in ("first", "second"))
    for d, name in enumerate(covariates):
        values = tables.items[name].to_numpy(float)
        side = np.sign(values[first] - values[second])
        for wins in (True, False):
            yield d, wins, tables.filled((1 + (side if wins else -side)) / 2)


def number_of(tables: Tables, judge: int) -> int:
    """Missing verdicts of a judge (count)."""
    return int(repeats(tables.lost["count"])[tables.lost["judge"] == judge].sum())


def in_words(n_missing: int, ends: pd.DataFrame, ranked: str) -> Iterator[str]:
    """What the missing verdicts could change, a sentence for each covariate.

    Args:
      ends: two rows for each covariate whose c is identified: covariate (with its transformation),
        wins (whether the item with more of it won every missing verdict), shown (c in words),
        n_changed.
      ranked: what n_changed is of, such as "of 6 ranks".
    """
    if ends.empty:
        yield f"no bounds for the missing verdicts ({n_missing}): c is not identified"
    for name, rows in ends.groupby("covariate", sort=False):
        parts = [_end(str(name), row, ranked) for row in each(rows)]
        yield (
            f"c[{name}], if the missing verdicts ({n_missing}) had all been won by "
            f"{', by '.join(parts)}; these are bounds for a loss that depends on {name}, not an "
            "interval"
        )


def _end(name: str, row: Any, ranked: str) -> str:
    side = larger(name) if row.wins else smaller(name)
    return f"{side}: {row.shown}, which changes {row.n_changed} {ranked}"
