"""Which ordered pairs are shown, and how often."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from jbt.types import Pool, ScalarLike


def every_pair(pool: Pool) -> Float[Array, "N N"]:
    """One showing of every ordered pair of different real items: the full design."""
    m = pool.design.item_mask
    n = pool.design.n_items
    return (m[:, None] & m & ~jnp.eye(n, dtype=bool)).astype(pool.design.dtype)


def within_contents(pool: Pool) -> Float[Array, "N N"]:
    """One showing of every ordered pair of different renderings of the same content. They identify
    c and kappa, and say nothing about quality."""
    d = pool.design
    owner = jnp.arange(d.n_items) if d.content is None else d.content
    return every_pair(pool) * (owner[:, None] == owner)


def across_contents(pool: Pool) -> Float[Array, "N N"]:
    """One showing of every ordered pair of items with different contents."""
    return every_pair(pool) - within_contents(pool)


NATURAL = -1.0
"""Instead of a share of the budget: the share of pairs within contents among all ordered pairs. A
number, so that it may be traced."""

WITHIN_SHARE = {"all": NATURAL, "across": 0.0, "within": 1.0, "mixed": 0.5}
"""Choice of comparisons -> share of the budget spent between two renderings of one content."""


def natural_share(pool: Pool) -> Float[Array, ""]:
    """Share of the ordered pairs that show two renderings of one content."""
    return within_contents(pool).sum() / every_pair(pool).sum()


def share_of(pool: Pool, within_share: ScalarLike) -> Float[Array, ""]:
    """The share of a budget that goes within contents, 0..1: `within_share` itself, or the natural
    share of the pool for `NATURAL`.

    Raises:
      ValueError: neither `NATURAL` nor in 0..1, if it is not traced; a traced share below 0 is read
        as `NATURAL`.
    """
    if not isinstance(within_share, Tracer):
        value = float(within_share)
        if value != NATURAL and not 0 <= value <= 1:
            raise ValueError(f"within_share must lie in 0..1, got {value:g}")
    share = jnp.asarray(within_share)
    return jnp.where(share < 0, natural_share(pool), share)


def choose(
    key: Key[Array, ""], pool: Pool, budget: ScalarLike, within_share: ScalarLike = NATURAL
) -> Float[Array, "N N"]:
    """How often each ordered pair is shown if a budget of verdicts is spread over the pool.

    Args:
      key: PRNG key, consumed.
      budget: verdicts; may be traced, as the share may.
      within_share: share of the budget spent between two renderings of one content, see
        `WITHIN_SHARE`; the rest, or all if no content is rendered twice, goes across contents.

    Raises:
      ValueError: a share that `share_of` refuses.
    """
    share = share_of(pool, within_share)
    within = within_contents(pool)
    spent = jnp.where(within.sum() > 0, jnp.round(share * budget), 0)
    key_within, key_across = jax.random.split(key)
    rest = spread_evenly(key_across, across_contents(pool), budget - spent)
    return spread_evenly(key_within, within, spent) + rest


def spread_evenly(
    key: Key[Array, ""], pairs: Float[Array, "N N"], budget: ScalarLike
) -> Float[Array, "N N"]:
    """A budget of verdicts spread over some ordered pairs as evenly as possible: the remainder
    after full rounds goes to pairs drawn without replacement.

    Args:
      key: PRNG key, consumed.
      pairs: [N, N] above 0 for the pairs that may be shown; if there is none, nothing is shown.
      budget: verdicts, a whole number; may be traced.
    """
    allowed = pairs > 0
    n = jnp.maximum(allowed.sum(), 1)
    rounds = jnp.floor(budget / n)
    left = (budget - rounds * n).astype(int)
    lot = jnp.where(allowed, jax.random.uniform(key, pairs.shape), 2)
    cut = jnp.where(left > 0, jnp.sort(lot.ravel())[left - 1], -1)
    return jnp.where(allowed, rounds + (lot <= cut), 0).astype(pairs.dtype)


def collected(
    key: Key[Array, ""], shown: Float[Array, "N N"], completeness: ScalarLike
) -> Float[Array, "N N"]:
    """A design with ordered pairs missing at random: each pair independently loses all its showings
    with probability 1 - completeness, as when queries of a judge time out.

    Args:
      key: PRNG key, consumed. A smaller completeness leaves a subset of a larger one.
      shown: [N, N] showings of the design.
      completeness: probability that a pair is collected, in (0, 1]; may be traced.

    Raises:
      ValueError: completeness outside (0, 1], if it is not traced.
    """
    check_completeness(completeness)
    return shown * (jax.random.uniform(key, shown.shape) < completeness)


def check_completeness(completeness: ScalarLike) -> None:
    """Raise `ValueError` unless it lies in (0, 1]; traced values pass."""
    if not isinstance(completeness, Tracer) and not 0 < float(completeness) <= 1:
        raise ValueError(f"completeness must lie above 0 and at most at 1, got {completeness}")


def expected(
    pool: Pool, budget: ScalarLike, within_share: ScalarLike, max_repeats: ScalarLike
) -> Float[Array, "N N"]:
    """The average of `choose`, with a limit on how often a pair is shown; fractions of a showing.

    Budget that the limit excludes between two renderings of one content goes across contents,
    unless all was to be spent within; budget that it excludes across contents is not spent.

    Args:
      budget: verdicts; may be traced, as the other numbers may.
      within_share: as in `choose`.
      max_repeats: most showings of an ordered pair.

    Raises:
      ValueError: a share that `share_of` refuses.
    """
    share = share_of(pool, within_share)
    within, across = within_contents(pool), across_contents(pool)
    has_within = within.sum() > 0
    limit = max_repeats * jnp.where(has_within, within.sum(), 1)
    inside = jnp.where(has_within, jnp.minimum(share * budget, limit), 0)
    outside = jnp.minimum(budget - inside, max_repeats * across.sum())
    outside = jnp.where(has_within & (share >= 1), 0, outside)
    return within * inside / jnp.maximum(within.sum(), 1) + across * outside / across.sum()
