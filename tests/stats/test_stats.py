import functools

import numpy as np
import pytest
import scipy.stats
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, permutation_test

from jbt import stats
from jbt.stats import bootstrap, permutation


def test_bootstrap_of_means():
    rng = default_rng(0)
    values = rng.normal(2.0, 3.0, (4, 900))
    mean, low, high = stats.mean_interval(values, seed=1)
    assert_allclose(mean, values.mean(1))
    half = norm.ppf(0.975) * values.std(1) / 30
    assert_allclose([high - mean, mean - low], [half, half], rtol=0.12)
    # Rows are resampled together and reproducibly, and smaller studies scatter more.
    pair = np.stack([values[0], values[0] + 1])
    means, same, few = (
        stats.bootstrap_means(pair, seed=3, resamples=1000, size=size) for size in (900, 900, 9)
    )
    assert_allclose(means[:, 1] - means[:, 0], 1.0)
    assert_array_equal(means, same)
    assert few.std(0) / means.std(0) == pytest.approx(10, rel=0.15)


def test_which_interval_a_mean_has_depends_on_how_many_pools_there_are():
    values = default_rng(3).normal(size=(5, 40))
    values[0, 1:], values[1, 4:], values[2, 5:], values[3, 29:] = (np.nan,) * 4
    mean, low, high = stats.mean_interval(values, seed=0)
    assert_allclose(mean, np.nanmean(values, -1))
    few = stats.student_interval(values)[1:]
    many = np.quantile(stats.bootstrap_means(values, seed=0), [0.025, 0.975], axis=0)
    for ends, t, percentile in zip((low, high), few, many, strict=True):
        assert_allclose(ends, [np.nan, np.nan, *t[2:4], percentile[4]], rtol=1e-12)
    theirs = scipy.stats.ttest_1samp(values[2, :5], 0).confidence_interval()
    assert_allclose([low[2], high[2]], theirs, rtol=1e-12)
    assert np.isnan(stats.mean_interval(np.full((1, 6), 0.2), seed=0)[1:]).all()  # all alike


def test_percentiles_of_few_units_are_as_wide_as_students_t():
    rng = default_rng(4)
    for n in (5, 12):
        samples = rng.normal(0, np.sqrt((n - 1) / n), 400_000)  # resampled means have divisor n
        low, high = stats.percentiles(samples, n_units=n)
        assert_allclose([-low, high], scipy.stats.t(n - 1).ppf(0.975), rtol=0.05)
    assert np.isnan(stats.percentiles(samples, n_units=4)).all()
    assert np.isnan(stats.crossing_interval(samples, n_units=4)).all()
    assert stats.percentiles(samples, n_units=30) == stats.percentiles(samples)


def test_the_interval_of_a_bounded_mean_covers_where_most_pools_are_at_an_end():
    """Recall near 1: three pools of four have found all, some 95 %, a few nothing. Student's t
    covers .37 to .79 of these."""
    rng, studies = default_rng(5), 3000
    mean = 0.8 + 0.15 * 0.95
    for n in (5, 8, 10, 30, 100):
        u = rng.random((studies, n))
        values = np.select([u < 0.8, u < 0.95], [1.0, 0.95], 0.0)
        _, low, high = stats.bounded_interval(values)
        covered = (low <= mean) & (mean <= high)
        assert covered.mean() >= 0.95 - 0.01 - 4 * np.sqrt(0.95 * 0.05 / studies)
        assert ((low >= 0) & (high <= 1)).all()
    # In many pools it is Student's t.
    values = rng.beta(2, 2, 2000)
    assert_allclose(stats.bounded_interval(values), stats.student_interval(values), atol=3e-4)
    assert np.isnan(stats.bounded_interval(np.ones(4))[1:]).all()


