import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from jbt import cli, identifiability, judges, pairs, planning, pools
from jbt.types import Judge, Status


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
    plan = planning.pairing(10, 2000, n_twice=[4], max_repeats=1e9, pools_simulated=200)

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
    assert abs(float(half.mean()) - plan.half_width["all"][0]) < 4 * error + 0.01
    # And the estimates spread as much as the interval says.
    spread = float(np.std(c)) * 1.96
    assert abs(spread / plan.half_width["all"][0] - 1) < 4 / np.sqrt(2 * 200) + 0.05


def test_the_smallest_number_that_is_enough():
    plan = planning.PairingPlan(
        np.array([1, 3, 9]), {"all": np.array([np.inf, 0.3, 0.2])}, {}, {}, {}
    )
    assert plan.smallest("all", 0.2) == 9
    assert plan.smallest("all", 0.3) == 3
    assert plan.smallest("all", 0.1) is None


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["pairing", "--n-contents", "1"], "n_contents must be at least 2, got 1"),
        (["pairing", "--n-twice", "5", "40"], "n_twice must increase within 1..30, got [5, 40]"),
        (["pairing", "--offset", "0"], "offset must be finite and not 0"),
        (["pairing", "--half-width", "-1"], "half_width must be finite and above 0"),
        (["pairing", "--budget", "0"], "budget must be finite and above 0"),
        (["pairing", "--max-repeats", "0"], "max_repeats must be at least 1, got 0"),
        (["pairing", "--max-repeats", "nan"], "max_repeats must be at least 1, got nan"),
        (["pairing", "--json", ""], "cannot write .: it is a folder, not the name of a file"),
        (["pairing", "--json", "no/such/plan.json"], "no folder"),
        (["pairing", "--pools", "0"], "pools must be at least 1, got 0"),
        (["pairing", "--rho", "2"], "rho must lie within"),
        ([], "nothing to plan: one of pairing"),
        (["anchors"], "unknown plan 'anchors': one of pairing"),
    ],
)
def test_bad_plans(options, message, capsys):
    assert cli.main(["plan", *options]) == 2
    assert message in capsys.readouterr().err
