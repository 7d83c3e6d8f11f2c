"""Metrics of an estimate of quality. Quality and estimate are per content, [M]."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

TIED = 1e-9
"""`tie_of` estimates in float64, logits; every comparison of two estimates uses it."""


def tie_of(estimate: Float[Array, " M"]) -> float:
    """Estimates closer than this, in logits, are tied: a solver's estimates of two contents with
    the same record differ by rounding, which must not decide which is in the top k."""
    return 1e-5 if estimate.dtype == jnp.float32 else TIED


def order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Order of float64 estimates a and b, elementwise: 1 where a is above, -1 where b is, 0 where
    they are tied to within `TIED`; NaN where either is."""
    difference = a - b
    return np.where(np.abs(difference) <= TIED, 0.0, np.sign(difference))


def ranks(estimate: np.ndarray) -> np.ndarray:
    """[M] 1 + the number of float64 estimates higher by more than rounding; NaN where it is."""
    higher = (order(estimate, estimate[:, None]) > 0).sum(1)
    return np.where(np.isfinite(estimate), 1 + higher, np.nan)


def top_k_recall(
    estimate: Float[Array, " M"],
    quality: Float[Array, " M"],
    k: int | Int[Array, ""],
    mask: Bool[Array, " M"] | None = None,
) -> Float[Array, ""]:
    """Share of the k contents ranked highest by the estimate whose true quality is at least
    the k-th largest true quality (the paper's tie-robust recall, Section 5).

    Contents whose *estimate* is tied with the k-th place (to within 1e-5 logits in float32, 1e-9 in
    float64) share the remaining places equally: the mean over all ways of breaking the tie, so that
    the order of the items cannot matter.

    Args:
      estimate, quality: [M].
      k: 1..M-1, may be traced.
      mask: [M] real contents, default all. NaN in the estimate gives NaN.

    Raises:
      ValueError: k out of range, if it is not traced.
    """
    if isinstance(k, int) and not 1 <= k < quality.shape[0]:
        raise ValueError(f"k must lie in 1..{quality.shape[0] - 1}, got {k}")
    mask = jnp.ones(quality.shape, bool) if mask is None else mask
    tie = tie_of(estimate)
    estimate = jnp.where(mask, estimate, -jnp.inf)
    quality = jnp.where(mask, quality, -jnp.inf)
    good = mask & (quality >= kth_largest(quality, k))
    cut = kth_largest(estimate, k)
    above = estimate > cut + tie
    tied = (estimate >= cut - tie) & ~above
    places = k - above.sum()
    hits = (good & above).sum() + places * (good & tied).sum() / tied.sum()
    return jnp.where(jnp.isnan(estimate).any(), jnp.nan, hits / k).astype(estimate.dtype)


def kth_largest(values: Float[Array, " M"], k: int | Int[Array, ""]) -> Float[Array, ""]:
    """The k-th largest of values [M], -inf for padding; k in 1..M may be traced."""
    # Counted, not sorted: k may be traced, and sorting many short rows is slow on every device.
    at_least = (values >= values[:, None]).sum(1)
    return jnp.where(at_least >= k, values, -jnp.inf).max()


def top_set(estimate: Float[Array, " M"], k: int, mask: Bool[Array, " M"]) -> Bool[Array, " M"]:
    """The k contents ranked highest by an estimate, and those tied with the k-th place."""
    estimate = jnp.where(mask, estimate, -jnp.inf)
    return mask & (estimate >= kth_largest(estimate, k) - tie_of(estimate))


def top_k_differ(
    a: Float[Array, " M"],
    b: Float[Array, " M"],
    k: int,
    mask: Bool[Array, " M"],
) -> Bool[Array, ""]:
    """Whether two estimates [M] disagree on the top k: no set of k contents is a top k of both,
    ties counted as in `top_k_recall`."""
    tie = tie_of(a)

    def sure_and_possible(x: Float[Array, " M"]) -> tuple[Bool[Array, " M"], Bool[Array, " M"]]:
        possible = top_set(x, k, mask)
        x = jnp.where(mask, x, -jnp.inf)
        # A sure content has fewer than k others that could be ranked at or above it.
        rivals = (x[None, :] >= x[:, None] - tie).sum(1) - 1
        return mask & (rivals < k), possible

    (sure_a, possible_a), (sure_b, possible_b) = sure_and_possible(a), sure_and_possible(b)
    needed, allowed = sure_a | sure_b, possible_a & possible_b
    common = ~(needed & ~allowed).any() & (needed.sum() <= k) & (allowed.sum() >= k)
    return ~common


def pairwise_agreement(
    estimate: Float[Array, " M"],
    quality: Float[Array, " M"],
    mask: Bool[Array, " M"],
) -> Float[Array, ""]:
    """Share of the pairs of contents with different true quality that the estimate orders as the
    truth does; a tie in the estimate, as in `top_k_recall`, counts half. NaN if no pair differs.

    Without ties it is (tau + 1) / 2 with Kendall's tau.
    """
    better = (quality[:, None] > quality) & mask[:, None] & mask
    difference = estimate[:, None] - estimate
    tie = tie_of(estimate)
    credit = jnp.where(difference > tie, 1.0, jnp.where(difference >= -tie, 0.5, 0.0))
    credit = jnp.where(jnp.isnan(difference), jnp.nan, credit).astype(estimate.dtype)
    return jnp.where(better, credit, 0).sum() / better.sum()


def boundary_distance(
    quality: Float[Array, " M"], k: int, mask: Bool[Array, " M"]
) -> Int[Array, " M"]:
    """Number of places from each content to the boundary between the k-th and the next in true
    quality: 0 for these two. Padding ranks below all others."""
    quality = jnp.where(mask, quality, -jnp.inf)
    rank = (quality > quality[:, None]).sum(1)
    return jnp.where(rank < k, k - 1 - rank, rank - k)
