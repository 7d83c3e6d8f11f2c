"""One c and one kappa for each judge, from all pools, each pool with qualities of its own.

A judge's pools share (c, kappa), the slope b of quality in the covariates between contents, and the
sd of quality about that line (`shared_coefficients.between`). The qualities of every pool are
integrated out, see `shared_coefficients.laplace`. This is the model of a panel
(`jbt.own.fits.panel`) with one judge.

Where no pool of a judge identifies c, the verdicts identify only c + b: b is fixed at 0 and the
prior chooses c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import identifiability, quick_compilation, runtime
from jbt.own.fits.batch import Batch
from jbt.own.fits.frames import Fits
from jbt.own.shared_coefficients import directions
from jbt.own.shared_coefficients.between import content_means, with_means
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.intervals import Basis, known
from jbt.own.shared_coefficients.marginal_fit import PoolStack, maximum
from jbt.own.tables import limits
from jbt.types import Design, Prior, Status, Variant, Verdicts


@dataclass(frozen=True, eq=False)
class JudgeFit:
    """Estimates of c and kappa from a judge's verdicts on all pools. NaN where undefined; 95 %
    intervals with the pool as unit (`basis.known`), undefined unless measured."""

    judge: str | None
    """None where the table names no judge."""
    c: np.ndarray
    """[D] bias coefficient of each covariate, logits per unit (`Batch.units`)."""
    c_low: np.ndarray
    c_high: np.ndarray
    c_basis: tuple[Basis, ...]
    """[D] what each estimate rests on."""
    kappa: float
    """Position term in the pools where it is estimated, logits in favour of the first shown; NaN
    where no pool estimates it."""
    kappa_low: float
    kappa_high: float
    kappa_basis: Basis
    c_p_alike: np.ndarray
    """[D] p-value of the hypothesis that c is the same in all pools; NaN with one pool."""
    slope: np.ndarray
    """[D] b, the slope of quality in each covariate between contents, logits per unit; NaN where
    the verdicts do not identify c and b is fixed at 0."""
    sd: float
    """Standard deviation of quality about its mean and slope, logits; the prior's where lam is
    known."""
    sd_basis: Basis
    """What the logarithm of sd rests on; FIXED where lam is known."""
    status: Status
    """CONVERGED, NO_VERDICTS, or the status of the worst pool."""

    def rows(self, covariates: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield a row for each coefficient, see `frames.frame`."""
        rows: list[Any] = [
            *zip(covariates, self.c, self.c_low, self.c_high, self.c_basis, strict=True)
        ]
        if not np.isnan(self.kappa):
            rows.append((None, self.kappa, self.kappa_low, self.kappa_high, self.kappa_basis))
        for name, estimate, low, high, basis in rows:
            yield {
                "judge": self.judge,
                "quantity": "kappa" if name is None else "c",
                "name": name,
                "estimate": estimate,
                "low": low,
                "high": high,
                "prior_selected": basis in (Basis.PRIOR, Basis.WEAK),
                "status": self.status.name.lower(),
            }


def fit_judges(
    batch: Batch, *, prior: Prior | None = None, spread: bool | None = None
) -> Fits[JudgeFit]:
    """Fit the coefficients of each judge, in the order of the tables' judges.

    The pools where kappa is estimated share it (`PoolTable.position`); in the others it is 0, as in
    their own fits.

    Args:
      batch: from `load`.
      prior: default `Prior()`.
      spread: whether the sd of quality is estimated, about that of the prior (`maximum`);
        default: if no prior is given.
    """
    spread = prior is None if spread is None else spread
    prior = Prior() if prior is None else prior
    n_judges, d = len(batch.tables.judges), len(batch.covariates)
    lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), d + 1)
    with runtime.precision("float64"):
        stacks = _parts(batch)
        identified = _identified(stacks, n_judges, d)
        parts = [_without_slope(part, d, identified[:, :d]) for part in stacks]
        top = maximum(parts, prior, np.r_[lam_b, lam_b[:d]], n_judges, spread=spread)
    verdicts = batch.tables.counts["n_verdicts"].to_numpy().reshape(-1, n_judges).sum(0)
    position = np.array([p.position and p.n_verdicts > 0 for p in batch.pools])
    position = np.any(position.reshape(-1, n_judges), axis=0)
    combinations, merged = np.eye(top.at.shape[1])[[*range(d + 1), -1]], batch.tables.merged
    identified = np.c_[identified, np.ones(n_judges, bool)]
    fits = []
    for j, judge in enumerate(batch.tables.judges):
        value = top.at[j, : d + 1].copy()
        *coefficients, of_sd = known(top, parts, j, combinations, identified[j], merged=merged)
        basis, half = (
            [k.basis for k in coefficients],
            np.array([k.half_width for k in coefficients]),
        )
        if not position[j]:
            value[-1], half[-1], basis[-1] = np.nan, np.nan, Basis.FIXED
        if not verdicts[j]:
            basis = [Basis.UNDEFINED] * (d + 1)
        low, high = value - half, value + half
        fits.append(
            JudgeFit(
                judge=judge,
                c=value[:-1],
                c_low=low[:-1],
                c_high=high[:-1],
                c_basis=tuple(basis[:-1]),
                kappa=float(value[-1]),
                kappa_low=float(low[-1]),
                kappa_high=float(high[-1]),
                kappa_basis=basis[-1],
                slope=np.where(identified[j, :d], top.at[j, d + 1 : -1], np.nan),
                c_p_alike=np.array([k.p_alike for k in coefficients[:-1]]),
                sd=float(np.exp(top.at[j, -1])),
                sd_basis=of_sd.basis if spread else Basis.FIXED,
                status=Status(int(top.status[j])) if verdicts[j] else Status.NO_VERDICTS,
            )
        )
    return Fits(fits, batch.covariates)


def _identified(stacks: list[PoolStack], n_judges: int, d: int) -> np.ndarray:
    slopeless = [_without_slope(part, d) for part in stacks]
    return directions.null_directions(slopeless, n_judges).identified[:, : d + 1]


def _parts(batch: Batch) -> list[PoolStack]:
    """The pools of all judges, each with the (c, kappa) that are free in it; the shared parameters
    are (c [D], kappa, b [D])."""
    parts, n_judges = [], len(batch.tables.judges)
    for group in batch.groups:
        c, kappa = (np.asarray(v) for v in (group.variant.c, group.variant.kappa))
        f, d = c.shape
        loadings = np.zeros((f, 2 * d + 1, 2 * d + 1))
        for i in range(d):
            loadings[:, i, i] = c[:, i]
            loadings[:, d + i, d + 1 + i] = 1
        loadings[:, -1, d] = kappa
        design, verdicts = with_means(group.design, group.comparisons, content_means(group.items))
        parts.append(PoolStack(verdicts, design, jnp.asarray(loadings), group.index % n_judges))
    return parts


def _without_slope(part: PoolStack, d: int, keep: np.ndarray | None = None) -> PoolStack:
    """The pools with b fixed at 0, except for the owners and covariates in `keep` [owners, D]."""
    loadings = np.asarray(part.loadings).copy()
    loadings[:, :, d + 1 :] *= 0 if keep is None else keep[part.owner][:, None]
    return part._replace(loadings=jnp.asarray(loadings))


def profiles(batch: Batch, judges: Sequence[JudgeFit]) -> tuple[np.ndarray, np.ndarray]:
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
        centres = jnp.asarray(np.stack([j.c for j in judges]))
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