def test_the_largest_increase_of_a_curve():
    x = np.arange(6.0)
    pools = default_rng(5).normal(size=(1, 400))
    falling = (10 - x - 0.1 * x**2)[:, None]
    assert_allclose(stats.largest_increase(falling + pools, seed=0), [-1.1] * 3)
    noise = default_rng(6).normal(size=(6, 400))
    bump = falling + noise
    bump[3] += 3
    mean, low, high = stats.largest_increase(bump, seed=0)
    assert mean == pytest.approx(np.diff(bump.mean(1)).max())
    assert 0 < low < 1.5 < high  # 3 - 1 - 0.1 (9 - 4)
    assert high - mean == pytest.approx(mean - low, rel=0.2)
    # Wider than for a step on its own, as five are looked at.
    assert high - mean > 1.2 * 1.96 * np.sqrt(2 / 400)


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
    assert_allclose(stats.first_crossing(x, y), [1.5, 1.0, 1.25, np.inf, -np.inf, np.inf])
    # An end of the interval off the grid is open.
    samples = np.r_[np.linspace(0.4, 0.5, 96), [np.inf] * 4]
    low, high = stats.crossing_interval(samples)
    assert 0.4 <= low < 0.41
    assert np.isnan(high)
    assert stats.percentiles(samples)[1] == np.inf


def test_exact_permutation_is_scipys_enumeration():
    """Of integers, as recalls are multiples of a fifth: rounding in float32 must neither add to the
    extreme patterns nor take away."""
    eighths = default_rng(5).integers(-8, 12, (40, 10))
    found = stats.paired_permutation((eighths / 40).astype(np.float32), seed=0)
    options = {"permutation_type": "samples", "n_resamples": np.inf, "axis": -1}
    assert_allclose(found, permutation_test((eighths,), np.sum, **options).pvalue)


def test_holm_and_what_is_undefined():
    p = np.array([[0.01, 0.04, 0.03], [0.5, 0.001, 0.6]])
    assert_allclose(stats.holm(p), [[0.03, 0.06, 0.06], [1.0, 0.003, 1.0]])
    assert_array_equal(stats.holm(np.array([0.01, np.nan])), [0.02, np.nan])
    d = np.zeros((2, 30))
    d[1, 4] = np.nan
    assert_array_equal(stats.paired_permutation(d, seed=0), [1, np.nan])


def test_twenty_pools_are_enumerated(monkeypatch):
    """Against the counts of sums of lattice differences, a convolution of the pools' own."""
    fifths = default_rng(9).integers(-2, 5, (3, 20))
    monkeypatch.setattr(permutation, "MOST_SUMS", 100_000)  # in several pieces
    found = stats.paired_permutation(fifths / 5, seed=0)
    for row, p in zip(fifths, found, strict=True):
        # Ways to be so far above the least sum, -sum |d|: by 0 or by 2 |d| for each pool.
        ways = functools.reduce(np.convolve, [np.bincount([0, 2 * abs(d)]) for d in row])
        sums = np.arange(len(ways)) - abs(row).sum()
        assert p == ways[abs(sums) >= abs(row.sum())].sum() / 2**20
    drawn = stats.paired_permutation(np.ones(21), seed=0)
    assert drawn == pytest.approx(1e-4)


def test_drawn_permutations_agree_with_the_normal_limit():
    rng = default_rng(1)
    d = rng.normal(0.05, 1, (3, 400))
    p = stats.paired_permutation(d, seed=2)
    z = d.mean(1) / np.sqrt((d**2).mean(1) / 400)
    expected = 2 * norm.sf(np.abs(z))
    error = np.sqrt(expected * (1 - expected) / stats.PERMUTATIONS)
    assert (np.abs(p - expected) < 4 * error + 0.005).all()


def test_power_of_small_studies_is_the_share_of_their_p_values():
    rng = default_rng(4)
    nothing, much = rng.normal(0, 1, 1000), rng.normal(3, 1, 1000)
    delta = np.stack([nothing, much])
    power = stats.small_study_power(delta, size=10, seed=0)
    p = stats.small_study_p(delta, size=10, seed=0, replace=False)
    assert p.min() >= 2 / 2**10
    assert_allclose(power, (p < 0.05).mean(0))
    # Five pools cannot be significant: the smallest p is 2/32.
    five = np.stack([much] * 5)
    assert (stats.small_study_power(five, size=5, seed=0) == 0).all()


