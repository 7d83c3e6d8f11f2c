"""Labels of pairs as verdicts of a reference: their information about quality enters the fit,
instead of deciding between two finished fits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from jbt.estimators import reference
from jbt.estimators.reference import PLACEMENTS, Rankings
from jbt.types import Comparisons, ScalarLike


def pair_labels(
    key: Key[Array, ""], r: Rankings, placement: str, n_labels: ScalarLike, noise: ScalarLike = 0.0
) -> Comparisons:
    """Labels of unordered pairs, which of the two is better, none labelled twice; all pairs if
    `n_labels` is larger. With the same key, a smaller number gives a subset of a larger, and a pair
    has the same label in every placement.

    Args:
      key: PRNG key, consumed.
      r: the rankings of a pool whose quality is known.
      placement: which pairs, a name in `reference.PLACEMENTS`.
      n_labels: pairs; may be traced.
      noise: chance that a label is reversed.

    Returns:
      Counts of a judge who sees each of these pairs once, in the order of the items; a pair tied in
      quality is half a win.

    Raises:
      ValueError: an unknown placement.
    """
    if placement not in PLACEMENTS:
        names = ", ".join(PLACEMENTS)
        raise ValueError(f"placement must be one of {names}, got {placement!r}")
    key_pairs, key_noise = jax.random.split(key)
    quality = r.pool.design.of_items(r.pool.quality)
    lead = jnp.sign(quality[:, None] - quality)
    turned = jax.random.uniform(key_noise, lead.shape, lead.dtype) < noise
    wins = (1 + jnp.where(turned, -lead, lead)) / 2
    shown = reference.asked(key_pairs, jnp.triu(PLACEMENTS[placement](r), 1), n_labels)
    return Comparisons(shown, shown * wins)


def discordant(labels: Comparisons, r: Rankings) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Number of labels, on pairs that the two rankings order differently, that say bias-aware is
    right, and number that say naive is: the input of a rule in `rules`."""
    aware = r.pool.design.of_items(r.bias_aware)
    direction = 2 * labels.wins - labels.shown
    agreement = reference.disputed(r) * direction * jnp.sign(aware[:, None] - aware)
    return jnp.maximum(agreement, 0).sum(), jnp.maximum(-agreement, 0).sum()
