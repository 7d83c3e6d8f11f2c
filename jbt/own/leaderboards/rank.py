"""Rank models by a user's verdicts over many prompts, naive and corrected (for length, say)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from jbt import runtime
from jbt.kernel import metrics
from jbt.own.fits.judges import JOINT, Judges
from jbt.own.leaderboards.by_value import ByValue, check_values, differences, of_values
from jbt.own.leaderboards.checks import (
    check_anchors,
    filled_either_way,
    judged_items,
    outside,
    under_other_choices,
)
from jbt.own.leaderboards.davidson import problem_of
from jbt.own.leaderboards.discriminations import estimated, fit_discriminations
from jbt.own.leaderboards.elo import Elo
from jbt.own.leaderboards.first_place import first_place
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.lack_of_fit import lack_of_fit, untested
from jbt.own.leaderboards.met import totals
from jbt.own.leaderboards.one_comparison import OfModels, one_comparison
from jbt.own.leaderboards.prediction_powered import LabelledWinRates, labelled_win_rates
from jbt.own.leaderboards.problem import Fitted, Problem, Settings, Setup, merge_pools
from jbt.own.leaderboards.rank_band import rank_band
from jbt.own.leaderboards.report import Leaderboard, Leaderboards
from jbt.own.shared_coefficients.directions import MOVED
from jbt.own.shared_coefficients.one_comparison import UNDECIDED, decided
from jbt.own.tables.missing import number_of
from jbt.own.tables.pairs import agreement
from jbt.own.tables.tables import Tables
from jbt.types import Prior, Status

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
        difference, robust, missing, rho, against, elo, judge_aware, one_comparison, beside.

    Returns:
      A leaderboard for each judge, then that of all judges together. A judge without a maximum has
      a status and no ranking. With `tables.by`, also those of each value, in `by_value`.

    Raises:
      ValueError: fewer than two models; see also `Settings.check_with`, `covariate_values` and
        `labelled_win_rates`.
    """
    asked = Settings(covariates=tuple(covariates), prior=prior or Prior(), **settings)
    asked.check_with(tables, joint=together is not None)
    if asked.elo is not None:
        Elo.of(asked.elo, tables.contents)  # before the work
    if tables.by is not None:
        check_values(tables.by, tables.groups)
    judges = range(len(tables.judges))
    labelled = [labelled_win_rates(tables, judge) if asked.beside else None for judge in judges]
    robust = under_other_choices(tables, asked) if asked.robust else [None] * len(judges)
    setup = Setup.of(tables, asked)
    with runtime.precision("float64"):
        boards = [
            dataclasses.replace(_of_judge(setup, judge, labelled[judge]), robust=robust[judge])
            for judge in judges
        ]
        by_value = None
        if tables.by is not None:
            by_value = ByValue(
                tables.by,
                pd.concat(
                    _of_judge(of_values(setup, [g]), judge, None)
                    .to_frame()
                    .assign(judge=tables.judges[judge] or "", value=value)
                    for judge in judges
                    for g, value in enumerate(tables.groups)
                ),
                pd.concat(
                    differences(setup, judge).assign(judge=tables.judges[judge] or "")
                    for judge in judges
                ),
            )
        if together is not None:
            tables, panel = together
            joint = dataclasses.replace(setup, tables=tables, merged=merge_pools(tables))
            boards.append(_of_all(joint, panel))
    return Leaderboards(boards, asked, by_value)


def _naive_and_aware(problem: Problem) -> tuple[Fitted, Fitted]:
    """Both fits; where one has no maximum, neither counts."""
    naive, aware = problem.fit(problem.naive), problem.fit()
    status = max(naive.status, aware.status)
    return dataclasses.replace(naive, status=status), dataclasses.replace(aware, status=status)


def _of_judge(setup: Setup, judge: int, labelled: LabelledWinRates | None) -> Leaderboard:
    """The leaderboard of one judge."""
    tables, problem = setup.tables, problem_of(setup, judge)
    naive, fit = _naive_and_aware(problem)
    bounds = setup.settings.missing == "bounds" and fit.status == Status.CONVERGED
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
        **_results(setup, naive, fit, _evidence(fit), met=setup.met(judge), columns=columns),
        first_place=first_place(fit, tables.contents),
        vary=lambda: _one_comparison(setup, judge, fit),
        test=lambda: lack_of_fit(fit, setup.covariates),
        untested=untested(fit),
        anchors=check_anchors(tables, judge, setup.x, fit.theta, naive.theta),
        outside=outside(setup, judge),
        band=rank_band(fit, setup.covariates, tables.contents, setup.settings.rho),
        missing=filled_either_way(setup, judge, fit) if bounds else None,
        n_missing=number_of(tables, judge),
        labelled=labelled,
    )


def _one_comparison(setup: Setup, judge: int, fit: Fitted) -> OfModels | str:
    if setup.covariates and fit.problem.sides is not None and not decided(setup.tables, judge):
        return UNDECIDED
    names = setup.covariates, setup.tables.contents
    absolute, theta = setup.absolute(judge), fit.beta[fit.problem.at["theta"]]
    return one_comparison(fit.problem, *names, theta, absolute)


def _of_all(setup: Setup, judges: Judges) -> Leaderboard:
    """The leaderboard of all judges together."""
    tables, problem = setup.tables, setup.together(judges)
    naive, fit = _naive_and_aware(problem)
    if setup.settings.judge_aware and fit.status == Status.CONVERGED:
        fit, evidence = fit_discriminations(fit, judges), {}
    else:
        evidence = _evidence(fit)
    return Leaderboard(
        judge=JOINT,
        **_results(setup, naive, fit, evidence, met=setup.met(None), judges=judges),
        untested="the test takes one judge at a time",
        n_missing=int(tables.lost["count"].sum()),
        trusted=judges.trusted,
        agreements=agreement(tables, judges.known),
    )


