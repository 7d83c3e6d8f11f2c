import numpy as np
import pytest
from scipy.stats import norm

from jbt import stats


def test_bootstrap_interval_of_a_mean_covers_like_the_normal_one():
    rng = np.random.default_rng(0)
    values = rng.normal(2.0, 3.0, (4, 900))
    mean, low, high = stats.mean_interval(values, seed=1)
    np.testing.assert_allclose(mean, values.mean(1))
    half = norm.ppf(0.975) * values.std(1) / 30
    np.testing.assert_allclose(high - mean, half, rtol=0.12)
    np.testing.assert_allclose(mean - low, half, rtol=0.12)


def test_rows_are_resampled_together_and_reproducibly():
    values = np.random.default_rng(1).normal(size=(1, 50))
    pair = np.concatenate([values, values + 1])
    means = stats.bootstrap_means(pair, seed=3, resamples=100)
    np.testing.assert_allclose(means[:, 1] - means[:, 0], 1.0)
    np.testing.assert_array_equal(means, stats.bootstrap_means(pair, seed=3, resamples=100))
    assert (means != stats.bootstrap_means(pair, seed=4, resamples=100)).any()


def test_smaller_studies_scatter_more():
    values = np.random.default_rng(2).normal(size=(1, 4000))
    spread = [stats.bootstrap_means(values, seed=0, size=s).std() for s in (4000, 40)]
    assert spread[1] / spread[0] == pytest.approx(10, rel=0.1)


def test_missing_results_are_left_out_of_their_mean():
    values = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    mean, _, _ = stats.mean_interval(values, seed=0)
    np.testing.assert_allclose(mean, [2, 2])
    assert np.isfinite(stats.bootstrap_means(values[1:], seed=0)).all()
    assert stats.bootstrap_means(values, seed=0, resamples=20)[:, 1].min() >= 1
    with pytest.raises(ValueError, match="no pools"):
        stats.bootstrap_means(np.zeros((2, 0)), seed=0)


def test_first_crossing():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    y = np.array(
        [
            [1, 0.5, -0.5, -1],  # once, between 1 and 2
            [1, 0, 1, -1],  # touches zero at 1: not positive there
            [-1, 1, -3, 1],  # the fall, not the rise
            [1, 1, 1, 1],
            [-1, -1, -1, -1],
            [-1, -1, 1, 1],
        ]
    )
    np.testing.assert_allclose(
        stats.first_crossing(x, y), [1.5, 1.0, 1.25, np.inf, -np.inf, np.inf]
    )
    np.testing.assert_array_equal(stats.sign_changes(y), [1, 3, 3, 0, 0, 1])


def test_crossing_interval_leaves_an_end_off_the_grid_open():
    samples = np.r_[np.linspace(0.4, 0.5, 96), [np.inf] * 4]
    low, high = stats.crossing_interval(samples)
    assert 0.4 <= low < 0.41
    assert np.isnan(high)
    assert stats.percentiles(samples)[1] == np.inf
