"""Probability that a content is in the top k, by sampling the posterior.

Draws come in antithetic pairs, mean + d and mean - d: half the matrix products, and as membership
rises with a content's own quality, usually a smaller error than as many independent draws.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jbt.types import Posterior

CHUNK = 512
"""Pairs of draws worked on together, so that they stay in cache."""

INSERTION_LIMIT = 1000
"""Largest M k for which the k-th largest is found by insertion, all of it unrolled; above, by
bisection, which takes some 50 passes whatever k is."""


def standard_normals(
    n_samples: int, n_parameters: int, dtype: Any, *, seed: int = 0
) -> Float[Array, "chunks P pairs"]:
    """A table of standard normals for `membership`, made once and used at every refit (common
    random numbers).

    Args:
      n_samples: S, draws wanted; each normal serves two, and S is rounded up to whole chunks.
      n_parameters: P of the posterior.
      dtype: of the posterior.
      seed: of the table; the loop uses table 0 whatever the seed of the simulation.

    Raises:
      ValueError: n_samples below 1.
    """
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")
    pairs = -(-n_samples // 2)
    chunks = -(-pairs // CHUNK)
    shape = (chunks, n_parameters, -(-pairs // chunks))
    # NumPy's, as XLA would compute a constant of JAX's generator, slowly, while compiling.
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def membership(
    posterior: Posterior,
    k: int,
    mask: Bool[Array, " M"],
    normals: Float[Array, "chunks P pairs"],
) -> Float[Array, " M"]:
    """P(content is among the k of highest quality) under the posterior [the paper's p_i].

    Args:
      posterior: of all parameters; c and kappa are marginalised.
      k: size of the top set, 1..M-1.
      mask: real contents; padding gets 0.
      normals: from `standard_normals`, of the posterior's dtype.

    Returns:
      [M] shares of the draws, in [0, 1], summing to k; all NaN for a posterior that is not finite.

    Raises:
      ValueError: k out of range.
    """
    m = mask.shape[0]
    check_k(k, m)
    mean = jnp.where(mask, posterior.mean.theta, -jnp.inf)[:, None]
    root = posterior.root[:, :m].T
    signs = jnp.array([1, -1], mean.dtype)

    def count(total: Float[Array, "M pairs"], z: Float[Array, "P pairs"]):
        d = root @ z
        # A loop of its own: fused with the comparisons below, every one of them would find
        # the threshold again.
        up, down = jax.lax.map(lambda sign: kth_largest(mean + sign * d, k), signs)
        return total + (mean + d >= up) + (mean - d >= down), None

    chunks, _, pairs = normals.shape
    total, _ = jax.lax.scan(count, jnp.zeros((m, pairs), mean.dtype), normals)
    finite = jnp.isfinite(root).all() & jnp.isfinite(posterior.mean.theta).all()
    return jnp.where(mask, jnp.where(finite, total.sum(1) / (2 * chunks * pairs), jnp.nan), 0)


def kth_largest(values: Float[Array, "M S"], k: int) -> Float[Array, " S"]:
    """The k-th largest of each column; columns with fewer than k above -inf give -inf.

    Sorting libraries are slow on many short columns: a sorted list of k is kept by insertion
    (branch-free, along the columns), or for large k the threshold is bisected to the last bit.
    """
    if len(values) * k <= INSERTION_LIMIT:
        top: list[Any] = []
        for value in values:
            for j in range(len(top)):
                larger = value > top[j]
                top[j], value = jnp.where(larger, value, top[j]), jnp.where(larger, top[j], value)
            if len(top) < k:
                top.append(value)
        return top[-1]
    return _bisect(values, k)


def _bisect(values: Float[Array, "M S"], k: int) -> Float[Array, " S"]:
    finite = jnp.isfinite(values)
    low = jnp.where(finite, values, jnp.inf).min(0)
    high = jnp.where(finite, values, -jnp.inf).max(0)
    low = low - 1 - jnp.abs(low)  # below all: at least k lie above it, if there are k

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = low + (high - low) / 2
        enough = (values > middle).sum(0) >= k
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    steps = math.ceil(1.5 * jnp.finfo(values.dtype).bits)
    low, high = jax.lax.fori_loop(0, steps, halve, (low, high))
    # The k-th largest is the least value above the lower end.
    found = jnp.where(values > low, values, jnp.inf).min(0)
    return jnp.where(finite.sum(0) >= k, found, -jnp.inf)


def check_k(k: int, n_contents: int) -> None:
    """Raise `ValueError` unless 1 <= k < n_contents."""
    if not 1 <= k < n_contents:
        raise ValueError(f"k must lie in 1..{n_contents - 1}, got {k}")
