"""Kinds of pool: Gaussian qualities, and answers made of statements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key

from jbt.simulation.pools.covariates import (
    MOST_DRAWS,
    CovariateKind,
    check_max_correlation,
    places,
    with_covariates,
)
from jbt.types import Pool, ScalarLike, check_positive


def gaussian(
    key: Key[Array, ""],
    n_items: int,
    *,
    sd: ScalarLike = 1.2,
    rho: ScalarLike | Float[Array, " D"] = 0.0,
    covariate: CovariateKind = "continuous",
    max_correlation: ScalarLike | None = None,
    item_mask: Bool[Array, " N"] | None = None,
) -> Pool:
    """A pool of Gaussian quality with covariates of a given population correlation.

    Quality is N(0, sd^2). Each covariate's latent is Gaussian with variance 1 and correlated
    with quality; given quality, covariates are independent. A continuous covariate is its
    latent; a binary one is 1 for the floor(n/2) items of the pool with the largest latent.

    The same key gives the same draws for any sd and rho, so that conditions are paired; the same
    qualities for any max_correlation; and the same pool if the first draw satisfies it.

    Args:
      key: PRNG key, consumed.
      n_items: N, padding included.
      sd: standard deviation of quality, logits; its dtype is the pool's.
      rho: population correlation of quality and each covariate, a number (D = 1) or [D];
        within +-0.95, binary within +-0.798.
      covariate: "continuous" or "binary".
      max_correlation: bound on the correlation within the pool, see `with_covariates`; default
        none.
      item_mask: [N], False for padding; default no padding.

    Raises:
      ValueError: fewer than two items, rho out of reach, sd not above 0, max_correlation outside
        (0, 1]. A traced rho or sd cannot raise: a correlation that does not exist gives NaN
        covariates.
    """
    if n_items < 2:
        raise ValueError(f"n_items must be at least 2, got {n_items}")
    check_positive("sd", sd)
    dtype = _number(sd, rho)
    key_z, key_e = jax.random.split(key)
    z = jax.random.normal(key_z, (n_items,), dtype)
    quality = jnp.asarray(sd, dtype) * z
    options = {"covariate": covariate, "max_correlation": max_correlation, "item_mask": item_mask}
    return with_covariates(key_e, quality, z, rho=rho, **options)


N_STATEMENTS = 6
"""Statements of an item."""
N_TRUE = N_FALSE = 12
"""True and false statements of the bank."""

OTHERS = ("uniform", "drawn")
"""Number of false statements of an item that is not fully correct: all numbers equally likely, or
as if its statements were drawn from the bank."""


def statement_bank(
    key: Key[Array, ""],
    n_items: int,
    k: int | Int[Array, ""] = 5,
    *,
    others: str = "uniform",
    sd: ScalarLike | None = None,
    rho: ScalarLike | Float[Array, " D"] = 0.0,
    covariate: CovariateKind = "binary",
    max_correlation: ScalarLike | None = None,
    item_mask: Bool[Array, " N"] | None = None,
) -> Pool:
    """A pool of answers made of true and false statements, like the paper's (Section 5, "Controlled
    benchmark"; appendix, "Item construction").

    An item is 6 statements from a bank of 12 true and 12 false ones; its quality is the number of
    true ones minus that of false ones. Exactly k items, at random places, are fully correct
    (quality 6). The others have f >= 1 false statements instead of true ones (quality 6 - 2 f), so
    that the top k is unique and ahead by at least 2. The statements themselves are not drawn here;
    see `statements`.

    The paper does not say how many false statements the other items have. With `others` "uniform",
    all numbers from 1 to 6 are equally likely. With "drawn", 6 of the 24 statements are drawn
    without replacement, and drawn again if all are true.

    The elaboration is binary and balanced, 1 for floor(n/2) items, and at rho = 0 independent of
    quality, as in the paper. Another rho, which the paper's pools do not have, correlates the
    latent of the elaboration with the quality standardised within the pool. As quality is not
    Gaussian, the correlation is then near rho, not equal to it: 0.31 at 0.3 and 0.66 at 0.6;
    `realised_correlation` computes it.

    The same key gives the same qualities for any sd, rho and max_correlation; a larger k makes more
    items fully correct and leaves the others as they are.

    Args:
      key: PRNG key, consumed.
      n_items: N, padding included.
      k: fully correct items, 1..N-1; may be traced.
      others: "uniform" or "drawn", see above.
      sd: standard deviation of quality over pools, logits, to which the numbers of statements are
        scaled; default None: quality is the unscaled number, with standard deviation 4.07 for 5 of
        30 items.
      rho: correlation of quality and each covariate, a number (D = 1) or [D], nearly; within
        +-0.95, binary within +-0.798.
      covariate: "binary", or "continuous" for the latent itself.
      max_correlation: bound on the correlation within the pool, the paper's is 0.12; see
        `with_covariates`; default none.
      item_mask: [N], False for padding; default no padding.

    Raises:
      ValueError: fewer than two items, k or rho out of reach, sd not above 0, an unknown `others`,
        max_correlation outside (0, 1]. Traced values are not checked.
    """
    if n_items < 2:
        raise ValueError(f"n_items must be at least 2, got {n_items}")
    if not isinstance(k, Tracer) and not 1 <= int(k) < n_items:
        raise ValueError(f"k must lie in 1..{n_items - 1}, got {k}")
    if sd is not None:
        check_positive("sd", sd)
    false = np.arange(1, N_STATEMENTS + 1)
    if others == "uniform":
        chances = np.ones(len(false))
    elif others == "drawn":
        ways = [math.comb(N_FALSE, f) * math.comb(N_TRUE, N_STATEMENTS - f) for f in false.tolist()]
        chances = np.array(ways, float)
    else:
        raise ValueError(f"unknown others {others!r}: one of {', '.join(OTHERS)}")
    chances /= chances.sum()
    dtype = _number(rho if sd is None else sd, rho)
    mask = jnp.ones(n_items, bool) if item_mask is None else item_mask
    key_k, key_f, key_e = jax.random.split(key, 3)
    correct = places(jax.random.uniform(key_k, (n_items, 1), dtype), mask)[:, 0] < k
    u = jax.random.uniform(key_f, (n_items, 1), dtype)
    n_wrong = 1 + (u >= jnp.asarray(np.cumsum(chances)[:-1], dtype)).sum(1)
    quality = (N_STATEMENTS - 2 * jnp.where(correct, 0, n_wrong)).astype(dtype)
    if sd is not None:
        mean, square = chances @ (2 * false), chances @ (2 * false) ** 2  # behind a correct one
        share = 1 - k / mask.sum()
        quality *= jnp.asarray(sd, dtype) / jnp.sqrt(share * square - (share * mean) ** 2)
    n = mask.sum()
    centred = jnp.where(mask, quality - jnp.where(mask, quality, 0).sum() / n, 0)
    score = centred / jnp.sqrt((centred**2).sum() / n)
    options = {"covariate": covariate, "max_correlation": max_correlation, "item_mask": item_mask}
    return with_covariates(key_e, quality, score, rho=rho, **options)


def statements(key: Key[Array, ""], pool: Pool) -> Bool[Array, "N S"]:
    """Which of the bank's statements, the true ones first, each item of a `statement_bank` holds:
    any of the right number of true and of false ones, all sets equally likely.

    Args:
      key: PRNG key, consumed.
      pool: of `statement_bank` without `sd`: quality is a number of statements.

    Raises:
      ValueError: qualities that are no such numbers. Traced values are not checked.
    """
    false = (N_STATEMENTS - pool.design.of_items(pool.quality)) / 2
    if not isinstance(false, Tracer):
        whole = (false >= 0) & (false <= N_STATEMENTS) & (false == jnp.round(false))
        if not bool(whole.all()):
            raise ValueError("statements needs a pool of statement_bank, without sd")
    keys = jax.random.split(key)
    parts = zip(keys, (N_STATEMENTS - false, false), (N_TRUE, N_FALSE), strict=True)

    def any_of(key: Key[Array, ""], held: Array, size: int) -> Array:
        order = jnp.argsort(jax.random.uniform(key, (len(held), size)), axis=1)
        return order < held[:, None]

    return jnp.concatenate([any_of(*part) for part in parts], axis=1)


def _number(*given: Any) -> Any:
    """The floating dtype of the given numbers, JAX's default if they are integers."""
    dtype = jnp.result_type(*given)
    return dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)


