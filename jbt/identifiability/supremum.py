"""Directions that the verdicts do not determine: the likelihood is flat or rises without end."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from jbt import quick_compilation
from jbt.kernel import model, padding
from jbt.kernel.fit import FLAT, fit_supremum, scaled_information
from jbt.kernel.newton import information_scale
from jbt.types import Design, Parameters, Rows, Variant, Verdicts


def undetermined(
    comparisons: Verdicts, design: Design, variant: Variant, *, start: Parameters | None = None
) -> Float[np.ndarray, "directions P"]:
    """Directions of (theta, c, kappa) along which the likelihood has no single finite maximum: it
    is flat because no comparison made depends on them, or it rises to infinity because the same
    side won every verdict about them. A combination a'beta has a prior-free estimate if it is 0
    along all of them.

    These directions keep less than `FLAT` of their information at even odds when the likelihood has
    reached its supremum. The constant of theta, which is always among them, is left out.

    Args:
      comparisons, design: one pool, float64; of one judge, or of a panel.
      variant: free coefficients.
      start: where to begin; the coefficients that the variant fixes stay there.

    Returns:
      [directions, P], the largest entry of each 1.

    Raises:
      ValueError: float32.
    """
    n_contents = design.n_contents
    if isinstance(comparisons, Rows):
        design = padding.pad_contents(design)
        start = start and padding.pad_parameters(start, design.n_contents)
    scaled, scale = jax.device_get(_at_supremum(comparisons, design, variant, start))
    places = padding.kept(
        n_contents, len(scale) - design.n_contents + n_contents, design.n_contents
    )
    values, vectors = np.linalg.eigh(scaled[np.ix_(places, places)])
    scale = scale[places]
    directions = vectors[:, ~(values > FLAT)].T / np.sqrt(scale)
    return directions / np.abs(directions).max(1, initial=1e-300, keepdims=True)


@quick_compilation.jit
def _at_supremum(
    comparisons: Verdicts, design: Design, variant: Variant, start: Parameters | None
) -> tuple[Float[Array, "P P"], Float[Array, " P"]]:
    """The information at the supremum in units of that at even odds, with the constant of theta and
    the fixed parameters pinned; and these units."""
    top = fit_supremum(comparisons, design, variant, start=start)
    design = design.centred()
    free = model.free_mask(variant, design)
    scale = information_scale(comparisons, design, free)
    information = model.score_and_information(top.parameters, design, comparisons)[1]
    return scaled_information(information, scale, free, design), scale
