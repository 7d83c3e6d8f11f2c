"""Evidence about one pair that holds at any time; `anytime` says what it shows, and when."""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

NODES = 16
"""Values of p that likelihoods are averaged over (count)."""


def log_evidence(
    w: Float[Array, "*pairs"], losses: Float[Array, "*pairs"], p0: Float[Array, ""]
) -> Float[Array, "*pairs"]:
    """Log of the average likelihood of w wins and these losses over `NODES` values of p, evenly
    spaced above p0, divided by the likelihood of p0."""
    p = p0 + (1 - p0) * (jnp.arange(NODES) + 0.5) / NODES
    gains = w[..., None] * jnp.log(p / p0) + losses[..., None] * jnp.log((1 - p) / (1 - p0))
    return logsumexp(gains, axis=-1) - jnp.log(1.0 * NODES)
