"""Coefficients that pools share, each pool with qualities of its own.

What is maximised is the posterior of the shared coefficients alone, the qualities of every pool
integrated out by Laplace's approximation,

    sum over pools of [ max over theta of (log-likelihood - lam |theta|^2 / 2) - log det(H) / 2 ]
    - lam_b |coefficients|^2 / 2,    H: the Hessian in theta there,

as in a generalised linear mixed model (Tierney and Kadane, 1986). The mode over everything at once,
which lacks the determinant, is not to be trusted with many pools: each brings qualities of its own,
what their shrinkage takes from c does not average out, and the interval shrinks around it.

Given the coefficients the pools are independent, so that the gradient and the information left when
the qualities are unknown (Schur complements) are sums over pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jbt import model
from jbt.fit import FLAT, fit_map
from jbt.own.analysis import in_chunks
from jbt.types import Design, Parameters, Prior, Status, Verdicts, n_judges

MAX_STEPS = 64

TOLERANCE = 1e-8
"""Of the Newton decrement, which is the distance to the optimum in posterior standard
deviations."""

TURNED = 0.5
"""Share of its slope that is left, behind the top or before it, after a step whose length was not
right."""

AT_ONCE = 2**22
"""Entries of the pools' Hessians worked on together (count)."""

MOVED = 1e-6
"""Share of a null direction's length beyond which it moves a coefficient."""


class Part(NamedTuple):
    """Pools of one shape."""

    comparisons: Verdicts
    """Leaves with a leading axis of F pools, as those of the design."""
    design: Design
    hears: Array
    """[F, own, shared] how the (c, kappa) of each pool's own model follow the shared
    coefficients."""
    owner: np.ndarray
    """[F] whose coefficients each pool hears, from 0."""


@dataclass(frozen=True, eq=False)
class Top:
    """The log-posterior of each owner's coefficients, at some point."""

    gradient: np.ndarray
    """[owners, shared]"""
    information: np.ndarray
    """[owners, shared, shared] minus its Hessian, but for that of the determinant."""
    status: np.ndarray
    """[owners] the worst of the pools'."""
    theta: list[np.ndarray]
    """[F, M] of each part, the qualities there."""


def maximum(
    parts: Sequence[Part], prior: Prior, precision: np.ndarray, n_owners: int
) -> tuple[np.ndarray, Top]:
    """The coefficients [owners, shared] of highest posterior, and what is known there.

    Steps leave the determinant's curvature out, which is small: each takes most of the way.

    Args:
      parts: float64.
      prior: of the qualities; that of the coefficients is `precision` [shared].
    """
    bias = np.zeros((n_owners, len(precision)))
    start = [np.zeros((len(p.owner), p.design.n_contents)) for p in parts]
    top, length = _at(parts, prior, precision, bias, start), np.ones(n_owners)
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(top.information, top.gradient[..., None])[..., 0]
        slope = (top.gradient * step).sum(1)
        going = slope > TOLERANCE**2
        if not going.any():
            break
        tried = bias + np.where(going, length, 0)[:, None] * step
        then = _at(parts, prior, precision, tried, top.theta)
        # The slope falls along the step; where it has turned to as steep a descent, the step was
        # too long. Where it has turned to one nearly as steep, the determinant curves as much as
        # the rest, and steps as long as this would go to and fro.
        left = (then.gradient * step).sum(1) / np.where(going, slope, 1)
        good = np.abs(left) < 1
        bias = np.where(good[:, None], tried, bias)
        kept = np.where(left < -TURNED, length / (1 - left), np.where(left > TURNED, 1, length))
        length = np.where(good, kept, length / 2)
        top = Top(
            np.where(good[:, None], then.gradient, top.gradient),
            np.where(good[:, None, None], then.information, top.information),
            np.where(good, then.status, top.status),
            then.theta,  # only where the next fits begin
        )
    else:
        top.status[going] = np.maximum(top.status[going], Status.NOT_CONVERGED)
    return bias, top


def _at(
    parts: Sequence[Part],
    prior: Prior,
    precision: np.ndarray,
    bias: np.ndarray,
    start: list[np.ndarray],
) -> Top:
    n_owners = len(bias)
    gradient = -precision * bias
    information = np.tile(np.diag(precision), (n_owners, 1, 1))
    status, ends = np.zeros(n_owners, int), []
    lam = jnp.asarray(prior.lam, float)
    for part, theta in zip(parts, start, strict=True):
        each = (*part[:3], jnp.asarray(bias[part.owner]), jnp.asarray(theta))
        theta, each_gradient, each_information, each_status = in_chunks(
            lambda some: _given(*some, lam), each, chunk(part)
        )
        np.add.at(gradient, part.owner, each_gradient)
        np.add.at(information, part.owner, each_information)
        np.maximum.at(status, part.owner, each_status)
        ends.append(theta)
    return Top(gradient, information, status, ends)


def chunk(part: Part) -> int:
    """How many pools of a part are worked on together."""
    return AT_ONCE // (part.design.n_contents + part.hears.shape[1]) ** 2


