"""Arrays of many pools and parameters: a function applied to a chunk of pools at a time, and places
by name."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import numpy as np

from jbt.kernel import padding

FEW = 4
"""Pools so few that none is added: each may be large, as merged pools are."""


def in_chunks(function: Any, pools: Any, size: int | None = None) -> Any:
    """Apply a function to pools (leading axis), at most `size` at a time, and return its results
    on the host.

    A chunk is filled up with its last pool to one of a few sizes, so that one compiled program
    serves all chunks, and other tables of about as many pools.
    """
    pools = jax.device_get(pools)
    n = len(jax.tree.leaves(pools)[0])
    if not n:
        return jax.device_get(function(pools))
    size = n if size is None else min(max(size, 1), n)
    filled = padding.size(n) if size == n > FEW else size
    parts = []
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + filled), n - 1)
        chosen = jax.tree.map(lambda leaf, rows=rows: leaf[rows], pools)
        results = jax.device_get(function(chosen if filled > n or size < n else pools))
        parts.append(jax.tree.map(lambda v, end=n - start: v[: min(size, end)], results))
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *v: np.concatenate(v), *parts)


def places(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The places of named parameters in one vector, which has them in this order: of c of covariate
    d and judge g, `places(theta=(M,), c=(D, J), kappa=(J,))["c"][d, g]`."""
    ends = np.cumsum([prod(shape) for shape in shapes.values()])
    return {
        name: np.arange(end - prod(shape), end).reshape(shape)
        for (name, shape), end in zip(shapes.items(), ends.tolist(), strict=True)
    }
