"""The fewest verdicts whose removal changes the first place."""

import dataclasses
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from jbt import own, runtime
from jbt.own.leaderboards.first_place import first_place
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.types import Prior


def fitted(pairs, **counts):
    """The fit of verdicts that the first of each pair won, and what changes its first place."""
    verdicts = pd.DataFrame(pairs, columns=["first", "second"]).assign(winner="first", **counts)
    setup = Setup.of(own.read(verdicts), Settings(position="no", prior=Prior(0.1, 0.1)))
    with runtime.precision("float64"):
        fit = setup.problem(0).fit()
        return fit, first_place(fit, setup.tables.contents)


def test_of_two_models_it_takes_the_lead_and_one():
    _, found = fitted([("a", "b"), ("b", "a")], count=[12, 7])
    assert dataclasses.astuple(found) == ("a", "b", 6, 19)
    assert "without 6 of the 19 verdicts (32 %)" in found.in_words()


def test_one_step_may_be_far_from_enough_and_all_not():
    _, sweep = fitted([("a", "b")] * 9 + [("a", "c")] * 9 + [("b", "c")] * 3)
    assert dataclasses.astuple(sweep)[:2] == ("a", "b")
    assert fitted([("a", "b")] * 3)[1] is None  # without all, both are alike
    assert fitted([("a", "b"), ("b", "a")])[1] is None  # shared


@pytest.mark.heavy
def test_no_other_choice_of_a_small_table_takes_fewer():
    """By trying all."""
    rng = np.random.default_rng(3)
    quality = {"a": 0.9, "b": 0.5, "c": -0.2, "d": -0.6}
    seen = set()
    for _ in range(6):
        pairs = [rng.choice(list(quality), 2, replace=False) for _ in range(24)]
        chance = [1 / (1 + np.exp(quality[y] - quality[x])) for x, y in pairs]
        won = rng.random(24) < chance
        pairs = [(x, y) if w else (y, x) for (x, y), w in zip(pairs, won, strict=True)]
        fit, found = fitted(pairs)
        if found is None or found.n_removed > 2:
            continue
        seen.add(found.n_removed)
        with runtime.precision("float64"):
            first, problem = int(np.argmax(fit.theta)), fit.problem
            smaller = [[]] if found.n_removed == 1 else [[i] for i in range(24)]
            for out in smaller + list(map(list, combinations(range(24), found.n_removed))):
                shown = problem.rows.shown.copy()
                shown[out] = 0
                wins = problem.rows.wins * (shown > 0)
                rows = dataclasses.replace(problem.rows, shown=shown, wins=wins)
                theta = dataclasses.replace(problem, rows=rows).fit().theta
                ahead = theta.max() - theta[first] > 1e-9
                if len(out) < found.n_removed:
                    assert not ahead
                elif ahead:
                    break
            else:
                raise AssertionError(found)
    assert seen == {1, 2}
