"""Before any verdict or label is bought: what a design would tell.

`precision` says how well a bias coefficient would be known, `gate` how many trusted labels the
decision to correct for it takes.
"""

from jbt.planning.gate import GatePlan, gate_labels, over_pools
from jbt.planning.precision import (
    PairingPlan,
    ReferencePlan,
    Z,
    expected_half_width,
    expected_half_width_beside,
    pairing,
    realised_over_expected,
    reference_verdicts,
)

__all__ = [
    "GatePlan",
    "PairingPlan",
    "ReferencePlan",
    "Z",
    "expected_half_width",
    "expected_half_width_beside",
    "gate_labels",
    "over_pools",
    "pairing",
    "realised_over_expected",
    "reference_verdicts",
]
