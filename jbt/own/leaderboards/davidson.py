"""Davidson's (1970) ties: an outcome of their own in place of half a win for each side.

    P(first wins) = e^(eta / 2) / D,  P(tie) = nu / D,  P(second wins) = e^(-eta / 2) / D,
    D = e^(eta / 2) + e^(-eta / 2) + nu,  eta = theta_first - theta_second + c . d + kappa

with eta that of the other leaderboards: the log-odds of the first winning, given that one side
does. log nu has the prior of c and kappa.

The model is a multinomial logit, linear in (theta, c, log nu, kappa), and so a sum over pairs of
outcomes. Each verdict is three rows of a problem whose covariates are d and, last, a column of
log nu: win against loss (0 in that column), win against tie (-2), and tie against loss (2), with
log-odds eta, (eta - 2 log nu) / 2 and (eta + 2 log nu) / 2. With the residuals and weights of
`DavidsonRows.moments` in place of a Bradley-Terry model's, they have Davidson's score and
information, and so its fit, its directions without a finite maximum, and its jackknife.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jbt.kernel.listed import Listed
from jbt.own.leaderboards.problem import Problem, Setup

LOG_NU = (0.0, -2.0, 2.0)
"""The column of log nu in the rows of win against loss, win against tie, and tie against loss."""


def problem_of(setup: Setup, judge: int) -> Problem:
    """`Setup.problem`, with Davidson's ties where the tables were read with them."""
    problem = setup.problem(judge)
    if setup.tables.ties != "davidson":
        return problem
    return DavidsonProblem.of_halves(problem)


@dataclass(frozen=True, eq=False)
class DavidsonProblem(Problem):
    """One judge's verdicts, of which some are ties. Rows are three times as many; the parameters
    are theta, c, kappa and log_nu."""

    @classmethod
    def of_halves(cls, problem: Problem) -> Problem:
        """The problem whose ties are half a win each, with Davidson's ties; itself without any.

        Args:
          problem: every verdict is won, lost or tied.
        """
        rows, n = problem.rows, len(LOG_NU)
        shown, wins = rows.shown, rows.wins
        tied = (shown > 0) & (wins == shown / 2)
        if not tied.any():
            return problem
        won, lost = np.where(tied, 0, wins), np.where(tied, 0, shown - wins)
        ties = np.where(tied, shown, 0)
        column = np.repeat(LOG_NU, len(shown))
        columns = np.column_stack([np.tile(rows.columns, (n, 1)), column])
        rows = DavidsonRows(
            rows.n_contents,
            np.tile(rows.first, n),
            np.tile(rows.second, n),
            np.asfortranarray(columns),
            np.concatenate([won + lost, won + ties, ties + lost]),
            np.concatenate([won, won, ties]),
        )
        by_row = {"source": np.tile(problem.source, n), "judge": np.tile(problem.judge, n)}
        at = {**problem.at, "log_nu": np.array([len(problem.free)])}
        free = np.append(problem.free, True)
        return cls(
            **{**vars(problem), **by_row, "rows": rows, "at": at, "free": free, "sides": None}
        )

    @property
    def naive(self) -> np.ndarray:
        """[P] c = kappa = 0; log nu is free."""
        naive = super().naive
        naive[self.at["log_nu"]] = True
        return naive


@dataclass(frozen=True, eq=False)
class DavidsonRows(Listed):
    """Rows in three parts: win against loss, win against tie, and tie against loss."""

    @property
    def real(self) -> np.ndarray:
        """[R] Every row of a verdict, whatever its outcome."""
        return np.tile((self.shown.reshape(len(LOG_NU), -1) > 0).any(0), len(LOG_NU))

    def moments(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[R] Residuals and weights. Rows with a tie are twice the difference of the outcomes'
        sufficient statistics."""
        from scipy import special

        (shown, _, _), (won, _, tied) = (
            v.reshape(len(LOG_NU), -1) for v in (self.shown, self.wins)
        )
        lost = shown - won
        eta, with_win, with_loss = logits.reshape(len(LOG_NU), -1)
        win, tie, loss = special.softmax([eta / 2, (with_loss - with_win) / 4, -eta / 2], axis=0)
        n = won + tied + lost
        residual = (
            won * loss - lost * win,
            (won * tie - tied * win) / 2,
            (tied * loss - lost * tie) / 2,
        )
        weight = (n * win * loss, n * win * tie / 4, n * tie * loss / 4)
        return np.concatenate(residual), np.concatenate(weight)
