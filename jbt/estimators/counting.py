"""Rank by counted wins, without a model of the judge: Borda's score and rank centrality."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt.types import Comparisons, Design

PRIOR_WINS = 0.5
"""Wins that `rank_centrality` adds to either side of every pair (count)."""


def borda(comparisons: Comparisons, design: Design) -> Float[Array, " N"]:
    """Score each item by the share of its comparisons that it won, a tie one half; without any, 0.5
    (Borda; Shah and Wainwright, arXiv:1512.08949); padding gets 0. It does not see how strong the
    opponents were: it orders items as a judge does if every pair is compared equally often.

    Args:
      comparisons: counts [N, N] of one judge.
    """
    shown, wins = comparisons.shown, comparisons.wins
    won, met = wins.sum(1) + (shown - wins).sum(0), shown.sum(1) + shown.sum(0)
    share = jnp.where(met > 0, won / jnp.where(met > 0, met, 1), 0.5)
    return jnp.where(design.item_mask, share, 0)


def rank_centrality(comparisons: Comparisons, design: Design) -> Float[Array, " N"]:
    """Score each item by the logarithm of its share of a random walk that steps from an item to
    another in proportion to how often the other won (Negahban, Oh and Shah, Operations Research
    2017). With ever more comparisons of every pair it is the quality of a Bradley-Terry judge, up
    to a constant; centred here. All pairs weigh the same, however often they were compared. Without
    the wins added (`PRIOR_WINS`), items that never lost or were never compared have no share.

    Args:
      comparisons: counts [N, N] of one judge.
      design: real items come first, then padding, which gets 0.
    """
    shown, wins = comparisons.shown, comparisons.wins
    mask = design.item_mask
    won, met = wins + (shown - wins).T, shown + shown.T
    share = (won + PRIOR_WINS) / (met + 2 * PRIOR_WINS)
    n = mask.shape[0]
    to = mask[:, None] & mask & ~jnp.eye(n, dtype=bool)
    log_share = jnp.log(_stationary(jnp.where(to, share.T, 0)))
    mean = jnp.where(mask, log_share, 0).sum() / mask.sum()
    return jnp.where(mask, log_share - mean, 0)


def _stationary(rates: Float[Array, "N N"]) -> Float[Array, " N"]:
    """Shares of time of the walk with these rates from row to column, up to a factor, by
    elimination without subtraction (Grassmann, Taksar and Heyman 1985)."""
    items = jnp.arange(rates.shape[0])

    def eliminate(rates: Array, last: Array) -> tuple[Array, Array]:
        """Whoever would step to the last item goes on from there."""
        before = items < last
        onwards = jnp.where(before, rates[last], 0)
        total = onwards.sum()
        inwards = jnp.where(before, rates[:, last], 0) / jnp.where(total > 0, total, 1)
        return rates + inwards[:, None] * onwards, inwards

    _, inwards = jax.lax.scan(eliminate, rates, items[:0:-1])

    def add(shares: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
        item, inwards = step
        return jnp.where(items == item, shares @ inwards, shares), None

    first = (items == 0).astype(rates.dtype)
    return jax.lax.scan(add, first, (items[1:], inwards[::-1]))[0]
