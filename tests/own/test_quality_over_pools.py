"""A bias that changes with quality over pools of contents rendered twice: against NumPy and SciPy,
against the truth of simulated tables, and where nothing identifies it."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit

from benchmarks.calibration._pools import Setting
from benchmarks.calibration.identify_quality import Case, fitted
from jbt import cli, own, runtime
from jbt.own.examine.quality_over_pools import by_quality
from jbt.own.fits import batch as batches
from jbt.own.shared_coefficients import bias_slope, varying_bias
from jbt.own.shared_coefficients.intervals import Basis
from jbt.types import Comparisons, Prior, Status

CASE = Case(Setting(pools=12, contents=4, twice=2, corr=0.5), 0.6)
POINT = np.array([0.8, 0.3, -0.1, 0.2, 0.5, 0.15, -0.2])
"""c, b, b2, kappa, gamma, delta, log sd"""


@pytest.fixture(scope="module")
def drawn():
    """Pools, counts and their stack."""
    rng = np.random.default_rng(3)
    pools, _, shown, wins = CASE.draw(rng, 1)
    with runtime.precision("float64"):
        verdicts = jax.vmap(Comparisons)(jnp.asarray(shown), jnp.asarray(wins))
        free = np.ones((len(shown), 1), bool)
        stack = bias_slope.stack(pools.design, verdicts, free, free[:, 0], pools.owner)
    return pools, shown, wins, stack


@pytest.fixture(scope="module")
def fitted_once(drawn):
    with runtime.precision("float64"):
        return bias_slope.fit([drawn[-1]], Prior(1.0, 0.1), 1)


def evidence(pools, shown, wins, point):
    """The Laplace log-likelihood of each pool, in NumPy and SciPy."""
    c, b, b2, kappa, gamma, delta, log_sd = point
    values, owner, total = [], pools.content, np.bincount(pools.content)
    for x, n, w in zip(pools.x, shown, wins, strict=True):
        mean = np.bincount(owner, x) / total
        x, m = x - mean.mean(), mean - mean.mean()
        lam = np.exp(-2 * (log_sd + delta * m))
        slope = b * m + b2 * (m**2 - (m**2).mean())

        def logits(theta, x=x, slope=slope):
            q = theta + slope
            phi = q[owner] + (c + gamma * (q - q.mean())[owner]) * x
            return phi[:, None] - phi + kappa

        def minus(theta, logits=logits, n=n, w=w, lam=lam):
            z = logits(theta)
            fits = (w * log_expit(z) + (n - w) * log_expit(-z)).sum()
            return -fits + (lam * theta**2 - np.log(lam)).sum() / 2

        done = minimize(minus, np.zeros(len(m)), method="BFGS", options={"gtol": 1e-7})
        jacobian = np.stack(  # the logits are linear in theta
            [logits(e) - logits(np.zeros(len(m))) for e in np.eye(len(m))], -1
        )
        p = expit(logits(done.x))
        hessian = np.einsum("ija,ij,ijb->ab", jacobian, n * p * (1 - p), jacobian) + np.diag(lam)
        values.append(-done.fun - np.linalg.slogdet(hessian)[1] / 2)
    return np.array(values)


def measured(stack, point):
    """Qualities and evidence of each pool at a point."""
    with runtime.precision("float64"):
        points = jnp.asarray(np.tile(point, (len(stack.owner), 1)))
        theta = jnp.zeros((len(points), stack.design.n_contents))
        theta, gradient, _, status = varying_bias.terms(*stack[:3], points, theta)
        assert (np.asarray(status) == Status.CONVERGED).all()
        (values,) = varying_bias.evidence(*stack[:3], points, theta)
    return np.asarray(values), np.asarray(gradient)


@pytest.mark.heavy
def test_the_evidence_equals_numpy_and_the_gradient_is_its_own(drawn):
    pools, shown, wins, stack = drawn
    values, gradient = measured(stack, POINT)
    np.testing.assert_allclose(values, evidence(pools, shown, wins, POINT), atol=1e-7)
    numeric = approx_fprime(POINT, lambda point: measured(stack, point)[0].sum(), 1e-6)
    np.testing.assert_allclose(gradient.sum(0), numeric, atol=2e-4)


@pytest.mark.heavy
def test_the_fit_maximises_it_and_the_halves_follow(drawn, fitted_once):
    pools, shown, wins, _ = drawn
    fit = fitted_once
    assert fit.top.status[0] == Status.CONVERGED
    top = fit.top.at[0]
    precision = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 1.0, 1.0])

    def posterior(point):
        return evidence(pools, shown, wins, point).sum() - precision @ point**2 / 2

    slope = [posterior(top + step) - posterior(top - step) for step in 1e-3 * np.eye(len(top))]
    np.testing.assert_allclose(np.array(slope) / 2e-3, 0, atol=1e-3)
    results = {name: (value, known) for name, value, known in fit.known(0, 0)}
    c, gamma = results["c"][0], results["gamma"][0]
    assert (c, gamma) == (top[0], top[4])
    high, low = fit.halves[0]
    assert high == pytest.approx(-low)  # the halves of four are about their mean
    assert results["stronger"][0] == pytest.approx(c + gamma * high)
    assert results["difference"][0] == pytest.approx(2 * gamma * high)
    # Of four standard normal qualities, the mean of the better two about that of all is .66.
    assert high == pytest.approx(0.66 * np.exp(top[-1]), rel=0.25)


@pytest.mark.heavy
def test_the_second_maximum_is_left_behind(monkeypatch):
    """At gamma = 1, where b2 and delta take its place."""
    case = Case(Setting(pools=30, contents=4, twice=4, corr=0.8), 1.0)
    with runtime.precision("float64"):
        estimates = []
        for starts in ((0.0,), bias_slope.STARTS):
            monkeypatch.setattr(bias_slope, "STARTS", starts)
            estimates.append(fitted(case, np.random.default_rng(0), 12)[2].top.at[:, 4])
    low = [(values < 0.5).sum() for values in estimates]
    assert low[0] >= 2 * max(low[1], 1)


@pytest.mark.heavy
def test_estimates_are_unbiased():
    """Halves chosen by estimated qualities would pull the difference to 0, and did by a quarter."""
    case = Case(Setting(pools=40, contents=4, twice=4), 0.5)
    with runtime.precision("float64"):
        _, _, fit = fitted(case, np.random.default_rng(1), 16)
        results = [{n: v for n, v, _ in fit.known(s, 0)} for s in range(16)]
    truth = {"c": 1.0, "gamma": 0.5, "difference": 0.66}
    for name, expected in truth.items():
        values = np.array([r[name] for r in results])
        assert abs(values.mean() - expected) < 3 * values.std() / np.sqrt(16), name


def written(tables, n_pools=25, *, twice=True, seed=0, order="shown"):
    """Files of pools of four contents, rendered twice, with c = 0.8 and gamma = 0.7."""
    rng = np.random.default_rng(seed)
    verdicts, items = ["pool,first,second,winner,order"], ["pool,item,content,words"]
    content = np.arange(8) % 4 if twice else np.arange(8)
    for pool in range(n_pools):
        q, x = rng.normal(size=content.max() + 1), rng.normal(size=8)
        phi = q[content] + (0.8 + 0.7 * (q - q.mean())[content]) * (x - x.mean())
        items += [f"p{pool},i{i},k{content[i]},{x[i]:.4f}" for i in range(8)]
        for i in range(8):
            for j in range(8):
                if i != j:
                    won = "first" if rng.random() < expit(phi[i] - phi[j]) else "second"
                    verdicts.append(f"p{pool},i{i},i{j},{won},{order}")
    return tables("\n".join(verdicts) + "\n", "\n".join(items) + "\n")


def loaded(paths, **options):
    return own.load(*paths, ["words"], standardise=False, **options)


@pytest.mark.heavy
def test_identify_measures_it(tables, tmp_path, capsys):
    paths = written(tables)
    found = own.identify(loaded(paths))
    (entry,) = found.by_quality
    for name, truth in (("c", 0.8), ("gamma", 0.7)):
        part = getattr(entry, name)
        assert part.low < truth < part.high, name
    assert entry.difference.low > 0
    assert "by_quality" not in found.alone[0].record()
    options = ["--verdicts", str(paths[0]), "--items", str(paths[1]), "--covariates", "words"]
    out = tmp_path / "found.json"
    assert cli.main(["identify", *options, "--no-standardise", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "of the stronger half of the contents +" in text
    assert "one constant c corrects weak contents too much and strong ones too little" in text
    (record,) = json.loads(out.read_text())["by_quality"]
    assert record["judge"] is None
    for name in ("c", "stronger", "weaker", "difference", "gamma"):
        part = getattr(entry, name)
        assert record[name]["low"] == pytest.approx(part.low)


@pytest.mark.heavy
def test_rows_of_verdicts_give_the_same_as_counts(tables, monkeypatch):
    paths = written(tables, 6)
    counts = by_quality(loaded(paths), Prior())
    monkeypatch.setattr(batches, "LARGEST_COUNTS", 4)
    batch = loaded(paths)
    assert batch.groups[0].places is not None
    rows = by_quality(batch, Prior())
    for a, b in zip(counts, rows, strict=True):
        for name in ("c", "stronger", "weaker", "difference", "gamma"):
            ends = [getattr(e, name).estimate for e in (a, b)]
            assert ends[0] == pytest.approx(ends[1], abs=1e-6)


@pytest.mark.parametrize("how", ["every content once", "merged"])
def test_where_pools_do_not_identify_it_nothing_is_said(tables, how):
    paths = written(tables, 3, twice=how == "merged")
    batch = loaded(paths, merge_pools=how == "merged")
    assert by_quality(batch, Prior()) == ()


@pytest.mark.heavy
def test_intervals_need_enough_pools_and_one_maximum(fitted_once, monkeypatch):
    def bases(fit):
        return {known.basis for _, _, known in fit.known(0, 0)}

    def printed(fit):
        return [np.isfinite(known.half_width) for _, _, known in fit.known(0, 0)]

    monkeypatch.setattr(bias_slope, "FEWEST_DEGREES", 0)
    assert bases(fitted_once) == {Basis.MEASURED}
    assert all(printed(fitted_once))
    twice = dataclasses.replace(fitted_once, ambiguous=np.ones((1, 1), bool))
    assert bases(twice) == {Basis.AMBIGUOUS}
    assert not any(printed(twice))
    monkeypatch.setattr(bias_slope, "FEWEST_DEGREES", 12)
    assert bases(fitted_once) == {Basis.FEW_POOLS}
    assert not any(printed(fitted_once))
