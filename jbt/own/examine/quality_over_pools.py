"""How c changes with quality over pools that each have qualities of their own, where several
renderings of a content identify it."""

from __future__ import annotations

import numpy as np

from jbt import runtime
from jbt.own.fits.batch import Batch
from jbt.own.fits.one_judge import identified_coefficients
from jbt.own.leaderboards.board import BiasByQuality, BoardCoefficient
from jbt.own.shared_coefficients import bias_slope
from jbt.own.shared_coefficients.intervals import Basis, Known
from jbt.types import Prior

STATUSES = {
    Basis.MEASURED: "converged",
    Basis.WEAK: "prior_selected",
    Basis.FEW_POOLS: "few_pools",
    Basis.AMBIGUOUS: "ambiguous",
    Basis.NOT_CONVERGED: "not_converged",
}
"""Why there is no interval, in the words of `board.REASONS`."""


def by_quality(batch: Batch, prior: Prior) -> tuple[BiasByQuality, ...]:
    """An entry for each judge and covariate whose c the verdicts identify over all pools, pools of
    the file not merged."""
    if batch.tables.merged:
        return ()
    n_judges, d = len(batch.tables.judges), len(batch.covariates)
    identified = identified_coefficients(batch)[:, :d]
    judges = np.flatnonzero(identified.any(1))
    if not len(judges):
        return ()
    owners = np.full(n_judges, -1)
    owners[judges] = np.arange(len(judges))
    judged = np.array([pool.n_verdicts > 0 for pool in batch.pools])
    with runtime.precision("float64"):
        parts = []
        for group in batch.groups:
            owner = owners[group.index % n_judges]
            kept = np.flatnonzero((owner >= 0) & judged[group.index])
            if len(kept):
                stack = bias_slope.stack(
                    group.items,
                    group.between_items,
                    identified[group.index % n_judges],
                    np.asarray(group.variant.kappa),
                    owner,
                )
                parts.append(bias_slope.only(stack, kept))
        fit = bias_slope.fit(parts, prior, len(judges))
    entries = []
    for owner, judge in enumerate(judges.tolist()):
        for i in np.flatnonzero(identified[judge]).tolist():
            whose = batch.tables.judges[judge], batch.covariates[i], batch.units
            coefficients = {
                name: _coefficient(value, known, *whose)
                for name, value, known in fit.known(owner, i)
            }
            entries.append(BiasByQuality(**coefficients, kind="contents"))
    return tuple(entries)


def _coefficient(
    value: float, known: Known, judge: str | None, covariate: str, units: str
) -> BoardCoefficient:
    return BoardCoefficient(
        judge=judge,
        covariate=covariate,
        unit=f"{units} {covariate}",
        estimate=value if known.basis != Basis.NOT_CONVERGED else np.nan,
        low=value - known.half_width,
        high=value + known.half_width,
        status=STATUSES[known.basis],
        profile_range=np.nan,
        degrees=known.dof,
    )
