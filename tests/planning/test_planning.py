import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from jbt import cli, identifiability, planning, stats
from jbt.estimators import estimate_interaction, reference
from jbt.estimators.interaction_fit import bias_variances
from jbt.planning.pairing_plan import nearest_twice
from jbt.planning.plan import lasting
from jbt.planning.reference_plan import recall_interval
from jbt.simulation import judges, pairs, pools
from jbt.types import Comparisons, Design, Judge, Parameters, Pool, Status


def test_expected_half_width_is_the_dense_one(x64):
    paired = jax.jit(functools.partial(pools.paired, n_contents=5, spread=1.0))
    made = paired(jax.random.key(0), n_twice=jnp.array(3))
    judge = Judge(jnp.full(1, 0.8), 0.3, 0.7)
    rng = np.random.default_rng(0)
    shown = np.asarray(pairs.every_pair(made)) * rng.random((10, 10)) * 4
    z = identifiability.comparison_matrix(made.design, shown)
    i, j = np.nonzero(shown)
    theta = 0.7 * np.asarray(made.quality)
    p = expit(z @ np.r_[theta, 0.8, 0.3])
    information = (z.T * (shown[i, j] * p * (1 - p))) @ z
    half = 1.959963985 * np.sqrt(np.linalg.pinv(information, rcond=1e-12)[5, 5])
    half_width = jax.jit(planning.expected_half_width)
    found = half_width(made, judge, jnp.asarray(shown))
    assert float(found) == pytest.approx(half, rel=1e-8)
    only = jnp.asarray(shown * np.asarray(pairs.across_contents(made)))
    lonely = paired(jax.random.key(0), n_twice=jnp.array(0))
    nothing = half_width(lonely, judge, only * pairs.every_pair(lonely))
    assert float(nothing) == np.inf


@pytest.mark.heavy
def test_the_plan_foretells_the_width_of_simulated_intervals(x64):
    options = {"n_contents": 10, "budget": 2000, "n_twice": (4,), "max_repeats": 1e6}
    plan = planning.PairingPlan(**options, pools=200).run()
    planned = plan["comparisons"]["all"]["half_width"][0]

    def one(key):
        a, b, c = jax.random.split(key, 3)
        made = pools.paired(a, 10, n_twice=4, spread=1.0)
        shown = pairs.choose(b, made, 2000)
        p = judges.verdict_probability(made, Judge(jnp.ones(1), 0.0))
        comparisons = judges.fresh_comparisons(c, p, shown)
        estimate = identifiability.estimate_bias(comparisons, made.design)
        return estimate.high - estimate.low, estimate.c, estimate.status

    width, c, status = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), 200))
    assert (status == Status.CONVERGED).all()
    half = width / 2
    error = np.hypot(half.std() / np.sqrt(200), half.std() / np.sqrt(200))
    assert abs(float(half.mean()) - planned) < 4 * error + 0.01
    # And the estimates spread as much as the interval says.
    spread = float(np.std(c)) * 1.96
    assert abs(spread / planned - 1) < 4 / np.sqrt(2 * 200) + 0.05


def test_the_smallest_number_that_is_enough():
    half_width = np.array([np.inf, 0.3, 0.2])
    for wanted, smallest in ((0.2, 9), (0.3, 3), (0.1, None)):
        plan = planning.PairingPlan(n_twice=(1, 3, 9), half_width=wanted)
        assert plan.smallest(half_width) == smallest


def test_help(capsys):
    assert cli.main(["plan", "--help"]) == 0
    assert "pairing" in capsys.readouterr().out


def test_the_command(tmp_path, capsys):
    out = tmp_path / "plan.json"
    options = ["--n-contents", "6", "--budget", "60", "--pools", "4", "--json", str(out)]
    assert cli.main(["plan", "pairing", *options, "--half-width", "1.6"]) == 0
    printed = capsys.readouterr().out
    assert "n_twice" in printed
    plan = json.loads(out.read_text())
    assert plan["n_twice"] == [1, 2, 3, 4, 5, 6]
    every = plan["comparisons"]["all"]
    assert every["half_width"] == sorted(every["half_width"], reverse=True)
    smallest = every["smallest_n_twice"]
    assert every["half_width"][smallest - 1] <= 1.6 < every["half_width"][smallest - 2]
    assert f"all:     {smallest} contents" in printed


