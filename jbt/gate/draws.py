"""Random draws of labels, many sets at once, in the form that the rules take.

A set of K labels is the first K of a longer one, so that one draw serves every K.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from jbt.gate import betting
from jbt.gate.labels import Members, Urn
from jbt.gate.rules import check_alpha
from jbt.types import ScalarLike, container


@container
class Noise:
    """Chances that a label is wrong; they may be traced."""

    fresh: ScalarLike = 0.0
    """Chance that a label is reversed, drawn afresh at each use."""
    stored: ScalarLike = 0.0
    """Chance that a label is reversed once and for all. For pairs, none of which is used twice, the
    same as `fresh`."""
    length: ScalarLike = 0.0
    """Chance that a stored label follows length: the longer of two is better, a content is good if
    its covariate is above the pool's mean."""


@container
class Drawn:
    """Counts of each label set, at each number of labels."""

    right: Float[Array, "sets K"]
    """Discordant labels that say bias-aware is right."""
    wrong: Float[Array, "sets K"]
    """Discordant labels that say naive is right."""
    used: Float[Array, "sets K"]
    """Labels bought; a content counts once, however often drawn."""
    stopped: Bool[Array, "alpha sets K"]
    """Whether betting on the labels one at a time has enabled the correction by then."""
    used_stopped: Float[Array, "alpha sets K"]
    """Labels bought if buying stops when betting enables."""


_Label = tuple[Array, Array, Array, Array]
"""[sets] each, 1 or 0: whether the label is right, wrong, of a tie; and the labels bought."""


def of_pairs(
    key: Key[Array, ""],
    urn: Urn,
    n_anchors: Sequence[int],
    *,
    sets: int,
    alpha: Sequence[float] = (0.05,),
    noise: Noise | None = None,
    most: int | None = None,
) -> Drawn:
    """Labels of pairs, drawn without replacement; all of them if K is larger. Betting assumes that
    their number is known and that labels are true: noise voids its guarantee.

    Args:
      key: PRNG key, consumed.
      urn: the labels of the pool.
      n_anchors: K, numbers of labels, increasing.
      sets: label sets (count).
      alpha: levels of the test by betting.
      noise: default none.
      most: bound on the labels in an urn (count); saves time.
    """
    noise = Noise() if noise is None else noise
    dtype = urn.right.dtype
    turned = noise.fresh + noise.stored - 2 * noise.fresh * noise.stored
    by_length = (1 - noise.length) * turned
    short_turned = noise.length + by_length
    # Separate counts, each [sets], as a short last axis would be slow.
    sorts = (
        urn.right_short,
        urn.right - urn.right_short,
        urn.wrong_short,
        urn.wrong - urn.wrong_short,
        urn.tied,
        urn.agreed,
    )

    def draw(left: tuple[Array, ...], u: Float[Array, "2 sets"]) -> tuple[Any, _Label]:
        ends = list(itertools.accumulate(left))
        below = [(u[0] * ends[-1] < end).astype(dtype) for end in ends]
        drawn = [below[0], *(b - a for a, b in itertools.pairwise(below))]
        right, wrong = drawn[0] + drawn[1], drawn[2] + drawn[3]
        chance = jnp.where(drawn[0] + drawn[2] > 0, short_turned, by_length)
        turn = (u[1] < chance).astype(dtype)
        label = right + turn * (wrong - right), wrong + turn * (right - wrong)
        left = tuple(n - d for n, d in zip(left, drawn, strict=True))
        return left, (*label, drawn[4], below[-1])

    source = tuple(jnp.full(sets, n, dtype) for n in sorts)
    uniforms = jax.random.uniform(key, (n_anchors[-1], 2, sets), dtype)
    population = urn.right + urn.wrong + urn.tied
    return _draw_all(draw, source, uniforms[:most], n_anchors, alpha, population)


