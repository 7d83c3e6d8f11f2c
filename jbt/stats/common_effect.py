"""Covariance of a fit over few clusters, where every content varies alike between clusters.

A jackknife (`row_jackknife`) estimates the variance of each parameter from the clusters that inform
it, of which few leave few degrees of freedom. Here one number, the standard deviation sigma of a
content's quality between clusters, is estimated from all contents together. The scores of cluster g
then have the covariance

    V_g = I_g + sigma^2 I_g T I_g + sum_d tau_d^2 I_g e_d e_d' I_g

with T the identity on theta and e_d the unit vector of the coefficient d of (c, kappa), and the
covariance of the fit is H^-1 (sum_g V_g) H^-1. sigma^2 equates the sum over clusters and contents
of r^2 / i with its expectation (the moments of DerSimonian & Laird 1986, for a vector), where r is
what fitting leaves of a score and i its information. tau_d^2 is the least with which the variance
of the coefficient is that of the jackknife: there are too few coefficients to share anything. The
moment equation takes it for 0, so that sigma also holds what c varies between clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from jbt.stats.row_jackknife import Clusters, Jackknife
from jbt.types import Parameters, Rows


@dataclass(frozen=True, eq=False)
class CommonEffect:
    """Covariance of the MAP over clusters, and what all contents share."""

    covariance: Float[np.ndarray, "P P"]
    sd: float
    """sigma, logits."""
    df: float
    """Degrees of freedom of sigma^2: those of a sum of squares, by its variance (Satterthwaite)."""


def common_effect(
    inverse: Float[np.ndarray, "P P"],
    mode: Parameters,
    rows: Rows,
    cluster: Int[np.ndarray, " R"],
    alone: Jackknife,
) -> CommonEffect:
    """Cluster-robust covariance of the MAP under a common effect.

    Args:
      inverse: from `clusters.inverse_hessian`.
      mode, rows, cluster: see `row_jackknife.jackknife`.
      alone: the jackknife of the same fit.
    """
    data = Clusters.of(mode, rows, cluster, None)
    m, p = data.n_contents, len(inverse)
    score, information, of_theta = np.zeros(p), np.zeros((p, p)), np.zeros((p, p))
    of_bias = np.zeros((p - m, p, p))
    for at, s, matrix, q in _clusters(data):
        places = np.ix_(at, at)
        np.add.at(score, at, s)
        np.add.at(information, places, matrix)
        np.add.at(of_theta, places, matrix[:, :q] @ matrix[:q])
        for total, column in zip(of_bias, matrix[:, q:].T, strict=True):
            np.add.at(total, places, np.outer(column, column))

    spread = [inverse @ total @ inverse for total in (information, of_theta)]
    pull = inverse @ score  # what the prior has taken off the estimate
    observed, expected, parts = 0.0, np.zeros(2), []
    for at, s, matrix, q in _clusters(data):
        places = np.ix_(at, at)
        diagonal = np.diagonal(matrix)[:q]
        scale = np.sqrt(np.divide(1, diagonal, out=np.zeros(q), where=diagonal > 0))
        residual = scale * (s - matrix @ pull[at])[:q]
        observed += residual @ residual
        both = []
        for own, total in zip((matrix, matrix[:, :q] @ matrix[:q]), spread, strict=True):
            fitted = own @ inverse[places] @ matrix
            left = own - fitted - fitted.T + matrix @ total[places] @ matrix
            both.append(scale[:, None] * left[:q, :q] * scale)
        expected += np.trace(both[0]), np.trace(both[1])
        parts.append(both)
    variance = max(0.0, (observed - expected[0]) / expected[1]) if expected[1] > 0 else 0.0
    sums = [one + variance * other for one, other in parts]
    squares = sum((v**2).sum() for v in sums)
    df = sum(np.trace(v) for v in sums) ** 2 / squares if squares > 0 else 0.0

    covariance = spread[0] + variance * spread[1]
    for d, total in enumerate(of_bias, m):
        added = inverse @ total @ inverse
        if added[d, d] > 0:
            missing = alone.covariance[d, d] - covariance[d, d]
            covariance = covariance + max(0.0, missing / added[d, d]) * added
    return CommonEffect(covariance, float(np.sqrt(variance)), float(df))


def _clusters(data: Clusters) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Yield each cluster: the parameters that it informs, contents first, its score and
    information, and the number of contents, some of which are padding."""
    for block in data.blocks():
        q = block.information.shape[1] - block.n_biases
        for at, score, information in zip(block.index, block.score, block.information, strict=True):
            yield at, score, information, q
