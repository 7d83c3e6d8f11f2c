"""A judge's report card: how often it is right, agrees with others and with itself, and what it
prefers, counted from the verdicts without any model.

The unit is a pair of items: all verdicts of a judge on a pair count as one, by their mean. A graded
verdict counts for the item that it favours, a tie for half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from jbt import stats
from jbt.own.report_cards.measures import ALL_OTHERS, Measure, ReportCard, What
from jbt.own.report_cards.report import ReportCards
from jbt.own.tables.tables import Tables, check_names

MOST_OTHERS = 5
"""Most other judges with whom the agreement is given one by one."""

PAIR = ["low", "high"]


def report_card(tables: Tables, covariates: Sequence[str] = ()) -> ReportCards:
    """Count each judge's report card.

    Args:
      tables: from `read`.
      covariates: columns of `tables.items` that may bias the judges, as they are in the table.

    Returns:
      A card for each judge, in the order of `tables.judges`.

    Raises:
      ValueError: a covariate that was not read.
    """
    check_names(covariates)
    for name in covariates:
        if name not in tables.items:
            raise ValueError(f"no covariate {name!r} was read: read the tables with it")
    pairs = _pairs(tables)
    both_orders = pairs.groupby(["judge", *PAIR])["won"].mean().reset_index()
    cards = [
        ReportCard(name, list(_measures(tables, pairs, both_orders, judge, covariates)))
        for judge, name in enumerate(tables.judges)
    ]
    return ReportCards(cards)


def _pairs(tables: Tables) -> pd.DataFrame:
    """A row for each judge, pair and order: judge, low, high (rows of `items`), low_first, shown,
    pool (of the file), count, and won, the mean share that the item `low` won."""
    verdicts = tables.verdicts
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    low_first, count = first < second, verdicts["count"].to_numpy()
    favoured = (np.sign(verdicts["p_first"].to_numpy() - 0.5) + 1) / 2
    rows = pd.DataFrame(
        {
            "judge": verdicts["judge"],
            "low": np.minimum(first, second),
            "high": np.maximum(first, second),
            "low_first": low_first,
            "shown": verdicts["shown"],
            "pool": verdicts["source"],
            "count": count,
            "won": np.where(low_first, favoured, 1 - favoured) * count,
            "ties": (favoured == 0.5) * count,
        }
    )
    keys = ["judge", *PAIR, "low_first", "shown", "pool"]
    pairs = rows.groupby(keys, as_index=False, sort=False).sum()
    return pairs.assign(won=pairs["won"] / pairs["count"], ties=pairs["ties"] / pairs["count"])


def _measures(
    tables: Tables,
    pairs: pd.DataFrame,
    both_orders: pd.DataFrame,
    judge: int,
    covariates: Sequence[str],
) -> Iterator[Measure]:
    """One judge's measures; `both_orders`: judge, low, high, and won, the mean over orders."""
    mine = pairs[pairs["judge"] == judge]
    each = _each_pair(mine)
    both = _both_orders(mine)
    gold = _gold(tables)
    labelled = each.join(gold, on=PAIR, how="inner")
    right = _agrees(labelled["won"], labelled["low_better"])
    yield from _measure("accuracy", None, labelled, right, 0.5)
    twice = both.join(gold, on=PAIR, how="inner")
    right_twice = np.minimum(
        _agrees(twice["won_first"], twice["low_better"]),
        _agrees(twice["won_second"], twice["low_better"]),
    )
    ties = float(twice["ties"].mean()) if len(twice) else 0.0
    coin = ((1 - ties) / 2) ** 2
    yield from _measure("accuracy_both_orders", None, twice, right_twice == 1, coin)
    for name in covariates:
        larger = _larger(tables, labelled, name)
        gold_larger = _agrees(labelled["low_better"], larger)
        yield from _measure("accuracy_if_larger", name, labelled[gold_larger == 1], right, 0.5)
        yield from _measure("accuracy_if_smaller", name, labelled[gold_larger == 0], right, 0.5)
    same = 1 - (both["won_first"] - both["won_second"]).abs()
    tie = float(both["ties"].mean()) if len(both) else 0.0
    yield from _measure("consistency", None, both, same, (1 + tie**2) / 2)
    yield from _agreement(tables, both_orders, each, judge)
    shown = mine[mine["shown"]]
    first = shown.assign(first=np.where(shown["low_first"], shown["won"], 1 - shown["won"]))
    if len(both):  # only these are not confounded with which item was shown first
        first = first.merge(both[PAIR], on=PAIR)
    by_pair = first.groupby([*PAIR, "pool"])["first"].mean().reset_index()
    yield from _measure("first_won", None, by_pair, by_pair["first"], 0.5)
    for name in covariates:
        larger = _larger(tables, each, name)
        kept = each[larger != 0.5]
        yield from _measure("larger_won", name, kept, _agrees(each["won"], larger), 0.5)
        gold_larger = _agrees(labelled["low_better"], _larger(tables, labelled, name))
        kept = labelled[gold_larger != 0.5]
        yield from _measure("gold_larger", name, kept, gold_larger, 0.5)
    yield from _of_verdicts(tables, judge)


