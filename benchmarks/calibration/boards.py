"""Intervals of leaderboards: `jbt leaderboard`, with Davidson's ties, of rankings and ratings, with
judges of unlike discrimination, and with a bias that changes with quality; Elo with an anchor, the
values of a column (`--by`), and missing verdicts, with the doctor's test of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng
from scipy.stats import norm

from benchmarks.calibration import (
    FEW,
    GUESSES,
    cell,
    cells_of,
    claim,
    grid,
    kept,
    ordered_pairs,
    parts,
    tables_of,
    verdicts,
)
from jbt import own
from jbt.kernel.listed import Listed
from jbt.own.examine import doctor
from jbt.own.formats import ratings
from jbt.own.leaderboards.by_value import compared, difference
from jbt.own.leaderboards.davidson import DavidsonProblem
from jbt.own.leaderboards.discriminations import fit_discriminations
from jbt.own.leaderboards.elo import PER_LOGIT, Elo
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.lack_of_fit import ALPHA, PAIRS, QUALITY
from jbt.own.leaderboards.problem import Problem, Settings, Setup, places
from jbt.own.leaderboards.report import Leaderboard
from jbt.own.tables.missing import fills, losses
from jbt.types import Prior, Rows

MODELS, C, KAPPA = 6, 0.6, 0.3
BEST, THIRD, RANK = "theta, best of 6", "theta, third of 6", "rank, third of 6"
NUMBERS = ["estimate", "low", "high"]

SCORES = -norm.ppf((np.arange(MODELS) + 0.5) / MODELS)
SCORES /= SCORES.std()
"""Quantiles of the normal distribution, best first, of variance 1."""
SHUFFLED = SCORES[[2, 5, 0, 4, 1, 3]]
"""Nearly uncorrelated with quality."""


def problem_of(prompt: np.ndarray, pair: Any, difference: np.ndarray, share: np.ndarray) -> Problem:
    """What `jbt leaderboard` fits.

    Args:
      prompt, difference, share: [verdicts] prompt, difference of lengths, and what the first won.
      pair: [verdicts] first and second model.
    """
    first, second = pair
    rows = Rows.build(first, second, difference[:, None], share)
    at = places(theta=(MODELS,), c=(1, 1), kappa=(1,))
    return Problem.of(Listed.of(rows, MODELS), [True, True], Prior(1.0, 0.1), at, prompt)


def setup_of(tables: own.Tables) -> Setup:
    """What `jbt leaderboard` reads of tables with lengths."""
    return Setup.of(tables, Settings(covariates=("words",), standardise=False))


def limit(problem: Problem) -> np.ndarray:
    """Estimates of theta, c, kappa (and log nu) from very many prompts."""
    return replace(problem, prior=Prior(1e-6, 1e-6)).fit().beta


def printed(found: Intervals, names: Mapping[str, int]) -> dict[str, Sequence[float]]:
    """Estimate, low and high of the parameters at some places."""
    rows = found.parameters[NUMBERS].to_numpy(float)
    return {name: rows[place] for name, place in names.items()}


def boards(
    rng: Generator,
    n: int,
    sizes: np.ndarray,
    *,
    sd: float = 1.0,
    rho: float = 0.0,
    sd_c: float = 0.0,
    sd_theta: float = 0.0,
    slope: float = 0.0,
    log_nu: float | None = None,
) -> list[Problem]:
    """n studies of random ordered pairs of six models that answer every prompt.

    Args:
      sizes: [prompts] number of verdicts.
      sd: standard deviation of quality, logits.
      rho: corr(theta, x) between models.
      sd_c, sd_theta: standard deviations between prompts, of c (and log nu) and of a model's
        quality.
      slope: change of c with a logit of quality.
      log_nu: of Davidson's ties; default none.
    """
    theta = sd * SCORES
    mean = rho * SCORES + np.sqrt(1 - rho**2) * SHUFFLED
    x = 0.8 * mean + rng.normal(size=(n, len(sizes), MODELS))
    c = C + sd_c * rng.normal(size=(*x.shape[:2], 1))
    tie = sd_c * rng.normal(size=c.shape) + (-np.inf if log_nu is None else log_nu)
    apparent = theta + sd_theta * rng.normal(size=x.shape) + (c + slope * theta) * x
    prompt = np.repeat(np.arange(len(sizes)), sizes)
    first = rng.integers(0, MODELS, (n, len(prompt)))
    pair = np.stack([first, (first + rng.integers(1, MODELS, first.shape)) % MODELS])
    study = np.arange(n)[:, None]
    one, other = apparent[study, prompt, pair]
    eta = one - other + KAPPA
    weights = np.exp(np.stack([-eta / 2, tie[:, prompt, 0], eta / 2])).cumsum(0)
    share = (rng.random(eta.shape) * weights[-1] > weights[:-1]).sum(0) / 2
    one, other = x[study, prompt, pair]
    problems = map(problem_of, itertools.repeat(prompt), pair.swapaxes(0, 1), one - other, share)
    return [DavidsonProblem.of_halves(problem) for problem in problems]  # changed only by ties


def board_of(problem: Problem, names: Mapping[str, int]) -> dict[str, Sequence[float]]:
    """Estimate, low and high of the parameters at some places, and of the third model's rank."""
    found = intervals(problem.fit())
    ends = 1 + found.better[2].sum(), MODELS - found.better[:, 2].sum()
    rank = {RANK: (3, *ends)} if found.ranked[2] else {}
    return printed(found, names) | rank


