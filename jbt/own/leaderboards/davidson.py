"""Davidson's (1970) ties: an outcome of their own in place of half a win for each side.

    P(first wins) = e^(eta / 2) / D,  P(tie) = nu / D,  P(second wins) = e^(-eta / 2) / D,
    D = e^(eta / 2) + e^(-eta / 2) + nu,  eta = theta_first - theta_second + c . d + kappa

with eta that of the other leaderboards: the log-odds of the first winning, given that one side
does. log nu has the prior of c and kappa.

The model is a multinomial logit, linear in (theta, c, log nu, kappa), and so a sum over pairs of
outcomes. Each verdict is three rows of a problem whose covariates are d and, last, a column of
log nu: win against loss (0 in that column), win against tie (-2), and tie against loss (2), with
log-odds eta, (eta - 2 log nu) / 2 and (eta + 2 log nu) / 2. As verdicts of a Bradley-Terry model,
the rows that an outcome won have the same directions without a finite maximum. With the residuals
and weights of `_moments` in place of a Bradley-Terry model's, they have Davidson's score and
information, and so its fit and its jackknife.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import quick_compilation
from jbt.kernel import model
from jbt.kernel import rows as kernel_rows
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.problem import Problem, Setup
from jbt.types import Design, Fit, Parameters, Rows, Status, Variant

LOG_NU = (0.0, -2.0, 2.0)
"""The column of log nu in the rows of win against loss, win against tie, and tie against loss."""

MAX_STEPS, TOLERANCE, SHORTEST, ROUNDING = 100, 1e-10, 1e-4, 1e-12
"""Of Newton's method, as in `interaction`."""


def problem_of(setup: Setup, judge: int) -> Problem:
    """`Setup.problem`, with Davidson's ties where the tables were read with them."""
    problem = setup.problem(judge)
    if setup.tables.ties != "davidson":
        return problem
    return DavidsonProblem.of_halves(problem)


