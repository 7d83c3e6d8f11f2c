"""Logistic regression of shares with a ridge penalty, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

MAX_STEPS, TOLERANCE, SHORTEST = 100, 1e-10, 1e-4
"""The tolerance is of the last step, in posterior standard deviations; a step that raises the
objective is shortened, at most to the share `SHORTEST`."""


def ridge(
    z: Float[np.ndarray, "R K"],
    share: Float[np.ndarray, " R"],
    weight: Float[np.ndarray, " R"],
    precision: Float[np.ndarray, " K"],
) -> Float[np.ndarray, " K"]:
    """The coefficients that maximise the log-likelihood less precision / 2 times their squares.

    Args:
      z: a row for each outcome.
      share: its outcome, from 0 to 1.
      weight: outcomes that a row stands for.
      precision: above 0.
    """

    def objective(beta: np.ndarray) -> float:
        return float(precision @ beta**2 / 2 - log_likelihood(z @ beta, share, weight))

    beta = np.zeros(z.shape[1])
    for _ in range(MAX_STEPS):
        p = sigmoid(z @ beta)
        gradient = z.T @ (weight * (share - p)) - precision * beta
        hessian = (z.T * (weight * p * (1 - p))) @ z + np.diag(precision)
        step = np.linalg.solve(hessian, gradient)
        beta = moved(objective, beta, step)
        if gradient @ step < TOLERANCE**2:
            break
    return beta


def moved(objective: Callable[[np.ndarray], float], at: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The point after a step, which is halved while it raises the objective by more than
    rounding."""
    before, length = objective(at), 1.0
    while objective(at + length * step) > before + 1e-12 * abs(before) and length > SHORTEST:
        length /= 2
    return at + length * step


def log_likelihood(logits: np.ndarray, share: np.ndarray, weight: np.ndarray) -> float:
    """Of shares as fractional outcomes, nats."""
    from scipy.special import log_expit

    return float(weight @ (share * log_expit(logits) + (1 - share) * log_expit(-logits)))


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-logits))"""
    from scipy.special import expit

    return np.asarray(expit(logits))
