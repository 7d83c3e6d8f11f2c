"""Fit of the parameters that pools share, each pool with its own qualities.

The fit maximises the posterior of the shared parameters alone, with the qualities of every pool
integrated out by Laplace's approximation,

    sum over pools of [ max over theta of (log-likelihood - lam |theta|^2 / 2)
                        + M log(lam) / 2 - log det(H) / 2 ] + log prior of the shared parameters,

with H the Hessian in theta at the maximum, as in a generalised linear mixed model (Tierney and
Kadane, 1986). The joint mode, which lacks the determinant, is biased with many pools: each pool
adds qualities, their shrinkage biases c in the same direction, and the interval shrinks around it.

The shared parameters are the coefficients, log sd of quality (sd = 1 / sqrt(lam)), and in a panel
the discrimination of each judge. The sd is estimated because the coefficients depend on it: with sd
held at 1 where it is 0.4 or 2.5, c comes out 15 % too large or 28 % too small.

Given the shared parameters the pools are independent, so that the gradient and the marginal
information (Schur complements, qualities unknown) are sums over pools.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jbt.own.shared_coefficients.arrays import in_chunks
from jbt.own.shared_coefficients.pool_terms import linear_terms
from jbt.types import Design, Panel, Prior, Status, Verdicts

MAX_STEPS = 64

TOLERANCE = 1e-9
"""Largest Newton decrement at convergence: distance to the optimum in posterior standard
deviations."""

STEEP_AFTER_STEP = 0.5
"""A step was too long (too short) if it leaves more than this share of its slope beyond (before)
the maximum."""

FURTHEST = 1.0
"""Longest step in any parameter."""

LOG_SD_SPREAD = 1.0
"""Standard deviation of the prior of log sd about that of `Prior.lam`: a factor of 2.7 either
way."""

DISCRIMINATION_SPREAD = 1.0
"""Standard deviation of the prior of a discrimination about the one given. It allows 0: a judge
whose verdicts are unrelated to quality."""

DIFFERENCE = 1e-3
"""Step of the finite differences of the gradient."""

AT_ONCE = 2**22
"""Entries of the pools' Hessians held at a time (count)."""


class PoolStack(NamedTuple):
    """Pools of one shape."""

    comparisons: Verdicts
    """Leaves with a leading axis of F pools, as in the design."""
    design: Design
    """In a panel, the second half of the covariates describes quality: a judge's discrimination
    multiplies their coefficients."""
    loadings: Array
    """[F, biases, shared] the (c, kappa) of each pool's own model as linear functions of the shared
    coefficients, before that multiplication."""
    owner: np.ndarray
    """[F] owner of the parameters of each pool, from 0."""


@dataclass(frozen=True, eq=False)
class Maximum:
    """The log-posterior of each owner's parameters at a point. The K parameters are the shared
    coefficients, the J discriminations of a panel, and log sd."""

    at: np.ndarray
    """[owners, K] the point."""
    gradient: np.ndarray
    """[owners, K]"""
    information: np.ndarray
    """[owners, K, K] minus the Hessian, without the determinant's part in the coefficients; the
    identity where a parameter is held."""
    status: np.ndarray
    """[owners] the worst status of the pools."""
    theta: list[np.ndarray]
    """[F, M] of each part, the qualities there."""
    scores: list[np.ndarray]
    """[F, K] of each part, a pool's term of the gradient."""
    informations: list[np.ndarray]
    """[F, K, K] of each part, a pool's term of the information."""
    weight: np.ndarray
    """[K] the prior's term of the information, a diagonal; 0 where held."""
    discriminations: slice
    """Positions of the discriminations among the K."""


