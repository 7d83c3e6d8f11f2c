"""Intervals of leaderboards whose verdicts are pairs of rankings and ratings, as `jbt import` makes
them."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, default_rng

from benchmarks.calibration import claim, grid, said
from benchmarks.calibration.boards import (
    BEST,
    MODELS,
    RANK,
    SCORES,
    THIRD,
    fit_cells,
    limit,
    problem_of,
)
from jbt.own.formats import ratings
from jbt.own.leaderboards.problem import Problem

MANY = 10_000
"""Prompts behind the truth."""


def drawn(rng: Generator, prompts: int, kind: str, sd_theta: float) -> Problem:
    """What `jbt leaderboard` fits to scores of which the higher are better; two of six answers to a
    prompt have none.

    Args:
      kind: `rankings` by Plackett-Luce, or `ratings` from 1 to 5, with ties.
      sd_theta: standard deviation of a model's quality between prompts, logits.
    """
    worth = SCORES + sd_theta * rng.normal(size=(prompts, MODELS))
    worth = worth + rng.gumbel(size=worth.shape)
    if kind == "ratings":
        worth = np.clip(np.round(worth + 2.5), 1, 5)
    missing = rng.random(worth.shape).argsort(axis=1)[:, :2]
    np.put_along_axis(worth, missing, np.nan, axis=1)
    verdicts = [
        (prompt, v.first, v.second, v.p_first, v.count)
        for prompt, row in enumerate(worth)
        for v in ratings.pairs(
            "", None, {str(m): [w] for m, w in enumerate(row.tolist()) if w == w}
        )
    ]
    prompt, *pair, share, count = np.array(verdicts, float).T
    prompt, *pair = np.array([prompt, *pair], int)
    none = np.zeros((len(share), 0))
    unordered = {"weight": count, "ordered": np.zeros(len(share), bool)}
    return problem_of(prompt, pair, none, share, position=False, **unordered)


@claim(
    "`jbt leaderboard`, of rankings and ratings",
    grid(kind=["rankings", "ratings"], prompts=[60, 120], sd_theta=[0.0, 0.7]),
)
def rankings(run, kind, prompts, sd_theta):
    """Each prompt has answers of four of six models, all ranked or rated by the judge. The truth is
    the estimate from very many prompts."""
    beta = limit(drawn(default_rng(0), MANY, kind, sd_theta))
    problems = (drawn(run.rng, prompts, kind, sd_theta) for _ in range(run.studies))
    setting = said(f"{kind}, {prompts} prompts", sd_theta and f"apart by sd {sd_theta:g}")
    names = {BEST: 0, THIRD: 2, RANK: 2}
    yield from fit_cells("jbt leaderboard", setting, problems, names, beta)
