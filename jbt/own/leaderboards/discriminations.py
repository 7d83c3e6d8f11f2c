"""The discriminations of the judges of one leaderboard (judge-aware Bradley-Terry, BT-sigma).

    logit = s_g (theta_first - theta_second) + c_g . d + kappa_g,    gamma_g = s_g - 1

with theta about its mean over the models. s_g is 1 for the first judge whose biases are known, or
else the first judge: the verdicts identify only ratios, as a common factor is the scale of theta.
With s held at 1, a judge of little discrimination counts as much as one of much, and draws theta
towards 0. gamma has the prior of c, so that s_g may be negative. `jbt fit --joint` has a log-normal
prior on s_g instead (`jbt.own.fits.shared`): with few verdicts the two differ.

At the maximum the model is to first order a linear one, with theta_first - theta_second as a column
for gamma and with the loading s_g of theta, so that it has the intervals of a leaderboard.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jbt.own.fits.judges import Judges
from jbt.own.leaderboards.intervals import centring
from jbt.own.leaderboards.problem import Fitted, Problem
from jbt.own.shared_coefficients.directions import MOVED
from jbt.types import Status

EQUAL = 1e-9
"""Relative difference of two qualities that counts as rounding."""

TOLERANCE = 1e-9
"""Of the last step of a fit, in posterior standard deviations."""

MAX_STEPS, SHORTEST, ROUNDING = 100, 1e-4, 1e-12
"""Of Newton's method: a step that raises the objective by more than rounding is shortened, at most
to this share."""


def estimated(judges: Judges) -> np.ndarray:
    """Indices of the judges whose discrimination is estimated: all but one."""
    return np.delete(np.arange(len(judges.names)), int(np.argmax(judges.known)))


def fit_discriminations(fit: Fitted, judges: Judges) -> Fitted:
    """Fit theta, all judges' c and kappa, and gamma of the judges of `estimated`, from the fit of
    all judges together with s = 1. A gamma that the verdicts do not identify is 0; the status is
    FLAT where they identify none."""
    problem, p = fit.problem, len(fit.free)
    its_judge = (problem.judge[:, None] == estimated(judges)).astype(float)
    gamma = np.arange(p, p + its_judge.shape[1])
    slopes = Slopes(
        dataclasses.replace(problem, at={**problem.at, "gamma": gamma}),
        its_judge,
        np.append(problem.free, np.ones(len(gamma), bool)),
        centring(problem.known, p + len(gamma)),
    )
    beta = np.append(fit.beta, np.zeros(len(gamma)))
    tangent = slopes.tangent(beta)
    nulls = tangent.nulls(np.ones_like(slopes.free))
    moved = (np.abs(nulls) > MOVED * np.abs(nulls).max(1, keepdims=True)).any(0)
    free = slopes.free.copy()
    free[gamma] = ~moved[gamma]
    if not free[gamma].any():
        return Fitted(tangent, slopes.free, beta, Status.FLAT)
    return dataclasses.replace(slopes, free=free).fit(beta)


@dataclass(frozen=True, eq=False)
class Slopes:
    """The objective in (theta, c, kappa, gamma), flat, and its derivatives."""

    problem: Problem
    """Of all judges, at s = 1; its places have gamma last."""
    its_judge: np.ndarray
    """[R, G] whether a row is of each judge with a gamma."""
    free: np.ndarray
    """[P] whether each parameter is estimated."""
    centre: np.ndarray
    """[P, P] subtracts from theta its mean over the known models."""

    def tangent(self, beta: np.ndarray) -> Problem:
        """The problem with a column for each gamma beside its own."""
        rows, m = self.problem.rows, self.problem.n_contents
        theta = self.centre[:m] @ beta
        sides = theta[rows.first], theta[rows.second]
        apart = np.where(np.isclose(*sides, rtol=EQUAL, atol=0), 0, sides[0] - sides[1])
        columns = np.hstack([rows.columns, apart[:, None] * self.its_judge]) * self.free[m:]
        rows = dataclasses.replace(rows, columns=np.asfortranarray(columns))
        return dataclasses.replace(self.problem, rows=rows, free=self.free)

    def loading(self, beta: np.ndarray) -> np.ndarray:
        """[R] s of each row."""
        return 1 + self.its_judge @ beta[self.problem.at["gamma"]]

    def fit(self, beta: np.ndarray) -> Fitted:
        """The maximum a posteriori, from a start."""
        beta, done = maximise(lambda at: self.derivatives(at)[:3], beta)
        *_, hessian, convex = self.derivatives(beta)
        inverse = self.centre @ np.linalg.inv(hessian) @ self.centre.T
        inverse = np.where(self.free[:, None] & self.free, inverse, 0)
        status = Status.CONVERGED if done and convex else Status.NOT_CONVERGED
        beta = self.centre @ beta
        return Fitted(self.tangent(beta), self.free, beta, status, inverse, self.loading(beta))

    def derivatives(self, beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, bool]:
        """Minus the log-posterior but for a constant, minus its gradient, and its second
        derivative; the expected one where that is not positive definite, and whether it is."""
        tangent, m, s = self.tangent(beta), self.problem.n_contents, self.loading(beta)
        rows, precision, gamma = tangent.rows, tangent.precision, tangent.at["gamma"]
        logits = rows.logits(self.centre @ beta)
        residual, weight = rows.moments(logits)
        score, information = rows.score(residual), rows.information(weight)
        score[:m] = rows.score(s * residual)[:m]
        information[:m, m:] = rows.information(s * weight)[:m, m:]
        information[m:, :m] = information[:m, m:].T
        information[:m, :m] = rows.information(s**2 * weight)[:m, :m]
        cross = np.zeros_like(information)
        for place, column in zip(gamma.tolist(), self.its_judge.T, strict=True):
            if self.free[place]:
                cross[:m, place] = cross[place, :m] = rows.score(residual * column)[:m]
        objective = float(precision @ beta**2) / 2 - rows.log_likelihood(logits)
        gradient = self.centre.T @ score - precision * beta
        scoring = self.centre.T @ information @ self.centre + np.diag(precision)
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
