"""The jackknife of estimates that clusters share: closed form, refits, simulation, invariance."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.stats import t

from jbt.stats.cluster_jackknife import jackknife


def regression(rng, g=12, k=3):
    """Rows of clusters of unequal sizes."""
    sizes = np.ceil(rng.lognormal(1, 0.8, g)).astype(int) + k
    return [rng.normal(size=(n, k)) + rng.normal(size=k) for n in sizes]


def drawn(rng, x, apart=0.0):
    """Outcomes of a linear model with errors of sd 1 and a slope of sd `apart` for each cluster,
    and the arguments of `jackknife`, with a prior of precision .5."""
    k = x[0].shape[1]
    y = [rows @ rng.normal(0, apart, k) + rng.normal(size=len(rows)) for rows in x]
    informations = np.stack([rows.T @ rows for rows in x])
    information = informations.sum(0) + 0.5 * np.eye(k)
    estimate = np.linalg.solve(information, sum(a.T @ b for a, b in zip(x, y, strict=True)))
    scores = np.stack([a.T @ (b - a @ estimate) for a, b in zip(x, y, strict=True)])
    return np.concatenate(y), (information, scores, informations)


@pytest.mark.parametrize("g", [2, 40])
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
    y, given = drawn(rng, x)
    information, _, informations = given
    along = rng.normal(size=(4, 3))
    found = jackknife(*given, along)

    rows, known = np.concatenate(x), np.linalg.inv(information)
    # Of the residuals, by every row's error; the prior is an error too.
    errors = np.eye(len(rows)) - rows @ known @ rows.T
    covariance = errors @ errors.T + 0.5 * rows @ known @ known @ rows.T
    squares = mean = 0
    ends = np.cumsum([0, *map(len, x)])
    for start, end, own in zip(ends, ends[1:], informations, strict=False):
        left, rest, inside = information - own, np.r_[:start, end : len(rows)], slice(start, end)
        squares += (
            along @ (np.linalg.solve(left, rows[rest].T @ y[rest]) - known @ rows.T @ y)
        ) ** 2
        # What that is on average under the model.
        moved = along @ np.linalg.solve(left, rows[inside].T)
        mean += np.einsum("cn,nm,cm->c", moved, covariance[inside, inside], moved)
    scale = np.einsum("ck,kl,cl->c", along, known, along) / mean
    assert_allclose(found.sd, np.sqrt(squares * scale))


def test_it_does_not_depend_on_the_parametrisation():
    rng = default_rng(2)
    _, (_, scores, informations) = drawn(rng, regression(rng))
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
