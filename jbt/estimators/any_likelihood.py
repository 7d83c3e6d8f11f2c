"""Maximum of any likelihood over clusters (prompts, say), by Newton's method, and its covariance.
All derivatives are automatic, so that a model is the log-likelihood of a cluster alone. It runs in
`jax.jit` and `jax.vmap`; for few parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jbt.types import Status, container

MAX_STEPS = 60
LONGEST = 1.0
"""Largest change of a parameter in a step."""
LENGTHS = (1.0, 0.5, 0.2, 0.05, 0.01, 0.0)
"""Shares of a step of which the best is taken."""
SETTLED = 1e-10
"""Largest change of a parameter in the last step."""


@container
class Maximum:
    """The parameters at the maximum, and derivatives of each cluster's log-likelihood there."""

    beta: Float[Array, " P"]
    score: Float[Array, "G P"]
    information: Float[Array, "G P P"]
    inverse: Float[Array, "P P"]
    """Of the information of all clusters and the prior."""
    precision: Float[Array, " P"]
    """Of the prior."""
    status: Int[Array, ""]

    @property
    def influence(self) -> Float[Array, "G P"]:
        """How much each cluster moves the maximum, to first order."""
        return self.score @ self.inverse

    def unpulled(self) -> tuple[Float[Array, " P"], Float[Array, "P P"]]:
        """The parameters without the pull of the prior, to first order, and their covariance over
        clusters, each left out in turn (CR3: Bell and McCaffrey 2002; see
        `jbt.stats.row_jackknife`)."""
        n, eye = len(self.score), jnp.eye(len(self.beta))
        left_out = eye - self.information @ self.inverse
        moved = jnp.linalg.solve(left_out, self.score[:, :, None])[:, :, 0] @ self.inverse
        pushed = eye + self.inverse * self.precision
        return pushed @ self.beta, (n - 1) / n * pushed @ (moved.T @ moved) @ pushed.T


def log_likelihood(z: Float[Array, "..."], share: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log-likelihood of shares of a win at logits z, a tie being half a win."""
    return share * jax.nn.log_sigmoid(z) + (1 - share) * jax.nn.log_sigmoid(-z)


def maximise(
    term: Callable[[Array, Any], Array],
    clusters: Any,
    precision: Float[Array, " P"],
) -> Maximum:
    """Maximise the sum over clusters less precision beta^2 / 2, from 0 on.

    Args:
      term: (beta, a cluster) -> its log-likelihood.
      clusters: arrays [G, ...] in any structure.
      precision: of the normal prior of each parameter.

    Returns:
      The maximum; its status is NOT_CONVERGED where the last of `MAX_STEPS` steps still moved a
      parameter by 1e-6 or more. Where the sum has several maxima, it is the one found from 0.
    """

    def of_clusters(function: Callable[..., Any], beta: Array) -> Array:
        return jax.vmap(function, in_axes=(None, 0))(beta, clusters)

    def objective(beta: Array) -> Array:
        return of_clusters(term, beta).sum() - (precision * beta**2).sum() / 2

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        beta, _, steps = state
        curvature = jnp.diag(precision) - of_clusters(jax.hessian(term), beta).sum(0)
        # Absolute eigenvalues ascend even where the objective is not concave.
        values, vectors = jnp.linalg.eigh(curvature)
        gradient = vectors.T @ (of_clusters(jax.grad(term), beta).sum(0) - precision * beta)
        values = jnp.abs(values)
        change = vectors @ (gradient / jnp.maximum(values, 1e-9 * values.max()))
        change = change * jnp.minimum(1, LONGEST / jnp.abs(change).max())
        lengths = jnp.asarray(LENGTHS)
        found = jax.lax.map(lambda t: objective(beta + t * change), lengths)
        best = found.max()
        rounding = 1e-12 * jnp.abs(best)  # which must not shorten the last steps
        length = lengths[jnp.argmax(found >= best - rounding)]
        return beta + length * change, jnp.abs(change).max(), steps + 1

    def going(state: tuple[Array, Array, Array]) -> Array:
        return (state[1] > SETTLED) & (state[2] < MAX_STEPS)

    first = jnp.zeros_like(precision), jnp.asarray(jnp.inf), jnp.asarray(0)
    beta, change, _ = jax.lax.while_loop(going, step, first)
    status = jnp.where(change < 1e-6, Status.CONVERGED, Status.NOT_CONVERGED)
    score, information = of_clusters(jax.grad(term), beta), -of_clusters(jax.hessian(term), beta)
    inverse = jnp.linalg.inv(information.sum(0) + jnp.diag(precision))
    return Maximum(beta, score, information, inverse, precision, status)
