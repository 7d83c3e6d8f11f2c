"""Labels of contents used for the top set itself, not for a switch: contents labelled good are
taken, those labelled bad are not, and the rankings fill the rest."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from jbt.estimators.reference import Rankings
from jbt.gate.labels import Tops, exact_top
from jbt.kernel import metrics
from jbt.types import ScalarLike

TURNS = ("members", "contents")
"""Which contents are labelled, and in which order; see `labelled`."""


def labelled(
    key: Key[Array, ""], r: Rankings, t: Tops, turns: str, n_labels: ScalarLike
) -> Bool[Array, " M"]:
    """The contents that `n_labels` labels are spent on. With the same key, a smaller number gives a
    subset of a larger.

    Args:
      key: PRNG key, consumed.
      r, t: the two rankings and their tops.
      turns: `members`, contents in only one top, in random order; `contents`, the same contents,
        first naive's from its last upwards, then bias-aware's from its first downwards, and then
        all others, nearest to the boundary in either ranking first.
      n_labels: contents; may be traced.
    """
    mask = r.pool.design.content_mask()
    lot = jax.random.uniform(key, mask.shape, r.naive.dtype)
    naive_only, aware_only = t.naive & ~t.bias_aware, t.bias_aware & ~t.naive
    turn, eligible = lot, naive_only | aware_only
    if turns == "contents":
        ranks = [(v > v[:, None]).sum(1) for v in (r.naive, r.bias_aware)]
        turn += jnp.where(naive_only, -ranks[0], len(mask) + ranks[1])
        distances = [metrics.boundary_distance(v, r.k, mask) for v in (r.naive, r.bias_aware)]
        turn = jnp.where(eligible, turn, 2 * len(mask) + jnp.minimum(*distances) + lot)
        eligible = mask
    turn = jnp.where(eligible, turn, jnp.inf)
    return eligible & ((turn < turn[:, None]).sum(1) < n_labels)


def adjudicate(
    r: Rankings,
    t: Tops,
    order: Int[Array, " M"],
    labelled: Bool[Array, " M"],
    says_good: Bool[Array, " M"],
) -> Bool[Array, " M"]:
    """The k contents to take: first those labelled good; then unlabelled ones, in the order: in
    both tops, in naive's alone, in bias-aware's alone, in neither; last those labelled bad.

    **Guarantee.** If labels are true, no label ever lowers recall. So recall is never below
    naive's, whatever was labelled; and once every content in only one top is labelled, it is not
    below bias-aware's either. Proof: the first k of a list are taken. A label moves one content of
    this list up if it is good and down if not, and leaves the others in their order. So at most one
    content enters for one that leaves, and either the one that enters is good or the one that
    leaves is bad. Without labels the list begins with the naive top. With the disputed contents
    labelled it is also the result of labelling the list that has bias-aware's contents before
    naive's, which begins with the bias-aware top.

    Args:
      r: the two rankings. Within its group, a content in the bias-aware top alone is placed by the
        bias-aware ranking, any other by the naive one.
      t: their tops, ties broken by `order`.
      order: [M] distinct numbers that break ties.
      labelled: [M] contents with a label.
      says_good: [M] the label: whether the content is one of the truly best k.
    """
    mask = r.pool.design.content_mask()
    value = jnp.where(t.bias_aware & ~t.naive, r.bias_aware, r.naive)
    # Contents tied up to the solver's error share one place.
    place = (value > value[:, None] + metrics.tie_of(value)).sum(1) / len(mask)
    sort = jnp.where(labelled, jnp.where(says_good, 5, 0), 1 + 2 * t.naive + t.bias_aware)
    return exact_top(sort - place.astype(value.dtype), r.k, order, mask)
