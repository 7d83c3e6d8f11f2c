"""The error of a calibration, carried into the predictions of a twin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from jbt import twins
from jbt.twins import CalibrationError
from jbt.twins.error import OPEN

EACH = jax.jit(jax.vmap(twins.displaced, in_axes=(0, None)))


def test_displaced_twins_are_a_step_away_on_either_side():
    keys = jax.random.split(jax.random.key(0), 400)
    given = {name: jnp.float32(v[0]) for name, v in twins.conditions([twins.twin("llama")]).items()}
    (up, steps), (down, _) = (EACH(keys, given | {"displaced": way}) for way in twins.DISPLACED)
    for i, name in enumerate(twins.PARAMETERS):
        assert_allclose(up[name], given[name] + steps[:, i], rtol=1e-5)
        assert_allclose(down[name], given[name] - steps[:, i], rtol=1e-5)
    assert_allclose(np.abs(steps).std(0), 0, atol=1e-5)
    signs = np.sign(steps)
    assert (np.abs(signs.T @ signs / 400 - np.eye(3)) < 4 / np.sqrt(400)).all()


def test_the_mean_goes_where_the_targets_are_met_as_far_as_the_tolerance_goes():
    targets = np.array([[1.0, 1.2], [0.1, 0.1], [0.5, 0.7]])
    aim = np.array([1.13, 0.1, 0.9])
    own = CalibrationError(targets, aim, 10, np.ones((3, 2)), np.eye(3))
    weights = np.array([1.0, 0.0, 2.0, 0.0, 0.0, 0.0])
    # c_hat is met 0.03 further on; the recall, 0.3 further on, is beyond a tolerance of 0.02.
    assert own.carried(np.zeros(2), weights).mean() == pytest.approx(0.03 + 2 * 0.02)
    expected = 0.005 / np.sqrt(3) * np.sqrt(5)
    assert CalibrationError.blur(weights) == pytest.approx(expected)


def test_what_no_target_tells_stays_as_open_as_before_the_calibration():
    """Pools that are all perfect, in which the naive recall says nothing of the discrimination."""
    rng = default_rng(0)
    targets = np.stack([0.1 * rng.normal(size=400), 0.1 * rng.normal(size=400), np.ones(400)])
    slopes = np.array([[0.0, 0.4, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    own = CalibrationError(targets, np.ones(3), 10, np.eye(3), slopes)
    deviation = np.sqrt(np.diag(own.covariance()))
    expected = [OPEN, 0.1 / np.sqrt(10) / 0.4, 0.1 / np.sqrt(10) / 0.5]
    assert_allclose(deviation, expected, rtol=0.1)
    up = np.array([0.1, 0.2, 0.3])
    weights = own.weights(up, -up)
    assert_allclose(weights[:3], [0.2 / 0.4, 0.3 / 0.5, 0.0], rtol=0.01)
    assert CalibrationError.blur(weights) == pytest.approx(OPEN * 0.1, rel=0.02)


def test_pools_without_a_number_are_left_out_of_slopes():
    steps = 0.1 * default_rng(0).choice([-1.0, 1.0], size=(3, 40))
    up = np.array([2.0, 0.0, -1.0]) @ np.sign(steps)
    up[3] = np.nan
    assert_allclose(twins.slopes(up, -up, steps), [2, 0, -1], atol=1e-12)