@pytest.mark.heavy
def test_half_width_beside_a_reference_is_that_of_the_explicit_design(x64):
    """Whose shown pairs are few enough to leave some items to the cheap judge alone."""
    n, rng = 7, np.random.default_rng(0)
    x, theta = rng.normal(size=n), rng.normal(size=n)
    pool = Pool(jnp.asarray(theta), Design.build(x[:, None]))
    every, few = 1.0 - np.eye(n), np.triu(rng.random((n, n)) < 0.5, 1) * 1.0
    cheap, s = Judge(jnp.array([1.2]), 0.4, 0.8), 2.5

    def width(shown):
        counts = [Comparisons.build(v, v / 2) for v in (every, shown)]
        panel = reference.beside(*counts, s)
        return float(planning.expected_half_width_beside(pool, cheap, panel))

    rows, weight = [], []
    for shown, factor, c, kappa in ((every, 1, 1.2, 0.4), (few, s, 0, 0)):
        for i, j in zip(*np.nonzero(shown), strict=True):
            e = np.eye(n)[i] - np.eye(n)[j]
            mine = factor == 1
            rows.append(np.r_[factor * e, mine * (x[i] - x[j]), mine])
            p = expit(0.8 * factor * (theta[i] - theta[j]) + c * (x[i] - x[j]) + kappa)
            weight.append(p * (1 - p))
    z = np.array(rows)
    covariance = np.linalg.pinv((z.T * weight) @ z, rcond=1e-12)
    assert width(few) == pytest.approx(1.959964 * np.sqrt(covariance[n, n]), rel=1e-6)
    assert np.isinf(width(np.zeros((n, n))))


def half_width_of_ten(key):
    """Half the length of the interval for c beside ten verdicts of a reference, in a pool of 8, and
    what is expected of it: by the information at the truth, and by the plan."""
    a, b, c, d = jax.random.split(key, 4)
    pool, cheap = pools.gaussian(a, 8, sd=1.2), Judge(jnp.ones(1), 0.0)
    every = 20 * pairs.every_pair(pool)  # many, as the plan takes apparent quality for known
    made = judges.fresh_comparisons(b, judges.verdict_probability(pool, cheap), every)
    asked = reference.asked(c, pairs.every_pair(pool), jnp.array(10.0))
    trusted = judges.verdict_probability(pool, Judge(jnp.zeros(1), 0.0))
    panel = reference.beside(made, judges.fresh_comparisons(d, trusted, asked))
    found = identifiability.estimate_bias(
        panel, pool.design, judge=0, variant=reference.joint_variant(panel, pool.design)
    )
    expected = planning.expected_half_width_beside(pool, cheap, panel)
    planned = expected * planning.realised_over_expected(pool, cheap, panel, 10)
    return (found.high - found.low) / 2, expected, planned, found.status


@pytest.mark.heavy
def test_the_plan_beside_a_reference_foretells_the_interval(x64):
    """The information at the truth promises intervals a fifth too short, as the likelihood of ten
    verdicts is no parabola."""
    keys = jax.random.split(jax.random.key(0), 300)
    found, expected, planned, status = jax.device_get(jax.jit(jax.vmap(half_width_of_ten))(keys))
    exists = status == Status.CONVERGED
    assert (exists == np.isfinite(planned)).mean() > 0.97
    found = np.where(exists, found, np.inf)
    middle = np.median(found)
    assert np.median(expected) < 0.9 * middle
    assert np.median(planned) == pytest.approx(middle, rel=0.06)
    both = exists & np.isfinite(planned)
    assert np.median(np.abs(np.log(planned[both] / found[both]))) < 0.1


def test_the_smallest_number_of_reference_verdicts_lasts():
    half, recall = np.array([np.inf, 0.4, 0.6, 0.3]), np.array([0.5, 0.6, 0.7, 0.8])
    of = {"half_width": half, "recall": recall, "recall_standard_error": np.full(4, 0.02)}

    def enough(**wanted):
        return planning.ReferencePlan(n_reference=(0, 5, 10, 20), **wanted).enough(of)

    assert enough() == enough(half_width=0.5) == 3
    low, high = recall_interval(of)
    np.testing.assert_allclose([low[1], high[1]], 0.6 + np.array([-1, 1]) * 1.959964 * 0.02)
    # By the lower end of its interval, not by the estimate.
    assert enough(recall=0.56) == 1
    assert enough(recall=0.57) == 2
    assert enough(half_width=0.1) is None
    assert enough(half_width=10.0, recall=0.65) == 2


