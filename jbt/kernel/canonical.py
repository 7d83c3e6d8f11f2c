"""Top-k probabilities that are printed: precise, and equal whatever the order of the contents.

`membership.membership` with its 64 draws serves simulations, in which its error averages out. A
person reads a single pool's numbers, to two decimals. Here they are of so many draws that their
error is smaller than that, the draws belong to contents in an order that depends on the posterior
alone, and the memberships sum to k.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jbt.kernel.membership import CHUNK, set_probability, sobol_normals
from jbt.kernel.membership import membership as few_draws
from jbt.kernel.metrics import TIED
from jbt.types import Parameters, Posterior, ScalarLike

DRAWS = 4096
"""Sobol draws (count). On posteriors of 5 to 400 contents the rms error of a membership is .0001 to
.0005, at most .003, and that of a certainty .0002 to .0035."""

AT_ONCE = 2**22 // CHUNK
"""About how many contents a call for many pools has, so that memory does not grow with them."""


def order(
    mean: Float[Array, " M"], covariance: Float[Array, "M M"], mask: Bool[Array, " M"]
) -> Int[Array, " M"]:
    """An order of contents that depends on their distribution alone: from the highest mean to the
    lowest, padding last. Those that tie, to rounding, in all that is compared are taken to be
    exchangeable."""
    near = (covariance**2) @ jnp.where(mask, jnp.exp(mean), 0)
    cells = (jnp.round(v / TIED) for v in (near, jnp.diagonal(covariance), -mean))
    return jnp.lexsort((*cells, ~mask))


def reordered(
    posterior: Posterior, mask: Bool[Array, " M"]
) -> tuple[Posterior, Bool[Array, " M"], Int[Array, " M"]]:
    """The posterior of the qualities alone with its contents in `order`, their mask, and the order.
    Without c and kappa, the order of a panel's judges has no effect."""
    m, theta = len(mask), posterior.mean.theta
    root = posterior.root[:, :m]
    covariance = root.T @ root
    at = order(theta, covariance, mask)
    theta, mask = theta[at], mask[at]
    # The library's factorisation: one written out, as in `laplace`, takes longer to compile.
    padded = covariance[at][:, at] + jnp.diag((~mask).astype(theta.dtype))
    factor = jnp.linalg.cholesky(jnp.linalg.inv(padded))
    inverse = jax.scipy.linalg.solve_triangular(factor, jnp.eye(m, dtype=theta.dtype), lower=True)
    mean = Parameters(theta, posterior.mean.c, posterior.mean.kappa)
    return Posterior(mean, jnp.where(mask, inverse, 0), factor), mask, at


def normals(n_contents: int) -> Float[Array, "chunks M S"]:
    """The draws of the functions below (float64)."""
    return sobol_normals(DRAWS, n_contents, np.float64)


def membership(
    posterior: Posterior, k: int, mask: Bool[Array, " M"], draws: Float[Array, "chunks M S"]
) -> Float[Array, " M"]:
    """P(content is among the k of highest quality), [M].

    The sum of the estimates is off by the error of the draws. That is shared out in proportion to
    p (1 - p), which leaves each within 0 and 1, and reduces its error.

    Args:
      posterior, k, mask: as in `jbt.kernel.membership.membership`.
      draws: from `normals`.
    """
    ordered, real, at = reordered(posterior, mask)
    p = few_draws(ordered, k, real, draws)
    variance = p * (1 - p)
    total = variance.sum()
    missing = jnp.minimum(k, real.sum()) - p.sum()
    p = p + jnp.where(total > 0, missing / jnp.where(total > 0, total, 1), 0) * variance
    return jnp.zeros_like(p).at[at].set(p)


def certainty(
    posterior: Posterior,
    k: int,
    mask: Bool[Array, " M"],
    draws: Float[Array, "chunks M S"],
    zone: ScalarLike = 0.0,
) -> Float[Array, ""]:
    """P(the k contents of highest estimated quality are those of highest quality, up to `zone`); of
    contents with equal estimates, those that `order` has first. Arguments as in `membership` and
    `set_probability`."""
    ordered, real, _ = reordered(posterior, mask)
    top = (jnp.arange(len(mask)) < k) & real
    return set_probability(ordered, top, real, draws, zone=zone)


def drawn(
    posterior: Posterior, mask: Bool[Array, " M"], draws: Float[Array, "chunks M S"]
) -> Float[Array, "draws M"]:
    """Draws of the qualities. Arguments as in `membership`."""
    ordered, _, at = reordered(posterior, mask)
    z = jnp.moveaxis(draws, 1, 2).reshape(-1, draws.shape[1])
    quality = ordered.mean.theta + z @ ordered.root
    return jnp.zeros_like(quality).at[:, at].set(quality)
