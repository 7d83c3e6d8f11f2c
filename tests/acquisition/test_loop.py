"""One block of the active loop: its picks, the judge's answers, the rule's view."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.active import (
    K,
    N,
    R,
    binary_task,
    compiled_init,
    compiled_look,
)

from jbt.acquisition import Loop, choice, run


@pytest.mark.heavy
def test_stochastic_protocol_draws_verdicts_anew():
    task = binary_task(jax.random.key(0), 4, frozen=False)
    loop = Loop("random", 2, R, "stochastic", 50)
    q = jax.jit(lambda: run(jax.random.key(4), task, loop, 1200).queries)()
    pairs = np.asarray(4 * q.first + q.second)
    for pair in np.flatnonzero(~np.eye(4, dtype=bool)):
        won, p = np.asarray(q.won)[pairs == pair], task.answers.ravel()[pair]
        assert len(won) > 50
        assert abs(won.mean() - p) < 4 * np.sqrt(p * (1 - p) / len(won))


def test_two_runs_do_not_share_their_normals():
    """All runs share one table, and each arranges it in its own way."""
    task = binary_task(jax.random.key(3))
    settings = Loop("top_k_aware", K, R, n_samples=20)
    states = [compiled_init(jax.random.key(i), task, settings) for i in (1, 2)]
    a, b = (compiled_look(s, task, settings).membership for s in states)
    assert (a != b).any()
    # Before any verdict the contents are alike: each is in the top set as often as any other.
    for p in (a, b):
        assert_allclose(p, K / N, atol=0.05)


def test_tied_pairs_are_drawn_anew_at_every_pick():
    score, available = jnp.zeros((4, 4)), ~jnp.eye(4, dtype=bool)
    salts = jax.random.bits(jax.random.key(0), (6000,), jnp.uint32)
    choose = jax.jit(choice.choose)
    first, second, found = jax.jit(jax.vmap(choose, in_axes=(None, None, 0)))(
        score, available, salts
    )
    assert found.all()
    counts = np.zeros((4, 4))
    np.add.at(counts, (first, second), 1)
    assert (np.diag(counts) == 0).all()
    off = counts[~np.eye(4, dtype=bool)]
    assert (np.abs(off - 500) < 4 * np.sqrt(500)).all()
    best = score.at[2, 1].set(1e-3)
    assert choose(best, available, salts[0])[:2] == (2, 1)
    assert not choose(best, available & False, salts[0])[2]