def maximum(
    parts: Sequence[PoolStack],
    prior: Prior,
    precision: np.ndarray,
    n_owners: int,
    *,
    spread: bool = False,
    graded: np.ndarray | None = None,
) -> Maximum:
    """Maximise the posterior of each owner's shared parameters.

    The first steps use information without the determinant's curvature, and the expected one for
    log sd; secant updates from the gradients add what is missing.

    Args:
      parts: float64.
      prior: of the qualities; its lam is the start and the centre of the prior of 1 / sd^2.
      precision: [shared] of the coefficients' prior, whose mean is 0.
      spread: whether the sd of quality is estimated; else lam is known.
      graded: [J] which discriminations of a panel are estimated; default none. Those of the panel
        are the start and the prior's mean.
    """
    panel = parts[0].comparisons
    s = np.asarray(panel.discrimination)[0] if isinstance(panel, Panel) else np.zeros(0)
    graded = np.zeros(len(s), bool) if graded is None else graded
    centre = np.r_[np.zeros(len(precision)), s, -np.log(float(np.asarray(prior.lam))) / 2]
    weight = np.r_[precision, np.full(len(s), DISCRIMINATION_SPREAD**-2), LOG_SD_SPREAD**-2]
    held = np.r_[np.zeros(len(precision), bool), ~graded, not spread]
    posterior = _Posterior(parts, centre, weight, held)

    thetas = [np.zeros((len(p.owner), p.design.n_contents)) for p in parts]
    top, length = posterior.at(np.tile(centre, (n_owners, 1)), thetas), np.ones(n_owners)
    correction = np.zeros_like(top.information)
    for _ in range(MAX_STEPS):
        step = _uphill(top.information + correction, top.gradient)
        slope = (top.gradient * step).sum(1)
        going = slope > TOLERANCE**2
        if not going.any():
            break
        longest = np.abs(step).max(1)
        step_length = np.minimum(length, FURTHEST / np.maximum(longest, FURTHEST))
        trial = posterior.at(top.at + np.where(going, step_length, 0)[:, None] * step, top.theta)
        correction += _secant(top, trial, correction)
        # The slope falls along the step unless the posterior is convex. Where it has become as
        # steep a descent, the step was too long and is refused. Where the descent is nearly as
        # steep, the determinant curves as much as the rest: steps of this length would oscillate.
        slope_left = (trial.gradient * step).sum(1) / np.where(going, slope, 1)
        good = slope_left > -1
        shorter = step_length / (1 - np.minimum(slope_left, -STEEP_AFTER_STEP))
        kept = np.where(
            slope_left < -STEEP_AFTER_STEP,
            shorter,
            np.where(slope_left > STEEP_AFTER_STEP, 1, step_length),
        )
        length = np.where(good, kept, step_length / 2)
        top = chosen(good, trial, top, parts)
    else:
        top.status[going] = np.maximum(top.status[going], Status.NOT_CONVERGED)
    return posterior.with_curvature(top, len(precision))


