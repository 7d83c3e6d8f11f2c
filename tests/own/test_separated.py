"""Leaderboards of unanimous verdicts, whose likelihood rises without end."""

import itertools

import numpy as np
import pandas as pd
import pytest

from jbt import own
from jbt.own.leaderboards.intervals import unanimous
from jbt.types import Rows


def board(pairs, prompts, **options):
    """The leaderboard of prompts in each of which the first of every pair beats the second."""
    verdicts = pd.DataFrame(
        {"pool": f"q{i}", "first": a, "second": b, "winner": "first"}
        for i in range(prompts)
        for a, b in pairs
    )
    return own.leaderboard(own.read(verdicts), position="no", **options)[0]


def ranks(table):
    frame = table.to_frame().set_index("model")
    return frame[["rank_low", "rank_high"]].astype(float).T.to_dict("list")


@pytest.mark.parametrize("n_models", [3, 15])
def test_a_chain_of_unanimous_verdicts_is_separated_not_flat(n_models):
    names = [f"m{i:02}" for i in range(n_models)]
    found = board(list(itertools.pairwise(names)), 20)
    assert set(found.status_of) == {"separated"}
    assert "the likelihood rises all the way to infinity" in " ".join(found.reasons())
    assert ranks(found) == {name: [i, i] for i, name in enumerate(names, 1)}


def test_unconnected_models_are_still_flat():
    found = board([("x1", "x2"), ("y1", "y2")], 20)
    assert set(found.status_of) == {"flat"}


def test_an_undefeated_model_has_a_rank_and_leaves_the_others_theirs():
    rng = np.random.default_rng(0)
    rows = [
        {"pool": f"q{i}", "first": a, "second": b, "winner": w}
        for i in range(30)
        for a, b in itertools.combinations(["a1", "b2", "c3", "d4"], 2)
        for w in [rng.choice(["first", "second"]) if (a, b) == ("b2", "c3") else "first"]
    ]
    (found,) = own.leaderboard(own.read(pd.DataFrame(rows)), position="no")
    assert ranks(found) == {"a1": [1, 1], "b2": [2, 3], "c3": [2, 3], "d4": [4, 4]}


def test_few_unanimous_prompts_decide_nothing():
    found = board([("x1", "x2"), ("x2", "x3")], 5)
    assert set(found.status_of) == {"separated"}
    assert np.isnan(found.rank_low).all()


def rows_of(winners, n_prompts, orders):
    first, second, prompt, wins = [], [], [], []
    for p in range(n_prompts):
        for a, b in orders:
            first.append(a)
            second.append(b)
            prompt.append(p)
            wins.append(float(winners[p, a, b]))
    shown = np.ones(len(first))
    rows = Rows.build(first, second, np.zeros((len(first), 0)), np.array(wins), weight=shown)
    return rows, np.array(prompt)


@pytest.mark.parametrize("kappa", [0.0, 1.5])
def test_equal_models_are_rarely_told_apart_whatever_kappa_is(kappa):
    """False claims among all ordered pairs of four equal models, within the level and k standard
    errors; a prompt of one order alone would be fooled by kappa."""
    rng, studies, level = np.random.default_rng(1), 2000, 0.025
    both = kappa != 0
    pairs = list(itertools.combinations(range(4), 2))
    orders = pairs + [(b, a) for a, b in pairs] if both else pairs
    rate = 1 / (1 + np.exp(-kappa))
    false = 0
    for _ in range(studies):
        rows, prompt = rows_of(rng.random((6, 4, 4)) < rate, 6, orders)
        false += unanimous(rows, prompt, 4, level, both_orders=both).sum()
    share = false / (studies * 12)
    assert share <= level + 4 * (level / (studies * 12)) ** 0.5
