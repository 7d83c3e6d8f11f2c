"""One c and one kappa for each judge, from all pools together, each pool with qualities of its own.

A judge's pools share (c, kappa) and nothing else: theta ~ N(0, 1/lam) in each of them, (c, kappa) ~
N(0, 1/lam_b) once. What is maximised is the posterior of (c, kappa) alone, the qualities of every
pool integrated out by Laplace's approximation,

    sum over pools of [ max over theta of (log-likelihood - lam |theta|^2 / 2) - log det(H) / 2 ]
    - lam_b |(c, kappa)|^2 / 2,    H: the Hessian in theta there,

as in a generalised linear mixed model (Tierney and Kadane, 1986). The mode over everything at once,
which lacks the determinant, is not to be trusted with many pools: each brings qualities of its own,
what their shrinkage takes from c does not average out, and the interval shrinks around it.

The prior of quality takes part in this: it holds that quality has nothing to do with the
covariates. Where a pool's verdicts are silent about c, all it says of c would be that assumption.
So if some of a judge's pools tell c, the others leave it out (c is 0 there, and apparent quality
takes the place of quality).

Given (c, kappa) the pools are independent, so that the gradient and the information left when the
qualities are unknown (Schur complements) are sums over pools.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import identifiability, model, runtime
from jbt.fit import FLAT, fit_map
from jbt.own.analysis import Z, in_chunks
from jbt.own.batch import Batch, Group
from jbt.types import Design, Parameters, Prior, Status, Variant, Verdicts

MAX_STEPS = 64

TOLERANCE = 1e-8
"""Of the Newton decrement, which is the distance to the optimum in posterior standard
deviations."""

AT_ONCE = 2**22
"""Entries of the pools' Hessians worked on together (count)."""


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
        bias, information, status = _newton(_telling(batch), prior)
        told = _told(batch)
    n_judges = len(bias)
    verdicts = batch.tables.counts["n_verdicts"].to_numpy().reshape(-1, n_judges)
    position = np.array([p.position for p in batch.pools]).reshape(-1, n_judges)
    estimated = np.ones(bias.shape, bool)
    estimated[:, -1] = (position & (verdicts > 0)).any(0)
    told &= estimated & (status == Status.CONVERGED)[:, None]
    variances = np.linalg.inv(information).diagonal(axis1=1, axis2=2)
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


