"""Intervals of leaderboards: `jbt leaderboard`, with Davidson's ties, with judges of unlike
discrimination, and with a bias that changes with quality."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng
from scipy.special import expit
from scipy.stats import norm

from benchmarks.calibration import (
    Cell,
    Run,
    cells_of,
    claim,
    grid,
    kept,
    noise_of_pairs,
    ranks,
    said,
    tables_of,
)
from jbt import own
from jbt.kernel.listed import Listed
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards import discriminations, lack_of_fit
from jbt.own.leaderboards.davidson import DavidsonProblem
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.lack_of_fit import PAIRS, QUALITY
from jbt.own.leaderboards.problem import Fitted, Problem, Settings, Setup, places
from jbt.own.leaderboards.report import Leaderboard
from jbt.types import Prior, Rows

MODELS, C, KAPPA = 6, 0.6, 0.3
BOARD = "jbt leaderboard, jbt identify --merge-pools"
BOARD_OF_ONE = "jbt leaderboard, on one comparison"
BEST, RANK = "theta, best of 6", "rank, third of 6"


def normal_scores(models: int = MODELS) -> np.ndarray:
    """[models] quantiles of the normal distribution, best first, of variance 1."""
    at = -norm.ppf((np.arange(models) + 0.5) / models)
    return at / at.std()


SHUFFLED = normal_scores()[[2, 5, 0, 4, 1, 3]]
"""Nearly uncorrelated with quality."""


def random_pairs(rng: Generator, shape: Any, models: int) -> tuple[np.ndarray, ...]:
    """Two different models for each verdict."""
    one = rng.integers(0, models, shape)
    return one, (one + rng.integers(1, models, shape)) % models


def won(rng: Generator, logit: np.ndarray) -> np.ndarray:
    """Whether the first wins, 0 or 1, by log-odds."""
    return (rng.random(logit.shape) < expit(logit)) * 1.0


def problem_of(
    prompt: np.ndarray,
    pair: Any,
    x: np.ndarray,
    share: np.ndarray,
    *,
    position: bool = True,
    sides: np.ndarray | None = None,
) -> Problem:
    """What `jbt leaderboard` fits.

    Args:
      prompt, share: [verdicts] prompt, and what the first won.
      pair: [verdicts] first and second model.
      x: [prompts, models] covariate.
      sides: as of `Problem`.
    """
    first, second = pair
    rows = Rows.build(first, second, (x[prompt, first] - x[prompt, second])[:, None], share)
    rows, at = Listed.of(rows, x.shape[1]), places(theta=(x.shape[1],), c=(1, 1), kappa=(1,))
    return Problem.of(rows, [True, position], Prior(1.0, 0.1), at, prompt, sides=sides)


def printed(fit: Fitted, names: Mapping[str, int]) -> dict[str, Sequence[float]]:
    """Estimate, low and high of the parameters at some places; a name that begins with "rank" is
    the rank of the model at that place."""
    found = intervals(fit)
    rows = found.parameters[["estimate", "low", "high"]].to_numpy(float)
    return {
        name: ranks(found.better, found.ranked, place) if name.startswith("rank") else rows[place]
        for name, place in names.items()
    }


def boards(
    rng: Generator,
    n: int,
    verdicts: np.ndarray,
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
      verdicts: [prompts] number of verdicts.
      sd: standard deviation of quality, logits.
      rho: corr(theta, x) between models.
      sd_c, sd_theta, sd_pair: standard deviations between prompts, of c (and log nu), of a model's
        quality, and of what each two models add to their verdicts.
      slope: change of c with a logit of quality.
      log_nu: of Davidson's ties; default none.
    """
    theta = sd * normal_scores()
    mean = rho * normal_scores() + np.sqrt(1 - rho**2) * SHUFFLED
    x = 0.8 * mean + rng.normal(size=(n, len(verdicts), MODELS))
    c = C + sd_c * rng.normal(size=(*x.shape[:2], 1))
    tie = 0 * c if log_nu is None else log_nu + sd_c * rng.normal(size=c.shape)
    apparent = theta + sd_theta * rng.normal(size=x.shape) + (c + slope * theta) * x
    prompt = np.repeat(np.arange(len(verdicts)), verdicts)
    pair = np.stack(random_pairs(rng, (n, len(prompt)), MODELS))
    first, second = apparent[np.arange(n)[:, None], prompt, pair]
    eta = first - second + KAPPA
    if sd_pair:
        noise = noise_of_pairs(rng, (*x.shape, MODELS), sd_pair)
        eta += noise[np.arange(n)[:, None], prompt, *pair]
    if log_nu is None:
        share = won(rng, eta)
    else:
        weights = np.exp(np.stack([-eta / 2, tie[:, prompt, 0], eta / 2])).cumsum(0)
        share = (rng.random(eta.shape) * weights[-1] > weights[:-1]).sum(0) / 2
    problems = (problem_of(prompt, pair[:, i], x[i], share[i]) for i in range(n))
    return [DavidsonProblem.of_halves(problem) for problem in problems]  # changed only by ties


