"""The sweep on stopping: where a run stops, against a plain twin; truths."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.active import N, binary_task, compiled_init, compiled_look, view_of

from jbt.acquisition import Loop, step
from jbt.acquisition.stopping import top_set
from jbt.types import Prior
from sweeps import stopping
from sweeps._shared import truths
from sweeps._shared.reliability import EDGES

LOOP = Loop("top_k_aware", 2, 4, "stochastic")
BUDGET, BLOCKS = 40, 10


@partial(jax.jit, static_argnames="loop")
def compiled_looks(key, task, loop):
    return stopping.looks(key, task, loop, BUDGET, BLOCKS)


compiled_step = jax.jit(step, static_argnames="loop")


@pytest.fixture
def run():
    """Looks of a run of 40 verdicts."""
    rng = np.random.default_rng(3)
    sure = np.round(rng.uniform(0, 0.99, BLOCKS), 2).astype(np.float32)
    right, asked = rng.integers(0, 2, BLOCKS) > 0, 4 * np.arange(1, BLOCKS + 1)
    recall = np.where(right, 1, 0.5).astype(np.float32)
    return stopping.Looks(asked, sure, sure / 2, right, recall, 0 * asked)


@pytest.mark.heavy
def test_looks_are_those_of_a_plain_loop():
    """One step after the other; certainty as the share of draws with the estimated top set. The
    run stops where this loop would."""
    task = binary_task(jax.random.key(5), N, frozen=False)
    run = jax.device_get(compiled_looks(jax.random.key(1), task, LOOP))
    state = compiled_init(jax.random.key(1), task, LOOP)
    rng = np.random.default_rng(0)
    truth = set(np.argsort(-np.asarray(task.quality))[:2].tolist())
    for t in range(BLOCKS):
        state, _ = compiled_step(state, task, LOOP)
        posterior = compiled_look(state, task, LOOP).posterior
        mean, root = np.asarray(posterior.mean.theta), np.asarray(posterior.root)[:, :N]
        # Contents with the same record are tied; then priority decides.
        top = np.lexsort((np.asarray(state.priority), mean.round(4)))[-2:]
        draws = mean + rng.standard_normal((20_000, len(root))) @ root
        sets = np.argsort(-draws, axis=1)[:, :2]
        share = (np.sort(sets, axis=1) == np.sort(top)).all(1).mean()
        assert run.asked[t] == 4 * (t + 1)
        assert run.certainty[t] == pytest.approx(share, abs=0.025)  # some .01 are the Sobol draws'
        assert run.right[t] == (set(top.tolist()) == truth)
        assert run.recall[t] == pytest.approx(len(set(top.tolist()) & truth) / 2)


def test_a_run_stops_at_its_first_look_at_the_level(run):
    levels = [*np.unique(run.certainty), 0.0, 1.0]
    for level in levels:
        reached = [t for t in range(BLOCKS) if run.certainty[t] >= level]
        out = stopping.at_first(jnp.asarray(run.certainty >= level), run)
        at = reached[0] if reached else BLOCKS - 1
        assert out["stopped"] == bool(reached)
        assert out["verdicts"] == 4 * (at + 1)
        assert out["recall"] == run.recall[at]
        expected = [run.certainty[at], run.right[at]] if reached else [np.nan, np.nan]
        np.testing.assert_array_equal([out["certainty"], out["right"]], expected)


def test_looks_without_a_new_verdict_are_not_counted(run):
    out = stopping.reliability(jax.tree.map(jnp.asarray, run))
    np.testing.assert_allclose(out["sum_certainty"].sum(), run.certainty.sum(), rtol=1e-5)
    assert out["sum_right"].sum() == run.right.sum()
    counts = np.histogram(run.certainty, EDGES)[0]
    np.testing.assert_array_equal(out["looks"], counts)
    ended = dataclasses.replace(run, asked=np.minimum(run.asked, 20))
    assert stopping.reliability(jax.tree.map(jnp.asarray, ended))["looks"].sum() == 5


def test_the_top_set_has_k_contents_where_estimates_are_tied_in_a_chain():
    """Each is tied with the next to within 1e-5, so that by priority each is above another."""
    view = view_of(92, k=1)
    chain = 0.7e-5 * jnp.arange(7, dtype=jnp.float32)
    for k in range(1, 7):
        for seed in range(20):
            priority = jax.random.permutation(jax.random.key(seed), 7).astype(jnp.float32)
            mean = dataclasses.replace(view.posterior.mean, theta=chain)
            posterior = dataclasses.replace(view.posterior, mean=mean)
            seen = dataclasses.replace(view, posterior=posterior, priority=priority, k=k)
            assert top_set(seen).sum() == k


def test_truths_as_conditions():
    names = ["prior", "naive"]
    values = truths.conditions([truths.TRUTHS[n] for n in names], Prior(4.0, 0.25))
    assert values["sd"][0] == 0.5
    assert (values["bias"][1], values["bias_sd"][1]) == (1.0, 0.0)
    keys = jax.vmap(jax.random.key)(jnp.arange(2000))
    one = {name: jnp.asarray(v[0]) for name, v in values.items()}
    drawn = jax.vmap(lambda key: truths.drawn_judge(key, one))(keys)
    for name in ("bias", "position"):  # six standard errors
        assert float(drawn[name].std()) == pytest.approx(2.0, abs=6 * 2 / 4000**0.5)


def test_each_pair_in_one_order():
    for one_order, count in ((1.0, 1), (0.0, 2)):
        condition = {"one_order": jnp.asarray(one_order)}
        allowed = np.asarray(truths.may_be_asked(jax.random.key(3), condition, 12)) * 1
        np.fill_diagonal(allowed, 0)
        assert (allowed + allowed.T == count * (1 - np.eye(12))).all()
    assert np.triu(allowed).sum() == 66
