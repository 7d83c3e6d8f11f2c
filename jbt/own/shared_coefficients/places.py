"""Parameters by name."""

from __future__ import annotations

from math import prod

import numpy as np


def places(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The places of named parameters in one vector, which has them in this order: of c of covariate
    d and judge g, `places(theta=(M,), c=(D, J), kappa=(J,))["c"][d, g]`."""
    ends = np.cumsum([prod(shape) for shape in shapes.values()])
    return {
        name: np.arange(end - prod(shape), end).reshape(shape)
        for (name, shape), end in zip(shapes.items(), ends.tolist(), strict=True)
    }
