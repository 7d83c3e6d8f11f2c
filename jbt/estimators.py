"""From comparisons to quality: what a practitioner would run.

An estimator is a function (comparisons, design, prior) -> Fit.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jbt import identifiability, model
from jbt.fit import fit_map
from jbt.identifiability import BiasEstimate
from jbt.types import Design, Fit, Parameters, Prior, Status, Verdicts, n_judges


def naive(comparisons: Verdicts, design: Design, prior: Prior) -> Fit:
    """Bradley-Terry without biases, c = kappa = 0: what counting wins amounts to. Its
    quality, `fit.parameters.theta` [M] in logits, estimates theta + x . c* (Prop. 1)."""
    return fit_map(
        comparisons, design, prior, model.variant("naive", design, n_judges(comparisons))
    )


def bias_aware(comparisons: Verdicts, design: Design, prior: Prior) -> Fit:
    """Eq. 1 with c and kappa free. In an unpaired design the prior, not the comparisons,
    splits apparent quality into `fit.parameters.theta` and `x . c` (Prop. 2, Eq. 3)."""
    return fit_map(
        comparisons, design, prior, model.variant("bias_aware", design, n_judges(comparisons))
    )


ESTIMATORS = {"naive": naive, "bias_aware": bias_aware}
"""Those that are one MAP, in either precision, of one judge or of a panel. `measured` needs float64
and one judge."""


def with_bias(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    c: Float[Array, " D"] | Float[Array, ""] | float,
) -> Fit:
    """Quality and position by MAP, the bias coefficients being known from elsewhere: from
    `identifiability.estimate_bias`, say, or from another pool of the same judge.

    Args:
      c: [D] logits per unit of each covariate, or a number if there is one.

    Raises:
      ValueError: not one for each covariate.
    """
    c = jnp.atleast_1d(jnp.asarray(c, design.dtype))
    if c.shape != (design.n_covariates,):
        raise ValueError(f"c must be one for each of {design.n_covariates} covariates, got {c}")
    known = dataclasses.replace(Parameters.zeros(design), c=c)
    return fit_map(comparisons, design, prior, model.variant("position", design), start=known)


def measured(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    estimates: BiasEstimate | None = None,
) -> Fit:
    """c measured first, then quality: each coefficient of c by maximum likelihood
    (`identifiability.estimate_bias`), quality and position by MAP given these (`with_bias`). Where
    the comparisons give no estimate of a coefficient, it is the bias-aware MAP's.

    A prior on c shrinks it, and so leaves a part of the bias in the qualities; where the
    comparisons tell c, this does not.

    Args:
      comparisons, design: one pool, float64.
      prior: of quality and position; of c where it has no estimate.
      estimates: of every covariate, leaves with a leading axis D, if they are known already.

    Raises:
      ValueError: float32; not one estimate for each covariate.
    """
    d = design.n_covariates
    if estimates is None:

        def estimate(covariate: Int[Array, ""]) -> BiasEstimate:
            return identifiability.estimate_bias(comparisons, design, covariate=covariate)

        estimates = jax.vmap(estimate)(jnp.arange(d))
    if estimates.c.shape != (d,):
        raise ValueError(f"one estimate for each of {d} covariates, got {estimates.c.shape}")
    mode = bias_aware(comparisons, design, prior).parameters
    exists = estimates.status == Status.CONVERGED
    return with_bias(comparisons, design, prior, jnp.where(exists, estimates.c, mode.c))
