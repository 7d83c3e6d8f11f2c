"""The gate: what labels there are, how they are drawn, what the rules make of them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, hypergeom

from jbt import gate
from jbt.estimators.reference import Rankings
from jbt.gate import betting
from jbt.types import Design, Pool

N, K = 12, 4


@pytest.fixture(scope="module")
def ranked():
    """Two rankings of a pool with ties of every sort, swaps both ways, and padding."""
    rng = default_rng(9)
    quality, naive, aware = rng.normal(size=(3, N)).round(1)
    quality[2] = quality[5]
    naive[[1, 4, 7]] = naive[1]
    aware[[0, 3]] = aware[0]
    mask = np.arange(N) < N - 2
    x = np.where(mask, rng.normal(size=N), 0)[:, None]
    pool = Pool(jnp.asarray(quality * mask), Design(jnp.asarray(x), None, jnp.asarray(mask), N))
    return Rankings(pool, jnp.asarray(naive), jnp.asarray(aware), K)


@pytest.fixture(scope="module")
def tops(ranked):
    return gate.tops(ranked, jnp.arange(N))


def test_a_top_has_k_and_breaks_ties_evenly(ranked):
    mask = ranked.pool.design.content_mask()
    rng = default_rng(0)
    estimates = np.vstack([np.zeros((2000, N)), rng.integers(0, 3, (60, N)) / 2])
    orders = rng.permuted(np.tile(np.arange(N), (len(estimates), 1)), axis=1)
    tops = jax.vmap(lambda e, o: gate.exact_top(e, K, o, mask))
    tops, real = np.asarray(tops(jnp.asarray(estimates), jnp.asarray(orders))), np.asarray(mask)
    assert (tops.sum(1) == K).all()
    assert not tops[:, ~real].any()
    for estimate, chosen in zip(estimates, tops, strict=True):
        assert estimate[chosen].min() >= estimate[real & ~chosen].max()
    # Where all are tied, each is as often in the top as another.
    error = 4 * (0.4 * 0.6 / 2000) ** 0.5
    assert_allclose(tops[:2000, real].mean(0), K / real.sum(), atol=error)


def naive_urn(r, t, labels):
    """Pair by pair."""
    q, a, b, x = (
        np.asarray(v)
        for v in (r.pool.quality, r.naive, r.bias_aware, r.pool.design.covariates[:, 0])
    )
    joined = np.asarray(t.bias_aware, int) - np.asarray(t.naive, int)
    mask = np.asarray(r.pool.design.content_mask())
    found = dict.fromkeys(("right", "right_short", "wrong", "wrong_short", "tied", "agreed"), 0)
    for i, j in itertools.combinations(np.flatnonzero(mask), 2):
        swap = joined[i] * joined[j] < 0
        differ = (a[i] - a[j]) * (b[i] - b[j]) < 0
        if (labels == "disputed" and not differ) or (labels == "swaps" and not (swap and differ)):
            continue
        if q[i] == q[j]:
            found["tied"] += labels != "pairs"
        elif not differ:
            found["agreed"] += 1
        else:
            who = "right" if (b[i] > b[j]) == (q[i] > q[j]) else "wrong"
            found[who] += 1
            better, worse = (i, j) if q[i] > q[j] else (j, i)
            found[f"{who}_short"] += x[better] < x[worse]
    return found


@pytest.mark.parametrize("labels", gate.OF_PAIRS)
def test_an_urn_holds_what_a_loop_over_pairs_finds(ranked, tops, labels):
    found = jax.jit(gate.urn, static_argnums=2)(ranked, tops, labels)
    expected = naive_urn(ranked, tops, labels)
    assert {name: int(getattr(found, name)) for name in expected} == expected
    assert expected["right"] > 0 < expected["wrong"]


def test_members_are_those_of_one_top_alone(ranked, tops):
    x = np.asarray(ranked.pool.design.covariates[:, 0])
    long = x > x[np.asarray(ranked.pool.design.content_mask())].mean()
    one_alone = tops.bias_aware & ~tops.naive, tops.naive & ~tops.bias_aware
    for found, only in zip(gate.members(ranked, tops), map(np.asarray, one_alone), strict=True):
        n, pairs = int(found.n), np.stack([found.good, found.long], 1)
        assert n == only.sum() > 0
        expected = np.stack([tops.good, long], 1)[only]
        assert sorted(pairs[:n].tolist()) == sorted(expected.tolist())
        assert not pairs[n:].any()


# --- labels drawn

SETS = 20_000
KS = (1, 4, 9, 40)

STATIC = ("n_anchors", "sets", "alpha")
of_pairs = jax.jit(gate.of_pairs, static_argnames=STATIC)  # compiled once for all noises
of_members = jax.jit(gate.of_members, static_argnames=STATIC)


def urn_of(*numbers):
    return gate.Urn(*map(jnp.asarray, numbers))


@pytest.mark.heavy
def test_counts_without_replacement_are_hypergeometric(x64):
    urn = urn_of(7.0, 7.0, 5.0, 5.0, 2.0, 6.0)
    found = of_pairs(jax.random.key(0), urn, KS, sets=SETS)
    for i, n in enumerate(KS):
        n = min(n, 20)
        assert (np.asarray(found.used[:, i]) == n).all()
        for counts, there in ((found.right, 7), (found.wrong, 5)):
            share = np.bincount(np.asarray(counts[:, i], int), minlength=8)[:8] / SETS
            expected = hypergeom(20, there, n).pmf(np.arange(8))
            spread = np.sqrt(expected * (1 - expected) / SETS)
            assert (np.abs(share - expected) <= 4 * spread + 1e-12).all()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("noise", "right"),
    [
        ({}, 40),
        ({"fresh": 0.1}, 36 + 2),
        ({"stored": 0.1}, 36 + 2),
        ({"length": 0.2}, 40 - 0.2 * 30 + 0.2 * 5),
    ],
)
def test_noise_on_pairs_turns_what_it_should(x64, noise, right):
    urn = urn_of(40.0, 30.0, 20.0, 5.0, 0.0, 0.0)
    found = of_pairs(jax.random.key(1), urn, (60,), sets=SETS, noise=gate.Noise(**noise))
    assert (np.asarray(found.right + found.wrong) == 60).all()
    assert float(found.right.mean()) == pytest.approx(right, abs=0.1 * bool(noise))


def members(*good, long=()):
    flags = (np.pad(np.array(v, bool), (0, K - len(v))) for v in (good, long))
    return gate.Members(jnp.asarray(float(len(good))), *map(jnp.asarray, flags))


@pytest.mark.heavy
def test_draws_of_members_are_independent_and_labels_counted_once(x64):
    a, b = members(True, True, False), members(True, False, False)
    found, _ = of_members(jax.random.key(0), a, b, (1, 6), sets=SETS)
    for i, n in enumerate((1, 6)):
        for counts, p in ((found.right, 4 / 9), (found.wrong, 1 / 9)):
            assert float(counts[:, i].mean()) == pytest.approx(n * p, abs=0.05)
            assert float(counts[:, i].var()) == pytest.approx(n * p * (1 - p), rel=0.05)
        distinct = 2 * 3 * (1 - (2 / 3) ** n)
        assert float(found.used[:, i].mean()) == pytest.approx(distinct, abs=0.03)
    # Nobody is disputed: no labels.
    none, _ = of_members(jax.random.key(0), members(), members(), (1, 6), sets=SETS)
    assert float((none.used + none.right + none.wrong).sum()) == 0


@pytest.mark.heavy
def test_a_stored_noisy_label_breaks_the_guarantee_and_a_fresh_one_does_not(x64):
    """One of two is good on either side, 5 % of the labels are wrong, 60 draws."""
    critical = gate.critical_values(0.05, 60)

    def rate(a, b, **noise):
        options = {"sets": SETS, "noise": gate.Noise(**noise)}
        found, _ = of_members(jax.random.key(2), a, b, (60,), **options)
        return float(gate.decide("sign", found.right, found.wrong, critical=critical).mean())

    half = members(True, False)
    # Where one label is wrong in favour of bias-aware, or two, most of the 60 draws say so.
    assert rate(half, half, stored=0.05) > 0.1
    assert rate(half, half, fresh=0.05) < 0.05
    by_length = rate(members(False, long=[True]), members(False), length=0.1)
    assert by_length == pytest.approx(0.1, abs=0.01)


# --- rules


def test_rules_of_counts():
    """A share of the labels against whole numbers: 0.075 of 200 is 15, which float32 exceeds."""
    right, wrong = jnp.array([0.0, 1, 3, 5]), jnp.array([0.0, 2, 2, 3])
    assert gate.decide("at_least", right, wrong).tolist() == [True, False, True, True]
    assert gate.decide("strict", right, wrong).tolist() == [False, False, True, True]
    assert gate.decide("margin", right, wrong, margin=2).tolist() == [False, False, False, True]
    counts = np.meshgrid(range(40), range(10), [0, 1, 5, 10, 20, 40, 60, 200])
    right, wrong, bought = (v[counts[0] + counts[1] <= counts[2]] for v in counts)
    single = [jnp.asarray(v, jnp.float32) for v in (right, wrong, bought)]
    for thousandths in (1, 50, 75, 333, 1000):
        share = thousandths / 1000
        enabled = gate.decide("margin_share", *single[:2], bought=single[2], share=share)
        expected = (right > wrong) & (1000 * (right - wrong) >= thousandths * bought)
        assert_array_equal(enabled, expected)


def test_the_sign_test_is_that_of_scipy():
    critical = gate.critical_values(0.05, 30)
    n = np.repeat(np.arange(31), 31)
    right = np.minimum(np.tile(np.arange(31), 31), n)
    p = gate.p_value(right, n - right)
    enabled = gate.decide(
        "sign", jnp.asarray(right, float), jnp.asarray(n - right, float), critical=critical
    )
    assert_array_equal(enabled, p <= 0.05)
    assert_allclose(p, binom.sf(right - 1, n, 0.5))


# --- betting


def wealth_over_orders(population, right):
    """[orders, population] wealth, over all orders of a population."""
    paths = np.array(list(itertools.combinations(range(population), right)))
    outcomes = np.zeros((len(paths), population))
    np.put_along_axis(outcomes, paths, 1.0, 1)
    return np.asarray(jax.vmap(lambda o: betting.wealth(o, population))(jnp.asarray(outcomes)))


@pytest.mark.heavy
def test_betting_is_a_fair_game_at_one_half_and_bounded_below(x64):
    cases = (10, 5), (11, 5), (10, 4), (10, 8)
    half, odd, less, more = (wealth_over_orders(*case) for case in cases)
    # At one half no bet wins or loses on average, while the next outcome is open.
    assert_allclose(half[:, :5].mean(0), 1)
    for level in (2.0, 5.0, 20.0):
        of_half, of_odd, of_less = ((w.max(1) >= level).mean() for w in (half, odd, less))
        assert max(of_half, of_odd) <= 1 / level + 1e-12
        assert of_less <= of_half + 1e-12
    assert (more.max(1) >= 20).mean() > 0.5


def test_betting_with_ties_and_with_replacement(x64):
    # Ties count one half: a population of ties alone never pays.
    ties = jnp.full(6, 0.5)
    assert float(betting.wealth(ties, 6.0).max()) <= 1
    # With replacement, by enumeration of all sequences.
    outcomes = jnp.asarray(list(itertools.product((0.0, 1.0), repeat=10)))
    found = np.asarray(jax.vmap(betting.wealth)(outcomes))
    assert (found.max(1) >= 20).mean() <= 0.05
    assert found[:, -1].mean() == pytest.approx(1)
    # More than half of all has been right: the hypothesis is refuted.
    assert np.isinf(betting.wealth(jnp.ones(6), 10.0)[-1])
    assert np.isfinite(betting.wealth(jnp.ones(5), 10.0)).all()


def test_buying_stops_when_wealth_suffices(x64):
    urn = urn_of(9.0, 0.0, 3.0, 0.0, 0.0, 4.0)
    found = of_pairs(jax.random.key(5), urn, (5, 16), sets=2000, alpha=(0.05, 0.4))
    assert found.stopped.shape == (2, 2000, 2)
    assert bool((found.stopped[1] | ~found.stopped[0]).all())  # the easier level, if the harder
    # At the end more than half has been right, however the labels were ordered.
    assert bool(found.stopped[0, :, 1].all())
    assert 5 < float(found.used_stopped[0, :, 1].mean()) < 16
