"""The posterior covariance of a fit in float64, and the prior's part of it; over clusters, see
`jbt.stats.row_jackknife`."""

from __future__ import annotations

import numpy as np
from jaxtyping import Array, Float

from jbt import quick_compilation
from jbt.kernel import model, padding
from jbt.types import Design, Parameters, Prior, Rows, Variant


def inverse_hessian(
    mode: Parameters, rows: Rows, design: Design, prior: Prior, variant: Variant
) -> Float[np.ndarray, "P P"]:
    """H^-1 at the mode in float64, which is also the posterior covariance of `laplace`; zero in the
    rows and columns of fixed parameters."""
    free = np.concatenate([design.content_mask(), variant.c, variant.kappa], axis=None)
    padded = padding.pad_contents(design)
    information = _information(padding.pad_parameters(mode, padded.n_contents), rows, padded)
    places = padding.kept(design.n_contents, len(free), padded.n_contents)
    information = np.asarray(information, float)[np.ix_(places, places)]
    hessian = information + np.diag(prior_precision(design, prior))
    hessian = np.where(free[:, None] & free, hessian, np.eye(len(free)))
    return np.where(free[:, None] & free, np.linalg.inv(hessian), 0)


def prior_precision(design: Design, prior: Prior) -> Float[np.ndarray, " P"]:
    """`model.prior_precision` of one judge in NumPy."""
    lam = np.broadcast_to(np.asarray(prior.lam, float), design.n_contents)
    return np.r_[lam, np.broadcast_to(np.asarray(prior.lam_b, float), design.n_covariates + 1)]


@quick_compilation.jit
def _information(mode: Parameters, rows: Rows, design: Design) -> Float[Array, "P P"]:
    return model.score_and_information(mode, design, rows)[1]


def prior_part(
    inverse: Float[np.ndarray, "P P"], precision: Float[np.ndarray, " P"]
) -> Float[np.ndarray, "P P"]:
    """The prior's part H^-1 Lambda H^-1 of the posterior covariance H^-1; the verdicts' part is
    H^-1 information H^-1.

    Where the share s = a'(prior's part)a / a'H^-1 a of a combination a'beta is small, the MAP is
    biased by s times the distance of the truth from the prior's mean. With a truth drawn from the
    prior, that is sqrt(s / (1 - s)) standard errors.
    """
    return inverse @ (precision[:, None] * inverse)
