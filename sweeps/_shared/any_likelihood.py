"""Maximum of any likelihood over prompts, by Newton's method. All derivatives are automatic, so
that a model is its log-likelihood alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    """The parameters at the maximum; of each prompt's log-likelihood the derivatives there, with
    the prompt's own parameter at its optimum for them."""

    beta: Float[Array, " P"]
    score: Float[Array, "G P"]
    information: Float[Array, "G P P"]
    status: Int[Array, ""]


class _State(NamedTuple):
    beta: Float[Array, " P"]
    own: Float[Array, " G"]
    score: Float[Array, "G P"]
    information: Float[Array, "G P P"]
    change: Float[Array, ""]
    steps: int | Int[Array, ""]


def maximise(
    term: Callable[[Array, Array, Any], Array],
    prompts: Any,
    start: Float[Array, " P"],
    precision: Float[Array, " P"],
    own_precision: float | Array = 1.0,
) -> Maximum:
    """Maximise the sum over prompts less precision beta^2 / 2.

    Args:
      term: (beta, the prompt's own parameter, the prompt) -> its log-likelihood.
      prompts: arrays [G, ...] in any structure.
      start: where the search begins; the prior's mean is 0.
      own_precision: prior precision of each prompt's own parameter; as good as infinite, or
        whatever it is where the term does not use the parameter, for prompts that have none.
    """
    n, p = jax.tree.leaves(prompts)[0].shape[0], len(start)

    def at(both: Array, prompt: Any) -> Array:
        return term(both[:-1], both[-1], prompt) - own_precision * both[-1] ** 2 / 2

    def together(beta: Array, own: Array) -> Array:
        return jnp.concatenate([jnp.broadcast_to(beta, (n, p)), own[:, None]], axis=1)

    def objective(beta: Array, own: Array) -> Array:
        likelihood = jax.vmap(at)(together(beta, own), prompts).sum()
        return likelihood - (precision * beta**2).sum() / 2

    def step(s: _State) -> _State:
        both = together(s.beta, s.own)
        slope, curvature = (jax.vmap(d(at))(both, prompts) for d in (jax.grad, jax.hessian))
        cross, of_own = curvature[:, :-1, -1], curvature[:, -1, -1]
        score = slope[:, :-1] - cross * (slope[:, -1] / of_own)[:, None]
        outer = cross[:, :, None] * cross[:, None]
        information = outer / of_own[:, None, None] - curvature[:, :-1, :-1]
        # Absolute eigenvalues ascend even where the objective is not concave.
        values, vectors = jnp.linalg.eigh(information.sum(0) + jnp.diag(precision))
        gradient = vectors.T @ (score.sum(0) - precision * s.beta)
        values = jnp.abs(values)
        change = vectors @ (gradient / jnp.maximum(values, 1e-9 * values.max()))
        change = change * jnp.minimum(1, LONGEST / jnp.abs(change).max())
        own_change = -(slope[:, -1] + cross @ change) / of_own
        lengths = jnp.asarray(LENGTHS)
        found = jax.lax.map(
            lambda t: objective(s.beta + t * change, s.own + t * own_change), lengths
        )
        best = found.max()
        rounding = 1e-12 * jnp.abs(best)  # which must not shorten the last steps
        length = lengths[jnp.argmax(found >= best - rounding)]
        beta, own = s.beta + length * change, s.own + length * own_change
        return _State(beta, own, score, information, jnp.abs(change).max(), s.steps + 1)

    def going(s: _State) -> Array:
        return (s.change > SETTLED) & (s.steps < MAX_STEPS)

    first = start, jnp.zeros(n), jnp.zeros((n, p)), jnp.zeros((n, p, p)), jnp.asarray(jnp.inf), 0
    # Derivatives are those before the last step, which is nothing at the maximum.
    end = jax.lax.while_loop(going, step, _State(*first))
    status = jnp.where(end.change < 1e-6, Status.CONVERGED, Status.NOT_CONVERGED)
    return Maximum(end.beta, end.score, end.information, status)
