"""Sure stops where the best contents are nearly tied, with and without a zone of indifference."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from benchmarks.calibration import claim, grid, kept, said
from jbt.acquisition import Loop, State, Task, init, step
from jbt.acquisition.loop import look
from jbt.acquisition.stopping import certainty, top_set
from jbt.acquisition.views import View
from jbt.simulation import judges, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import Judge, Pool, Prior, ScalarLike, Variant

LEVEL = 0.95
N, BUDGET = 10, 400
"""Items of a pool; most verdicts of a run (count)."""
LOOP = Loop("entropy_reduction_fresh", 1, 4, "stochastic")
PRIOR = Prior()
MISS = "near ties: a sure stop is right on average over the prior"


def at_first_sure(
    key: Key[Array, ""], task: Task, level: ScalarLike, zone: ScalarLike
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


def stop(key: Any, condition: Condition) -> dict[str, Any]:
    """Whether a study of an unbiased judge stops sure, and whether the content that it then finds
    best is the best one, up to the zone. `gap`: by how much the best content is ahead of
    the second, logits; negative: as the prior has it."""
    gap, zone = condition["gap"], condition["zone"]
    drawn = pools.gaussian(stream(key, "pool"), N, sd=jnp.asarray(PRIOR.lam**-0.5))
    quality, (second, best) = drawn.quality, jnp.argsort(drawn.quality)[-2:]
    near = quality.at[best].set(quality[second] + gap)
    pool = Pool(jnp.where(gap < 0, quality, near), drawn.design)
    answers = judges.verdict_probability(pool, Judge(jnp.zeros(1), jnp.array(0.0)))
    variant = Variant(jnp.zeros(1, bool), jnp.array(False))
    task = Task.build(pool, answers, variant=variant, prior=PRIOR)
    view, sure = at_first_sure(stream(key, "acquisition"), task, LEVEL, zone)
    behind = pool.quality.max() - pool.quality[jnp.argmax(top_set(view))]
    stopped = sure >= LEVEL
    return {"stopped": stopped, "right": stopped & (behind <= zone)}


@claim(
    "sure stops of `jbt ask`, k = 1",
    grid(zone=[0.0, 0.2], gap=[-1.0, 0.05, 0.15, 0.25, 0.5]),
)
def stops(run, zone, gap):
    """How often a stop at a certainty of .95 is right: the best of 10 contents, fresh verdicts of
    an unbiased judge, at most 400."""
    found = simulate(stop, {"gap": np.array([gap]), "zone": np.array([zone])}, range(run.studies))
    stopped, right = (found[name].ravel() > 0 for name in ("stopped", "right"))
    setting = said(
        "qualities from the prior" if gap < 0 else f"the best two {gap:g} apart",
        f"indifferent to {zone:g} logits" if zone else "no zone",
    )
    held, miss = np.where(stopped, right, np.nan), MISS * (gap >= 0)
    more = {"nominal": LEVEL, "one_sided": True, "miss": miss}
    yield kept("jbt ask: a sure stop is right", setting, held, **more)
