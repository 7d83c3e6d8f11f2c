"""The stop by tests of single pairs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from scipy.integrate import quad

from jbt.acquisition import anytime, eprocess
from jbt.acquisition.picks import Queries

add_verdicts = jax.jit(anytime.add_verdicts)


@pytest.mark.parametrize(
    ("w", "losses", "p0"), [(3, 1, 0.5), (12, 2, 0.4), (0, 6, 0.5), (5, 5, 0.2)]
)
def test_evidence_is_an_average_likelihood(w, losses, p0, x64):
    nodes = p0 + (1 - p0) * (np.arange(eprocess.NODES) + 0.5) / eprocess.NODES
    average = np.mean(nodes**w * (1 - nodes) ** losses)
    assert average == pytest.approx(
        quad(lambda p: p**w * (1 - p) ** losses, p0, 1)[0] / (1 - p0), rel=0.02
    )
    found = eprocess.log_evidence(
        jnp.asarray(float(w)), jnp.asarray(float(losses)), jnp.asarray(p0)
    )
    assert found == pytest.approx(np.log(average / (p0**w * (1 - p0) ** losses)), rel=1e-9)


def queries(first, second, won):
    """Verdicts in their order."""
    return Queries(jnp.asarray(first), jnp.asarray(second), jnp.asarray(won, float))


def test_verdicts_in_both_orders_are_matched_as_in_a_loop(x64):
    rng = default_rng(0)
    for _ in range(5):
        first = rng.integers(0, 4, 60)
        second = (first + rng.integers(1, 4, 60)) % 4
        won = rng.choice([0.0, 0.5, 1.0], 60)
        waiting, agreed = {}, np.zeros((4, 4))
        for i, j, y in zip(first, second, won, strict=True):
            if (j, i) in waiting:
                earlier = waiting.pop((j, i))
                if y == 1 and earlier == 0:
                    agreed[i, j] += 1
                if y == 0 and earlier == 1:
                    agreed[j, i] += 1
            else:
                waiting.setdefault((i, j), y)
        none = anytime.Evidence.none(4, jnp.dtype("float64"))
        found = add_verdicts(none, queries(first, second, won))
        np.testing.assert_array_equal(found.agreed, agreed)
        assert {*zip(*np.nonzero(np.asarray(found.open)), strict=True)} == set(waiting)


@pytest.mark.heavy
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


def test_a_top_set_is_sure_when_every_pair_across_is_linked(x64):
    rng = default_rng(0)
    seen = set()
    for _ in range(60):
        quality = rng.permutation(5)
        better = quality[:, None] > quality
        strict = better & (rng.random((5, 5)) < 0.6)
        nearly = strict | (rng.random((5, 5)) < 0.1) & ~np.eye(5, dtype=bool)
        zero = jnp.zeros((5, 5))
        evidence = anytime.Evidence(zero, zero > 0, zero, jnp.asarray(strict), jnp.asarray(nearly))
        top, sure = anytime.shown_top_set(evidence, 2)
        assert top.sum() == 2
        links = {(i, i) for i in range(5)} | {*zip(*np.nonzero(strict), strict=True)}
        while (
            more := {(a, d) for (a, b), (c, d) in itertools.product(links, links) if b == c} - links
        ):
            links |= more
        steps = links | {(a, d) for (a, b) in links for (c, d) in links if nearly[b, c]}
        once = {(a, d) for (a, b) in steps for (c, d) in steps if b == c}
        expected = all((i, j) in once for i in np.flatnonzero(top) for j in np.flatnonzero(~top))
        assert bool(sure) == expected
        seen.add(bool(sure))
        if expected and (nearly == strict).all():
            assert {*np.flatnonzero(top)} == {*np.argsort(-quality)[:2]}
    assert seen == {True, False}
