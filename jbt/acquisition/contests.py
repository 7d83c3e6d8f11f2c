"""Rules that contest a boundary: they want one pair, an item inside against an item outside.

Such a rule names an unordered pair. The literature, the paper included, leaves open in which order
the pair is shown and what is asked once it has been asked; both are arguments here.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from jbt.acquisition.choice import choose
from jbt.acquisition.views import View

Order = Literal["drawn", "inside_first", "by_priority"]
Fallback = Literal["next_best", "other_order", "random"]


def prefer(chosen: Bool[Array, "*pairs"], score: Float[Array, "*pairs"]) -> Float[Array, "*pairs"]:
    """Lower the scores of the other pairs below those of the chosen ones, if any are chosen."""
    chosen |= ~chosen.any()
    return jnp.where(chosen, score, score - (score.max() - score.min()) - 1)


def contest(
    view: View,
    key: Key[Array, ""],
    inside: Bool[Array, " M"],
    score: Float[Array, "N N"],
    order: Order = "drawn",
    fallback: Fallback = "next_best",
) -> Float[Array, "N N"]:
    """Score pairs for a rule that wants one pair across a boundary.

    Args:
      inside: contents on one side; a pair of an inside and an outside content is contested.
      score: symmetric; the contested pair of the largest score is wanted.
      order: how the wanted pair is shown: `drawn` at every pick; `inside_first`; `by_priority`,
        every pair always the same way round.
      fallback: what is asked where the wanted pair has been asked and may not be asked again:
        `next_best`, the contested pair of the next largest score (the other order of the same pair,
        if the order is drawn); `other_order` of the same pair, and after that any pair; `random`,
        any pair at once. It makes no difference where pairs may be asked again.
    """
    contested = view.across(inside, ~inside)
    score = prefer(contested, score)
    if order == "inside_first":
        score = prefer(contested & view.design.of_items(inside)[:, None], score)
    elif order == "by_priority":
        priority = view.design.of_items(view.priority)
        score = prefer(contested & (priority[:, None] > priority), score)
    if fallback == "next_best":
        return score
    # Every pick has a key of its own, so its bits can draw the order.
    salt = jax.random.key_data(key)[-1]
    first, second, _ = choose(score, view.available | (view.shown > 0), salt)
    items = jnp.arange(len(score))
    wanted = (items == first)[:, None] & (items == second)
    # All other pairs get a random score below 1.
    preferred = 2 * wanted + wanted.T if fallback == "other_order" else wanted
    return preferred + jax.random.uniform(key, score.shape, score.dtype)


def thompson(
    view: View,
    key: Key[Array, ""],
    *,
    order: Order = "drawn",
    fallback: Fallback = "next_best",
) -> Float[Array, "N N"]:
    """Draw qualities from the posterior, anew at every pick, and contest the sampled boundary: ask
    the closest pair that it separates, at first the k-th against the next. Order and fallback are
    those of `contest`."""
    quality = view.draw(key)
    top = view.is_top(quality)
    item_quality = view.design.of_items(quality)
    closeness = -jnp.abs(item_quality[:, None] - item_quality)
    return contest(view, jax.random.fold_in(key, 1), top, closeness, order, fallback)


def lucb(
    view: View,
    key: Key[Array, ""],
    *,
    width: float = 2.0,
    order: Order = "drawn",
    fallback: Fallback = "next_best",
) -> Float[Array, "N N"]:
    """Ask the weakest lower bound inside the estimated top k against the strongest upper bound
    outside; bounds are theta -+ `width` posterior standard deviations. Where pairs may be asked
    again, the pair stays the same until the refit. Order and fallback are those of `contest`."""
    theta = view.posterior.mean.theta
    top = view.is_top(theta)
    half_width = width * jnp.sqrt(jnp.diag(view.quality_covariance()))
    ambiguity = view.design.of_items(jnp.where(top, half_width - theta, theta + half_width))
    return contest(view, key, top, ambiguity[:, None] + ambiguity, order, fallback)