@pytest.mark.heavy
def test_the_command_on_a_reference(tmp_path, capsys):
    out = tmp_path / "plan.json"
    options = ["--n-items", "8", "--k", "2", "--pools", "8", "--json", str(out)]
    options += ["--n-reference", "0", "20", "--half-width", "3", "--bias", "1.5", "--rho", "0.5"]
    options += ["--recall", "0.01"]
    assert cli.main(["plan", "reference", *options]) == 0
    printed = capsys.readouterr().out
    plan = json.loads(out.read_text())
    assert plan["n_reference"] == [0, 20]
    placed = plan["placements"]
    assert set(placed) == {"boundary", "disputed", "random"}
    for name, found in placed.items():
        assert found["half_width"][0] is None  # infinite: not identified
        assert found["asked"][0] == 0
        smallest = found["smallest_n_reference"]
        assert (smallest == 20) == (
            found["half_width"][1] is not None and found["half_width"][1] <= 3
        )
        answer = "more than those tried" if smallest is None else f"{smallest} verdicts"
        at = -1 if smallest is None else plan["n_reference"].index(smallest)
        recall, error = found["recall"][at], 1.959964 * found["recall_standard_error"][at]
        interval = f"[{recall - error:.3f}, {recall + error:.3f}]"
        assert f"{name + ':':10} {answer}, recall {recall:.3f} {interval}" in printed
    assert placed["random"]["smallest_n_reference"] == 20
    # Without reference verdicts the placements are alike.
    assert placed["random"]["recall"][0] == placed["boundary"]["recall"][0]
    assert 0 < plan["recall_bias_aware"] <= 1


def test_what_lasts():
    low = np.array([0.4, 0.81, 0.78, 0.85])
    assert [lasting(low >= power) for power in (0.8, 0.3, 0.9)] == [3, 0, None]
    assert lasting(np.full(4, np.nan) >= 0.1) is None


def test_rates_over_pools():
    values = np.array([[0, 0.5, 1.0], [0, 0.7, 1.0], [0, 0.1, 1.0]])
    rate, low, high = planning.over_pools(values)
    np.testing.assert_allclose(rate, [0, 1.3 / 3, 1])
    # Exact where all pools are alike: 0.025^(1/3).
    np.testing.assert_allclose(low[[0, 2]], [0, 0.025 ** (1 / 3)])
    np.testing.assert_allclose(high[[0, 2]], [1 - 0.025 ** (1 / 3), 1])
    assert np.isnan([low[1], high[1]]).all()  # of three pools
    many = planning.over_pools(np.tile(values, (40, 1)))
    np.testing.assert_allclose(many[:, 1], stats.bounded_interval(np.tile(values[:, 1], 40)))
    assert np.isnan(planning.over_pools(values[:0])).all()


