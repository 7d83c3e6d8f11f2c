import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jbt.estimators import ESTIMATORS
from jbt.kernel import metrics
from jbt.simulation import judges, memory, pairs, pools, simulate
from jbt.simulation.simulate import stream
from jbt.types import Judge, Prior, Status

N = 8
ONE = {"rho": np.zeros(1)}
CONDITIONS = {"rho": np.array([0.0, 0.4, 0.8]), "k": np.array([2, 2, 3])}


def judged(key, condition):
    pool = pools.gaussian(stream(key, "pool"), N, rho=condition["rho"])
    return pool, judges.frozen_draw(stream(key, "verdicts"), pool, Judge(jnp.ones(1), 0.0))


def experiment(key, condition):
    pool, oracle = judged(key, condition)
    comparisons = judges.reveal(oracle, pairs.every_pair(pool))
    fit = ESTIMATORS["bias_aware"](comparisons, pool.design, Prior())
    recall = metrics.top_k_recall(fit.parameters.theta, pool.quality, condition["k"])
    return {"theta": fit.parameters.theta, "recall": recall, "status": fit.status}


def draws(key, condition):
    """The random part of `experiment`, which compiles quickly."""
    pool, oracle = judged(key, condition)
    return {"quality": pool.quality, "wins": oracle.sum(1)}


IDS = np.array([5, 3, 200, 0, 77, 8, 9, 10, 11, 12, 13])


def test_other_conditions_take_the_same_program():
    sim = simulate.Simulation(draws, CONDITIONS, IDS, seed=1)
    other = {"rho": np.array([0.1, -0.4, 0.5]), "k": np.array([2, 2, 3])}
    (_, out), *_ = sim.under(other).chunks()
    expected = simulate.simulate(draws, other, IDS, seed=1)
    for name in expected:
        assert_array_equal(out[name], expected[name])
    assert sim.under(other)._compiled is sim._compiled
    with pytest.raises(ValueError, match=r"condition k had .*, now has None"):
        sim.under({"rho": np.zeros(3)})


def test_batch_equals_loop():
    """Each pool by itself: no chunk, no batch, no device but the first."""
    out = simulate.simulate(experiment, CONDITIONS, IDS, seed=1)
    assert out["theta"].shape == (len(IDS), 3, N)
    assert (out["status"] == Status.CONVERGED).all()
    alone = jax.jit(experiment)
    for row, i in enumerate(IDS):
        key = jax.random.fold_in(jax.random.key(1), i)
        for column, (rho, k) in enumerate(zip(*CONDITIONS.values(), strict=True)):
            with jax.debug_key_reuse(False):
                one = alone(key, {"rho": jnp.float32(rho), "k": jnp.int32(k)})
            assert_allclose(out["theta"][row, column], one["theta"], atol=2e-5)
            assert out["recall"][row, column] == one["recall"]
    # Conditions share their pools, and float64 is for the simulation that asks for it.
    same = {"rho": np.array([0.4, 0.4])}
    drawn = simulate.simulate(draws, same, range(5), dtype="float64")
    assert drawn["quality"].dtype == "float64"
    assert_array_equal(drawn["wins"][:, 0], drawn["wins"][:, 1])


MANY = {"rho": np.linspace(0, 0.9, 130), "k": np.full(130, 2)}  # a batch is one pool
SEVERAL = np.arange(11)


def theta(pool_ids, chunk, devices):
    simulation = simulate.Simulation(experiment, MANY, pool_ids, chunk=chunk, devices=devices)
    parts = [*simulation.chunks()]
    assert max(len(part) for part, _ in parts) == min(chunk, len(pool_ids))
    return np.concatenate([out["theta"] for _, out in parts])