def of_members(
    key: Key[Array, ""],
    bias_aware: Members,
    naive: Members,
    n_anchors: Sequence[int],
    *,
    sets: int,
    alpha: Sequence[float] = (0.05,),
    noise: Noise | None = None,
) -> tuple[Drawn, Bool[Array, " sets"]]:
    """Draws of two contents with replacement, one in bias-aware's top k alone and one in naive's
    alone; no labels if there are none.

    Args: as `of_pairs`; K counts draws.

    Returns:
      The draws; and whether labels of all these contents say that recall would rise.
    """
    noise = Noise() if noise is None else noise
    dtype, k = naive.n.dtype, len(naive.good)
    key_labels, key_draws = jax.random.split(key)
    tops = jax.tree.map(lambda *v: jnp.stack(v), bias_aware, naive)
    u = jax.random.uniform(key_labels, (2, sets, 2, k), dtype)
    labels = tops.good ^ (u[0] < noise.stored)
    labels = jnp.where(u[1] < noise.length, tops.long, labels)
    place = jnp.arange(k)
    real = place < tops.n[:, None]
    # The sets are the last axis, as a short last axis would be slow.
    answers = jnp.moveaxis(labels, 0, -1).astype(dtype)

    def draw(seen: Array, u: Float[Array, "4 sets"]) -> tuple[Array, _Label]:
        at = jnp.floor(u[:2] * tops.n[:, None])
        chosen = ((at[:, None] == place[:, None]) & real[..., None]).astype(dtype)
        good = (chosen * answers).sum(1)
        turn = (u[2:] < noise.fresh).astype(dtype)
        a, b = (good + turn * (1 - 2 * good)) * jnp.minimum(tops.n[0], 1)
        after = jnp.maximum(seen, chosen)
        return after, (a * (1 - b), b * (1 - a), jnp.zeros(sets, dtype), (after - seen).sum((0, 1)))

    uniforms = jax.random.uniform(key_draws, (n_anchors[-1], 4, sets), dtype)
    source = jnp.zeros((2, k, sets), dtype)
    draws = _draw_all(draw, source, uniforms, n_anchors, alpha, jnp.inf)
    good = (labels & real).sum(-1)
    return draws, good[:, 0] > good[:, 1]


def _draw_all(
    draw: Callable[[Any, Array], tuple[Any, _Label]],
    source: Any,
    uniforms: Float[Array, "n_max _ sets"],
    n_anchors: Sequence[int],
    alpha: Sequence[float],
    population: ScalarLike,
) -> Drawn:
    """Draw label after label, and record the counts at each K; `draw` changes the source."""
    if any(a >= b for a, b in itertools.pairwise([0, *n_anchors])):
        raise ValueError(f"n_anchors must increase from above 0, got {list(n_anchors)}")
    for level in alpha:
        check_alpha(level)
    dtype, sets = uniforms.dtype, uniforms.shape[-1]

    def step(state: tuple[Any, betting.Wealth], u: Array) -> tuple[Any, tuple[Array, ...]]:
        source, wealth = state
        source, (right, wrong, tied, bought) = draw(source, u)
        bets = jax.vmap(betting.bet, in_axes=(0, 0, None))
        after = bets(wealth, right + tied / 2, population)
        discordant = (right + wrong + tied) > 0
        wealth = jax.tree.map(lambda new, old: jnp.where(discordant, new, old), after, wealth)
        return (source, wealth), (right, wrong, bought, wealth.wealth)

    start = jax.tree.map(lambda v: jnp.broadcast_to(v, (sets,)), betting.start(dtype))
    _, (right, wrong, bought, wealth) = jax.lax.scan(step, (source, start), uniforms)
    reached = wealth[:, None] >= 1 / jnp.asarray(alpha, dtype)[:, None]
    stopped = jax.lax.cummax(reached.astype(dtype))
    going_on = 1 - jnp.concatenate([jnp.zeros_like(stopped[:1]), stopped[:-1]])
    last = np.minimum(n_anchors, len(uniforms)) - 1

    def up_to(bought: Array) -> Array:
        return jnp.moveaxis(bought.cumsum(0)[last], 0, -1)

    return Drawn(
        up_to(right),
        up_to(wrong),
        up_to(bought),
        jnp.moveaxis(stopped[last], 0, -1) > 0,
        up_to(bought[:, None] * going_on),
    )
