"""Directions that the verdicts do not determine: the likelihood is flat or rises without end."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from jbt.kernel.fit import FLAT
from jbt.kernel.listed import Top


def undetermined(top: Top, free: Bool[np.ndarray, " P"]) -> Float[np.ndarray, "directions P"]:
    """Directions of the parameters along which the likelihood has no single finite maximum: it
    is flat because no comparison made depends on them, or it rises to infinity because the same
    side won every verdict about them. A combination a'beta has a prior-free estimate if it is 0
    along all of them.

    These directions keep less than `FLAT` of their information at even odds when the likelihood has
    reached its supremum. The constant of theta, which is always among them, is left out.

    Args:
      top: the supremum, from `Listed.top` without a precision.
      free: which parameters are estimated.

    Returns:
      [directions, P], the largest entry of each 1.
    """
    free, scale = top.rows.informed(free), np.sqrt(top.rows.scale)
    constant = np.where(free & (np.arange(len(free)) < top.rows.n_contents), scale, 0)
    information = top.information / np.outer(scale, scale)
    information += np.outer(constant, constant) / (constant**2).sum()
    scaled = np.where(free[:, None] & free, information, np.eye(len(free)))
    values, vectors = np.linalg.eigh(scaled)
    directions = vectors[:, ~(values > FLAT)].T / scale
    return directions / np.abs(directions).max(1, initial=1e-300, keepdims=True)