@pytest.mark.heavy
def test_chunk_order_and_devices_do_not_matter(tmp_path):
    base = theta(SEVERAL, 8, 2)
    # The inner batch is the same, so are the bits.
    assert_array_equal(theta(SEVERAL, 1, 1), base)
    order = np.random.default_rng(0).permutation(SEVERAL)
    assert_array_equal(theta(order, 8, 2), base[order])
    code = f"""
from jbt import runtime
runtime.start(cpu_devices=8)
import numpy, test_simulate
numpy.save({str(tmp_path / "theta.npy")!r}, test_simulate.theta(test_simulate.SEVERAL, 1000, 8))
"""
    path = os.pathsep.join(map(str, Path(__file__).parents[:3]))
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert_array_equal(np.load(tmp_path / "theta.npy"), base)


def large(key, condition):
    """10 kB of results a pool and condition: 1.3 MB a pool of `MANY`."""
    return {"many": jax.random.normal(key, (2500,)) + condition["rho"]}


@pytest.mark.parametrize(("megabytes", "most"), [(None, 12), (5, 2)])
def test_a_chunk_is_what_fits_in_memory(monkeypatch, megabytes, most):
    def run(there_is):
        monkeypatch.setattr(memory, "there_is", lambda device: there_is)
        parts = [*simulate.Simulation(large, MANY, range(12)).chunks()]
        return max(len(ids) for ids, _ in parts), np.concatenate([o["many"] for _, o in parts])

    size, numbers = run(None if megabytes is None else megabytes * 1e6 / simulate.SHARE)
    assert size == most
    assert_array_equal(numbers, run(None)[1])


def test_what_does_not_fit_in_any_chunk_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr(memory, "there_is", lambda device: 1e6)
    with pytest.raises(ValueError, match=r"2 pools x 130 .* GB .*; use fewer items") as error:
        next(simulate.Simulation(large, MANY, range(12)).chunks())
    assert "\n" not in str(error.value)


def test_a_call_sees_what_its_experiment_refers_to_now():
    """A kernel kept from an earlier call would hold the old number."""
    number = 1.0

    def experiment(key, condition):
        return {"value": number + condition["rho"]}

    for number in (1.0, 2.0):
        out = simulate.simulate(experiment, ONE, range(2))
        assert (out["value"] == number).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conditions": {"rho": np.zeros(2), "k": np.ones(3)}}, "one length"),
        ({"conditions": {"k": [2**40]}}, "condition k holds 1099511627776, which int32 does not"),
        ({"data": {"a": np.zeros(0)}}, "no data for pool 0: there are 0"),
        ({"pool_ids": np.array([0.0, 1.7])}, "pool ids must be a list of integers, got float64"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message) as error:
        simulate.Simulation(experiment, **{"conditions": CONDITIONS, "pool_ids": [0], **change})
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("default_prng_impl", "rbg"), ("threefry_partitionable", False)]
)
def test_draws_do_not_depend_on_settings_of_jax(name, value):
    expected = simulate.simulate(draws, ONE, range(3))
    with getattr(jax, name)(value):
        found = simulate.simulate(draws, ONE, range(3))
    for metric, there in expected.items():
        assert_array_equal(found[metric], there)


def test_a_setting_that_changes_draws_and_has_no_scope_is_refused():
    jax.config.update("jax_random_seed_offset", 7)
    try:
        with pytest.raises(ValueError, match="JAX_RANDOM_SEED_OFFSET is 7, which changes draws"):
            simulate.simulate(draws, ONE, range(3))
    finally:
        jax.config.update("jax_random_seed_offset", 0)


def test_a_pool_that_fails_is_flagged_and_alone():
    def sometimes_nan(key, condition):
        pool = pools.gaussian(stream(key, "pool"), N, rho=condition["rho"])
        shown = pairs.every_pair(pool)
        wins = jnp.where(pool.quality[0] > 0, jnp.nan, 0.5) * shown
        fit = ESTIMATORS["naive"](judges.Comparisons(shown, wins), pool.design, Prior())
        return {"status": fit.status, "theta": fit.parameters.theta}

    out = simulate.simulate(sometimes_nan, ONE, range(50))
    failed = out["status"][:, 0] == Status.NOT_FINITE
    assert 10 < failed.sum() < 40
    assert (out["status"][~failed] == Status.CONVERGED).all()
    assert np.isfinite(out["theta"][~failed]).all()
