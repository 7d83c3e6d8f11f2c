"""Rank models by a user's verdicts over many prompts, naive and corrected (for length, say).

All pools of the file are merged. A model (a content) has one quality, each of its answers has its
own covariates, and verdicts on one prompt (a pool of the file) form a cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jbt import runtime
from jbt.kernel import metrics
from jbt.own.baselines.contract import Question
from jbt.own.baselines.registry import check_beside, rankings
from jbt.own.fits.batch import Position
from jbt.own.fits.judges import JOINT, Judges
from jbt.own.leaderboards import assumption_checks
from jbt.own.leaderboards.board import (
    DISCRIMINATION,
    LOG_NU,
    BiasByQuality,
    BoardCoefficient,
    Leaderboard,
)
from jbt.own.leaderboards.davidson import DavidsonProblem, problem_of
from jbt.own.leaderboards.discrimination import estimated, fit_discriminations
from jbt.own.leaderboards.interaction import (
    Interaction,
    bias_by_quality,
    coefficient,
)
from jbt.own.leaderboards.intervals import Intervals
from jbt.own.leaderboards.listing import Difference
from jbt.own.leaderboards.problem import Problem, Setup, merge_pools
from jbt.own.leaderboards.report import Leaderboards
from jbt.own.leaderboards.robust import compare, outside
from jbt.own.tables.agreement import by_judge
from jbt.own.tables.tables import Tables, Transform
from jbt.types import Fit, Prior, Status


def leaderboard(
    tables: Tables,
    covariates: Sequence[str] = (),
    *,
    transform: Transform = "none",
    standardise: bool = True,
    difference: Difference = "plain",
    position: Position = "auto",
    prior: Prior | None = None,
    together: tuple[Tables, Judges] | None = None,
    robust: bool = False,
    interaction: bool = False,
    against: str | None = None,
    beside: Sequence[str] = (),
    judge_aware: bool = False,
) -> Leaderboards:
    """Rank the models of a table of verdicts, with intervals (MAP, float64).

    Args:
      tables: from `read`, pools not merged. Models are the contents, or the names of the items
        where there is no column `content`.
      covariates, transform: see `covariate_values`.
      standardise: c is per standard deviation of the covariate over all items; with relative
        differences, per root mean square of the difference over all verdicts.
      difference: see `listing.listed`.
      position: see `load`.
      prior: default `Prior()`.
      together: the tables with the anchors among the verdicts (`Tables.with_anchors`) and their
        judges, for one more leaderboard of all judges together.
      robust: also rank under other choices (`robust.compare`).
      interaction: rank with a bias c + gamma theta, see `interaction`. A judge whose verdicts do
        not identify gamma has no ranking: its status is FLAT.
      against: the model against which the report gives win rates; default the mean over all others.
      judge_aware: on the leaderboard of all judges together, estimate each judge's discrimination,
        see `discrimination`.
      beside: names of `baselines.registry.BASELINES`, whose rankings are shown beside each judge's.

    Returns:
      A leaderboard for each judge, then that of all judges together.

    Raises:
      ValueError: fewer than two models; an interaction without covariates or with robust, together
        or relative differences; see also `covariate_values`, `listed` and
        `baselines.registry.rankings`.
    """
    check_beside(beside)
    if tables.items["content"].nunique() < 2:
        raise ValueError("there is only one model: nothing to rank")
    if against is not None and against not in tables.contents:
        raise ValueError(f"no model {against!r} among the {len(tables.contents)} of the items")
    if interaction and not covariates:
        raise ValueError("an interaction needs a covariate (--covariates)")
    if interaction and (robust or together or difference != "plain"):
        raise ValueError(
            "--interaction does not go with --joint, --robust or --difference relative: it is "
            "fitted, and its intervals were simulated, for plain differences and one judge"
        )
    if judge_aware and together is None:
        raise ValueError("--judge-aware needs all judges together: add --joint")
    if tables.ties == "davidson" and (together or interaction):
        raise ValueError("--ties davidson does not go with --joint or --interaction")
    prior = Prior() if prior is None else prior
    question = Question(
        tables=tables,
        covariates=tuple(covariates),
        transform=transform,
        standardise=standardise,
        position=position,
        prior=prior,
        against=against,
    )
    baselines = rankings(beside, question)
    compared = []
    if robust:
        compared = compare(
            tables,
            covariates,
            transform=transform,
            standardise=standardise,
            difference=difference,
            position=position,
            prior=prior,
        )
    setup, coefficients = Setup.of(
        tables, covariates, transform, standardise, difference, position, prior
    )
    with runtime.precision("float64"):
        boards = [
            _board(setup, judge, covariates, coefficients, interaction)
            for judge in range(len(tables.judges))
        ]
        boards = [board.with_baselines(b) for board, b in zip(boards, baselines, strict=True)]
        if together is not None:
            tables, judges = together
            joint_setup = dataclasses.replace(setup, tables=tables, merged=merge_pools(tables))
            boards.append(_joint_board(joint_setup, judges, coefficients, judge_aware))
    return Leaderboards(boards, prior, compared, against)


def _board(
    setup: Setup,
    judge: int,
    columns: Sequence[str],
    covariates: Sequence[tuple[str, str]],
    interaction: bool,
) -> Leaderboard:
    """The leaderboard of one judge; `columns`: the covariates in the table, `covariates`: name and
    unit of each as it is used."""
    problem, tables = problem_of(setup, judge), setup.tables
    fits = _Fits.of(problem, list(range(len(covariates))))
    by_quality: tuple[BiasByQuality, ...] = ()
    if fits.aware is not None:
        by_quality, fit, intervals = bias_by_quality(problem, fits.aware, covariates)
        if interaction and fit is not None:
            fits = fits.with_interaction(fit, intervals)
    m = len(problem.contents)
    per_content = np.full((2, len(tables.contents)), np.nan)
    per_content[:, problem.contents] = fits.theta, fits.theta_naive
    return fits.board(
        tables,
        judge=tables.judges[judge],
        c=tuple(
            fits.coefficient(m + d, covariate=name, unit=unit)
            for d, (name, unit) in enumerate(covariates)
        ),
        kappa=fits.coefficient(-1) if problem.variant.kappa else None,
        log_nu=_log_nu(fits) if tables.ties == "davidson" else None,
        anchors=assumption_checks.check_anchors(tables, judge, setup.x, *per_content),
        outside=outside(tables, judge, setup.x, [name for name, _ in covariates]),
        by_quality=by_quality,
        interaction=interaction,
        averages={name: _average(tables, judge, name) for name in columns},
    )


def _log_nu(fits: _Fits) -> BoardCoefficient:
    """log nu, the last covariate's coefficient; without a tie there is none."""
    if isinstance(fits.problem, DavidsonProblem):
        return fits.coefficient(-2, covariate=LOG_NU)
    nan = np.nan
    return BoardCoefficient(
        covariate=LOG_NU, estimate=nan, status="no_ties", profile_range=nan, degrees=nan
    )


