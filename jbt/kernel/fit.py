"""Maximum a posteriori and maximum likelihood estimates of one pool's parameters."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jbt.kernel import model, newton
from jbt.kernel.batching import batch_last
from jbt.kernel.newton import MAX_STEPS
from jbt.types import (
    Design,
    Fit,
    Panel,
    Parameters,
    Prior,
    Rows,
    Variant,
    Verdicts,
    n_judges,
)

FLAT = 1e-10
"""Fraction of the information at even odds below which a direction of the MLE counts as flat or
separated. A pair decided 10^6 to 1 keeps 4e-6."""


def fit_map(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    variant: Variant,
    *,
    start: Parameters | None = None,
    solver: str = "newton",
    max_steps: int | None = None,
    tolerance: float | None = None,
) -> Fit:
    """Maximum a posteriori estimate [Eq. S1].

    Args:
      comparisons: counts [N, N], or rows; of one judge, or of a panel.
      design: the items' contents and covariates; its dtype decides the precision.
      prior: precisions of quality and of bias.
      variant: free coefficients, see `model.variant`.
      start: where to begin (warm start), default the win rates (`from_win_rates`); coefficients
        that the variant fixes stay there.
      solver: "newton", or "lbfgs" (the paper's, through jaxopt).
      max_steps: step limit, default 64 (newton) or 500 (lbfgs). It and the tolerance are numbers
        that the program is compiled for.
      tolerance: newton: error left, in posterior standard deviations, default 1e-4 in float32 and
        1e-12 in float64. In float32 rounding may leave up to a tenth of its root where the
        verdicts carry some 10^6 times the prior's information; beyond 10^9 hardly a fit in float32
        converges, and one that does may be further off.
        lbfgs: gradient norm, default 1e-2 in float32 and 1e-9 in float64.

    Returns:
      A `Fit`; theta of contents that are never shown is 0, the prior's mean. Status
      `CONVERGED`, `NOT_CONVERGED` or `NOT_FINITE`.

    Raises:
      ValueError: unknown solver; comparisons that do not fit the design.
    """
    _check(comparisons, design, variant)
    if jnp.ndim(prior.lam):
        raise ValueError(f"lam must be one number, got shape {jnp.shape(prior.lam)}")
    if solver == "lbfgs":
        start = Parameters.zeros(design, variant.n_judges) if start is None else start
        return _lbfgs(comparisons, design.centred(), prior, variant, start, max_steps, tolerance)
    if solver != "newton":
        raise ValueError(f"unknown solver {solver!r}: one of newton, lbfgs")
    if tolerance is None:
        tolerance = 1e-4 if design.dtype == jnp.float32 else 1e-12
    limit = MAX_STEPS if max_steps is None else max_steps
    solve = batch_last(newton.newton, limit=int(limit), tolerance=float(tolerance))
    precision = model.prior_precision(design, prior, variant.n_judges)
    free = model.free_mask(variant, design)
    beta = None if start is None else start.flat().astype(design.dtype)
    return solve(comparisons, design, precision, free, beta)


def fit_supremum(
    comparisons: Verdicts,
    design: Design,
    variant: Variant,
    *,
    start: Parameters | None = None,
    max_steps: int | None = None,
) -> Fit:
    """Parameters whose likelihood is within rounding of its supremum over the free parameters,
    whether that is attained at one point, along a line, or only in the limit.

    Arguments and result as `fit_map`; coefficients that the variant fixes stay at `start`. Default
    step limit 512. Where an item always wins, its quality stops some 30 logits out, within 1e-12
    of the supremum. Counts are taken to be of order 1 or more.

    Raises:
      ValueError: float32, which cannot distinguish a far optimum from one at infinity.
    """
    if design.dtype != jnp.float64:
        raise ValueError(
            "likelihoods without a prior need float64, got float32: see jbt.runtime.precision"
        )
    _check(comparisons, design, variant)
    limit = 8 * MAX_STEPS if max_steps is None else max_steps
    solve = batch_last(newton.newton, limit=int(limit), tolerance=1e-7)
    free = model.free_mask(variant, design)
    beta = None if start is None else start.flat().astype(design.dtype)
    return solve(comparisons, design, None, free, beta)


def check_judges(variant: Variant, n_judges: int | None) -> None:
    """Raise `ValueError` unless a variant is for J judges of a panel, or one judge (None)."""
    if variant.n_judges != n_judges:
        names = [
            "one judge" if j is None else f"a panel of {j}" for j in (variant.n_judges, n_judges)
        ]
        raise ValueError(f"a variant for {names[0]}, but comparisons of {names[1]}")


def _check(comparisons: Verdicts, design: Design, variant: Variant) -> None:
    judges = n_judges(comparisons)
    check_judges(variant, judges)
    verdicts = comparisons.verdicts if isinstance(comparisons, Panel) else comparisons
    judge_axis = () if judges is None else (judges,)
    shape = verdicts.shown.shape
    if isinstance(verdicts, Rows):
        given, d = verdicts.difference.shape, design.n_covariates
        if given != (shape[0], d, *judge_axis):
            raise ValueError(f"differences must be [{shape[0]}, {d}] for this design, got {given}")
    else:
        n = design.n_items
        if shape != (n, n, *judge_axis) or verdicts.wins.shape != shape:
            raise ValueError(f"shown and wins must be [{n}, {n}] for this design, got {shape}")
    if comparisons.shown.dtype != design.dtype:
        given = f"{comparisons.shown.dtype} comparisons, {design.dtype} design"
        raise ValueError(f"comparisons and design must have one precision, got {given}")


def _lbfgs(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    variant: Variant,
    start: Parameters,
    max_steps: int | None,
    tolerance: float | None,
) -> Fit:
    import jaxopt  # no longer maintained, hence never on the default path

    free = model.free_mask(variant, design)
    tol = (1e-2 if design.dtype == jnp.float32 else 1e-9) if tolerance is None else tolerance
    m = design.n_contents

    def objective(beta: Float[Array, " P"]) -> Float[Array, ""]:
        parameters = Parameters.unflat(jnp.where(free, beta, start.flat()), m, variant.n_judges)
        likelihood = model.log_likelihood(parameters, design, comparisons)
        return -likelihood - model.log_prior(parameters, prior)

    run = jaxopt.LBFGS(objective, maxiter=500 if max_steps is None else max_steps, tol=tol).run(
        start.flat()
    )
    beta = jnp.where(free, jnp.asarray(run.params), start.flat())
    precision = model.prior_precision(design, prior, variant.n_judges)
    finite = jnp.isfinite(beta).all() & (precision > 0).all()
    converged, steps = run.state.error <= tol, run.state.iter_num
    return newton.result(beta, converged, finite, steps, comparisons, design, precision, free)