def test_blocks_of_pools_scatter_as_pools_do(monkeypatch):
    values = default_rng(6).normal(1, 2, (2, 3000))
    values[0, ::7] = np.nan
    whole = stats.bootstrap_means(values, seed=0)
    monkeypatch.setattr(bootstrap, "MOST_BLOCKS", 1000)
    blocks = stats.bootstrap_means(values, seed=0)
    # Standard errors of 2,000 resamples: of a mean 1/45 of its spread, of a spread 1/63.
    spread = whole.std(0)
    assert_allclose(blocks.mean(0), np.nanmean(values, 1), atol=4 * spread.max() / 45)
    assert_allclose(blocks.std(0) / spread, 1, atol=0.1)


def test_studies_have_fresh_pools_at_every_point_or_the_same():
    values = np.tile(default_rng(7).normal(size=500), (3, 1))
    same = stats.study_means(values, seed=0, size=20, same_pools=True)
    fresh = stats.study_means(values, seed=0, size=20)
    assert_array_equal(same[:, 0], same[:, 2])
    assert abs(np.corrcoef(fresh.T)[0, 1]) < 4 / stats.REPLICATES**0.5


def test_means_over_seeds_scatter_as_those_of_another_number_of_seeds():
    rng, pools = default_rng(8), 20_000
    values = 1 + rng.normal(0, 0.3, pools) + rng.normal(0, 0.6, (4, pools))
    for seeds in (1, 8):
        like = stats.with_seeds(values, seeds)
        assert like.mean() == pytest.approx(values.mean(), rel=1e-12)
        expected = 0.3**2 + 0.6**2 / seeds
        assert like.var() == pytest.approx(expected, rel=0.05)  # 4 standard errors: 0.04
    for unchanged in (stats.with_seeds(values, None), stats.with_seeds(values, 4)):
        assert_array_equal(unchanged, values.mean(0))


def test_intervals_of_shares_are_scipys():
    for n, ones in ((60, 0), (17, 5)):
        for method in ("exact", "wilson"):
            interval = scipy.stats.binomtest(ones, n).proportion_ci(method=method)
            found = stats.count_interval(ones, n, method=method)
            assert_array_equal(found, (ones / n, *interval))
        exact = stats.share_interval(np.append(np.arange(n) < ones, np.nan))
        assert_array_equal(exact, stats.count_interval(ones, n))


def test_a_clustered_share_of_single_units_is_wilsons_at_one_unit_less():
    """And copies of a unit, or a cluster without any, do not count."""
    n, p = 40, 0.3
    z, t = norm.ppf(0.975), scipy.stats.t(n - 1).ppf(0.975)
    won = np.repeat([1.0, 0.0], [12, 28])
    alone = stats.clustered_share(won, np.ones(n))
    m = (n - 1) * (z / t) ** 2  # leaving out each in turn estimates p (1 - p) / (n - 1)
    middle = (p + z * z / (2 * m)) / (1 + z * z / m)
    half = z / (1 + z * z / m) * np.sqrt(p * (1 - p) / m + z * z / (4 * m * m))
    assert_allclose(alone, (p, middle - half, middle + half), rtol=1e-12)
    assert_allclose(stats.clustered_share(9 * won, np.full(n, 9.0)), alone)
    assert stats.clustered_share(np.append(won, 0.0), np.append(np.ones(n), 0.0)) == alone
    # It has an interval from ten clusters on: as of 10 units, not of 500.
    share, low, high = stats.clustered_share(np.ones(9), np.full(9, 2.0))
    assert share == 0.5
    assert np.isnan([low, high]).all()
    assert 0.25 < stats.clustered_share(np.zeros(10), np.full(10, 50.0))[2] < 0.45
