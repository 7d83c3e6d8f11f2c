"""Apply a function to many pools, a chunk of them at a time."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def in_chunks(function: Any, pools: Any, size: int) -> tuple[np.ndarray, ...]:
    """Apply a function to pools (leading axis), at most `size` at a time; the last chunk is filled
    up with the last pool, so that one compiled program serves all."""
    n = len(jax.tree.leaves(pools)[0])
    size = min(max(size, 1), n)
    parts = []
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + size), n - 1)
        results = function(
            jax.tree.map(lambda leaf, rows=rows: leaf[rows], pools) if size < n else pools
        )
        parts.append([np.asarray(v)[: n - start] for v in results])
    return tuple(np.concatenate(v) for v in zip(*parts, strict=True))
