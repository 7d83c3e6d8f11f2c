"""What jbt is compared with. Nothing here imports jbt.

Each function prepares `count` problems and returns a function that solves them; its answers are an
array with a row a problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, hstack
from scipy.special import entr, expit, log_expit

from benchmarks.speed import problems
from benchmarks.speed.problems import BUDGET, COVARIATES, LAM, LAM_B, MODELS, REFIT, K, N

Run = Callable[[], Any]
TIGHT = {"ftol": 1e-16, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 20_000}
"""Options of SciPy's L-BFGS for answers that others are compared with."""
FIRST, SECOND = np.nonzero(~np.eye(N, dtype=bool))
"""The ordered pairs of a pool."""
PRECISION = np.r_[np.full(N, LAM), LAM_B, LAM_B]
"""Of the prior of its parameters."""
COUNTED = 1500
"""The paper's draws for a membership."""


# --- a fit


def rows_of(pools: problems.Pools) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each pool the rows whose products with (theta, c, kappa) are the logits of its verdicts,
    and who won."""
    theta, one = np.eye(N)[FIRST] - np.eye(N)[SECOND], np.ones(len(FIRST))
    pairs = zip(pools.wins, pools.x, strict=True)
    return [(np.c_[theta, x[FIRST] - x[SECOND], one], wins[FIRST, SECOND]) for wins, x in pairs]


def map_of_rows(
    z: Any, y: np.ndarray, precision: np.ndarray, start: Any = 0.0, tight: bool = False
) -> np.ndarray:
    """MAP of a logistic regression of y on z, dense or sparse, by SciPy's L-BFGS.

    Args:
      tight: to rounding, for answers that others are compared with.
    """

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        logit = z @ b
        value = -(y * log_expit(logit) + (1 - y) * log_expit(-logit)).sum()
        value += (precision * b * b).sum() / 2
        return value, precision * b - z.T @ (y - expit(logit))

    start = np.broadcast_to(start, len(precision))
    options = TIGHT if tight else {}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


def scipy_fit(count: int, tight: bool = False) -> Run:
    """MAP of one pool after the other: theta, c and kappa."""
    pools = rows_of(problems.pools(count))
    return lambda: [map_of_rows(z, won, PRECISION, tight=tight) for z, won in pools]


# --- the crossing experiment and the active loop


def top(values: np.ndarray) -> set[int]:
    """The `K` largest."""
    return set(np.argsort(-values)[:K].tolist())


def scipy_crossing(count: int) -> Run:
    """The gain in recall by the bias-aware fit over the naive one, in pools drawn under the
    correlations 0, 0.05, ..., 0.9 in turn."""

    def recall(z: np.ndarray, won: np.ndarray, quality: np.ndarray, p: int) -> float:
        return len(top(map_of_rows(z[:, :p], won, PRECISION[:p])[:N]) & top(quality)) / K

    def run() -> list[float]:
        drawn = problems.pools(count, rho=0.05 * (np.arange(count) % 19)[:, None])
        both = zip(rows_of(drawn), drawn.quality, strict=True)
        return [recall(*rows, q, N + 2) - recall(*rows, q, N) for rows, q in both]

    return run


def numpy_loop(count: int, budget: int = BUDGET) -> Run:
    """The paper's active loop, one run after the other: recall of the top k."""
    tasks = list(zip(*problems.tasks(count), strict=True))
    return lambda: [active_run(*task, budget, number) for number, task in enumerate(tasks)]


def active_run(
    quality: np.ndarray, x: np.ndarray, answers: np.ndarray, budget: int, seed: int
) -> float:
    """Recall after `budget` verdicts asked for by Eq. acq: L-BFGS on the list of verdicts with a
    warm start, an inverted Hessian, sorted draws for the membership, greedy picks."""
    rng = np.random.default_rng(seed)
    rows, won = np.zeros((budget, N + 2)), np.zeros(budget)
    asked = np.eye(N, dtype=bool)
    beta, covariance = np.zeros(N + 2), np.diag(1 / PRECISION)
    for begin in range(0, budget, REFIT):
        end = min(begin + REFIT, budget)
        theta, sigma = beta[:N], covariance[:N, :N]
        draws = rng.multivariate_normal(theta, sigma, COUNTED, method="cholesky")
        best = np.argpartition(-draws, K, axis=1)[:, :K]
        membership = np.bincount(best.ravel(), minlength=N) / COUNTED
        entropy = entr(membership) + entr(1 - membership)
        phi = theta + beta[N] * x
        p = expit(phi[:, None] - phi + beta[N + 1])
        v = np.diag(sigma)
        score = p * (1 - p) * (v[:, None] + v - 2 * sigma) * (entropy[:, None] + entropy)
        score[asked] = -np.inf
        for t in range(begin, end):
            i, j = divmod(int(score.argmax()), N)
            score[i, j], asked[i, j] = -np.inf, True
            rows[t, i], rows[t, j], rows[t, N], rows[t, N + 1] = 1, -1, x[i] - x[j], 1
            won[t] = answers[i, j]
        z = rows[:end]
        beta = map_of_rows(z, won[:end], PRECISION, beta)
        q = expit(z @ beta)
        covariance = np.linalg.inv((z.T * (q * (1 - q))) @ z + np.diag(PRECISION))
    return len(top(beta[:N]) & top(quality)) / K


# --- a leaderboard


def scipy_leaderboard(rows: int, tight: bool = False) -> Run:
    """SciPy on a sparse matrix of the rows."""
    data = problems.leaderboard(rows)
    place = np.tile(np.arange(rows), 2), np.r_[data["first"], data["second"]]
    sides = csr_matrix((np.repeat([1.0, -1.0], rows), place), (rows, MODELS))
    z = hstack([sides, data["difference"]], format="csr")
    precision = np.repeat([LAM, LAM_B], [MODELS, COVARIATES])
    return lambda: [map_of_rows(z, data["won"], precision, tight=tight)]
