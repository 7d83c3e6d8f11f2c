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

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jbt import quick_compilation
from jbt.kernel import model
from jbt.kernel import rows as kernel_rows
from jbt.own.leaderboards.problem import Fitted, Problem, Setup, maximise, parameters_of, places
from jbt.types import Design, Parameters, Rows, Status, Variant

LOG_NU = (0.0, -2.0, 2.0)
"""The column of log nu in the rows of win against loss, win against tie, and tie against loss."""

TOLERANCE = 1e-10
"""Of the last step of a fit, in posterior standard deviations."""


def problem_of(setup: Setup, judge: int) -> Problem:
    """`Setup.problem`, with Davidson's ties where the tables were read with them."""
    problem = setup.problem(judge)
    if setup.tables.ties != "davidson":
        return problem
    return DavidsonProblem.of_halves(problem)


@dataclass(frozen=True, eq=False)
class DavidsonProblem(Problem):
    """One judge's verdicts, of which some are ties. Rows are three times as many; the parameters
    are theta, c, log_nu and kappa."""

    @classmethod
    def of_halves(cls, problem: Problem) -> Problem:
        """The problem whose ties are half a win each, with Davidson's ties; itself without any.

        Args:
          problem: every verdict is won, lost or tied.
        """
        rows, n = problem.rows, len(LOG_NU)
        shown, wins = np.asarray(rows.shown), np.asarray(rows.wins)
        tied = (shown > 0) & (wins == shown / 2)
        if not tied.any():
            return problem
        won, lost = np.where(tied, 0, wins), np.where(tied, 0, shown - wins)
        ties = np.where(tied, shown, 0)
        shown = np.concatenate([won + lost, won + ties, ties + lost])
        rows = dataclasses.replace(
            jax.tree.map(lambda leaf: jnp.concatenate([leaf] * n), rows),
            shown=jnp.asarray(shown),
            wins=jnp.asarray(np.concatenate([won, won, ties])),
        )
        by_row = {"source": np.tile(problem.source, n), "judge": np.tile(problem.judge, n)}
        halves = cls(**{**vars(problem), **by_row, "rows": rows, "sides": None})
        column = np.repeat(LOG_NU, len(shown) // n)
        columns = np.column_stack([np.asarray(rows.difference), column])
        at = places(
            theta=problem.at["theta"].shape, c=problem.at["c"].shape, log_nu=(1,), kappa=(1,)
        )
        return halves.with_columns(columns, at, np.append(np.asarray(problem.variant.c), True))

    @property
    def naive(self) -> Variant:
        """c = kappa = 0; log nu is free."""
        column = self.at["log_nu"] - self.design.n_contents
        free = np.isin(np.arange(self.design.n_covariates), column)
        return Variant(jnp.asarray(free), jnp.asarray(False))

    def fit(self, variant: Variant | None = None) -> Fitted:
        """The MAP, by Newton's method."""
        variant = self.variant if variant is None else variant
        m, free = self.design.n_contents, np.asarray(model.free_mask(variant, self.design))
        precision = np.asarray(model.prior_precision(self.design, self.prior))

        def parameters(beta: np.ndarray) -> Parameters:
            return parameters_of(beta, m)

        def hessian(information: np.ndarray) -> np.ndarray:
            return np.where(free[:, None] & free, information, 0) + np.diag(precision)

        def at(beta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            likelihood, score, information = jax.device_get(
                _derivatives(parameters(beta), self.rows, self.design)
            )
            objective = float(precision @ beta**2 / 2 - likelihood)
            return objective, np.where(free, score - precision * beta, 0), hessian(information)

        beta, done = maximise(at, np.zeros(len(free)), TOLERANCE)
        status = Status.CONVERGED if done else Status.NOT_CONVERGED
        moments, information = jax.device_get(_at_mode(parameters(beta), self.rows, self.design))
        inverse = np.where(free[:, None] & free, np.linalg.inv(hessian(information)), 0)
        return Fitted(self, variant, beta, status, inverse, moments=moments)


def log_probabilities(
    eta: Float[Array, "..."], log_nu: Float[Array, "..."]
) -> Float[Array, "3 ..."]:
    """Log-probabilities of a win, a tie and a loss of the first shown; log nu is broadcast."""
    log_nu = jnp.broadcast_to(log_nu, eta.shape)
    return jax.nn.log_softmax(jnp.stack([eta / 2, log_nu, -eta / 2]), axis=0)


def _log_probabilities(parameters: Parameters, rows: Rows) -> Float[Array, "3 R"]:
    """`log_probabilities` of each verdict."""
    n = len(rows.first) // len(LOG_NU)
    eta = kernel_rows.logits(parameters, jax.tree.map(lambda v: v[:n], rows))
    return log_probabilities(eta, parameters.c[-1])


def _counts(rows: Rows) -> Float[Array, "3 R"]:
    """Wins, ties and losses of each verdict's row."""
    shown, wins = (v.reshape(len(LOG_NU), -1) for v in (rows.shown, rows.wins))
    return jnp.stack([wins[0], wins[2], shown[0] - wins[0]])


def _moments(parameters: Parameters, rows: Rows) -> Float[Array, "2 R"]:
    """Residual and weight of each row: with rows z, the score is the sum of residual z and the
    information that of weight z z'. Rows with a tie are twice the difference of the outcomes'
    sufficient statistics."""
    won, tied, lost = _counts(rows)
    win, tie, loss = jnp.exp(_log_probabilities(parameters, rows))
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
