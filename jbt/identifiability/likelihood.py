"""How much the verdicts say about one coefficient c, when nothing else is known.

The profile log-likelihood of c is the maximum over all other parameters at fixed c: without a
prior, in float64, and on (theta, c, kappa) as they stand, so that flatness is found, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from jbt import model
from jbt.fit import FLAT, fit_supremum
from jbt.newton import RIDGE, information_scale
from jbt.types import (
    Comparisons,
    Design,
    Fit,
    Parameters,
    Rows,
    ScalarLike,
    Status,
    Variant,
    Verdicts,
    container,
)


@container
class Profile:
    """Profile log-likelihood of one coefficient on a grid."""

    grid: Float[Array, " G"]
    """Values of c, logits per unit of the covariate."""
    log_likelihood: Float[Array, " G"]
    """Maximum over all other parameters, without a prior, nats."""
    status: Int[Array, " G"]
    """A `Status`: CONVERGED, NOT_CONVERGED, NOT_FINITE; COVARIATE_CONSTANT where the covariate does
    not vary within the pool, so that there is nothing to profile."""

    def range(self) -> Float[Array, ""]:
        """Largest minus smallest, nats: the evidence the comparisons carry about c over this grid.
        NaN where a point did not converge."""
        good = (self.status == Status.CONVERGED) | (self.status == Status.COVARIATE_CONSTANT)
        spread = self.log_likelihood.max() - self.log_likelihood.min()
        return jnp.where(good.all(), spread, jnp.nan)


def grid_around(
    centre: ScalarLike, *, half_width: float = 1.0, points: int = 9
) -> Float[Array, " G"]:
    """The paper's grid: `points` values over [centre - half_width, centre + half_width], logits per
    unit of the covariate.

    Raises:
      ValueError: half_width not above 0, fewer than 2 points.
    """
    if not half_width > 0 or points < 2:
        raise ValueError(f"a grid needs half_width > 0 and 2 points, got {half_width} and {points}")
    return centre + half_width * jnp.linspace(-1, 1, points, dtype=jnp.result_type(centre, float))


def profile(
    comparisons: Verdicts,
    design: Design,
    grid: Float[Array, " G"],
    *,
    covariate: int | Int[Array, ""] = 0,
    variant: Variant | None = None,
) -> Profile:
    """Profile log-likelihood over one coefficient, the others maximised over at every grid point
    [the paper's Section 5, "Restoring identifiability"].

    Where an item always wins or loses, the maximum is a supremum at infinity; it is reached to
    within 1e-9 nats all the same.

    Args:
      comparisons, design: one pool, float64.
      grid: [G] values of c, logits per unit of the covariate.
      covariate: which one, 0..D-1.
      variant: free coefficients, default all; the profiled one is set by the grid.

    Raises:
      ValueError: an empty or not finite grid, no such covariate, float32.
    """
    _check_precision(design)
    _check_covariate(design, covariate)
    if grid.ndim != 1 or not grid.shape[0]:
        raise ValueError(f"the grid must hold at least one value, got shape {grid.shape}")
    if not isinstance(grid, Tracer) and not np.isfinite(np.asarray(grid)).all():
        raise ValueError(f"the grid must be finite, got {np.asarray(grid)}")
    return _profile(comparisons, design, grid, jnp.asarray(covariate), variant)


@jax.jit
def _profile(
    comparisons: Verdicts,
    design: Design,
    grid: Float[Array, " G"],
    covariate: Int[Array, ""],
    variant: Variant | None,
) -> Profile:
    others = _others(design, covariate, variant)
    middle = jnp.sort(grid)[grid.shape[0] // 2]
    first = _at(comparisons, design, others, covariate, middle, Parameters.zeros(design))
    information = model.score_and_information(first.parameters, design.centred(), comparisons)[1]
    along = _compensation(information, comparisons, design, others, covariate)

    def point(value: Float[Array, ""]) -> tuple[Float[Array, ""], Int[Array, ""]]:
        # Begun on the tangent of the path of maxima; every point is maximised all the same.
        start = first.parameters.flat() + (value - middle) * along
        start = Parameters.unflat(start, design.n_contents)
        fit = _at(comparisons, design, others, covariate, value, start)
        return -fit.objective, fit.status

    log_likelihood: Float[Array, " G"]
    status: Int[Array, " G"]
    log_likelihood, status = _over(point, grid, comparisons)
    constant = ~_varies(comparisons, design, covariate) & (status != Status.NOT_FINITE)
    return Profile(grid, log_likelihood, jnp.where(constant, Status.COVARIATE_CONSTANT, status))


@container
class BiasEstimate:
    """What the comparisons alone say about one coefficient c. All NaN but `curvature` unless the
    status is CONVERGED."""

    c: Float[Array, ""]
    """Maximum likelihood estimate, logits per unit of the covariate."""
    status: Int[Array, ""]
    """A `Status`: CONVERGED if the estimate exists; else FLAT, DISCONNECTED, SEPARATED,
    COVARIATE_CONSTANT, NO_VERDICTS, NOT_CONVERGED or NOT_FINITE."""
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
    variant: Variant | None = None,
    level: float = 0.95,
) -> BiasEstimate:
    """The prior-free estimate of one coefficient, with a Wald and a profile-likelihood interval.

    It may exist where that of the qualities does not: an item that always wins has a quality at
    infinity, and drops out of what is known about c.

    Args:
      comparisons, design: one pool, float64.
      covariate: which one, 0..D-1.
      variant: free coefficients, default all; this one is free in any case.
      level: coverage of the intervals, in (0, 1).

    Raises:
      ValueError: no such covariate, level out of range, float32.
    """
    _check_precision(design)
    _check_covariate(design, covariate)
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}")
    z = jnp.asarray(NormalDist().inv_cdf((1 + level) / 2))
    return _estimate_bias(comparisons, design, jnp.asarray(covariate), variant, z)


@jax.jit
def _estimate_bias(
    comparisons: Verdicts,
    design: Design,
    covariate: Int[Array, ""],
    variant: Variant | None,
    z: Float[Array, ""],
) -> BiasEstimate:
    """`z`: half-width of the interval in standard errors."""
    design = design.centred()  # or a large mean would drown what is left of the information
    others = _others(design, covariate, variant)
    m = design.n_contents
    variant = Variant(others[m:-1].at[covariate].set(True), others[-1])
    top = fit_supremum(comparisons, design, variant)
    information = model.score_and_information(top.parameters, design, comparisons)[1]
    curvature = _efficient(information, comparisons, design, others, covariate)
    status = _existence(top.status, curvature, comparisons, design, others, covariate)

    exists = status == Status.CONVERGED
    c = top.parameters.c[covariate]
    half = z / jnp.sqrt(jnp.where(exists, curvature, 1))

    def fallen(c: Float[Array, ""], start: Parameters) -> tuple[Array, Array, Parameters]:
        """Twice the fall of the profile from its top less z^2, and its slope."""
        fit = _at(comparisons, design, others, covariate, c, start)
        slope = -2 * model.score(fit.parameters, design, comparisons)[design.n_contents + covariate]
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

        first = (begin, jnp.asarray(jnp.inf, design.dtype), top.parameters, jnp.array(0))
        c, excess, _, _ = jax.lax.while_loop(going, step, first)
        return jnp.where(jnp.abs(excess) < 1e-6, c, jnp.nan)

    low, high = _over(end, jnp.stack([c - half, c + half]), comparisons)
    lost = exists & ~(jnp.isfinite(low) & jnp.isfinite(high))
    status = jnp.where(lost, Status.NOT_CONVERGED, status)
    exists = exists & ~lost

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


def efficient_information(
    parameters: Parameters,
    comparisons: Verdicts,
    design: Design,
    *,
    covariate: int | Int[Array, ""] = 0,
    variant: Variant | None = None,
) -> Float[Array, ""]:
    """Fisher information about one coefficient c when the other parameters are unknown, at given
    parameters: minus the second derivative of the profile log-likelihood where these are its
    maximum, nats per squared unit of c. 1.96 / sqrt(it) is the half-width of a 95 % Wald interval.

    Depends on the comparisons through how often each pair was shown, which may be a fraction.

    Args:
      parameters: where, fitted or true.
      comparisons, design: one pool, float64.
      covariate: which one, 0..D-1.
      variant: free coefficients, default all.
    """
    _check_precision(design)
    _check_covariate(design, covariate)
    design = design.centred()
    others = _others(design, covariate, variant)
    information = model.score_and_information(parameters, design, comparisons)[1]
    return _efficient(information, comparisons, design, others, covariate)


def _existence(
    fit_status: Int[Array, ""],
    curvature: Float[Array, ""],
    comparisons: Verdicts,
    design: Design,
    others: Bool[Array, " P"],
    covariate: int | Int[Array, ""],
) -> Int[Array, ""]:
    """Whether the profile of c has a single finite top, and if not, why."""
    index = design.n_contents + covariate

    def least(made: Verdicts) -> tuple[Float[Array, ""], Float[Array, ""]]:
        even = model.information_at_even_odds(made, design.centred())
        return _efficient(even, made, design, others, covariate), FLAT * even[index, index]

    made, threshold = least(comparisons)
    flat = made <= threshold
    if isinstance(comparisons, Rows):  # they do not tell what else could be compared
        mendable = jnp.array(False)
    else:
        items = design.item_mask
        every = (items[:, None] & items & ~jnp.eye(design.n_items, dtype=bool)).astype(design.dtype)
        possible, its_threshold = least(Comparisons(every, every / 2))
        mendable = (possible > its_threshold) & ~_connected(comparisons.shown, items)
    status = jnp.where(curvature <= threshold, Status.SEPARATED, fit_status)
    silent = jnp.where(mendable, Status.DISCONNECTED, Status.FLAT)
    status = jnp.where(flat, silent, status)
    constant = ~_varies(comparisons, design, covariate)
    status = jnp.where(constant, Status.COVARIATE_CONSTANT, status)
    status = jnp.where(comparisons.shown.sum() == 0, Status.NO_VERDICTS, status)
    return jnp.where(fit_status == Status.NOT_FINITE, Status.NOT_FINITE, status)


def _efficient(
    information: Float[Array, "P P"],
    comparisons: Verdicts,
    design: Design,
    others: Bool[Array, " P"],
    covariate: int | Int[Array, ""],
) -> Float[Array, ""]:
    """Information about c left when the other free parameters are unknown (Schur complement)."""
    # The quadratic form leaves out the ridge of the compensation, which would count as information
    # where theta has to move far.
    change = _compensation(information, comparisons, design, others, covariate)
    return change @ information @ change


def _compensation(
    information: Float[Array, "P P"],
    comparisons: Verdicts,
    design: Design,
    others: Bool[Array, " P"],
    covariate: int | Int[Array, ""],
) -> Float[Array, " P"]:
    """How the maximising parameters change as c goes up by 1, to first order."""
    index, m = design.n_contents + covariate, design.n_contents
    scale = information_scale(comparisons, design.centred(), others)
    contents = design.content_mask()
    gauge = scale[:m].max() / contents.sum() * (contents[:, None] & contents)
    rest = (information + RIDGE * jnp.diag(scale)).at[:m, :m].add(gauge)
    rest = jnp.where(others[:, None] & others, rest, jnp.eye(len(others), dtype=rest.dtype))
    border = jnp.where(others, information[:, index], 0)
    return (-jnp.linalg.solve(rest, border)).at[index].set(1)


def _varies(
    comparisons: Verdicts, design: Design, covariate: int | Int[Array, ""]
) -> Bool[Array, ""]:
    """Whether a covariate takes more than one value; in rows, whether it ever differs."""
    if isinstance(comparisons, Rows):
        return (comparisons.difference[:, covariate] != 0).any()
    return design.spread()[covariate] > 0


def _connected(shown: Float[Array, "N N"], items: Bool[Array, " N"]) -> Bool[Array, ""]:
    """Whether chains of comparisons link all items."""
    linked = (shown + shown.T > 0) | jnp.eye(len(items), dtype=bool)
    reach = linked.astype(shown.dtype)
    for _ in range(max(1, math.ceil(math.log2(len(items))))):
        reach = (reach @ reach > 0).astype(shown.dtype)
    return ((reach > 0) | ~(items[:, None] & items)).all()


def _at(
    comparisons: Verdicts,
    design: Design,
    others: Bool[Array, " P"],
    covariate: int | Int[Array, ""],
    value: Float[Array, ""],
    start: Parameters,
) -> Fit:
    """Supremum of the likelihood with c fixed at `value`."""
    m = design.n_contents
    variant = Variant(others[m:-1], others[-1])
    start = Parameters(start.theta, start.c.at[covariate].set(value), start.kappa)
    return fit_supremum(comparisons, design, variant, start=start)


def _over(f: Callable[..., Any], values: Float[Array, " V"], comparisons: Verdicts) -> Any:
    """A function of one value of c, at several. Rows are long enough to fill a processor, and many
    enough to fill its memory, one value at a time."""
    return jax.lax.map(f, values) if isinstance(comparisons, Rows) else jax.vmap(f)(values)


def _others(
    design: Design, covariate: int | Int[Array, ""], variant: Variant | None
) -> Bool[Array, " P"]:
    """Which parameters are free beside the profiled coefficient."""
    variant = model.variant("bias_aware", design) if variant is None else variant
    return model.free_mask(variant, design).at[design.n_contents + covariate].set(False)


def _check_precision(design: Design) -> None:
    if design.dtype != jnp.float64:
        raise ValueError(
            f"the profile likelihood needs float64, got {design.dtype}: see jbt.runtime.precision"
        )


def _check_covariate(design: Design, covariate: int | Int[Array, ""]) -> None:
    last = design.n_covariates - 1
    if not isinstance(covariate, Tracer) and not 0 <= int(covariate) <= last:
        raise ValueError(f"covariate must lie in 0..{last}, got {int(covariate)}")