VARIED = {"sd_c": 0.3, "sd_theta": 0.7}
"""Standard deviations between prompts, where Bradley-Terry does not hold."""


NINE, TWO = ((9, 100), (91, 4)), ((2, 300), (98, 4))
"""Prompts with unequally many verdicts: how many, and verdicts of each."""


@claim(
    "`jbt leaderboard`, also with `--ties davidson`",
    grid(
        {"rho": 0.5},
        {"sd_c": 0.3},
        {"sd_c": 0.3, "rho": 0.5},
        prompts=[*(((n, 20),) for n in (10, 12, 15, 30, 100)), NINE, TWO],
    )
    + grid(VARIED, prompts=[NINE, ((15, 20),)])
    + grid(prompts=[((30, 20),), ((100, 20),), NINE], sd=[0.4, 2.5])
    + grid(
        {"log_nu": -2.5},
        {"log_nu": 0.0},
        {"log_nu": 1.5},
        {"log_nu": 0.0, "slope": 0.4},
        {"log_nu": 0.0, "sd_c": 0.7, "sd_theta": 0.7},
        prompts=[((20, 20),), ((100, 20),)],
    ),
)
def leaderboard(rng, studies, prompts, **population):
    """Prompts have equally many verdicts or not; c and the qualities may vary between prompts. The
    truth is the estimate from very many prompts.

    Args:
      prompts: how many, and verdicts of each; more such pairs where they are not equally many.
      population: arguments of `boards`.
    """
    number, each = np.transpose(prompts)
    names = {"c": MODELS, "kappa": MODELS + 1, BEST: 0, THIRD: 2}
    if "log_nu" in population:
        names["log nu"] = MODELS + 2
    beta = limit(*boards(default_rng(0), 1, np.full(20_000, 20), **population))
    truth = {name: beta[place] for name, place in names.items()} | {RANK: 3}
    results = []
    for n in parts(studies, 50):
        drawn = boards(rng, n, np.repeat(each, number), **population)
        results += [board_of(board, names) for board in drawn]
    for c in cells_of(results, truth):
        miss = ""
        if c.printed < c.studies / 2:
            miss = FEW
        elif population.get("sd", 1.0) > 2:
            miss = "qualities are widely spread; the report says so"
        yield c if c.one_sided else replace(c, miss=miss)


@claim(
    "`jbt leaderboard`, of rankings and ratings",
    grid(kind=["rankings", "ratings"], prompts=[60, 120], sd_theta=[0.0, 0.7]),
)
def rankings(rng, studies, kind, prompts, sd_theta):
    """Four of six answers to each prompt are ranked (Plackett-Luce) or rated from 1 to 5, and
    become pairs as `jbt import` makes them. The truth is the estimate from very many prompts.

    Args:
      sd_theta: standard deviation of a model's quality between prompts, logits.
    """

    def board(rng: Generator, prompts: int) -> Problem:
        worth = SCORES + sd_theta * rng.normal(size=(prompts, MODELS))
        worth = worth + rng.gumbel(size=worth.shape)
        if kind == "ratings":
            worth = np.clip(np.round(worth + 2.5), 1, 5)
        missing = rng.random(worth.shape).argsort(axis=1)[:, :2]
        np.put_along_axis(worth, missing, np.nan, axis=1)
        verdicts = []
        for prompt, row in enumerate(worth.tolist()):
            scores = {str(model): [score] for model, score in enumerate(row) if score == score}
            for v in ratings.pairs("", None, scores):
                verdicts.append((prompt, int(v.first), int(v.second), v.p_first, v.count))
        prompt, first, second, share, weight = np.array(verdicts, float).T
        one, other, nothing = first.astype(int), second.astype(int), np.zeros((len(share), 0))
        unordered = np.zeros(len(share), bool)
        rows = Rows.build(one, other, nothing, share, weight=weight, ordered=unordered)
        at = places(theta=(MODELS,), c=(0, 1), kappa=(1,))
        return Problem.of(Listed.of(rows, MODELS), [False], Prior(1.0, 0.1), at, prompt.astype(int))

    names = {BEST: 0, THIRD: 2}
    beta = limit(board(default_rng(0), 10_000))
    truth = {name: beta[place] for name, place in names.items()} | {RANK: 3}
    yield from cells_of([board_of(board(rng, prompts), names) for _ in range(studies)], truth)


