"""Labels drawn at random, many sets of them at once, as the rules see them.

A set of K labels is the first K of a longer one, so that one draw serves every K.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

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


_Account = tuple[Array, ...]
"""Of pairs, how many of each sort are left; of members, which are labelled. [sets] each."""


@container
class _State:
    right: Array
    wrong: Array
    used: Array
    stopped: Array
    used_stopped: Array
    wealth: betting.Wealth
    source: _Account


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
    """Labels of pairs, without replacement; all there are where K is more. Betting takes their
    number for known, and labels for true: noise takes its guarantee away.

    Args:
      key: PRNG key, consumed.
      urn: the labels there are.
      n_anchors: K, numbers of labels, increasing.
      sets: label sets (count).
      alpha: levels of the test by betting.
      noise: default none.
      most: no urn holds more labels (count); saves time.
    """
    noise = Noise() if noise is None else noise
    dtype = urn.right.dtype
    turned = noise.fresh + noise.stored - 2 * noise.fresh * noise.stored
    by_length = (1 - noise.length) * turned
    short_turned = noise.length + by_length
    # Counts apart, each [sets]: what a short axis in last place would cost.
    there = (
        urn.right_short,
        urn.right - urn.right_short,
        urn.wrong_short,
        urn.wrong - urn.wrong_short,
        urn.tied,
        urn.agreed,
    )

    def draw(left: _Account, u: Float[Array, "2 sets"]) -> tuple[_Account, Array, Array, Array]:
        ends = list(itertools.accumulate(left))
        at = u[0] * ends[-1]
        up_to = [(at < end).astype(dtype) for end in ends]
        which = [up_to[0], *(b - a for a, b in itertools.pairwise(up_to))]
        right, wrong = which[0] + which[1], which[2] + which[3]
        chance = jnp.where(which[0] + which[2] > 0, short_turned, by_length)
        turn = (u[1] < chance).astype(dtype)
        told = right + turn * (wrong - right), wrong + turn * (right - wrong)
        return tuple(n - w for n, w in zip(left, which, strict=True)), *told, which[4]

    def used(before: _Account, after: _Account) -> Array:
        return sum(before, 0 * before[0]) - sum(after, 0 * after[0])

    source = tuple(jnp.full(sets, n, dtype) for n in there)
    uniforms = jax.random.uniform(key, (n_anchors[-1], 2, sets), dtype)
    population = urn.right + urn.wrong + urn.tied
    return _draw_all(draw, used, source, uniforms, n_anchors, alpha, population, most)


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
    zero = jnp.zeros(sets, dtype)
    key_labels, key_draws = jax.random.split(key)
    both = jax.tree.map(lambda *v: jnp.stack(v), bias_aware, naive)
    u = jax.random.uniform(key_labels, (2, sets, 2, k), dtype)
    says = both.good ^ (u[0] < noise.stored)
    says = jnp.where(u[1] < noise.length, both.long, says)
    answers = [[says[:, side, at].astype(dtype) for at in range(k)] for side in range(2)]

    def draw(seen: _Account, u: Float[Array, "4 sets"]) -> tuple[_Account, Array, Array, Array]:
        now, told = [], []
        for side in range(2):
            drawn = jnp.floor(u[side] * both.n[side])
            which = [((drawn == at) & (at < both.n[side])).astype(dtype) for at in range(k)]
            good = sum((w * yes for w, yes in zip(which, answers[side], strict=True)), zero)
            turn = (u[2 + side] < noise.fresh).astype(dtype)
            told.append(good + turn * (1 - 2 * good))
            now += which
        there = jnp.minimum(both.n[0], 1)
        right, wrong = there * told[0] * (1 - told[1]), there * told[1] * (1 - told[0])
        return tuple(map(jnp.maximum, seen, now)), right, wrong, zero

    def used(before: _Account, after: _Account) -> Array:
        return sum((b - a for a, b in zip(before, after, strict=True)), zero)

    source = (zero,) * (2 * k)
    uniforms = jax.random.uniform(key_draws, (n_anchors[-1], 4, sets), dtype)
    found = _draw_all(draw, used, source, uniforms, n_anchors, alpha, jnp.inf)
    good = (says & (jnp.arange(k) < both.n[:, None])).sum(-1)
    return found, good[:, 0] > good[:, 1]


def _draw_all(
    draw: Callable[[_Account, Array], tuple[_Account, Array, Array, Array]],
    used: Callable[[_Account, _Account], Array],
    source: _Account,
    uniforms: Float[Array, "n_max _ sets"],
    n_anchors: Sequence[int],
    alpha: Sequence[float],
    population: ScalarLike,
    most: int | None = None,
) -> Drawn:
    """Label after label, with a look at each K."""
    if any(a >= b for a, b in itertools.pairwise([0, *n_anchors])):
        raise ValueError(f"n_anchors must increase from above 0, got {list(n_anchors)}")
    for level in alpha:
        check_alpha(level)
    dtype, sets = uniforms.dtype, uniforms.shape[-1]
    enough = 1 / jnp.asarray(alpha, dtype)[:, None]

    def step(s: _State, u: Array) -> tuple[_State, tuple[Array, ...]]:
        source, right, wrong, tied = draw(s.source, u)
        outcome = right + tied / 2
        told = (right + wrong + tied) > 0
        after = jax.vmap(betting.bet, in_axes=(0, 0, None))(s.wealth, outcome, population)
        wealth = jax.tree.map(lambda new, old: jnp.where(told, new, old), after, s.wealth)
        more = used(s.source, source)
        s = _State(
            s.right + right,
            s.wrong + wrong,
            s.used + more,
            jnp.maximum(s.stopped, (wealth.wealth >= enough).astype(dtype)),
            s.used_stopped + (1 - s.stopped) * more,
            wealth,
            source,
        )
        return s, (s.right, s.wrong, s.used, s.stopped, s.used_stopped)

    zero = jnp.zeros(sets, dtype)
    never = jnp.zeros((len(alpha), sets), dtype)
    start = jax.tree.map(lambda v: jnp.broadcast_to(v, (sets,)), betting.start(dtype))
    state = _State(zero, zero, zero, never, never, start, source)
    steps = len(uniforms) if most is None else min(most, len(uniforms))
    _, after_each = jax.lax.scan(step, state, uniforms[:steps])
    at = np.minimum(n_anchors, steps) - 1
    right, wrong, n_used, stopped, used_stopped = (jnp.moveaxis(v[at], 0, -1) for v in after_each)
    return Drawn(right, wrong, n_used, stopped > 0, used_stopped)
