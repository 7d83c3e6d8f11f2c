"""Intervals of `jbt identify` where all pools of a file are merged: those of the leaderboard, which
allow for dependence between verdicts on one prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jbt import runtime
from jbt.own.examine.identify import Identified
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.board import REASONS, BiasByQuality
from jbt.own.leaderboards.interaction import bias_by_quality
from jbt.own.leaderboards.problem import Problem, Setup
from jbt.types import Fit, Prior, Status


def with_prompts(
    coefficients: list[Identified], batch: Batch, prior: Prior, judges: Judges | None = None
) -> list[Identified]:
    """Replace intervals by the leaderboard's, whose clusters are the pools of the file, and add how
    c changes with quality; unchanged where pools are not merged or the file has one.

    Args:
      judges: given if the coefficients are of all judges together.
    """
    tables = batch.tables
    if not tables.merged:
        return coefficients
    setup, named = Setup.of(
        tables,
        batch.columns,
        batch.transform,
        batch.standardise,
        "plain",
        batch.position,
        prior,
    )
    labels = [label for label, _ in named]
    by_quality: dict[tuple[str | None, str | None], BiasByQuality] = {}
    with runtime.precision("float64"):
        if judges is not None:
            names = [(judge, label) for label in labels for judge in judges.names]
            intervals = _intervals(setup.together(judges).problem, names)[0]
        else:
            intervals = {}
            for number, judge in enumerate(tables.judges):
                names, problem = [(judge, label) for label in labels], setup.problem(number)
                of_judge, fit = _intervals(problem, names)
                intervals |= of_judge
                if fit is not None:
                    for entry in bias_by_quality(problem, fit, named)[0]:
                        by_quality[judge, entry.c.covariate] = entry
    replaced = []
    for c in coefficients:
        if c.status == Status.CONVERGED:
            low, high, withheld = intervals[c.judge, c.covariate]
            entry = by_quality.get((c.judge, c.covariate))
            numbers = {"low": low, "high": high, "withheld": withheld, "by_quality": entry}
            c = dataclasses.replace(c, **numbers)
        replaced.append(c)
    return replaced


def _intervals(
    problem: Problem, names: Sequence[tuple[str | None, str]]
) -> tuple[dict[tuple[str | None, str], tuple[float, float, str]], Fit | None]:
    """Low, high and the reason for a missing interval, for the first coefficients, by name; and the
    fit, if there is one."""
    if not (problem.n_verdicts > 0).any():
        return dict.fromkeys(names, (np.nan, np.nan, REASONS["no_verdicts"])), None
    fit = problem.fit(problem.variant)
    if int(fit.status) != Status.CONVERGED:
        return dict.fromkeys(names, (np.nan, np.nan, "the fit did not converge")), None
    estimates, m = problem.intervals(fit, problem.variant), len(problem.contents)
    intervals = {}
    for p, name in enumerate(names, m):
        status = str(estimates.status[p])
        withheld = "" if status == "converged" else f"{status}, {REASONS[status]}"
        intervals[name] = float(estimates.low[p]), float(estimates.high[p]), withheld
    return intervals, fit
