"""One coefficient and what it rests on, as fits and leaderboards return it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jbt.border import files
from jbt.border.report import with_interval
from jbt.own.shared_coefficients.intervals import Basis


@dataclass(frozen=True, eq=False, kw_only=True)
class Coefficient:
    """An estimate (MAP) with its 95 % interval, logits. NaN where undefined; intervals are given
    only where their coverage was simulated."""

    judge: str | None = None
    """None where the table names no judge, or the coefficient belongs to none."""
    covariate: str | None = None
    """With its transformation; None for kappa and other coefficients without a covariate."""
    unit: str | None = None
    """The unit of the covariate: c is in logits per this."""
    estimate: float
    low: float = np.nan
    high: float = np.nan
    status: str
    """What the estimate rests on, and so why there is no interval: in a fit one of `Basis`, on a
    leaderboard one of `board.REASONS` or `converged`."""
    identified_by: tuple[str, ...] = ()
    """In a joint fit, whose verdicts identify it, see `Judges.identified_by`; empty where the prior
    chose."""
    p_alike: float = np.nan
    """p-value of the hypothesis that it is the same in all pools; NaN where that is not tested."""

    @property
    def name(self) -> str:
        """`c[COVARIATE]` or `kappa`."""
        return "kappa" if self.covariate is None else f"c[{self.covariate}]"

    @property
    def prior_selected(self) -> bool:
        """Whether the prior chose it (PRIOR) or holds much of its precision (WEAK)."""
        return self.status in (Basis.PRIOR, Basis.WEAK)

    def numbers(self) -> dict[str, Any]:
        """Estimate and interval for JSON: null where undefined."""
        return {name: files.defined(getattr(self, name)) for name in ("estimate", "low", "high")}

    def in_words(self) -> str:
        """The estimate, with its interval if there is one."""
        return with_interval(self.estimate, self.low, self.high)
