"""The prior-free estimate of one coefficient c with its intervals, or why there is none."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt import quick_compilation
from jbt.identifiability.coefficient import Coefficient
from jbt.identifiability.profile_likelihood import over
from jbt.kernel import model
from jbt.kernel.fit import FLAT
from jbt.types import (
    Comparisons,
    Design,
    Panel,
    Parameters,
    Rows,
    Status,
    Variant,
    Verdicts,
    container,
)


@container
class BiasEstimate:
    """The estimate of one coefficient c from the comparisons alone. If the status is not CONVERGED,
    all numbers but `curvature` and `parameters` are NaN."""

    c: Float[Array, ""]
    """Maximum likelihood estimate, logits per unit of the covariate."""
    status: Int[Array, ""]
    """A `Status`: CONVERGED if the estimate exists; else FLAT, DISCONNECTED, SEPARATED,
    COVARIATE_CONSTANT, NO_VERDICTS (of this judge), NOT_CONVERGED or NOT_FINITE."""
    curvature: Float[Array, ""]
    """Minus the second derivative of the profile log-likelihood at its maximum, or as far as it was
    followed, per squared unit of c: the information about c when all other parameters are
    unknown."""
    wald_low: Float[Array, ""]
    wald_high: Float[Array, ""]
    """c minus and plus z / sqrt(curvature)."""
    low: Float[Array, ""]
    high: Float[Array, ""]
    """Where the profile has fallen by z^2 / 2."""
    parameters: Parameters
    """All parameters at the supremum, defined whatever the status."""


def estimate_bias(
    comparisons: Verdicts,
    design: Design,
    *,
    covariate: int | Int[Array, ""] = 0,
    judge: int | Int[Array, ""] = 0,
    variant: Variant | None = None,
    start: Parameters | None = None,
    level: float = 0.95,
) -> BiasEstimate:
    """The prior-free estimate of one coefficient, with a Wald and a profile-likelihood interval.

    It may exist where estimates of the qualities do not: an item that always wins has a quality at
    infinity, and carries no information about c.

    Args:
      comparisons, design: one pool, float64; of one judge, or of a panel.
      covariate: index of the covariate, 0..D-1; may be traced.
      judge: for a panel, index of the judge, 0..J-1; may be traced. `difference` makes the
        difference between two judges a parameter.
      variant: free coefficients, default all; this one is free in any case.
      start: where to begin; the coefficients that the variant fixes stay there, default 0.
      level: coverage of the intervals, in (0, 1).

    Raises:
      ValueError: no such covariate or judge, level out of range, float32.
    """
    coefficient = Coefficient.of(comparisons, design, covariate, judge, variant)
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}")
    z = jnp.asarray(NormalDist().inv_cdf((1 + level) / 2))
    return _estimate_bias(coefficient, start, z)


@quick_compilation.jit
def _estimate_bias(
    entry: Coefficient, start: Parameters | None, z: Float[Array, ""]
) -> BiasEstimate:
    """`z`: half-width of the interval in standard errors."""
    entry = entry.centred()  # a large mean would drown the information that is left
    top = entry.top(start)
    curvature = entry.left(entry.information(top.parameters))
    status = _existence(entry, top.status, curvature)

    exists = status == Status.CONVERGED
    c = entry.value_in(top.parameters)
    half = z / jnp.sqrt(jnp.where(exists, curvature, 1))

    def drop(c: Float[Array, ""], start: Parameters) -> tuple[Array, Array, Parameters]:
        """Twice the fall of the profile from its maximum less z^2; its slope; the parameters."""
        fit = entry.top_at(c, start)
        slope = -2 * model.score(fit.parameters, entry.design, entry.comparisons)[entry.index]
        return 2 * (fit.objective - top.objective) - z**2, slope, fit.parameters

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

    def defined(value: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.where(exists, value, jnp.nan)

    return BiasEstimate(
        defined(c),
        status,
        curvature,
        defined(c - half),
        defined(c + half),
        defined(low),
        defined(high),
        top.parameters,
    )


def _existence(
    entry: Coefficient, fit_status: Int[Array, ""], curvature: Float[Array, ""]
) -> Int[Array, ""]:
    """CONVERGED if the profile of c has a single finite maximum; else the status that says why."""

    def left_at_even_odds(entry: Coefficient) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Information left about c, and the least at which c is not flat."""
        even = model.information_at_even_odds(entry.comparisons, entry.design.centred())
        return entry.left(even), FLAT * even[entry.index, entry.index]

    left, least = left_at_even_odds(entry)
    all_pairs = _every_pair(entry.comparisons, entry.design)
    if all_pairs is None:
        mendable = jnp.array(False)
    else:
        possible, threshold = left_at_even_odds(dataclasses.replace(entry, comparisons=all_pairs))
        linked = _connected(entry.comparisons.shown, entry.design.item_mask)
        mendable = (possible > threshold) & ~linked
    status = jnp.where(curvature <= least, Status.SEPARATED, fit_status)
    not_identified = jnp.where(mendable, Status.DISCONNECTED, Status.FLAT)
    status = jnp.where(left <= least, not_identified, status)
    status = jnp.where(entry.varies(), status, Status.COVARIATE_CONSTANT)
    status = jnp.where(entry.is_asked(), status, Status.NO_VERDICTS)
    return jnp.where(fit_status == Status.NOT_FINITE, Status.NOT_FINITE, status)


def _every_pair(comparisons: Verdicts, design: Design) -> Verdicts | None:
    """Every ordered pair shown once, for a panel to every judge. None for rows, which do not say
    what else could be compared."""
    if isinstance(comparisons, Panel):
        counts = _every_pair(comparisons.verdicts, design)
        if counts is None:
            return None
        to_each = jax.tree.map(
            lambda v: jnp.broadcast_to(v[:, :, None], comparisons.shown.shape), counts
        )
        return dataclasses.replace(comparisons, verdicts=to_each)
    if isinstance(comparisons, Rows):
        return None
    items = design.item_mask
    counts = (items[:, None] & items & ~jnp.eye(design.n_items, dtype=bool)).astype(design.dtype)
    return Comparisons(counts, counts / 2)


def _connected(
    shown: Float[Array, "N N"] | Float[Array, "N N J"], items: Bool[Array, " N"]
) -> Bool[Array, ""]:
    """Whether chains of comparisons link all items; for a panel, each judge's alone."""
    if shown.ndim == 3:
        return jax.vmap(_connected, in_axes=(2, None))(shown, items).all()
    linked = (shown + shown.T > 0) | jnp.eye(len(items), dtype=bool)
    reach = linked.astype(shown.dtype)
    for _ in range(max(1, math.ceil(math.log2(len(items))))):
        reach = (reach @ reach > 0).astype(shown.dtype)
    return ((reach > 0) | ~(items[:, None] & items)).all()
