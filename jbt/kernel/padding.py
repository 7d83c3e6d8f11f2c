"""Contents and pools padded to a few sizes, so that problems of similar size share compiled
programs."""

from __future__ import annotations

FEWEST = 8
"""Smallest size."""


def size(n: int) -> int:
    """The size to which n contents or pools are padded: of four between powers of two."""
    step = max(FEWEST, 2 ** max(0, n.bit_length() - 3))
    return -(-n // step) * step