def limit(prompts: int, **population: Any) -> np.ndarray:
    """Estimates of theta, c, kappa (and log nu) from very many prompts of `boards`."""
    (problem,) = boards(default_rng(0), 1, np.full(prompts, 20), **population)
    return dataclasses.replace(problem, prior=Prior(1e-6, 1e-6)).fit().beta


def board_cells(
    command: str,
    setting: str,
    run: Run,
    verdicts: np.ndarray,
    names: Mapping[str, int],
    *,
    many: int = 0,
    at_once: int = 1,
    **population: Any,
) -> Iterator[Cell]:
    """Cells of studies of `boards`, some drawn at once.

    Args:
      names: as of `printed`.
      many: prompts behind the truth where it is the estimate from very many; 0 where it is known.
      population: arguments of `boards`.
    """
    log_nu = [population["log_nu"]] if "log_nu" in population else []
    beta = np.r_[population["sd"] * normal_scores(), C, KAPPA, log_nu]
    if many:
        beta = limit(many, **population)
    results = []
    while len(results) < run.studies:
        drawn = boards(run.rng, at_once, verdicts, **population)[: run.studies - len(results)]
        results += [printed(problem.fit(), names) for problem in drawn]
    truth = {n: at + 1 if n.startswith("rank") else beta[at] for n, at in names.items()}
    yield from cells_of(command, setting, results, truth)


@claim(
    "`jbt leaderboard --ties davidson`",
    grid(prompts=[20, 100], log_nu=[-2.5, 0.0, 1.5])
    + grid(prompts=[20, 100], deaf=True)
    + grid(prompts=[20, 100], slope=0.4)
    + grid(prompts=[20, 100], apart=0.7),
    most=1000,
)
def davidson(run, prompts, log_nu=0.0, deaf=False, slope=0.0, apart=0.0):
    """Every prompt has 20 verdicts, drawn from Davidson's model. Where that does not hold, the
    truth is the estimate from very many prompts.

    Args:
      deaf: whether the judge does not know quality.
      apart: standard deviation of c, log nu and a model's quality between prompts.
    """
    setting = said(
        f"{prompts} prompts",
        "a judge deaf to quality" if deaf else "a biased judge",
        f"log nu {log_nu:g}",
        slope and f"c + {slope:g} theta",
        apart and f"prompts apart by sd {apart:g}",
    )
    names = {"c": MODELS, "log nu": MODELS + 2, "kappa": MODELS + 1, BEST: 0}
    yield from board_cells(
        "jbt leaderboard --ties davidson",
        setting,
        run,
        np.full(prompts, 20),
        names if deaf else names | {RANK: 2},  # deaf: all ranks are equal
        many=10_000 * bool(slope or apart),
        sd=0.0 if deaf else 1.0,
        log_nu=log_nu,
        slope=slope,
        sd_c=apart,
        sd_theta=apart,
    )


EQUAL = [("equal", np.full(prompts, 20)) for prompts in (10, 12, 15, 30, 100)]
LOGNORMAL = [("lognormal", np.exp(norm.ppf((np.arange(g) + 0.5) / g)) * 10) for g in (15, 30, 100)]
LARGE = [("9 large", np.repeat([100, 4], [9, 91])), ("2 large", np.repeat([300, 4], [2, 98]))]
"""In words, and [prompts] number of verdicts before rounding."""


