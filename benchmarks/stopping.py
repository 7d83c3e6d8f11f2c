"""Runs of the active loop up to the first look at which they are sure of the top k.

Pools of 10 items are asked about with fresh verdicts, by `entropy_reduction_fresh` and k = 1, with
a look after every 4 of at most 400.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Key

from jbt.acquisition import Loop, State, Task, init, step
from jbt.acquisition.loop import look
from jbt.acquisition.stopping import certainty
from jbt.acquisition.views import View
from jbt.types import Prior, ScalarLike

N, BUDGET = 10, 400
LOOP = Loop("entropy_reduction_fresh", 1, 4, "stochastic")
PRIOR = Prior()


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
