"""The Laplace approximation: a Gaussian with the curvature at the mode."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jbt.kernel import cholesky, model
from jbt.kernel.batching import batch_last
from jbt.types import Design, Parameters, Posterior, Prior, Variant, Verdicts


def laplace(
    mode: Parameters,
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    variant: Variant,
) -> Posterior:
    """Laplace approximation N(mode, H^-1), H = information + prior precision at the mode [the
    paper's Inference section].

    Args:
      mode: the MAP, as `fit.fit_map` returns it.
      comparisons, design, prior, variant: as in that fit.

    Returns:
      A `Posterior`; parameters that the variant fixes, and contents never shown, have
      variance 0. NaN where H is not positive definite.
    """
    precision = model.prior_precision(design, prior, variant.n_judges)
    free = model.free_mask(variant, design)
    return Posterior(mode, *batch_last(_root_at)(mode, comparisons, design, precision, free))


def gaussian(
    mean: Parameters, precision: Float[Array, "P P"], free: Bool[Array, " P"]
) -> Posterior:
    """The Gaussian with this mean and precision over the free parameters; the others are known."""
    return Posterior(mean, *batch_last(_root)(precision, free))


def _root_at(
    mode: Parameters,
    comparisons: Verdicts,
    design: Design,
    prior_precision: Float[Array, "P ..."],
    free: Bool[Array, "P ..."],
) -> tuple[Float[Array, "P P ..."], Float[Array, "P P ..."]]:
    _, information = model.score_and_information(mode, design.centred(), comparisons)
    return _root(information + model.diagonal(prior_precision), free)


def _root(
    precision: Float[Array, "P P ..."], free: Bool[Array, "P ..."]
) -> tuple[Float[Array, "P P ..."], Float[Array, "P P ..."]]:
    eye = jnp.eye(len(free), dtype=precision.dtype)[:, :, None]
    precision = jnp.where(free[:, None] & free, precision, eye)
    factor, inverse = cholesky.factor(precision)
    return jnp.where(free, inverse, 0), factor
