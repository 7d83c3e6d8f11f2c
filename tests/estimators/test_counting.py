"""Borda's score and rank centrality against definitions, an eigenvector and known qualities."""

import jax.numpy as jnp
import numpy as np
import pytest

from jbt.estimators import borda, rank_centrality
from jbt.types import Comparisons, Design

N = 7


def score(estimator, shown, wins, padded=0):
    """Scores of items, with so many of padding."""
    n = N + padded
    design = Design(jnp.zeros((n, 1)), None, jnp.arange(n) < N, N)
    counts = (jnp.asarray(np.pad(count, (0, padded))) for count in (shown, wins))
    return estimator(Comparisons(*counts), design)


@pytest.fixture
def counts():
    rng = np.random.default_rng(1)
    shown = rng.integers(0, 4, (N, N)) * (1.0 - np.eye(N))
    return shown, rng.binomial(shown.astype(int), 0.6).astype(float)


def test_borda_is_the_share_of_wins(counts):
    shown, wins = counts
    shown[2], shown[:, 2], wins[2], wins[:, 2] = 0, 0, 0, 0
    expected = [
        (wins[i].sum() + (shown - wins)[:, i].sum()) / (shown[i].sum() + shown[:, i].sum())
        if i != 2
        else 0.5
        for i in range(N)
    ]
    np.testing.assert_allclose(score(borda, shown, wins), expected, rtol=1e-6)


def test_rank_centrality_is_the_eigenvector_of_the_walk(counts):
    shown, wins = counts
    won, met = wins + (shown - wins).T, shown + shown.T
    rates = ((won + 0.5) / (met + 1)).T * (1 - np.eye(N))
    walk = rates / N
    np.fill_diagonal(walk, 1 - walk.sum(1))
    values, vectors = np.linalg.eig(walk.T)
    share = np.abs(vectors[:, values.real.argmax()].real)
    expected = np.log(share) - np.log(share).mean()
    np.testing.assert_allclose(score(rank_centrality, shown, wins), expected, atol=1e-5)


@pytest.mark.parametrize("estimator", [borda, rank_centrality])
def test_names_and_padding_do_not_matter(estimator, counts):
    shown, wins = counts
    expected = np.asarray(score(estimator, shown, wins))
    order = np.random.default_rng(2).permutation(N)
    pairs = np.ix_(order, order)
    for found, same in (
        (score(estimator, shown[pairs], wins[pairs]), expected[order]),
        (score(estimator, shown.T, (shown - wins).T), expected),
        (score(estimator, shown, wins, padded=2), np.append(expected, [0, 0])),
    ):
        np.testing.assert_allclose(found, same, atol=1e-5)
