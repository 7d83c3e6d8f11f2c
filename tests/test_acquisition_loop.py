"""One block of the active loop: what it asks, what the judge answers, what the rule is shown."""

import jax
import jax.numpy as jnp
import numpy as np
from active import K, N, R, binary_task, compiled_run, view_of

from jbt import model
from jbt.acquisition import Loop, init, loop, run
from jbt.acquisition.loop import look


def test_a_fresh_covariance_is_that_of_the_posterior_with_the_verdict(x64):
    for kind in ("plain", "shared"):
        view = view_of(1, kind)
        d = view.design
        z = np.asarray(model.design_matrix(d))[4, 2]
        w = float(view.probability[4, 2] * (1 - view.probability[4, 2]))
        expected = np.linalg.inv(np.linalg.inv(view.covariance) + w * np.outer(z, z))
        four, two = jnp.array(4), jnp.array(2)
        yes = jnp.array(True)
        found = loop._after_asking(view, four, two, yes)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        same = loop._after_asking(view, four, two, ~yes)
        np.testing.assert_array_equal(same, view.covariance)


def test_stochastic_protocol_draws_anew_and_may_repeat():
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(4), i))(jnp.arange(64))

    def one(key):
        task = binary_task(jax.random.key(0), 4, frozen=False)
        settings = Loop("global_uncertainty", 2, R, "stochastic", 50)
        return run(key, task, settings, 40).queries

    q = jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(keys))
    with jax.debug_key_reuse(False):
        p = np.asarray(binary_task(jax.random.key(0), 4, frozen=False).answers)
    # Within a block the posterior is stale and the rule repeats itself; fresh verdicts differ.
    pair = np.sort(np.stack([q.first, q.second], -1), -1).reshape(64, -1, R, 2)
    assert (pair == pair[:, :, :1]).all(-1).mean() > 0.9
    asked, won = np.zeros((2, 4, 4))
    np.add.at(asked, (q.first, q.second), 1)
    np.add.at(won, (q.first, q.second), q.won)
    often = asked > 100
    assert often.sum() > 4
    error = np.sqrt(p * (1 - p) / np.maximum(asked, 1))
    assert (np.abs(won / np.maximum(asked, 1) - p) < 4 * error)[often].all()


def test_unanswered_pairs_are_not_asked():
    task = binary_task(jax.random.key(7))
    hole = np.zeros((N, N), bool)
    hole[2, :], hole[5, 1] = True, True
    answers = jnp.where(hole, jnp.nan, task.answers)
    task = type(task)(task.quality, task.design, answers, task.prior, task.variant)
    q = compiled_run(jax.random.key(1), task, Loop("random", K, R, n_samples=50), 44).queries
    assert not hole[np.asarray(q.first), np.asarray(q.second)].any()


def test_naive_inside_keeps_its_zeros():
    task = binary_task(jax.random.key(3), free=False)
    trace = compiled_run(jax.random.key(1), task, Loop("top_k_aware", K, R, n_samples=50), 12)
    assert float(trace.parameters.kappa) == 0
    assert (np.asarray(trace.parameters.c) == 0).all()


def test_fresh_normals_are_new_at_every_refit():
    task, key = binary_task(jax.random.key(3)), jax.random.key(1)
    for fresh in (False, True):
        settings = Loop("top_k_aware", K, R, n_samples=20, fresh_normals=fresh)
        with jax.debug_key_reuse(False):
            state = init(key, task, settings)
            later = type(state)(**{**vars(state), "asked": jnp.array(8)})
            one, same, other = (look(s, task, settings).membership for s in (state, state, later))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any() == fresh


def test_two_runs_do_not_share_their_normals():
    """The table is one; each run arranges it in its own way."""
    task = binary_task(jax.random.key(3))
    settings = Loop("top_k_aware", K, R, n_samples=20)
    states = [init(jax.random.key(i), task, settings) for i in (1, 2)]
    a, b = (look(s, task, settings).membership for s in states)
    assert (a != b).any()
    # Before any verdict the contents are alike: the same shares, dealt out differently, at most.
    np.testing.assert_allclose(a.sum(), b.sum(), rtol=1e-6)


def test_a_shift_of_the_covariate_changes_nothing():
    """In float32 too: only differences of covariates are compared."""
    task = binary_task(jax.random.key(3))
    settings = Loop("entropy_reduction_fresh", K, R, n_samples=100)
    d = task.design
    far = type(d)(d.covariates + 5000, None, d.item_mask, d.n_contents)
    moved = type(task)(task.quality, far, task.answers, task.prior, task.variant)
    with jax.debug_key_reuse(False):
        a, b = (compiled_run(jax.random.key(1), t, settings, 24) for t in (task, moved))
    np.testing.assert_array_equal(a.queries.first, b.queries.first)
    np.testing.assert_allclose(a.parameters.theta, b.parameters.theta, atol=1e-5)


def test_tied_pairs_are_drawn_anew_at_every_pick():
    score, available = jnp.zeros((4, 4)), ~jnp.eye(4, dtype=bool)
    salts = jax.random.bits(jax.random.key(0), (6000,), jnp.uint32)
    first, second, found = jax.vmap(lambda s: loop.choose(score, available, s))(salts)
    assert found.all()
    counts = np.zeros((4, 4))
    np.add.at(counts, (first, second), 1)
    assert (np.diag(counts) == 0).all()
    off = counts[~np.eye(4, dtype=bool)]
    assert (np.abs(off - 500) < 4 * np.sqrt(500)).all()
    best = score.at[2, 1].set(1e-3)
    assert loop.choose(best, available, salts[0])[:2] == (2, 1)
    assert not loop.choose(best, available & False, salts[0])[2]
