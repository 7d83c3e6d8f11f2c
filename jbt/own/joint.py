"""One c and one kappa for each judge, from all pools together, each pool with qualities of its own.

A judge's pools share (c, kappa) and nothing else: theta ~ N(0, 1/lam) in each of them, (c, kappa) ~
N(0, 1/lam_b) once. The qualities of every pool are integrated out, see `jbt.own.shared`.

The prior of quality takes part in this: it holds that quality has nothing to do with the
covariates. Where a pool's verdicts are silent about c, all it says of c would be that assumption.
So if some of a judge's pools tell c, the others leave it out (c is 0 there, and apparent quality
takes the place of quality).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import identifiability, runtime
from jbt.own import shared
from jbt.own.analysis import Z, in_chunks
from jbt.own.batch import Batch
from jbt.own.shared import Part
from jbt.types import Design, Prior, Status, Variant, Verdicts


@dataclass(frozen=True, eq=False)
class JudgeFit:
    """What a judge's verdicts on all pools say about c and kappa. NaN where undefined; intervals
    are of 95 %, from the information left when the qualities are unknown, and undefined where the
    prior chose."""

    judge: str | None
    """None where the table names no judge."""
    c: np.ndarray
    """[D] bias coefficient of each covariate, logits per unit (`Batch.units`)."""
    c_low: np.ndarray
    c_high: np.ndarray
    c_told: np.ndarray
    """[D] whether the verdicts identify it; else the prior chose."""
    kappa: float
    """Position term in the pools where it is estimated, logits in favour of the first shown; NaN
    where it is in none."""
    kappa_low: float
    kappa_high: float
    kappa_told: bool
    status: Status
    """CONVERGED, NO_VERDICTS, or how the worst pool ended."""


def fit_judges(batch: Batch, *, prior: Prior | None = None) -> list[JudgeFit]:
    """The coefficients of each judge, in the order of the tables' judges.

    kappa is shared by the pools where it is estimated (`PoolTable.position`); in the others it
    stays at 0, as in their own fits.

    Args:
      batch: from `load`.
      prior: default `Prior()`.
    """
    prior = Prior() if prior is None else prior
    with runtime.precision("float64"):
        n_judges = len(batch.tables.judges)
        lam_b = np.broadcast_to(np.asarray(prior.lam_b, float), len(batch.covariates) + 1)
        bias, top = shared.maximum(_parts(batch, _tells(batch)), prior, lam_b, n_judges)
        told = shared.silence(_parts(batch), n_judges).told
    status = top.status
    verdicts = batch.tables.counts["n_verdicts"].to_numpy().reshape(-1, n_judges)
    position = np.array([p.position for p in batch.pools]).reshape(-1, n_judges)
    estimated = np.ones(bias.shape, bool)
    estimated[:, -1] = (position & (verdicts > 0)).any(0)
    told &= estimated & (status == Status.CONVERGED)[:, None]
    variances = np.linalg.inv(top.information).diagonal(axis1=1, axis2=2)
    half = np.where(told, Z * np.sqrt(variances), np.nan)
    bias = np.where(estimated, bias, np.nan)
    low, high = bias - half, bias + half
    status = np.where(verdicts.sum(0), status, Status.NO_VERDICTS)
    return [
        JudgeFit(
            judge=judge,
            c=bias[j, :-1],
            c_low=low[j, :-1],
            c_high=high[j, :-1],
            c_told=told[j, :-1],
            kappa=float(bias[j, -1]),
            kappa_low=float(low[j, -1]),
            kappa_high=float(high[j, -1]),
            kappa_told=bool(told[j, -1]),
            status=Status(int(status[j])),
        )
        for j, judge in enumerate(batch.tables.judges)
    ]


def _tells(batch: Batch) -> np.ndarray:
    """[fits] whether a pool has a part in its judge's c: not where it is silent about c, unless all
    of the judge's pools are."""
    n_judges = len(batch.tables.judges)
    tells = np.array(["c" not in pool.prior_selected for pool in batch.pools])
    some = tells.reshape(-1, n_judges).any(0)
    return tells | ~np.tile(some, len(tells) // n_judges)


def _parts(batch: Batch, tells: np.ndarray | None = None) -> list[Part]:
    """The pools of every judge, each with those of (c, kappa) that are free in it.

    Args:
      tells: [fits] which pools have a part in c; default all.
    """
    parts = []
    for group in batch.groups:
        c, kappa = (np.asarray(v) for v in (group.variant.c, group.variant.kappa))
        c = c if tells is None else c & tells[group.index][:, None]
        free = np.column_stack([c, kappa]).astype(float)
        hears = jnp.asarray(free[:, :, None] * np.eye(free.shape[1]))
        owner = group.index % len(batch.tables.judges)
        parts.append(Part(group.comparisons, group.design, hears, owner))
    return parts


def profiles(batch: Batch, judges: list[JudgeFit]) -> tuple[np.ndarray, np.ndarray]:
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
