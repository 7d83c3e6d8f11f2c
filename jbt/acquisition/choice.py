"""The largest score, ties broken at random: of the pairs, and of the judges."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32


def choose(
    score: Float[Array, "N N"], available: Bool[Array, "N N"], salt: UInt32[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""], Bool[Array, ""]]:
    """The available pair of highest score: first, second, and whether there is one.

    Scores within 1e-5 (float32) or 1e-9 (float64) of the best, relatively, are tied: rounding
    must not decide. `salt`, new at every pick, decides. A score that is not finite is never
    chosen.
    """
    score = jnp.where(available & jnp.isfinite(score), score, -jnp.inf)
    near = _near_the_best(score) & (score > -jnp.inf)
    # Every pair gets a 32-bit code: its number in the low bits, random bits above them. Of the tied
    # pairs the one with the largest code is taken, and the low bits of that maximum say which it
    # is. (An argmax would say so too, but goes through the matrix entry by entry.) Pair number 0 is
    # item 0 against itself, which is never available: a maximum of 0 means that no pair is.
    n = score.shape[0]
    low = jnp.uint32((1 << (n * n - 1).bit_length()) - 1)
    number = jnp.arange(n * n, dtype=jnp.uint32).reshape(n, n)
    code: Array = (scramble(number ^ salt) & ~low) | number
    at = jnp.where(near, code, 0).max()
    pair = (at & low).astype(jnp.int32)
    return pair // n, pair % n, at > 0


def choose_judge(
    worth: Float[Array, " J"],
    price: Float[Array, " J"],
    found: Bool[Array, " J"],
    salt: UInt32[Array, ""],
) -> Int[Array, ""]:
    """The judge whose offer is worth most, of those who have one (`found`); of tied ones, as in
    `choose`, the cheapest; of those alike in price too, any, drawn by `salt`."""
    near = _near_the_best(jnp.where(found, worth, -jnp.inf))
    near &= price <= jnp.where(near, price, jnp.inf).min()
    judges = jnp.arange(len(worth), dtype=jnp.uint32)
    return jnp.where(near, scramble(judges ^ ~salt) | 1, 0).argmax()


def _near_the_best(score: Float[Array, "*each"]) -> Bool[Array, "*each"]:
    relative = 1e-5 if score.dtype == jnp.float32 else 1e-9
    best: Any = score.max()
    return score >= best - relative * jnp.abs(best)


def scramble(h: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A one-to-one mixing of 32 bits in which any bit of the input flips each bit of the output
    about half the time (the finaliser of MurmurHash3)."""
    h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
    return h ^ (h >> 16)
