"""Estimates of parameters that pools share, with intervals or the reason why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import NormalDist

import numpy as np
import pandas as pd

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


def known(
    top: Maximum,
    parts: Sequence[PoolStack],
    owner: int,
    combinations: np.ndarray,
    identified: np.ndarray,
    *,
    merged: bool = False,
) -> pd.DataFrame:
    """Combinations of one owner's parameters, with their intervals where they are measured.

    Pools are the unit: the interval allows for coefficients that differ from pool to pool, and for
    verdicts of a pool that depend on each other (`jackknife`). It is about the value common to all
    pools; where values differ, the estimate is an average drawn towards 0. With a single pool it
    comes from the information in the verdicts.

    Args:
      combinations: [C, K].
      identified: [C] whether the verdicts identify each combination.
      merged: whether the only pool is several pools of the file (`Tables.merged`).

    Returns:
      A row for each combination: estimate (MAP), low and high (95 % interval; NaN without one),
      basis (what it rests on, a `Basis`), p_alike (p-value of the hypothesis that it is the same in
      all pools; NaN where that is not tested).
    """
    values = combinations @ top.at[owner]
    if top.status[owner] != Status.CONVERGED:
        ends = {"low": np.nan, "high": np.nan}
        without = {"basis": Basis.NOT_CONVERGED, "p_alike": np.nan}
        return pd.DataFrame({"estimate": values, **ends, **without})
    information = top.information[owner]
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
    scores, informations = (
        np.concatenate([v[p.owner == owner] for p, v in zip(parts, of_parts, strict=True)])
        for of_parts in (top.scores, top.informations)
    )
    half, dof, p_alike = Z * np.sqrt(variance), np.inf, np.nan
    if len(scores) > 1:
        estimates = jackknife(information, scores, informations, combinations)
        half, dof, p_alike = estimates.half_width(), estimates.dof, estimates.p_alike()
    reasons = {
        Basis.PRIOR: ~identified,
        Basis.WEAK: share > allowed,
        Basis.FEW_POOLS: np.broadcast_to(dof < FEWEST, values.shape),
    }
    measured = Basis.MERGED if merged else Basis.MEASURED
    basis = np.select(list(reasons.values()), list(reasons), measured).astype(object)
    half = np.where(basis == Basis.MEASURED, half, np.nan)
    return pd.DataFrame(
        {
            "estimate": values,
            "low": values - half,
            "high": values + half,
            "basis": basis,
            "p_alike": p_alike,
        }
    )
