"""The profile log-likelihood of one coefficient c, which maximises over all other parameters and
measures the evidence about c; and the slice, which holds them and measures none."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jbt import quick_compilation
from jbt.identifiability.coefficient import Coefficient
from jbt.types import (
    Design,
    Panel,
    Rows,
    ScalarLike,
    Status,
    Variant,
    Verdicts,
    container,
)

PROFILE_DROP = NormalDist().inv_cdf(0.975) ** 2 / 2
"""Nats below its maximum at which a profile leaves the 95 % interval."""


@container
class Profile:
    """Profile log-likelihood of one coefficient on a grid."""

    grid: Float[Array, " G"]
    """Values of c, logits per unit of the covariate."""
    log_likelihood: Float[Array, " G"]
    """Maximum over all other parameters, without a prior."""
    status: Int[Array, " G"]
    """A `Status`: CONVERGED, NOT_CONVERGED, NOT_FINITE; COVARIATE_CONSTANT where the covariate does
    not vary within the pool, so that there is nothing to profile."""

    def range(self) -> Float[Array, ""]:
        """Largest minus smallest: the evidence the comparisons carry about c over this grid.
        NaN where a point did not converge."""
        usable = (self.status == Status.CONVERGED) | (self.status == Status.COVARIATE_CONSTANT)
        spread = self.log_likelihood.max() - self.log_likelihood.min()
        return jnp.where(usable.all(), spread, jnp.nan)


def grid_around(centre: ScalarLike, *, points: int = 9) -> Float[Array, " G"]:
    """The paper's grid: `points` values over [centre - 1, centre + 1], logits per unit of the
    covariate."""
    return centre + jnp.linspace(-1, 1, points, dtype=jnp.result_type(centre, float))


def profile(
    comparisons: Verdicts,
    design: Design,
    grid: Float[Array, " G"],
    *,
    covariate: int | Int[Array, ""] = 0,
    judge: int | Int[Array, ""] = 0,
    variant: Variant | None = None,
) -> Profile:
    """Profile log-likelihood over one coefficient, the others maximised over at every grid point
    [the paper's Section 5, "Restoring identifiability"].

    Where an item always wins or loses, the maximum is a supremum at infinity; it is reached to
    within 1e-9.

    Args:
      comparisons, design: one pool, float64; of one judge, or of a panel.
      grid: [G] values of c, logits per unit of the covariate.
      covariate: index of the covariate, 0..D-1; may be traced.
      judge: for a panel, index of the judge, 0..J-1; may be traced.
      variant: free coefficients, default all; those fixed are 0.

    Raises:
      ValueError: no such covariate or judge, float32.
    """
    return _profile(Coefficient.of(comparisons, design, covariate, judge, variant), grid)


@quick_compilation.jit
def _profile(coefficient: Coefficient, grid: Float[Array, " G"]) -> Profile:
    middle = jnp.sort(grid)[grid.shape[0] // 2]
    first = coefficient.top_at(middle, coefficient.zeros()).parameters
    tangent = coefficient.compensation(coefficient.centred().information(first))

    def point(value: Float[Array, ""]) -> tuple[Float[Array, ""], Int[Array, ""]]:
        # Starts on the tangent of the path of maxima; every point is maximised from there.
        fit = coefficient.top_at(value, coefficient.moved(first, (value - middle) * tangent))
        return -fit.objective, fit.status

    log_likelihood: Float[Array, " G"]
    status: Int[Array, " G"]
    log_likelihood, status = over(point, grid, coefficient.comparisons)
    constant = ~coefficient.varies() & (status != Status.NOT_FINITE)
    return Profile(grid, log_likelihood, jnp.where(constant, Status.COVARIATE_CONSTANT, status))


def over(f: Callable[..., Any], values: Float[Array, " V"], comparisons: Verdicts) -> Any:
    """`f`, a function of one value of c, at each of `values`. For rows one value at a time: that
    fills a processor already, and all at once could fill its memory."""
    verdicts = comparisons.verdicts if isinstance(comparisons, Panel) else comparisons
    return jax.lax.map(f, values) if isinstance(verdicts, Rows) else jax.vmap(f)(values)
