"""A leaderboard whose judge has a bias that changes with quality.

    logit = phi_first - phi_second + kappa,    phi = theta + (c + gamma theta) . x

with theta about its mean over the models and x about its mean over the prompt's answers: c is the
bias of an average model, and theta the quality of a model at each prompt's average x. About the
prompt's mean, gamma is a matter of differences between answers to one prompt, as c is. About one
mean for all prompts, qualities that lie further apart on prompts with longer answers would count
towards it. See `estimators.interaction_fit` for what identifies gamma.

At the maximum the model is to first order a linear one, with the columns x and theta x and with
loadings 1 + gamma . x of theta, so that it has the intervals of a leaderboard.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jbt import identifiability
from jbt.estimators import clusters
from jbt.own.leaderboards.board import BiasByQuality, BoardCoefficient
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.problem import Problem
from jbt.own.leaderboards.spread import centring
from jbt.own.shared_coefficients.directions import MOVED
from jbt.types import Design, Fit, Parameters, Status, Variant

EQUAL = 1e-9
"""Relative difference of two parts of a logit that counts as rounding."""

MAX_STEPS, TOLERANCE, SHORTEST, ROUNDING = 100, 1e-9, 1e-4, 1e-12
"""Of Newton's method. The tolerance is of the last step, in posterior standard deviations; a step
that raises the objective by more than rounding is shortened, at most to this share."""


@dataclass(frozen=True, eq=False)
class Interaction:
    """The maximum a posteriori that Newton's method reaches from the fit with one constant c."""

    problem: Problem
    """Linear to first order at the maximum: its covariates are x and then theta x."""
    beta: np.ndarray
    """[P] (theta, c, gamma, kappa); a gamma that the verdicts do not identify is 0."""
    status: Status
    """FLAT where the verdicts identify no gamma."""
    inverse: np.ndarray
    """[P, P] H^-1, with theta about its mean."""
    loading: np.ndarray
    """[2, R] 1 + gamma . x of the first and of the second item."""

    @property
    def theta(self) -> np.ndarray:
        """[M]"""
        return self.beta[: self.problem.design.n_contents]

    def intervals(self) -> Intervals:
        """Intervals of beta; the status of a gamma that is not identified is `flat`."""
        problem, m = self.problem, self.problem.design.n_contents
        parts = (jnp.asarray(v) for v in (self.beta[:m], self.beta[m:-1], self.beta[-1]))
        mode = Parameters(*parts)
        arguments = mode, problem.rows, problem.design, problem.prior, problem.variant
        result = intervals(*arguments, problem.source, inverse=self.inverse, loading=self.loading)
        status = result.status.copy()
        status[m + np.flatnonzero(~np.asarray(problem.variant.c))] = "flat"
        return dataclasses.replace(result, status=status)


def with_columns(problem: Problem, columns: np.ndarray, free: np.ndarray | None = None) -> Problem:
    """The problem with other covariates [R, columns], of which `free` have a coefficient."""
    n, design = columns.shape[1], problem.design
    free = np.ones(n, bool) if free is None else free
    wider = dataclasses.replace(
        Design.of_contents(design.n_contents, n), item_mask=design.item_mask
    )
    return dataclasses.replace(
        problem,
        rows=dataclasses.replace(problem.rows, difference=jnp.asarray(columns)),
        design=wider,
        variant=Variant(jnp.asarray(free), problem.variant.kappa),
    )


def split(problem: Problem, weight: np.ndarray) -> np.ndarray:
    """[R, D] differences of the covariates, each item's multiplied by its model's weight [M]."""
    assert problem.sides is not None
    first, second = (np.asarray(side) for side in (problem.rows.first, problem.rows.second))
    parts = weight[first, None] * problem.sides[0], weight[second, None] * problem.sides[1]
    # Of two models the parts are equal for every row: what rounding leaves identifies nothing.
    return np.where(np.isclose(*parts, rtol=EQUAL, atol=0), 0, parts[0] - parts[1])


