"""The kinds of trusted labels about two rankings of one pool, and their outcomes.

    pairs      any two contents of different quality: which is better? (the paper's)
    disputed   two contents that the naive and the bias-aware ranking order differently
    swaps      a disputed pair of one content in the naive top k alone and one in the bias-aware's
    members    a content of `swaps` by itself: is it one of the truly best k?

Both rankings are known before any label is bought. Pairs are drawn without replacement, so the
number of pairs of each sort determines the distribution of their labels: an urn.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt.estimators.reference import Rankings
from jbt.kernel import metrics
from jbt.types import container

LABELS = ("pairs", "disputed", "swaps", "members")
"""Every kind of label."""
OF_PAIRS = ("pairs", "disputed", "swaps")
"""Labels of two contents, drawn without replacement."""


@container
class Tops:
    """Which contents are among the k best, [M] each; exactly k in each ranking."""

    naive: Bool[Array, " M"]
    bias_aware: Bool[Array, " M"]
    good: Bool[Array, " M"]
    """The truly best, with those tied with the k-th place."""


@container
class Urn:
    """Number of labels of one kind in a pool, by outcome."""

    right: Float[Array, ""]
    """Pairs that bias-aware orders rightly and naive wrongly."""
    right_short: Float[Array, ""]
    """Those of `right` whose better content has the smaller covariate."""
    wrong: Float[Array, ""]
    """Pairs that naive orders rightly and bias-aware wrongly."""
    wrong_short: Float[Array, ""]
    """Those of `wrong` whose better content has the smaller covariate."""
    tied: Float[Array, ""]
    """Pairs that the rankings order differently and whose contents have the same quality."""
    agreed: Float[Array, ""]
    """Pairs that the rankings do not order differently, or that one of them ties."""


@container
class Members:
    """The contents in one ranking's top k alone: in the first `n` of k places, the truly good ones
    first."""

    n: Float[Array, ""]
    good: Bool[Array, " k"]
    long: Bool[Array, " k"]
    """Whether the covariate is above the pool's mean."""


def exact_top(
    estimate: Float[Array, " M"], k: int, order: Int[Array, " M"], mask: Bool[Array, " M"]
) -> Bool[Array, " M"]:
    """Exactly k contents, those ranked highest by an estimate.

    Args:
      estimate: [M].
      k: 1..M - 1.
      order: [M] distinct numbers; contents tied with the k-th place (`metrics.tie_of`) are taken in
        this order.
      mask: [M] real contents.
    """
    value, tie = jnp.where(mask, estimate, -jnp.inf), metrics.tie_of(estimate)
    cut = metrics.kth_largest(value, k)
    above = value > cut + tie
    tied = (value >= cut - tie) & ~above
    before = (tied & (order < order[:, None])).sum(1)
    return above | (tied & (before < k - above.sum()))


def tops(r: Rankings, order: Int[Array, " M"]) -> Tops:
    """The top k of both rankings and the true top k; `order` [M] breaks ties in a ranking."""
    mask = r.pool.design.content_mask()
    naive, bias_aware = (exact_top(v, r.k, order, mask) for v in (r.naive, r.bias_aware))
    quality = jnp.where(mask, r.pool.quality, -jnp.inf)
    # Within a tolerance, as compilers recompute quality where it is used, with other rounding.
    cut = metrics.kth_largest(quality, r.k) - metrics.tie_of(quality)
    return Tops(naive, bias_aware, mask & (quality >= cut))


def recall(top: Bool[Array, " M"], good: Bool[Array, " M"], k: int) -> Float[Array, ""]:
    """Share of truly good contents in a top k of exactly k contents."""
    return (top & good).sum() / k


def urn(r: Rankings, t: Tops, labels: str) -> Urn:
    """The labels of one kind of pairs in a pool. The covariate is the first.

    Raises:
      ValueError: a kind that is not in `OF_PAIRS`, items that share a content.
    """
    if labels not in OF_PAIRS:
        raise ValueError(f"labels must be one of {', '.join(OF_PAIRS)}, got {labels!r}")
    if r.pool.design.content is not None:
        raise ValueError("labels are simulated where every item is its own content")
    mask = r.pool.design.content_mask()
    truth = _order(r.pool.quality, 0.0)
    naive, aware = (_order(v, metrics.tie_of(v)) for v in (r.naive, r.bias_aware))
    pair = jnp.triu(mask[:, None] & mask, 1)
    if labels == "swaps":
        aware_only, naive_only = t.bias_aware & ~t.naive, t.naive & ~t.bias_aware
        pair &= (aware_only[:, None] & naive_only) | (naive_only[:, None] & aware_only)
    disputed = pair & (naive * aware < 0)
    short = _order(r.pool.design.covariates[:, 0], 0.0) * truth < 0
    right, wrong = disputed & (aware * truth > 0), disputed & (naive * truth > 0)
    # Disputed pairs may be tied in quality; the paper's pairs differ in quality.
    every = labels == "pairs"
    tied, agreed = disputed & (truth == 0) & (not every), pair & ~disputed & (truth != 0) & every
    sorts = (right, right & short, wrong, wrong & short, tied, agreed)
    return Urn(*(pairs.sum().astype(r.naive.dtype) for pairs in sorts))


def members(r: Rankings, t: Tops) -> tuple[Members, Members]:
    """The contents in bias-aware's top k alone, and those in naive's alone. The covariate is the
    first."""
    design = r.pool.design
    mask, x = design.content_mask(), design.covariates[:, 0]
    long = x > jnp.where(mask, x, 0).sum() / mask.sum()

    def listed(contents: Bool[Array, " M"]) -> Members:
        # Sort by sort: good and long, good, long, neither.
        first = jnp.argsort(-(4 * contents + 2 * t.good + long))[: r.k]
        n = contents.sum()
        real = jnp.arange(r.k) < n
        return Members(n.astype(r.naive.dtype), t.good[first] & real, long[first] & real)

    return listed(t.bias_aware & ~t.naive), listed(t.naive & ~t.bias_aware)


def _order(values: Float[Array, " M"], tie: float) -> Float[Array, "M M"]:
    """1 where the row's value is larger than the column's, -1 where smaller, 0 for a tie."""
    difference = values[:, None] - values
    return jnp.sign(jnp.where(jnp.abs(difference) > tie, difference, 0))
