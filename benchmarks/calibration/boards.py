"""Intervals of leaderboards: `jbt leaderboard`, with Davidson's ties, with judges of unlike
discrimination, and with a bias that changes with quality."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng
from scipy.stats import norm

from benchmarks.calibration import (
    COMPARED,
    Cell,
    cells_of,
    claim,
    described,
    grid,
    kept,
    noise_of_pairs,
    ordered_pairs,
    parts,
    ranks,
    said,
    tables_of,
    verdicts,
)
from jbt import own
from jbt.kernel.listed import Listed
from jbt.own.leaderboards import discriminations, lack_of_fit
from jbt.own.leaderboards.davidson import DavidsonProblem
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.lack_of_fit import PAIRS, QUALITY
from jbt.own.leaderboards.problem import Fitted, Problem, Settings, Setup, places
from jbt.own.leaderboards.report import Leaderboard
from jbt.types import Prior, Rows

MODELS, C, KAPPA = 6, 0.6, 0.3
BEST, THIRD = "theta, best of 6", "theta, third of 6"
RANK = "rank, third of 6"
NUMBERS = ["estimate", "low", "high"]

SCORES = -norm.ppf((np.arange(MODELS) + 0.5) / MODELS)
SCORES /= SCORES.std()
"""Quantiles of the normal distribution, best first, of variance 1."""
SHUFFLED = SCORES[[2, 5, 0, 4, 1, 3]]
"""Nearly uncorrelated with quality."""


def problem_of(
    prompt: np.ndarray,
    pair: Any,
    columns: np.ndarray,
    share: np.ndarray,
    position: bool = True,
    **more: np.ndarray,
) -> Problem:
    """What `jbt leaderboard` fits.

    Args:
      prompt, share: [verdicts] prompt, and what the first won.
      pair: [verdicts] first and second model.
      columns: [verdicts, D] differences of covariates.
      position: whether kappa is free.
      more: arguments of `Rows.build`.
    """
    first, second = pair
    rows, d = Rows.build(first, second, columns, share, **more), columns.shape[1]
    at = places(theta=(MODELS,), c=(d, 1), kappa=(1,))
    free = [*[True] * d, position]
    return Problem.of(Listed.of(rows, MODELS), free, Prior(1.0, 0.1), at, prompt)


def limit(problem: Problem) -> np.ndarray:
    """Estimates of theta, c, kappa (and log nu) from very many prompts."""
    return dataclasses.replace(problem, prior=Prior(1e-6, 1e-6)).fit().beta


def printed(fit: Fitted, names: Mapping[str, int]) -> dict[str, Sequence[float]]:
    """Estimate, low and high of the parameters at some places; a name that begins with "rank" is
    the rank of the model at that place."""
    found = intervals(fit)
    rows = found.parameters[NUMBERS].to_numpy(float)
    return {
        name: ranks(found.better, found.ranked, place) if name.startswith("rank") else rows[place]
        for name, place in names.items()
    }


def fit_cells(
    command: str,
    setting: str,
    problems: Iterable[Problem],
    names: Mapping[str, int],
    beta: np.ndarray,
) -> Iterator[Cell]:
    """Cells of what is `printed` of a fit of each study; beta: true parameters."""
    results = [printed(problem.fit(), names) for problem in problems]
    truth = {n: at + 1 if n.startswith("rank") else beta[at] for n, at in names.items()}
    yield from cells_of(command, setting, results, truth)


def boards(
    rng: Generator,
    n: int,
    sizes: np.ndarray,
    *,
    sd: float = 1.0,
    rho: float = 0.0,
    sd_c: float = 0.0,
    sd_theta: float = 0.0,
    sd_pair: float = 0.0,
    slope: float = 0.0,
    log_nu: float | None = None,
) -> list[Problem]:
    """n studies of random ordered pairs of six models that answer every prompt.

    Args:
      sizes: [prompts] number of verdicts.
      sd: standard deviation of quality, logits.
      rho: corr(theta, x) between models.
      sd_c, sd_theta, sd_pair: standard deviations between prompts, of c (and log nu), of a model's
        quality, and of what each two models add to their verdicts.
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
    noise = noise_of_pairs(rng, (*x.shape, MODELS), sd_pair)
    eta = one - other + KAPPA + noise[study, prompt, *pair]
    weights = np.exp(np.stack([-eta / 2, tie[:, prompt, 0], eta / 2])).cumsum(0)
    share = (rng.random(eta.shape) * weights[-1] > weights[:-1]).sum(0) / 2
    one, other = x[study, prompt, pair]
    problems = map(
        problem_of, itertools.repeat(prompt), pair.swapaxes(0, 1), (one - other)[..., None], share
    )
    return [DavidsonProblem.of_halves(problem) for problem in problems]  # changed only by ties


