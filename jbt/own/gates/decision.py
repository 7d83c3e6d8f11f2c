"""One decision of a gate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from jbt.border import files

ENABLE, KEEP_OFF = "enable", "keep off"


@dataclass(frozen=True)
class Held:
    """What the correction does on the labels that were held out."""

    n_labels: int
    naive: float
    """Share of these labels that the naive ranking has right, see `Outcomes.agreement`."""
    bias_aware: float
    gated: float
    """The same of the ranking decided for."""
    n_discordant: int
    n_right: int
    """Of these, in favour of the bias-aware ranking."""


@dataclass(frozen=True)
class Decision:
    """Of one pool as one judge saw it, or of all pools of a judge. Numbers are NaN where undefined.

    `n_discordant` labels differ between the rankings (of members: matched pairs of labels), of
    which `n_used` decide: in a pool all of them, over several pools one of each at most."""

    pool: str | None
    """None for all pools."""
    judge: str | None
    """None where the table names no judge."""
    decision: str | None
    """`ENABLE` or `KEEP_OFF`; None where there is nothing to decide from."""
    n_labels: int
    n_discordant: int
    n_right: int
    """Of the discordant, in favour of the bias-aware ranking."""
    n_used: int
    n_used_right: int
    p_value: float
    """Of the sign test on those used, whatever the rule; for `sign_sequential` the inverse of the
    largest wealth. NaN for `census`."""
    reason: str
    held_out: Held | None = None
    """Of a judge, with labels held out."""

    def record(self) -> dict[str, Any]:
        """As JSON has it: null for what is undefined."""
        of = dataclasses.asdict(self)
        if self.held_out is not None:
            of["held_out"] = {k: files.defined(v) for k, v in of["held_out"].items()}
        return {**of, "p_value": files.defined(self.p_value)}