def _average(tables: Tables, judge: int, column: str) -> np.ndarray:
    """[contents of the tables] mean of a covariate over the answers that a judge saw."""
    verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
    items = tables.items.loc[np.unique(verdicts[["first", "second"]].to_numpy())]
    means = items.groupby("content")[column].mean()
    return means.reindex(range(len(tables.contents))).to_numpy(float)


def _joint_board(
    setup: Setup,
    judges: Judges,
    covariates: Sequence[tuple[str, str]],
    judge_aware: bool,
) -> Leaderboard:
    """The leaderboard of all judges together; the problem's coefficients are c [D, J] and kappa
    [J], flat."""
    stack, n_judges = setup.together(judges), len(judges.names)
    problem = stack.problem
    m, free = len(problem.contents), np.asarray(problem.variant.c)
    profiled = [p for p in np.flatnonzero(free).tolist() if p < len(covariates) * n_judges]
    fits = _Fits.of(problem, profiled)
    if judge_aware and fits.aware is not None:
        fit = fit_discriminations(stack, judges, fits.aware.parameters)
        done = fit.status == Status.CONVERGED
        fits = fits.with_interaction(fit, fit.intervals() if done else None)
    identified_by = list(judges.identified_by(stack.identified))
    named = [*covariates, (None, None)]
    coefficients = [
        fits.coefficient(
            m + p,
            covariate=named[d][0],
            unit=named[d][1],
            judge=judges.names[g],
            identified_by=identified_by[g][d],
        )
        for g in range(n_judges)
        for d in range(len(named))
        for p in [d * n_judges + g]
        if free[p]
    ]
    discriminations = ()
    if judge_aware:
        slopes = range(m + len(free), len(fits.beta) - 1)
        discriminations = tuple(
            _discrimination(fits.coefficient(p, judge=judges.names[g]))
            for p, g in zip(slopes, estimated(judges), strict=False)
        )
    return fits.board(
        setup.tables,
        judge=JOINT,
        c=(),
        kappa=None,
        anchors=None,
        judges=tuple(coefficients),
        discriminations=discriminations,
        trusted=judges.trusted,
        agreements=by_judge(setup.tables, judges.known),
    )


def _discrimination(slope: BoardCoefficient) -> BoardCoefficient:
    """s = 1 + gamma, from gamma."""
    ends = {name: 1 + getattr(slope, name) for name in ("estimate", "low", "high")}
    return dataclasses.replace(slope, covariate=DISCRIMINATION, **ends)


