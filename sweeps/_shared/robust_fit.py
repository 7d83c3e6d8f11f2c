"""Maximum a posteriori of any likelihood over prompts, with the covariance that a leaderboard has:
each prompt left out in turn (CR3, see `jbt.stats.row_jackknife`), about the estimate without the
prior's pull. All derivatives are automatic, so that a model is its log-likelihood alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jbt.types import Status, container

STEPS = 14
"""Steps of Newton's method, where the objective is concave."""
LONGEST = 1.0
"""Largest change of a parameter in a step."""
LENGTHS = (1.0, 0.5, 0.2, 0.05, 0.01, 0.0)
"""Shares of a step of which the best is taken."""


@container
class RobustFit:
    """Estimates without the prior's pull, to first order, and their covariance over prompts."""

    mode: Float[Array, " P"]
    """The maximum a posteriori itself."""
    estimate: Float[Array, " P"]
    covariance: Float[Array, "P P"]
    status: Int[Array, ""]


def robust_fit(
    log_likelihood: Callable[[Array, Any], Array],
    prompts: Any,
    start: Float[Array, " P"],
    precision: Float[Array, " P"],
    steps: int = STEPS,
) -> RobustFit:
    """Maximise the sum over prompts less precision beta^2 / 2.

    Args:
      log_likelihood: (beta, one prompt) -> nats.
      prompts: arrays [G, ...] in any structure.
      start: where the search begins; the prior's mean is 0.
      steps: of Newton's method.
    """

    def objective(beta: Array) -> Array:
        likelihood = jax.vmap(log_likelihood, (None, 0))(beta, prompts).sum()
        return likelihood - (precision * beta**2).sum() / 2

    def derivatives(beta: Array) -> tuple[Array, Array]:
        score = jax.vmap(jax.grad(log_likelihood), (None, 0))(beta, prompts)
        return score, -jax.vmap(jax.hessian(log_likelihood), (None, 0))(beta, prompts)

    def step(_: Any, at: tuple[Array, ...]) -> tuple[Array, ...]:
        beta, *_ = at
        score, information = derivatives(beta)
        gradient = score.sum(0) - precision * beta
        # Absolute eigenvalues ascend even where the objective is not concave.
        values, vectors = jnp.linalg.eigh(information.sum(0) + jnp.diag(precision))
        change = vectors @ ((vectors.T @ gradient) / jnp.maximum(jnp.abs(values), 1e-6))
        change = change * jnp.minimum(1, LONGEST / jnp.abs(change).max())
        lengths = jnp.asarray(LENGTHS)[:, None]
        best = jnp.argmax(jax.lax.map(objective, beta + lengths * change))
        # At the maximum rounding decides between the lengths.
        return beta + lengths[best] * change, score, information, jnp.abs(change).max()

    g, p = jax.tree.leaves(prompts)[0].shape[0], len(start)
    nothing = jnp.zeros((g, p)), jnp.zeros((g, p, p)), jnp.zeros(())
    # Derivatives are those before the last step, which is nothing at the maximum.
    mode, score, information, last = jax.lax.fori_loop(0, steps, step, (start, *nothing))
    inverse = jnp.linalg.inv(information.sum(0) + jnp.diag(precision))
    left_out = jnp.eye(p) - information @ inverse
    moved = jnp.linalg.solve(left_out, score[:, :, None])[:, :, 0] @ inverse
    pushed = jnp.eye(p) + inverse * precision
    covariance = (g - 1) / g * pushed @ (moved.T @ moved) @ pushed.T
    status = jnp.where(last < 1e-6, Status.CONVERGED, Status.NOT_CONVERGED)
    return RobustFit(mode, pushed @ mode, covariance, status)
