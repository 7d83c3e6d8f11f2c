"""Variances and degrees of freedom of a leaderboard's parameters and of differences of models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jbt.stats.cluster_jackknife import NO_DIFFERENCE

NEGLIGIBLE = 1e-6
"""A direction moves a parameter if by more than this share of its largest move, in posterior
standard deviations."""


def quantile(level: float, df: np.ndarray) -> np.ndarray:
    """Quantile of Student's t; NaN without degrees of freedom."""
    from scipy import special

    return special.stdtrit(np.where(df > 0, df, np.nan), level)


@dataclass(frozen=True, eq=False)
class Degrees:
    """Degrees of freedom of the intervals."""

    parameters: np.ndarray
    """[P] of theta about its mean, c and kappa."""
    differences: np.ndarray
    """[M, M] of the difference of two models."""

    @classmethod
    def of(cls, df: np.ndarray, inverse: np.ndarray, centre: np.ndarray, m: int) -> Degrees:
        """Combine the degrees of freedom of the parameters (`df`; theta at known c and kappa).

        The variance of a theta is a part from each coefficient plus a remainder. Their clusters are
        the same, so that the parts are dependent and combine by 1 / df = sum of share / df. The
        parts of correlated coefficients are those of the uncorrelated variables nearest to them,
        whatever the order of judges and covariates. For a difference, the remainder has the smaller
        df of the two models.
        """
        free = m + np.flatnonzero(np.diagonal(inverse)[m:] > 0)
        by_bias = centre[:m] @ inverse[:, free]
        theta, coefficients = df[:m], df[free]
        if len(free):
            sd = np.sqrt(np.diagonal(inverse)[free])
            values, vectors = np.linalg.eigh(inverse[np.ix_(free, free)] / np.outer(sd, sd))
            by_bias = by_bias / sd @ (vectors / np.sqrt(values.clip(1e-12))) @ vectors.T
        posterior = Variances.of(inverse, centre, m)
        parameters = _combined(by_bias.T, posterior.parameters[:m], coefficients, theta)
        pairs = (v - v[:, None] for v in by_bias.T)
        differences = _combined(
            pairs, posterior.differences, coefficients, np.minimum(theta, theta[:, None])
        )
        return cls(np.r_[parameters, df[m:]], differences)


def _combined(
    by_bias: Iterable[np.ndarray], variance: np.ndarray, df: np.ndarray, remainder_df: np.ndarray
) -> np.ndarray:
    """Degrees of freedom of a variance: each coefficient contributes its square in `by_bias`, and
    the remainder has `remainder_df`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total, remainder = np.zeros_like(variance), np.ones_like(variance)
        for change, degrees in zip(by_bias, df, strict=True):
            share = np.where(variance > 0, change**2 / variance, 0)
            total = total + np.where(share > NEGLIGIBLE, share / degrees, 0)
            remainder = remainder - share
        total += remainder.clip(0) / remainder_df
        return np.where((total > 0) & np.isfinite(total), 1 / total, 0)


@dataclass(frozen=True, eq=False)
class Variances:
    """Variances of the parameters and of differences, from a covariance of (theta, c, kappa)."""

    parameters: np.ndarray
    """[P] of theta about its mean, c and kappa."""
    differences: np.ndarray
    """[M, M] of the difference of two models."""

    @classmethod
    def of(cls, covariance: np.ndarray, centre: np.ndarray, m: int) -> Variances:
        theta = np.diagonal(covariance)[:m]
        differences = theta + theta[:, None] - 2 * covariance[:m, :m]
        parameters = np.einsum("ip,pq,iq->i", centre, covariance, centre, optimize=True)
        return cls(parameters.clip(0), differences.clip(0))

    def unless_none(self, of_model: Variances) -> Variances:
        """These variances, or the model's where clusters do not differ at all: the verdicts of a
        judge symmetric by construction do not show the error."""
        pairs = (self.parameters, of_model.parameters), (self.differences, of_model.differences)
        return Variances(*(np.where(a > NO_DIFFERENCE * b, a, b) for a, b in pairs))


def centring(known: np.ndarray, n_parameters: int) -> np.ndarray:
    """[P, P] matrix that subtracts from theta its mean over the known models."""
    centre = np.eye(n_parameters)
    m = len(known)
    centre[:m, :m] = np.diag(known) - np.outer(known, known) / max(1, known.sum())
    return centre
