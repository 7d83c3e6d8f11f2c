"""The fit of a slope of a bias on quality, by which a leaderboard of all judges together estimates
their discriminations.

    logit = phi_first - phi_second + kappa,    phi = theta + (c + gamma theta) . x

with theta about its mean over the models and x about its mean over the prompt's answers: c is the
bias of an average model, and theta the quality of a model at each prompt's average x. About the
prompt's mean, gamma is a matter of differences between answers to one prompt, as c is. About one
mean for all prompts, qualities that lie further apart on prompts with longer answers would count
towards it. See `estimators.interaction_fit` for what identifies gamma.

At the maximum the model is to first order a linear one, with the columns x and theta x and with
loadings 1 + gamma . x of theta, so that it has the intervals of a leaderboard.

Discriminations (judge-aware Bradley-Terry, BT-sigma) are the same with the judge for the covariate:

    logit = s_g (theta_first - theta_second) + c_g . d + kappa_g,    gamma_g = s_g - 1

s_g is 1 for the first judge whose biases are known, or else the first judge: the verdicts identify
only ratios, as a common factor is the scale of theta. With s held at 1, a judge of little
discrimination counts as much as one of much, and draws theta towards 0. gamma has the prior of c,
so that s_g may be negative. `jbt fit --joint` has a log-normal prior on s_g instead
(`jbt.own.fits.shared`): with few verdicts the two differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.intervals import centring
from jbt.own.leaderboards.problem import Fitted, Problem
from jbt.own.shared_coefficients.directions import MOVED
from jbt.types import Status

EQUAL = 1e-9
"""Relative difference of two parts of a logit that counts as rounding."""

TOLERANCE = 1e-9
"""Of the last step of a fit, in posterior standard deviations."""

MAX_STEPS, SHORTEST, ROUNDING = 100, 1e-4, 1e-12
"""Of Newton's method: a step that raises the objective by more than rounding is shortened, at most
to this share."""


def fit_discriminations(fit: Fitted, judges: Judges) -> Fitted:
    """Fit theta, all judges' c and kappa, and as gamma s - 1 of the judges of `estimated`, from the
    fit of all judges together with s = 1."""
    problem = fit.problem
    indicator = (problem.judge[:, None] == estimated(judges)).astype(float)
    columns = problem.rows.columns * problem.free[problem.n_contents :]
    problem = problem.with_columns(columns, problem.at, problem.free)
    problem = dataclasses.replace(problem, sides=np.stack([indicator, indicator]))
    return fit_growth(dataclasses.replace(fit, problem=problem))


def fit_growth(fit: Fitted) -> Fitted:
    """Fit c and a slope gamma for each column of `Problem.sides`, from a fit with gamma = 0. A
    gamma that the verdicts do not identify is 0; the status is FLAT where they identify none."""
    slopes = Slopes.of(fit.problem)
    tangent = slopes.tangent(fit.beta[fit.problem.at["theta"]])
    nulls = tangent.nulls(np.ones_like(slopes.free))
    moves = (np.abs(nulls) > MOVED * np.abs(nulls).max(1, keepdims=True)).any(0)
    gamma = slopes.at["gamma"]
    free = np.where(np.isin(np.arange(len(moves)), gamma), ~moves, slopes.free)
    beta = np.r_[fit.beta, np.zeros(len(gamma))]
    if not free[gamma].any():
        return Fitted(tangent, slopes.free, beta, Status.FLAT)
    return dataclasses.replace(slopes, free=free).fit(beta)


def estimated(judges: Judges) -> np.ndarray:
    """Indices of the judges whose discrimination is estimated: all but one."""
    return np.delete(np.arange(len(judges.names)), int(np.argmax(judges.known)))


def split(problem: Problem, weight: np.ndarray) -> np.ndarray:
    """[R, D] differences of the covariates, each item's multiplied by its model's weight [M]."""
    assert problem.sides is not None
    first, second = problem.rows.first, problem.rows.second
    parts = weight[first, None] * problem.sides[0], weight[second, None] * problem.sides[1]
    # Of two models the parts are equal for every row: what rounding leaves identifies nothing.
    return np.where(np.isclose(*parts, rtol=EQUAL, atol=0), 0, parts[0] - parts[1])


@dataclass(frozen=True, eq=False)
class Slopes:
    """The objective in (theta, c, gamma, kappa), flat, and its derivatives."""

    problem: Problem
    at: Mapping[str, np.ndarray]
    """Places of its parameters: those of the problem, then gamma."""
    free: np.ndarray
    """[P] whether each parameter is estimated."""
    centre: np.ndarray
    """[P, P] subtracts from theta its mean over the known models."""
    precision: np.ndarray
    """[P]"""

    @classmethod
    def of(cls, problem: Problem) -> Slopes:
        """With every gamma free."""
        assert problem.sides is not None
        k, p = problem.sides.shape[2], len(problem.free)
        at = {**problem.at, "gamma": np.arange(p, p + k)}
        free = np.r_[problem.free, np.ones(k, bool)]
        precision = np.append(problem.precision, np.repeat(problem.precision[-1:], k))
        return cls(problem, at, free, centring(problem.known, len(free)), precision)

    def tangent(self, theta: np.ndarray) -> Problem:
        """The problem with the covariates theta x beside its own."""
        columns = np.hstack([self.problem.rows.columns, split(self.problem, theta)])
        return self.problem.with_columns(columns, self.at, self.free)

    def fit(self, beta: np.ndarray) -> Fitted:
        """The maximum a posteriori, from a start."""
        beta, done = maximise(lambda at: self.derivatives(at)[:3], beta)
        *_, hessian, convex = self.derivatives(beta)
        inverse = self.centre @ np.linalg.inv(hessian) @ self.centre.T
        inverse = np.where(self.free[:, None] & self.free, inverse, 0)
        status = Status.CONVERGED if done and convex else Status.NOT_CONVERGED
        beta = self.centre @ beta
        loading = 1 + self.problem.sides @ beta[self.at["gamma"]]
        tangent = self.tangent(beta[self.at["theta"]])
        return Fitted(tangent, self.free, beta, status, inverse, loading)

    def logits(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits of the rows, and the columns [R, P - M] of c, kappa and gamma."""
        rows = self.tangent((self.centre @ beta)[self.at["theta"]]).rows
        m = rows.n_contents
        rows = dataclasses.replace(rows, columns=rows.columns * self.free[m:])
        return rows.logits(np.r_[self.centre[:m] @ beta, beta[m:]]), rows.columns

    def derivatives(self, beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, bool]:
        """Minus the log-posterior but for a constant, minus its gradient, and its second
        derivative; the expected one where that is not positive definite, and whether it is."""
        from scipy import sparse
        from scipy.special import expit, log_expit

        rows, sides = self.problem.rows, self.problem.sides
        m, gamma = len(self.at["theta"]), self.at["gamma"]
        logits, columns = self.logits(beta)
        shown, wins, p = rows.shown, rows.wins, expit(logits)
        likelihood = wins @ log_expit(logits) + (shown - wins) @ log_expit(-logits)
        residual, weight = wins - shown * p, shown * p * (1 - p)
        assert sides is not None
        slopes = 1 + sides @ (beta[gamma] * self.free[gamma])
        ends = np.r_[rows.first, rows.second]
        cells = np.tile(np.arange(len(shown)), 2), ends
        loading = sparse.csr_array((np.r_[slopes[0], -slopes[1]], cells), shape=(len(shown), m))
        border = loading.T @ (weight[:, None] * columns)
        of_theta = (loading.T @ (loading * weight[:, None])).toarray()
        information = np.block([[of_theta, border], [border.T, columns.T * weight @ columns]])
        turned = np.concatenate([residual[:, None] * sides[0], -residual[:, None] * sides[1]])
        cross = np.zeros_like(information)
        for k in np.flatnonzero(self.free[gamma]).tolist():
            cross[:m, gamma[k]] = cross[gamma[k], :m] = np.bincount(ends, turned[:, k], m)
        objective = float(self.precision @ beta**2 / 2 - likelihood)
        gradient = np.r_[loading.T @ residual, columns.T @ residual]
        gradient = self.centre.T @ gradient - self.precision * beta
        scoring = self.centre.T @ information @ self.centre + np.diag(self.precision)
        hessian = scoring - self.centre.T @ cross @ self.centre
        try:
            np.linalg.cholesky(hessian)
        except np.linalg.LinAlgError:
            return objective, gradient, scoring, False
        return objective, gradient, hessian, True


def maximise(
    at: Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]], beta: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Newton's method with shortened steps.

    Args:
      at: of parameters [P] the objective, minus its gradient, and its second derivative or a
        positive definite stand-in.

    Returns:
      The parameters, and whether they are a stationary point.
    """
    done = False
    objective, gradient, hessian = at(beta)
    for _ in range(MAX_STEPS):
        if done or not np.isfinite(objective):
            break
        step, length = np.linalg.solve(hessian, gradient), 1.0
        done = bool(gradient @ step <= TOLERANCE**2)
        most = objective + ROUNDING * abs(objective)
        objective, gradient, hessian = at(beta + step)
        while not objective <= most and length > SHORTEST:
            length /= 4
            objective, gradient, hessian = at(beta + length * step)
        beta = beta + length * step
    return beta, done
