"""Rules that contest a boundary: they want one pair of an item inside and an item outside.

What is wanted is an unordered pair, and how it is shown and what is asked once it was asked are
left open by those who describe such rules (the paper too), and are arguments here.
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
    """Put every pair that is not chosen below every pair that is, if there is one."""
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
    """Scores of a rule that wants one pair across a boundary, and how it is asked.

    Args:
      inside: contents on the one side; pairs of an inside and an outside one are contested.
      score: symmetric; of the contested pairs the one of the largest score is wanted.
      order: in which the wanted pair is shown: `drawn` at every pick; `inside_first`;
        `by_priority`, every pair always the same way round.
      fallback: what is asked in place of what was asked before and may not be again: `next_best`,
        the contested pair of the next largest score (the other order of the same pair, if the order
        is drawn); `other_order` of the same pair, and once it was asked too any pair; `random`, any
        pair at once. Where pairs do not exhaust it makes no difference.
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
    # A pick's key is its own, so that its bits may draw the order.
    salt = jax.random.key_data(key)[-1]
    first, second, _ = choose(score, view.available | (view.shown > 0), salt)
    items = jnp.arange(len(score))
    wanted = (items == first)[:, None] & (items == second)
    # Of all others any pair, by a score below 1.
    preferred = 2 * wanted + wanted.T if fallback == "other_order" else wanted
    return preferred + jax.random.uniform(key, score.shape, score.dtype)


def thompson(
    view: View,
    key: Key[Array, ""],
    *,
    order: Order = "drawn",
    fallback: Fallback = "next_best",
) -> Float[Array, "N N"]:
    """Draw qualities from the posterior, anew at every pick, and contest the sampled boundary: of
    the pairs that it separates the closest, at first the k-th against the next. Order and fallback
    are those of `contest`, which the literature leaves to who builds it."""
    quality = view.draw(key)
    top = view.is_top(quality)
    each = view.design.of_items(quality)
    closeness = -jnp.abs(each[:, None] - each)
    return contest(view, jax.random.fold_in(key, 1), top, closeness, order, fallback)


def lucb(
    view: View,
    key: Key[Array, ""],
    *,
    width: float = 2.0,
    order: Order = "drawn",
    fallback: Fallback = "next_best",
) -> Float[Array, "N N"]:
    """The weakest lower bound inside the estimated top k against the strongest upper bound
    outside, theta -+ `width` posterior standard deviations; where pairs do not exhaust, the same
    until the refit. Order and fallback are those of `contest`."""
    theta = view.posterior.mean.theta
    top = view.is_top(theta)
    half = width * jnp.sqrt(jnp.diag(view.quality_covariance()))
    ambiguity = view.design.of_items(jnp.where(top, half - theta, theta + half))
    return contest(view, key, top, ambiguity[:, None] + ambiguity, order, fallback)
