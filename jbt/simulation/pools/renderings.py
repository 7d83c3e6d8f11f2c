"""Pools in which one content is shown in two ways."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, Key

from jbt.simulation.pools.kinds import gaussian
from jbt.types import Design, Pool, ScalarLike


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

    Items 0..M-1 are the contents' first renderings, with Gaussian covariates of standard deviation
    `spread` correlated with quality; item M + i shows content i again with its covariates moved by
    `offset`, and is padding unless i < n_twice. With spread 0 contents differ only in quality,
    x = 0 is terse and x = offset verbose: the paper's paired rendering design (Section 5).

    Comparisons identify the coefficient c of one covariate if a chain of them links some content's
    two renderings, directly or through other contents, and other comparisons or the other order
    identify kappa; in the full design as soon as n_twice >= 1. If only terse and verbose are
    compared, verbose always first, c is identified only together with kappa. Without any
    content twice (n_twice = 0) c is not identified (Prop. 2). With several covariates, all moved at
    once, only c . offset is identified: to identify one of them, move it alone.
    `identifiability.null_space` says which case a set of comparisons is.

    The same key gives the same qualities and covariates whatever the other arguments are, and the
    contents rendered twice for a smaller n_twice are among those for a larger one.

    Args:
      key: PRNG key, consumed.
      n_contents: M.
      n_twice: how many contents are rendered twice, 0..M, default all; may be traced.
      sd: standard deviation of quality, logits; its dtype is the pool's.
      rho: correlation of quality and each covariate of the first renderings, within +-0.95.
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


def in_both_forms(pool: Pool) -> Pool:
    """The contents of a pool without padding, each rendered with x = 0 (items 0..M-1) and x = 1."""
    n = pool.design.n_items
    x = jnp.repeat(jnp.arange(2, dtype=pool.design.dtype), n)[:, None]
    content = jnp.tile(jnp.arange(n), 2)
    return Pool(pool.quality, Design(x, content, jnp.ones(2 * n, bool), n))


def check_renderings(spread: Any, offset: Any) -> None:
    """Raise `ValueError` for a spread below 0, or an offset of 0, which would show the same item
    twice; traced values pass."""
    if not isinstance(spread, Tracer) and not 0 <= float(spread) < math.inf:
        raise ValueError(f"spread must be finite and at least 0, got {spread}")
    if not isinstance(offset, Tracer):
        moved = np.ravel(np.asarray(offset))
        if not np.isfinite(moved).all() or not moved.any():
            raise ValueError(f"offset must be finite and not 0, got {offset}")
