"""Judges whose bias goes with quality (`Judge.interaction`)."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt.simulation import judges, pools
from jbt.types import Judge
from sweeps import crossing


def pool_of(n=7, real=7, **options):
    mask = None if real == n else jnp.arange(n) < real
    return pools.gaussian(jax.random.key(3), n, rho=0.2, item_mask=mask, **options)


@pytest.mark.parametrize("real", [7, 5])
def test_logits_are_those_of_the_equation(real):
    pool, judge = pool_of(real=real), Judge.of(1.1, 0.3, 0.8, 0.6)
    q = np.asarray(pool.quality, float)
    x = np.asarray(pool.design.covariates[:, 0], float)
    q0 = q[:real].mean()  # padding does not count
    z = np.asarray(judges.verdict_logits(pool, judge))
    for i in range(real):
        for j in range(real):
            expected = 0.8 * (q[i] - q[j]) + 0.3
            expected += (1.1 + 0.6 * (q[i] - q0)) * x[i] - (1.1 + 0.6 * (q[j] - q0)) * x[j]
            np.testing.assert_allclose(z[i, j], expected, rtol=1e-5, atol=1e-5)


def test_each_covariate_has_its_own(x64):
    pool = pools.gaussian(jax.random.key(0), 6, rho=jnp.zeros(2))
    gammas = np.array([0.5, -0.2])
    both = judges.verdict_logits(pool, Judge.of([1.0, 2.0], interaction=gammas))
    parts = [
        judges.verdict_logits(pool, Judge.of([1.0, 2.0], interaction=np.where(which, gammas, 0)))
        for which in ([True, False], [False, True], [False, False])
    ]
    np.testing.assert_allclose(both, parts[0] + parts[1] - parts[2], atol=1e-6)


def test_without_it_every_draw_is_that_of_one_bias(same_key_again):
    pool, key = pool_of(30, 30), jax.random.key(1)
    plain = Judge(jnp.ones(1), 0.2, 0.7)
    for other in (Judge.of(1.0, 0.2, 0.7), Judge(jnp.ones(1), 0.2, 0.7, jnp.zeros(1))):
        for verdicts in (judges.frozen_draw, judges.frozen_argmax):
            np.testing.assert_array_equal(verdicts(key, pool, plain), verdicts(key, pool, other))


def test_a_mean_of_quality_changes_nothing(x64):
    """Quality is only known up to a constant, and c is the bias of an average item."""
    pool = pool_of()
    moved = type(pool)(pool.quality + 5.0, pool.design)
    judge = Judge.of(1.0, interaction=0.5)
    np.testing.assert_allclose(
        judges.verdict_logits(pool, judge), judges.verdict_logits(moved, judge), atol=1e-5
    )


def test_conditions_hold_it():
    of = [Judge.of(1.0, interaction=0.4), Judge.of(2.0)]
    conditions = judges.conditions(of)
    assert conditions["interaction"].tolist() == [0.4, 0.0]
    condition = {name: jnp.asarray(values[0]) for name, values in conditions.items()}
    assert judges.of_condition(condition).interaction == pytest.approx(0.4)
    del condition["interaction"]
    assert judges.of_condition(condition).interaction == 0


def test_bad_input():
    with pytest.raises(ValueError, match="interaction must be finite, got"):
        Judge.of(1.0, interaction=np.nan)
    with pytest.raises(
        ValueError, match=r"interaction must be a number or \(1,\), got shape \(2,\)"
    ):
        Judge.of(1.0, interaction=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"bias must be \[1\], got shape \(2,\)"):
        judges.verdict_logits(pool_of(), Judge.of([1.0, 1.0], interaction=1.0))


def test_the_noise_free_crossing_is_that_of_one_bias():
    of_one = crossing.Crossing()
    assert np.isfinite(of_one.crossing_limit())
    growing = dataclasses.replace(of_one, interaction=0.5)
    assert np.isnan(growing.crossing_limit())
