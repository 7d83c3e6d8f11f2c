"""Estimators of quality from comparisons: the methods a practitioner would run, and variations."""

from jbt.estimators.baselines import (
    ESTIMATORS,
    bias_aware,
    majority,
    measured,
    naive,
    order_swap,
    residualised,
    with_bias,
)
from jbt.estimators.interaction_fit import fit_interaction, interaction
from jbt.estimators.near_the_top import local

__all__ = [
    "ESTIMATORS",
    "bias_aware",
    "fit_interaction",
    "interaction",
    "local",
    "majority",
    "measured",
    "naive",
    "order_swap",
    "residualised",
    "with_bias",
]
