"""How good an estimate of quality is. Quality and estimate are per content, [M]."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def top_k_recall(
    estimate: Float[Array, " M"],
    quality: Float[Array, " M"],
    k: int | Int[Array, ""],
    mask: Bool[Array, " M"] | None = None,
) -> Float[Array, ""]:
    """Share of the k contents ranked highest by the estimate whose true quality is at least
    the k-th largest true quality (the paper's tie-robust recall, Section 5).

    Contents tied in the *estimate* at its k-th place share the places left equally: the mean
    over all ways of breaking the tie, so that the order of the items cannot matter.

    Args:
      estimate, quality: [M].
      k: 1..M-1, may be traced.
      mask: [M] real contents, default all. NaN in the estimate gives NaN.
    """
    mask = jnp.ones(quality.shape, bool) if mask is None else mask
    estimate = jnp.where(mask, estimate, -jnp.inf)
    quality = jnp.where(mask, quality, -jnp.inf)
    good = mask & (quality >= _kth_largest(quality, k))
    cut = _kth_largest(estimate, k)
    above, tied = estimate > cut, estimate == cut
    places = k - above.sum()
    hits = (good & above).sum() + places * (good & tied).sum() / tied.sum()
    return jnp.where(jnp.isnan(estimate).any(), jnp.nan, hits / k).astype(estimate.dtype)


def _kth_largest(values: Float[Array, " M"], k: int | Int[Array, ""]) -> Float[Array, ""]:
    return jnp.sort(values, descending=True)[k - 1]


def top_k_differ(
    a: Float[Array, " M"],
    b: Float[Array, " M"],
    k: int,
    mask: Bool[Array, " M"],
    *,
    tie: float = 1e-6,
) -> Bool[Array, ""]:
    """Whether two estimates disagree on the top k: no set of k contents is a top k of both,
    contents within `tie` logits of an estimate's k-th place counting as tied with it."""

    def sure_and_possible(x: Float[Array, " M"]) -> tuple[Bool[Array, " M"], Bool[Array, " M"]]:
        x = jnp.where(mask, x, -jnp.inf)
        cut = _kth_largest(x, k)
        # Sure: fewer than k others could be ranked at or above it.
        rivals = (x[None, :] >= x[:, None] - tie).sum(1) - 1
        return mask & (rivals < k), mask & (x >= cut - tie)

    (sure_a, may_a), (sure_b, may_b) = sure_and_possible(a), sure_and_possible(b)
    needed, allowed = sure_a | sure_b, may_a & may_b
    common = ~(needed & ~allowed).any() & (needed.sum() <= k) & (allowed.sum() >= k)
    return ~common


def pairwise_agreement(
    estimate: Float[Array, " M"],
    quality: Float[Array, " M"],
    mask: Bool[Array, " M"] | None = None,
) -> Float[Array, ""]:
    """Share of the pairs of contents with different true quality that the estimate orders
    as the truth does; a tie in the estimate is half. NaN if no pair differs.

    (tau + 1) / 2 with Kendall's tau where there are no ties.
    """
    mask = jnp.ones(quality.shape, bool) if mask is None else mask
    better = (quality[:, None] > quality) & mask[:, None] & mask
    difference = estimate[:, None] - estimate
    credit = jnp.where(difference > 0, 1.0, jnp.where(difference == 0, 0.5, 0.0))
    credit = jnp.where(jnp.isnan(difference), jnp.nan, credit).astype(estimate.dtype)
    return jnp.where(better, credit, 0).sum() / better.sum()
