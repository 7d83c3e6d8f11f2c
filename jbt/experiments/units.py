"""Units of the quantities that mean the same in every sweep, for the attributes of results."""

from __future__ import annotations

from collections.abc import Mapping

UNITS = {
    "recall": "1 (share of the top k)",
    "rho": "1 (population correlation)",
    "c": "logits per unit of the covariate",
    "bias": "logits per unit of the covariate",
    "position": "logits in favour of the first shown",
    "kappa": "logits in favour of the first shown",
    "discrimination": "1 (factor on quality)",
    "sd": "logits",
    "theta": "logits",
    "budget": "verdicts",
    "k": "count",
    "items": "count",
    "pool": "id",
    "status": "jbt.types.Status",
}
"""Unit of a coordinate or metric, or of one with this as the last word of its name that is here."""


def unit_of(name: str, own: Mapping[str, str]) -> str | None:
    """Unit of a name; None where there is none.

    Args:
      own: units of a sweep, by name, which come before those of all.
    """
    words = reversed(name.split("_"))
    return own.get(name) or next((UNITS[word] for word in words if word in UNITS), None)
