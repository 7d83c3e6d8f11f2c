"""What trusted labels there are to be had about two rankings of one pool, and how they come out.

    pairs      any two contents of unlike quality: which is better? (the paper's)
    disputed   of these, two contents that the naive and the bias-aware ranking order differently
    swaps      of those, one content of the naive top k alone and one of the bias-aware alone
    members    the contents of `swaps`, each alone: is it one of the truly best k?

Both rankings are known before any label is bought. Pairs are drawn without replacement, so that how
many of each sort a pool has says all about their labels: an urn.
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
"""Those of two contents, drawn without replacement."""


@container
class Tops:
    """Which contents are among the k best: [M] each, exactly k of them in a ranking's."""

    naive: Bool[Array, " M"]
    bias_aware: Bool[Array, " M"]
    good: Bool[Array, " M"]
    """In truth; with those tied with the k-th place."""


@container
class Urn:
    """How many labels of one kind a pool has, by how they come out."""

    right: Float[Array, ""]
    """Bias-aware has the pair right, naive has not."""
    right_short: Float[Array, ""]
    """Of these, how many where the better content has the smaller covariate."""
    wrong: Float[Array, ""]
    """Naive has the pair right, bias-aware has not."""
    wrong_short: Float[Array, ""]
    tied: Float[Array, ""]
    """The rankings differ, and both contents have one quality."""
    agreed: Float[Array, ""]
    """The rankings do not differ, or one of them is tied."""


@container
class Members:
    """The contents that one ranking alone has in its top k: in the first `n` of k places, the truly
    good ones first."""

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
      order: [M] unlike numbers; of contents tied with the k-th place (`metrics.tie_of`) those with
      the
        least go first.
      mask: [M] real contents.
    """
    value, tie = jnp.where(mask, estimate, -jnp.inf), metrics.tie_of(estimate)
    cut = metrics.kth_largest(value, k)
    above = value > cut + tie
    tied = (value >= cut - tie) & ~above
    before = (tied & (order < order[:, None])).sum(1)
    return above | (tied & (before < k - above.sum()))


def tops(r: Rankings, order: Int[Array, " M"]) -> Tops:
    """The top k of both rankings and of the truth, ties in a ranking broken by `order` [M]."""
    mask = r.pool.design.content_mask()
    naive, bias_aware = (exact_top(v, r.k, order, mask) for v in (r.naive, r.bias_aware))
    quality = jnp.where(mask, r.pool.quality, -jnp.inf)
    # Within the tolerance: compilers compute quality where it is used, and round it as they like.
    cut = metrics.kth_largest(quality, r.k) - metrics.tie_of(quality)
    return Tops(naive, bias_aware, mask & (quality >= cut))


def recall(top: Bool[Array, " M"], good: Bool[Array, " M"], k: int) -> Float[Array, ""]:
    """Share of a top k, of exactly k contents, that is truly good."""
    return (top & good).sum() / k


def urn(r: Rankings, t: Tops, labels: str) -> Urn:
    """The labels of one kind of pairs that a pool has. The covariate is the first.

    Raises:
      ValueError: another kind, items that share a content.
    """
    if labels not in OF_PAIRS:
        raise ValueError(f"labels must be one of {', '.join(OF_PAIRS)}, got {labels!r}")
    if r.pool.design.content is not None:
        raise ValueError("labels are simulated where every item is its own content")
    mask = r.pool.design.content_mask()
    truth, naive, aware = (
        jnp.sign(jnp.where(jnp.abs(d) > tie, d, 0))
        for d, tie in (
            (_ahead(r.pool.quality), 0.0),
            (_ahead(r.naive), metrics.tie_of(r.naive)),
            (_ahead(r.bias_aware), metrics.tie_of(r.bias_aware)),
        )
    )
    pair = jnp.triu(mask[:, None] & mask, 1)
    if labels == "swaps":
        only = t.bias_aware & ~t.naive, t.naive & ~t.bias_aware
        pair &= (only[0][:, None] & only[1]) | (only[1][:, None] & only[0])
    differ = pair & (naive * aware < 0)
    short = _ahead(r.pool.design.covariates[:, 0]) * truth < 0
    right, wrong = differ & (aware * truth > 0), differ & (naive * truth > 0)
    # Labels of the disputed may come out tied; the paper's pairs are of unlike quality.
    tied = differ & (truth == 0)
    agreed = pair & ~differ & (truth != 0)
    if labels != "pairs":
        agreed = jnp.zeros_like(agreed)
    else:
        tied = jnp.zeros_like(tied)

    def count(which: Bool[Array, "M M"]) -> Float[Array, ""]:
        return which.sum().astype(r.naive.dtype)

    return Urn(
        count(right),
        count(right & short),
        count(wrong),
        count(wrong & short),
        count(tied),
        count(agreed),
    )


def members(r: Rankings, t: Tops) -> tuple[Members, Members]:
    """The contents that bias-aware alone has in its top k, and those that naive alone has. The
    covariate is the first."""
    design = r.pool.design
    mask, x = design.content_mask(), design.covariates[:, 0]
    long = x > jnp.where(mask, x, 0).sum() / mask.sum()

    def of(only: Bool[Array, " M"]) -> Members:
        # Sorts of contents, one after the other: how many come before each place.
        sorts = [(g, b) for g in (True, False) for b in (True, False)]
        sizes = jnp.stack([(only & (t.good == g) & (long == b)).sum() for g, b in sorts])
        place = jnp.arange(r.k)
        sort = (place[:, None] >= jnp.cumsum(sizes)).sum(1)
        n = only.sum()
        long_ones = (sort % 2 == 0) & (place < n)
        return Members(n.astype(r.naive.dtype), sort < 2, long_ones)

    return of(t.bias_aware & ~t.naive), of(t.naive & ~t.bias_aware)


def _ahead(values: Float[Array, " M"]) -> Float[Array, "M M"]:
    return values[:, None] - values
