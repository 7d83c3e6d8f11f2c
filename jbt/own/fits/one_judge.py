"""One c and one kappa for each judge, from all pools together, each pool with qualities of its own.

A judge's pools share (c, kappa), how quality goes with the covariates between contents, b, and the
sd of quality about that (`shared_coefficients.between`). The qualities of every pool are
integrated out, see `shared_coefficients.laplace`. It is the model of a panel (`jbt.own.fits.panel`)
whose only judge this is.

Where none of a judge's pools identifies c, c + b is all that the verdicts see, b stays at 0, and
the prior chooses c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import identifiability, runtime
from jbt.own.fits.batch import Batch
from jbt.own.shared_coefficients import directions
from jbt.own.shared_coefficients import laplace as shared
from jbt.own.shared_coefficients.basis import Basis, known
from jbt.own.shared_coefficients.between import content_means, with_means
from jbt.own.shared_coefficients.chunks import in_chunks
from jbt.own.shared_coefficients.laplace import Part
from jbt.types import Design, Prior, Status, Variant, Verdicts


@dataclass(frozen=True, eq=False)
class JudgeFit:
    """What a judge's verdicts on all pools say about c and kappa. NaN where undefined; intervals
    are of 95 %, with the pool as unit (`intervals.known`), and undefined unless measured."""

    judge: str | None
    """None where the table names no judge."""
    c: np.ndarray
    """[D] bias coefficient of each covariate, logits per unit (`Batch.units`)."""
    c_low: np.ndarray
    c_high: np.ndarray
    c_basis: tuple[Basis, ...]
    """[D] what each rests on."""
    kappa: float
    """Position term in the pools where it is estimated, logits in favour of the first shown; NaN
    where it is in none."""
    kappa_low: float
    kappa_high: float
    kappa_basis: Basis
    c_p_alike: np.ndarray
    """[D] p-value of the hypothesis that c is the same in all pools; NaN where it is in one."""
    slope: np.ndarray
    """[D] b, how quality goes with each covariate between contents, logits per unit; NaN where the
    verdicts do not identify c and it is fixed at 0."""
    sd: float
    """Standard deviation of quality about its mean and slope, logits; that of the prior where lam
    is known."""
    sd_basis: Basis
    """What its logarithm rests on; FIXED where lam is known."""
    status: Status
    """CONVERGED, NO_VERDICTS, or how the worst pool ended."""


def fit_judges(
    batch: Batch, *, prior: Prior | None = None, spread: bool | None = None
) -> list[JudgeFit]:
    """The coefficients of each judge, in the order of the tables' judges.

    kappa is shared by the pools where it is estimated (`PoolTable.position`); in the others it
    stays at 0, as in their own fits.

    Args:
      batch: from `load`.
      prior: default `Prior()`.
      spread: whether the sd of quality is estimated, about that of the prior (`shared.maximum`);
        default: if no prior is given.
    """
    spread = prior is None if spread is None else spread
    prior = Prior() if prior is None else prior
    n_judges, d = len(batch.tables.judges), len(batch.covariates)
    lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), d + 1)
    with runtime.precision("float64"):
        made = _parts(batch)
        without = [_without_slope(part, d) for part in made]
        told = directions.null_directions(without, n_judges).told[:, : d + 1]
        parts = [_without_slope(part, d, told[:, :d]) for part in made]
        top = shared.maximum(parts, prior, np.r_[lam_b, lam_b[:d]], n_judges, spread=spread)
    verdicts = batch.tables.counts["n_verdicts"].to_numpy().reshape(-1, n_judges).sum(0)
    position = np.array([p.position and p.n_verdicts > 0 for p in batch.pools])
    position = np.any(position.reshape(-1, n_judges), axis=0)
    along, merged = np.eye(top.at.shape[1])[[*range(d + 1), -1]], batch.tables.merged
    told = np.c_[told, np.ones(n_judges, bool)]
    found = []
    for j, judge in enumerate(batch.tables.judges):
        value = top.at[j, : d + 1].copy()
        *each, of_sd = known(top, parts, j, along, told[j], merged=merged)
        basis, half = [k.basis for k in each], np.array([k.half_width for k in each])
        if not position[j]:
            value[-1], half[-1], basis[-1] = np.nan, np.nan, Basis.FIXED
        if not verdicts[j]:
            basis = [Basis.UNDEFINED] * (d + 1)
        low, high = value - half, value + half
        found.append(
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
                slope=np.where(told[j, :d], top.at[j, d + 1 : -1], np.nan),
                c_p_alike=np.array([one.p_alike for one in each[:-1]]),
                sd=float(np.exp(top.at[j, -1])),
                sd_basis=of_sd.basis if spread else Basis.FIXED,
                status=Status(int(top.status[j])) if verdicts[j] else Status.NO_VERDICTS,
            )
        )
    return found


def _parts(batch: Batch) -> list[Part]:
    """The pools of every judge, each with those of (c, kappa) that are free in it; shared are
    (c [D], kappa, b [D])."""
    parts, n_judges = [], len(batch.tables.judges)
    for group in batch.groups:
        c, kappa = (np.asarray(v) for v in (group.variant.c, group.variant.kappa))
        f, d = c.shape
        hears = np.zeros((f, 2 * d + 1, 2 * d + 1))
        for i in range(d):
            hears[:, i, i] = c[:, i]
            hears[:, d + i, d + 1 + i] = 1
        hears[:, -1, d] = kappa
        design, verdicts = with_means(group.design, group.comparisons, content_means(group.items))
        parts.append(Part(verdicts, design, jnp.asarray(hears), group.index % n_judges))
    return parts


def _without_slope(part: Part, d: int, keep: np.ndarray | None = None) -> Part:
    """The pools with b at 0, but for the owners and covariates [owners, D] to keep."""
    hears = np.asarray(part.hears).copy()
    hears[:, :, d + 1 :] *= 0 if keep is None else keep[part.owner][:, None]
    return part._replace(hears=jnp.asarray(hears))


def profiles(batch: Batch, judges: Sequence[JudgeFit]) -> tuple[np.ndarray, np.ndarray]:
    """The evidence of all of a judge's verdicts about each c: the sum of the pools' profile
    log-likelihoods, each pool with its own qualities, position and other coefficients.

    Pools in which every item has a quality of its own add nothing, as that absorbs any covariate:
    their profile is flat by design, and left out.

    Args:
      judges: from `fit_judges`, for the grids of `grid_around` their c.

    Returns:
      Grids [judges, D, G], logits per unit of the covariate, and sums [judges, D, G], nats, the
      largest 0; NaN where a point of some pool did not converge.
    """
    with runtime.precision("float64"):
        centres = jnp.asarray(np.stack([j.c for j in judges]))
        grids = np.asarray(jax.vmap(jax.vmap(identifiability.grid_around))(centres))
        sums = np.zeros(grids.shape)
        for group in batch.groups:
            which = batch.sharing(group)
            if not len(which) or not grids.size:
                continue
            judge = group.index[which] % len(judges)
            some = (group.comparisons, group.design, group.variant)
            some = jax.tree.map(lambda leaf, which=which: leaf[which], some)
            each = (*some, jnp.asarray(grids[judge]))
            (found,) = in_chunks(lambda s: (_profile_of(*s),), each, 1024)
            np.add.at(sums, judge, found)
    return grids, sums - sums.max(-1, keepdims=True)


@jax.jit
def _profile_of(comparisons: Verdicts, design: Design, variant: Variant, grids: Array) -> Array:
    """[pools, D, G]"""

    def one(
        comparisons: Verdicts,
        design: Design,
        variant: Variant,
        grids: Float[Array, "D G"],
    ) -> Float[Array, "D G"]:
        def of(covariate: Int[Array, ""], grid: Float[Array, " G"]) -> Float[Array, " G"]:
            found = identifiability.profile(
                comparisons, design, grid, covariate=covariate, variant=variant
            )
            good = (found.status == Status.CONVERGED) | (found.status == Status.COVARIATE_CONSTANT)
            return jnp.where(good, found.log_likelihood, jnp.nan)

        return jax.vmap(of)(jnp.arange(design.n_covariates), grids)

    return jax.vmap(one)(comparisons, design, variant, grids)
