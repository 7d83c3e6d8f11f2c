"""Sure stops where the best contents are nearly tied, with and without a zone of indifference."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.calibration import claim, grid, kept
from jbt.acquisition import Loop, Task, init, step
from jbt.acquisition.loop import look
from jbt.acquisition.stopping import certainty, top_set
from jbt.simulation import judges, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import Judge, Pool, Variant

LEVEL = 0.95
N, BUDGET = 10, 400
"""Items of a pool; most verdicts of a run (count)."""
LOOP = Loop("entropy_reduction_fresh", 1, 4, "stochastic")


def stop(key: Any, condition: Condition) -> dict[str, Any]:
    """Whether a study of an unbiased judge stops sure, and whether the content that it then finds
    best is the best one, up to the zone. `gap`: by how much the best content is ahead of
    the second, logits; negative: as the prior has it."""
    gap, zone = condition["gap"], condition["zone"]
    drawn = pools.gaussian(stream(key, "pool"), N, sd=1.0)
    quality, (second, best) = drawn.quality, jnp.argsort(drawn.quality)[-2:]
    near = quality.at[best].set(quality[second] + gap)
    pool = Pool(jnp.where(gap < 0, quality, near), drawn.design)
    answers = judges.verdict_probability(pool, Judge(jnp.zeros(1), jnp.array(0.0)))
    variant = Variant(jnp.zeros(1, bool), jnp.array(False))
    task = Task.build(pool, answers, variant=variant)

    def seen(state):
        """The certainty, and the content found best."""
        view: Any = look(state, task, LOOP)
        return certainty(view, zone), jnp.argmax(top_set(view))

    def block(state):
        return step(state, task, LOOP)[0]

    def is_unsure(state):
        return (seen(state)[0] < LEVEL) & (state.asked < BUDGET)

    start = block(init(stream(key, "acquisition"), task, LOOP))
    sure, found = seen(jax.lax.while_loop(is_unsure, block, start))
    behind = pool.quality.max() - pool.quality[found]
    stopped = sure >= LEVEL
    return {"stopped": stopped, "right": stopped & (behind <= zone)}


@claim(
    "sure stops of `jbt ask`, k = 1",
    grid(zone=[0.0, 0.2], gap=[-1.0, 0.05, 0.15, 0.25, 0.5]),
)
def stops(rng, studies, zone, gap):
    """How often a stop at a certainty of .95 is right: the best of 10 contents, fresh verdicts of
    an unbiased judge, at most 400.

    Args:
      zone: of indifference, logits.
      gap: between the best two contents, logits; negative: as the prior has it.
    """
    found = simulate(stop, {"gap": np.array([gap]), "zone": np.array([zone])}, range(studies))
    stopped, right = (found[name].ravel() > 0 for name in ("stopped", "right"))
    miss = "near ties: a sure stop is right on average over the prior" * (gap >= 0)
    held = np.where(stopped, right, np.nan)
    yield kept("a sure stop is right", held, nominal=LEVEL, one_sided=True, miss=miss)
