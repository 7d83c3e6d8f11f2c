"""Covariates, which a judge may favour beside quality, with a given correlation to quality."""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.types import Design, Pool, ScalarLike

CovariateKind = Literal["continuous", "binary"]

RHO_MAX = 0.95
"""Largest |rho| of a continuous covariate."""

BINARY_RHO_MAX = math.sqrt(2 / math.pi)
"""Largest |rho| of a median split: corr(z, 1{z > median}) = sqrt(2/pi) = 0.7979 for Gaussian z.
0.798 is accepted for it."""


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


def check_max_correlation(max_correlation: Any) -> None:
    """Raise `ValueError` unless it lies in (0, 1]; None, for no bound, and traced values pass."""
    if max_correlation is None or isinstance(max_correlation, Tracer):
        return
    if not 0 < float(max_correlation) <= 1:
        raise ValueError(
            f"max_correlation must lie above 0 and at most at 1, got {max_correlation}"
        )


MOST_DRAWS = 1000
"""Most draws of covariates for one pool to keep within a bound on their correlation."""


def with_covariates(
    key: Key[Array, ""],
    quality: Float[Array, " N"],
    score: Float[Array, " N"],
    *,
    rho: ScalarLike | Float[Array, " D"] = 0.0,
    covariate: CovariateKind = "continuous",
    max_correlation: ScalarLike | None = None,
    item_mask: Bool[Array, " N"] | None = None,
) -> Pool:
    """A pool of given qualities with drawn covariates: each latent is rho times a score of the
    quality plus sqrt(1 - rho^2) times a Gaussian. All kinds of pool use it.

    With `max_correlation` the covariates, not the qualities, are drawn again until every |corr|
    within the pool is below it, at most `MOST_DRAWS` times, as the paper redraws its elaborations
    until |corr| < 0.12. The first draw is the one without a bound. Redrawing is a loop: for
    thousands of pools at once it runs as often as the unluckiest needs (rho = 0, 0.12 and 30 items:
    1.9 draws on average, some ten for the unluckiest of a batch of 128). A fixed number of
    candidates would cost every pool all of them, and still not suffice for a tight bound.

    Args:
      key: PRNG key, consumed.
      quality: [N] logits.
      score: [N] of mean 0 and variance 1, growing with quality; its dtype is the covariates'.
      rho: correlation of score and each latent, a number (D = 1) or [D]; of a binary covariate it
        is divided by `BINARY_RHO_MAX`, so that a Gaussian score has correlation rho with it.
      covariate: "continuous", the latent; or "binary", 1 for the floor(n/2) largest.
      max_correlation: bound on the |correlation| of quality and covariate within the pool, in
        (0, 1]; default none. If no draw satisfies it, the covariates are NaN, and every fit of the
        pool has status `NOT_FINITE`.
      item_mask: [N], False for padding; default no padding.

    Raises:
      ValueError: rho out of reach, max_correlation outside (0, 1]. Traced ones cannot raise: a
        correlation that does not exist gives NaN covariates.
    """
    check_rho(rho, covariate)
    check_max_correlation(max_correlation)
    n_items = quality.shape[0]
    mask = jnp.ones(n_items, bool) if item_mask is None else item_mask
    quality = jnp.where(mask, quality, 0)
    rho = jnp.atleast_1d(jnp.asarray(rho, score.dtype))
    if covariate == "binary":
        rho = rho / BINARY_RHO_MAX
        rho = jnp.where(jnp.abs(rho) < 1.001, rho.clip(-1, 1), jnp.nan)  # 0.798 / 0.7979 is 1

    def draw(key: Key[Array, ""]) -> Pool:
        e = jax.random.normal(key, (n_items, rho.shape[0]), score.dtype)
        latent = rho * score[:, None] + jnp.sqrt(1 - rho**2) * e
        x = latent if covariate == "continuous" else _median_split(latent, mask)
        return Pool(quality, Design(jnp.where(mask[:, None], x, 0), None, mask, n_items))

    first = draw(key)
    if max_correlation is None:
        return first

    def keeps(pool: Pool) -> Bool[Array, ""]:
        return (jnp.abs(realised_correlation(pool)) < max_correlation).all()

    def unfinished(state: tuple[Array, Pool]) -> Bool[Array, ""]:
        return ~keeps(state[1]) & (state[0] < MOST_DRAWS)

    def redraw(state: tuple[Array, Pool]) -> tuple[Array, Pool]:
        return state[0] + 1, draw(jax.random.fold_in(key, state[0]))

    pool = jax.lax.while_loop(unfinished, redraw, (jnp.asarray(1), first))[1]
    x = jnp.where(keeps(pool), pool.design.covariates, jnp.nan)
    return Pool(quality, Design(jnp.where(mask[:, None], x, 0), None, mask, n_items))


def _median_split(latent: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
    upper = (places(latent, mask) < mask.sum() // 2).astype(latent.dtype)
    return jnp.where(jnp.isnan(latent), latent, upper)


def places(values: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Int[Array, "N D"]:
    """Number of real items ranked above each item, by larger value; earlier items win ties."""
    item = jnp.arange(values.shape[0])
    earlier = (item[None, :] < item[:, None])[:, :, None]
    above = (values[None, :, :] > values[:, None, :]) | (
        (values[None, :, :] == values[:, None, :]) & earlier
    )
    return (above & mask[None, :, None]).sum(1)


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
