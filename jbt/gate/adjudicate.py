"""Labels of contents spent on the top set itself, not on a switch: what a label calls good is
taken, what it calls bad is not, and the rankings fill the rest."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from jbt.estimators.reference import Rankings
from jbt.gate.labels import Tops, exact_top
from jbt.kernel import metrics
from jbt.types import ScalarLike

TURNS = ("members", "members_ranked", "contents")
"""Which contents are labelled, and which first; see `labelled`."""


def labelled(
    key: Key[Array, ""], r: Rankings, t: Tops, turns: str, n_labels: ScalarLike
) -> Bool[Array, " M"]:
    """The contents that so many labels are bought for; of one key, those of a smaller number are
    among those of a larger.

    Args:
      key: PRNG key, consumed.
      r, t: the two rankings and their tops.
      turns: `members`, those that one top alone has, in random order; `members_ranked`, the same,
        naive's first, from its last upwards, then bias-aware's from its first downwards;
        `contents`, then all others, those nearest to the boundary by either ranking first.
      n_labels: contents; may be traced.

    Raises:
      ValueError: turns that are none of `TURNS`.
    """
    if turns not in TURNS:
        raise ValueError(f"turns must be one of {', '.join(TURNS)}, got {turns!r}")
    mask = r.pool.design.content_mask()
    lot = jax.random.uniform(key, mask.shape, r.naive.dtype)
    own, other = t.naive & ~t.bias_aware, t.bias_aware & ~t.naive
    turn = lot
    if turns != "members":
        down = [(v > v[:, None]).sum(1) for v in (r.naive, r.bias_aware)]
        turn += jnp.where(own, -down[0], len(mask) + down[1])
    among = own | other
    if turns == "contents":
        near = [metrics.boundary_distance(v, r.k, mask) for v in (r.naive, r.bias_aware)]
        turn = jnp.where(among, turn, 2 * len(mask) + jnp.minimum(*near) + lot)
        among = mask
    turn = jnp.where(among, turn, jnp.inf)
    return among & ((turn < turn[:, None]).sum(1) < n_labels)


def adjudicate(
    r: Rankings,
    t: Tops,
    order: Int[Array, " M"],
    labelled: Bool[Array, " M"],
    says_good: Bool[Array, " M"],
) -> Bool[Array, " M"]:
    """The k contents to take: first those labelled good; then the unlabelled ones, in both tops, in
    naive's alone, in bias-aware's alone, in neither; last those labelled bad.

    **What it guarantees.** Where labels are true none of them ever lowers recall, which therefore
    is never below naive's, whatever was labelled; once every content that one top alone has is
    labelled, it is not below bias-aware's either. Proof: a label moves one content within a list of
    which the first k are taken, up if it is good and down if not, and leaves the others in their
    order. So at most one content comes in for one that goes, and either the one that comes is good
    or the one that goes is bad. Without labels the list begins with the naive top. With the
    disputed ones labelled it is also what labels make of the list that has bias-aware's contents
    before naive's, which begins with the bias-aware top.

    Args:
      r: the two rankings. Within its sort a content stands as bias-aware ranks it where it is in
        that top alone, else as naive does.
      t: their tops, ties broken by `order`.
      order: [M] unlike numbers that break ties.
      labelled: [M] contents with a label.
      says_good: [M] what it says: one of the truly best k or not.
    """
    mask = r.pool.design.content_mask()
    value = jnp.where(t.bias_aware & ~t.naive, r.bias_aware, r.naive)
    # Contents tied up to what a solver leaves stand at one place.
    place = (value > value[:, None] + metrics.tie_of(value)).sum(1) / len(mask)
    sort = jnp.where(labelled, jnp.where(says_good, 5, 0), 1 + 2 * t.naive + t.bias_aware)
    return exact_top(sort - place.astype(value.dtype), r.k, order, mask)
