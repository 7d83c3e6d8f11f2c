"""The prior-free estimate of one coefficient c with its intervals, or why there is none."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt.identifiability.coefficient import Coefficient
from jbt.identifiability.likelihood import over
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
    """What the comparisons alone say about one coefficient c. All NaN but `curvature` unless the
    status is CONVERGED."""

    c: Float[Array, ""]
    """Maximum likelihood estimate, logits per unit of the covariate."""
    status: Int[Array, ""]
    """A `Status`: CONVERGED if the estimate exists; else FLAT, DISCONNECTED, SEPARATED,
    COVARIATE_CONSTANT, NO_VERDICTS (of a panel: by the judge asked about), NOT_CONVERGED or
    NOT_FINITE."""
    curvature: Float[Array, ""]
    """Minus the second derivative of the profile log-likelihood where it is highest, or as far as
    it was followed, nats per squared unit of c: the information about c when all other parameters
    are unknown."""
    wald_low: Float[Array, ""]
    wald_high: Float[Array, ""]
    """c minus and plus z / sqrt(curvature)."""
    low: Float[Array, ""]
    high: Float[Array, ""]
    """Where the profile has fallen by z^2 / 2 nats."""
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

    It may exist where that of the qualities does not: an item that always wins has a quality at
    infinity, and drops out of what is known about c.

    Args:
      comparisons, design: one pool, float64; of one judge, or of a panel.
      covariate: which one, 0..D-1.
      judge: of a panel, whose, 0..J-1; may be traced, as `covariate` may. For the difference of two
        judges' see `difference`.
      variant: free coefficients, default all; this one is free in any case.
      start: where to begin; the coefficients that the variant fixes stay there, default 0.
      level: coverage of the intervals, in (0, 1).

    Raises:
      ValueError: no such covariate or judge, level out of range, float32.
    """
    of = Coefficient.of(comparisons, design, covariate, judge, variant)
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}")
    z = jnp.asarray(NormalDist().inv_cdf((1 + level) / 2))
    return _estimate_bias(of, start, z)


@jax.jit
def _estimate_bias(of: Coefficient, start: Parameters | None, z: Float[Array, ""]) -> BiasEstimate:
    """`z`: half-width of the interval in standard errors."""
    of = of.centred()  # or a large mean would drown what is left of the information
    top = of.top(start)
    curvature = of.left(of.information(top.parameters))
    status = _existence(of, top.status, curvature)

    exists = status == Status.CONVERGED
    c = of.value_in(top.parameters)
    half = z / jnp.sqrt(jnp.where(exists, curvature, 1))

    def fallen(c: Float[Array, ""], start: Parameters) -> tuple[Array, Array, Parameters]:
        """Twice the fall of the profile from its top less z^2, and its slope."""
        fit = of.top_at(c, start)
        slope = -2 * model.score(fit.parameters, of.design, of.comparisons)[of.index]
        return 2 * (fit.objective - top.objective) - z**2, slope, fit.parameters

    def end(begin: Float[Array, ""]) -> Float[Array, ""]:
        """Newton's method. The fall is convex in c: after one step the iterates are outside and
        come in monotonically."""

        def step(s: tuple) -> tuple:
            c, _, parameters, steps = s
            excess, slope, parameters = fallen(c, parameters)
            return (
                jnp.where(jnp.abs(excess) > 1e-9, c - excess / slope, c),
                excess,
                parameters,
                steps + 1,
            )

        def going(s: tuple) -> Bool[Array, ""]:
            return exists & (jnp.abs(s[1]) > 1e-9) & (s[3] < 40)

        first = (begin, jnp.asarray(jnp.inf, of.design.dtype), top.parameters, jnp.array(0))
        c, excess, _, _ = jax.lax.while_loop(going, step, first)
        return jnp.where(jnp.abs(excess) < 1e-6, c, jnp.nan)

    low, high = over(end, jnp.stack([c - half, c + half]), of.comparisons)
    found = jnp.isfinite(low) & jnp.isfinite(high)
    # Rounding may keep more than `FLAT` of the information where the profile rises without end. It
    # falls on one side alone then, and both ends are found there.
    one_sided = exists & found & ~((low < c) & (c < high))
    status = jnp.where(one_sided, Status.SEPARATED, status)
    status = jnp.where(exists & ~found, Status.NOT_CONVERGED, status)
    exists = exists & found & ~one_sided

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
    of: Coefficient, fit_status: Int[Array, ""], curvature: Float[Array, ""]
) -> Int[Array, ""]:
    """Whether the profile of c has a single finite top, and if not, why."""

    def least(of: Coefficient) -> tuple[Float[Array, ""], Float[Array, ""]]:
        even = model.information_at_even_odds(of.comparisons, of.design.centred())
        return of.left(even), FLAT * even[of.index, of.index]

    made, threshold = least(of)
    flat = made <= threshold
    every = _every_pair(of.comparisons, of.design)
    if every is None:
        mendable = jnp.array(False)
    else:
        possible, its_threshold = least(dataclasses.replace(of, comparisons=every))
        linked = _connected(of.comparisons.shown, of.design.item_mask)
        mendable = (possible > its_threshold) & ~linked
    status = jnp.where(curvature <= threshold, Status.SEPARATED, fit_status)
    silent = jnp.where(mendable, Status.DISCONNECTED, Status.FLAT)
    status = jnp.where(flat, silent, status)
    status = jnp.where(of.varies(), status, Status.COVARIATE_CONSTANT)
    status = jnp.where(of.is_asked(), status, Status.NO_VERDICTS)
    return jnp.where(fit_status == Status.NOT_FINITE, Status.NOT_FINITE, status)


def _every_pair(comparisons: Verdicts, design: Design) -> Verdicts | None:
    """Every ordered pair shown once, of a panel to every judge. None for rows, which do not tell
    what else could be compared."""
    if isinstance(comparisons, Panel):
        every = _every_pair(comparisons.verdicts, design)
        if every is None:
            return None
        to_each = jax.tree.map(
            lambda v: jnp.broadcast_to(v[:, :, None], comparisons.shown.shape), every
        )
        return dataclasses.replace(comparisons, verdicts=to_each)
    if isinstance(comparisons, Rows):
        return None
    items = design.item_mask
    every = (items[:, None] & items & ~jnp.eye(design.n_items, dtype=bool)).astype(design.dtype)
    return Comparisons(every, every / 2)


def _connected(
    shown: Float[Array, "N N"] | Float[Array, "N N J"], items: Bool[Array, " N"]
) -> Bool[Array, ""]:
    """Whether chains of comparisons link all items; of a panel, those of every judge alone."""
    if shown.ndim == 3:
        return jax.vmap(_connected, in_axes=(2, None))(shown, items).all()
    linked = (shown + shown.T > 0) | jnp.eye(len(items), dtype=bool)
    reach = linked.astype(shown.dtype)
    for _ in range(max(1, math.ceil(math.log2(len(items))))):
        reach = (reach @ reach > 0).astype(shown.dtype)
    return ((reach > 0) | ~(items[:, None] & items)).all()
