"""Random effects against quadrature, explicit leave-one-out steps, SciPy, and known populations."""

import dataclasses
import itertools

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import optimize, sparse, stats
from scipy.special import expit, log_expit

from jbt.estimators import cluster_likelihood, mixed
from jbt.types import Status

MODELS = 4
PAIRS = np.array(list(itertools.combinations(range(MODELS), 2))).T


pytestmark = pytest.mark.usefixtures("x64")


def incidence(first, second, of_first=1.0, of_second=1.0):
    rows = np.arange(len(first))
    values = np.r_[of_first * np.ones(len(first)), -of_second * np.ones(len(first))]
    places = np.r_[rows, rows], np.r_[first, second]
    return sparse.csr_array((values, places), shape=(len(first), MODELS))


def verdicts(rng, prompts, *, sd=0.0, sd_prompt=0.0, times=1, between=True):
    """All pairs of four models on every prompt: theta (spread evenly, mean 0), then c, then what c
    of each model differs by."""
    theta = np.linspace(1, -1, MODELS)
    x = rng.normal(size=(prompts, MODELS))
    x -= x.mean(1, keepdims=True)
    phi = theta + sd * rng.normal(size=x.shape)
    phi = phi + (0.8 + sd_prompt * rng.normal(size=(prompts, 1))) * x
    prompt, pair = np.indices((prompts, PAIRS.shape[1])).reshape(2, -1)
    first, second = PAIRS[:, pair]
    x_first, x_second = x[prompt, first], x[prompt, second]
    logit = phi[prompt, first] - phi[prompt, second]
    columns = [incidence(first, second), sparse.csr_array((x_first - x_second)[:, None])]
    columns += [incidence(first, second, x_first, x_second)] * between
    fixed = sparse.hstack(columns).tocsr()
    return mixed.Mixed(
        fixed=fixed,
        precision=np.ones(fixed.shape[1]),
        shown=np.full(len(prompt), float(times)),
        wins=rng.binomial(times, expit(logit)).astype(float),
        cluster=prompt,
        units={"quality": np.stack([first, second])},
        slopes={"c": x_first - x_second},
        crossed={"c of a model": MODELS + 1 + np.arange(MODELS)} if between else {},
    )


def of_cluster(logits, sds, columns, shown, wins):
    """The likelihood of one cluster and its gradients, from effects of 0."""
    some = columns[None], shown[None], wins[None], np.zeros((1, len(sds)))
    value, of_logits, of_sds, *_ = cluster_likelihood.likelihood(logits[None], sds, *some)
    return value, of_logits[0], of_sds[0]


def by_quadrature(logits, columns, shown, wins):
    """Marginal log-likelihood of a cluster with three effects, by a Gauss-Hermite product rule."""
    at, weight = np.polynomial.hermite_e.hermegauss(40)
    weight = np.log(weight / weight.sum())
    z = np.array(list(itertools.product(at, repeat=3)))
    of_z = np.array(list(itertools.product(weight, repeat=3))).sum(1)
    eta = logits + z @ columns.T
    return np.logaddexp.reduce(of_z + log_expit(eta) @ wins + log_expit(-eta) @ (shown - wins))


@pytest.mark.parametrize("sd", [0.3, 2.0])
def test_the_marginal_likelihood_is_that_of_quadrature(sd):
    """Twenty verdicts on a cluster with three effects. Laplace's approximation alone is off by
    .006 and .1."""
    rng = default_rng(0)
    columns = np.stack(
        [rng.choice([-1, 0, 1], 10), rng.choice([-1, 0, 1], 10), rng.normal(size=10)]
    )
    columns, shown = sd * columns.T, np.full(10, 2.0)
    wins, logits = rng.binomial(2, 0.6, 10) * 1.0, rng.normal(size=10)
    value, *_ = of_cluster(logits, np.ones(3), columns, shown, wins)
    assert value == pytest.approx(by_quadrature(logits, columns, shown, wins), abs=0.01)


@pytest.mark.parametrize("scale", [1.0, 4.0], ids=["expanded", "bounded"])
def test_gradients_are_those_of_finite_differences(scale):
    rng = default_rng(1)
    columns, shown = rng.normal(size=(10, 3)), np.full(10, 3.0)
    wins, logits = rng.binomial(3, 0.5, 10) * 1.0, rng.normal(size=10)
    sds = scale * np.array([0.5, 1, 1.5])

    def of(logits, sds):
        return of_cluster(logits, sds, columns, shown, wins)

    _, of_logits, of_sds = of(logits, sds)
    expected = optimize.approx_fprime(logits, lambda v: of(v, sds)[0], 1e-6)
    assert_allclose(of_logits, expected, atol=1e-5)
    expected = optimize.approx_fprime(sds, lambda v: of(logits, v)[0], 1e-6)
    assert_allclose(of_sds, expected, atol=1e-5)


