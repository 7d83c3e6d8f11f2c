"""Certainty of the top k where runs stop: Laplace's, the exact one, and the share right.

    python -m benchmarks.stopping

Runs of `sweeps.stopping` by `entropy_reduction_fresh`, on judges drawn from the prior of the fit.
The exact posterior is sampled by importance: draws of a t distribution (8 degrees of freedom) with
the Laplace posterior's mode and scale, weighted by posterior over proposal.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import runtime, stats, twins
from jbt.acquisition import Loop, State, Task, init, step
from jbt.acquisition.loop import look
from jbt.acquisition.stopping import certainty, top_set
from jbt.acquisition.views import View
from jbt.simulation.simulate import Condition, Experiment, Simulation, stream
from jbt.types import Variant
from sweeps._shared import truths
from sweeps.stopping import Stopping

DRAWS, FREEDOM = 4096, 8
POOLS, LEVELS = 1000, (0.8, 0.9, 0.95)


def exact_certainty(key: Key[Array, ""], view: View, task: Task) -> dict[str, Float[Array, ""]]:
    """P(the estimated top k is the true one) under the posterior itself, and the effective number
    of draws behind it."""
    posterior, design, prior, m = view.posterior, view.design, task.prior, view.design.n_contents
    parameters = jnp.arange(len(posterior.root))
    aware = task.variant.kappa > 0  # else c and kappa are 0
    free = aware | (parameters < m)
    normal, scale = jax.random.split(key)
    z = jax.random.normal(normal, (DRAWS, len(parameters))) * free
    t = z / jnp.sqrt(jax.random.chisquare(scale, FREEDOM, shape=(DRAWS, 1)) / FREEDOM)
    draws = (posterior.mean.flat() + t @ posterior.root) * free
    precision = jnp.where(parameters < m, prior.lam, prior.lam_b) * free
    owner = design.ownership() if design.content is not None else jnp.eye(design.n_items)

    def log_posterior(beta: Float[Array, " P"]) -> Float[Array, ""]:
        phi = owner @ beta[:m] + design.covariates @ beta[m:-1]
        logits = phi[:, None] - phi + beta[-1]
        likelihood = view.wins * logits - view.shown * jnp.logaddexp(0, logits)
        return likelihood.sum() - (precision * beta**2).sum() / 2

    log_proposal = -(FREEDOM + free.sum()) / 2 * jnp.log1p((t**2).sum(1) / FREEDOM)
    weight = jax.nn.softmax(jax.vmap(log_posterior)(draws) - log_proposal)
    top, theta = top_set(view), draws[:, :m]
    least = jnp.where(top, theta, jnp.inf).min(1)
    best = jnp.where(top, -jnp.inf, theta).max(1)
    return {"exact": (weight * (least > best)).sum(), "draws": 1 / (weight**2).sum()}


def experiment(s: Stopping, loop: Loop) -> Experiment:
    """Experiment: a run at its first look with a certainty of at least the condition's level."""
    blocks = -(-s.budget_of(loop.protocol) // loop.refit_every)

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        level = condition["level"]
        condition = truths.drawn_judge(key, condition)
        pool = s.drawn(key, condition)
        answers = twins.answers if loop.protocol == "frozen" else twins.probability
        free = condition["aware"] > 0
        variant = Variant(free[None], free)
        task = Task.build(pool, answers(key, pool, condition), variant=variant, prior=s.prior)

        def view_of(state: State) -> View:
            view = look(state, task, loop)
            assert isinstance(view, View)
            return view

        def block(carry: tuple[State, State, Array], _: None):
            state, kept, stopped = carry
            state = step(state, task, loop)[0]
            kept = jax.tree.map(lambda old, new: jnp.where(stopped, old, new), kept, state)
            return (state, kept, stopped | (certainty(view_of(state)) >= level)), None

        start = init(stream(key, "acquisition"), task, loop)
        (_, kept, stopped), _ = jax.lax.scan(block, (start, start, jnp.array(False)), length=blocks)
        view = view_of(kept)
        right = (top_set(view) == view.is_top(pool.quality)).all()
        out = exact_certainty(stream(key, "importance"), view, task)
        return out | {"laplace": certainty(view), "right": right, "stopped": stopped}

    return one


def measure(scenarios: tuple[str, ...], protocol: str, **fields: Any) -> None:
    """Print a line for the runs of each scenario and level that stop."""
    s = Stopping.at(scenario=scenarios, **fields).decided()
    loop = Loop("entropy_reduction_fresh", s.k, s.refit_every, protocol)
    rows = list(itertools.product(scenarios, LEVELS))
    conditions = truths.conditions([truths.TRUTHS[name] for name, _ in rows], s.prior)
    conditions["level"] = np.array([level for _, level in rows])
    simulation = Simulation(experiment(s, loop), conditions, range(POOLS), chunk=50)
    chunks = [out for _, out in simulation.chunks()]
    out = {n: np.concatenate([np.asarray(c[n]) for c in chunks]) for n in chunks[0]}
    for i, (scenario, level) in enumerate(rows):
        at = out["stopped"][:, i] > 0
        share, low, high = stats.share_interval(out["right"][at, i].astype(float))
        laplace, exact = (out[n][at, i].mean() for n in ("laplace", "exact"))
        print(
            f"{scenario:10s} {s.design:9s} {protocol:11s} {level:5.2f} {at.sum():6d} "
            f"{laplace:8.3f} {exact:8.3f}   {share:.3f} [{low:.3f}, {high:.3f}]"
            f" {np.quantile(out['draws'][at, i], 0.05):7.0f}",
            flush=True,
        )


if __name__ == "__main__":
    print(
        "scenario   design    protocol    level   runs  Laplace    exact   right        draws (5 %)"
    )
    with runtime.defaults():
        runtime.start()
        measure(("unbiased", "prior"), "stochastic")
        measure(("prior",), "frozen", design="paired")
