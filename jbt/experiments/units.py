"""Units of the quantities that mean the same in every sweep, for the attributes of results."""

from __future__ import annotations

from collections.abc import Mapping

PER_UNIT = "logits per unit of the covariate"

UNITS = {
    **dict.fromkeys(("judge", "question", "content", "pair", "prompt", "subset"), "name"),
    **dict.fromkeys(("covariate", "link", "truth", "kind"), "kind"),
    **dict.fromkeys(("pool", "seed"), "id"),
    **dict.fromkeys(("k", "items", "contents", "twice", "rank", "columns"), "count"),
    **dict.fromkeys(("budget", "every", "asked", "verdicts"), "verdicts"),
    **dict.fromkeys(("bias", "c"), PER_UNIT),
    **dict.fromkeys(("sd", "theta", "noise"), "logits"),
    **dict.fromkeys(("position", "kappa"), "logits in favour of the first shown"),
    **dict.fromkeys(("lam", "lam_b"), "1/logit^2"),
    **dict.fromkeys(("right", "stopped"), "share of runs"),
    **dict.fromkeys(("status", "mle"), "jbt.types.Status"),
    "recall": "1 (share of the top k)",
    "agreement": "1 (share of labelled pairs; ties are halves)",
    "longer": "1 (share; equal lengths are halves)",
    "used": "labels",
    "certainty": "1 (probability)",
    "completeness": "1 (probability that a verdict was collected)",
    "discrimination": "1 (factor on quality)",
    "rho": "1 (population correlation)",
    "realised_corr": "1 (correlation within the pool)",
    "c_mle": PER_UNIT,
    "agreement_verdicts": "1 (share of labelled pairs; ties are halves)",
    "uncertain": "1 (share of ordered pairs with 0.2 < p < 0.8)",
    "profile_range": "log-likelihood, over the estimate +- 1",
    "c_interval_width": f"{PER_UNIT} (95 %, profile)",
}
"""Unit of a coordinate or metric, or of one with this word in its name."""


def unit_of(name: str, own: Mapping[str, str]) -> str | None:
    """Unit of a name: its own or, by the last of its words that has one, that word's; None where
    there is none.

    Args:
      own: units of a sweep, which come before those of all.
    """
    known = {**UNITS, **own}
    first, *_ = words = name.split("_")
    parts = (name, *(["status"] if first == "status" else words[::-1]))
    return next((known[part] for part in parts if part in known), None)
