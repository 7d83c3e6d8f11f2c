"""The trusted-anchor gate: decides from a few trusted labels whether to switch a correction on, and
with which guarantees.

`labels` defines the kinds of labels, `draws` draws them, `rules` and `betting` decide; `trials`
tries every rule on every kind of label.
"""

from jbt.gate.draws import Drawn, Noise, of_members, of_pairs
from jbt.gate.labels import (
    LABELS,
    OF_PAIRS,
    Members,
    Tops,
    Urn,
    exact_top,
    members,
    recall,
    tops,
    urn,
)
from jbt.gate.rules import (
    OF_COUNTS,
    SHARE,
    check_alpha,
    critical_values,
    decide,
    p_value,
    sign,
)
from jbt.gate.trials import Rules, Trial, decided, trial

__all__ = [
    "LABELS",
    "OF_COUNTS",
    "OF_PAIRS",
    "SHARE",
    "Drawn",
    "Members",
    "Noise",
    "Rules",
    "Tops",
    "Trial",
    "Urn",
    "check_alpha",
    "critical_values",
    "decide",
    "decided",
    "exact_top",
    "members",
    "of_members",
    "of_pairs",
    "p_value",
    "recall",
    "sign",
    "tops",
    "trial",
    "urn",
]