@claim(
    "`jbt leaderboard`, on one comparison",
    grid({}, {"sd": 1.2, "df": 2.5}, {"sd": 0.8, "sd_model": 0.5}, prompts=[15, 60, 200])
    + grid({"sd": 0.7, "erratic": 0.8}, {"concave": 0.5}, prompts=[60, 400])
    + grid({"sd": 0.8, "sd_prompt": 0.5}, {"gamma": 0.3}, prompts=[60, 200])
    + grid(prompts=60, sd=[2.0, 3.0])
    + grid(prompts=200, lapses=0.15),
)
def one_comparison(rng, studies, prompts, **varied):
    """c, theta and gamma of a judge on one comparison.

    Every prompt has one verdict on each pair of six models. Truths are the judge's own numbers; of
    a bias that is not linear, gamma alone is.

    Args:
      varied: arguments of `on_one_comparison`.
    """
    boards = (on_one_comparison(rng, prompts, **varied) for _ in range(studies))
    fits = [board.one_comparison for board in boards]
    fits = [one for one in fits if not isinstance(one, str)]
    truth = {"c": C, "gamma": varied.get("gamma", 0.0), BEST: SCORES[0], THIRD: SCORES[2]}
    tables = (pd.concat([one.c, one.growth, one.theta.iloc[[0, 2]]])[NUMBERS] for one in fits)
    results = [dict(zip(truth, table.to_numpy(float), strict=True)) for table in tables]
    if "concave" in varied:
        truth = {"gamma": 0.0}
    yield from cells_of(results, truth, miss=GUESSES if "lapses" in varied else "")


@claim(
    "`jbt leaderboard`: tests of what it leaves out",
    [
        {"prompts": prompts, **varied}
        for prompts in (15, 60, 200)
        for varied in (
            {},
            {"sd": 1.2},
            {"sd": 1.2, "df": 2.5},
            {"sd": 0.7, "erratic": 0.8},
            {"sd": 0.8, "sd_prompt": 0.5},
            {"sd": 0.8, "sd_model": 0.5},
        )
    ],
)
def left_out(rng, studies, prompts, **varied):
    """Tests without a false alarm, where nothing is left out along their effects; populations as of
    `one_comparison`."""
    boards = (on_one_comparison(rng, prompts, **varied) for _ in range(studies))
    p = pd.concat([board.left_out.set_index("effect")["p"] for board in boards], axis=1)
    varies = {QUALITY: varied, "c[words] between models": "sd_model" in varied}
    for effect, of_studies in p.iterrows():
        if not varies.get(str(effect)):
            miss = ""
            if "erratic" in varied and not str(effect).startswith("curvature"):
                miss = (
                    "answers that vary more have a smaller average effect: the model does not hold"
                )
            elif "sd_model" in varied and effect == PAIRS:
                miss = "a c of each model moves pairs, too: the model does not hold"
            yield kept(str(effect), of_studies.to_numpy() > ALPHA, one_sided=True, miss=miss)


