"""The report card against counting in plain loops, its invariances, and its words."""

import math

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
    for p in range(POOLS):
        names = [f"i{n}" for n in range(rng.integers(2, 5))]
        items += [{"pool": f"q{p}", "item": n, "words": int(rng.integers(1, 6))} for n in names]
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                if rng.random() < 0.5:
                    better, worse = rng.permutation([a, b])
                    anchors.append({"pool": f"q{p}", "better": better, "worse": worse})
                for judge in JUDGES:
                    for first, second in ((a, b), (b, a)):
                        for _ in range(rng.integers(0, 3)):
                            verdicts.append(
                                {
                                    "pool": f"q{p}",
                                    "judge": judge,
                                    "first": first,
                                    "second": second,
                                    "p_first": rng.choice([0, 0.2, 0.5, 0.9, 1, np.nan]),
                                    "count": int(rng.integers(1, 3)),
                                    "order": "shown" if rng.random() < 0.8 else "unknown",
                                }
                            )
    return (*map(pd.DataFrame, (verdicts, items, anchors)),)


def counted(verdicts, items, anchors, judge):
    """The shares of one judge, by loops over rows: {(what, of): (share, pairs)}."""
    words = {(r.pool, r.item): r.words for r in items.itertuples()}
    gold = {(r.pool, frozenset((r.better, r.worse))): r.better for r in anchors.itertuples()}
    by_judge = {}
    for name in JUDGES:
        orders, shown = {}, {}
        for r in verdicts[verdicts.judge == name].itertuples():
            if math.isnan(r.p_first):
                continue
            won = 1.0 if r.p_first > 0.5 else 0.0 if r.p_first < 0.5 else 0.5
            key = r.pool, frozenset((r.first, r.second))
            cell = (r.first, r.order)
            orders.setdefault(key, {}).setdefault(cell, []).extend([(r.first, won)] * r.count)
            if r.order == "shown":
                shown.setdefault(key, {}).setdefault(r.first, []).extend([won] * r.count)
        by_judge[name] = orders, shown

    def favours(cells, item):
        """Mean over orders of the share that an item won."""
        each = [
            np.mean([won if first == item else 1 - won for first, won in rows])
            for rows in cells.values()
        ]
        return float(np.mean(each))

    result = {}

    def add(what, of, values):
        if values:
            result[what, of] = float(np.mean(values)), len(values)

    orders, shown = by_judge[judge]
    labelled = {key: favours(cells, gold[key]) for key, cells in orders.items() if key in gold}
    add("accuracy", None, list(labelled.values()))
    both = {key: cells for key, cells in shown.items() if len(cells) == 2}
    twice = []
    for key in both.keys() & gold.keys():
        better = gold[key]
        means = {first: np.mean(rows) for first, rows in both[key].items()}
        wins = [m if first == better else 1 - m for first, m in means.items()]
        twice.append(float(min(wins) == 1))
    add("accuracy_both_orders", None, twice)
    same = []
    for cells in both.values():
        (a, one), (b, two) = cells.items()
        same.append(1 - abs(np.mean(one) - (1 - np.mean(two))))
    add("consistency", None, same)
    add(
        "first_won",
        None,
        [np.mean([np.mean(w) for w in cells.values()]) for cells in both.values()],
    )
    longer, gold_longer, split = [], [], {"accuracy_if_larger": [], "accuracy_if_smaller": []}
    for key, cells in orders.items():
        a, b = sorted(key[1], key=lambda n: -words[key[0], n])
        if words[key[0], a] == words[key[0], b]:
            continue
        longer.append(favours(cells, a))
        if key in gold:
            gold_longer.append(float(gold[key] == a))
            split["accuracy_if_larger" if gold[key] == a else "accuracy_if_smaller"].append(
                labelled[key]
            )
    add("larger_won", "words", longer)
    add("gold_larger", "words", gold_longer)
    for what, values in split.items():
        add(what, "words", values)
    everyone = []
    for other in JUDGES:
        agreed = []
        for key in orders.keys() & by_judge[other][0].keys():
            item = min(key[1])
            mine, theirs = favours(orders[key], item), favours(by_judge[other][0][key], item)
            if 0.5 not in (round(mine, 12), round(theirs, 12)):
                agreed.append(float((mine > 0.5) == (theirs > 0.5)))
        if other != judge:
            add("agreement", other, agreed)
            everyone += agreed
    add("agreement", "all others", everyone)
    return result


@pytest.mark.parametrize("seed", range(4))
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
    verdicts, items, anchors = (table[table.pool.isin(some)] for table in random_tables(1))
    cards = own.report_card(own.read(verdicts, items, anchors), unit="prompt")
    mine = cards.measure("consistency").set_index("judge")
    of_pools = []
    for pool, rows in verdicts.groupby("pool"):
        tables = own.read(rows, items[items.pool == pool])
        of_pools.append(own.report_card(tables).measure("consistency").set_index("judge"))
    expected = pd.concat(of_pools).groupby("judge")["share"].mean()
    assert mine["share"].to_dict() == pytest.approx(expected.to_dict())
    each = own.report_card(own.read(verdicts, items, anchors)).measure("consistency")
    assert mine["n"].tolist() == each["n"].tolist()
    assert not np.allclose(mine["share"], each["share"])
    (right, _), text = (
        cards.report("Cards", []).answer,
        cards.report("Cards", []).text(verbose=True),
    )
    assert "pairs, each prompt counted once; a coin" in right
    assert "All judges: averages over prompts" in text
    assert "so that each prompt weighs the same" in text
    with pytest.raises(ValueError, match="unit must be one of pair, prompt"):
        own.report_card(own.read(verdicts, items), unit="item")


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
    error = 0.5 / pairs**0.5
    assert measure.share == pytest.approx(measure.coin, abs=4 * error)
    assert measure.low < measure.coin < measure.high


def test_the_report_names_the_best_judge_first_and_what_is_missing(tmp_path):
    tables = random_tables(2)
    cards = own.report_card(own.read(*tables, covariates=["words"]), ["words"])
    right, preferred = cards.report("Cards", []).answer
    accuracy = cards.measure("accuracy").set_index("judge").share
    assert right.startswith(f"Right on labelled pairs: {accuracy.idxmax()} ")
    assert preferred.startswith("The longer won: ann ")
    few = [table[table.pool.isin([f"q{i}" for i in range(9)])] for table in tables[:2]]
    cards = own.report_card(own.read(*few))
    assert cards.table.low.isna().all()
    report = cards.report("Cards", ["read"])
    assert "seen on too few prompts (< 10)" in report.text(verbose=True)
    right, preferred = report.answer
    assert "not known without labelled pairs" in right
    assert preferred.startswith("The first shown won: ")
    report.write(tmp_path, cards.to_frame(), cards.figure())
    assert len(pd.read_csv(tmp_path / "table.csv")) == len(cards.to_frame())
    with pytest.raises(ValueError, match="no covariate 'words' was read"):
        own.report_card(own.read(*few), ["words"])


def test_judges_of_whom_little_is_known_stand_beside_others():
    """Some have no share at all, without order, lengths and labels, unless they tie."""
    rows = [(f"q{i}", judge, "m1", "m2") for i in range(6) for judge in ("j0", "j1", "j2")]
    verdicts = pd.DataFrame(rows, columns=["pool", "judge", "first", "second"])
    verdicts["winner"] = ["tie" if i == 0 else "first" for i in range(len(rows))]
    tables = own.read(verdicts.assign(order="unknown"))
    section = own.report_card(tables).report("", []).sections[0]
    assert list(section.table)[1:] == ["j0", "j1", "j2"]