def _evidence(fit: Fitted) -> dict[int, float]:
    """The profile range of each free c, by place."""
    at, free = fit.problem.at["c"].ravel().tolist(), fit.free
    return {place: fit.profile_range(place) for place in at if free[place]}


def _coefficients(
    setup: Setup,
    problem: Problem,
    fit: Fitted,
    ends: pd.DataFrame,
    evidence: dict[int, float],
    judges: Judges | None = None,
) -> pd.DataFrame:
    """`Leaderboard.coefficients`: the rows of `ends` of each free c and kappa, judge by judge, then
    of log nu and of the discriminations.

    Args:
      problem: with one constant c for each judge.
      fit: of it, or of one with more parameters.
      ends: `Intervals.parameters` of the fit.
      evidence: profile ranges by place.
      judges: given where all are fitted together.
    """
    at, before = fit.problem.at, _of_biases(problem)
    free, names, told_by = problem.free[before].T, [None], [[None] * len(before)]
    if judges is not None:
        names = judges.names
        told_by = judges.identified_by(lambda members: _identified(problem, members)[before])
    kinds = [("c", name, unit) for name, unit in zip(setup.covariates, setup.units, strict=True)]
    rows: list[tuple[Any, ...]] = [
        (place, *kind, judge, whose and list(whose))
        for judge, *of_judge in zip(
            names, _of_biases(fit.problem).T.tolist(), free, told_by, strict=True
        )
        for place, is_free, whose, kind in zip(
            *of_judge, [*kinds, ("kappa", "kappa", "")], strict=True
        )
        if is_free
    ]
    if setup.tables.ties == "davidson" and judges is None:
        rows.append((at.get("log_nu", [NO_TIES])[0], "log nu", "log nu", "", None, None))
    if judges is not None and "gamma" in at:
        for place, g in zip(at["gamma"].tolist(), estimated(judges), strict=True):
            rows.append((place, "discrimination", "discrimination", "", judges.names[g], None))
    columns = ["place", "kind", "covariate", "unit", "judge", "told_by"]
    table = pd.DataFrame(rows, columns=pd.Index(columns))
    table.insert(4, "profile_range", table["place"].map(evidence).astype(float))
    numbers = ends.reindex(table.pop("place")).reset_index(drop=True)
    numbers["status"] = numbers["status"].fillna("no_ties")
    # s = 1 + gamma
    is_slope = (table["kind"] == "discrimination").to_numpy()
    numbers.loc[is_slope, ["estimate", "low", "high"]] += 1
    return pd.concat([table, numbers], axis=1)


def _of_biases(problem: Problem) -> np.ndarray:
    """[D + 1, J] the places of c and kappa."""
    return np.concatenate([problem.at["c"], problem.at["kappa"][None]])


def _identified(problem: Problem, members: np.ndarray) -> np.ndarray:
    """[P] which free coefficients the verdicts of the judges in a mask [J] identify."""
    rows = dataclasses.replace(problem.rows, shown=problem.rows.shown * members[problem.judge])
    directions = dataclasses.replace(problem, rows=rows).nulls(np.ones_like(problem.free))
    largest = np.abs(directions).max(1, initial=1e-300, keepdims=True)
    return ~(np.abs(directions) > MOVED * largest).any(0) & problem.free


def _results(
    setup: Setup,
    naive: Fitted,
    fit: Fitted,
    evidence: dict[int, float],
    *,
    met: pd.DataFrame,
    judges: Judges | None = None,
    columns: Mapping[Any, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """What every leaderboard has: status, models, coefficients, n_clusters, met.

    Args:
      evidence, judges: see `_coefficients`.
      met: see `Leaderboard`.
      columns: further columns of the models.
    """
    problem, names, asked = fit.problem, setup.tables.contents, setup.settings.elo
    ends, ends_naive = intervals(fit), intervals(naive)
    naive_ends, points = ends_naive.parameters, {}
    if asked is not None:
        elo = Elo.of(asked, names)
        points = elo.columns(naive.theta, ends_naive, names)
        points = {f"{name}_naive": values for name, values in points.items()}
        points = elo.columns(fit.theta, ends, names) | points
    m, n_known = len(names), (problem.n_verdicts > 0).sum()
    table = pd.DataFrame(
        {
            "model": names,
            "theta": fit.theta,
            **ends.parameters[["low", "high"]].head(m),
            "theta_naive": naive.theta,
            **naive_ends[["low", "high"]].head(m).add_suffix("_naive"),
            **points,
            "rank": metrics.ranks(fit.theta),
            "rank_low": np.where(ends.ranked, 1 + ends.better.sum(1), np.nan),
            "rank_high": np.where(ends.ranked, n_known - ends.better.sum(0), np.nan),
            "rank_naive": metrics.ranks(naive.theta),
            **columns,
            "n_verdicts": np.ceil(problem.n_verdicts.round(6)).astype(int),
            **totals(met, names).reset_index(drop=True),
            **ends.parameters[["status", "degrees"]].head(m),
            "pull": ends.pull,
            "runaway": ends.runaway,
        }
    )
    # Models that only rounding tells apart stay in the table's order.
    order = np.argsort(-fit.theta.round(9), kind="stable")
    return {
        "status": fit.status,
        "models": table.iloc[order].reset_index(drop=True),
        "coefficients": _coefficients(setup, naive.problem, fit, ends.parameters, evidence, judges),
        "n_clusters": problem.n_clusters,
        "met": met,
    }