def on_one_comparison(
    rng: Generator,
    prompts: int,
    *,
    sd: float = 0.0,
    df: float = np.inf,
    sd_model: float = 0.0,
    sd_prompt: float = 0.0,
    erratic: float = 0.0,
    concave: float = 0.0,
    gamma: float = 0.0,
    lapses: float = 0.0,
) -> Leaderboard:
    """A leaderboard of six models, by one verdict on each pair of answers to each prompt.

    Args:
      sd, df: of what a model's quality on a prompt differs by: standard deviation, and degrees of
        freedom of Student's t.
      sd_model, sd_prompt: standard deviations of c between models (mean 0) and prompts.
      erratic: decrease of the log of `sd` with a standard deviation of quality.
      concave: curvature of the effect of length; weak models are then shorter (correlation .7).
      gamma: change of c with a logit of quality.
      lapses: share of verdicts that are guesses.
    """
    theta, shape = SCORES, (prompts, MODELS)
    corr = 0.7 if concave else 0.0
    length = corr * theta + np.sqrt(1 - corr**2) * rng.normal(size=shape)
    x = length - length.mean(1, keepdims=True)
    of_model = sd_model * rng.normal(size=MODELS)
    c = C + of_model - of_model.mean() + sd_prompt * rng.normal(size=(prompts, 1))
    effect = c * length if not concave else C * (1 - np.exp(-concave * length)) / concave
    noise = rng.normal(size=shape)
    if np.isfinite(df):
        noise = rng.standard_t(df, shape) / np.sqrt(df / (df - 2))
    phi = theta + gamma * theta * x + sd * np.exp(-erratic * theta) * noise + effect
    pairs = np.triu_indices(MODELS, 1)
    share = verdicts(rng, phi, pairs, lapses=lapses)
    tables = tables_of(share[None], pairs, length)
    (board,) = own.leaderboard(
        tables, ["words"], standardise=False, position="no", prior=Prior(1.0, 0.1)
    )
    return board


@claim(
    "`jbt leaderboard --joint --judge-aware`",
    [
        *grid(prompts=30, second=[0.3, 2.0]),
        {"prompts": 100, "second": 0.3},
        {"prompts": 30, "second": 0.3, "sd": 0.5},
    ],
)
def judge_aware(rng, studies, prompts, second, sd=0.0):
    """Four models answer every prompt, and two judges see all pairs in both orders: one has
    discrimination 1, the other `second`; each pays for length. Without a trusted judge, theta is in
    the first judge's logits.

    Args:
      sd: standard deviation of an answer's quality about its model's, logits.
    """
    theta = np.array([1.0, 0.3, -0.4, -0.9])
    discrimination, c = np.array([[1.0, second], [0.5, 0.8]])[:, :, None, None]
    pairs, best = ordered_pairs(4), "theta, best of 4"
    truth = {"discrimination": second - 1, best: theta[0] - theta.mean()}
    results = []
    for _ in range(studies):
        x = rng.normal(size=(prompts, 4))
        phi = discrimination * (theta + sd * rng.normal(size=x.shape)) + c * x
        tables = tables_of(verdicts(rng, phi, pairs, 0.2), pairs, x)
        judges = own.Judges.of(tables)
        fit = fit_discriminations(setup_of(tables).together(judges).fit(), judges)
        # After theta, c and kappa of both judges.
        results.append(printed(intervals(fit), {"discrimination": 8, best: 0}))
    if sd:  # an answer's own quality draws all logits towards 0, which is no error of s
        del truth[best]
    yield from cells_of(results, truth)


@claim(
    "`jbt leaderboard --elo NAME=1000`",
    grid({}, VARIED, prompts=[15, 30, 100]),
)
def elo(rng, studies, prompts, **varied):
    """Six models on prompts of ten verdicts; the best is compared with the third, which has 1000.
    Where qualities vary between prompts, the truth is the estimate from very many."""
    names, theta = list("123456"), SCORES
    if varied:
        theta = limit(*boards(default_rng(0), 1, np.full(10_000, 20), **varied))
    name, scale, results = "Elo, best of 6", Elo.of("3=1000", names), []
    for problem in boards(rng, studies, np.full(prompts, 10), **varied):
        fit = problem.fit()
        columns = scale.columns(fit.theta, intervals(fit), names)
        results.append({name: [column[0] for column in columns.values()]})
    yield from cells_of(results, {name: 1000 + PER_LOGIT * (theta[0] - theta[2])})