def fit_interaction(problem: Problem, start: Parameters) -> Interaction:
    """Fit c and a slope gamma for each column of `Problem.sides`.

    Args:
      problem: its differences not relative; columns whose coefficient is not free are 0.
      start: the fit with gamma = 0.
    """
    assert problem.sides is not None
    m, d, n_slopes = problem.design.n_contents, problem.design.n_covariates, problem.sides.shape[2]
    theta = np.asarray(start.theta)
    tangent = _tangent(problem, theta)
    position = bool(problem.variant.kappa)
    nulls = identifiability.null_space(tangent.design, tangent.rows, position=position).directions
    moves = np.abs(nulls[:, m + d : -1]) > MOVED * np.abs(nulls).max(1, keepdims=True)
    free = np.r_[np.ones(m, bool), np.asarray(problem.variant.c), ~moves.any(0), position]
    beta = np.r_[theta, np.asarray(start.c), np.zeros(n_slopes), np.asarray(start.kappa)]
    if free[m + d : -1].any():
        return _Newton.of(problem, free).run(beta)
    no_inverse, ones = np.zeros((len(beta), len(beta))), np.ones((2, len(problem.source)))
    return Interaction(tangent, beta, Status.FLAT, no_inverse, ones)


def fit_halves(problem: Problem, start: Parameters) -> Interaction:
    """Fit c to the models whose theta lies above the median, and to the others: a linear model with
    the covariates of the former, then of the latter, and no gamma."""
    theta, known = np.asarray(start.theta), problem.n_verdicts > 0
    stronger = (theta > np.median(theta[known])).astype(float)
    halves = with_columns(problem, np.hstack([split(problem, h) for h in (stronger, 1 - stronger)]))
    assert problem.sides is not None
    halves = dataclasses.replace(halves, sides=problem.sides[:, :, :0])
    beta = np.r_[theta, np.tile(np.asarray(start.c), 2), np.asarray(start.kappa)]
    free = np.r_[np.ones(len(beta) - 1, bool), bool(problem.variant.kappa)]
    return _Newton.of(halves, free).run(beta)


def _tangent(problem: Problem, theta: np.ndarray, free: np.ndarray | None = None) -> Problem:
    """The problem with the covariates theta x beside its own."""
    columns = [np.asarray(problem.rows.difference), split(problem, theta)]
    return with_columns(problem, np.hstack(columns), free)


