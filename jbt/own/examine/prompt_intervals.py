"""Intervals of `jbt identify` where all pools of a file are merged: those of the leaderboard, which
allow for dependence between verdicts on one prompt."""

from __future__ import annotations

import dataclasses

from jbt import runtime
from jbt.own.examine.identify import Identified
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.growth import bias_by_quality
from jbt.own.leaderboards.intervals import REASONS
from jbt.own.leaderboards.intervals import intervals as intervals_of
from jbt.own.leaderboards.problem import Settings, Setup
from jbt.types import Prior, Status


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
    settings = Settings(**vars(batch.model), prior=prior)
    setup, intervals, by_quality = Setup.of(tables, settings), {}, {}
    with runtime.precision("float64"):
        problems = (
            [((judge,), setup.problem(g)) for g, judge in enumerate(tables.judges)]
            if judges is None
            else [(judges.names, setup.together(judges))]
        )
        for names, problem in problems:
            fit = problem.fit()
            table = intervals_of(fit).parameters
            for covariate, places in zip(setup.covariates, problem.at["c"], strict=True):
                for judge, row in zip(names, table.iloc[places].itertuples(), strict=True):
                    why = REASONS.get(row.status, "the fit did not converge")
                    why = f"{row.status}, {why}" if fit.status == Status.CONVERGED else why
                    withheld = "" if row.status == "converged" else why
                    intervals[judge, covariate] = row.low, row.high, withheld
            if judges is None and fit.status == Status.CONVERGED:
                for entry in bias_by_quality(fit, setup.covariates)[0]:
                    by_quality[names[0], entry.covariate] = entry
    replaced = []
    for c in coefficients:
        if c.status == Status.CONVERGED:
            low, high, withheld = intervals[c.judge, c.covariate]
            entry = by_quality.get((c.judge, c.covariate))
            numbers = {"low": low, "high": high, "withheld": withheld, "by_quality": entry}
            c = dataclasses.replace(c, **numbers)
        replaced.append(c)
    return replaced