@claim(
    "`jbt leaderboard --by COLUMN`",
    grid({}, VARIED, prompts=[(15, 15), (30, 30), (30, 100), (100, 100)])
    + grid(prompts=[(30, 30), (30, 100)], sd_second=0.6),
)
def by_value(rng, studies, prompts, sd_second=1.0, **varied):
    """The verdicts of two values, ten on each prompt.

    Args:
      prompts: of each value.
      sd_second: standard deviation of quality in the second value.
      varied: arguments of `boards`.
    """
    drawn = [
        boards(rng, studies, np.full(n, 10), sd=sd, **varied)
        for n, sd in zip(prompts, (1.0, sd_second), strict=True)
    ]
    truth = {"difference of c": 0.0, f"difference of {BEST}": (1 - sd_second) * SCORES[0]}
    results, quiet = [], []
    for one, other in zip(*drawn, strict=True):
        other = replace(other, source=other.source + prompts[0])
        table = compared(difference(one.fit(), other.fit()))
        rows = table[["difference", "low", "high"]].to_numpy(float)[[MODELS, 0]]
        results.append(dict(zip(truth, rows, strict=True)))
        quiet.append(not table["differs"].any())
    yield from cells_of(results, truth)
    if sd_second == 1:
        yield kept("no theta differs", np.array(quiet), one_sided=True)


@claim(
    "`--missing bounds`",
    grid(
        command=["leaderboard", "fit"], missing=["at random", "the longer lost", "the longer won"]
    ),
)
def missing_bounds(rng, studies, command, missing):
    """c between the outer ends of its two intervals: of the one with every missing verdict won by
    the shorter, and of the one with all won by the longer. A tenth of the verdicts is missing at
    random, or a third of those that the longer lost or won, of 60 prompts.

    Args:
      command: `leaderboard` of four models; `fit` of as many answers to each prompt, of which the
        first has two lengths.
    """
    bias, ends, twice = 0.8, [], command == "fit"
    content = np.maximum(np.arange(4 + twice) - twice, 0)
    first, second = pairs = ordered_pairs(len(content))
    for _ in range(studies):
        x = rng.normal(size=(60, len(content)))
        theta = rng.normal(size=(60, 4)) if twice else np.linspace(1, -1, 4)
        share = verdicts(rng, theta[..., content] + bias * x, pairs, KAPPA)
        longer_won = (x[:, first] > x[:, second]) == (share > 0)
        chance = {"at random": 0.1, "the longer lost": ~longer_won / 3}
        share[rng.random(share.shape) < chance.get(missing, longer_won / 3)] = np.nan
        tables = tables_of(share[None], pairs, x, content)
        c = np.array([interval_of_c(filled, twice) for *_, filled in fills(tables, ["words"])])
        ends.append((c[:, 0].min(), c[:, 1].max()))
    yield cell("c between both ends", np.transpose(ends), bias, one_sided=True)


def interval_of_c(tables: own.Tables, within: bool) -> np.ndarray:
    """[2] the interval of c that `jbt fit` prints, from answers of two lengths, or `jbt
    leaderboard`."""
    if within:
        c = own.fit_judges(own.Batch.of(tables, ["words"], standardise=False)).of("c")
        return c[["low", "high"]].to_numpy(float)[0]
    return np.array(printed(intervals(setup_of(tables).problem(0).fit()), {"c": 4})["c"][1:])


@claim(
    "`jbt doctor`: missing verdicts",
    grid(prompts=[20, 100], missing=["at random", "by prompt", "by answer", "few"]),
)
def missing_verdicts(rng, studies, prompts, missing):
    """How often the test finds nothing where losses depend on neither lengths nor verdicts. Four
    models answer every prompt. A tenth of the verdicts is missing, or most of those of some prompts
    or on some answers, or one in a hundred."""
    first, second = pairs = ordered_pairs(4)
    p = []
    for _ in range(studies):
        x = rng.normal(size=(prompts, 4))
        share = verdicts(rng, np.linspace(1, -1, 4) + 0.8 * x, pairs, KAPPA)
        some = rng.random(x.shape) < 0.15
        chance = {
            "at random": 0.1,
            "by prompt": 0.05 + 0.6 * (rng.random((prompts, 1)) < 0.1),
            "by answer": 0.02 + 0.6 * (some[:, first] | some[:, second]),
            "few": 0.01,
        }
        share[rng.random(share.shape) < chance[missing]] = np.nan
        tables = tables_of(share[None], pairs, x)
        tests = losses(tables, tables.items[["words"]].to_numpy(), ["words"])
        p.append(min(1.0, len(tests) * tests["p"].min()) if len(tests) else np.nan)
    held = np.where(np.isnan(p), np.nan, np.array(p) >= doctor.ALPHA)
    yield kept("no false alarm", held, one_sided=True)
