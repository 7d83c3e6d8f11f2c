"""Leaderboards of models that won or lost every verdict: statuses, and ranks by counts."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.linalg import null_space
from scipy.optimize import linprog

from jbt import own, runtime
from jbt.kernel.fit import fit_map
from jbt.own.leaderboards.counted import better_by_counts, through_others
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.problem import Fitted, Problem, Settings, Setup, places
from jbt.types import Design, Prior, Rows, Status, Variant

fit = jax.jit(fit_map)


def table(pairs, n_prompts):
    """Each (better, worse) once a prompt, the better one first on every other prompt."""
    return pd.DataFrame(
        [(f"q{q}", *((a, b) if q % 2 else (b, a)), a) for q in range(n_prompts) for a, b in pairs],
        columns=["pool", "first", "second", "winner"],
    )


def ranked(verdicts, **options):
    (board,) = own.leaderboard(own.read(verdicts), **options)
    return {
        model: (low, high)
        for model, low, high in zip(
            board.models["model"], board.models["rank_low"], board.models["rank_high"], strict=True
        )
    }, board


def test_a_chain_of_unanimous_wins_is_separated_and_ranked():
    ranks, board = ranked(table([("ma", "mb"), ("mb", "mc")], 20), position="no")
    assert set(board.models["status"]) == {"separated"}
    assert ranks == {"ma": (1, 1), "mb": (2, 2), "mc": (3, 3)}


def test_the_first_and_the_last_of_a_sweep_are_ranked():
    pairs = [("ma", "mb"), ("ma", "mc"), ("ma", "md"), ("mb", "md"), ("mc", "md")]
    mixed = [table([("mb", "mc")], 10), table([("mc", "mb")], 10)]
    ranks, board = ranked(pd.concat([table(pairs, 30), *mixed], ignore_index=True))
    assert ranks == {"ma": (1, 1), "mb": (2, 3), "mc": (2, 3), "md": (4, 4)}
    assert board.models["model"][board.models["runaway"]].tolist() == ["ma", "md"]
    won = {"ma": 90, "mb": 40, "mc": 40, "md": 0}
    assert dict(zip(board.models["model"], board.models["n_won"], strict=True)) == won
    report = own.leaderboard(own.read(table(pairs, 30))).report("", []).text()
    assert "(won 90 of 90)" in report


@pytest.mark.parametrize("n_prompts", [2, 5])
def test_few_unanimous_wins_are_not_clear(n_prompts):
    chain = table([("ma", "mb"), ("mb", "mc"), ("ma", "mc")], n_prompts)
    ranks, _ = ranked(chain, position="no")
    assert set(ranks.values()) == {(1, 3)}


def one_pair(prompts, won, difference=0.0):
    zeros, n = np.zeros(len(prompts), int), len(prompts)
    with runtime.precision("float64"):
        rows = Rows.build(zeros, zeros + 1, np.full((n, 1), difference), np.asarray(won, float))
    return rows, np.asarray(prompts)


def significant(prompts, won, level, difference=0.0, c=(0.0, 0.0), kappa=(0.0, 0.0)):
    pairs = ~np.eye(2, dtype=bool)
    upper = np.where(pairs, np.inf, 0.0)
    ends = np.array([c, kappa], float).T
    rows, cluster = one_pair(prompts, won, difference)
    better, counted = better_by_counts(rows, cluster, pairs, upper, ends, level)
    assert not better[0, 1]  # second is better
    return better[1, 0], counted[1, 0]


def test_it_is_the_sign_test_over_prompts():
    for n in range(1, 12):
        for lost in range(3):
            won = np.r_[np.ones(max(n - lost, 0)), np.zeros(min(lost, n))]
            tail = sum(
                len(list(itertools.combinations(range(n), i))) for i in range(min(lost, n) + 1)
            )
            p = tail / 2**n
            if p < 0.4:
                assert significant(range(n), won, p * 1.001)[0]
                assert not significant(range(n), won, p * 0.999)[0]
    # A prompt counts once, and only if all its verdicts are won.
    assert not significant([0] * 50, np.ones(50), 0.01)[0]
    assert not significant([0, 0, 1, 1, 2, 2], [1, 0, 1, 0, 1, 0], 0.4)[0]


def test_a_bias_that_may_explain_the_wins_counts():
    prompts, won = range(10), np.ones(10)
    assert significant(prompts, won, 0.001)[0]
    assert significant(prompts, won, 0.001, difference=1.0, c=(-5, 0.0))[0]  # it favours the other
    p = (1 / (1 + np.exp(-1.0))) ** 10
    assert significant(prompts, won, p * 1.001, difference=2.0, c=(-1, 0.3), kappa=(0, 0.4))[0]
    assert not significant(prompts, won, p * 0.999, difference=2.0, c=(-1, 0.3), kappa=(0, 0.4))[0]
    assert significant(prompts, won, 0.5, kappa=(-np.inf, np.inf)) == (False, False)


def test_both_orders_of_a_pair_bound_an_unknown_position():
    """min(sigmoid(kappa), sigmoid(-kappa)) is at most a half, whatever kappa."""
    verdicts = table([("ma", "mb"), ("mb", "mc")], 20)
    turned = verdicts.rename(columns={"first": "second", "second": "first"})
    ranks, board = ranked(pd.concat([verdicts, turned], ignore_index=True), position="yes")
    assert np.isnan(board.of_kind("kappa").iloc[0].low)
    assert ranks == {"ma": (1, 1), "mb": (2, 2), "mc": (3, 3)}


def test_a_chain_leads_through_others():
    better = np.zeros((5, 5), bool)
    better[1, 0] = better[2, 1] = better[3, 2] = True  # 0 above 1 above 2 above 3
    expected = np.tril(np.ones((5, 5), bool), -1)
    expected[4] = False
    np.testing.assert_array_equal(through_others(better), expected)


def undetermined(z, outcome, along):
    """`flat`, `separated` or nothing for the combination along' beta: whether it varies over the
    null space of the rows z, or over their recession cone (Albert and Anderson 1984)."""
    null = null_space(z) if len(z) else np.eye(z.shape[1])
    if np.abs(along @ null).max(initial=0) > 1e-9:
        return "flat"
    won = np.where(outcome == 1, 1, -1)[:, None] * z
    decided = outcome != 0.5
    for sign in (1, -1):
        best = linprog(
            -sign * along, -won[decided], np.zeros(decided.sum()), z[~decided] if (~decided).any()
            else None, np.zeros((~decided).sum()) if (~decided).any() else None, bounds=(-1, 1)
        )  # fmt: skip
        if -best.fun > 1e-7:
            return "separated"
    return ""


def test_statuses_are_those_of_a_linear_programme():
    """36 tables of five models, few verdicts each, with a covariate and the position free."""
    rng, seen = np.random.default_rng(5), set()
    names = np.array(list("abcde"))
    for _ in range(36):
        n_rows = int(rng.integers(5, 22))
        first = rng.integers(0, 5, n_rows)
        second = (first + rng.integers(1, 5, n_rows)) % 5
        x = rng.choice([0.0, 1.0, 2.0], (n_rows, 5))
        quality = 1.5 * np.arange(5)
        p = 1 / (1 + np.exp(quality[second] - quality[first]))
        outcome = np.where(rng.random(n_rows) < 0.1, 0.5, rng.random(n_rows) < p)
        pools = [f"q{r}" for r in range(n_rows)]
        words = {0: "second", 0.5: "tie", 1: "first"}
        verdicts = pd.DataFrame(
            {
                "pool": pools,
                "first": names[first],
                "second": names[second],
                "winner": [words[v] for v in outcome],
            }
        )
        items = pd.DataFrame(
            [(q, name, v) for q, row in zip(pools, x, strict=True)
             for name, v in zip(names, row, strict=True)],
            columns=["pool", "item", "x"],
        )  # fmt: skip
        tables = own.read(verdicts, items, covariates=["x"])
        settings = Settings(covariates=("x",), standardise=False, position="yes")
        with runtime.precision("float64"):
            fit = Setup.of(tables, settings).problem(0).fit()
            status = intervals(fit).parameters["status"]
        z = np.zeros((n_rows, 7))
        at = np.arange(n_rows)
        place = [tables.contents.index(name) for name in names]
        z[at, np.take(place, first)] += 1
        z[at, np.take(place, second)] -= 1
        z[:, 5] = x[at, first] - x[at, second]
        z[:, 6] = 1
        known = np.abs(z[:, :5]).sum(0) > 0
        centre = np.diag(known) - np.outer(known, known) / known.sum()
        combinations = np.eye(7)
        combinations[:5, :5] = centre
        # The constant of the models without a verdict moves nothing.
        z_known = z[:, np.r_[known, True, True]]
        for p in np.flatnonzero(np.r_[known, True, True]).tolist():
            along = combinations[p][np.r_[known, True, True]]
            expected = undetermined(z_known, outcome, along)
            given = status[p] if status[p] in ("flat", "separated") else ""
            assert given == expected or status[p] == "covariate_constant", (p, status)
            seen.add(expected)
    assert seen == {"flat", "separated", ""}


@pytest.mark.heavy
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("theta", [(4, 0.3, 0, -0.3), (6, 2, -2, -6), (3.01, 3, 0, -0.3)])
def test_ranks_by_counts_cover(theta, bias):
    """Ranks that counts decide in part hold the truth as often as intervals of 95 % do."""
    rng, theta, m = np.random.default_rng(7), np.array(theta), 4
    c, kappa = (0.6, 0.3) if bias else (0.0, 0.0)
    variant, prior, covered = Variant(jnp.asarray([bias]), jnp.asarray(bias)), Prior(1.0, 0.1), []
    rank = 1 + (theta[:, None] < theta).sum(1)
    for study in range(80):
        prompts, per, sd = ((12, 10, 0.0), (30, 4, 0.7))[study % 2]
        prompt = np.repeat(np.arange(prompts), per)
        first = rng.integers(0, m, len(prompt))
        second = (first + rng.integers(1, m, len(prompt))) % m
        x = rng.normal(size=(prompts, m))
        apparent = theta + sd * rng.normal(size=x.shape) + c * x
        apart, difference = (v[prompt, first] - v[prompt, second] for v in (apparent, x))
        won = rng.random(len(prompt)) < 1 / (1 + np.exp(-apart - kappa))
        with runtime.precision("float64"):
            rows = Rows.build(first, second, difference[:, None], won.astype(float))
            design = Design.of_contents(m, 1)
            mode = fit(rows, design, prior, variant).parameters
            at = places(theta=(m,), c=(1, 1), kappa=(1,))
            problem = Problem.of(rows, variant, prior, at, prompt)
            ends = intervals(Fitted(problem, variant, mode.as_numpy(), Status.CONVERGED))
        low, high = 1 + ends.better.sum(1), m - ends.better.sum(0)
        by_counts = ends.ranked & (ends.comparable.sum(1) < m - 1)
        covered += ((low <= rank) & (rank <= high))[by_counts].tolist()
    assert len(covered) > 60
    assert np.mean(covered) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(covered))
