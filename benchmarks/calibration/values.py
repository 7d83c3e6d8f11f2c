"""What readers of a leaderboard compare: Elo with an anchor, and values of a column (`--by`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.calibration import cells_of, claim, grid, kept, said
from benchmarks.calibration.boards import BEST, MODELS, SCORES, boards, limit
from jbt.own.leaderboards.by_value import compared, difference
from jbt.own.leaderboards.elo import PER_LOGIT, Elo
from jbt.own.leaderboards.intervals import intervals

VARIED = {"sd_c": 0.3, "sd_theta": 0.7}
"""Standard deviations between prompts, where Bradley-Terry does not hold."""


def between(varied: dict[str, float]) -> str:
    """Such a population in words."""
    return "c and qualities vary between prompts" if varied else "nothing varies between prompts"


@claim("`jbt leaderboard --elo NAME=1000`", grid(prompts=[15, 30, 100], varied=[{}, VARIED]))
def elo(run, prompts, varied):
    """Six models on prompts of ten verdicts; the best is compared with the third, which has 1000.
    Where qualities vary between prompts, the truth is the estimate from very many."""
    names, theta = list("123456"), SCORES
    if varied:
        theta = limit(*boards(np.random.default_rng(0), 1, np.full(10_000, 20), **varied))
    name, scale, results = "Elo, best of 6", Elo.of("3=1000", names), []
    for problem in boards(run.rng, run.studies, np.full(prompts, 10), **varied):
        fit = problem.fit()
        columns = scale.columns(fit.theta, intervals(fit), names)
        results.append({name: [column[0] for column in columns.values()]})
    truth = {name: 1000 + PER_LOGIT * (theta[0] - theta[2])}
    setting = said(f"{prompts} prompts", between(varied))
    yield from cells_of("jbt leaderboard --elo NAME=1000", setting, results, truth)


SIZES = [(15, 15), (30, 30), (30, 100), (100, 100)]
"""Prompts of the two values."""


@claim(
    "`jbt leaderboard --by COLUMN`",
    grid(prompts=SIZES, varied=[{}, VARIED])
    + grid(prompts=[(30, 30), (30, 100)], varied={}, second=0.6),
)
def by_value(run, prompts, varied, second=1.0):
    """The verdicts of two values, ten on each prompt.

    Args:
      prompts: of each value.
      varied: arguments of `boards`.
      second: standard deviation of quality in the second value.
    """
    command, null, first = "jbt leaderboard --by", second == 1, prompts[0]
    drawn = [
        boards(run.rng, run.studies, np.full(n, 10), sd=sd, **varied)
        for n, sd in zip(prompts, (1.0, second), strict=True)
    ]
    pairs = [(a, replace(b, source=b.source + first)) for a, b in zip(*drawn, strict=True)]
    truth = {"difference of c": 0.0, f"difference of {BEST}": (1 - second) * SCORES[0]}
    results, quiet = [], []
    for one, other in pairs:
        table = compared(difference(one.fit(), other.fit()))
        rows = table[["difference", "low", "high"]].to_numpy(float)[[MODELS, 0]]
        results.append(dict(zip(truth, rows, strict=True)))
        quiet.append(not table["differs"].any())
    setting = said(
        f"{first} and {prompts[1]} prompts",
        between(varied),
        not null and f"qualities of the second of sd {second:g}",
    )
    yield from cells_of(command, setting, results, truth)
    if null:
        yield kept(f"no theta differs ({command})", setting, np.array(quiet), one_sided=True)
