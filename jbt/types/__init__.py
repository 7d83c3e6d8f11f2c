"""Every container of jbt, with the shape and unit of each field where it is declared.

Axis letters, used in every annotation of the package:

    N  items of a pool, padding included
    M  contents of a pool: what owns a quality (M = N unless renderings share one)
    R  rows of verdicts, where they are not counted over all pairs of items
    D  covariates of an item
    J  judges of a panel
    P  free and fixed parameters together, P = M + D + 1, ordered (theta, c, kappa); for a panel
       M + (D + 1) J, each coefficient of (c, kappa) for all judges before the next
    biases  all parameters after theta

Containers describe *one* pool; thousands of pools are the same containers with leading axes, made
by `jax.vmap` or `jax.tree.map(jnp.stack, ...)`. `...` in an annotation says that further axes pass
through: the solver works on thousands of pools with the pool as the last axis
(`jbt.kernel.batching`), in the same code. Where jaxtyping's import hook is on, as under pytest,
shapes are checked when a container is built by hand, not when JAX rebuilds one from its leaves.
`build` always checks values.

Orientation, here and everywhere: index `[i, j]` means "i shown first, j second", and a win at
`[i, j]` is a win of i, the first shown. kappa > 0 favours the first shown.
"""

from jbt.types.containers import (
    LARGEST_COUNT,
    ArrayLike,
    ScalarLike,
    check_count,
    check_positive,
    check_word,
    container,
)
from jbt.types.fit import Fit, Parameters, Posterior, Prior, Status, Variant, flat
from jbt.types.pool import Design, Judge, Pool
from jbt.types.verdicts import Comparisons, Panel, Rows, Verdicts, n_judges

__all__ = [
    "LARGEST_COUNT",
    "ArrayLike",
    "Comparisons",
    "Design",
    "Fit",
    "Judge",
    "Panel",
    "Parameters",
    "Pool",
    "Posterior",
    "Prior",
    "Rows",
    "ScalarLike",
    "Status",
    "Variant",
    "Verdicts",
    "check_count",
    "check_positive",
    "check_word",
    "container",
    "flat",
    "n_judges",
]
