"""From comparisons to quality: the methods a practitioner would run, and those beside them."""

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