def _telling(batch: Batch) -> Batch:
    """The batch with c left out of the pools that are silent about it, unless all of a judge's
    are."""
    n_judges = len(batch.tables.judges)
    tells = np.array(["c" not in pool.prior_selected for pool in batch.pools])
    some = tells.reshape(-1, n_judges).any(0)
    counts = tells | ~np.tile(some, len(tells) // n_judges)
    groups = [
        dataclasses.replace(
            group,
            variant=dataclasses.replace(
                group.variant, c=group.variant.c & jnp.asarray(counts[group.index])[:, None]
            ),
        )
        for group in batch.groups
    ]
    return dataclasses.replace(batch, groups=tuple(groups))


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


class _Top(NamedTuple):
    """The log-posterior of (c, kappa) of each judge, at some point."""

    gradient: np.ndarray
    """[judges, D + 1]"""
    information: np.ndarray
    """[judges, D + 1, D + 1] minus its Hessian, but for that of the determinant."""
    status: np.ndarray
    """[judges]"""
    theta: list[np.ndarray]
    """[fits, M] of each group, the qualities there."""


def _newton(batch: Batch, prior: Prior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(c, kappa) [judges, D + 1], the precision of its posterior, and a status for each judge.

    Steps leave the determinant's curvature out, which is small: each takes most of the way.
    """
    bias = np.zeros((len(batch.tables.judges), len(batch.covariates) + 1))
    start = [np.zeros((len(g.index), g.design.n_contents)) for g in batch.groups]
    top, length = _maximised(batch, prior, bias, start), np.ones(len(bias))
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(top.information, top.gradient[..., None])[..., 0]
        slope = (top.gradient * step).sum(1)
        going = slope > TOLERANCE**2
        if not going.any():
            break
        tried = bias + np.where(going, length, 0)[:, None] * step
        then = _maximised(batch, prior, tried, top.theta)
        # The slope falls along the step; where it has turned to as steep a descent, the step was
        # too long.
        good = np.abs((then.gradient * step).sum(1)) < slope
        bias = np.where(good[:, None], tried, bias)
        length = np.where(good, 1, length / 2)
        top = _Top(
            np.where(good[:, None], then.gradient, top.gradient),
            np.where(good[:, None, None], then.information, top.information),
            np.where(good, then.status, top.status),
            then.theta,  # only where the next fits begin
        )
    else:
        top.status[going] = np.maximum(top.status[going], Status.NOT_CONVERGED)
    return bias, top.information, top.status


def _maximised(batch: Batch, prior: Prior, bias: np.ndarray, start: list[np.ndarray]) -> _Top:
    n_judges, n = bias.shape
    precision = np.broadcast_to(np.asarray(prior.lam_b, float), n)
    gradient = -precision * bias
    information = np.tile(np.diag(precision), (n_judges, 1, 1))
    status, ends = np.zeros(n_judges, int), []
    for group, theta in zip(batch.groups, start, strict=True):
        judge = group.index % n_judges
        theta, each_gradient, each_information, each_status = _sums_of(
            group, prior, jnp.asarray(bias[judge]), jnp.asarray(theta)
        )
        np.add.at(gradient, judge, each_gradient)
        np.add.at(information, judge, each_information)
        np.maximum.at(status, judge, each_status)
        ends.append(theta)
    return _Top(gradient, information, status, ends)


def _sums_of(group: Group, prior: Prior, bias: Array, theta: Array) -> tuple[np.ndarray, ...]:
    each = (group.comparisons, group.design, group.variant, bias, theta)
    size = AT_ONCE // (theta.shape[1] + bias.shape[1]) ** 2
    return in_chunks(lambda some: _given(*some, prior), each, size)


@jax.jit
def _given(
    comparisons: Verdicts,
    design: Design,
    variant: Variant,
    bias: Array,
    theta: Array,
    prior: Prior,
) -> tuple[Array, Array, Array, Array]:
    """Of every pool, given (c, kappa): its qualities, begun at theta; its terms of the gradient and
    of the information; the status of the fit."""

    def one(
        comparisons: Verdicts,
        design: Design,
        variant: Variant,
        bias: Float[Array, " biases"],
        theta: Float[Array, " M"],
    ) -> tuple[
        Float[Array, " M"], Float[Array, " biases"], Float[Array, "biases biases"], Int[Array, ""]
    ]:
        m, free = design.n_contents, _free(design, variant)
        bias = jnp.where(free, bias, 0)
        known = Parameters(theta, bias[:-1], bias[-1])
        fixed = model.variant("naive", design)
        fit = fit_map(comparisons, design, prior, fixed, start=known)
        middle = design.centred()

        def quality_precision(theta: Float[Array, " M"], bias: Float[Array, " biases"]) -> Array:
            at = Parameters(theta, bias[:-1], bias[-1])
            information = model.score_and_information(at, middle, comparisons)[1]
            return information[:m, :m] + prior.lam * jnp.eye(m, dtype=theta.dtype)

        theta = fit.parameters.theta
        score, information = model.score_and_information(fit.parameters, middle, comparisons)
        border, corner = information[:m, m:] * free, information[m:, m:] * free * free[:, None]
        follows = -jnp.linalg.solve(quality_precision(theta, bias), border)

        def log_det_change(theta_change: Float[Array, " M"], change: Float[Array, " biases"]):
            changes = theta_change, change
            found = jax.jvp(
                lambda *at: jnp.linalg.slogdet(quality_precision(*at))[1], (theta, bias), changes
            )
            return found[1]

        ones = jnp.diag(free.astype(theta.dtype))
        gradient = score[m:] * free - jax.vmap(log_det_change)(follows.T, ones) / 2
        return theta, gradient, corner + border.T @ follows, fit.status

    return jax.vmap(one)(comparisons, design, variant, bias, theta)


def _free(design: Design, variant: Variant) -> Array:
    """[D + 1] which of (c, kappa) a pool estimates."""
    return model.free_mask(variant, design)[design.n_contents :]


def _told(batch: Batch) -> np.ndarray:
    """[judges, D + 1] which of (c, kappa) the verdicts of all pools identify: those that no null
    direction of the information left, when all qualities are unknown, moves."""
    n_judges, n = len(batch.tables.judges), len(batch.covariates) + 1
    left, alone = np.zeros((n_judges, n, n)), np.zeros((n_judges, n))
    for group in batch.groups:
        each = (group.comparisons, group.design, group.variant)
        size = AT_ONCE // (group.design.n_contents + n) ** 2
        parts = in_chunks(lambda some: _at_even_odds(*some), each, size)
        for total, part in zip((left, alone), parts, strict=True):
            np.add.at(total, group.index % n_judges, part)
    scale = np.sqrt(np.where(alone > 0, alone, 1))
    values, vectors = np.linalg.eigh(left / scale[:, :, None] / scale[:, None])
    null = np.abs(vectors) * (values <= FLAT)[:, None]
    return np.asarray(null.max(-1) < 1e-6)


@jax.jit
def _at_even_odds(comparisons: Verdicts, design: Design, variant: Variant) -> tuple[Array, Array]:
    """Of every pool, the information about (c, kappa) at even odds: left when the qualities are
    unknown, and each coefficient's when all else is known."""

    def one(
        comparisons: Verdicts, design: Design, variant: Variant
    ) -> tuple[Float[Array, "biases biases"], Float[Array, " biases"]]:
        m, free = design.n_contents, _free(design, variant)
        information = model.information_at_even_odds(comparisons, design.centred())
        values, vectors = jnp.linalg.eigh(information[:m, :m])
        inverse = jnp.where(values > 1e-12 * values[-1], 1 / values, 0)
        follows = -(vectors * inverse) @ vectors.T @ information[:m, m:]
        # A quadratic form, in which errors of what the qualities do are squared.
        change = jnp.concatenate([follows, jnp.eye(len(free), dtype=follows.dtype)]) * free
        alone = jnp.diagonal(information)[m:] * free
        return change.T @ information @ change, alone

    return jax.vmap(one)(comparisons, design, variant)
