import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from jbt import judges, pairs, pools
from jbt.types import Design, Judge, Pool

DRAWS = 20_000


@pytest.fixture
def pool():
    quality = jnp.array([1.0, -0.5, 0.2, 0.0])
    x = jnp.array([[0.0, 1.0], [1.0, -1.0], [2.0, 0.5], [9.0, 9.0]])
    return Pool(quality, Design(x, None, jnp.array([True, True, True, False]), 4))


JUDGE = Judge(jnp.array([0.7, -0.4]), 0.3, 0.5)


def test_verdict_probability_is_equation_1(pool):
    p = np.asarray(judges.verdict_probability(pool, JUDGE))
    q, x = np.asarray(pool.quality), np.asarray(pool.design.covariates)
    for i in range(3):
        for j in range(3):
            z = 0.5 * (q[i] - q[j]) + (x[i] - x[j]) @ [0.7, -0.4] + 0.3
            assert p[i, j] == pytest.approx(expit(z), rel=1e-5)


def test_one_bias_a_covariate(pool):
    with pytest.raises(ValueError, match=r"bias must be \[2\]"):
        judges.verdict_probability(pool, Judge(jnp.ones(1), 0.0))


def test_every_pair_leaves_out_padding_and_the_diagonal(pool):
    shown = np.asarray(pairs.every_pair(pool))
    expected = np.zeros((4, 4))
    expected[:3, :3] = 1 - np.eye(3)
    np.testing.assert_array_equal(shown, expected)


def within(frequency, p, k=4.5):
    return (np.abs(frequency - p) <= k * np.sqrt(p * (1 - p) / DRAWS) + 1e-9).all()


def test_draws_have_the_judge_s_frequencies(pool, same_key_again):
    keys = jax.random.split(jax.random.key(0), DRAWS)
    p = np.asarray(judges.verdict_probability(pool, JUDGE))
    frozen = jax.vmap(lambda k: judges.frozen_draw(k, pool, JUDGE))(keys)
    assert within(np.asarray(frozen).mean(0), p)
    fresh = jax.vmap(lambda k: judges.fresh_verdict(k, jnp.asarray(p), jnp.array(2), jnp.array(1)))(
        keys
    )
    assert within(np.asarray(fresh).mean(), p[2, 1])


def test_fresh_comparisons_are_binomial(pool):
    p = judges.verdict_probability(pool, JUDGE)
    shown = pairs.every_pair(pool) * 5
    keys = jax.random.split(jax.random.key(1), DRAWS)
    wins = np.asarray(jax.vmap(lambda k: judges.fresh_comparisons(k, p, shown).wins)(keys))
    assert ((wins >= 0) & (wins <= np.asarray(shown))).all()
    error = np.abs(wins.mean(0) - np.asarray(shown * p))
    assert (error <= 4.5 * np.sqrt(5 * 0.25 / DRAWS) + 1e-9).all()
    variance = np.asarray(shown * p * (1 - p))
    np.testing.assert_allclose(wins.var(0), variance, atol=0.06)


def test_argmax_is_the_likelier_verdict_and_noise_belongs_to_the_pair(pool, same_key_again):
    key = jax.random.key(2)
    quiet = judges.frozen_argmax(key, pool, JUDGE)
    np.testing.assert_array_equal(quiet, judges.verdict_logits(pool, JUDGE) > 0)
    unbiased = Judge(jnp.zeros(2), 0.0)
    noisy = np.asarray(judges.frozen_argmax(key, pool, unbiased, pair_noise=100.0))
    off = ~np.eye(4, dtype=bool)
    # With overwhelming pair noise the two orders still name the same winner.
    assert (noisy[off] == ~noisy.T[off]).all()


def test_reveal_counts_what_was_shown(pool):
    oracle = jnp.array([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    shown = jnp.zeros((4, 4)).at[0, 1].set(3.0).at[1, 0].set(2.0)
    comparisons = judges.reveal(oracle, shown)
    assert comparisons.wins[0, 1] == 3
    assert comparisons.wins.sum() == 3


def test_choices_of_comparisons(same_key_again):
    pool = pools.paired(jax.random.key(0), 5, n_twice=2)
    every, within, across = (
        np.asarray(f(pool))
        for f in (pairs.every_pair, pairs.within_contents, pairs.across_contents)
    )
    assert (every.sum(), within.sum(), across.sum()) == (42, 4, 38)
    np.testing.assert_array_equal(within + across, every)
    assert within[0, 5] == within[5, 0] == within[1, 6] == 1
    key = jax.random.key(1)
    for share, inside in ((None, 10), (0.0, 0), (1.0, 100), (0.3, 30)):
        shown = np.asarray(pairs.choose(key, pool, 100, share))
        assert shown.sum() == 100
        assert (shown * within).sum() == inside
        assert not shown[every == 0].any()
        # As even as whole verdicts can be.
        for pairs in (within, across):
            counts = shown[pairs > 0]
            assert np.ptp(counts) <= 1
            assert (counts == np.round(counts)).all()
    none = pools.paired(jax.random.key(0), 5, n_twice=0)
    assert float(pairs.choose(key, none, 40, 0.5).sum()) == 40  # all of it goes across
    with pytest.raises(ValueError, match=r"within_share must lie in 0\.\.1, got 1\.5"):
        pairs.choose(key, pool, 100, 1.5)


def test_what_is_left_over_goes_to_every_pair_alike(pool):
    keys = jax.random.split(jax.random.key(3), DRAWS)
    pairs = pairs.every_pair(pool)
    shown = jax.vmap(lambda k: pairs.spread_evenly(k, pairs, 8))(keys)
    mean = np.asarray(shown).mean(0)[np.asarray(pairs) > 0]
    assert np.abs(mean - 8 / 6).max() < 4.5 * np.sqrt(2 / 9 / DRAWS)
