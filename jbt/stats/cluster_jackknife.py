"""Jackknife variances of parameters that all clusters share, from each cluster's score and
information."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jbt.stats.intervals import LEVEL

NO_DIFFERENCE = 1e-6
"""Largest `Jackknife.ratio` that counts as rounding."""


class Jackknife(NamedTuple):
    """Standard errors of combinations of parameters, with clusters as the unit."""

    sd: np.ndarray
    """[C] standard error of each combination."""
    dof: np.ndarray
    """[C] degrees of freedom of Student's t for it: effective number of clusters less one."""
    ratio: np.ndarray
    """[C] variance of the changes from leaving clusters out, over its expectation if all clusters
    have the same parameters."""

    def p_alike(self) -> np.ndarray:
        """[C] p-value of the hypothesis that all clusters have the same parameters: the ratio times
        dof is then nearly chi-squared with dof degrees of freedom."""
        from scipy.special import chdtrc

        return chdtrc(self.dof, self.ratio * self.dof)

    def half_width(self) -> np.ndarray:
        """[C] half-width of the 95 % interval."""
        from scipy.special import stdtrit

        return stdtrit(self.dof, (1 + LEVEL) / 2) * self.sd


def jackknife(
    information: Float[np.ndarray, "K K"],
    scores: Float[np.ndarray, "G K"],
    informations: Float[np.ndarray, "G K K"],
    along: Float[np.ndarray, "C K"],
) -> Jackknife:
    """Standard errors that do not assume independent verdicts inside a cluster, nor the same
    parameters in all clusters.

    Leaving cluster g out moves the estimate, to first order, by -(H - H_g)^-1 score_g. The variance
    is the sum of the squares (CR3: Bell and McCaffrey 2002; MacKinnon, Nielsen and Webb 2023), less
    its average excess where the model holds: there a cluster's score has covariance H_g before the
    estimate is subtracted, and the variance is H^-1. The degrees of freedom are Satterthwaite's
    under the same model: few clusters, or few that matter, leave few.

    Where the model is not linear in its parameters, the H_g observed of one cluster need not be a
    covariance. Its negative part is left out, and the rest is transformed so that the sum stays.

    Args:
      information: H at the optimum, the prior's included; positive definite.
      scores: each cluster's term of the gradient at the optimum.
      informations: H_g, each cluster's term of the information.
      along: combinations of the K parameters.
    """
    # In coordinates in which H is the identity.
    whiten = np.linalg.inv(np.linalg.cholesky(information))
    scores, along = scores @ whiten.T, along @ whiten.T
    covariances = _as_covariances(whiten @ informations @ whiten.T)  # [G, K, K]

    variance = (along**2).sum(1)
    left_out = np.linalg.solve(
        np.eye(len(information)) - covariances,
        np.broadcast_to(along.T, (len(scores), *along.T.shape)),
    )  # [G, K, C]
    change = np.einsum("gk,gkc->gc", scores, left_out)
    # Covariances of the changes: on the diagonal w'H_g w, less the estimate's part v'H^-1 v.
    v = np.einsum("gkl,glc->gkc", covariances, left_out)
    alone = np.einsum("gkc,gkc->gc", left_out, v)
    taken = (v**2).sum(1)
    cross = np.einsum("gkc,glc->ckl", v, v)
    mean = (alone - taken).sum(0)
    square = ((alone - taken) ** 2).sum(0) + (cross**2).sum((1, 2)) - (taken**2).sum(0)
    mean = np.where(mean > 1e-9 * variance, mean, np.nan)  # a combination that no cluster moves
    ratio = (change**2).sum(0) / mean
    # Clusters that do not differ at all, as with a judge that is symmetric by construction, carry
    # no information about the error: it is then the model's.
    factor = np.where(ratio <= NO_DIFFERENCE, 1, ratio)
    return Jackknife(np.sqrt(variance * factor), mean**2 / square, ratio)


def _as_covariances(matrices: np.ndarray) -> np.ndarray:
    """[G, K, K] positive semidefinite matrices near the given symmetric ones, with the same sum (if
    that is positive semidefinite)."""
    total, kept = matrices.sum(0), _map_spectrum(matrices, lambda values: values)
    turn = _map_spectrum(total, np.sqrt) @ _map_spectrum(kept.sum(0), _inverse_root)
    return turn @ kept @ turn.T


def _inverse_root(values: np.ndarray) -> np.ndarray:
    positive = values > 1e-12 * values.max(initial=0)
    return np.where(positive, 1 / np.sqrt(np.where(positive, values, 1)), 0)


def _map_spectrum(matrices: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`function` of symmetric matrices [..., K, K] by their eigenvalues, negative ones set to 0."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * function(np.maximum(values, 0))[..., None, :]) @ vectors.swapaxes(-1, -2)
