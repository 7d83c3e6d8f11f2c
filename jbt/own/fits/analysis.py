"""`jbt fit`: each judge's verdicts alone, and all judges together if asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int

from jbt import identifiability, quick_compilation, runtime
from jbt.border import files
from jbt.own.fits.batch import Batch
from jbt.own.fits.judges import Judges
from jbt.own.fits.pools import PoolFit, check_k, fit, frame
from jbt.own.fits.shared import SharedFit, fit_judges
from jbt.own.fits.together import PanelFit, fit_panel
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.intervals import Coefficient
from jbt.own.tables import limits
from jbt.types import Design, Prior, Status, Variant, Verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jbt.border.report import Report


@dataclass(frozen=True, eq=False, kw_only=True)
class CoefficientOverPools(Coefficient):
    """A judge's c of one covariate, or its kappa: one for all pools, each with its own qualities
    (see `SharedFit`), beside the estimates of the pools' own fits."""

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
        evidence = {"profile_range": files.defined(self.profile_range)}
        return {
            **super().record(),
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
    shared: SharedFit
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
        """Yield a row for each coefficient over all pools, then those of the pools, see `frame`."""
        yield from (coefficient.row(self.shared.status) for coefficient in self.coefficients)
        for pool_fit in self.fits:
            yield from pool_fit.rows(covariates)

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        counts = ("n_pools", "n_verdicts", "n_errors", "n_ties", "n_connected", "n_both_orders")
        return {
            "judge": self.judge,
            "status": self.shared.status.name.lower(),
            "sd": files.defined(self.shared.sd.estimate),
            "slope": [
                files.defined(self.shared.slope[c.covariate].estimate)
                if c.covariate in self.shared.slope
                else None
                for c in self.c
            ],
            "c": [c.record() for c in self.c],
            "kappa": None if self.kappa is None else self.kappa.record(),
            **{name: getattr(self, name) for name in counts},
            "flip_rate": files.defined(self.flip_rate),
            "top_k": asdict(self.top_k),
        }


def _summaries(
    batch: Batch,
    judges: Sequence[SharedFit],
    *,
    k: int,
    prior: Prior | None,
    spread: bool | None,
) -> list[JudgeSummary]:
    """Summarise each judge over all pools, with and without the ties."""
    n = len(judges)
    fits = fit(batch, k=k, prior=prior, spread=spread, judges=judges)
    grids, evidence = profiles(batch, judges)
    untied: Sequence[SharedFit | None] = [None] * n
    untied_fits: list[PoolFit] = []
    p_first = batch.tables.verdicts["p_first"]
    if (p_first == 0.5).any() and (p_first != 0.5).any():
        without = batch.of_tables(batch.tables.without_ties())
        untied = fit_judges(without, prior=prior, spread=spread)
        settings: Any = {"k": k, "prior": prior, "spread": spread, "judges": untied}
        untied_fits = fit(without, **settings, intervals=False)
    ties = batch.tables.counts["n_ties"].to_numpy().reshape(-1, n).sum(0).tolist()
    return [
        _summary(
            judge,
            fits[j::n],
            list(zip(grids[j], evidence[j], strict=True)),
            ties[j],
            untied[j] if ties[j] else None,
            _top_k(fits[j::n], untied_fits[j::n] if ties[j] else [], k),
        )
        for j, judge in enumerate(judges)
    ]


def _summary(
    shared: SharedFit,
    fits: list[PoolFit],
    curves: list[tuple[np.ndarray, np.ndarray]],
    n_ties: int,
    untied: SharedFit | None,
    top_k: TopK,
) -> JudgeSummary:
    usable, (judge,) = [f for f in fits if f.usable], shared.judges
    without_ties = dict.fromkeys((*range(len(judge.c)), "kappa"), np.nan)
    if untied is not None and untied.status == Status.CONVERGED:
        (other,) = untied.judges
        without_ties |= {d: c.estimate for d, c in enumerate(other.c)}
        if other.kappa is not None:
            without_ties["kappa"] = other.kappa.estimate
    c = []
    for d, coefficient in enumerate(judge.c):
        varying = [f for f in usable if not f.constant_covariates[d]]
        c.append(
            CoefficientOverPools(
                **vars(coefficient),
                values=np.array([f.c[d] for f in varying]),
                n_prior_selected=sum("c" in f.prior_selected for f in varying),
                grid=curves[d][0],
                log_likelihood=curves[d][1],
                without_ties=without_ties[d],
            )
        )
    kappa = None
    if judge.kappa is not None:
        free = [f for f in usable if not np.isnan(f.kappa)]
        kappa = CoefficientOverPools(
            **vars(judge.kappa),
            values=np.array([f.kappa for f in free]),
            n_prior_selected=sum("kappa" in f.prior_selected for f in free),
            grid=np.zeros(0),
            log_likelihood=np.zeros(0),
            without_ties=without_ties["kappa"],
        )
    pairs = sum(f.n_both_orders for f in fits)
    flipped = sum(f.flip_rate * f.n_both_orders for f in fits if f.n_both_orders)
    return JudgeSummary(
        judge=judge.judge,
        fits=fits,
        shared=shared,
        c=c,
        kappa=kappa,
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


def profiles(batch: Batch, judges: Sequence[SharedFit]) -> tuple[np.ndarray, np.ndarray]:
    """Profile log-likelihood of each c of each judge, summed over pools, each pool with its own
    qualities, position and other coefficients.

    Pools in which every item has its own quality are left out: quality absorbs any covariate there,
    so that the profile is flat by design.

    Args:
      judges: from `fit_judges`; `grid_around` their c gives the grids.

    Returns:
      Grids [judges, D, G], logits per unit of the covariate, and sums [judges, D, G], nats, the
      largest 0; NaN where a point of some pool did not converge.
    """
    with runtime.precision("float64"):
        centres = jnp.asarray([[c.estimate for c in fit.judges[0].c] for fit in judges])
        centres = centres.reshape(len(judges), -1)
        grids = np.asarray(jax.vmap(jax.vmap(identifiability.grid_around))(centres))
        sums = np.zeros(grids.shape)
        for group in batch.groups:
            members = batch.sharing(group)
            if not len(members) or not grids.size:
                continue
            judge = group.index[members] % len(judges)
            leaves = (group.comparisons, group.design, group.variant)
            leaves = jax.tree.map(lambda leaf, members=members: np.asarray(leaf)[members], leaves)
            arguments = (*leaves, grids[judge])
            limits.check_profiles(len(members), grids.shape[1], group.n_parameters)
            (curves,) = in_chunks(lambda s: (_profile_of(*s),), arguments, limits.AT_ONCE)
            np.add.at(sums, judge, curves)
    return grids, sums - sums.max(-1, keepdims=True)


@quick_compilation.jit
def _profile_of(comparisons: Verdicts, design: Design, variant: Variant, grids: Array) -> Array:
    """[pools, D, G]"""

    def one_pool(
        comparisons: Verdicts,
        design: Design,
        variant: Variant,
        grids: Float[Array, "D G"],
    ) -> Float[Array, "D G"]:
        def curve(covariate: Int[Array, ""], grid: Float[Array, " G"]) -> Float[Array, " G"]:
            profile = identifiability.profile(
                comparisons, design, grid, covariate=covariate, variant=variant
            )
            good = (profile.status == Status.CONVERGED) | (
                profile.status == Status.COVARIATE_CONSTANT
            )
            return jnp.where(good, profile.log_likelihood, jnp.nan)

        return jax.vmap(curve)(jnp.arange(design.n_covariates), grids)

    return jax.vmap(one_pool)(comparisons, design, variant, grids)


@dataclass(frozen=True, eq=False)
class Analysis:
    """The result of `jbt fit`."""

    batch: Batch
    judges: list[JudgeSummary]
    """Each judge's verdicts alone, with the fits of its pools."""
    joint: tuple[Batch, PanelFit] | None
    """All judges together, and the batch that was fitted; None unless asked for."""
    k: int
    """Size of the top sets."""

    def report(self, title: str, lead: list[str], *, per_pool: bool = False) -> Report:
        """The report; `per_pool` adds the ranking of each pool, however many there are."""
        from jbt.own.fits import report

        return report.report(self, title, lead, per_pool=per_pool)

    def to_frame(self) -> pd.DataFrame:
        """A row for each estimate, see `pools.frame`: of each judge alone, then of all."""
        table = frame(row for judge in self.judges for row in judge.rows(self.batch.covariates))
        if self.joint is None:
            return table
        return pd.concat([table, self.joint[1].to_frame()], ignore_index=True)

    def record(self) -> dict[str, Any]:
        """The content of the JSON file."""
        record: dict[str, Any] = {
            "judges": [judge.record() for judge in self.judges],
            # Ordered as the pools of a batch.
            "pools": [
                fit.record()
                for fits in zip(*(judge.fits for judge in self.judges), strict=True)
                for fit in fits
            ],
        }
        if self.joint is not None:
            record["joint"] = self.joint[1].record()
        return record

    def figure(self) -> Figure:
        """Qualities or coefficients of each judge alone."""
        from jbt.own.fits import figure

        return figure.figure(self.batch, self.judges)


def analyse(
    batch: Batch,
    *,
    k: int = 1,
    prior: Prior | None = None,
    spread: bool | None = None,
    joint: tuple[Batch, Judges] | None = None,
) -> Analysis:
    """Fit each judge's verdicts alone, and all judges together (MAP, float64).

    Args:
      batch: from `own.load`.
      k: size of the top set on which naive and bias-aware are compared.
      prior: default `Prior()`.
      spread: see `shared.fit_shared`.
      joint: a batch whose verdicts may include anchors (`Tables.with_anchors`), and its judges,
        for a joint fit as well.

    Raises:
      ValueError: a pool has no more than k contents.
    """
    check_k(batch, k)
    alone = fit_judges(batch, prior=prior, spread=spread)
    judges = _summaries(batch, alone, k=k, prior=prior, spread=spread)
    if joint is None:
        return Analysis(batch, judges, None, k)
    joint_batch, panel = joint
    joint_fit = fit_panel(joint_batch, panel, k=k, prior=prior, spread=spread)
    return Analysis(batch, judges, (joint_batch, joint_fit), k)
