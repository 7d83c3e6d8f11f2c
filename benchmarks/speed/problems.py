"""The problems that jbt and its peers solve, drawn with NumPy alone: every process gets the same
arrays. The first problems of any count are the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

N, K = 30, 5
"""Items of a pool, and the size of its top set."""
LAM, LAM_B = 1.0, 0.1
"""Prior precision of quality, and of c and kappa."""
BUDGET, REFIT = 120, 8
"""Verdicts of an active run, and between refits."""
MODELS, COVARIATES = 500, 5
"""Of the leaderboard."""


class Pools(NamedTuple):
    """Pools with one covariate, every ordered pair judged once."""

    quality: np.ndarray
    """[count, n] true qualities, logits."""
    x: np.ndarray
    """[count, n] the covariate."""
    wins: np.ndarray
    """[count, n, n] whether i, shown first, won against j; False on the diagonal."""


def pools(
    count: int,
    n: int = N,
    *,
    sd: float = 1.2,
    rho: Any = 0.3,
    bias: float = 1.0,
    position: float = 0.0,
    binary: bool = False,
) -> Pools:
    """Pools of Gaussian quality and of a judge with a bias.

    Args:
      sd: standard deviation of quality, logits.
      rho: correlation of quality and covariate, a number or [count, 1].
      bias: c*, logits per unit of the covariate.
      position: kappa*, logits in favour of the first shown.
      binary: whether x is 1 for the half of the pool with the largest latent; else the latent.
    """
    quality, noise, uniform = (np.random.default_rng([0, stream]) for stream in range(3))
    z = quality.normal(size=(count, n))
    x = rho * z + np.sqrt(1 - np.square(rho)) * noise.normal(size=(count, n))
    x = 1.0 * (x > np.median(x, 1, keepdims=True)) if binary else x
    phi = (sd * z + bias * x).astype(np.float32)
    logits = phi[:, :, None] - phi[:, None] + position
    wins = uniform.random((count, n, n), np.float32) < 1 / (1 + np.exp(-logits))
    return Pools(sd * z, x, wins & ~np.eye(n, dtype=bool))


def tasks(count: int) -> Pools:
    """Pools of the active loop: bias 1.5, position 0.35, a binary covariate, sd 1.25."""
    return pools(count, sd=1.25, rho=0.0, bias=1.5, position=0.35, binary=True)


def leaderboard(rows: int) -> dict[str, np.ndarray]:
    """Verdicts one a row: theta and differences of covariates ~ N(0, 1), c from -0.5 to 1."""
    rng = np.random.default_rng(0)
    theta, c = rng.normal(size=MODELS), np.linspace(-0.5, 1, COVARIATES)
    first = rng.integers(0, MODELS, rows)
    second = (first + rng.integers(1, MODELS, rows)) % MODELS
    difference = rng.normal(size=(rows, COVARIATES))
    logit = theta[first] - theta[second] + difference @ c
    won = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(float)
    return {"first": first, "second": second, "difference": difference, "won": won}
