"""Leaderboards of models that won or lost every verdict: statuses, and ranks by counts."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import null_space
from scipy.special import expit
from scipy.stats import binom
from support.problems import furthest

from jbt import own, runtime
from jbt.kernel.listed import Listed
from jbt.own.leaderboards.counted import better_by_counts
from jbt.types import Prior, Rows


def table(*pairs, prompts=range(20), judge="j"):
    """Each (better, worse) once a prompt, the better one first on every other prompt."""
    rows = [
        (f"{judge} {q}", *((a, b) if q % 2 else (b, a)), a, judge)
        for q in prompts
        for a, b in pairs
    ]
    return pd.DataFrame(rows, columns=["pool", "first", "second", "winner", "judge"])


def ranked(*verdicts, items=None, covariates=(), **options):
    tables = own.read(pd.concat(verdicts, ignore_index=True), items, covariates=covariates)
    return own.leaderboard(tables, covariates, **options)


def ranks(board):
    models = board.models.sort_values("model")
    return list(zip(models["rank_low"], models["rank_high"], strict=True))


CHAIN = "ab", "bc", "cd"
SWEEP = table("ab", "ac", "ad", "bd", "cd", prompts=range(30))
TURNED = {"first": "second", "second": "first"}


@pytest.mark.parametrize(
    ("verdicts", "position", "expected"),
    [
        # That a is above d follows from the others.
        (table(*CHAIN), "no", [(1, 1), (2, 2), (3, 3), (4, 4)]),
        (table(*CHAIN, prompts=range(5)), "no", [(1, 4)] * 4),
        # Both orders of a pair bound an unknown position: a half is the most that both can have.
        (
            pd.concat([table(*CHAIN), table(*CHAIN).rename(columns=TURNED)]),
            "yes",
            [(1, 1), (2, 2), (3, 3), (4, 4)],
        ),
        (
            pd.concat([SWEEP, table("bc", prompts=range(10)), table("cb", prompts=range(10))]),
            "auto",
            [(1, 1), (2, 3), (2, 3), (4, 4)],
        ),
    ],
    ids=["chain", "five prompts", "both orders", "sweep"],
)
def test_unanimous_wins_rank_where_they_are_many(verdicts, position, expected):
    (board,) = boards = ranked(verdicts, position=position)
    assert ranks(board) == expected
    runaway = board.models["runaway"].to_numpy()
    has_middle = expected[1] == (2, 3)
    assert runaway.tolist() == ([True, False, False, True] if has_middle else [True] * 4)
    assert set(board.models["status"]) == {"separated"}
    if has_middle:
        assert "90-0-0" in boards.report("", []).text()


@pytest.mark.heavy
def test_it_is_the_sign_test_over_prompts():
    """A judge each for every number of prompts won and lost, under a prior that decides every
    difference. A prompt counts once, and is won if all its verdicts are."""
    cases = list(itertools.product(range(4, 12), range(3)))
    verdicts = [
        table("xy", prompts=np.repeat(range(won), 1 + won % 2), judge=f"{won}, {lost}")
        for won, lost in cases
    ] + [table("yx", prompts=range(won, won + lost), judge=f"{won}, {lost}") for won, lost in cases]
    split = [table(pair, prompts=range(15), judge="split") for pair in ("xy", "xy", "yx")]
    boards = ranked(*verdicts, *split, prior=Prior(1e6, 1e6), position="no")
    significant = {board.judge: ranks(board) == [(1, 1), (2, 2)] for board in boards}
    assert not significant.pop("split")
    for won, lost in cases:
        p = binom.cdf(lost, won + lost, 0.5)
        assert significant[f"{won}, {lost}"] == (p <= 0.025), (won, lost)
    assert sum(significant.values()) == 12


def test_a_bias_that_may_explain_the_wins_counts():
    """Ten prompts won, whose chance is at most that by the ends of c and kappa."""

    def counts_from(level, difference=0.0, c=(0.0, 0.0), kappa=(0.0, 0.0)):
        """Whether the win begins to count at this level."""
        first, pairs = np.zeros(10, int), ~np.eye(2, dtype=bool)
        with runtime.precision("float64"):
            rows = Rows.build(first, first + 1, np.full((10, 1), difference), np.ones(10))
        rows = Listed.of(rows, 2)
        arguments = rows, np.arange(10), pairs, np.where(pairs, np.inf, 0), np.array([c, kappa]).T
        below, above = (better_by_counts(*arguments, level * by)[0][1, 0] for by in (1 - 1e-6, 1))
        return above and not below

    assert counts_from(2.0**-10)
    assert counts_from(2.0**-10, 1.0, c=(-5.0, -1.0))  # it favours the other
    assert counts_from(expit(1.0) ** 10 * (1 + 1e-9), 2.0, c=(-1.0, 0.3), kappa=(0.0, 0.4))
    assert counts_from(1.0, kappa=(-np.inf, np.inf))


def undetermined(z, outcome, along):
    """`flat`, `separated` or nothing for the combination along' beta: whether it varies over the
    null space of the rows z, or over their recession cone (Albert and Anderson 1984)."""
    if np.abs(along @ null_space(z)).max(initial=0) > 1e-9:
        return "flat"
    ends = [furthest(sign * along, z, np.ones(len(z)), outcome) for sign in (1, -1)]
    return "separated" if max(ends) > 1e-7 else ""


@pytest.mark.heavy
def test_statuses_are_those_of_a_linear_programme():
    """18 judges, a few verdicts each on five models, with a covariate and the position free."""
    rng, seen = np.random.default_rng(5), set()
    names, quality = np.array(list("abcde")), 1.5 * np.arange(5)
    tables, worlds = [], {}
    for judge in map(str, range(18)):
        n = int(rng.integers(4, 20))
        first = rng.integers(0, 5, n)
        second = (first + rng.integers(1, 5, n)) % 5
        x = rng.choice([0.0, 1.0, 2.0], (n, 5))
        won = rng.random(n) < expit(quality[first] - quality[second])
        outcome = np.where(rng.random(n) < 0.1, 0.5, won)
        at = np.arange(n)
        pool = np.array([f"{judge} {prompt}" for prompt in at])
        verdicts = {"pool": pool, "first": names[first], "second": names[second]}
        items = {"pool": pool.repeat(5), "item": np.tile(names, n), "x": x.ravel()}
        verdicts |= {"p_first": outcome, "judge": judge}
        tables.append((pd.DataFrame(verdicts), pd.DataFrame(items)))
        z = np.eye(5)[first] - np.eye(5)[second]
        worlds[judge] = np.column_stack([z, x[at, first] - x[at, second], np.ones(n)]), outcome
    verdicts, items = zip(*tables, strict=True)
    options = {"covariates": ["x"], "standardise": False, "position": "yes"}
    boards = ranked(*verdicts, items=pd.concat(items, ignore_index=True), **options)
    for board in boards:
        z, outcome = worlds[board.judge]
        known = np.r_[np.abs(z[:, :5]).sum(0) > 0, True, True]
        # About the mean of the known models, whose constant moves nothing.
        n_known = known[:5].sum()
        combinations = np.eye(known.sum())
        combinations[:n_known, :n_known] -= 1 / n_known
        status = board.models.set_index("model")["status"].loc[names[known[:5]]]
        status = [*status, *board.coefficients["status"]]
        for along, given in zip(combinations, status, strict=True):
            expected = undetermined(z[:, known], outcome, along)
            given_kind = given if given in ("flat", "separated") else ""
            assert given_kind == expected or given == "covariate_constant", board.judge
            seen.add(expected)
    assert seen == {"flat", "separated", ""}
