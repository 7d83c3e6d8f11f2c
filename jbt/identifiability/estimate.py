"""The prior-free estimate of one coefficient c with its interval, or why there is none."""

from __future__ import annotations

from statistics import NormalDist

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt import quick_compilation
from jbt.identifiability.coefficient import Coefficient
from jbt.identifiability.profile_likelihood import over
from jbt.kernel import model
from jbt.kernel.fit import FLAT
from jbt.types import Design, Parameters, Status, Variant, Verdicts, container

Z = NormalDist().inv_cdf(0.975)
"""Half-width of the interval in standard errors, where the profile is a parabola."""


@container
class BiasEstimate:
    """The estimate of one coefficient c from the comparisons alone. If the status is not CONVERGED,
    all numbers are NaN."""

    c: Float[Array, ""]
    """Maximum likelihood estimate, logits per unit of the covariate."""
    status: Int[Array, ""]
    """A `Status`: CONVERGED if the estimate exists; else FLAT, SEPARATED, COVARIATE_CONSTANT,
    NO_VERDICTS (of this judge), NOT_CONVERGED or NOT_FINITE."""
    low: Float[Array, ""]
    high: Float[Array, ""]
    """Ends of the 95 % interval: where the profile has fallen by z^2 / 2."""


def estimate_bias(
    comparisons: Verdicts,
    design: Design,
    *,
    covariate: int | Int[Array, ""] = 0,
    judge: int | Int[Array, ""] = 0,
    variant: Variant | None = None,
) -> BiasEstimate:
    """The prior-free estimate of one coefficient, with a profile-likelihood interval.

    It may exist where estimates of the qualities do not: an item that always wins has a quality at
    infinity, and carries no information about c.

    Args:
      comparisons, design: one pool, float64; of one judge, or of a panel.
      covariate: index of the covariate, 0..D-1; may be traced.
      judge: for a panel, index of the judge, 0..J-1; may be traced.
      variant: free coefficients, default all; this one is free in any case. The others are 0.

    Raises:
      ValueError: no such covariate or judge, float32.
    """
    return _estimate_bias(Coefficient.of(comparisons, design, covariate, judge, variant))


@quick_compilation.jit
def _estimate_bias(entry: Coefficient) -> BiasEstimate:
    entry = entry.centred()  # a large mean would drown the information that is left
    top = entry.top()
    curvature = entry.left(entry.information(top.parameters))
    status = _existence(entry, top.status, curvature)

    exists = status == Status.CONVERGED
    c = entry.value_in(top.parameters)
    half = Z / jnp.sqrt(jnp.where(exists, curvature, 1))

    def drop(c: Float[Array, ""], start: Parameters) -> tuple[Array, Array, Parameters]:
        """Twice the fall of the profile from its maximum less z^2; its slope; the parameters."""
        fit = entry.top_at(c, start)
        slope = -2 * model.score(fit.parameters, entry.design, entry.comparisons)[entry.index]
        return 2 * (fit.objective - top.objective) - Z**2, slope, fit.parameters

    def end(begin: Float[Array, ""]) -> Float[Array, ""]:
        """Find an end of the interval by Newton's method. The fall is convex in c: after one step
        the iterates are outside and come in monotonically."""

        def step(s: tuple) -> tuple:
            c, _, parameters, steps = s
            excess, slope, parameters = drop(c, parameters)
            return (
                jnp.where(jnp.abs(excess) > 1e-9, c - excess / slope, c),
                excess,
                parameters,
                steps + 1,
            )

        def going(s: tuple) -> Bool[Array, ""]:
            return exists & (jnp.abs(s[1]) > 1e-9) & (s[3] < 40)

        first = (begin, jnp.asarray(jnp.inf, entry.design.dtype), top.parameters, jnp.array(0))
        c, excess, _, _ = jax.lax.while_loop(going, step, first)
        return jnp.where(jnp.abs(excess) < 1e-6, c, jnp.nan)

    low, high = over(end, jnp.stack([c - half, c + half]), entry.comparisons)
    both_ends = jnp.isfinite(low) & jnp.isfinite(high)
    # Where the profile rises without end, rounding may keep more than `FLAT` of the information.
    # The profile then falls on one side alone, and both ends are found there.
    one_sided = exists & both_ends & ~((low < c) & (c < high))
    status = jnp.where(one_sided, Status.SEPARATED, status)
    status = jnp.where(exists & ~both_ends, Status.NOT_CONVERGED, status)
    exists = exists & both_ends & ~one_sided
    c, low, high = (jnp.where(exists, value, jnp.nan) for value in (c, low, high))
    return BiasEstimate(c, status, low, high)


def _existence(
    entry: Coefficient, fit_status: Int[Array, ""], curvature: Float[Array, ""]
) -> Int[Array, ""]:
    """CONVERGED if the profile of c has a single finite maximum; else the status that says why.
    `curvature`: the information about c that is left at the supremum."""
    even = model.information_at_even_odds(entry.comparisons, entry.design)
    least = FLAT * even[entry.index, entry.index]
    status = jnp.where(curvature <= least, Status.SEPARATED, fit_status)
    status = jnp.where(entry.left(even) <= least, Status.FLAT, status)
    status = jnp.where(entry.varies(), status, Status.COVARIATE_CONSTANT)
    status = jnp.where(entry.is_asked(), status, Status.NO_VERDICTS)
    return jnp.where(fit_status == Status.NOT_FINITE, Status.NOT_FINITE, status)
