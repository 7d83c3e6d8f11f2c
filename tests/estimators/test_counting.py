"""Borda's score and rank centrality against definitions, an eigenvector and known qualities."""

import jax.numpy as jnp
import numpy as np
import pytest

from jbt.estimators import borda, rank_centrality
from jbt.types import Comparisons, Design

N = 7


def design_of(n, padded=0):
    mask = jnp.arange(n + padded) < n
    return Design(jnp.zeros((n + padded, 1)), None, mask, n)


@pytest.fixture
def counts():
    rng = np.random.default_rng(1)
    shown = rng.integers(0, 4, (N, N)) * (1.0 - np.eye(N))
    return shown, rng.binomial(shown.astype(int), 0.6).astype(float)


def counted(shown, wins):
    return Comparisons(jnp.asarray(shown), jnp.asarray(wins))


def test_borda_is_the_share_of_wins(counts):
    shown, wins = counts
    shown[2], shown[:, 2], wins[2], wins[:, 2] = 0, 0, 0, 0
    expected = [
        (wins[i].sum() + (shown - wins)[:, i].sum()) / (shown[i].sum() + shown[:, i].sum())
        if i != 2
        else 0.5
        for i in range(N)
    ]
    np.testing.assert_allclose(borda(counted(shown, wins), design_of(N)), expected, rtol=1e-6)


def test_rank_centrality_is_the_eigenvector_of_the_walk(counts):
    shown, wins = counts
    won, met = wins + (shown - wins).T, shown + shown.T
    rates = ((won + 0.5) / (met + 1)).T * (1 - np.eye(N))
    walk = rates / N
    np.fill_diagonal(walk, 1 - walk.sum(1))
    values, vectors = np.linalg.eig(walk.T)
    share = np.abs(vectors[:, values.real.argmax()].real)
    expected = np.log(share) - np.log(share).mean()
    score = rank_centrality(counted(shown, wins), design_of(N))
    np.testing.assert_allclose(score, expected, atol=1e-5)


def test_rank_centrality_finds_qualities_that_wins_show_exactly():
    quality = np.linspace(-2, 1.5, N)
    shown = 1e6 * (1 - np.eye(N))
    wins = shown / (1 + np.exp(quality - quality[:, None]))
    score = rank_centrality(counted(shown, wins), design_of(N))
    np.testing.assert_allclose(score, quality - quality.mean(), atol=1e-4)


@pytest.mark.parametrize("estimator", [borda, rank_centrality])
def test_names_and_padding_do_not_matter(estimator, counts):
    shown, wins = counts
    score = estimator(counted(shown, wins), design_of(N))
    order = np.random.default_rng(2).permutation(N)
    pairs = np.ix_(order, order)
    turned = estimator(counted(shown[pairs], wins[pairs]), design_of(N))
    np.testing.assert_allclose(turned, np.asarray(score)[order], atol=1e-5)
    swapped = estimator(counted(shown.T, (shown - wins).T), design_of(N))
    np.testing.assert_allclose(swapped, score, atol=1e-5)
    with pytest.raises(ValueError, match="prior_wins"):
        rank_centrality(counted(shown, wins), design_of(N), 0.0)
    padded = [np.pad(count, (0, 2)) for count in (shown, wins)]
    expected = np.append(score, [0, 0])
    np.testing.assert_allclose(estimator(counted(*padded), design_of(N, 2)), expected, atol=1e-5)