def _measure(
    what: What, of: str | None, pairs: pd.DataFrame, values: pd.Series, coin: float
) -> Iterator[Measure]:
    """The mean of a value over pairs, if there are any; values of other rows are ignored."""
    if pairs.empty:
        return
    value = values.loc[pairs.index].astype(float)
    by_pool = value.groupby(pairs["pool"].to_numpy())
    interval = stats.clustered_share(by_pool.sum().to_numpy(), by_pool.size().to_numpy(float))
    yield Measure(what, of, *interval, coin, len(value), by_pool.ngroups)


def _of_verdicts(tables: Tables, judge: int) -> Iterator[Measure]:
    counts = tables.counts[tables.counts["judge"] == judge]
    n, ties, errors = (counts[f"n_{name}"].to_numpy() for name in ("verdicts", "ties", "errors"))
    if not (tables.verdicts["p_first"] == 0.5).any():
        n = n + ties  # they were dropped
    kinds: tuple[tuple[What, np.ndarray, np.ndarray], ...]
    kinds = ("ties", ties, n), ("errors", errors, n + errors)
    for what, count, total in kinds:
        if count.sum():
            share, n_pools = float(count.sum() / total.sum()), int((total > 0).sum())
            nan = np.nan
            yield Measure(what, None, share, nan, nan, nan, int(total.sum()), n_pools)


def _each_pair(mine: pd.DataFrame) -> pd.DataFrame:
    """A row for each pair: low, high, pool, won (mean over orders)."""
    return mine.groupby([*PAIR, "pool"])["won"].mean().reset_index()


def _both_orders(mine: pd.DataFrame) -> pd.DataFrame:
    """A row for each pair shown in both orders: low, high, pool, won_first and won_second (by
    `low`, shown first and second) and ties (mean)."""
    shown = mine[mine["shown"]]
    first, second = shown[shown["low_first"]], shown[~shown["low_first"]]
    both = first.merge(second, on=[*PAIR, "pool"], suffixes=("_first", "_second"))
    return both.assign(ties=(both["ties_first"] + both["ties_second"]) / 2)


def _gold(tables: Tables) -> pd.Series:
    """Whether the item `low` is the better one (1 or 0), by pair."""
    better, worse = tables.anchors["better"].to_numpy(), tables.anchors["worse"].to_numpy()
    index = pd.MultiIndex.from_arrays(
        [np.minimum(better, worse), np.maximum(better, worse)], names=PAIR
    )
    return pd.Series((better < worse).astype(float), index=index, name="low_better")


def _larger(tables: Tables, pairs: pd.DataFrame, name: str) -> pd.Series:
    """1 where the item `low` has the larger covariate, 0 where the smaller, else a half."""
    x = tables.items[name].to_numpy(float)
    sign = np.sign(x[pairs["low"].to_numpy()] - x[pairs["high"].to_numpy()])
    return pd.Series((sign + 1) / 2, index=pairs.index)


def _agrees(a: pd.Series, b: pd.Series) -> pd.Series:
    """The expected agreement of two shares: 1 for the same side, 0 for opposite, else between."""
    return a * b + (1 - a) * (1 - b)


def _agreement(
    tables: Tables, both_orders: pd.DataFrame, each: pd.DataFrame, judge: int
) -> Iterator[Measure]:
    theirs = both_orders[both_orders["judge"] != judge]
    both = each.merge(theirs, on=PAIR, suffixes=("", "_other"))
    both = both[(both["won"] != 0.5) & (both["won_other"] != 0.5)].reset_index(drop=True)
    same = ((both["won"] > 0.5) == (both["won_other"] > 0.5)).astype(float)
    if len(tables.judges) > 2:
        yield from _measure("agreement", ALL_OTHERS, both, same, 0.5)
    if len(tables.judges) - 1 <= MOST_OTHERS:
        for other, name in enumerate(tables.judges):
            yield from _measure("agreement", name, both[both["judge"] == other], same, 0.5)
