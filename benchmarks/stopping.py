"""Certainty of the top k where runs stop: Laplace's, the exact one, and the share right.

    python -m benchmarks.stopping

Two scenarios of `sweeps.stopping`: `prior`, judges drawn from the prior of the fit, and `unbiased`,
no bias and a fit that knows. 1,000 pools of 10 items are asked about with fresh verdicts, by
`entropy_reduction_fresh` and k = 1, with a look after every 4 of at most 400. The exact posterior
is sampled by importance: draws of a t distribution (8 degrees of freedom) with the Laplace
posterior's mode and scale, weighted by posterior over proposal.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import runtime, stats
from jbt.acquisition import Loop, State, Task, init, step
from jbt.acquisition.loop import look
from jbt.acquisition.stopping import certainty, top_set
from jbt.acquisition.views import View
from jbt.kernel import model
from jbt.simulation import judges, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import Comparisons, Judge, Parameters, Prior, ScalarLike, Variant

N, POOLS, BUDGET, LEVELS = 10, 1000, 400, (0.8, 0.9, 0.95)
LOOP = Loop("entropy_reduction_fresh", 1, 4, "stochastic")
PRIOR = Prior()
DRAWS, FREEDOM = 4096, 8


def exact_certainty(key: Key[Array, ""], view: View, variant: Variant) -> dict[str, Any]:
    """P(the estimated top k is the true one) under the posterior itself, and the effective number
    of draws behind it."""
    posterior, design = view.posterior, view.design
    free = model.free_mask(variant, design)  # the others are 0
    normal, scale = jax.random.split(key)
    z = jax.random.normal(normal, (DRAWS, len(free))) * free
    t = z / jnp.sqrt(jax.random.chisquare(scale, FREEDOM, shape=(DRAWS, 1)) / FREEDOM)
    draws = (posterior.mean.flat() + t @ posterior.root) * free

    def log_posterior(beta: Float[Array, " P"]) -> Float[Array, ""]:
        parameters = Parameters.unflat(beta, N)
        counts = Comparisons(view.shown, view.wins)
        likelihood = model.log_likelihood(parameters, design, counts)
        return likelihood + model.log_prior(parameters, PRIOR)

    log_proposal = -(FREEDOM + free.sum()) / 2 * jnp.log1p((t**2).sum(1) / FREEDOM)
    weight = jax.nn.softmax(jax.vmap(log_posterior)(draws) - log_proposal)
    top, theta = top_set(view), draws[:, :N]
    least = jnp.where(top, theta, jnp.inf).min(1)
    best = jnp.where(top, -jnp.inf, theta).max(1)
    return {"exact": (weight * (least > best)).sum(), "draws": 1 / (weight**2).sum()}


def at_first_sure(
    key: Key[Array, ""], task: Task, level: ScalarLike, zone: ScalarLike = 0.0
) -> tuple[View, Array]:
    """A run at its first look with a certainty of at least this level, or at its last: the view
    and the certainty, up to a zone (logits)."""

    def view_of(state: State) -> View:
        view = look(state, task, LOOP)
        assert isinstance(view, View)
        return view

    def is_unsure(state: State) -> Array:
        return (certainty(view_of(state), zone) < level) & (state.asked < BUDGET)

    def block(state: State) -> State:
        return step(state, task, LOOP)[0]

    view = view_of(jax.lax.while_loop(is_unsure, block, block(init(key, task, LOOP))))
    return view, certainty(view, zone)


def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
    """A run at its first look with a certainty of at least the condition's level."""
    biased = condition["biased"] > 0
    spread = PRIOR.lam_b**-0.5 * condition["biased"]
    bias, position = spread * jax.random.normal(stream(key, "judge"), (2,))
    pool = pools.gaussian(stream(key, "pool"), N, sd=jnp.asarray(PRIOR.lam**-0.5))
    answers = judges.verdict_probability(pool, Judge(bias[None], position))
    task = Task.build(pool, answers, variant=Variant(biased[None], biased), prior=PRIOR)
    view, sure = at_first_sure(stream(key, "acquisition"), task, condition["level"])
    right = (top_set(view) == view.is_top(pool.quality)).all()
    out = exact_certainty(stream(key, "importance"), view, task.variant)
    return out | {"laplace": sure, "right": right, "stopped": sure >= condition["level"]}


def main() -> None:
    conditions = {"biased": np.repeat([0.0, 1.0], len(LEVELS)), "level": np.tile(LEVELS, 2)}
    with runtime.defaults():
        runtime.start()
        out = simulate(experiment, conditions, range(POOLS), chunk=50)
    print("scenario  level   runs  Laplace    exact   right        draws (5 %)")
    for i, (biased, level) in enumerate(zip(*conditions.values(), strict=True)):
        of_stops = {name: v[out["stopped"][:, i] > 0, i].astype(float) for name, v in out.items()}
        share, low, high = stats.share_interval(of_stops["right"])
        print(
            f"{'prior' if biased else 'unbiased':8s} {level:6.2f} {len(of_stops['right']):6d} "
            f"{of_stops['laplace'].mean():8.3f} {of_stops['exact'].mean():8.3f}   "
            f"{share:.3f} [{low:.3f}, {high:.3f}] {np.quantile(of_stops['draws'], 0.05):7.0f}"
        )


if __name__ == "__main__":
    main()
