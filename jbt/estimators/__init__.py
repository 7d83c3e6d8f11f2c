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

__all__ = [
    "ESTIMATORS",
    "bias_aware",
    "majority",
    "measured",
    "naive",
    "order_swap",
    "residualised",
    "with_bias",
]
