"""The jackknife of estimates that clusters share: closed form, refits, simulation, invariance."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.stats import t

from jbt.stats.cluster_jackknife import jackknife


def regression(rng, g=12, k=3, unequal=True):
    """Rows of clusters of a linear model with errors of sd 1."""
    sizes = np.ceil(rng.lognormal(1, 0.8 * unequal, g)).astype(int) + k
    return [rng.normal(size=(n, k)) + rng.normal(size=k) for n in sizes]


def of_regression(x, y):
    """The arguments of `jackknife`, with a prior of precision .5."""
    informations = np.stack([each.T @ each for each in x])
    information = informations.sum(0) + 0.5 * np.eye(x[0].shape[1])
    estimate = np.linalg.solve(information, sum(a.T @ b for a, b in zip(x, y, strict=True)))
    scores = np.stack([a.T @ (b - a @ estimate) for a, b in zip(x, y, strict=True)])
    return information, scores, informations


@pytest.mark.parametrize("g", [2, 5, 40])
def test_of_a_mean_it_is_the_usual_standard_error(g):
    means, n = default_rng(g).normal(size=g), 7.0
    scores, each = n * (means - means.mean())[:, None], np.full((g, 1, 1), n)
    found = jackknife(np.array([[n * g]]), scores, each, np.eye(1))
    usual = means.std(ddof=1) / np.sqrt(g)
    assert_allclose(found.sd, usual)
    assert_allclose(found.dof, g - 1)
    assert_allclose(found.half_width(0.9), usual * t.ppf(0.95, g - 1))


def test_it_is_the_spread_of_refits_without_a_cluster():
    rng = default_rng(0)
    x = regression(rng)
    y = [rng.normal(size=len(each)) for each in x]
    information, scores, informations = of_regression(x, y)
    along = rng.normal(size=(4, 3))
    found = jackknife(information, scores, informations, along)

    change, w = [], []
    for g in range(len(x)):
        rest = [i for i in range(len(x)) if i != g]
        left = information - informations[g]
        moments = sum(x[i].T @ y[i] for i in rest)
        every = moments + x[g].T @ y[g]
        change.append(np.linalg.solve(left, moments) - np.linalg.solve(information, every))
        w.append(np.linalg.solve(left, x[g].T))
    squares = (np.array(change) @ along.T) ** 2
    # What the sum of squares is on average under the model, by every row's error.
    rows, known = np.concatenate(x), np.linalg.inv(information)
    errors = (
        np.eye(len(rows)) - rows @ known @ rows.T
    )  # of the residuals; the prior is an error too
    covariance = errors @ errors.T + 0.5 * rows @ known @ known @ rows.T
    starts = np.cumsum([0, *map(len, x)])
    spots = [slice(a, b) for a, b in pairwise(starts)]
    moved = np.stack([along @ w[g] @ covariance[s] for g, s in enumerate(spots)])
    mean = sum(np.einsum("cn,cn->c", moved[g][:, s], along @ w[g]) for g, s in enumerate(spots))
    scale = np.einsum("ck,kl,cl->c", along, known, along) / mean
    assert_allclose(found.sd, np.sqrt(squares.sum(0) * scale))


@pytest.mark.heavy
def test_the_degrees_of_freedom_are_those_of_its_own_variance():
    rng = default_rng(1)
    x, along = regression(rng, g=8), np.eye(3)
    n_draws, variances = 20_000, []
    for _ in range(n_draws):
        y = [rng.normal(size=len(each)) for each in x]
        information, scores, informations = of_regression(x, y)
        variances.append(scores)
    found = jackknife(information, scores, informations, along)
    left = np.linalg.solve(information - informations, np.broadcast_to(along.T, (8, 3, 3)))
    change = np.einsum("ngk,gkc->ngc", np.array(variances), left)
    squares = (change**2).sum(1)
    simulated = 2 * squares.mean(0) ** 2 / squares.var(0)
    # The variance of a variance has a relative standard error of about sqrt(8 / n) here.
    assert_allclose(found.dof, simulated, rtol=4 * np.sqrt(8 / n_draws) + 0.03)
    assert found.dof.max() < 7


def test_it_does_not_depend_on_the_parametrisation():
    rng = default_rng(2)
    x = regression(rng)
    y = [rng.normal(size=len(each)) for each in x]
    information, scores, informations = of_regression(x, y)
    informations[0] -= 20 * np.eye(3)[:, :1] * np.eye(3)[:1]  # not a covariance
    information = informations.sum(0) + 0.5 * np.eye(3)
    turn, along = rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    one = jackknife(information, scores, informations, along)
    other = jackknife(
        turn.T @ information @ turn, scores @ turn, turn.T @ informations @ turn, along @ turn
    )
    assert_allclose(one.sd, other.sd)
    assert_allclose(one.dof, other.dof)


def test_clusters_whose_information_is_not_a_covariance_count_as_what_they_sum_to():
    rng = default_rng(3)
    n, each = 60, np.diag([1.0, 2.0])
    noise = rng.normal(size=(n, 2, 2)) * 3  # as much as of a discrimination times a coefficient
    noise = noise + noise.swapaxes(1, 2)
    informations = each + noise - noise.mean(0)
    assert np.linalg.eigvalsh(informations)[:, 0].min() < 0
    scores = rng.normal(size=(n, 2)) * np.sqrt([1, 2])
    scores -= scores.mean(0)
    found = jackknife(n * each, scores, informations, np.eye(2))
    assert (found.dof > n / 4).all()
    assert_allclose(found.sd, 1 / np.sqrt([n, 2 * n]), rtol=0.3)


def test_a_combination_that_no_cluster_moves_has_no_standard_error():
    informations = np.zeros((4, 2, 2))
    informations[:, 0, 0] = 1
    scores = np.array([[1.0, 0], [-1, 0], [1, 0], [-1, 0]])
    found = jackknife(np.diag([4.0, 0.1]), scores, informations, np.eye(2))
    assert np.isfinite(found.sd[0])
    assert np.isnan(found.sd[1])


def test_clusters_that_do_not_differ_at_all_have_the_error_of_the_model():
    """A judge that names the same winner in both orders has a score of 0 in every pool."""
    informations = np.tile(np.diag([2.0, 3.0]), (10, 1, 1))
    found = jackknife(informations.sum(0), np.zeros((10, 2)), informations, np.eye(2))
    assert_allclose(found.sd, 1 / np.sqrt([20, 30]))


@pytest.mark.heavy
def test_the_test_that_clusters_are_alike_holds_its_level():
    rng, n_draws = default_rng(4), 4000
    x = regression(rng, g=15, k=2)
    alike, unlike = [], []
    for p, apart in ((alike, 0.0), (unlike, 1.0)):
        for _ in range(n_draws):
            own = apart * rng.normal(size=(15, 2))
            y = [a @ b + rng.normal(size=len(a)) for a, b in zip(x, own, strict=True)]
            p.append(jackknife(*of_regression(x, y), np.eye(2)[:1]).p_alike()[0])
    rejected = np.mean(np.array(alike) < 0.05)
    assert abs(rejected - 0.05) < 0.02 + 4 * np.sqrt(0.05 * 0.95 / n_draws)
    assert np.mean(np.array(unlike) < 0.05) > 0.5
