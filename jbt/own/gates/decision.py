"""One decision of a gate, for a pool or for a judge."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from jbt.border import files

ENABLE, KEEP_OFF = "enable", "keep off"


@dataclass(frozen=True)
class Held:
    """How well the rankings agree with the labels that were held out."""

    n_labels: int
    naive: float
    """Share of these labels that the naive ranking has right, see `Outcomes.agreement`."""
    bias_aware: float
    gated: float
    """The same for the ranking that the decision chose."""
    n_discordant: int
    n_right: int
    """Discordant labels that favour the bias-aware ranking."""


@dataclass(frozen=True)
class Decision:
    """The decision for one pool as one judge saw it, or for all pools of a judge. Numbers are NaN
    where undefined.

    On `n_discordant` labels the rankings differ (for members: matched pairs of labels); `n_used` of
    these decide: in a pool all, over several pools at most one of each."""

    pool: str | None
    """None for all pools."""
    judge: str | None
    """None where the table names no judge."""
    decision: str | None
    """`ENABLE` or `KEEP_OFF`; None where there is nothing to decide from."""
    n_labels: int
    n_discordant: int
    n_right: int
    """Discordant labels that favour the bias-aware ranking."""
    n_used: int
    n_used_right: int
    p_value: float
    """p-value of the sign test on the labels used, whatever the rule; for `sign_sequential` the
    inverse of the largest wealth. NaN for `census`."""
    reason: str
    held_out: Held | None = None
    """Only over all pools of a judge, with labels held out."""

    def record(self) -> dict[str, Any]:
        """The fields for JSON; null where undefined."""
        fields = dataclasses.asdict(self)
        if self.held_out is not None:
            fields["held_out"] = {k: files.defined(v) for k, v in fields["held_out"].items()}
        return {**fields, "p_value": files.defined(self.p_value)}
