"""The cluster bootstrap of a fit, and the prior's part of its posterior covariance. Without refits:
`jbt.stats.row_jackknife`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import quick_compilation
from jbt.kernel import model, padding
from jbt.kernel.fit import fit_map
from jbt.types import Design, Parameters, Prior, Rows, Variant

AT_ONCE = 2**20
"""Rows times resamples that a bootstrap fits at once."""


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


def bootstrap(
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
    cluster: Int[np.ndarray, " R"],
    *,
    resamples: int,
    seed: int,
) -> Float[np.ndarray, "resamples P"]:
    """The MAP of resampled clusters: as many as in the data, drawn with replacement.

    Args:
      mode: the MAP, where each refit begins.
      cluster: [R] the cluster of each row, integers from 0.
      seed: seed of the resampling.

    Returns:
      (theta, c, kappa) of each resample; NaN where the fit did not converge.
    """
    real = np.asarray(rows.shown) > 0
    names = np.unique(np.asarray(cluster)[real])
    index = jnp.asarray(np.searchsorted(names, cluster).clip(0, len(names) - 1))
    rng = np.random.default_rng([seed, len(names)])
    at_once = max(1, min(resamples, AT_ONCE // len(real), 64))
    estimates = []
    for begin in range(0, resamples, at_once):
        drawn = rng.integers(0, len(names), (at_once, len(names)))
        times = np.stack([np.bincount(d, minlength=len(names)) for d in drawn])
        times = jnp.asarray(times, design.dtype)
        refits = _refit(times, index, mode, rows, design, prior, variant)
        estimates.append(np.asarray(refits)[: resamples - begin])
    return np.concatenate(estimates)


@jax.jit  # run again and again
def _refit(
    times: Float[Array, "B G"],
    index: Int[Array, " R"],
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
) -> Float[Array, "B P"]:
    def refit(times: Float[Array, " G"]) -> Float[Array, " P"]:
        weight = times[index]
        drawn = Rows(
            rows.first,
            rows.second,
            rows.difference,
            rows.ordered,
            rows.shown * weight,
            rows.wins * weight,
        )
        fit = fit_map(drawn, design, prior, variant, start=mode)
        return jnp.where(fit.status == 0, fit.parameters.flat(), jnp.nan)

    return jax.vmap(refit)(times)