@pytest.mark.heavy
def test_the_command_on_a_gate(tmp_path, capsys):
    out = tmp_path / "plan.json"
    options = ["--n-items", "8", "--k", "2", "--pools", "64", "--json", str(out), "--bias", "2"]
    options += ["--n-labels", "5", "28", "--power", "0.5"]
    assert cli.main(["plan", "gate", *options]) == 0
    printed = capsys.readouterr().out
    plan = json.loads(out.read_text())
    assert plan["n_labels"] == [5, 28]
    (answer, *_) = printed.splitlines()
    assert answer.startswith("Labels to enable in 50 % of the pools that the correction helps: ")
    for name, of in plan["labels"].items():
        n = of["smallest_n_labels"]
        assert f" {n} {name}" in answer if n else name in answer.rpartition(";")[2]
    shares = {name: v["estimate"] for name, v in plan["pool_classes"].items()}
    assert shares["helped"] + shares["recall_harmed"] == pytest.approx(1)
    labels = plan["labels"]
    assert list(labels) == ["pairs", "disputed", "swaps", "members"]
    # All 28 pairs hold all disputed ones: no more is to be had of pairs.
    rates = {name: v["enable_rate"]["helped"]["estimate"] for name, v in labels.items()}
    assert rates["pairs"][1] == pytest.approx(rates["disputed"][1])
    assert rates["pairs"][0] < rates["disputed"][0]
    assert labels["pairs"]["labels_used"] == [5, 28]
    assert labels["disputed"]["labels_used"][1] < 28
    assert labels["members"]["labels_used"][1] <= plan["census"]["labels_used"] + 1e-6
    # A census of true labels never errs.
    census = {name: v["estimate"] for name, v in plan["census"]["enable_rate"].items()}
    assert (census["helped"], census["recall_harmed"]) == (1, 0)
    for name, found in labels.items():
        smallest = found["smallest_n_labels"]
        low = found["enable_rate"]["helped"]["ci_low"]
        assert (smallest is None) == (low[1] < 0.5)
        used = found["labels_used"][0 if smallest == 5 else 1]
        row = f"{name:10}{smallest or 'never':>8}{used:8.1f}"
        assert row in printed
        assert (f"{name}: not reached with all labels there are" in printed) == (not smallest)
    assert labels["swaps"]["smallest_n_labels"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["pairing", "--n-contents", "1"], "n_contents must be at least 2, got 1"),
        (["pairing", "--n-twice", "5", "40"], "n_twice must increase within 1..30, got [5, 40]"),
        (["pairing", "--offset", "0"], "offset must be finite and not 0"),
        (["pairing", "--half-width", "-1"], "half_width must be finite and above 0"),
        (["pairing", "--budget", "0"], "budget must be finite and above 0"),
        (["pairing", "--max-repeats", "0"], "max_repeats must be at least 1, got 0"),
        (["pairing", "--max-repeats", "nan"], "max_repeats must be finite, got nan"),
        (["pairing", "--json", ""], "cannot write .: it is a folder, not the name of a file"),
        (["pairing", "--json", "no/such/plan.json"], "no folder"),
        (["pairing", "--pools", "0"], "pools must be at least 1, got 0"),
        (["pairing", "--rho", "2"], "rho must lie within"),
        (["pairing", "--interaction", "nan"], "interaction must be finite, got nan"),
        (["pairing", "--twice", "boundary"], "--twice boundary needs --interaction: one bias is"),
        (["pairing", "--interaction", "1", "--twice", "top"], "twice must be any or boundary, got"),
        (["pairing", "--twice", "top"], "twice must be any or boundary, got 'top'"),
        (
            ["pairing", "--interaction", "1", "--twice", "boundary", "--k", "30"],
            "k must lie in 1..29, got 30",
        ),
        (["reference", "--n-items", "3"], "n_items must be at least 4, got 3"),
        (["reference", "--k", "30"], "k must lie in 1..29, got 30"),
        (["reference", "--n-reference", "9", "3"], "n_reference must increase from at least 0"),
        (["reference", "--recall", "1.5"], "recall must lie in (0, 1], got 1.5"),
        (["reference", "--half-width", "0"], "half_width must be finite and above 0"),
        (["reference", "--reference-discrimination", "0"], "reference_discrimination must be"),
        (["reference", "--reference-bias", "inf"], "reference_bias must be finite, got inf"),
        (["reference", "--pools", "1"], "pools must be at least 2, got 1"),
        (["gate", "--alpha", "0"], "alpha must lie above 0 and below 1/2, got 0"),
        (["gate", "--power", "1"], "power must lie between 0 and 1, got 1"),
        (["gate", "--k", "30"], "k must lie in 1..29, got 30"),
        (
            ["gate", "--rho", "0.9", "--covariate", "binary"],
            "rho must lie within +-0.798, the most",
        ),
        (["gate", "--labels", "pairs", "items"], "labels must list some of pairs, disputed, swaps"),
        (["gate", "--n-labels", "5", "500"], "n_labels must increase within 1..435, the pairs of"),
        (["gate", "--noise", "0.5"], "noise must lie in [0, 0.5), got 0.5"),
        (["gate", "--sets", "0"], "sets must be at least 1, got 0"),
        (["gate", "--bias", "inf"], "bias must be finite, got inf"),
        ([], "nothing to plan: one of gate, labels, pairing, prompts, reference"),
        (["anchors"], "unknown plan 'anchors': one of gate, labels, pairing, prompts, reference"),
    ],
)
def test_bad_plans(options, message, capsys):
    assert cli.main(["plan", *options]) == 2
    assert message in capsys.readouterr().err


def growing(n_twice, key=0, n=6):
    """A pool some of whose contents are rendered twice, and a judge whose bias grows."""
    pool = pools.paired(jax.random.key(key), n, n_twice=n_twice, sd=1.2, spread=1.0)
    return pool, Judge.of(0.8, 0.2, 0.9, interaction=0.5)


