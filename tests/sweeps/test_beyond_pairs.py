"""Labels put to other uses than a switch: labels of pairs, adjudicating the top set."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jbt import gate
from jbt.estimators.reference import Rankings
from jbt.types import Design, Pool
from sweeps._shared.adjudicate import TURNS, adjudicate, labelled
from sweeps.label_budget import discordant, pair_labels

N, K = 12, 4


def ranked(seed):
    """Two rankings of a pool with ties, and padding."""
    rng = np.random.default_rng(seed)
    quality, naive, aware = rng.normal(size=(3, N)).round(1)
    mask = np.arange(N) < N - 2
    pool = Pool(jnp.asarray(quality), Design(jnp.zeros((N, 1)), None, jnp.asarray(mask), N))
    return Rankings(pool, jnp.asarray(naive), jnp.asarray(aware), K)


@pytest.mark.heavy
def test_no_true_label_of_a_content_lowers_recall():
    """One after the other, in every order of turns; and none labels a content twice."""

    @jax.jit
    def recalls(quality, naive, aware):
        r = ranked(0)
        r = Rankings(dataclasses.replace(r.pool, quality=quality), naive, aware, K)
        order = jnp.arange(N)
        t = gate.tops(r, order)

        def mended(turns, n):
            some = labelled(jax.random.key(1), r, t, turns, n)
            top = adjudicate(r, t, order, some, t.good)
            return gate.recall(top, t.good, K), some, top

        each = {
            turns: jax.vmap(lambda n, w=turns: mended(w, n))(jnp.arange(float(N)))
            for turns in TURNS
        }
        return each, t

    differ = 0
    for seed in range(40):
        r = ranked(seed)
        each, t = recalls(r.pool.quality, r.naive, r.bias_aware)
        alone = np.asarray(t.naive ^ t.bias_aware)
        of = [float((top & t.good).sum()) / K for top in (t.naive, t.bias_aware)]
        for turns, (recall, some, top) in each.items():
            np.testing.assert_array_equal(top[0], t.naive)
            assert (top.sum(1) == K).all()
            assert (np.diff(recall) >= -1e-6).all()
            assert recall[alone.sum()] >= max(of) - 1e-6
            there = N - 2 if turns == "contents" else alone.sum()
            np.testing.assert_array_equal(some.sum(1), np.minimum(np.arange(N), there))
            assert not (some[:-1] & ~some[1:]).any()
            np.testing.assert_array_equal(some[alone.sum()], alone)
        assert each["contents"][0][N - 2] == 1
        differ += of[0] != of[1]
    assert differ > 10


def test_turns():
    quality = jnp.arange(8.0)
    naive = jnp.array([0.0, 1, 2, 3, 7, 6, 5, 4])  # top 3: 4, 5, 6
    aware = jnp.array([0.0, 1, 6, 7, 5, 4, 3, 2])  # top 3: 3, 2, 4
    r = Rankings(Pool(quality, Design.build(np.zeros((8, 1)))), naive, aware, 3)
    t = gate.tops(r, jnp.arange(8))

    def first(turns, n):
        return np.flatnonzero(labelled(jax.random.key(0), r, t, turns, n)).tolist()

    # Naive's 6 and 5 from the last, then bias-aware's 3 and 2 from the first; next to the boundary.
    ranks = [set(first("contents", n)) for n in (1, 2, 3, 4, 6)]
    assert ranks == [{6}, {5, 6}, {3, 5, 6}, {2, 3, 5, 6}, {2, 3, 5, 6, 4, 7}]


def test_labels_of_pairs():
    """Unordered pairs, none twice, fewer labels a subset of more, labelled by true quality."""
    r = ranked(5)
    quality = np.asarray(r.pool.quality)
    labels = [pair_labels(jax.random.key(0), r, "random", n) for n in (7, 999)]
    shown = np.array([c.shown for c in labels])
    assert shown.sum((1, 2)).tolist() == [7, 45]
    assert ((shown + shown.transpose(0, 2, 1)) <= 1).all()
    assert (np.diff(shown, axis=0) >= 0).all()
    for i, j in itertools.combinations(range(N - 2), 2):
        right = (1 + np.sign(quality[i] - quality[j])) / 2
        assert (labels[-1].wins[i, j], labels[-1].wins[j, i]) == (right, 0)
    wrong = pair_labels(jax.random.key(0), r, "random", 999, noise=1.0)
    np.testing.assert_array_equal(labels[-1].wins + wrong.wins, labels[-1].shown)
    # A pair has one label, whatever the placement.
    some = pair_labels(jax.random.key(0), r, "boundary", 20, noise=0.5)
    every = pair_labels(jax.random.key(0), r, "random", 999, noise=0.5)
    np.testing.assert_array_equal(some.wins, some.shown * every.wins)


def test_all_labels_of_pairs_are_what_the_urn_holds():
    r = ranked(7)
    urn = gate.urn(r, gate.tops(r, jnp.arange(N)), "disputed")
    for placement in ("random", "disputed"):
        right, wrong = discordant(pair_labels(jax.random.key(0), r, placement, 999), r)
        assert (float(right), float(wrong)) == (float(urn.right), float(urn.wrong))
    assert urn.right > 0 < urn.wrong
