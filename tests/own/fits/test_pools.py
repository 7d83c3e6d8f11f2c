"""Fits of a user's tables, as a notebook asks for them."""

import io
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from support.example_tables import ITEMS, VERDICTS
from support.marks import heavy
from support.problems import design_vectors

from jbt import identifiability, own, runtime
from jbt.own.shared_coefficients.intervals import Z
from jbt.simulation import theory
from jbt.types import Prior, Status


@pytest.fixture(scope="module")
def batch():
    tables = (pd.read_csv(io.StringIO(text)) for text in (VERDICTS, ITEMS))
    return own.load(*tables, ["words", "lists"])


@pytest.fixture(scope="module")
def fits(batch):
    return own.fit(batch, prior=Prior())


def test_each_pool_and_judge_is_fitted(batch, fits):
    """Eq. 3 holds at every MAP, padded or not; statuses say where there is nothing to learn."""
    assert [(p.pool, p.judge) for p in batch.pools] == [(f.pool, f.judge) for f in fits]
    kinds = [Status.CONVERGED, Status.COVARIATE_CONSTANT, Status.NO_VERDICTS]
    assert [f.status for f in fits if f.judge == "a"] == kinds
    assert [f.usable for f in fits] == [True, True, True, False, False, False]
    for at, f in enumerate(fits):
        row = batch.groups[0].row.ravel()[at]
        x = np.asarray(batch.groups[0].design.covariates)[row, : len(f.items)]
        assert f.theta.dtype == x.dtype == np.float64
        assert_allclose(f.phi, f.theta + x @ f.c, atol=1e-12)
        with runtime.precision("float64"):
            expected = theory.map_bias(jnp.asarray(f.phi), jnp.asarray(x), 1.0, 0.1)
        assert_allclose(f.c, expected, atol=1e-8)
        assert f.grad_norm < 1e-8


PAIRED = pd.DataFrame({"item": [*"abcde"], "content": [*"AABCC"], "words": [1, 4, 2, 5, 3]})


def paired():
    """Verdicts on `PAIRED`, some ties."""
    rng, rows = default_rng(0), []
    for _ in range(60):
        first, second = rng.permutation(list("abcde"))[:2]
        winner = "tie" if rng.random() < 0.2 else "second" if first > second else "first"
        winner = rng.choice(["first", "second"]) if rng.random() < 0.4 else winner
        rows.append((first, second, winner))
    return pd.DataFrame(rows, columns=["first", "second", "winner"])


@pytest.mark.heavy
@pytest.mark.parametrize("covariates", [[], heavy(["words"])])
def test_intervals_are_those_of_an_explicit_hessian(covariates):
    """theta's is of its distance from the mean of the contents; c's is the profile's."""
    batch = own.load(paired(), PAIRED, covariates)
    d = len(covariates)
    (found,) = own.fit(batch, k=2, prior=Prior(0.5, 0.2))
    (group,) = batch.groups
    with runtime.precision("float64"):
        comparisons, design = jax.tree.map(lambda leaf: leaf[0], (group.comparisons, group.design))
        z = design_vectors(design).reshape(-1, 4 + d)
        estimates = [
            identifiability.estimate_bias(comparisons, design, covariate=i) for i in range(d)
        ]
    ranking = sorted(found.ranking, key=lambda r: r.content)
    mode = np.r_[[r.theta for r in ranking], found.c, found.kappa]
    p = 1 / (1 + np.exp(-z @ mode))
    weight = np.asarray(comparisons.shown).reshape(-1) * p * (1 - p)
    covariance = np.linalg.inv((z.T * weight) @ z + np.diag([0.5] * 3 + [0.2] * (1 + d)))
    centre = np.eye(4 + d)
    centre[:3, :3] -= 1 / 3
    sd = np.sqrt((centre @ covariance @ centre.T).diagonal())
    owner = [0, 0, 1, 2, 2]
    # With c free, theta's would rest on quality that has nothing to do with the covariate.
    wide = Z * sd[owner] if d == 0 else np.full(5, np.nan)
    for width in (found.theta_high - found.theta, found.theta - found.theta_low):
        assert_allclose(width, wide, rtol=1e-8)
    assert found.kappa_high - found.kappa == pytest.approx(Z * sd[-1], rel=1e-8)
    for of_c in estimates:
        expected = float(of_c.c), float(of_c.low), float(of_c.high)
        assert (found.c_mle, found.c_low, found.c_high) == pytest.approx(expected, abs=1e-8)
    draws = default_rng(0).multivariate_normal(mode, covariance, 100_000)[:, :3]
    top = (draws >= np.sort(draws, 1)[:, 1:2]).mean(0)
    assert_allclose([r.membership for r in ranking], top, atol=0.02)
    lows = [r.low for r in found.ranking]
    assert d or lows == sorted(lows, reverse=True)


def test_where_the_prior_chose_there_is_no_interval(fits):
    found, nothing = fits[0], fits[4]
    assert found.prior_selected == ("theta", "c")
    for undefined in (found.theta_low, found.theta_high, found.c_mle, found.c_low, found.c_high):
        assert np.isnan(undefined).all()
    assert found.kappa_low < found.kappa < found.kappa_high
    assert nothing.status == Status.NO_VERDICTS
    assert np.isnan([nothing.kappa_low, *nothing.theta_low]).all()
    assert nothing.islands == 2


@pytest.mark.heavy
def test_equal_qualities_share_a_rank():
    """b and c have the same record, whatever rounding makes of it."""
    pairs = map(list, ["ab", "ac", "bd", "cd", "ba", "ca", "db", "dc"])
    verdicts = pd.DataFrame(pairs, columns=["first", "second"])
    verdicts["winner"] = np.where(verdicts["first"] < verdicts["second"], "first", "second")
    (found,) = own.fit(own.load(verdicts))
    assert [r.rank for r in found.ranking] == [1, 2, 2, 4]
    assert (found.ranking[0].content, found.ranking[3].content) == ("a", "d")


def test_only_what_has_verdicts_is_fitted():
    """Not the product of pools and judges."""
    verdicts = [(f"p{p}", f"j{p // 4}", "a", "b", "tie") for p in range(20)]
    columns = ["pool", "judge", "first", "second", "winner"]
    batch = own.load(pd.DataFrame(verdicts, columns=columns))
    n_fits = sum(len(group.index) for group in batch.groups)
    assert 20 <= n_fits < 50 < len(batch.pools) == 100


@pytest.mark.heavy
def test_a_large_kappa_is_said_to_be_covered_less():
    pairs = list(itertools.permutations("abcd", 2))
    for n_turned, said in ((0, True), (5, False)):
        winner = ["second"] * n_turned + ["first"] * (len(pairs) - n_turned)
        verdicts = pd.DataFrame(pairs, columns=["first", "second"]).assign(pool="p", winner=winner)
        text = own.analyse(own.Batch.of(own.read(verdicts))).report("", []).text()
        assert ("covers less than 93 % in simulations" in text) == said
