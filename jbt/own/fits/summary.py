"""Results for each judge over all pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jbt.border import files
from jbt.own.fits.batch import Batch
from jbt.own.fits.frames import Fits
from jbt.own.fits.one_judge import JudgeFit, fit_judges, profiles
from jbt.own.fits.pools import PoolFit, fit
from jbt.own.shared_coefficients.coefficient import Coefficient
from jbt.types import Prior, Status


@dataclass(frozen=True, eq=False, kw_only=True)
class CoefficientOverPools(Coefficient):
    """A judge's c of one covariate, or its kappa: one for all pools, each with its own qualities
    (see `JudgeFit`), beside the estimates of the pools' own fits."""

    values: np.ndarray
    """The pools' own estimates, where it is estimated and the covariate varies."""
    n_prior_selected: int
    """Number of those values that the prior chose."""
    grid: np.ndarray
    """Values of c within 1 of the estimate; empty for kappa."""
    log_likelihood: np.ndarray
    """Profile log-likelihood on the grid, nats, summed over pools, largest 0: see `profiles`."""
    without_ties: float
    """The estimate with ties dropped; NaN where there are none or that fit did not converge."""

    @property
    def n_pools(self) -> int:
        """Number of pools with an estimate of their own."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Mean of the pools' own estimates."""
        return float(self.values.mean()) if self.n_pools else np.nan

    @property
    def sd(self) -> float:
        """Standard deviation of the pools' own estimates."""
        return float(self.values.std(ddof=1)) if self.n_pools > 1 else np.nan

    @property
    def profile_range(self) -> float:
        """Range of the profile log-likelihood within 1 of the estimate, nats."""
        return float(np.ptp(self.log_likelihood)) if len(self.grid) else np.nan

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        of_c = {"covariate": self.covariate, "unit": self.unit}
        evidence = {"profile_range": files.defined(self.profile_range)}
        return {
            **(of_c if self.covariate is not None else {}),
            **self.numbers(),
            "prior_selected": self.prior_selected,
            "basis": str(self.status),
            "p_alike": files.defined(self.p_alike),
            "mean_over_pools": files.defined(self.mean),
            "sd_over_pools": files.defined(self.sd),
            "n_pools": self.n_pools,
            **(evidence if self.covariate is not None else {}),
            "without_ties": files.defined(self.without_ties),
        }


@dataclass(frozen=True, eq=False)
class TopK:
    """Number of pools whose top k differs from another fit's."""

    n_pools: int
    """Pools compared."""
    differs_from_naive: int
    differs_without_ties: int | None
    """From the fit with ties dropped; None where there are none."""