def _uphill(curvature: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """[owners, K] Newton step, uphill even where a discrimination makes the posterior convex."""
    values, vectors = np.linalg.eigh(curvature)
    components = np.einsum("oij,oi->oj", vectors, gradient) / np.abs(values)
    return np.einsum("oij,oj->oi", vectors, components)


def _secant(previous: Maximum, trial: Maximum, correction: np.ndarray) -> np.ndarray:
    """[owners, K, K] symmetric rank-one update (Nocedal and Wright 2006, section 6.2) of the
    correction, which makes the information agree with the change of the gradient. It adds what the
    information leaves out: the determinant's curvature and the border of log sd."""
    step = trial.at - previous.at
    expected = np.einsum("oij,oj->oi", previous.information + correction, step)
    missed = previous.gradient - trial.gradient - expected
    projection = (missed * step).sum(1)
    lengths = np.linalg.norm(missed, axis=1) * np.linalg.norm(step, axis=1)
    usable = np.abs(projection) > 1e-2 * lengths
    scaled = missed / np.where(usable, projection, np.inf)[:, None]
    return missed[:, :, None] * scaled[:, None]


def chosen(
    good: np.ndarray, trial: Maximum, previous: Maximum, parts: Sequence[PoolStack]
) -> Maximum:
    """The trial of the owners for which it is good [owners], else the previous point."""

    values: dict[str, Any] = {}
    for name in ("at", "gradient", "information", "status"):
        values[name] = _where(good, getattr(trial, name), getattr(previous, name))
    for name in ("theta", "scores", "informations"):
        triples = zip(parts, getattr(trial, name), getattr(previous, name), strict=True)
        values[name] = [_where(good[part.owner], new, old) for part, new, old in triples]
    return dataclasses.replace(previous, **values)


def _where(good: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(good.reshape(-1, *[1] * (new.ndim - 1)), new, old)


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The log-posterior as a function of the parameters."""

    parts: Sequence[PoolStack]
    centre: np.ndarray
    """[K] mean of the prior."""
    weight: np.ndarray
    """[K] precision of the prior."""
    held: np.ndarray
    """[K] whether each parameter is known."""

    def at(self, point: np.ndarray, start: list[np.ndarray]) -> Maximum:
        """Evaluate at a point [owners, K], starting the pools' fits at `start` [F, M]."""
        n_owners = len(point)
        gradient = np.where(self.held, 0, self.weight * (self.centre - point))
        information = np.tile(np.diag(np.where(self.held, 1, self.weight)), (n_owners, 1, 1))
        status = np.zeros(n_owners, int)
        free = ~self.held
        thetas, scores, informations = [], [], []
        for part, theta in zip(self.parts, start, strict=True):
            leaves = (*part[:3], jnp.asarray(point[part.owner]), jnp.asarray(theta))
            theta, score, curvature, worst = in_chunks(
                lambda stack: linear_terms(*stack), leaves, chunk(part)
            )
            score, curvature = score * free, curvature * (free[:, None] & free)
            np.add.at(gradient, part.owner, score)
            np.add.at(information, part.owner, curvature)
            np.maximum.at(status, part.owner, worst)
            for values, value in zip(
                (thetas, scores, informations), (theta, score, curvature), strict=True
            ):
                values.append(value)
        return Maximum(
            at=point,
            gradient=gradient,
            information=information,
            status=status,
            theta=thetas,
            scores=scores,
            informations=informations,
            weight=np.where(self.held, 0, self.weight),
            discriminations=slice(self.parts[0].loadings.shape[2], len(self.centre) - 1),
        )

    def with_curvature(self, top: Maximum, n_linear: int) -> Maximum:
        """Replace the information by differences of the gradient in the parameters after the
        `n_linear` coefficients (discriminations, log sd), where the determinant matters most. Where
        that is no maximum, do so in all parameters."""
        free = np.flatnonzero(~self.held)
        curved = self._differenced(top, free[free >= n_linear])
        lost = _smallest_eigenvalue(curved) <= 0
        if lost.any():
            curved = chosen(lost, self._differenced(top, free), curved, self.parts)
            lost = _smallest_eigenvalue(curved) <= 0
        status = np.where(lost, np.maximum(top.status, Status.NOT_CONVERGED), top.status)
        return dataclasses.replace(curved, status=status)

    def _differenced(self, top: Maximum, places: np.ndarray) -> Maximum:
        """Replace rows of the information by central differences of the gradient."""
        information = top.information.copy()
        informations = [matrix.copy() for matrix in top.informations]
        for place in places:
            ends = []
            for change in (DIFFERENCE, -DIFFERENCE):
                point = top.at.copy()
                point[:, place] += change
                ends.append(self.at(point, top.theta))
            up, down = ends
            gradients = zip(
                (information, *informations),
                (up.gradient, *up.scores),
                (down.gradient, *down.scores),
                strict=True,
            )
            for matrices, above, below in gradients:
                row = (below - above) / (2 * DIFFERENCE)
                matrices[:, place], matrices[:, :, place] = row, row
        return dataclasses.replace(top, information=information, informations=informations)


def _smallest_eigenvalue(top: Maximum) -> np.ndarray:
    return np.linalg.eigvalsh(top.information)[:, 0]


def chunk(part: PoolStack) -> int:
    """Number of pools of a part held at a time."""
    return AT_ONCE // (part.design.item_mask.shape[1] + part.loadings.shape[1]) ** 2
