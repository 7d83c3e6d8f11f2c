"""Plans on simulated pools: half-widths against explicit designs and simulated intervals, what is
enough, the commands, and wrong options."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.special import expit
from support.problems import design_vectors

from jbt import identifiability, planning, stats
from jbt.estimators import reference
from jbt.estimators.interaction_fit import bias_variances
from jbt.planning.pairing_plan import nearest_twice
from jbt.planning.plan import lasting
from jbt.simulation import judges, pairs, pools
from jbt.types import Comparisons, Design, Judge, Parameters, Pool

Z = 1.959963985


def covariance(z, weight):
    """Of the parameters of a logistic regression, by the singular values of its information."""
    return np.linalg.pinv((z.T * np.asarray(weight)) @ z, rcond=1e-12)


def paired(n_twice):
    """A pool some of whose contents are rendered twice, and a judge whose bias grows."""
    pool = pools.paired(jax.random.key(0), 6, n_twice=n_twice, sd=1.2, spread=1.0)
    return pool, Judge.of(0.8, 0.2, 0.9, interaction=0.5)


def test_expected_half_width_is_the_dense_one(x64):
    pool, judge = paired(3)[0], Judge.of(0.8, 0.3, 0.7)
    shown = np.asarray(pairs.every_pair(pool)) * default_rng(0).random((12, 12)) * 4
    z = identifiability.comparison_matrix(pool.design, shown)
    p = expit(z @ np.r_[0.7 * np.asarray(pool.quality), 0.8, 0.3])
    half = Z * np.sqrt(covariance(z, shown[np.nonzero(shown)] * p * (1 - p))[6, 6])
    half_width = jax.jit(planning.expected_half_width)
    assert float(half_width(pool, judge, jnp.asarray(shown))) == pytest.approx(half, rel=1e-8)
    lonely = paired(0)[0]
    assert float(half_width(lonely, judge, pairs.every_pair(lonely))) == np.inf


@pytest.mark.heavy
def test_half_width_beside_a_reference_is_that_of_the_explicit_design(x64):
    """Whose shown pairs are few enough to leave some items to the cheap judge alone."""
    n, rng = 7, default_rng(0)
    x, theta = rng.normal(size=n), rng.normal(size=n)
    pool = Pool(jnp.asarray(theta), Design.build(x[:, None]))
    every, few = 1.0 - np.eye(n), np.triu(rng.random((n, n)) < 0.5, 1) * 1.0
    cheap, s = Judge(jnp.array([1.2]), 0.4, 0.8), 2.5

    def width(shown):
        panel = reference.beside(*(Comparisons.build(v, v / 2) for v in (every, shown)), s)
        return float(planning.expected_half_width_beside(pool, cheap, panel))

    z = design_vectors(pool.design)
    rows = np.concatenate([z[every > 0], z[few > 0] * np.r_[np.full(n, s), 0, 0]])
    p = expit(rows @ np.r_[0.8 * theta, 1.2, 0.4])
    explicit = Z * np.sqrt(covariance(rows, p * (1 - p))[n, n])
    assert width(few) == pytest.approx(explicit, rel=1e-6)
    assert np.isinf(width(np.zeros((n, n))))


def test_what_is_enough():
    low = np.array([0.4, 0.81, 0.78, 0.85])
    assert [lasting(low >= power) for power in (0.8, 0.9)] == [3, None]
    columns = {
        "half_width": np.array([np.inf, 0.4, 0.6, 0.3]),
        "recall": np.array([0.5, 0.6, 0.7, 0.8]),
        "recall_standard_error": np.full(4, 0.02),
    }
    # Recall by the lower end of its interval, not by the estimate.
    for wanted, place in (({"half_width": 0.5}, 3), ({"recall": 0.57}, 2)):
        plan = planning.ReferencePlan(n_reference=(0, 5, 10, 20), **wanted)
        assert plan.enough(columns) == place


@pytest.fixture
def plan(folder, outcome):
    """Give `jbt plan`; returns its record."""

    def give(line):
        outcome(f"plan {line} --json plan.json --overwrite")
        return json.loads((folder / "plan.json").read_text())

    return give


@pytest.mark.heavy
def test_pairing(plan):
    line = "pairing --n-contents 6 --budget 60 --pools 4 --half-width 1.6"
    every = plan(line)["comparisons"]["all"]
    assert every["half_width"] == sorted(every["half_width"], reverse=True)
    smallest = every["smallest_n_twice"]
    assert every["half_width"][smallest - 1] <= 1.6 < every["half_width"][smallest - 2]


@pytest.mark.heavy
def test_reference(plan):
    placed = plan(
        "reference --n-items 8 --k 2 --pools 8 --n-reference 0 20 --half-width 3 --bias 1.5 "
        "--rho 0.5 --recall 0.01"
    )["placements"]
    assert placed["random"]["half_width"][0] is None  # not identified
    assert placed["random"]["smallest_n_reference"] == 20
    # Without reference verdicts the placements are alike.
    assert placed["random"]["recall"][0] == placed["boundary"]["recall"][0]


@pytest.mark.heavy
def test_gate(plan):
    record = plan("gate --n-items 8 --k 2 --pools 64 --bias 2 --n-labels 5 28 --power 0.5")
    labels = record["labels"]
    # All 28 pairs hold all disputed ones: no more is to be had of pairs.
    rates = {name: v["enable_rate"]["helped"]["estimate"] for name, v in labels.items()}
    assert rates["pairs"][1] == pytest.approx(rates["disputed"][1])
    assert rates["pairs"][0] < rates["disputed"][0]
    assert labels["disputed"]["labels_used"][1] < 28
    # A census of true labels never errs.
    census = {name: v["estimate"] for name, v in record["census"]["enable_rate"].items()}
    assert (census["helped"], census["recall_harmed"]) == (1, 0)


def test_rates_over_pools():
    values = np.array([[0, 0.5, 1.0], [0, 0.7, 1.0], [0, 0.1, 1.0]])
    exact = 0.025 ** (1 / 3)  # where all pools are alike; none where three are not
    expected = [[0, 1.3 / 3, 1], [0, np.nan, exact], [1 - exact, np.nan, 1]]
    assert_allclose(planning.over_pools(values), expected)
    many = planning.over_pools(np.tile(values, (40, 1)))
    assert_allclose(many[:, 1], stats.bounded_interval(np.tile(values[:, 1], 40)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("pairing --twice boundary", "--twice boundary needs --interaction: one bias is"),
        ("pairing --interaction 1 --twice boundary --k 30", "k must lie in 1..29, got 30"),
        ("reference --n-reference 9 3", "n_reference must increase from at least 0"),
        ("gate --rho 0.9 --covariate binary", "rho must lie within +-0.798, the most"),
        ("gate --labels pairs items", "labels must list some of pairs, disputed, swaps"),
        ("", "plan what? one of plan gate, plan labels, plan pairing, plan prompts"),
    ],
)
def test_bad_plans(options, message, jbt):
    assert message in jbt(f"plan {options}", code=2)


def variances(pool, judge, shown):
    """Of c, gamma and the mean bias of the contents rendered twice."""
    seen = judge.discrimination * (pool.quality - pool.quality.mean())
    truth = Parameters(seen, jnp.asarray(judge.bias), jnp.asarray(judge.position))
    growth = jnp.asarray(judge.interaction) / judge.discrimination
    twice = pool.design.item_mask[pool.design.n_contents :]
    comparisons = Comparisons(shown, shown / 2)
    return [float(v[0]) for v in bias_variances(truth, growth, comparisons, pool.design, twice)]


@pytest.mark.heavy
def test_variances_with_an_interaction_are_those_of_the_explicit_design(x64):
    """Derivatives of all logits by the automatic one, the mean bias as a function of all
    parameters."""
    pool, judge = paired(3)
    m, d = 6, pool.design
    shown = 5.0 * pairs.every_pair(pool)

    def logits(beta):
        theta = beta[:m] - beta[:m].mean()
        of_items = theta[d.content]
        phi = of_items + (beta[m] + beta[m + 2] * of_items) * d.covariates[:, 0]
        return phi[:, None] - phi + beta[m + 1]

    def mean_bias(beta):
        return beta[m] + beta[m + 2] * (beta[:3].mean() - beta[:m].mean())

    seen = 0.9 * (pool.quality - pool.quality.mean())
    beta = jnp.concatenate([seen, jnp.array([0.8, 0.2, 0.5 / 0.9])])
    probability = judges.verdict_probability(pool, judge)
    assert_allclose(jax.nn.sigmoid(logits(beta)), probability, atol=1e-12)
    z = np.asarray(jax.jacobian(logits)(beta)).reshape(-1, m + 3)
    inverse = covariance(z, (shown * probability * (1 - probability)).ravel())
    of_mean = np.asarray(jax.grad(mean_bias)(beta))
    explicit = [inverse[m, m], inverse[m + 2, m + 2], of_mean @ inverse @ of_mean]
    assert_allclose(variances(pool, judge, shown), explicit, rtol=1e-6)


@pytest.mark.heavy
def test_what_identifies_a_bias_that_may_grow(x64):
    """One content twice identifies its own bias alone; comparisons within contents each bias, hence
    the mean one, and c where all are rendered twice; nothing does unpaired."""
    for n_twice, shown_of, identified in (
        (0, pairs.every_pair, [False, False, False]),
        (1, pairs.every_pair, [False, False, True]),
        (6, pairs.within_contents, [True, False, True]),
    ):
        pool, judge = paired(n_twice)
        found = variances(pool, judge, shown_of(pool))
        assert np.isfinite(found).tolist() == identified
    assert found[0] == pytest.approx(found[2], rel=1e-9)


def test_the_contents_nearest_to_the_boundary_are_rendered_twice(x64):
    pool = dataclasses.replace(paired(6)[0], quality=jnp.array([0.0, 5.0, 2.0, 3.1, 1.0, 9.0]))
    # The best two are 9 and 5, the boundary lies at 4.05.
    chosen = nearest_twice(pool, jnp.asarray(2), k=2)
    assert np.flatnonzero(chosen.design.item_mask[6:]).tolist() == [1, 3]
