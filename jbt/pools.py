"""Where items come from: synthetic pools with a known quality and covariates."""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Key

from jbt.types import Design, Pool, ScalarLike, check_positive

CovariateKind = Literal["continuous", "binary"]

RHO_MAX = 0.95
"""Largest |rho| of a continuous covariate."""

BINARY_RHO_MAX = math.sqrt(2 / math.pi)
"""Largest |rho| of a median split: corr(z, 1{z > median}) = sqrt(2/pi) = 0.7979 for Gaussian z.
Asked for as 0.798."""


def check_rho(rho: Any, covariate: str) -> None:
    """Raise `ValueError` unless every correlation can be reached; traced values pass."""
    if covariate not in ("continuous", "binary"):
        raise ValueError(f"unknown covariate {covariate!r}: one of continuous, binary")
    if isinstance(rho, Tracer):
        return
    limit = RHO_MAX if covariate == "continuous" else round(BINARY_RHO_MAX, 3)
    bad = [float(r) for r in np.ravel(rho) if not abs(float(r)) <= limit]
    if bad:
        why = ", the most a median split can have with a Gaussian quality" * (covariate == "binary")
        raise ValueError(f"rho must lie within +-{limit:.3f}{why}, got {bad[0]:g}")


def gaussian(
    key: Key[Array, ""],
    n_items: int,
    *,
    sd: ScalarLike = 1.2,
    rho: ScalarLike | Float[Array, " D"] = 0.0,
    covariate: CovariateKind = "continuous",
    item_mask: Bool[Array, " N"] | None = None,
) -> Pool:
    """A pool of Gaussian quality with covariates of a given population correlation.

    Quality is N(0, sd^2). Each covariate's latent is Gaussian with variance 1 and correlated
    with quality; given quality, covariates are independent. A continuous covariate is its
    latent; a binary one is 1 for the floor(n/2) items of the pool with the largest latent.

    The same key gives the same draws whatever sd and rho are, so that conditions are paired.

    Args:
      key: PRNG key, consumed.
      n_items: N, padding included.
      sd: standard deviation of quality, logits; its dtype is the pool's.
      rho: population correlation of quality and each covariate, a number (D = 1) or [D];
        within +-0.95, binary within +-0.798.
      covariate: "continuous" or "binary".
      item_mask: [N], False for padding; default no padding.

    Raises:
      ValueError: fewer than two items, rho out of reach, sd not above 0. A traced rho or sd
        cannot raise: a correlation that does not exist gives NaN covariates.
    """
    if n_items < 2:
        raise ValueError(f"n_items must be at least 2, got {n_items}")
    check_positive("sd", sd)
    check_rho(rho, covariate)
    dtype = jnp.result_type(sd, rho)
    dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)
    rho = jnp.atleast_1d(jnp.asarray(rho, dtype))
    mask = jnp.ones(n_items, bool) if item_mask is None else item_mask
    key_z, key_e = jax.random.split(key)
    z = jax.random.normal(key_z, (n_items,), dtype)
    e = jax.random.normal(key_e, (n_items, rho.shape[0]), dtype)
    if covariate == "binary":
        rho = rho / BINARY_RHO_MAX
        rho = jnp.where(jnp.abs(rho) < 1.001, rho.clip(-1, 1), jnp.nan)  # 0.798 / 0.7979 is 1
    latent = rho * z[:, None] + jnp.sqrt(1 - rho**2) * e
    x = latent if covariate == "continuous" else _median_split(latent, mask)
    x = jnp.where(mask[:, None], x, 0)
    quality = jnp.where(mask, jnp.asarray(sd, dtype) * z, 0)
    return Pool(quality, Design(x, None, mask, n_items))


def _median_split(latent: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
    above = (latent[None, :, :] > latent[:, None, :]) & mask[None, :, None]
    return (above.sum(1) < mask.sum() // 2).astype(latent.dtype)


def realised_correlation(pool: Pool) -> Float[Array, " D"]:
    """Sample correlation of quality and each covariate over the pool's items; NaN where a
    covariate (or quality) does not vary."""
    d = pool.design
    m = d.item_mask[:, None]
    n = m.sum()
    x = jnp.where(m, d.covariates, 0)
    q = jnp.where(m, d.of_items(pool.quality)[:, None], 0)
    x, q = jnp.where(m, x - x.sum(0) / n, 0), jnp.where(m, q - q.sum(0) / n, 0)
    return (x * q).sum(0) / jnp.sqrt((x**2).sum(0) * (q**2).sum(0))
