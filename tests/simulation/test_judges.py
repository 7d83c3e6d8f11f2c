"""Verdicts of simulated judges, whose bias may go with quality; and the paper's table of judges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import norm, spearmanr, ttest_1samp

from jbt.simulation import judges, pairs
from jbt.types import Design, Judge, Pool

DRAWS = 20_000


@pytest.fixture
def pool():
    """Three items with two covariates, and padding."""
    quality = jnp.array([1.0, -0.5, 0.2, 0.0])
    x = jnp.array([[0.0, 1.0], [1.0, -1.0], [2.0, 0.5], [9.0, 9.0]])
    return Pool(quality, Design(x, None, jnp.array([True, True, True, False]), 4))


JUDGE = Judge(jnp.array([0.7, -0.4]), 0.3, 0.5)


@pytest.mark.parametrize("interaction", [0.0, 0.6, np.array([0.5, -0.2])])
def test_verdicts_are_those_of_the_equation(pool, interaction, same_key_again):
    judge = Judge.of([0.7, -0.4], 0.3, 0.5, interaction)
    q, x = np.asarray(pool.quality)[:3], np.asarray(pool.design.covariates)[:3]
    bias = np.array([0.7, -0.4]) + interaction * (q - q.mean())[:, None]  # padding does not count
    phi = 0.5 * q + (x * bias).sum(1)
    logits = np.asarray(judges.verdict_logits(pool, judge))
    expected = phi[:, None] - phi + 0.3
    assert_allclose(logits[:3, :3], expected, rtol=1e-5, atol=1e-6)
    p = judges.verdict_probability(pool, judge)
    assert_allclose(p[:3, :3], expit(expected), rtol=1e-5)
    # A constant of quality changes nothing: c is the bias of an average item.
    moved = Pool(pool.quality + 5.0, pool.design)
    assert_allclose(judges.verdict_logits(moved, judge)[:3, :3], expected, atol=1e-5)
    # A Thurstone judge has noise of the logistic's variance.
    probit = np.asarray(judges.verdict_probability(pool, judge, link="probit"))
    assert_allclose(probit, norm(scale=np.pi / np.sqrt(3)).cdf(logits), rtol=1e-5)
    key = jax.random.key(4)
    u = jax.random.uniform(key, probit.shape, probit.dtype)
    assert_array_equal(judges.frozen_draw(key, pool, judge, link="probit"), u < probit)
    assert_array_equal(judges.frozen_argmax(key, pool, judge), logits > 0)


def within(frequency, p, k=4.5):
    return (np.abs(frequency - p) <= k * np.sqrt(p * (1 - p) / DRAWS) + 1e-9).all()


@pytest.mark.heavy
def test_draws_have_the_judge_s_frequencies(pool, same_key_again):
    keys = jax.random.split(jax.random.key(0), DRAWS)
    p = np.asarray(judges.verdict_probability(pool, JUDGE))
    draw = jax.vmap(judges.fresh_verdict, in_axes=(0, None, None, None))
    fresh = draw(keys, jnp.asarray(p), jnp.array(2), jnp.array(1))
    assert within(np.asarray(fresh).mean(), p[2, 1])
    # So it makes no difference whether a frozen answer of 0 or 1 is drawn or taken.
    certain = jnp.array([[0.0, 1.0], [0.0, 1.0]])
    for first in (0, 1):
        found = draw(keys, certain, jnp.array(first), jnp.array(1 - first))
        assert (found == 1 - first).all()


def test_fresh_comparisons_are_binomial(pool):
    p = judges.verdict_probability(pool, JUDGE)
    shown = pairs.every_pair(pool) * 5
    keys = jax.random.split(jax.random.key(1), DRAWS)
    wins = np.asarray(jax.jit(jax.vmap(lambda k: judges.fresh_comparisons(k, p, shown).wins))(keys))
    assert ((wins >= 0) & (wins <= shown)).all()
    assert_allclose(wins.mean(0), shown * p, atol=4.5 * np.sqrt(5 * 0.25 / DRAWS) + 1e-9)
    assert_allclose(wins.var(0), shown * p * (1 - p), atol=0.06)


def test_noise_belongs_to_the_pair_and_what_is_revealed_is_what_was_shown(pool):
    unbiased = Judge(jnp.zeros(2), 0.0)
    noisy = judges.frozen_argmax(jax.random.key(2), pool, unbiased, pair_noise=100.0)
    off = ~np.eye(4, dtype=bool)
    # With overwhelming pair noise the two orders still name the same winner.
    assert (noisy[off] == ~noisy.T[off]).all()
    oracle = jnp.array([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    comparisons = judges.reveal(oracle, jnp.zeros((4, 4)).at[0, 1].set(3.0).at[1, 0].set(2.0))
    assert comparisons.wins[0, 1] == comparisons.wins.sum() == 3


def test_known_judges_are_the_conditions_of_an_experiment(x64, pool):
    known = [*judges.JUDGES.values(), Judge.of(1.0, interaction=0.4)]
    conditions = judges.conditions(known)
    one = Pool(pool.quality, Design.build(pool.design.covariates[:, :1]))
    again = jax.vmap(lambda c: judges.verdict_logits(one, judges.of_condition(c)))(conditions)
    for found, judge in zip(again, known, strict=True):
        assert_array_equal(found, judges.verdict_logits(one, judge))
    condition = {n: jnp.asarray(v[0]) for n, v in conditions.items() if n != "interaction"}
    assert judges.of_condition(condition).interaction == 0


REFUSED = [
    (lambda p: judges.verdict_probability(p, Judge(jnp.ones(1), 0.0)), r"bias must be \[2\]"),
    (lambda _: judges.conditions([JUDGE]), "a condition holds one bias, got 2"),
    (lambda _: Judge.of(1.0, interaction=np.nan), "interaction must be finite, got"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_refused(call, message, pool):
    with pytest.raises(ValueError, match=message):
        call(pool)


# --- the paper's table


def test_what_the_paper_says_of_its_table():
    p = judges.PUBLISHED.values()
    for j in p:  # rounded to hundredths each
        assert j.gain == pytest.approx(j.bias_aware_recall - j.naive_recall, abs=0.0151)
    competent = [j for j in p if j.group != "weak"]
    naive, c, gain = np.array([[j.naive_recall, j.c_hat, j.gain] for j in competent]).T
    competence = spearmanr(naive, gain)
    assert competence.statistic == pytest.approx(-0.838, abs=0.0005)  # printed: -0.84
    assert competence.pvalue < 1e-3
    assert spearmanr(c, gain).statistic == pytest.approx(0.86, abs=0.005)
    gains = [j.gain for j in p if j.group == "biased"]
    assert np.mean(gains) == pytest.approx(0.24, abs=0.005)
    assert ttest_1samp(gains, 0).pvalue == pytest.approx(0.00049, abs=5e-6)  # printed: .0005
    for group, count in (("biased", 5), ("neutral", 9), ("weak", 1)):
        c = [j.c_hat for j in p if j.group == group]
        assert len(c) == count
        assert c == sorted(c, reverse=True)
    # "10 for the locally served ..., 5 for ..., 3 for ..., 2 for ..., 1 for ...".
    assert sorted(j.pools for j in p) == [1, 1, 2, *[3] * 6, *[5] * 3, *[10] * 3]
    assert list(judges.GATED) == ["llama", "qwen", "gemini", "deepseek_chat", "gpt_4o_mini"]
