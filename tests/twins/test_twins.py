import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jbt import twins
from jbt.simulation import judges, pools
from jbt.simulation.judges import PUBLISHED
from jbt.simulation.simulate import Simulation
from jbt.twins import calibration


def test_every_judge_has_its_twins():
    found = twins.read()
    assert len(twins.known()) == 16
    assert found.keys() == {
        (name, oracle, others)
        for name in twins.known()
        for oracle in twins.ORACLES
        for others in pools.OTHERS
    }
    for each in found.values():
        assert (each.pair_noise > 0) == each.argmax == (each.oracle == "argmax")


def test_twins_of_the_biased_judges_meet_their_targets():
    for (name, oracle, others), each in twins.read().items():
        published = twins.known()[name]
        if published.group == "biased":
            assert each.misses(published) == [], (name, oracle, others)
    # Whose recall of 0.12 is below chance: without a word of quality it is 1/6.
    assert twins.twin("coder").misses(PUBLISHED["coder"]) == ["naive_recall"]


def test_what_a_twin_misses():
    each, published = twins.twin("llama"), PUBLISHED["llama"]
    off = dataclasses.replace(each, c_hat=published.c_hat + 0.051, naive_recall=0.5 - 0.019)
    assert off.misses(published) == ["c_hat"]
    assert dataclasses.replace(each, kappa_hat=np.nan).misses(published) == ["kappa_hat"]


@pytest.fixture(scope="module")
def answered():
    """Pool, and the verdicts and probabilities of four judges on it."""
    pool = jax.jit(twins.paper_pool())(jax.random.key(1), {})
    llama = twins.twin("llama")
    double = {
        name: 2 * getattr(llama, name)
        for name in ("discrimination", "bias", "position", "pair_noise")
    }
    every = [
        llama,
        dataclasses.replace(llama, **double),
        twins.twin("llama", oracle="draws"),
        dataclasses.replace(llama, oracle="draws"),
    ]
    key = jax.random.key(2)
    both = jax.jit(
        jax.vmap(lambda c: (twins.answers(key, pool, c), twins.probability(key, pool, c)))
    )
    found = both(jax.tree.map(jnp.asarray, twins.conditions(every)))
    return pool, every, *map(np.asarray, found)


def test_an_argmax_judge_says_what_is_likelier_whatever_its_unit(answered):
    _, _, verdicts, probability = answered
    off = ~np.eye(30, dtype=bool)
    assert_array_equal(verdicts[0][off], (probability[0] > 0.5)[off])
    assert_array_equal(verdicts[0], verdicts[1])
    assert (np.abs(probability[1] - 0.5) >= np.abs(probability[0] - 0.5) - 1e-6).all()


def test_a_judge_who_draws_has_no_pair_noise(answered):
    pool, every, _, probability = answered
    own = judges.verdict_probability(pool, every[2].judge)
    assert_allclose(probability[2], own, rtol=1e-5)


def test_an_open_judge_is_uncertain_of_as_many_pairs_as_the_paper_s(answered):
    """Expected over pools; of one pool within what pools differ by."""
    p = answered[3][0][~np.eye(30, dtype=bool)]
    assert ((p > 0.2) & (p < 0.8)).mean() == pytest.approx(twins.UNCERTAIN, abs=0.08)


@pytest.mark.heavy
def test_calibration_finds_a_judge_again():
    """Targets made by a judge of our own, on the very pools: its coefficients are found."""
    own = {"discrimination": 0.3, "bias": 1.2, "position": -0.7}
    true = dataclasses.replace(twins.twin("llama", oracle="draws"), **own)
    experiment = calibration._observed(twins.paper_pool())
    one = Simulation(experiment, twins.conditions([true]), range(64))
    means = {k: float(v.mean()) for k, v in next(one.chunks())[1].items()}
    target = dataclasses.replace(PUBLISHED["llama"], oracle="draws", **means)
    (found,) = twins.calibrate([target], n_pools=64, rounds=6)
    assert found.misses(target) == []
    for name, tolerance in (("discrimination", 0.045), ("bias", 0.05), ("position", 0.05)):
        assert getattr(found, name) == pytest.approx(own[name], abs=tolerance)
    assert found.bias_aware_recall == pytest.approx(means["bias_aware_recall"], abs=0.03)