@dataclass(frozen=True, eq=False)
class DavidsonProblem(Problem):
    """One judge's verdicts, of which some are ties. Rows are three times as many; the last
    covariate is the column of log nu."""

    @classmethod
    def of_halves(cls, problem: Problem) -> Problem:
        """The problem whose ties are half a win each, with Davidson's ties; itself without any.

        Args:
          problem: every verdict is won, lost or tied.
        """
        rows = problem.rows
        shown, wins = np.asarray(rows.shown), np.asarray(rows.wins)
        tied = (shown > 0) & (wins == shown / 2)
        if not tied.any():
            return problem
        won, lost = np.where(tied, 0, wins), np.where(tied, 0, shown - wins)
        ties = np.where(tied, shown, 0)
        n, design = len(LOG_NU), problem.design
        columns = np.repeat(LOG_NU, len(shown))
        difference = np.column_stack([np.tile(np.asarray(rows.difference), (n, 1)), columns])
        wider = Design.of_contents(design.n_contents, difference.shape[1])
        return cls(
            Rows(
                jnp.tile(rows.first, n),
                jnp.tile(rows.second, n),
                jnp.asarray(difference),
                jnp.tile(rows.ordered, n),
                jnp.asarray(np.concatenate([won + lost, won + ties, ties + lost])),
                jnp.asarray(np.concatenate([won, won, ties])),
            ),
            dataclasses.replace(wider, item_mask=design.item_mask),
            Variant(jnp.append(problem.variant.c, True), problem.variant.kappa),
            problem.prior,
            problem.contents,
            np.tile(problem.source, n),
            problem.n_verdicts,
            problem.n_won,
        )

    @property
    def naive(self) -> Variant:
        """c = kappa = 0; log nu is free."""
        free = np.arange(self.design.n_covariates) == self.design.n_covariates - 1
        return Variant(jnp.asarray(free), jnp.asarray(False))

    def fit(self, variant: Variant) -> Fit:
        """The MAP, by Newton's method."""
        m, free = self.design.n_contents, np.asarray(model.free_mask(variant, self.design))
        precision = np.asarray(model.prior_precision(self.design, self.prior))
        beta, done, steps, size = np.zeros(len(free)), False, 0, np.inf

        def at(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            parameters = Parameters.unflat(jnp.asarray(beta), m)
            likelihood, score, information = jax.device_get(
                _derivatives(parameters, self.rows, self.design)
            )
            objective = float(precision @ beta**2 / 2 - likelihood)
            return objective, np.where(free, score - precision * beta, 0), information

        objective, gradient, information = at(beta)
        while not done and steps < MAX_STEPS and np.isfinite(objective):
            hessian = np.where(free[:, None] & free, information, 0) + np.diag(precision)
            step, length = np.linalg.solve(hessian, gradient), 1.0
            done, size = bool(gradient @ step <= TOLERANCE**2), float(np.linalg.norm(gradient))
            before = objective
            objective, gradient, information = at(beta + step)
            while not objective <= before + ROUNDING * abs(before) and length > SHORTEST:
                length /= 4
                objective, gradient, information = at(beta + length * step)
            beta, steps = beta + length * step, steps + 1
        status = Status.CONVERGED if done else Status.NOT_CONVERGED
        numbers = (jnp.asarray(v) for v in (int(status), steps, size, objective))
        return Fit(Parameters.unflat(jnp.asarray(beta), m), *numbers)

    def intervals(self, fit: Fit, variant: Variant, **settings: Any) -> Intervals:
        """Intervals by the jackknife, with the pools of the file as clusters."""
        moments, information = jax.device_get(_at_mode(fit.parameters, self.rows, self.design))
        free = np.asarray(model.free_mask(variant, self.design))
        both = free[:, None] & free
        precision = np.asarray(model.prior_precision(self.design, self.prior))
        inverse = np.linalg.inv(np.where(both, information, 0) + np.diag(precision))
        return intervals(
            fit.parameters,
            self.rows,
            self.design,
            self.prior,
            variant,
            self.source,
            inverse=np.where(both, inverse, 0),
            moments=moments,
        )

    def profile_range(self, fit: Fit, covariate: int) -> float:
        """Not computed: NaN."""
        return np.nan


def _log_probabilities(parameters: Parameters, rows: Rows) -> Float[Array, "3 R"]:
    """Of a win, a tie and a loss, for each verdict."""
    n = len(rows.first) // len(LOG_NU)
    eta = kernel_rows.logits(parameters, jax.tree.map(lambda v: v[:n], rows))
    log_nu = jnp.full_like(eta, parameters.c[-1])
    return jax.nn.log_softmax(jnp.stack([eta / 2, log_nu, -eta / 2]), axis=0)


def _counts(rows: Rows) -> Float[Array, "3 R"]:
    """Wins, ties and losses of each verdict's row."""
    shown, wins = (v.reshape(len(LOG_NU), -1) for v in (rows.shown, rows.wins))
    return jnp.stack([wins[0], wins[2], shown[0] - wins[0]])


def _moments(parameters: Parameters, rows: Rows) -> Float[Array, "2 R"]:
    """Residual and weight of each row: with rows z, the score is the sum of residual z and the
    information that of weight z z'. Rows with a tie are twice the difference of the outcomes'
    sufficient statistics."""
    (won, tied, lost), p = _counts(rows), jnp.exp(_log_probabilities(parameters, rows))
    win, tie, loss = p
    n = won + tied + lost
    residual = (
        won * loss - lost * win,
        (won * tie - tied * win) / 2,
        (tied * loss - lost * tie) / 2,
    )
    weight = (n * win * loss, n * win * tie / 4, n * tie * loss / 4)
    return jnp.stack([jnp.concatenate(residual), jnp.concatenate(weight)])


@quick_compilation.jit
def _derivatives(
    parameters: Parameters, rows: Rows, design: Design
) -> tuple[Float[Array, ""], Float[Array, " P"], Float[Array, "P P"]]:
    """The log-likelihood, its gradient, and the information."""
    residual, weight = _moments(parameters, rows)
    m = design.n_contents
    likelihood = (_counts(rows) * _log_probabilities(parameters, rows)).sum()
    score = kernel_rows.score(residual, rows, m)
    return likelihood, score, kernel_rows.information(weight, rows, m)


@quick_compilation.jit
def _at_mode(
    parameters: Parameters, rows: Rows, design: Design
) -> tuple[Float[Array, "2 R"], Float[Array, "P P"]]:
    """`_moments` and the information."""
    moments = _moments(parameters, rows)
    return moments, kernel_rows.information(moments[1], rows, design.n_contents)
