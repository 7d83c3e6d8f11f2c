"""Where items come from: synthetic pools with a known quality and covariates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key

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


POOLS: dict[str, Callable[..., Pool]] = {"gaussian": gaussian}
"""Kinds of pool that a sweep can be run on: functions (key, n_items, *, sd, rho, covariate) -> Pool
as `gaussian` is one, the same qualities from the same key. A sweep's `--pool` names one of them."""


def check_kind(pool: str) -> None:
    """Raise `ValueError` unless `pool` is a kind in `POOLS`."""
    if pool not in POOLS:
        raise ValueError(f"unknown pool {pool!r}: one of {', '.join(POOLS)}")


def _median_split(latent: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
    above = (latent[None, :, :] > latent[:, None, :]) & mask[None, :, None]
    return (above.sum(1) < mask.sum() // 2).astype(latent.dtype)


def paired(
    key: Key[Array, ""],
    n_contents: int,
    *,
    n_twice: int | Int[Array, ""] | None = None,
    sd: ScalarLike = 1.2,
    rho: ScalarLike | Float[Array, " D"] = 0.0,
    spread: ScalarLike = 0.0,
    offset: ScalarLike | Float[Array, " D"] = 1.0,
) -> Pool:
    """A pool in which some contents are rendered twice: one quality, two covariate values.

    Items 0..M-1 are the contents as they come, with Gaussian covariates of standard deviation
    `spread` correlated with quality; item M + i shows content i again with its covariates moved by
    `offset`, and is padding unless i < n_twice. With spread 0 all contents are alike but for their
    quality, x = 0 terse and x = offset verbose, the paper's paired rendering design (Section 5).

    When the coefficient c of one covariate is identified by comparisons: if a chain of them links
    some content's two renderings, directly or by a detour over other contents, and other
    comparisons or the other order tell kappa; in the full design as soon as n_twice >= 1. If only
    terse and verbose are compared, verbose always first, c is told only together with kappa.
    Without any content twice (n_twice = 0) nothing tells c (Prop. 2).
    Of several covariates, all moved at once, only c . offset is identified: to tell one of them,
    move it alone. `identifiability.null_space` says which case a set of comparisons is.

    The same key gives the same qualities and covariates whatever the other arguments are, and the
    contents rendered twice for a smaller n_twice are among those for a larger one.

    Args:
      key: PRNG key, consumed.
      n_contents: M.
      n_twice: how many contents are rendered twice, 0..M, default all; may be traced.
      sd: standard deviation of quality, logits; its dtype is the pool's.
      rho: correlation of quality and each covariate of the contents as they come, within +-0.95.
      spread: standard deviation of these covariates, 0 or above.
      offset: covariate of the second rendering minus that of the first, a number or [D].

    Returns:
      A pool of N = 2 M items, M - n_twice of them padding.

    Raises:
      ValueError: fewer than two contents, n_twice not an integer in 0..M, rho out of reach, sd not
        above 0, spread below 0, an offset of 0, not finite or not one for each covariate; traced
        values are not checked.
    """
    if n_contents < 2:
        raise ValueError(f"n_contents must be at least 2, got {n_contents}")
    twice = n_contents if n_twice is None else n_twice
    if not isinstance(twice, Tracer) and not (
        int(twice) == float(twice) and 0 <= int(twice) <= n_contents
    ):
        raise ValueError(f"n_twice must be an integer in 0..{n_contents}, got {twice}")
    check_renderings(spread, offset)
    base = gaussian(key, n_contents, sd=sd, rho=rho)
    x = spread * base.design.covariates
    if jnp.ndim(offset) and jnp.shape(offset) != x.shape[1:]:
        raise ValueError(f"offset must be one for each of {x.shape[1]} covariates, got {offset}")
    offset = jnp.broadcast_to(jnp.asarray(offset, x.dtype), x.shape[1:])
    content = jnp.arange(n_contents)
    mask = jnp.concatenate([jnp.ones(n_contents, bool), content < twice])
    renderings = jnp.concatenate([x, x + offset])
    design = Design(jnp.where(mask[:, None], renderings, 0), jnp.tile(content, 2), mask, n_contents)
    return Pool(base.quality, design)


def check_renderings(spread: Any, offset: Any) -> None:
    """Raise `ValueError` for a spread below 0, or an offset of 0, which would show one thing twice;
    traced values pass."""
    if not isinstance(spread, Tracer) and not 0 <= float(spread) < math.inf:
        raise ValueError(f"spread must be finite and at least 0, got {spread}")
    if not isinstance(offset, Tracer):
        moved = np.ravel(np.asarray(offset))
        if not np.isfinite(moved).all() or not moved.any():
            raise ValueError(f"offset must be finite and not 0, got {offset}")


def one_content_an_item(design: Design) -> Design:
    """The unpaired analysis of the same items: every rendering owns a quality."""
    return Design(design.covariates, None, design.item_mask, design.n_items)


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
