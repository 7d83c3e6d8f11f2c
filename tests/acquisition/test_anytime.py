"""The stop by tests of single pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from scipy.integrate import quad
from scipy.sparse.csgraph import shortest_path
from scipy.special import expit

from jbt.acquisition import anytime, eprocess
from jbt.acquisition.picks import Queries

add_verdicts = jax.jit(anytime.add_verdicts)


def evidence(w, losses, p0):
    """The average likelihood of values above p0, divided by that of p0."""
    nodes = p0 + (1 - p0) * (np.arange(eprocess.NODES) + 0.5) / eprocess.NODES
    return np.mean(nodes**w * (1 - nodes) ** losses) / (p0**w * (1 - p0) ** losses)


@pytest.mark.parametrize(("w", "losses", "p0"), [(12, 2, 0.4), (0, 6, 0.5)])
def test_evidence_is_an_average_likelihood(w, losses, p0, x64):
    def ratio(p):
        return (p / p0) ** w * ((1 - p) / (1 - p0)) ** losses / (1 - p0)

    assert evidence(w, losses, p0) == pytest.approx(quad(ratio, p0, 1)[0], rel=0.02)
    found = eprocess.log_evidence(*(jnp.asarray(float(v)) for v in (w, losses, p0)))
    assert np.exp(found) == pytest.approx(evidence(w, losses, p0), rel=1e-9)


def test_verdicts_in_both_orders_are_matched_and_decide_pairs_as_in_a_loop(x64):
    """Pairs are decided as soon as the evidence exceeds pairs / alpha, and stay so."""
    rng, zone, alpha, n_decided = default_rng(0), 0.4, 0.5, np.zeros(2)
    for _ in range(5):
        first = rng.integers(0, 4, 90)
        second = (first + rng.integers(1, 4, 90)) % 4
        won = rng.choice([0.0, 0.5, 1.0], 90)
        won = np.where(rng.random(90) < 0.7, first < second, won)
        waiting, agreed = {}, np.zeros((4, 4))
        strict, nearly = np.zeros((2, 4, 4), bool)
        for i, j, y in zip(first, second, won, strict=True):
            if (j, i) in waiting:
                earlier = waiting.pop((j, i))
                if y == 1 and earlier == 0:
                    agreed[i, j] += 1
                if y == 0 and earlier == 1:
                    agreed[j, i] += 1
            else:
                waiting.setdefault((i, j), y)
            for decided, p0 in ((strict, 0.5), (nearly, expit(-zone))):
                for a, b in ((i, j), (j, i)):
                    decided[a, b] |= evidence(agreed[a, b], agreed[b, a], p0) >= 4 * 3 / alpha
        none = anytime.Evidence.none(4, jnp.dtype("float64"))
        asked = Queries(*map(jnp.asarray, (first, second, won)))
        found = add_verdicts(none, asked, zone=zone, alpha=alpha)
        n_decided += strict.sum(), nearly.sum()
        for name, expected in (("agreed", agreed), ("strict", strict), ("nearly", nearly)):
            np.testing.assert_array_equal(getattr(found, name), expected)
        assert {*zip(*np.nonzero(np.asarray(found.open)), strict=True)} == set(waiting)
    assert 0 < n_decided[0] < n_decided[1] < 5 * 4 * 3


def test_a_top_set_is_sure_when_every_pair_across_is_linked(x64):
    rng = default_rng(0)
    seen = set()
    for _ in range(60):
        quality = rng.permutation(5)
        better = quality[:, None] > quality
        strict = better & (rng.random((5, 5)) < 0.4)
        nearly = strict | (rng.random((5, 5)) < 0.2) & ~np.eye(5, dtype=bool)
        zero = jnp.zeros((5, 5))
        evidence = anytime.Evidence(zero, zero > 0, zero, jnp.asarray(strict), jnp.asarray(nearly))
        top, sure = map(np.asarray, anytime.shown_top_set(evidence, 2))
        assert top.sum() == 2
        # A chain of decisions, at most two of them up to the zone.
        steps = shortest_path(np.where(strict, 1e-3, np.where(nearly, 1, np.inf)))
        expected = (steps[top][:, ~top] < 2.5).all()
        assert bool(sure) == expected
        seen.add(bool(sure))
        if expected and (nearly == strict).all():
            assert {*np.flatnonzero(top)} == {*np.argsort(-quality)[:2]}
    assert seen == {True, False}


@pytest.mark.nightly
def test_no_pair_is_decided_wrongly_more_often_than_allowed(x64):
    """Two items that are equally good up to a position bias, looked at after every double: any
    decision is wrong."""
    n, alpha, length = 2000, 0.2, 100

    def study(key, d):
        first = jnp.arange(length) % 2
        logit = jnp.where(first == 0, d, -d) + 0.8
        won = (jax.random.uniform(key, (length,)) < jax.nn.sigmoid(logit)) * 1.0
        none = anytime.Evidence.none(2, jnp.dtype("float64"))
        done = add_verdicts(none, Queries(first, 1 - first, won), zone=0.2, alpha=alpha)
        return done.strict[0, 1] | done.strict[1, 0], done.nearly[0, 1]

    keys = jax.random.split(jax.random.key(0), 3 * n).reshape(3, n)
    margin = 3 * np.sqrt(alpha * (1 - alpha) / n)
    strict, _ = jax.vmap(lambda key: study(key, 0.0))(keys[0])
    assert 0 < strict.mean() <= alpha + margin
    strict, nearly = jax.vmap(lambda key: study(key, -0.1))(keys[1])  # at the edge of half the zone
    assert 0 < nearly.mean() <= alpha / 2 + margin
    strict, _ = jax.vmap(lambda key: study(key, 1.0))(keys[2, :100])
    assert strict.mean() > 0.9