@dataclass(frozen=True, eq=False)
class JudgeSummary:
    """Results for one judge over all pools."""

    judge: str | None
    """None where the table names no judge."""
    fits: list[PoolFit]
    """One a pool."""
    joint: JudgeFit
    c: list[CoefficientOverPools]
    """One a covariate."""
    kappa: CoefficientOverPools | None
    """None where it is fixed at 0 in every pool."""
    top_k: TopK
    n_verdicts: int
    n_errors: int
    n_ties: int
    n_both_orders: int
    """Pairs of items shown in both orders."""
    flip_rate: float
    """Share of those pairs whose verdicts contradict each other, see `Flips`; NaN without any."""
    n_connected: int
    """Pools with verdicts that connect all contents."""

    @property
    def coefficients(self) -> list[CoefficientOverPools]:
        return self.c + ([] if self.kappa is None else [self.kappa])

    @property
    def n_pools(self) -> int:
        """Number of pools with verdicts."""
        return sum(f.n_verdicts > 0 for f in self.fits)

    def rows(self, covariates: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield a row for each coefficient over all pools, then those of the pools."""
        for coefficient in self.coefficients:
            yield {
                "judge": self.judge,
                "quantity": "kappa" if coefficient.covariate is None else "c",
                "name": coefficient.covariate,
                "estimate": coefficient.estimate,
                "low": coefficient.low,
                "high": coefficient.high,
                "prior_selected": coefficient.prior_selected,
                "status": self.joint.status.name.lower(),
            }
        for pool_fit in self.fits:
            yield from pool_fit.rows(covariates)

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        counts = ("n_pools", "n_verdicts", "n_errors", "n_ties", "n_connected", "n_both_orders")
        return {
            "judge": self.judge,
            "status": self.joint.status.name.lower(),
            "sd": files.defined(self.joint.sd),
            "slope": [files.defined(b) for b in self.joint.slope],
            "c": [c.record() for c in self.c],
            "kappa": None if self.kappa is None else self.kappa.record(),
            **{name: getattr(self, name) for name in counts},
            "flip_rate": files.defined(self.flip_rate),
            "top_k": asdict(self.top_k),
        }


def summarise(
    batch: Batch,
    fits: list[PoolFit],
    *,
    k: int = 1,
    prior: Prior | None = None,
    spread: bool | None = None,
    judges: Sequence[JudgeFit] | None = None,
    untied: Batch | None = None,
) -> Fits[JudgeSummary]:
    """Summarise each judge over all pools.

    Args:
      fits: of this batch, with this k, prior and spread.
      spread: see `fit_judges`.
      judges: from `fit_judges` of this batch, if already computed.
      untied: the batch without the ties (`Tables.without_ties`), if there are any.
    """
    judges = judges or fit_judges(batch, prior=prior, spread=spread)
    grids, evidence = profiles(batch, judges)
    n = len(judges)
    ties = batch.tables.counts["n_ties"].to_numpy().reshape(-1, n).sum(0)
    untied_judges, untied_fits = [None] * n, []
    if untied is not None:
        untied_judges = fit_judges(untied, prior=prior, spread=spread)
        untied_fits = fit(
            untied, k=k, prior=prior, spread=spread, judges=untied_judges, intervals=False
        )
    summaries = (
        _summary(
            batch,
            joint,
            fits[j::n],
            list(zip(grids[j], evidence[j], strict=True)),
            int(ties[j]),
            untied_judges[j] if ties[j] else None,
            _top_k(fits[j::n], untied_fits[j::n] if ties[j] else [], k),
        )
        for j, joint in enumerate(judges)
    )
    return Fits(summaries, batch.covariates)


def _summary(
    batch: Batch,
    joint: JudgeFit,
    fits: list[PoolFit],
    curves: list[tuple[np.ndarray, np.ndarray]],
    n_ties: int,
    untied: JudgeFit | None,
    top_k: TopK,
) -> JudgeSummary:
    usable = [f for f in fits if f.usable]
    if untied is not None and untied.status != Status.CONVERGED:
        untied = None
    c = []
    for d, name in enumerate(batch.covariates):
        varying = [f for f in usable if not f.constant_covariates[d]]
        c.append(
            CoefficientOverPools(
                judge=joint.judge,
                covariate=name,
                unit=f"{batch.units} {name}",
                estimate=float(joint.c[d]),
                low=float(joint.c_low[d]),
                high=float(joint.c_high[d]),
                status=joint.c_basis[d],
                values=np.array([f.c[d] for f in varying]),
                n_prior_selected=sum("c" in f.prior_selected for f in varying),
                grid=curves[d][0],
                log_likelihood=curves[d][1],
                p_alike=float(joint.c_p_alike[d]),
                without_ties=np.nan if untied is None else float(untied.c[d]),
            )
        )
    free = [f for f in usable if not np.isnan(f.kappa)]
    kappa = CoefficientOverPools(
        judge=joint.judge,
        estimate=joint.kappa,
        low=joint.kappa_low,
        high=joint.kappa_high,
        status=joint.kappa_basis,
        values=np.array([f.kappa for f in free]),
        n_prior_selected=sum("kappa" in f.prior_selected for f in free),
        grid=np.zeros(0),
        log_likelihood=np.zeros(0),
        without_ties=np.nan if untied is None else untied.kappa,
    )
    pairs = sum(f.n_both_orders for f in fits)
    flipped = sum(f.flip_rate * f.n_both_orders for f in fits if f.n_both_orders)
    return JudgeSummary(
        judge=joint.judge,
        fits=fits,
        joint=joint,
        c=c,
        kappa=None if np.isnan(joint.kappa) else kappa,
        top_k=top_k,
        n_verdicts=sum(f.n_verdicts for f in fits),
        n_errors=sum(f.n_errors for f in fits),
        n_ties=n_ties,
        n_both_orders=pairs,
        flip_rate=flipped / pairs if pairs else np.nan,
        n_connected=sum(f.islands == 1 and f.n_verdicts > 0 for f in fits),
    )


def _top_k(fits: list[PoolFit], untied: list[PoolFit], k: int) -> TopK:
    ranked = [f.top_k_differs for f in fits if f.usable and f.top_k_differs is not None]
    changed = [
        _first(fit, k) != _first(untied_fit, k)
        for fit, untied_fit in zip(fits, untied, strict=False)
        if fit.usable
    ]
    return TopK(len(ranked), sum(ranked), sum(changed) if untied else None)


def _first(fit: PoolFit, k: int) -> set[str]:
    """The contents in the top k, including all tied with the last."""
    return {r.content for r in fit.ranking if r.rank <= k}
