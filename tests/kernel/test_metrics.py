import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from jbt.kernel import metrics

recall = jax.jit(metrics.top_k_recall, static_argnums=2)
agreement = jax.jit(metrics.pairwise_agreement)


def recall_by_enumeration(estimate, quality, k):
    """The paper's definition, averaged over every way of breaking the estimate's ties."""
    cut = np.sort(quality)[::-1][k - 1]
    orders = np.array([*itertools.permutations(range(len(estimate)))])
    sorted_ = (np.diff(estimate[orders]) <= 0).all(1)
    return (quality[orders[sorted_, :k]] >= cut).mean()


@pytest.mark.parametrize("k", [1, 2, 4])
def test_recall_equals_enumeration(k):
    """Equal records fitted with a solver's rounding are still tied."""
    rng, rounding = default_rng(k), 1e-7 * jnp.arange(5)
    for _ in range(30):
        estimate, quality = rng.integers(0, 4, (2, 5)).astype(float)
        ours = recall(jnp.asarray(estimate) + rounding, jnp.asarray(quality), k)
        assert float(ours) == pytest.approx(recall_by_enumeration(estimate, quality, k), abs=1e-6)


def test_masks_k_traced_and_nan():
    estimate, quality = jnp.array([1.0, 2, 3, 9]), jnp.array([3.0, 2, 1, 9])
    mask = jnp.array([True, True, True, False])
    traced = jax.jit(lambda k: metrics.top_k_recall(estimate, quality, k, mask))
    assert traced(1) == 0
    assert traced(2) == 0.5
    assert jnp.isnan(recall(estimate.at[0].set(jnp.nan), quality, 1, mask))
    assert agreement(estimate, quality, mask) == 0


def test_agreement_leaves_out_true_ties_and_halves_estimated_ones():
    quality, mask = jnp.array([1.0, 1, 0]), jnp.ones(3, bool)
    assert agreement(jnp.array([5.0, -5, 0]), quality, mask) == 0.5
    assert agreement(jnp.zeros(3), quality, mask) == 0.5
    assert agreement(jnp.array([2.0, 1, 0]), quality, mask) == 1
    assert jnp.isnan(agreement(jnp.arange(3.0), jnp.zeros(3), mask))
    assert jnp.isnan(agreement(jnp.array([jnp.nan, 1, 0]), quality, mask))


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        ([3, 2, 1, 0], [2, 3, 0, 1], False),  # same two, other order
        ([3, 2, 1, 0], [3, 1, 2, 0], True),
        ([3, 2, 2, 0], [3, 0, 1, 0], False),  # a is indifferent, b is not
    ],
)
def test_top_k_differ(a, b, differ):
    a, b = jnp.array(a, float), jnp.array(b, float)
    mask = jnp.ones(4, bool)
    assert bool(metrics.top_k_differ(a, b, 2, mask)) is differ
    assert bool(metrics.top_k_differ(b, a, 2, mask)) is differ


def test_the_top_set_takes_in_what_is_tied_with_its_last_place():
    estimate, mask = jnp.array([1.0, 3, 1 + 1e-7, 0, 9]), jnp.arange(5) < 4
    for k, expected in ((1, [0, 1, 0, 0, 0]), (2, [1, 1, 1, 0, 0]), (3, [1, 1, 1, 0, 0])):
        assert_array_equal(metrics.top_set(estimate, k, mask), expected)


def test_places_to_the_boundary():
    quality = jnp.array([0.1, 3.0, 1.0, -2.0, 2.0])  # ranks 3, 0, 2, 4, 1
    assert_array_equal(metrics.boundary_distance(quality, 2, jnp.ones(5, bool)), [1, 1, 0, 2, 0])
