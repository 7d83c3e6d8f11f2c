"""Probability that a content is in the top k, by sampling the posterior.

There are two estimates. `membership` takes few, evenly spread draws. Given all other parameters of
a draw, a content's quality is Gaussian and the k-th best of the other contents is a number, so the
chance of exceeding it is known. The mean of these chances has a small fraction of the variance of a
count (conditional Monte Carlo, also called Rao-Blackwellisation: Owen, *Monte Carlo theory, methods
and examples*, section 8.7). As they are smooth in the draw, a scrambled Sobol sequence reduces the
variance further. `counted` is the paper's: the share of S draws with the content in the top k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jbt.types import Posterior, ScalarLike

DRAWS = {"conditional": 64, "counted": 1500}
"""The two estimates and their usual S (count). On posteriors of 30 items their rms errors
are 0.005 and 0.0075 (measured at revision 1699f035)."""

CHUNK = 512
"""Columns of a table processed together, so that they stay in cache."""

INSERTION_LIMIT = 1000
"""Largest M k for which the k-th largest is found by unrolled insertion, which runs fastest but
takes compile time that grows faster than M k. Above it, by bisection."""

Arrange = Callable[[Float[Array, "P M"]], Float[Array, "P M"]]
"""A permutation and changes of sign of the rows that the normals multiply, equivalent to the same
operations on the normals."""


def unchanged(rows: Float[Array, "P M"]) -> Float[Array, "P M"]:
    return rows


def sobol_normals(
    n_samples: int, n_parameters: int, dtype: Any, *, seed: int = 0
) -> Float[Array, "chunks P S"]:
    """A table of scrambled Sobol points turned to normals, for `membership`; made once and used at
    every refit (common random numbers).

    Over scrambles each point is standard normal; together the points are spread more evenly than
    independent ones. Best where S is a power of 2.

    Args:
      n_samples: S, number of draws, one a point; rounded up to whole chunks.
      n_parameters: P of the posterior.
      dtype: the posterior's.
      seed: seed of the scramble; the loop uses table 0 whatever the seed of the simulation.

    Raises:
      ValueError: n_samples below 1, n_parameters beyond SciPy's table of Sobol numbers.
    """
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    chunks, columns = _chunks(n_samples)
    bits = 30
    sobol = Sobol(n_parameters, bits=bits, rng=np.random.default_rng(seed))
    points = sobol.random_base2((chunks * columns - 1).bit_length())[: chunks * columns]
    # Multiples of 2^-bits, 0 among them: the middle of each cell is never 0 or 1.
    normals = ndtri(points + 0.5**bits / 2)
    return jnp.asarray(normals.reshape(chunks, columns, n_parameters).swapaxes(1, 2), dtype)


def antithetic_normals(
    n_samples: int, n_parameters: int, dtype: Any, *, seed: int = 0
) -> Float[Array, "chunks P pairs"]:
    """A table of independent standard normals for `counted`. Each serves two draws, mean + d and
    mean - d: half the matrix products, and as membership rises with a content's own quality,
    usually a smaller error than as many independent draws.

    Args:
      n_samples: S, number of draws, two a normal; rounded up to whole chunks.
      n_parameters, dtype, seed: as for `sobol_normals`.

    Raises:
      ValueError: n_samples below 1.
    """
    chunks, pairs = _chunks(n_samples, per_column=2)
    # NumPy's generator, as XLA would evaluate JAX's, slowly, while compiling.
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal((chunks, n_parameters, pairs)), dtype)


def _chunks(n_samples: int, per_column: int = 1) -> tuple[int, int]:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")
    columns = -(-n_samples // per_column)
    chunks = -(-columns // CHUNK)
    return chunks, -(-columns // chunks)


def membership(
    posterior: Posterior,
    k: int,
    mask: Bool[Array, " M"],
    normals: Float[Array, "chunks P S"],
    arrange: Arrange = unchanged,
) -> Float[Array, " M"]:
    """P(content is among the k of highest quality) under the posterior [the paper's p_i].

    With H the precision and L its Cholesky factor, a draw is mean + L'^-1 z, and given all
    parameters but theta_i

        theta_i ~ N(drawn theta_i - (L z)_i / H_ii, 1 / H_ii).

    p_i is the mean over draws of the probability that theta_i exceeds the k-th largest of the
    others.

    Args:
      posterior: Gaussian over all parameters; c and kappa are marginalised.
      k: size of the top set, 1..M-1.
      mask: real contents; padding gets 0.
      normals: from `sobol_normals`, of the posterior's dtype.
      arrange: rearranges the draws, so that many runs can share one table.

    Returns:
      [M] probabilities, which sum to k up to Monte Carlo error; all NaN for a posterior that is not
      finite.

    Raises:
      ValueError: k out of range.
    """
    m = mask.shape[0]
    check_k(k, m)
    factor = posterior.factor[:m]
    root, factor_z = arrange(posterior.root[:, :m]), arrange(factor.T)
    per_sd = (factor**2).sum(1)[:, None] ** 0.5  # 1 / sd of theta_i given the rest
    mean = posterior.mean.theta[:, None]
    chunks, _, columns = normals.shape
    weights = jnp.full(columns, 1 / (chunks * columns), mean.dtype)

    def add(total: Float[Array, " M"], z: Float[Array, "P S"]):
        quality = mean + root.T @ z
        ranked = jnp.where(mask[:, None], quality, -jnp.inf)
        last_in, first_out = boundary(ranked, k)
        rival = jnp.where(ranked >= last_in, first_out, last_in)
        ahead = (quality - rival) * per_sd - factor_z.T @ z / per_sd
        chance = jax.lax.erfc(ahead * -(0.5**0.5)) / 2
        # A matrix product, because XLA:CPU does not vectorise what it fuses into a sum of rows.
        return total + chance @ weights, None

    total, _ = jax.lax.scan(add, jnp.zeros(m, mean.dtype), normals)
    return _real_and_finite(total, posterior, mask)


def set_probability(
    posterior: Posterior,
    top: Bool[Array, " M"],
    mask: Bool[Array, " M"],
    normals: Float[Array, "chunks P S"],
    arrange: Arrange = unchanged,
    zone: ScalarLike = 0.0,
) -> Float[Array, ""]:
    """P(every content of a set has higher quality than every other, less `zone`) under the
    posterior.

    With v = 1 in the set and 0 elsewhere, shifting a draw by t v widens the gap between the least
    of the set and the best of the others by t. Given all else t is Gaussian,

        t ~ N(-v'L z / v'Hv, 1 / v'Hv),

    so that each draw gives the chance that the gap exceeds -zone, as in `membership`.

    Args:
      posterior, mask, normals, arrange: as in `membership`.
      top: [M] the set, at least one real content and not all.
      zone: by how much the best of the others may be better, logits; negative: by how much it must
        be worse.

    Returns:
      The mean of these chances over the draws; NaN for a posterior that is not finite.
    """
    m = mask.shape[0]
    root = arrange(posterior.root[:, :m])
    along = arrange((posterior.factor[:m].T @ top.astype(posterior.factor.dtype))[:, None])[:, 0]
    per_sd = (along @ along) ** 0.5  # 1 / sd of t
    mean = posterior.mean.theta[:, None]
    chunks, _, columns = normals.shape

    def add(total: Float[Array, ""], z: Float[Array, "P S"]):
        quality = mean + root.T @ z
        least = jnp.where(top[:, None], quality, jnp.inf).min(0)
        best = jnp.where((mask & ~top)[:, None], quality, -jnp.inf).max(0)
        ahead = (least - best + zone) * per_sd - along @ z / per_sd
        return total + (jax.lax.erfc(ahead * -(0.5**0.5)) / 2).sum(), None

    total, _ = jax.lax.scan(add, jnp.zeros((), mean.dtype), normals)
    finite = jnp.isfinite(posterior.root).all() & jnp.isfinite(posterior.mean.theta).all()
    return jnp.where(finite, total / (chunks * columns), jnp.nan)


def counted(
    posterior: Posterior,
    k: int,
    mask: Bool[Array, " M"],
    normals: Float[Array, "chunks P pairs"],
    arrange: Arrange = unchanged,
) -> Float[Array, " M"]:
    """`membership` by counting: the share of draws in which each content is in the top k. The
    shares sum to k. Arguments and errors as in `membership`, normals from `antithetic_normals`."""
    m = mask.shape[0]
    check_k(k, m)
    mean = jnp.where(mask, posterior.mean.theta, -jnp.inf)[:, None]
    root = arrange(posterior.root[:, :m])
    signs = jnp.array([1, -1], mean.dtype)

    def count(total: Float[Array, "M pairs"], z: Float[Array, "P pairs"]):
        d = root.T @ z
        up, down = jax.lax.map(lambda sign: kth_largest(mean + sign * d, k), signs)
        return total + (mean + d >= up) + (mean - d >= down), None

    chunks, _, pairs = normals.shape
    total, _ = jax.lax.scan(count, jnp.zeros((m, pairs), mean.dtype), normals)
    return _real_and_finite(total.sum(1) / (2 * chunks * pairs), posterior, mask)


def _real_and_finite(
    p: Float[Array, " M"], posterior: Posterior, mask: Bool[Array, " M"]
) -> Float[Array, " M"]:
    finite = jnp.isfinite(posterior.root).all() & jnp.isfinite(posterior.mean.theta).all()
    return jnp.where(mask, jnp.where(finite, p, jnp.nan), 0)


def boundary(values: Float[Array, "M S"], k: int) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """The k-th and the (k+1)-th largest of each column."""
    # In a loop of its own: fused into its users, the threshold would be computed once for each.
    last_in: Array = jax.lax.map(lambda v: kth_largest(v, k), values[None])[0]
    below = jnp.where(values < last_in, values, -jnp.inf).max(0)
    tied = _count(values >= last_in) > k
    return last_in, jnp.where(tied, last_in, below)


def kth_largest(values: Float[Array, "M S"], k: int) -> Float[Array, " S"]:
    """The k-th largest of each column; columns with fewer than k above -inf give -inf.

    Sorting libraries are slow on many short columns. So a sorted list of k is kept by insertion
    (branch-free, along the columns), or for large M k the threshold is bisected.
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

    def undecided(ends: tuple[Array, Array, Array]) -> Bool[Array, ""]:
        low, high, above = ends
        middle = low + (high - low) / 2
        # k + 1 above suffice: waiting for exactly k in the slowest column takes half as many passes
        # again. Where values are tied at the threshold, the ends meet.
        return ((above > k + 1) & (low < middle) & (middle < high)).any()

    def halve(ends: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, above = ends
        middle = low + (high - low) / 2
        count = _count(values > middle)
        enough = count >= k
        low, high = jnp.where(enough, middle, low), jnp.where(enough, high, middle)
        return low, high, jnp.where(enough, count, above)

    low, _, _ = jax.lax.while_loop(undecided, halve, (low, high, _count(finite)))
    least = jnp.where(values > low, values, jnp.inf).min(0)
    second = jnp.where(values > least, values, jnp.inf).min(0)
    kth = jnp.where(_count(values > least) >= k, second, least)
    return jnp.where(_count(finite) >= k, kth, -jnp.inf)


def _count(marks: Bool[Array, "M S"]) -> Array:
    # In as few bits as hold M: more columns fit a vector register.
    return marks.sum(0, dtype=np.min_scalar_type(len(marks)))


def check_k(k: int, n_contents: int) -> None:
    """Raise `ValueError` unless 1 <= k < n_contents."""
    if not 1 <= k < n_contents:
        raise ValueError(f"k must lie in 1..{n_contents - 1}, got {k}")
