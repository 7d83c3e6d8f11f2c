"""Rank models by a user's verdicts over many prompts, naive and corrected (for length, say)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from jbt import identifiability, runtime
from jbt.kernel import metrics
from jbt.own.fits.judges import JOINT, Judges
from jbt.own.leaderboards.checks import check_anchors, judged_items, outside, under_other_choices
from jbt.own.leaderboards.davidson import problem_of
from jbt.own.leaderboards.growth import bias_by_quality, estimated, fit_discriminations
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.prediction_powered import LabelledWinRates, labelled_win_rates
from jbt.own.leaderboards.problem import Fitted, Problem, Settings, Setup, merge_pools
from jbt.own.leaderboards.report import Leaderboard, Leaderboards
from jbt.own.shared_coefficients.directions import MOVED
from jbt.own.tables.pairs import agreement
from jbt.own.tables.tables import Tables
from jbt.types import Prior, Status

UNNAMED = {"unit": "", "profile_range": np.nan, "judge": None, "told_by": None}
"""What `Leaderboard.coefficients` says of a coefficient by default."""

NO_TIES = -1
"""Place of log nu where it is no parameter."""


def leaderboard(
    tables: Tables,
    covariates: Sequence[str] = (),
    *,
    together: tuple[Tables, Judges] | None = None,
    prior: Prior | None = None,
    **settings: Any,
) -> Leaderboards:
    """Rank the models of a table of verdicts, with intervals (MAP, float64).

    Args:
      tables: from `read`, pools not merged. Models are the contents, or the names of the items
        where there is no column `content`.
      covariates: see `covariate_values`.
      together: the tables with the anchors among the verdicts (`Tables.with_anchors`) and their
        judges, for one more leaderboard of all judges together.
      prior: default `Prior()`.
      settings: the other fields of `problem.Settings`: transform, standardise, position,
        difference, robust, interaction, against, judge_aware, beside.

    Returns:
      A leaderboard for each judge, then that of all judges together. A judge without a maximum, or
      with interaction one whose verdicts do not identify gamma, has a status and no ranking.

    Raises:
      ValueError: fewer than two models; see also `Settings.check_with`, `covariate_values` and
        `labelled_win_rates`.
    """
    asked = Settings(covariates=tuple(covariates), prior=prior or Prior(), **settings)
    asked.check_with(tables, joint=together is not None)
    judges = range(len(tables.judges))
    labelled = [labelled_win_rates(tables, judge) if asked.beside else None for judge in judges]
    robust = under_other_choices(tables, asked) if asked.robust else [None] * len(judges)
    setup = Setup.of(tables, asked)
    with runtime.precision("float64"):
        boards = [
            dataclasses.replace(_of_judge(setup, judge, labelled[judge]), robust=robust[judge])
            for judge in judges
        ]
        if together is not None:
            tables, panel = together
            joint = dataclasses.replace(setup, tables=tables, merged=merge_pools(tables))
            boards.append(_of_all(joint, panel))
    return Leaderboards(boards, asked)


def _naive_and_aware(problem: Problem) -> tuple[Fitted, Fitted]:
    """Both fits; where one has no maximum, neither counts."""
    naive, aware = problem.fit(problem.naive), problem.fit()
    status = max(naive.status, aware.status)
    return dataclasses.replace(naive, status=status), dataclasses.replace(aware, status=status)


def _of_judge(setup: Setup, judge: int, labelled: LabelledWinRates | None) -> Leaderboard:
    """The leaderboard of one judge."""
    tables, problem = setup.tables, problem_of(setup, judge)
    naive, fit = _naive_and_aware(problem)
    evidence = _evidence(fit)
    by_quality = []
    if fit.status == Status.CONVERGED:
        by_quality, growing = bias_by_quality(fit, setup.covariates)
        if setup.settings.interaction and growing is not None:
            fit, evidence = growing, {}
    rows, at = _biases(setup, fit, evidence), fit.problem.at
    if tables.ties == "davidson":
        rows.append({"place": at["log_nu"][0] if "log_nu" in at else NO_TIES, "kind": "log nu"})
    seen = tables.items.iloc[judged_items(tables, judge)].groupby("content")
    columns: dict[Any, Any] = {
        f"average_{name}": seen[name].mean().reindex(range(len(tables.contents)))
        for name in setup.settings.covariates
    }
    if labelled is not None:
        columns = (
            labelled.models.drop(columns="model").add_prefix("ppi_").to_dict("series") | columns
        )
    return Leaderboard(
        judge=tables.judges[judge],
        **_results(tables.contents, naive, fit, rows, columns),
        by_quality=by_quality,
        anchors=check_anchors(tables, judge, setup.x, fit.theta, naive.theta),
        outside=outside(setup, judge),
        labelled=labelled,
    )


def _of_all(setup: Setup, judges: Judges) -> Leaderboard:
    """The leaderboard of all judges together."""
    tables, problem = setup.tables, setup.together(judges)
    naive, fit = _naive_and_aware(problem)
    has_slopes = setup.settings.judge_aware and fit.status == Status.CONVERGED
    rows = _biases(setup, fit, {} if has_slopes else _evidence(fit), judges)
    if has_slopes:
        fit = fit_discriminations(fit, judges)
    slopes = fit.problem.at.get("gamma", ())
    rows += [
        {"place": place, "kind": "discrimination", "judge": judges.names[g]}
        for place, g in zip(slopes, estimated(judges), strict=False)
    ]
    return Leaderboard(
        judge=JOINT,
        **_results(tables.contents, naive, fit, rows, {}),
        trusted=judges.trusted,
        agreements=agreement(tables, judges.known),
    )


def _evidence(fit: Fitted) -> dict[int, float]:
    """The profile range of each free c, by place."""
    at, free = fit.problem.at["c"].ravel().tolist(), fit.problem.free
    return {place: fit.profile_range(place) for place in at if free[place]}


def _biases(
    setup: Setup, fit: Fitted, evidence: dict[int, float], judges: Judges | None = None
) -> list[dict[str, Any]]:
    """A row of `_coefficients` for each free c and kappa; with judge and whose verdicts identify
    it, where all judges are fitted together."""
    problem = fit.problem
    places = np.concatenate([problem.at["c"], problem.at["kappa"][None]])  # [D + 1, J]
    named = [("c", name, unit) for name, unit in zip(setup.covariates, setup.units, strict=True)]
    names, told_by = [None], [[None] * len(places)]
    if judges is not None:
        names = judges.names
        told_by = judges.identified_by(lambda members: _identified(problem, members)[places])
    return [
        {
            "place": place,
            "kind": kind,
            "covariate": name,
            "unit": unit,
            "profile_range": evidence.get(place, np.nan),
            "judge": judge,
            "told_by": whose and list(whose),
        }
        for judge, own, by_coefficient in zip(names, places.T.tolist(), told_by, strict=True)
        for place, whose, (kind, name, unit) in zip(
            own, by_coefficient, [*named, ("kappa", "kappa", "")], strict=True
        )
        if problem.free[place]
    ]


def _identified(problem: Problem, members: np.ndarray) -> np.ndarray:
    """[P] which free coefficients the verdicts of the judges in a mask [J] identify."""
    shown = np.asarray(problem.rows.shown) * members[problem.judge]
    rows = dataclasses.replace(problem.rows, shown=jnp.asarray(shown))
    directions = identifiability.null_space(problem.design, rows, position=False).directions
    largest = np.abs(directions).max(1, initial=1e-300, keepdims=True)
    return ~(np.abs(directions) > MOVED * largest).any(0) & problem.free


def _coefficients(ends: Intervals, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """`Leaderboard.coefficients`: the parameters at the `place` of each row."""
    rows = [{"covariate": row["kind"], **UNNAMED, **row} for row in rows]
    table = pd.DataFrame(rows, columns=pd.Index(["place", "kind", "covariate", *UNNAMED]))
    numbers = ends.parameters.reindex(table.pop("place")).reset_index(drop=True)
    numbers["status"] = numbers["status"].fillna("no_ties")
    # s = 1 + gamma
    is_slope = (table["kind"] == "discrimination").to_numpy()
    numbers.loc[is_slope, ["estimate", "low", "high"]] += 1
    return pd.concat([table, numbers], axis=1)


def _results(
    names: list[str],
    naive: Fitted,
    fit: Fitted,
    rows: list[dict[str, Any]],
    columns: dict[str, Any],
) -> dict[str, Any]:
    """What every leaderboard has: status, models, coefficients, n_clusters.

    Args:
      names: of the models.
      rows: of the coefficients.
      columns: further columns of the models.
    """
    problem, ends, naive_ends = fit.problem, intervals(fit), intervals(naive).parameters
    m, n_known = len(names), (problem.n_verdicts > 0).sum()
    table = pd.DataFrame(
        {
            "model": names,
            "theta": fit.theta,
            **ends.parameters[["low", "high"]].head(m),
            "theta_naive": naive.theta,
            **naive_ends[["low", "high"]].head(m).add_suffix("_naive"),
            "rank": metrics.ranks(fit.theta),
            "rank_low": np.where(ends.ranked, 1 + ends.better.sum(1), np.nan),
            "rank_high": np.where(ends.ranked, n_known - ends.better.sum(0), np.nan),
            "rank_naive": metrics.ranks(naive.theta),
            **columns,
            "n_verdicts": problem.n_verdicts.astype(int),
            "n_won": problem.n_won,
            **ends.parameters[["status", "degrees"]].head(m),
            "pull": ends.pull,
            "runaway": ends.runaway,
        }
    )
    return {
        "status": fit.status,
        "models": table.iloc[np.argsort(-fit.theta, kind="stable")].reset_index(drop=True),
        "coefficients": _coefficients(ends, rows),
        "n_clusters": problem.n_clusters,
    }