EQUAL = {g: ("equal", np.full(g, 20)) for g in (10, 12, 15, 20, 30, 100)}
LOGNORMAL = {
    g: ("lognormal", np.exp(norm.ppf((np.arange(g) + 0.5) / g)) * 10) for g in (15, 30, 100)
}
LARGE = [("9 large", np.repeat([100, 4], [9, 91])), ("2 large", np.repeat([300, 4], [2, 98]))]
"""In words, and [prompts] number of verdicts before rounding."""

POPULATION = {
    "sd": "sd of quality {:g}",
    "rho": "corr(theta, x) {:g}",
    "sd_c": "sd of c {:g}",
    "sd_theta": "of theta {:g} between prompts",
    "sd_pair": "noise of pairs {:g}",
    "slope": "c + {:g} theta",
    "log_nu": "log nu {:g}",
}
"""Arguments of `boards` in words."""


@claim(
    "`jbt leaderboard --ties davidson`",
    grid(
        sizes=[EQUAL[20], EQUAL[100]],
        varied=[
            {"log_nu": -2.5},
            {"log_nu": 0.0},
            {"log_nu": 1.5},
            {"sd": 0.0, "log_nu": 0.0},
            {"slope": 0.4, "log_nu": 0.0},
            {"sd_c": 0.7, "sd_theta": 0.7, "log_nu": 0.0},
        ],
    ),
    name="davidson",
)
@claim(
    "`jbt leaderboard`",
    grid(
        sizes=[
            *(EQUAL[g] for g in (10, 12, 15, 30, 100)),
            *LOGNORMAL.values(),
            *LARGE,
        ],
        varied=[{"rho": 0.5}, {"sd_c": 0.3}, {"sd_c": 0.3, "rho": 0.5}],
    )
    + grid(
        sizes=[EQUAL[15], LARGE[0], LOGNORMAL[100]],
        varied=[{"sd_c": 0.3, "sd_theta": 0.7}, {"sd_pair": 0.6}],
    )
    + grid(sizes=[EQUAL[30], EQUAL[100], LARGE[0]], varied=[{"sd": 0.4}, {"sd": 2.5}]),
)
def leaderboard(run, sizes, varied):
    """Prompts have equally many verdicts or not; c and the qualities may vary between prompts. The
    truth is the estimate from very many prompts.

    Args:
      varied: arguments of `boards`.
    """
    kind, sizes = sizes[0], np.maximum(1, np.round(sizes[1])).astype(int)
    population = {"sd": 1.0} | varied
    words = f"{len(sizes)} prompts, {kind}, {described(POPULATION, population)}"
    names = {"c": MODELS, "kappa": MODELS + 1, BEST: 0, THIRD: 2}
    command = "jbt leaderboard, jbt identify --merge-pools"
    if "log_nu" in varied:
        names["log nu"] = MODELS + 2
        command = "jbt leaderboard --ties davidson"
    if population["sd"]:  # else all ranks are equal
        names[RANK] = 2
    beta = limit(*boards(default_rng(0), 1, np.full(20_000, 20), **population))
    problems = (
        board for n in parts(run.studies, 50) for board in boards(run.rng, n, sizes, **population)
    )
    for c in fit_cells(command, words, problems, names, beta):
        miss = ""
        if c.printed < c.studies / 2:
            miss = "withheld in most studies: too few prompts, or prior-dominated"
        elif population["sd"] > 2:
            miss = "the report says how far the prior has moved theta, and to lower --lam"
        yield c if c.one_sided else dataclasses.replace(c, miss=miss)