@jax.jit
def _given(
    comparisons: Verdicts, design: Design, hears: Array, bias: Array, theta: Array, lam: Array
) -> tuple[Array, Array, Array, Array]:
    """Of every pool, given the coefficients: its qualities, begun at theta; its terms of the
    gradient and of the information; the status of the fit."""

    def one(
        comparisons: Verdicts,
        design: Design,
        hears: Float[Array, "own shared"],
        bias: Float[Array, " shared"],
        theta: Float[Array, " M"],
    ) -> tuple[
        Float[Array, " M"], Float[Array, " shared"], Float[Array, "shared shared"], Int[Array, ""]
    ]:
        m = design.n_contents
        fit = fit_quality(comparisons, design, Prior(lam), hears @ bias, theta)
        middle = design.centred()

        def quality_precision(theta: Float[Array, " M"], bias: Float[Array, " shared"]) -> Array:
            at = _parameters(theta, hears @ bias, comparisons)
            information = model.score_and_information(at, middle, comparisons)[1]
            return information[:m, :m] + lam * jnp.eye(m, dtype=theta.dtype)

        theta = fit.parameters.theta
        score, information = model.score_and_information(fit.parameters, middle, comparisons)
        border, corner = information[:m, m:] @ hears, hears.T @ information[m:, m:] @ hears
        follows = -jnp.linalg.solve(quality_precision(theta, bias), border)

        def log_det_change(theta_change: Float[Array, " M"], change: Float[Array, " shared"]):
            changes = theta_change, change
            found = jax.jvp(
                lambda *at: jnp.linalg.slogdet(quality_precision(*at))[1], (theta, bias), changes
            )
            return found[1]

        ones = jnp.eye(len(bias), dtype=theta.dtype)
        gradient = hears.T @ score[m:] - jax.vmap(log_det_change)(follows.T, ones) / 2
        return theta, gradient, corner + border.T @ follows, fit.status

    return jax.vmap(one)(comparisons, design, hears, bias, theta)


def fit_quality(
    comparisons: Verdicts,
    design: Design,
    prior: Prior,
    own: Float[Array, " own"],
    theta: Float[Array, " M"],
):
    """The MAP of one pool's qualities, its (c, kappa) known; begun at theta."""
    fixed = model.variant("naive", design, n_judges(comparisons))
    return fit_map(comparisons, design, prior, fixed, start=_parameters(theta, own, comparisons))


def _parameters(theta: Array, own: Array, comparisons: Verdicts) -> Parameters:
    return Parameters.unflat(jnp.concatenate([theta, own]), len(theta), n_judges(comparisons))


@dataclass(frozen=True, eq=False)
class Silence:
    """What the verdicts of all pools are silent about, qualities unknown."""

    directions: np.ndarray
    """[owners, shared, shared] columns: null directions of the information left about the
    coefficients, or zeros. In units of `scale`."""
    scale: np.ndarray
    """[owners, shared] root of what is told of each coefficient when all else is known."""
    follows: list[np.ndarray]
    """[F, M, shared] of each part, how the qualities of a pool go with the coefficients along a
    null direction."""

    @property
    def told(self) -> np.ndarray:
        """[owners, shared] which coefficients no null direction moves."""
        return np.asarray(np.abs(self.directions).max(-1) < MOVED)


def silence(parts: Sequence[Part], n_owners: int) -> Silence:
    """What the verdicts identify: at even odds, so by who was compared with whom alone."""
    n = parts[0].hears.shape[2]
    left, alone, follows = np.zeros((n_owners, n, n)), np.zeros((n_owners, n)), []
    for part in parts:
        *sums, follow = in_chunks(lambda some: _at_even_odds(*some), part[:3], chunk(part))
        for total, each in zip((left, alone), sums, strict=True):
            np.add.at(total, part.owner, each)
        follows.append(follow)
    scale = np.sqrt(np.where(alone > 0, alone, 1))
    values, vectors = np.linalg.eigh(left / scale[:, :, None] / scale[:, None])
    return Silence(vectors * (values <= FLAT)[:, None], scale, follows)


@jax.jit
def _at_even_odds(
    comparisons: Verdicts, design: Design, hears: Array
) -> tuple[Array, Array, Array]:
    """Of every pool, the information about the coefficients at even odds: left when the qualities
    are unknown, and each coefficient's when all else is known; how the qualities follow."""

    def one(
        comparisons: Verdicts, design: Design, hears: Float[Array, "own shared"]
    ) -> tuple[Float[Array, "shared shared"], Float[Array, " shared"], Float[Array, "M shared"]]:
        m = design.n_contents
        information = model.information_at_even_odds(comparisons, design.centred())
        values, vectors = jnp.linalg.eigh(information[:m, :m])
        inverse = jnp.where(values > 1e-12 * values[-1], 1 / values, 0)
        follows = -(vectors * inverse) @ vectors.T @ (information[:m, m:] @ hears)
        # A quadratic form, in which errors of what the qualities do are squared.
        change = jnp.concatenate([follows, hears])
        alone = jnp.diagonal(hears.T @ information[m:, m:] @ hears)
        return change.T @ information @ change, alone, follows

    return jax.vmap(one)(comparisons, design, hears)
