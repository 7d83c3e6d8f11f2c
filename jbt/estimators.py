"""From comparisons to quality: what a practitioner would run, one signature for all."""

from __future__ import annotations

import dataclasses

from jaxtyping import Array, Float

from jbt import model
from jbt.fit import fit_map
from jbt.types import Comparisons, Design, Fit, Parameters, Prior


def naive(comparisons: Comparisons, design: Design, prior: Prior) -> Fit:
    """Bradley-Terry without biases, c = kappa = 0: what counting wins amounts to. Its
    quality, `fit.parameters.theta` [M] in logits, estimates theta + x . c* (Prop. 1)."""
    return fit_map(comparisons, design, prior, model.variant("naive", design))


def bias_aware(comparisons: Comparisons, design: Design, prior: Prior) -> Fit:
    """Eq. 1 with c and kappa free. In an unpaired design the prior, not the comparisons,
    splits apparent quality into `fit.parameters.theta` and `x . c` (Prop. 2, Eq. 3)."""
    return fit_map(comparisons, design, prior, model.variant("bias_aware", design))


ESTIMATORS = {"naive": naive, "bias_aware": bias_aware}


def with_bias(comparisons: Comparisons, design: Design, prior: Prior, c: Float[Array, " D"]) -> Fit:
    """Quality and position by MAP, the bias coefficients being known from elsewhere: from
    `identifiability.estimate_bias`, say, or from another pool of the same judge.

    Args:
      c: [D] logits per unit of each covariate.
    """
    known = dataclasses.replace(Parameters.zeros(design), c=c)
    return fit_map(comparisons, design, prior, model.variant("position", design), start=known)