@claim(
    "`jbt leaderboard`, on one comparison",
    grid(prompts=[15, 60, 200], varied=[{}, {"sd": 1.2, "df": 2.5}, {"sd": 0.8, "sd_model": 0.5}])
    + grid(prompts=[60, 400], varied=[{"sd": 0.7, "erratic": 0.8}, {"concave": 0.5}])
    + grid(prompts=[60, 200], varied=[{"sd": 0.8, "sd_prompt": 0.5}, {"gamma": 0.3}])
    + grid(prompts=60, varied=[{"sd": 2.0}, {"sd": 3.0}])
    + grid(prompts=200, varied=[{"lapses": 0.15}])
    + grid(prompts=60, varied=[{"sd": 0.8, "ties": 0.5}]),
)
def one_comparison(run, prompts, varied):
    """c, theta and gamma of a judge on one comparison.

    Every prompt has one verdict on each pair of six models. Truths are the judge's own numbers; of
    a bias that is not linear, gamma alone is.

    Args:
      varied: arguments of `on_one_comparison`.
    """
    boards = (on_one_comparison(run.rng, prompts, **varied) for _ in range(run.studies))
    fits = [board.one_comparison for board in boards]
    fits = [one for one in fits if not isinstance(one, str)]
    truth = {"c": C, "gamma": varied.get("gamma", 0.0), BEST: SCORES[0], THIRD: SCORES[2]}
    tables = (pd.concat([one.c, one.growth, one.theta.iloc[[0, 2]]])[NUMBERS] for one in fits)
    results = [dict(zip(truth, table.to_numpy(float), strict=True)) for table in tables]
    if "concave" in varied:
        truth = {"gamma": 0.0}
    misses = {
        "lapses": "guesses draw all logits towards 0",
        "ties": "decided verdicts are surer than those that could have been ties",
    }
    miss = described(misses, varied)
    command, setting = "jbt leaderboard, on one comparison", in_words(prompts, varied)
    if "ties" in varied:
        command += f", {COMPARED}"
    yield from cells_of(command, setting, results, truth, miss=miss)


@claim(
    "`jbt leaderboard`: tests of what it leaves out",
    grid(
        prompts=[15, 60, 200],
        varied=[
            {},
            {"sd": 1.2},
            {"sd": 1.2, "df": 2.5},
            {"sd": 0.7, "erratic": 0.8},
            {"sd": 0.8, "sd_prompt": 0.5},
            {"sd": 0.8, "sd_model": 0.5},
        ],
    ),
)
def left_out(run, prompts, varied):
    """Tests without a false alarm, where nothing is left out along their effects; populations as of
    `one_comparison`."""
    boards = (on_one_comparison(run.rng, prompts, **varied) for _ in range(run.studies))
    p = pd.concat([board.left_out.set_index("effect")["p"] for board in boards], axis=1)
    varies = {QUALITY: varied, "c[words] between models": "sd_model" in varied}
    for effect, of_studies in p.iterrows():
        if not varies.get(str(effect)):
            miss = ""
            if "erratic" in varied and not str(effect).startswith("curvature"):
                miss = "answers that vary more have a smaller average effect"
            elif "sd_model" in varied and effect == PAIRS:
                miss = "a c of each model moves pairs, too"
            miss += ": the model does not hold" * bool(miss)
            name = f"{effect} (jbt leaderboard, score test)"
            held = of_studies.to_numpy() > lack_of_fit.ALPHA
            yield kept(name, in_words(prompts, varied), held, one_sided=True, miss=miss)


def in_words(prompts: int, varied: Mapping[str, float]) -> str:
    """A population of `on_one_comparison`."""
    words = {
        "sd": "quality varies between prompts (sd {:g})",
        "df": "t with {:g} degrees",
        "sd_model": "c between models (sd {:g})",
        "sd_prompt": "c between prompts (sd {:g})",
        "erratic": "weak models vary more (log sd by {:g})",
        "concave": "a concave effect of length, and shorter weak models",
        "gamma": "gamma {:g}",
        "lapses": "{:g} of verdicts are guesses",
        "ties": "ties within {:g} logits left out",
    }
    return f"{prompts} prompts, {described(words, varied) or 'nothing varies'}"


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
    ties: float = 0.0,
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
      ties: see `verdicts`; they are left out.
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
    share = verdicts(rng, phi, pairs, lapses=lapses, ties=ties)
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
def judge_aware(run, prompts, second, sd=0.0):
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
    for _ in range(run.studies):
        x = run.rng.normal(size=(prompts, 4))
        phi = discrimination * (theta + sd * run.rng.normal(size=x.shape)) + c * x
        tables = tables_of(verdicts(run.rng, phi, pairs, 0.2), pairs, x)
        setup = Setup.of(tables, Settings(covariates=("words",), standardise=False))
        judges = own.Judges.of(tables)
        fit = discriminations.fit_discriminations(setup.together(judges).fit(), judges)
        # After theta, c and kappa of both judges.
        results.append(printed(fit, {"discrimination": 8, best: 0}))
    if sd:  # an answer's own quality draws all logits towards 0, which is no error of s
        del truth[best]
    setting = said(
        f"{prompts} prompts, discriminations 1 and {second:g}", sd and f"answers of sd {sd:g}"
    )
    yield from cells_of("jbt leaderboard --joint --judge-aware", setting, results, truth)
