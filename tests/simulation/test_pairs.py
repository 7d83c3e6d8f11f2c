"""Which pairs are shown: what each choice spends, and how evenly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jbt.simulation import pairs, pools

DRAWS = 20_000


@pytest.fixture
def pool():
    """Three items and padding."""
    return pools.gaussian(jax.random.key(0), 4, item_mask=jnp.arange(4) < 3)


def test_every_pair_leaves_out_padding_and_the_diagonal(pool):
    assert_array_equal(pairs.every_pair(pool), np.pad(1 - np.eye(3), (0, 1)))


@pytest.mark.heavy
def test_choices_of_comparisons(same_key_again):
    pool = pools.paired(jax.random.key(0), 5, n_twice=2)
    every, within, across = (
        np.asarray(f(pool))
        for f in (pairs.every_pair, pairs.within_contents, pairs.across_contents)
    )
    assert (every.sum(), within.sum(), across.sum()) == (42, 4, 38)
    assert_array_equal(within + across, every)
    assert within[0, 5] == within[5, 0] == within[1, 6] == 1
    key = jax.random.key(1)
    for share, inside in ((pairs.NATURAL, 10), (0.0, 0), (1.0, 100), (0.3, 30)):
        shown = np.asarray(pairs.choose(key, pool, 100, share))
        assert shown.sum() == 100
        assert (shown * within).sum() == inside
        assert not shown[every == 0].any()
        # As even as whole verdicts can be.
        for kind in (within, across):
            counts = shown[kind > 0]
            assert np.ptp(counts) <= 1
            assert (counts == np.round(counts)).all()


def test_expected_showings_are_those_of_choose_on_average(x64):
    made = pools.paired(jax.random.key(0), 5, n_twice=2)
    within, across = pairs.within_contents(made), pairs.across_contents(made)
    expected = pairs.expected(made, 100, 0.25, jnp.inf)
    assert_allclose(expected, 25 / 4 * within + 75 / 38 * across)
    limited = np.asarray(pairs.expected(made, 100, 0.25, 1))
    assert_array_equal(limited, pairs.every_pair(made))
    natural = pairs.expected(made, 42, pairs.NATURAL, jnp.inf)
    assert_allclose(natural, pairs.every_pair(made))
    assert_array_equal(pairs.expected(made, 100, 1.0, 3), 3 * within)


def test_verdicts_are_missing_at_random_with_all_their_showings(same_key_again):
    shown = 2 * (1 - jnp.eye(40))
    key = jax.random.key(5)
    left = {share: np.asarray(pairs.collected(key, shown, share)) for share in (0.3, 0.8, 1.0)}
    assert_array_equal(left[1.0], shown)
    for share, found in left.items():
        assert set(np.unique(found)) <= {0, 2}
        n = 40 * 39
        assert abs(found.sum() / 2 - share * n) <= 4 * np.sqrt(n * share * (1 - share))
    assert (left[0.3] <= left[0.8]).all()