@claim(
    "`jbt leaderboard`",
    grid(
        sizes=EQUAL + LOGNORMAL + LARGE,
        varied=[{"rho": 0.5}, {"sd_c": 0.3}, {"sd_c": 0.3, "rho": 0.5}],
    )
    + grid(sizes=[EQUAL[2], LARGE[0], LOGNORMAL[2]], varied={"sd_c": 0.3, "sd_theta": 0.7})
    + grid(sd=[0.4, 2.5], sizes=[*EQUAL[3:], LARGE[0]], varied={})
    + grid(sizes=[EQUAL[2], LARGE[0], LOGNORMAL[2]], varied={"sd_pair": 0.6}),
    most=1000,
)
def leaderboard(run, sizes, varied, sd=1.0):
    """Prompts have equally many verdicts or not; c and the qualities may vary between prompts. The
    truth is then the estimate from very many prompts.

    Args:
      varied: arguments of `boards`.
    """
    kind, verdicts = sizes[0], np.maximum(1, np.round(sizes[1])).astype(int)
    between = said(
        "sd_c" in varied and f"sd of c {varied['sd_c']:g}",
        "sd_theta" in varied and f"of theta {varied['sd_theta']:g} between prompts",
        "sd_pair" in varied and f"noise of pairs {varied['sd_pair']:g}",
    )
    setting = said(
        f"{len(verdicts)} prompts, {kind}, sd of quality {sd:g}",
        f"corr(theta, x) {varied.get('rho', 0):g}",
        between or "c constant",
    )
    run = dataclasses.replace(run, rng=default_rng([run.seed, len(verdicts)]))
    names = {"c": MODELS, "kappa": MODELS + 1, BEST: 0, "theta, third of 6": 2, RANK: 2}
    population = {"sd": sd, "many": 20_000 * bool(between), "at_once": 50} | varied
    for c in board_cells(BOARD, setting, run, verdicts, names, **population):
        note = ""
        if c.printed < c.studies / 2:
            note = "withheld in most studies: too few prompts, or prior-dominated"
        elif sd > 2:
            note = "the report says how far the prior has moved theta, and to lower --lam"
        yield c if c.one_sided else dataclasses.replace(c, note=note, may_miss=bool(note))


@claim(
    "`jbt leaderboard`, on one comparison",
    grid(prompts=[15, 60, 200], varied=[{}, {"sd": 1.2, "df": 2.5}, {"sd": 0.8, "sd_model": 0.5}])
    + grid(prompts=[60, 400], varied=[{"sd": 0.7, "erratic": 0.8}, {"concave": 0.5}])
    + grid(prompts=[60, 200], varied=[{"sd": 0.8, "sd_prompt": 0.5}, {"gamma": 0.3}])
    + grid(prompts=60, varied=[{"sd": 2.0}, {"sd": 3.0}])
    + grid(prompts=200, varied=[{"lapses": 0.15}]),
    most=1000,
)
def one_comparison(run, prompts, varied):
    """c, theta and gamma of a judge on one comparison.

    Every prompt has one verdict on each pair of six models. Truths are the judge's own numbers; of
    a bias that is not linear, gamma alone is.

    Args:
      varied: arguments of `on_one_comparison`.
    """
    setting = in_words(prompts, varied)
    boards = (on_one_comparison(run.rng, prompts, **varied) for _ in range(run.studies))
    found = [one for board in boards if (one := board.one_comparison)]
    theta, names = normal_scores(), {"c": "c", "growth": "gamma"}
    truth = {
        "c": C,
        "gamma": varied.get("gamma", 0.0),
        BEST: theta[0],
        "theta, third of 6": theta[2],
    }
    if "concave" in varied:
        truth = {"gamma": 0.0}
    results = []
    for one in found:
        rows = {name: getattr(one, table).iloc[0] for table, name in names.items()}
        rows |= {BEST: one.theta.iloc[0], "theta, third of 6": one.theta.iloc[2]}
        results.append(
            {name: row[["estimate", "low", "high"]].tolist() for name, row in rows.items()}
        )
    for c in cells_of(f"{BOARD_OF_ONE}", setting, results, truth):
        miss = "guesses draw all logits towards 0" * ("lapses" in varied)
        yield dataclasses.replace(c, note=miss, may_miss=bool(miss))


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
    most=1000,
)
def left_out(run, prompts, varied):
    """Tests without a false alarm, where nothing is left out along their effects; populations as of
    `one_comparison`."""
    boards = (on_one_comparison(run.rng, prompts, **varied) for _ in range(run.studies))
    p = pd.concat([board.left_out.set_index("effect")["p"] for board in boards], axis=1)
    varies = {QUALITY: varied, "c[words] between models": "sd_model" in varied}
    for effect, of_studies in p.iterrows():
        if not varies.get(str(effect)):
            note = ""
            if "erratic" in varied and not str(effect).startswith("curvature"):
                note = "answers that vary more have a smaller average effect"
            elif "sd_model" in varied and effect == PAIRS:
                note = "a c of each model moves pairs, too"
            note += ": the model does not hold" * bool(note)
            name = f"{effect} (jbt leaderboard, score test)"
            more = {"one_sided": True, "note": note, "may_miss": bool(note)}
            held = of_studies.to_numpy() > lack_of_fit.ALPHA
            yield kept(name, in_words(prompts, varied), held, **more)


