"""Plans made before any verdict or label is bought: what a design would identify, how precisely.

`pairing_plan` and `reference_plan` compute how precisely a bias coefficient would be known,
`gate_plan` how many trusted labels the decision to correct for it takes, `prompts_plan` how many
more prompts until one model is significantly above another.
"""

from jbt.planning.gate_plan import GatePlan, gate_labels, over_pools
from jbt.planning.pairing_plan import (
    TWICE,
    PairingPlan,
    Z,
    expected_half_width,
    pairing,
    pairing_with_interaction,
)
from jbt.planning.prompts_plan import more_prompts, power
from jbt.planning.reference_plan import (
    ReferencePlan,
    expected_half_width_beside,
    realised_over_expected,
    reference_verdicts,
)

__all__ = [
    "TWICE",
    "GatePlan",
    "PairingPlan",
    "ReferencePlan",
    "Z",
    "expected_half_width",
    "expected_half_width_beside",
    "gate_labels",
    "more_prompts",
    "over_pools",
    "pairing",
    "pairing_with_interaction",
    "power",
    "realised_over_expected",
    "reference_verdicts",
]
