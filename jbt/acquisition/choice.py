"""Choose the pair, or the judge, of the largest score; break ties at random."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32


def choose(
    score: Float[Array, "N N"], available: Bool[Array, "N N"], salt: UInt32[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""], Bool[Array, ""]]:
    """Choose the available pair of highest score.

    Scores within 1e-5 (float32) or 1e-9 (float64) of the best, relatively, count as tied, so that
    rounding does not decide. `salt`, new at every pick, breaks the tie. A score that is not finite
    is never chosen.

    Returns:
      The item shown first, the second, and whether any pair is available; without one, the items
      mean nothing.
    """
    score = jnp.where(available & jnp.isfinite(score), score, -jnp.inf)
    tied = _near_the_best(score) & (score > -jnp.inf)
    # Every pair gets a 32-bit code: its salted number in the low bits, random bits above them. The
    # tied pair with the largest code is taken, and the low bits of that maximum are its number. (An
    # argmax goes through the matrix entry by entry.) Where several of many pairs have the same
    # random bits, salted numbers decide without favour for later items.
    n = score.shape[0]
    low_bits = jnp.uint32((1 << (n * n - 1).bit_length()) - 1)
    salted = jnp.arange(n * n, dtype=jnp.uint32).reshape(n, n) ^ salt
    code: Array = (scramble(salted) & ~low_bits) | (salted & low_bits)
    largest = jnp.where(tied, code, 0).max()
    pair = ((largest ^ salt) & low_bits).astype(jnp.int32)
    return pair // n, pair % n, score.max() > -jnp.inf


def choose_judge(
    worth: Float[Array, " J"],
    price: Float[Array, " J"],
    has_offer: Bool[Array, " J"],
    salt: UInt32[Array, ""],
) -> Int[Array, ""]:
    """Choose the judge whose offer is worth most, among those with an offer. Ties are as in
    `choose`; the cheapest of the tied judges is taken, and `salt` decides between equal prices."""
    tied = _near_the_best(jnp.where(has_offer, worth, -jnp.inf))
    tied &= price <= jnp.where(tied, price, jnp.inf).min()
    judges = jnp.arange(len(worth), dtype=jnp.uint32)
    return jnp.where(tied, scramble(judges ^ ~salt) | 1, 0).argmax()


def _near_the_best(score: Float[Array, "*shape"]) -> Bool[Array, "*shape"]:
    relative = 1e-5 if score.dtype == jnp.float32 else 1e-9
    best: Any = score.max()
    return score >= best - relative * jnp.abs(best)


def scramble(h: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """Mix 32 bits one-to-one, so that any input bit flips each output bit about half the time (the
    finaliser of MurmurHash3)."""
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)
