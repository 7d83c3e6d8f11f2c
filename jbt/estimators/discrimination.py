"""The discrimination of each judge of a panel, estimated jointly with all parameters."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jbt.kernel import model, panel
from jbt.kernel.fit import fit_map
from jbt.types import (
    Design,
    Fit,
    Panel,
    Parameters,
    Prior,
    ScalarLike,
    Status,
    Variant,
    check_positive,
    container,
)

MAX_STEPS = 60
"""Step limit of Newton's method on the discriminations; each step refits all parameters."""


@container
class DiscriminationFit:
    """The joint optimum of discriminations and parameters."""

    fit: Fit
    """Fit of the parameters given the discriminations. Its status is NOT_CONVERGED where the
    discriminations did not converge; its objective includes their prior."""
    discrimination: Float[Array, " J"]
    """s_g."""
    information: Float[Array, "J J"]
    """Information about log s with all parameters maximised over: minus the second derivative of
    the objective; the identity for known ones. Its inverse is the covariance of log s."""


def fit_discrimination(
    comparisons: Panel,
    design: Design,
    prior: Prior,
    variant: Variant,
    *,
    free: Bool[Array, " J"],
    spread: ScalarLike = 0.5,
) -> DiscriminationFit:
    """The maximum a posteriori of a panel's parameters and discriminations, with log s_g ~
    N(0, spread^2) beside the prior of `fit_map`.

    The verdicts identify only ratios of discriminations, as their common factor is the scale of
    the qualities. So hold one judge's fixed, best that of the judge whose scale the qualities are
    to have. At fixed discriminations the problem is convex; over them Newton's method descends from
    those given in `comparisons` to the nearest optimum.

    Args:
      comparisons: a panel; the search begins at its discriminations, which stay where `free` is
        false.
      design, prior, variant: as in `fit_map`.
      free: [J] which discriminations to estimate.
      spread: standard deviation of the log of each; 0.5 expects most within a factor of 2.7.

    Raises:
      ValueError: spread not above 0, not one entry of `free` for each judge.
    """
    check_positive("spread", spread)
    judges = comparisons.discrimination.shape[0]
    if free.shape != (judges,):
        raise ValueError(f"free must be [{judges}], one for each judge, got {free.shape}")
    design = design.centred()
    penalty = 1 / jnp.asarray(spread, design.dtype) ** 2
    small = 1e-4 if design.dtype == jnp.float32 else 1e-10

    def at(log_s: Float[Array, " J"], start: Parameters | None) -> tuple[Fit, Float[Array, ""]]:
        scaled = dataclasses.replace(comparisons, discrimination=jnp.exp(log_s))
        fit = fit_map(scaled, design, prior, variant, start=start)
        return fit, fit.objective + penalty * jnp.where(free, log_s**2, 0).sum() / 2

    def derivatives(
        log_s: Float[Array, " J"], parameters: Parameters
    ) -> tuple[Float[Array, " J"], Float[Array, "J J"]]:
        scaled = dataclasses.replace(comparisons, discrimination=jnp.exp(log_s))
        slope, curvature = _profile(parameters, scaled, design, prior, variant)
        slope = jnp.where(free, slope + penalty * log_s, 0)
        curvature = curvature + penalty * jnp.eye(judges)
        both_free = free[:, None] & free
        return slope, jnp.where(both_free, curvature, jnp.eye(judges, dtype=curvature.dtype))

    def step(s: _State) -> _State:
        slope, curvature = derivatives(s.log_s, s.parameters)
        # Absolute eigenvalues descend even where the objective is not convex.
        values, vectors = jnp.linalg.eigh(curvature)
        values = jnp.maximum(jnp.abs(values), 1e-3 * penalty)
        change = -vectors @ ((vectors.T @ slope) / values)
        largest = jnp.abs(change).max()
        change = change * s.length / jnp.maximum(1, largest)
        fit, objective = at(s.log_s + change, s.parameters)
        rounding = 10 * jnp.finfo(objective.dtype).eps * jnp.abs(s.objective)
        better = objective <= s.objective + rounding

        def chosen(new: Array, old: Array) -> Array:
            return jnp.where(better, new, old)

        return _State(
            chosen(s.log_s + change, s.log_s),
            jax.tree.map(chosen, fit.parameters, s.parameters),
            chosen(objective, s.objective),
            jnp.where(better, 1.0, s.length / 4),
            better & (largest <= small),
            s.steps + 1,
        )

    def going(s: _State) -> Bool[Array, ""]:
        return ~s.done & (s.steps < MAX_STEPS) & jnp.isfinite(s.objective)

    log_s = jnp.log(comparisons.discrimination)
    fit, objective = at(log_s, None)
    first = _State(
        log_s,
        fit.parameters,
        objective,
        jnp.ones((), design.dtype),
        jnp.array(False),
        jnp.array(0),
    )
    end = jax.lax.while_loop(going, step, first)
    fit, objective = at(end.log_s, end.parameters)
    unsettled = ~end.done & (fit.status == Status.CONVERGED)
    status = jnp.where(unsettled, Status.NOT_CONVERGED, fit.status)
    fit = dataclasses.replace(fit, status=status, objective=objective)
    return DiscriminationFit(fit, jnp.exp(end.log_s), derivatives(end.log_s, fit.parameters)[1])


class _State(NamedTuple):
    log_s: Float[Array, " J"]
    parameters: Parameters
    objective: Float[Array, ""]
    length: Float[Array, ""]
    done: Bool[Array, ""]
    steps: Int[Array, ""]


def _profile(
    parameters: Parameters, comparisons: Panel, design: Design, prior: Prior, variant: Variant
) -> tuple[Float[Array, " J"], Float[Array, "J J"]]:
    """Slope and curvature in log s of the objective minimised over the parameters, at its minimum.

    With z the logits, dz / dlog s_g = s_g theta for judge g and d2z / (dlog s_g)2 the same again.
    The implicit function theorem gives the change of the parameters with log s, and so the Schur
    complement.
    """
    m, s, sharing = design.n_contents, comparisons.discrimination, comparisons.sharing
    judges = panel.each_judge(parameters, comparisons), panel.for_judges(design)
    score, information = model.score_and_information(*judges, comparisons.verdicts)
    scaled = s * parameters.theta[:, None]  # [M, J]
    slope = -(scaled * score[:m]).sum(0)
    fixed = (scaled[:, None] * information[:m, :m] * scaled).sum((0, 1)) + slope

    # Minus the derivative of the parameters' score in each log s.
    by_judge = (information[:, :m] * scaled).sum(1)  # [own P, J]
    theta = s * (by_judge[:m] - score[:m])
    biases = by_judge[m:, :, None] * sharing  # [D + 1, J, sets]
    cross = jnp.concatenate([theta, jnp.moveaxis(biases, 1, 2).reshape(-1, len(s))])

    free = model.free_mask(variant, design)
    precision = model.prior_precision(design, prior, len(s))
    joint = panel.joint_information(information, comparisons, m) + jnp.diag(precision)
    joint = jnp.where(free[:, None] & free, joint, jnp.eye(len(free), dtype=joint.dtype))
    cross = jnp.where(free[:, None], cross, 0)
    return slope, jnp.diag(fixed) - cross.T @ jnp.linalg.solve(joint, cross)
