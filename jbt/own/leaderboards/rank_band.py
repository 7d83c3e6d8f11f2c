"""Ranks of a leaderboard over what its verdicts do not identify.

Where a covariate belongs to the models, each answer of a model having as much of it, the verdicts
identify phi = theta + c x alone: any c, with theta = phi - c x, fits them equally well, and the
prior chooses one. The correlation rho of theta and x over the models would choose one, too:

    c = b - rho / sqrt(1 - rho^2) s / sd(x),

with b the slope of phi on x over the models, and s the standard deviation of phi about that line.
c falls as rho rises: a range of rho is a range of c, in which a model's rank changes where its line
phi - c x crosses that of another model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.kernel import metrics
from jbt.own.leaderboards.problem import Fitted
from jbt.own.shared_coefficients.directions import MOVED
from jbt.types import Status


@dataclass(frozen=True, eq=False)
class RankBand:
    """Ranks over a range of rho."""

    covariate: str
    """With its transformation."""
    rho: tuple[float, float]
    """Least and largest correlation of theta and the covariate over the models."""
    c: tuple[float, float]
    """Least and largest c over that range, logits per unit."""
    ranks: pd.DataFrame
    """A row for each model with a verdict: model, least and largest rank."""

    def beside(self, models: pd.DataFrame) -> pd.DataFrame:
        """The ranks beside those of the prior's c, best first by these.

        Args:
          models: of the leaderboard.
        """
        return models[["model", "rank"]].merge(self.ranks, on="model")

    def range_of_rho(self) -> str:
        """What is assumed, in words."""
        low, high = self.rho
        return f"corr(theta, {self.covariate}) from {low:+g} to {high:+g}"


def rank_band(
    fit: Fitted, covariates: Sequence[str], models: Sequence[str], rho: tuple[float, float]
) -> RankBand | None:
    """The ranks over a range of rho, phi being held at its estimate. None unless the comparisons
    connect the models and leave one c open and nothing else; and where the phi lie on a line in x,
    as those of two models do: theta then has the correlation 1 or -1 whatever c is.

    Args:
      covariates: [D] names.
      models: [M] names.
      rho: least and largest, between -1 and 1.
    """
    if fit.status != Status.CONVERGED:
        return None
    problem, nulls = fit.problem, fit.nulls
    moved = np.abs(nulls) > MOVED * np.abs(nulls).max(1, initial=1e-300, keepdims=True)
    m = problem.n_contents
    biases = np.flatnonzero(moved[:, m:].any(0)) + m
    place = problem.at["c"].ravel().tolist()
    if len(nulls) != 2 or len(biases) != 1 or biases[0] not in place:
        return None
    known, c = problem.known, biases[0]
    x = -nulls[1, :m][known] / nulls[1, c]
    phi = fit.beta[:m][known] + fit.beta[c] * x
    ends = c_at(phi, x, np.array(rho[::-1]))
    if not np.ptp(ends) > metrics.TIED:
        return None
    least, largest = ranks_between(phi, x, *ends.tolist())
    names = np.array(models, object)[known]
    ranks = pd.DataFrame({"model": names, "least": least, "largest": largest})
    low, high = ends.tolist()
    return RankBand(covariates[place.index(c)], rho, (low, high), ranks)


def c_at(phi: np.ndarray, x: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """The c at which theta = phi - c x [models] has the correlations `rho` with x."""
    x, phi = x - x.mean(), phi - phi.mean()
    slope = x @ phi / (x @ x)
    rest = phi - slope * x
    return slope - rho / np.sqrt(1 - rho**2) * np.sqrt(rest @ rest / (x @ x))


def ranks_between(
    phi: np.ndarray, x: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest rank of each model by theta = phi - c x, for c from low to high."""
    ends = np.empty((2, len(phi)), int)
    for i, (level, slope) in enumerate(zip(phi, x, strict=True)):
        apart, slopes = phi - level, x - slope
        crossings = apart[slopes != 0] / slopes[slopes != 0]
        inside = np.unique(crossings[(low < crossings) & (crossings < high)])
        bounds = np.r_[low, inside, high]
        c = np.r_[low, (bounds[1:] + bounds[:-1]) / 2, high]
        ranks = 1 + (apart - c[:, None] * slopes > metrics.TIED).sum(1)
        ends[:, i] = ranks.min(), ranks.max()
    return ends[0], ends[1]
