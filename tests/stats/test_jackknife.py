"""The jackknife of estimates that clusters share: closed form, refits, simulation, invariance."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.stats import chi2, t

from jbt.stats.cluster_jackknife import jackknife


def regression(rng, g=12, k=3):
    """Rows of clusters of unequal sizes."""
    sizes = np.ceil(rng.lognormal(1, 0.8, g)).astype(int) + k
    return [rng.normal(size=(n, k)) + rng.normal(size=k) for n in sizes]


def drawn(rng, x):
    """Outcomes that are errors of sd 1, and the arguments of `jackknife`, with a prior of precision
    .5."""
    k = x[0].shape[1]
    y = [rng.normal(size=len(rows)) for rows in x]
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
    assert_allclose(found.half_width(), usual * t.ppf(0.975, g - 1))


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
    cluster = np.repeat(np.arange(len(x)), [*map(len, x)])
    moves, responses = [], []
    for g, own in enumerate(informations):
        left, rest = information - own, cluster != g
        refit = np.linalg.solve(left, rows[rest].T @ y[rest])
        moves.append(along @ (refit - known @ rows.T @ y))
        responses.append(along @ np.linalg.solve(left, rows.T * ~rest))
    # The covariances of the moves under the model, [combination, cluster, cluster].
    under = np.einsum("gcn,nm,hcm->cgh", responses, covariance, responses)
    mean = np.trace(under, axis1=1, axis2=2)
    ratio, dof = (np.array(moves) ** 2).sum(0) / mean, mean**2 / (under**2).sum((1, 2))
    variance = np.einsum("ck,kl,cl->c", along, known, along)
    assert_allclose(found.sd, np.sqrt(variance * ratio))
    assert_allclose(found.dof, dof)
    assert_allclose(found.p_alike(), chi2.sf(ratio * dof, dof))


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
