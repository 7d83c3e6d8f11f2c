import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm, ttest_1samp

from jbt import runtime, stats
from jbt.simulation import judges, pairs
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


def test_a_thurstone_judge_has_noise_of_the_logistic_s_variance(pool, same_key_again):
    z = np.asarray(judges.verdict_logits(pool, JUDGE))
    p = np.asarray(judges.verdict_probability(pool, JUDGE, link="probit"))
    np.testing.assert_allclose(p, norm(scale=np.pi / np.sqrt(3)).cdf(z), rtol=1e-5)
    key = jax.random.key(4)
    u = jax.random.uniform(key, p.shape, p.dtype)
    np.testing.assert_array_equal(judges.frozen_draw(key, pool, JUDGE, link="probit"), u < p)
    with pytest.raises(ValueError, match=r"unknown link 'cloglog': one of logit, probit"):
        judges.frozen_draw(key, pool, JUDGE, link="cloglog")


def test_one_bias_a_covariate(pool):
    with pytest.raises(ValueError, match=r"bias must be \[2\]"):
        judges.verdict_probability(pool, Judge(jnp.ones(1), 0.0))


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


def test_a_certain_verdict_is_drawn_as_it_is(same_key_again):
    """So it makes no difference whether a frozen answer of 0 or 1 is drawn or taken."""
    keys = jax.random.split(jax.random.key(3), DRAWS)
    for dtype in ("float32", "float64"):
        with runtime.precision(dtype):
            certain = jnp.array([[0.0, 1.0], [0.0, 1.0]])
            draw = jax.vmap(judges.fresh_verdict, in_axes=(0, None, None, None))
            for first, second in ((0, 1), (1, 0)):
                found = draw(keys, certain, jnp.array(first), jnp.array(second))
                assert (found == certain[first, second]).all()


def test_fresh_comparisons_are_binomial(pool):
    p = judges.verdict_probability(pool, JUDGE)
    shown = pairs.every_pair(pool) * 5
    keys = jax.random.split(jax.random.key(1), DRAWS)
    wins = np.asarray(jax.jit(jax.vmap(lambda k: judges.fresh_comparisons(k, p, shown).wins))(keys))
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


def test_known_judges_are_the_conditions_of_an_experiment(x64, pool):
    assert list(judges.JUDGES) == ["llama", "qwen", "phi", "coder", "unbiased", "unbiased_first"]
    conditions = judges.conditions([*judges.JUDGES.values()])
    assert {name: v.tolist() for name, v in conditions.items()} == {
        "bias": [1.78, 1.45, 0.34, -0.98, 0.0, 0.0],
        "position": [0.35, 1.08, 0.32, 1.74, 0.0, 1.0],
        "discrimination": [1.0, 1.0, 1.0, 0.1, 1.0, 1.0],
        "interaction": [0.0] * 6,
    }
    one = Pool(pool.quality, Design.build(pool.design.covariates[:, :1]))
    again = jax.vmap(lambda c: judges.verdict_logits(one, judges.of_condition(c)))(conditions)
    for found, judge in zip(again, judges.JUDGES.values(), strict=True):
        np.testing.assert_array_equal(found, judges.verdict_logits(one, judge))
    with pytest.raises(ValueError, match="a condition holds one bias, got 2"):
        judges.conditions([JUDGE])


def test_the_published_judges_are_the_paper_s_table():
    """Against numbers copied from its table a second time, and what it says of the whole."""
    p = judges.PUBLISHED
    assert len(p) == 15
    by_hand = {
        "llama": ("Llama-3.1-8B", 1.78, 0.35, 0.50, 0.82, 0.32, 10),
        "deepseek_chat": ("DeepSeek-chat", 1.00, -2.40, 0.80, 1.00, 0.20, 5),
        "deepseek_v4_pro": ("DeepSeek-V4-pro", 0.44, 0.01, 1.00, 1.00, 0.00, 2),
        "claude_haiku": ("Claude-Haiku-4.5", -0.50, 0.05, 0.93, 0.87, -0.07, 3),
        "coder": ("DeepSeek-Coder-6.7B", -0.98, 1.74, 0.12, 0.08, -0.04, 5),
    }
    for name, (model, c, kappa, naive, aware, gain, pools) in by_hand.items():
        found = p[name]
        assert (found.model, found.c_hat, found.kappa_hat) == (model, c, kappa)
        assert (found.naive_recall, found.bias_aware_recall) == (naive, aware)
        assert (found.gain, found.pools, found.source) == (gain, pools, "Table 1")
    groups = [j.group for j in p.values()]
    assert [groups.count(g) for g in ("biased", "neutral", "weak")] == [5, 9, 1]
    for j in p.values():  # rounded to hundredths each
        assert j.gain == pytest.approx(j.bias_aware_recall - j.naive_recall, abs=0.0151)
    # In the table every group is sorted by c_hat.
    for group in ("biased", "neutral"):
        c = [j.c_hat for j in p.values() if j.group == group]
        assert c == sorted(c, reverse=True)
    # "10 for the locally served ..., 5 for ..., 3 for ..., 2 for ..., 1 for ...".
    assert sorted(j.pools for j in p.values()) == [1, 1, 2, *[3] * 6, *[5] * 3, *[10] * 3]


def test_what_the_paper_says_of_its_table():
    p = judges.PUBLISHED.values()
    competent = [j for j in p if j.group != "weak"]
    naive, gain = ([getattr(j, name) for j in competent] for name in ("naive_recall", "gain"))
    competence = stats.spearman(np.array(naive), np.array(gain))
    assert competence.estimate == pytest.approx(-0.838, abs=0.0005)  # printed: -0.84
    assert competence.p < 1e-3
    bias = stats.spearman(np.array([j.c_hat for j in competent]), np.array(gain))
    assert bias.estimate == pytest.approx(0.86, abs=0.005)
    gains = [j.gain for j in p if j.group == "biased"]
    assert np.mean(gains) == pytest.approx(0.24, abs=0.005)
    assert ttest_1samp(gains, 0).pvalue == pytest.approx(0.00049, abs=5e-6)  # printed: .0005


def test_simulated_judges_come_from_the_table():
    assert list(judges.GATED) == ["llama", "qwen", "gemini", "deepseek_chat", "gpt_4o_mini"]
    found = {name: (float(j.bias[0]), j.position) for name, j in judges.GATED.items()}
    assert found["gemini"] == (1.32, -1.30)
    assert found["deepseek_chat"] == (1.00, -2.40)
    assert found["gpt_4o_mini"] == (0.98, -0.84)
    assert {j.discrimination for j in judges.GATED.values()} == {1.0}
    assert judges.OPEN["coder"].discrimination == 0.1
