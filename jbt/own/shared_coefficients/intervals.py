"""Estimates of parameters that pools share, with intervals or the reason why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import Any

import numpy as np

from jbt.border import files
from jbt.border.report import with_interval
from jbt.own.shared_coefficients.marginal_fit import Maximum, PoolStack
from jbt.stats.cluster_jackknife import jackknife
from jbt.types import Status

LEVEL = 0.95
"""Coverage of every interval."""

Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

LARGEST_SHARE = 0.1
"""Largest share of a coefficient's precision that the priors hold where it is called measured. With
a larger share they bias the estimate by as much, and no interval is printed."""

LEAST_SQUARE = 0.5
"""The variance of a discrimination s grows with s^2. A fixed limit on the variance would select the
estimates that came out small, whose intervals cover .86; so the share allowed is `LARGEST_SHARE`
times s^2 + this."""

TRACE = 1e-6
"""Share of the priors kept where "without prior" must stay invertible."""

FEWEST = 2.0
"""Fewest degrees of freedom with which an interval is printed. With fewer, one or two pools hold
most of the information, and Student's t covers .98 with intervals seven times as wide."""


class Basis(StrEnum):
    """What an estimate rests on."""

    MEASURED = "measured"
    """The verdicts decide, and there is an interval."""
    FEW_POOLS = "few_pools"
    """The verdicts decide, but one or two of several pools hold nearly all information: no
    interval, as whether other pools agree is unknown."""
    MERGED = "merged"
    """The verdicts decide, but pools are merged into one: no interval, as verdicts of one pool may
    depend on each other, which only `leaderboard` allows for."""
    WEAK = "weak"
    """The verdicts identify it, but the priors hold more than `LARGEST_SHARE` of the precision."""
    PRIOR = "prior"
    """The verdicts do not identify it: the prior chose."""
    NOT_CONVERGED = "not_converged"
    """The fit stopped before a maximum."""
    UNDEFINED = "undefined"
    """There is no verdict."""
    FIXED = "fixed"
    """It is not estimated."""


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

    def row(self, status: Status, end: str = "") -> dict[str, Any]:
        """Its row of a table of estimates (`pools.COLUMNS`).

        Args:
          status: of the fit.
          end: of the name of its quantity.
        """
        return {
            "judge": self.judge,
            "quantity": ("kappa" if self.covariate is None else "c") + end,
            "name": self.covariate,
            "estimate": self.estimate,
            "low": self.low,
            "high": self.high,
            "prior_selected": self.prior_selected,
            "status": status.name.lower(),
        }

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        of_c = {"covariate": self.covariate, "unit": self.unit}
        return {
            **(of_c if self.covariate is not None else {}),
            **self.numbers(),
            "prior_selected": self.prior_selected,
            "basis": str(self.status),
            "p_alike": files.defined(self.p_alike),
        }


def known(
    top: Maximum,
    parts: Sequence[PoolStack],
    owner: int,
    combinations: np.ndarray,
    identified: np.ndarray,
    *,
    merged: bool = False,
) -> list[Coefficient]:
    """Combinations of one owner's parameters, with their intervals where they are measured.

    Pools are the unit: the interval allows for coefficients that differ from pool to pool, and for
    verdicts of a pool that depend on each other (`jackknife`). It is about the value common to all
    pools; where values differ, the estimate is an average drawn towards 0
    (`Coefficient.p_alike`). With a single pool it comes from the information in the verdicts.

    Args:
      combinations: [C, K].
      identified: [C] whether the verdicts identify each combination.
      merged: whether the only pool is several pools of the file (`Tables.merged`).
    """
    values = combinations @ top.at[owner]
    information = top.information[owner]
    scores = np.concatenate([s[p.owner == owner] for p, s in zip(parts, top.scores, strict=True)])
    if top.status[owner] != Status.CONVERGED:
        return [Coefficient(estimate=v, status=Basis.NOT_CONVERGED) for v in values.tolist()]
    # A trace of the prior keeps what is not identified finite.
    from_verdicts = information - (1 - TRACE) * np.diag(top.weight)
    variance, variance_without_prior = (
        np.einsum("ck,kc->c", combinations, np.linalg.solve(matrix, combinations.T))
        for matrix in (information, from_verdicts)
    )
    share = np.where(variance_without_prior > 0, 1 - variance / variance_without_prior, 1)
    of_discriminations = combinations[:, top.discriminations]
    squares = (of_discriminations @ top.at[owner, top.discriminations]) ** 2
    allowed = LARGEST_SHARE * np.where(of_discriminations.any(1), squares + LEAST_SQUARE, 1)
    if len(scores) > 1:
        informations = np.concatenate(
            [i[p.owner == owner] for p, i in zip(parts, top.informations, strict=True)]
        )
        estimates = jackknife(information, scores, informations, combinations)
        halves, dofs, p_values = estimates.half_width(LEVEL), estimates.dof, estimates.p_alike()
    else:
        halves, dofs = Z * np.sqrt(variance), np.full(len(combinations), np.inf)
        p_values = np.full(len(combinations), np.nan)
    found = []
    rows = zip(values, halves, dofs, p_values, identified, share > allowed, strict=True)
    for value, half, dof, p_alike, is_identified, weak in rows:
        if not is_identified:
            basis = Basis.PRIOR
        elif weak:
            basis = Basis.WEAK
        elif dof < FEWEST:
            basis = Basis.FEW_POOLS
        elif merged:
            basis = Basis.MERGED
        else:
            basis = Basis.MEASURED
        low, high = (value - half, value + half) if basis == Basis.MEASURED else (np.nan, np.nan)
        found.append(
            Coefficient(
                estimate=float(value),
                low=float(low),
                high=float(high),
                status=basis,
                p_alike=float(p_alike),
            )
        )
    return found