def variances(pool, judge, shown):
    """Of c, gamma and the mean bias of the contents rendered twice."""
    seen = judge.discrimination * (pool.quality - pool.quality.mean())
    truth = Parameters(seen, jnp.asarray(judge.bias), jnp.asarray(judge.position))
    growth = jnp.asarray(judge.interaction) / judge.discrimination
    twice = pool.design.item_mask[pool.design.n_contents :]
    comparisons = Comparisons(shown, shown / 2)
    return [float(v[0]) for v in bias_variances(truth, growth, comparisons, pool.design, twice)]


def test_variances_with_an_interaction_are_those_of_the_explicit_design(x64):
    """Derivatives of all logits by the automatic one, information inverted by its singular values,
    the mean bias as a function of all parameters."""
    pool, judge = growing(3)
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
    np.testing.assert_allclose(jax.nn.sigmoid(logits(beta)), probability, atol=1e-12)
    z = np.asarray(jax.jacobian(logits)(beta)).reshape(-1, m + 3)
    weight = (shown * probability * (1 - probability)).ravel()
    covariance = np.linalg.pinv((z.T * np.asarray(weight)) @ z, rcond=1e-11)
    of_mean = np.asarray(jax.grad(mean_bias)(beta))
    explicit = [covariance[m, m], covariance[m + 2, m + 2], of_mean @ covariance @ of_mean]
    np.testing.assert_allclose(variances(pool, judge, shown), explicit, rtol=1e-6)


def test_what_is_told_of_a_bias_that_may_grow(x64):
    """One content twice tells its own bias alone; comparisons within contents tell each bias, hence
    the mean one, and c where all are rendered twice; nothing tells anything unpaired."""
    pool, judge = growing(1)
    c, gamma, twice = variances(pool, judge, pairs.every_pair(pool))
    assert np.isinf([c, gamma]).all()
    assert np.isfinite(twice)
    pool, judge = growing(6)
    c, gamma, twice = variances(pool, judge, pairs.within_contents(pool))
    assert np.isinf(gamma)
    assert c == pytest.approx(twice, rel=1e-9)
    pool, judge = growing(0)
    assert np.isinf(variances(pool, judge, pairs.every_pair(pool))[:2]).all()


@pytest.mark.heavy
def test_estimates_with_an_interaction_spread_as_planned(x64):
    pool, judge = growing(16, n=16)
    shown = 6.0 * pairs.every_pair(pool)
    n = 300

    def one(key):
        p = judges.verdict_probability(pool, judge)
        found = estimate_interaction(judges.fresh_comparisons(key, p, shown), pool.design)
        return found.fit.parameters.c[0], found.interaction[0]

    spread = np.std(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), n)), axis=1)
    planned = np.sqrt(variances(pool, judge, shown)[:2])
    assert (np.abs(spread / planned - 1) < 3 / np.sqrt(2 * n) + 0.05).all()


def test_plans_with_an_interaction(capsys, tmp_path):
    out = tmp_path / "plan.json"
    options = ["--n-contents", "6", "--budget", "60", "--pools", "4", "--n-twice", "2", "6"]
    options += ["--k", "2", "--interaction", "0.5", "--json", str(out)]
    assert cli.main(["plan", "pairing", *options]) == 0
    assert "the mean bias of the contents rendered twice" in capsys.readouterr().out
    anywhere = json.loads(out.read_text())["other_coefficients"]["twice"]["all"]["half_width"]
    assert cli.main(["plan", "pairing", *options, "--twice", "boundary"]) == 0
    nearest = json.loads(out.read_text())["other_coefficients"]["twice"]["all"]["half_width"]
    assert nearest[1] == pytest.approx(anywhere[1])  # all are rendered twice
    assert nearest[0] != anywhere[0]


def test_the_contents_nearest_to_the_boundary_are_rendered_twice(x64):
    pool = dataclasses.replace(growing(6)[0], quality=jnp.array([0.0, 5.0, 2.0, 3.1, 1.0, 9.0]))
    # The best two are 9 and 5, the boundary lies at 4.05.
    chosen = nearest_twice(pool, jnp.asarray(2), k=2)
    assert np.flatnonzero(chosen.design.item_mask[6:]).tolist() == [1, 3]
