"""The posterior at the mode: a Gaussian with the curvature found there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jbt import model
from jbt.types import Comparisons, Design, Parameters, Posterior, Prior, Variant


def laplace(
    mode: Parameters,
    comparisons: Comparisons,
    design: Design,
    prior: Prior,
    variant: Variant,
) -> Posterior:
    """Laplace approximation N(mode, H^-1), H = information + prior precision at the mode [the
    paper's Inference section].

    Args:
      mode: the MAP, as `fit.fit_map` returns it.
      comparisons, design, prior, variant: what it was fitted with.

    Returns:
      A `Posterior`; parameters that the variant fixes, and contents never shown, have
      variance 0. NaN where H is not positive definite.
    """
    design = design.centred()
    _, information = model.score_and_information(mode, design, comparisons)
    hessian = information + jnp.diag(model.prior_precision(design, prior))
    return gaussian(mode, hessian, model.free_mask(variant, design))


def gaussian(
    mean: Parameters, precision: Float[Array, "P P"], free: Bool[Array, " P"]
) -> Posterior:
    """The Gaussian with this mean and precision over the free parameters; the others are known."""
    eye = jnp.eye(len(free), dtype=precision.dtype)
    precision = jnp.where(free[:, None] & free, precision, eye)
    chol = jax.lax.linalg.cholesky(precision, symmetrize_input=False)
    root = jax.lax.linalg.triangular_solve(chol, eye, left_side=True, lower=True)
    return Posterior(mean, jnp.where(free, root, 0))
