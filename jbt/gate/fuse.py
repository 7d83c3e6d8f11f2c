"""Labels of pairs as verdicts of a reference: what they tell of quality enters the fit, instead of
deciding between two finished ones."""

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
    """Labels of unordered pairs, which of the two is better, none labelled twice; all there are
    where `n_labels` is more. Of one key, those of a smaller number are among those of a larger, and
    a pair has one label whatever the placement.

    Args:
      key: PRNG key, consumed.
      r: the rankings of a pool whose quality is known.
      placement: which pairs, a name in `reference.PLACEMENTS`.
      n_labels: pairs; may be traced.
      noise: chance that a label is turned around.

    Returns:
      Counts of a judge who is shown each of these pairs once, in the order of the items; a pair
      tied in quality is half a win.

    Raises:
      ValueError: an unknown placement.
    """
    if placement not in PLACEMENTS:
        known = ", ".join(PLACEMENTS)
        raise ValueError(f"placement must be one of {known}, got {placement!r}")
    key_pairs, key_noise = jax.random.split(key)
    quality = r.pool.design.of_items(r.pool.quality)
    ahead = jnp.sign(quality[:, None] - quality)
    turned = jax.random.uniform(key_noise, ahead.shape, ahead.dtype) < noise
    wins = (1 + jnp.where(turned, -ahead, ahead)) / 2
    shown = reference.asked(key_pairs, jnp.triu(PLACEMENTS[placement](r), 1), n_labels)
    return Comparisons(shown, shown * wins)


def discordant(labels: Comparisons, r: Rankings) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """How many of the labels that the two rankings order differently say bias-aware is right, and
    how many naive is; what a rule of `rules` sees."""
    aware = r.pool.design.of_items(r.bias_aware)
    says = 2 * labels.wins - labels.shown
    agrees = reference.disputed(r) * says * jnp.sign(aware[:, None] - aware)
    return jnp.maximum(agrees, 0).sum(), jnp.maximum(-agrees, 0).sum()
