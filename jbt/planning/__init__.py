"""Plans made before any verdict or label is bought: what a design would identify, how precisely.

`PairingPlan` and `ReferencePlan` compute how precisely a bias coefficient would be known,
`GatePlan` how many trusted labels the decision to correct for it takes, `more_prompts` how many
more prompts until one model is significantly above another.
"""

from jbt.planning.gate_plan import GatePlan, over_pools
from jbt.planning.pairing_plan import PairingPlan, Z, expected_half_width
from jbt.planning.prompts_plan import more_prompts, power
from jbt.planning.reference_plan import (
    ReferencePlan,
    expected_half_width_beside,
    realised_over_expected,
)

__all__ = [
    "GatePlan",
    "PairingPlan",
    "ReferencePlan",
    "Z",
    "expected_half_width",
    "expected_half_width_beside",
    "more_prompts",
    "over_pools",
    "power",
    "realised_over_expected",
]
