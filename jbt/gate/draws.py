"""Labels drawn at random, many sets of them at once, as the rules see them.

A set of K labels is the first K of a longer one, so that one draw serves every K.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from jbt.gate import betting
from jbt.gate.labels import Members, Urn
from jbt.gate.rules import check_alpha
from jbt.types import ScalarLike, container


@container
class Noise:
    """Chances that a label is not the truth; they may be traced."""

    fresh: ScalarLike = 0.0
    """Turned around, afresh at each use."""
    stored: ScalarLike = 0.0
    """Turned around once, for whoever uses it. Of pairs, none of which is used twice, as
    `fresh`."""
    length: ScalarLike = 0.0
    """Stored, and says what length would: that the longer of two is better, that a content is good
    where its covariate is above the pool's mean."""


@container
class Drawn:
    """What came of each label set, at each number of labels."""

    right: Float[Array, "sets K"]
    """Discordant labels that say bias-aware is right."""
    wrong: Float[Array, "sets K"]
    """That say naive is."""
    used: Float[Array, "sets K"]
    """Labels bought: of contents each once, however often drawn."""
    stopped: Bool[Array, "alpha sets K"]
    """Whether betting on them one at a time has enabled by then."""
    used_stopped: Float[Array, "alpha sets K"]
    """Labels bought if buying stops at that."""


@container
class _State:
    right: Array
    wrong: Array
    used: Array
    stopped: Array
    used_stopped: Array
    wealth: betting.Wealth
    source: Array
    """What is left in the urns, [sets, 6]; or which contents are labelled, [sets, 2 k]."""


def of_pairs(
    key: Key[Array, ""],
    urn: Urn,
    n_anchors: Sequence[int],
    *,
    sets: int,
    alpha: Sequence[float] = (0.05,),
    noise: Noise | None = None,
) -> Drawn:
    """Labels of pairs, without replacement; all there are where K is more. Betting takes their
    number for known, and labels for true: noise takes its guarantee away.

    Args:
      key: PRNG key, consumed.
      urn: the labels there are.
      n_anchors: K, numbers of labels, increasing.
      sets: label sets (count).
      alpha: levels of the test by betting.
      noise: default none.
    """
    noise = Noise() if noise is None else noise
    dtype = urn.right.dtype
    kinds = [
        urn.right_short,
        urn.right - urn.right_short,
        urn.wrong_short,
        urn.wrong - urn.wrong_short,
        urn.tied,
        urn.agreed,
    ]
    turned = noise.fresh + noise.stored - 2 * noise.fresh * noise.stored
    by_length = (1 - noise.length) * turned
    turned = jnp.stack([noise.length + by_length, by_length] * 2 + [jnp.zeros(())] * 2)
    population = urn.right + urn.wrong + urn.tied

    def draw(left: Array, u: Float[Array, "2 sets"]) -> tuple[Array, Array, Array, Array]:
        total = left.sum(-1)
        at = (u[0] * total)[:, None] >= jnp.cumsum(left, -1)
        which = ~at & jnp.pad(at, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
        which &= (total > 0)[:, None]
        turn = u[1] < jnp.where(which, turned, 0).sum(-1)
        right, wrong = which[:, :2].any(-1), which[:, 2:4].any(-1)
        right, wrong = jnp.where(turn, wrong, right), jnp.where(turn, right, wrong)
        return left - which, right, wrong, which[:, 4]

    def used(before: Array, after: Array) -> Array:
        return (before - after).sum(-1)

    source = jnp.broadcast_to(jnp.stack(kinds).astype(dtype), (sets, 6))
    uniforms = jax.random.uniform(key, (n_anchors[-1], 2, sets), dtype)
    return _draw_all(draw, used, source, uniforms, n_anchors, alpha, population)


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
    """Draws of two contents, one that bias-aware alone has in its top k and one that naive alone
    has, with replacement; nothing where there are none.

    Args: as `of_pairs`; K counts draws.

    Returns:
      What came of them; and whether, all of these contents being labelled, recall would rise.
    """
    noise = Noise() if noise is None else noise
    dtype, k = naive.n.dtype, len(naive.good)
    key_labels, key_draws = jax.random.split(key)
    both = jax.tree.map(lambda *v: jnp.stack(v), bias_aware, naive)
    u = jax.random.uniform(key_labels, (2, sets, 2, k), dtype)
    says = both.good ^ (u[0] < noise.stored)
    says = jnp.where(u[1] < noise.length, both.long, says)
    places = jnp.arange(k) < both.n[:, None]

    def draw(seen: Array, u: Float[Array, "4 sets"]) -> tuple[Array, Array, Array, Array]:
        at = jnp.floor(u[:2] * both.n[:, None])
        which = (at[..., None] == jnp.arange(k)) & places[:, None]  # [2, sets, k]
        which = jnp.moveaxis(which, 0, 1)
        a, b = jnp.moveaxis((which & says).any(-1) ^ (u[2:] < noise.fresh).T, -1, 0)
        there = both.n[0] > 0
        right, wrong = a & ~b & there, b & ~a & there
        return seen | which.reshape(sets, -1), right, wrong, jnp.zeros_like(right)

    def used(before: Array, after: Array) -> Array:
        return (after & ~before).sum(-1).astype(dtype)

    source = jnp.zeros((sets, 2 * k), bool)
    uniforms = jax.random.uniform(key_draws, (n_anchors[-1], 4, sets), dtype)
    found = _draw_all(draw, used, source, uniforms, n_anchors, alpha, jnp.inf)
    good = (says & places).sum(-1)
    return found, good[:, 0] > good[:, 1]


def _draw_all(
    draw: Callable[[Array, Array], tuple[Array, Array, Array, Array]],
    used: Callable[[Array, Array], Array],
    source: Array,
    uniforms: Float[Array, "n_max _ sets"],
    n_anchors: Sequence[int],
    alpha: Sequence[float],
    population: ScalarLike,
) -> Drawn:
    """Label after label, with a look at each K."""
    if any(a >= b for a, b in itertools.pairwise([0, *n_anchors])):
        raise ValueError(f"n_anchors must increase from above 0, got {list(n_anchors)}")
    for level in alpha:
        check_alpha(level)
    dtype, sets = uniforms.dtype, uniforms.shape[-1]
    enough = 1 / jnp.asarray(alpha, dtype)[:, None]

    def step(s: _State, u: Array) -> tuple[_State, None]:
        source, right, wrong, tied = draw(s.source, u)
        outcome = jnp.where(tied, 0.5, right.astype(dtype))
        after = jax.vmap(betting.bet, in_axes=(0, 0, None))(s.wealth, outcome, population)
        told = right | wrong | tied
        wealth = jax.tree.map(lambda new, old: jnp.where(told, new, old), after, s.wealth)
        more = used(s.source, source)
        return _State(
            s.right + right,
            s.wrong + wrong,
            s.used + more,
            s.stopped | (wealth.wealth >= enough),
            s.used_stopped + jnp.where(s.stopped, 0, more),
            wealth,
            source,
        ), None

    zero = jnp.zeros(sets, dtype)
    never = jnp.zeros((len(alpha), sets), dtype)
    start = jax.tree.map(lambda v: jnp.broadcast_to(v, (sets,)), betting.start(dtype))
    state = _State(zero, zero, zero, never > 0, never, start, source)
    found = []
    for begin, end in itertools.pairwise([0, *n_anchors]):
        state, _ = jax.lax.scan(step, state, uniforms[begin:end])
        found.append((state.right, state.wrong, state.used, state.stopped, state.used_stopped))
    return Drawn(*(jnp.stack(v, -1) for v in zip(*found, strict=True)))
