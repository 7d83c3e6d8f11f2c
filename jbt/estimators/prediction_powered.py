"""Win rates as trusted labels would have them, from a judge's verdicts on all pairs and labels of
some: prediction-powered inference (PPI++: Angelopoulos, Duchi & Zrnic 2023; for rankings Chatzi et
al. 2024).

For each model, with means over its pairs,

    w = mean over labelled pairs of the label
        + weight (mean over all pairs of the verdict - mean over labelled pairs of the verdict).

The term in brackets has mean 0 where the labelled pairs are a random sample of all, whatever the
judge prefers, so that w is the labels' win rate at any weight. The weight is the one in [0, 1] with
the smallest variance, summed over the models: 0 for a judge that says nothing about the labels.
With the mean over unlabelled pairs in place of all N + n pairs, this is the estimator of PPI++, its
weight smaller by N / (N + n).

Pairs of one prompt go together, so that variances are from leaving out each prompt in turn.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt.types import ScalarLike, container


@container
class PairSums:
    """Sums over the pairs of each prompt and model. A pair counts once for either of its models,
    whatever its number of verdicts."""

    judged: Float[Array, "G M"]
    """Pairs with a verdict of the judge (count)."""
    verdicts: Float[Array, "G M"]
    """Share of each that the judge gives to the model, summed."""
    labelled: Float[Array, "G M"]
    """Pairs with a verdict and a label (count)."""
    verdicts_labelled: Float[Array, "G M"]
    """Shares that the judge gives to the model in labelled pairs, summed."""
    labels: Float[Array, "G M"]
    """Shares that the labels give to the model, a tie a half, summed."""


@container
class PredictionPowered:
    """Estimated win rates."""

    win_rate: Float[Array, " M"]
    """NaN for a model without labelled pairs."""
    covariance: Float[Array, "M M"]
    """Of the win rates, over prompts; 0 for a model without labelled pairs."""
    weight: Float[Array, ""]
    """Weight of the judge, 0 to 1."""
    degrees: Float[Array, " M"]
    """Effective number of labelled prompts, less one for the mean: prompts of equal size that would
    say as much."""


def prediction_powered(sums: PairSums, weight: ScalarLike | None = None) -> PredictionPowered:
    """Win rates of M models from G prompts; see the module.

    Args:
      sums: float64, or float32 for simulations.
      weight: of the judge; default the power-tuned one.
    """
    n = sums.labelled.sum(0)
    known = n > 0
    labels, of_labels = _ratio(sums.labels, sums.labelled)
    verdicts, of_verdicts = _ratio(sums.verdicts_labelled, sums.labelled)
    everywhere, of_everywhere = _ratio(sums.verdicts, sums.judged)
    # A prompt's changes of the labels' part and of the judge's, if it is left out. Each mean has
    # the jackknife's factor of its own prompts: the labels' would make that over all too narrow.
    labelled, judged = (_factor(count) * known for count in (sums.labelled, sums.judged))
    alone, judge = labelled * of_labels, judged * of_everywhere - labelled * of_verdicts
    if weight is None:
        square = (judge**2).sum()
        best = -(alone * judge).sum() / jnp.where(square > 0, square, 1)
        weight = jnp.clip(best, 0, 1)
    weight = jnp.asarray(weight, n.dtype)
    change = alone + weight * judge
    covariance = change.T @ change
    win_rate = jnp.where(known, labels + weight * (everywhere - verdicts), jnp.nan)
    effective = n**2 / jnp.where(known, (sums.labelled**2).sum(0), 1)
    return PredictionPowered(win_rate, covariance, weight, effective - 1)


def _factor(count: Float[Array, "G M"]) -> Float[Array, " M"]:
    """sqrt((G - 1) / G) of the G prompts with a pair."""
    prompts = (count > 0).sum(0)
    return jnp.sqrt(((prompts - 1) / jnp.maximum(prompts, 1)).clip(0))


def _ratio(
    total: Float[Array, "G M"], count: Float[Array, "G M"]
) -> tuple[Float[Array, " M"], Float[Array, "G M"]]:
    """Mean over all pairs, and minus its change if each prompt is left out; 0 for a prompt that has
    all of a model's pairs."""
    n = count.sum(0)
    mean = total.sum(0) / jnp.where(n > 0, n, 1)
    left = n - count
    return mean, jnp.where(left > 0, (total - mean * count) / jnp.where(left > 0, left, 1), 0)