@dataclass(frozen=True, eq=False)
class _Newton:
    """The objective in (theta, c, gamma, kappa), flat, and its derivatives."""

    problem: Problem
    free: np.ndarray
    """[P] whether each parameter is estimated."""
    centre: np.ndarray
    """[P, P] subtracts from theta its mean over the known models."""
    precision: np.ndarray
    """[P]"""

    @classmethod
    def of(cls, problem: Problem, free: np.ndarray) -> _Newton:
        m = problem.design.n_contents
        centre = centring(np.asarray(problem.design.content_mask()), len(free))
        design = Design.of_contents(m, len(free) - m - 1)
        precision = clusters.prior_precision(design, problem.prior)
        return cls(problem, free, centre, precision)

    def run(self, beta: np.ndarray) -> Interaction:
        """From a start to the maximum."""
        done = False
        for _ in range(MAX_STEPS):
            gradient, hessian, _ = self.derivatives(beta)
            step = np.linalg.solve(hessian, gradient)
            done = bool(np.sqrt(gradient @ step) <= TOLERANCE)
            objective, length = self.objective(beta), 1.0
            most = objective + ROUNDING * abs(objective)
            while self.objective(beta + length * step) > most and length > SHORTEST:
                length /= 4
            beta = beta + length * step
            if done:
                break
        _, hessian, convex = self.derivatives(beta)
        inverse = self.centre @ np.linalg.inv(hessian) @ self.centre.T
        inverse = np.where(self.free[:, None] & self.free, inverse, 0)
        status = Status.CONVERGED if done and convex else Status.NOT_CONVERGED
        beta, m, d = self.centre @ beta, *self.sizes
        assert self.problem.sides is not None
        loading = 1 + self.problem.sides @ beta[m + d : -1]
        tangent = _tangent(self.problem, beta[:m], self.free[m:-1])
        return Interaction(tangent, beta, status, inverse, loading)

    @property
    def sizes(self) -> tuple[int, int]:
        """M, D"""
        return self.problem.design.n_contents, self.problem.design.n_covariates

    def logits(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits of the rows, and the columns [R, 2 D + 1] of c, gamma and kappa."""
        rows, m = self.problem.rows, self.sizes[0]
        theta = (self.centre @ beta)[:m]
        columns = [np.asarray(rows.difference), split(self.problem, theta)]
        columns = np.column_stack([*columns, np.asarray(rows.ordered)]) * self.free[m:]
        apart = theta[np.asarray(rows.first)] - theta[np.asarray(rows.second)]
        return apart + columns @ beta[m:], columns

    def objective(self, beta: np.ndarray) -> float:
        """Minus the log-posterior, but for a constant."""
        from scipy.special import log_expit

        logits, _ = self.logits(beta)
        shown, wins = np.asarray(self.problem.rows.shown), np.asarray(self.problem.rows.wins)
        likelihood = wins @ log_expit(logits) + (shown - wins) @ log_expit(-logits)
        return float(self.precision @ beta**2 / 2 - likelihood)

    def derivatives(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Minus the gradient of the objective, and its second derivative; the expected one where
        that is not positive definite, and whether it is."""
        from scipy import sparse
        from scipy.special import expit

        rows, sides = self.problem.rows, self.problem.sides
        assert sides is not None
        m, d = self.sizes
        logits, columns = self.logits(beta)
        shown, p = np.asarray(rows.shown), expit(logits)
        residual, weight = np.asarray(rows.wins) - shown * p, shown * p * (1 - p)
        slopes = 1 + sides @ (beta[m + d : -1] * self.free[m + d : -1])
        ends = np.r_[np.asarray(rows.first), np.asarray(rows.second)]
        place = np.tile(np.arange(len(shown)), 2), ends
        loading = sparse.csr_array((np.r_[slopes[0], -slopes[1]], place), shape=(len(shown), m))
        border = loading.T @ (weight[:, None] * columns)
        of_theta = (loading.T @ (loading * weight[:, None])).toarray()
        information = np.block([[of_theta, border], [border.T, columns.T * weight @ columns]])
        turned = np.concatenate([residual[:, None] * sides[0], -residual[:, None] * sides[1]])
        cross = np.zeros_like(information)
        for k in np.flatnonzero(self.free[m + d : -1]).tolist():
            cross[:m, m + d + k] = cross[m + d + k, :m] = np.bincount(ends, turned[:, k], m)
        gradient = np.r_[loading.T @ residual, columns.T @ residual]
        gradient = self.centre.T @ gradient - self.precision * beta
        scoring = self.centre.T @ information @ self.centre + np.diag(self.precision)
        hessian = scoring - self.centre.T @ cross @ self.centre
        try:
            np.linalg.cholesky(hessian)
        except np.linalg.LinAlgError:
            return gradient, scoring, False
        return gradient, hessian, True


def bias_by_quality(
    problem: Problem, fit: Fit, named: Sequence[tuple[str, str]]
) -> tuple[tuple[BiasByQuality, ...], Interaction | None, Intervals | None]:
    """Measure each covariate's c by quality, with the fit it comes from and its intervals; nothing
    where differences are relative, nothing identifies gamma, or a fit does not converge.

    Args:
      problem: one judge's.
      fit: its MAP with one constant c.
      named: name and unit of each covariate.
    """
    if problem.sides is None or not named:
        return (), None, None
    interaction = fit_interaction(problem, fit.parameters)
    if interaction.status != Status.CONVERGED:
        return (), interaction, None
    ends = interaction.intervals()
    halves = fit_halves(problem, fit.parameters)
    if halves.status != Status.CONVERGED:
        return (), interaction, ends
    whole, parts = (interaction.beta, ends), (halves.beta, halves.intervals())
    m, d = problem.design.n_contents, len(named)
    results = []
    for p, (covariate, unit) in enumerate(named, m):
        whose: dict[str, Any] = {"covariate": covariate, "unit": unit}
        results.append(
            BiasByQuality(
                c=coefficient(*whole, p, **whose),
                stronger=coefficient(*parts, p, **whose),
                weaker=coefficient(*parts, p + d, **whose),
                gamma=coefficient(*whole, p + d, **whose),
            )
        )
    return tuple(results), interaction, ends


def coefficient(
    beta: np.ndarray, intervals: Intervals, p: int, *, profile_range: float = np.nan, **whose: Any
) -> BoardCoefficient:
    """A coefficient by its place in (theta, c, kappa); `whose`: the fields that name it."""
    return BoardCoefficient(
        estimate=float(beta[p]),
        low=float(intervals.low[p]),
        high=float(intervals.high[p]),
        profile_range=profile_range,
        status=str(intervals.status[p]),
        degrees=float(intervals.degrees[p]),
        **whose,
    )
