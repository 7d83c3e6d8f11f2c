"""Intervals of leaderboards whose verdicts are pairs of rankings and ratings, as `jbt import` makes
them."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.random import Generator, default_rng

from benchmarks.calibration import cells_of, claim, grid, said
from benchmarks.calibration.boards import BEST, MODELS, RANK, normal_scores, printed
from jbt.kernel.listed import Listed
from jbt.own.formats import ratings
from jbt.own.leaderboards.problem import Problem, places
from jbt.types import Prior, Rows

MANY = 10_000
"""Prompts behind the truth."""


def scored(rng: Generator, prompts: int, kind: str, sd_theta: float) -> np.ndarray:
    """[prompts, models] scores of which the higher are better; NaN for answers that a prompt does
    not have (two of six).

    Args:
      kind: `rankings` by Plackett-Luce, or `ratings` from 1 to 5, with ties.
      sd_theta: standard deviation of a model's quality between prompts, logits.
    """
    worth = normal_scores() + sd_theta * rng.normal(size=(prompts, MODELS))
    worth = worth + rng.gumbel(size=worth.shape)
    if kind == "ratings":
        worth = np.clip(np.round(worth + 2.5), 1, 5)
    missing = rng.random(worth.shape).argsort(axis=1)[:, :2]
    np.put_along_axis(worth, missing, np.nan, axis=1)
    return worth


def problem_of_scores(scores: np.ndarray) -> Problem:
    """What `jbt leaderboard` fits to the scores [prompts, models]."""
    verdicts = []
    for prompt, row in enumerate(scores):
        rated = {str(m): [v] for m, v in enumerate(row.tolist()) if v == v}
        verdicts += ratings.pairs(str(prompt), None, rated)
    first, second = np.array([(v.first, v.second) for v in verdicts], int).T
    share, count = np.array([(v.p_first, v.count) for v in verdicts], float).T
    none = np.zeros((len(share), 0))
    rows = Rows.build(first, second, none, share, weight=count, ordered=np.zeros(len(share), bool))
    at = places(theta=(MODELS,), c=(0, 1), kappa=(1,))
    prompts = np.array([v.pool for v in verdicts], int)
    return Problem.of(Listed.of(rows, MODELS), [False], Prior(1.0, 0.1), at, prompts)


@claim(
    "`jbt leaderboard`, of rankings and ratings",
    grid(kind=["rankings", "ratings"], prompts=[60, 120], sd_theta=[0.0, 0.7]),
    most=1000,
)
def rankings(run, kind, prompts, sd_theta):
    """Each prompt has answers of four of six models, all ranked or rated by the judge. The truth is
    the estimate from very many prompts."""
    many = problem_of_scores(scored(default_rng(0), MANY, kind, sd_theta))
    beta = dataclasses.replace(many, prior=Prior(1e-6, 1e-6)).fit().beta
    names = {BEST: 0, "theta, third of 6": 2, RANK: 2}
    results = []
    for _ in range(run.studies):
        fit = problem_of_scores(scored(run.rng, prompts, kind, sd_theta)).fit()
        results.append(printed(fit, names))
    truth = {name: at + 1 if name.startswith("rank") else beta[at] for name, at in names.items()}
    setting = said(f"{kind}, {prompts} prompts", sd_theta and f"apart by sd {sd_theta:g}")
    yield from cells_of("jbt leaderboard", setting, results, truth)
