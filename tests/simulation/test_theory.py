import jax
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from jbt.simulation import theory


def test_uncentred_map_bias_moves_with_the_constant_of_phi(x64):
    """The closed forms of `map_bias`, for an elaboration that one item in five has."""
    rng = default_rng(4)
    n, lam, lam_b, a = 20, 0.7, 0.3, 1.5
    compiled = jax.jit(theory.map_bias, static_argnames="centred")
    x, s = (np.arange(n) < 4).astype(float), 4 / n
    phi = rng.normal(size=n)
    phi -= phi.mean()
    (c,) = compiled(phi, x[:, None], lam, lam_b, centred=True)
    below = lam * n * s + lam_b
    share = (lam * n * s * (1 - s) + lam_b) / below
    for constant, expected in (
        (-(phi - c * x).mean(), c),  # theta has mean 0
        (a, share * c + lam * n * s * a / below),
    ):
        found = compiled(phi + constant, x[:, None], lam, lam_b, centred=False)
        assert_allclose(found, [expected], rtol=1e-12)


@pytest.mark.parametrize("r", [-0.6, 0.05, 0.8333, 10.0])
def test_crossing_law_equates_the_two_correlations(r):
    rho = theory.crossing_law(r)
    naive = (1 + r * rho) / np.sqrt(1 + 2 * r * rho + r * r)
    assert naive == pytest.approx(np.sqrt(1 - rho**2), abs=1e-12)
    assert abs(theory.limit_benefit(r, rho, 1 / 6)) < 1e-8
    below, above = (theory.limit_benefit(r, rho * factor, 1 / 6) for factor in (0.9, 1.05))
    assert below > 0 > above


@pytest.mark.heavy
def test_crossing_law_of_a_bias_against_what_goes_with_quality():
    assert theory.crossing_limit(-0.3, 1 / 6, "binary") == pytest.approx(0.3, abs=1e-6)
    for r in (0.0, -1.0, -3.0):
        assert np.isnan(theory.crossing_law(r))


def test_limit_recall_against_the_bivariate_normal():
    slope, rho, top = 0.8, 0.3, 0.2
    corr = (1 + slope * rho) / np.sqrt(1 + 2 * slope * rho + slope**2)
    q = norm.ppf(top)
    both = multivariate_normal([0, 0], [[1, corr], [corr, 1]]).cdf([q, q])
    assert theory.limit_recall(slope, rho, top) == pytest.approx(both / top, abs=1e-5)
    assert theory.limit_recall(0.0, rho, top) == pytest.approx(1.0, abs=1e-6)


def test_limit_recall_of_a_binary_covariate_against_a_large_pool():
    rng = default_rng(3)
    n, rho, slope, top = 400_000, 0.4 / theory.BINARY_RHO_MAX, 1.3, 1 / 6
    theta, e = rng.normal(size=(2, n))
    x = rho * theta + np.sqrt(1 - rho**2) * e > 0
    k = round(top * n)
    best = np.argsort(-(theta + slope * x))[:k]
    found = (theta[best] >= np.sort(theta)[-k]).mean()
    expected = theory.limit_recall(slope, 0.4, top, "binary")
    assert found == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(k))