@dataclass(frozen=True, eq=False)
class _Fits:
    """The two fits of a problem, with their intervals."""

    problem: Problem
    status: Status
    beta: np.ndarray
    """[P] of the bias-aware fit; `beta_naive` of the naive one."""
    beta_naive: np.ndarray
    intervals: Intervals
    intervals_naive: Intervals
    evidence: dict[int, float]
    """Profile range in nats of each profiled coefficient, by its place in P."""
    aware: Fit | None = None
    """The bias-aware fit."""

    @classmethod
    def of(cls, problem: Problem, profiled: list[int]) -> _Fits:
        """Fit a problem; `profiled`: covariates for whose coefficients to profile the
        likelihood."""
        m, n = len(problem.contents), problem.design.n_covariates
        beta = beta_naive = np.full(m + n + 1, np.nan)
        status = Status.NO_VERDICTS
        if (problem.n_verdicts > 0).any():
            naive, aware = problem.fit(problem.naive), problem.fit(problem.variant)
            status = Status(max(int(naive.status), int(aware.status)))
        if status != Status.CONVERGED:
            intervals = Intervals.undefined(m, n, status.name.lower())
            return cls(problem, status, beta, beta_naive, intervals, intervals, {})
        beta, beta_naive = (fit.parameters.as_numpy() for fit in (aware, naive))
        intervals = problem.intervals(aware, problem.variant)
        intervals_naive = problem.intervals(naive, problem.naive)
        evidence = {m + d: problem.profile_range(aware, d) for d in profiled}
        ends = intervals, intervals_naive
        return cls(problem, status, beta, beta_naive, *ends, evidence, aware)

    def with_interaction(self, fit: Interaction, intervals: Intervals | None) -> _Fits:
        """These fits, the bias-aware one with a bias c + gamma theta."""
        beta = fit.beta
        if intervals is None:
            m, n = len(fit.problem.contents), fit.problem.design.n_covariates
            intervals = Intervals.undefined(m, n, fit.status.name.lower())
            beta = np.full(len(beta), np.nan)
        changes = {"problem": fit.problem, "status": fit.status, "beta": beta, "evidence": {}}
        return dataclasses.replace(self, **changes, intervals=intervals)

    @property
    def theta(self) -> np.ndarray:
        """[M], NaN without verdicts."""
        return self._quality(self.beta)

    @property
    def theta_naive(self) -> np.ndarray:
        return self._quality(self.beta_naive)

    def _quality(self, beta: np.ndarray) -> np.ndarray:
        known = self.problem.n_verdicts > 0
        return np.where(known, beta[: len(known)], np.nan)

    def coefficient(self, p: int, **whose: Any) -> BoardCoefficient:
        """A coefficient by its place in P; `whose`: the fields that name it."""
        evidence = self.evidence.get(p, np.nan)
        return coefficient(self.beta, self.intervals, p, profile_range=evidence, **whose)

    def board(
        self, tables: Tables, *, averages: Mapping[str, np.ndarray] | None = None, **rest: Any
    ) -> Leaderboard:
        """The leaderboard, models in order; `averages` by number in `tables.contents`; `rest`: its
        fields that do not come from the fits."""
        problem, intervals, intervals_naive = self.problem, self.intervals, self.intervals_naive
        m, known = len(problem.contents), problem.n_verdicts > 0
        theta, theta_naive = self.theta, self.theta_naive
        ranked = intervals.ranked
        order = np.argsort(-theta, kind="stable")
        names = np.asarray(tables.contents, object)[problem.contents]
        return Leaderboard(
            status=self.status,
            models=tuple(names[order]),
            theta=theta[order],
            low=intervals.low[:m][order],
            high=intervals.high[:m][order],
            theta_naive=theta_naive[order],
            low_naive=intervals_naive.low[:m][order],
            high_naive=intervals_naive.high[:m][order],
            rank=metrics.ranks(theta)[order],
            rank_low=np.where(ranked, 1 + intervals.better.sum(1), np.nan)[order],
            rank_high=np.where(ranked, known.sum() - intervals.better.sum(0), np.nan)[order],
            rank_naive=metrics.ranks(theta_naive)[order],
            n_verdicts=problem.n_verdicts[order].astype(int),
            n_won=problem.n_won[order],
            status_of=intervals.status[:m][order],
            n_clusters=problem.n_clusters,
            degrees=intervals.degrees[:m][order],
            runaway=tuple(names[order][intervals.runaway[order]]),
            pull=intervals.pull[order],
            averages={k: v[problem.contents][order] for k, v in (averages or {}).items()},
            **rest,
        )