def test_the_prior_is_of_each_sd_or_of_the_mean_of_those_that_are_alike():
    """Gradient and information against finite differences of the log-density."""
    problem = verdicts(default_rng(6), 2)
    units = dict.fromkeys(("a", "b", "c of unit"), problem.units["quality"])
    problem = dataclasses.replace(problem, units=units, alike=["a", "b", "c of unit"])

    def log_density(log_sd):
        alone, alike = log_sd[3:], log_sd[:3]
        mean = alike.mean()
        about = ((alike - mean) ** 2).sum() / (2 * mixed.DEVIATION**2)
        return (alone - np.exp(alone)).sum() + mean - np.exp(mean) - about

    log_sd = np.array([-1.0, 0.3, 0.5, -0.2, 0.1])
    gradient, information = mixed._prior(problem, log_sd)
    assert problem.effects[3:] == ["c", "c of a model"]
    assert_allclose(gradient, optimize.approx_fprime(log_sd, log_density, 1e-6), atol=1e-5)
    expected = -optimize.approx_fprime(log_sd, lambda v: mixed._prior(problem, v)[0], 1e-6)
    assert_allclose(information, expected, atol=1e-5)


def test_sds_that_are_alike_are_dropped_together():
    problem = verdicts(default_rng(7), 100, between=False)
    of_model = [np.where(problem.units["quality"] == m, m, -1) for m in range(MODELS)]
    units = {f"quality of {m}": one for m, one in enumerate(of_model)}
    problem = dataclasses.replace(problem, units=units, alike=list(units))
    assert_allclose(problem.without(["quality of 1"]).kinds.sum(1), 1)
    # The prior holds .33 to .43 of the information about each, and .11 about all together.
    for priors_share in (0.2, 0.05):
        found = mixed.fit(problem, priors_share)
        assert all((found.sd[name] > 0) == (priors_share == 0.2) for name in units)


def test_an_effect_that_no_cluster_shows_is_left_out():
    """One verdict a cluster: the fit is SciPy's of the coefficients alone."""
    problem = verdicts(default_rng(2), 60, sd=1.0, between=False)
    kept = np.arange(len(problem.shown)) % PAIRS.shape[1] == np.arange(360) // 6 % 6
    problem = dataclasses.replace(problem, shown=problem.shown * kept, wins=problem.wins * kept)
    found = mixed.fit(problem)

    def objective(beta):
        eta = problem.fixed @ beta
        lost = problem.shown - problem.wins
        likelihood = problem.wins @ log_expit(eta) + (lost * kept) @ log_expit(-eta)
        return beta @ beta / 2 - likelihood

    expected = optimize.minimize(objective, np.zeros(MODELS + 1), tol=1e-10).x
    assert found.sd == {"quality": 0, "c": 0}
    assert_allclose(found.beta, expected, atol=2e-3)


def test_intervals_are_those_of_leaving_each_cluster_out():
    """With no scale to estimate, a Newton step from the estimate without a cluster's verdicts."""
    problem = verdicts(default_rng(3), 20, between=False).without(["quality", "c"])
    found = mixed.fit(problem)
    along = np.array([[1.0, 0, 0, -1, 0], [0, 0, 0, 0, 1]])
    fixed = problem.fixed.toarray()
    p = expit(fixed @ found.beta)
    score = fixed * (problem.wins - problem.shown * p)[:, None]
    information = fixed.T * (problem.shown * p * (1 - p))
    hessian = information @ fixed + np.eye(5)
    moves = []
    for cluster in range(20):
        out = problem.cluster == cluster
        rest = hessian - information[:, out] @ fixed[out]
        moves.append(np.linalg.solve(rest, score[out].sum(0)))
    error = np.sqrt(19 / 20 * ((np.array(moves) @ along.T) ** 2).sum(0))
    table = found.intervals(along)
    half = stats.t.ppf(0.975, table["degrees"]) * error
    pushed = along @ (found.beta + np.linalg.solve(hessian, found.beta))
    assert_allclose(table["low"], pushed - half, atol=1e-8)
    assert_allclose(table["high"], pushed + half, atol=1e-8)
    assert ((table["degrees"] > 5) & (table["degrees"] < 20)).all()


@pytest.mark.heavy
def test_order_of_rows_and_names_of_clusters_and_units_mean_nothing():
    problem = verdicts(default_rng(4), 150, sd=1.0, sd_prompt=0.6, times=2)
    order = default_rng(5).permutation(len(problem.shown))
    shuffled = dataclasses.replace(
        problem,
        fixed=problem.fixed[order],
        shown=problem.shown[order],
        wins=problem.wins[order],
        cluster=1000 - 7 * problem.cluster[order],
        units={"quality": 3 + 5 * problem.units["quality"][:, order]},
        slopes={"c": problem.slopes["c"][order]},
    )
    one, other = mixed.fit(problem), mixed.fit(shuffled)
    assert one.status == other.status == Status.CONVERGED
    assert_allclose(one.beta, other.beta, atol=1e-6)
    assert one.sd == pytest.approx(other.sd, abs=1e-5)


def test_clusters_may_be_taken_a_few_at_a_time(monkeypatch):
    problem = verdicts(default_rng(11), 30, sd=1.0)
    along = np.eye(problem.fixed.shape[1])[:MODELS]
    whole = mixed.fit(problem).intervals(along)
    for module in (cluster_likelihood, mixed):
        monkeypatch.setattr(module, "AT_ONCE", 64)
    assert_allclose(mixed.fit(dataclasses.replace(problem)).intervals(along), whole, rtol=1e-8)
