"""What readers of a leaderboard compare: Elo with an anchor, and values of a column (`--by`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.calibration import Run, cells_of, claim, grid, kept, said
from benchmarks.calibration.boards import BEST, MODELS, boards, normal_scores
from jbt.own.leaderboards.by_value import compared, difference
from jbt.own.leaderboards.elo import PER_LOGIT, Elo
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.problem import Problem

VARIED = {"sd_c": 0.3, "sd_theta": 0.7}
"""Standard deviations between prompts, where Bradley-Terry does not hold."""


def between(varied: dict[str, float]) -> str:
    """Such a population in words."""
    return "c and qualities vary between prompts" if varied else "nothing varies between prompts"


@claim(
    "`jbt leaderboard --elo NAME=1000`", grid(prompts=[15, 30, 100], varied=[{}, VARIED]), most=1000
)
def elo(run: Run, prompts: int, varied: dict[str, float]) -> Iterator[Any]:
    """Six models on prompts of ten verdicts; the best is compared with the third, which has 1000.
    Where qualities vary between prompts, the truth is the estimate from very many."""
    names = [str(m) for m in range(MODELS)]
    population, scale = {"sd": 1.0, **varied}, Elo.of("2=1000", names)
    theta = normal_scores()
    if varied:
        (many,) = boards(np.random.default_rng(0), 1, np.full(10_000, 20), **population)
        theta = dataclasses.replace(many, prior=many.prior).fit().theta
    results = []
    for problem in boards(run.rng, run.studies, np.full(prompts, 10), **population):
        fit = problem.fit()
        columns = scale.columns(fit.theta, intervals(fit), names)
        results.append({"Elo, best of 6": [columns[name][0] for name in columns]})
    truth = {"Elo, best of 6": 1000 + PER_LOGIT * (theta[0] - theta[2])}
    setting = said(f"{prompts} prompts", between(varied))
    yield from cells_of("jbt leaderboard --elo NAME=1000", setting, results, truth)


SIZES = [(15, 15), (30, 30), (30, 100), (100, 100)]
"""Prompts of the two values."""


@claim(
    "`jbt leaderboard --by COLUMN`",
    grid(prompts=SIZES, varied=[{}, VARIED])
    + grid(prompts=[(30, 30), (30, 100)], varied={}, second=0.6)
    + grid(prompts=[(30, 30), (100, 100)], varied=[{}, VARIED], shared=True),
    most=1000,
)
def by_value(
    run: Run,
    prompts: tuple[int, int],
    varied: dict[str, float],
    second: float = 1.0,
    shared: bool = False,
) -> Iterator[Any]:
    """The verdicts of two values, ten on each prompt.

    Args:
      prompts: of each value.
      varied: arguments of `boards`.
      second: standard deviation of quality in the second value.
      shared: whether both values have the same prompts, on which answers are alike.
    """
    command, null = "jbt leaderboard --by", second == 1
    if shared:
        whole = boards(run.rng, run.studies, np.full(prompts[0], 20), **varied)
        pairs = [halves(problem) for problem in whole]
    else:
        drawn = [
            boards(run.rng, run.studies, np.full(n, 10), sd=sd, **varied)
            for n, sd in zip(prompts, (1.0, second), strict=True)
        ]
        pairs = [
            (a, dataclasses.replace(b, source=b.source + prompts[0]))
            for a, b in zip(*drawn, strict=True)
        ]
    results, quiet = [], []
    for one, other in pairs:
        table = compared(difference(one.fit(), other.fit()))
        rows = table[["difference", "low", "high"]].to_numpy(float)
        results.append({"difference of c": rows[MODELS], f"difference of {BEST}": rows[0]})
        quiet.append(not table["differs"].any())
    truth = {"difference of c": 0.0, f"difference of {BEST}": (1 - second) * normal_scores()[0]}
    setting = said(
        f"{prompts[0]} and {prompts[1]} prompts",
        shared and "the same",
        between(varied),
        not null and f"qualities of the second of sd {second:g}",
    )
    yield from cells_of(command, setting, results, truth, one_sided=shared)
    if null:
        yield kept(f"no theta differs ({command})", setting, np.array(quiet), one_sided=True)


def halves(problem: Problem) -> tuple[Problem, Problem]:
    """Every other verdict, and those between."""
    parts, n = [], len(problem.rows.shown)
    for half in range(2):
        mask = np.arange(n) % 2 == half
        rows = dataclasses.replace(
            problem.rows, shown=problem.rows.shown * mask, wins=problem.rows.wins * mask
        )
        parts.append(dataclasses.replace(problem, rows=rows))
    return parts[0], parts[1]