def _gaussian_kind(key: Key[Array, ""], n_items: int, *, k: Any, **options: Any) -> Pool:
    return gaussian(key, n_items, **options)


POOLS: dict[str, Callable[..., Pool]] = {
    "gaussian": _gaussian_kind,
    "statement_bank": statement_bank,
}
"""Kinds of pool for sweeps: functions (key, n_items, *, k, sd, rho, covariate, max_correlation) ->
Pool, with the same qualities from the same key. A sweep's `--pool` names one of them. For
`sweeps.crossing.explore` they also take item_mask."""


def check_kind(pool: str) -> None:
    """Raise `ValueError` unless `pool` is a kind in `POOLS`."""
    if pool not in POOLS:
        raise ValueError(f"unknown pool {pool!r}: one of {', '.join(POOLS)}")


def check_balance(
    pool: str,
    n_items: int,
    max_correlation: float | None,
    *,
    k: int,
    rho: Sequence[float],
    covariate: CovariateKind,
) -> None:
    """Raise `ValueError` unless such pools can be drawn with this bound on their correlation, by
    drawing 16 at the largest |rho|. None, for no bound, passes."""
    check_max_correlation(max_correlation)
    if max_correlation is None:
        return
    furthest = max(rho, key=abs)

    def missed(key: Key[Array, ""]) -> Bool[Array, ""]:
        options = {"covariate": covariate, "max_correlation": max_correlation}
        drawn = POOLS[pool](key, n_items, k=k, sd=1.0, rho=furthest, **options)
        return jnp.isnan(drawn.design.covariates).any()

    n_missed = int(jax.jit(jax.vmap(missed))(jax.random.split(jax.random.key(0), 16)).sum())
    if n_missed:
        raise ValueError(
            f"max_correlation = {max_correlation:g} is out of reach at rho = {furthest:g}: "
            f"{n_missed} of 16 pools did not keep to it in {MOST_DRAWS} draws"
        )
