"""The paper's active loop in plain NumPy and SciPy: L-BFGS on the list of verdicts with a warm
start, an inverted Hessian, sorted draws for the membership, greedy picks."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr, expit, log_expit


def numpy_loop(
    answers: np.ndarray,
    quality: np.ndarray,
    x: np.ndarray,
    budget: int,
    *,
    k: int,
    refit_every: int,
    n_samples: int,
    lam: float,
    lam_b: float,
    seed: int,
) -> float:
    """Recall of the top k after `budget` verdicts of a frozen judge, answers [N, N] with one
    covariate x [N], asked for by Eq. acq."""
    n = len(quality)
    rng = np.random.default_rng(seed)
    precision = np.r_[np.full(n, lam), lam_b, lam_b]
    rows, won = np.zeros((budget, n + 2)), np.zeros(budget)
    asked = np.eye(n, dtype=bool)
    beta, covariance = np.zeros(n + 2), np.diag(1 / precision)
    for begin in range(0, budget, refit_every):
        end = min(begin + refit_every, budget)
        theta = beta[:n]
        sigma = covariance[:n, :n]
        draws = rng.multivariate_normal(theta, sigma, n_samples, method="cholesky")
        top = np.argpartition(-draws, k, axis=1)[:, :k]
        membership = np.bincount(top.ravel(), minlength=n) / n_samples
        entropy = entr(membership) + entr(1 - membership)
        phi = theta + beta[n] * x
        p = expit(phi[:, None] - phi + beta[n + 1])
        v = np.diag(sigma)
        score = p * (1 - p) * (v[:, None] + v - 2 * sigma) * (entropy[:, None] + entropy)
        score[asked] = -np.inf
        for t in range(begin, end):
            i, j = divmod(int(score.argmax()), n)
            score[i, j], asked[i, j] = -np.inf, True
            rows[t, i], rows[t, j], rows[t, n], rows[t, n + 1] = 1, -1, x[i] - x[j], 1
            won[t] = answers[i, j]
        z, y = rows[:end], won[:end]

        def objective(
            b: np.ndarray, z: np.ndarray = z, y: np.ndarray = y
        ) -> tuple[float, np.ndarray]:
            logit = z @ b
            value = -(y * log_expit(logit) + (1 - y) * log_expit(-logit)).sum()
            value += (precision * b * b).sum() / 2
            return value, precision * b - z.T @ (y - expit(logit))

        beta = minimize(objective, beta, jac=True, method="L-BFGS-B").x
        q = expit(z @ beta)
        covariance = np.linalg.inv((z.T * (q * (1 - q))) @ z + np.diag(precision))
    return len(set(np.argsort(-beta[:n])[:k]) & set(np.argsort(-quality)[:k])) / k
