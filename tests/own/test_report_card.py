"""The report card against counting in plain loops, its invariances, and its words."""

import itertools
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng

from jbt import own

JUDGES, POOLS = ("ann", "bob", "cy"), 14


def random_tables(seed):
    """Verdicts of three judges, some pairs in one order or repeated, with ties, errors and grades;
    half of the pairs labelled."""
    rng = default_rng(seed)
    verdicts, items, anchors = [], [], []
    for pool in (f"q{p}" for p in range(POOLS)):
        names = [f"i{n}" for n in range(rng.integers(2, 5))]
        items += [(pool, name, rng.integers(1, 6)) for name in names]
        for pair in itertools.combinations(names, 2):
            if rng.random() < 0.5:
                anchors.append((pool, *rng.permutation(pair)))
            for judge, sides in itertools.product(JUDGES, (pair, pair[::-1])):
                for _ in range(rng.integers(0, 3)):
                    share = rng.choice([0, 0.2, 0.5, 0.9, 1, np.nan])
                    order = rng.choice(["shown", "unknown"], p=[0.8, 0.2])
                    verdicts.append((pool, judge, *sides, share, rng.integers(1, 3), order))
    columns = ["pool", "judge", "first", "second", "p_first", "count", "order"]
    return (
        pd.DataFrame(verdicts, columns=columns),
        pd.DataFrame(items, columns=["pool", "item", "words"]),
        pd.DataFrame(anchors, columns=["pool", "better", "worse"]),
    )


def counted(verdicts, items, anchors, judge):
    """The shares of one judge, by loops over rows: {(what, of): (share, pairs)}."""
    words = {(r.pool, r.item): r.words for r in items.itertuples()}
    gold = {(r.pool, frozenset((r.better, r.worse))): r.better for r in anchors.itertuples()}
    by_judge = {name: defaultdict(list) for name in JUDGES}
    for r in verdicts.dropna().itertuples():
        row = r.first, r.order, (1 + np.sign(r.p_first - 0.5)) / 2
        by_judge[r.judge][r.pool, frozenset((r.first, r.second))] += [row] * r.count

    def favours(rows, item):
        """Mean over orders of the share that an item won."""
        cells = defaultdict(list)
        for first, order, won in rows:
            cells[first, order].append(won if first == item else 1 - won)
        return np.mean([np.mean(shares) for shares in cells.values()])

    values = defaultdict(list)
    for key, rows in by_judge[judge].items():
        pool, pair = key
        better = gold.get(key)
        if better:
            values["accuracy", None].append(favours(rows, better))
        shown = {i: [w for first, o, w in rows if (first, o) == (i, "shown")] for i in pair}
        if all(shown.values()):
            wins = {first: np.mean(won) for first, won in shown.items()}
            values["consistency", None].append(1 - abs(1 - sum(wins.values())))
            values["first_won", None].append(sum(wins.values()) / 2)
            if better:
                right = wins == {item: float(item == better) for item in pair}
                values["accuracy_both_orders", None].append(right)
        smaller, larger = sorted(pair, key=lambda item: words[pool, item])
        if words[pool, smaller] < words[pool, larger]:
            values["larger_won", "words"].append(favours(rows, larger))
            if better:
                values["gold_larger", "words"].append(better == larger)
                which = "larger" if better == larger else "smaller"
                values[f"accuracy_if_{which}", "words"].append(favours(rows, better))
        for other in {*JUDGES} - {judge}:
            if key in by_judge[other]:
                both = [favours(of, larger) for of in (rows, by_judge[other][key])]
                mine, theirs = np.sign(np.round(both, 12) - 0.5)
                if mine and theirs:
                    values["agreement", other].append(mine == theirs)
                    values["agreement", "all others"].append(mine == theirs)
    return {key: (np.mean(shares), len(shares)) for key, shares in values.items()}


@pytest.mark.parametrize("seed", range(2))
def test_equals_counting_by_loops(seed):
    tables = random_tables(seed)
    cards = own.report_card(own.read(*tables, covariates=["words"]), ["words"])
    for judge, rows in cards.cards():
        expected = counted(*tables, judge)
        mine = {(m.what, m.of): m for m in rows.itertuples()}
        ties, errors = (mine.pop((what, None)) for what in ("ties", "errors"))
        assert mine.keys() == expected.keys()
        for key, (share, n) in expected.items():
            assert mine[key].share == pytest.approx(share, abs=1e-12), key
            assert mine[key].n == n, key
        rows = tables[0][tables[0].judge == judge]
        failed = rows["count"][rows.p_first.isna()].sum() / rows["count"].sum()
        assert errors.share == pytest.approx(failed)
        valid = rows[rows.p_first.notna()]
        tied = valid["count"][valid.p_first == 0.5].sum() / valid["count"].sum()
        assert ties.share == pytest.approx(tied)


def test_of_prompts_a_share_is_the_mean_of_theirs():
    some = [f"q{i}" for i in range(5)]
    verdicts, *_ = random_tables(1)
    verdicts = verdicts[verdicts.pool.isin(some)]
    cards = own.report_card(own.read(verdicts), unit="prompt")
    mine = cards.measure("consistency").set_index("judge")
    of_pools = [
        own.report_card(own.read(verdicts[verdicts.pool == pool])).measure("consistency")
        for pool in some
    ]
    expected = pd.concat(of_pools).groupby("judge")["share"].mean()
    assert mine["share"].to_dict() == pytest.approx(expected.to_dict())


def test_a_coin_that_ties_is_as_consistent_as_the_card_says():
    rng = default_rng(0)
    pairs = 20_000
    verdicts = pd.DataFrame({"pool": np.arange(2 * pairs) // 2}).assign(
        first=["x", "y"] * pairs,
        second=["y", "x"] * pairs,
        winner=rng.choice(["x", "y", "tie"], 2 * pairs, p=[0.35, 0.35, 0.3]),
    )
    (measure,) = own.report_card(own.read(verdicts)).measure("consistency").itertuples()
    assert measure.coin == pytest.approx((1 + 0.3**2) / 2, abs=0.01)
    assert measure.low < measure.coin < measure.high


def test_the_report_says_what_is_missing():
    verdicts, *_ = random_tables(2)
    cards = own.report_card(own.read(verdicts[verdicts.pool.isin([f"q{i}" for i in range(9)])]))
    assert cards.table.low.isna().all()
    assert "not known without labelled pairs" in cards.report("Cards", []).answer[0]