def in_words(prompts: int, varied: Mapping[str, float]) -> str:
    """A population of `on_one_comparison`."""
    words = {
        "sd": "quality varies between prompts (sd {})",
        "df": "t with {} degrees",
        "sd_model": "c between models (sd {})",
        "sd_prompt": "c between prompts (sd {})",
        "erratic": "weak models vary more (log sd by {})",
        "concave": "a concave effect of length, and shorter weak models",
        "gamma": "gamma {}",
        "lapses": "{} of verdicts are guesses",
    }
    return said(
        f"{prompts} prompts",
        *(words[name].format(f"{value:g}") for name, value in varied.items()),
        not varied and "nothing varies",
    )


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
    theta, shape = normal_scores(), (prompts, MODELS)
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
    first, second = np.array(list(itertools.combinations(range(MODELS), 2))).T
    chance = lapses / 2 + (1 - lapses) * expit(phi[:, first] - phi[:, second])
    share = (rng.random(chance.shape) < chance) * 1.0
    tables = tables_of(share[None], (first, second), length)
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
    most=1000,
)
def judge_aware(run, prompts, second, sd=0.0):
    """Four models answer every prompt, and two judges see all pairs in both orders: one has
    discrimination 1, the other `second`; each pays for length. Without a trusted judge, theta is in
    the first judge's logits.

    Args:
      sd: standard deviation of an answer's quality about its model's, logits.
    """
    theta, rng = np.array([1.0, 0.3, -0.4, -0.9]), default_rng([run.seed, prompts])
    discrimination, c = np.array([[1.0, second], [0.5, 0.8]])[:, :, None, None]
    first, last = np.array(list(itertools.permutations(range(4), 2))).T
    truth = {"discrimination": second - 1, "theta, best of 4": theta[0] - theta.mean()}
    # After theta, c and kappa of both judges.
    names = {"discrimination": 8, "theta, best of 4": 0}

    def study():
        x = rng.normal(size=(prompts, 4))
        phi = discrimination * (theta + sd * rng.normal(size=x.shape)) + c * x
        share = won(rng, phi[:, :, first] - phi[:, :, last] + 0.2)
        tables = tables_of(share, (first, last), x)
        setup = Setup.of(tables, Settings(covariates=("words",), standardise=False))
        judges = Judges.of(tables)
        fit = setup.together(judges).fit()
        return printed(discriminations.fit_discriminations(fit, judges), names)

    results = [study() for _ in range(run.studies)]
    if sd:  # an answer's own quality draws all logits towards 0, which is no error of s
        del truth["theta, best of 4"]
    setting = said(
        f"{prompts} prompts, discriminations 1 and {second:g}", sd and f"answers of sd {sd:g}"
    )
    yield from cells_of("jbt leaderboard --joint --judge-aware", setting, results, truth)
