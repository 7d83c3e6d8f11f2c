"""Fits of a user's tables, as a notebook asks for them."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from support.marks import heavy
from support.problems import design_vectors

from jbt import identifiability, own, runtime
from jbt.own.shared_coefficients.intervals import Z
from jbt.simulation import theory
from jbt.types import Prior, Status


@pytest.fixture
def batch(tables):
    return own.load(*tables(), ["words", "lists"])


def test_each_pool_and_judge_is_fitted(batch):
    """Eq. 3 holds at every MAP, padded or not; statuses say where there is nothing to learn."""
    fits = {(f.pool, f.judge): f for f in own.fit(batch, prior=Prior())}
    assert [(p.pool, p.judge) for p in batch.pools] == list(fits)
    assert fits["p", "a"].status == Status.CONVERGED
    assert fits["q", "a"].status == Status.COVARIATE_CONSTANT
    assert fits["r", "a"].status == Status.NO_VERDICTS
    assert fits["r", "a"].top_k_differs is None
    assert [f.usable for f in fits.values()] == [True, True, True, False, False, False]
    for at, f in enumerate(fits.values()):
        row = batch.groups[0].row.ravel()[at]
        x = np.asarray(batch.groups[0].design.covariates)[row, : len(f.items)]
        assert f.theta.dtype == x.dtype == np.float64
        assert_allclose(f.phi, f.theta + x @ f.c, atol=1e-12)
        with runtime.precision("float64"):
            expected = theory.map_bias(jnp.asarray(f.phi), jnp.asarray(x), 1.0, 0.1)
        assert_allclose(f.c, expected, atol=1e-8)
        assert f.grad_norm < 1e-8


PAIRED = """pool,item,content,words
p,a,A,1
p,b,A,4
p,c,B,2
p,d,C,5
p,e,C,3
"""


def paired(seed: int = 0, n: int = 60) -> str:
    """Verdicts on `PAIRED`, some ties."""
    rng, rows = default_rng(seed), ["pool,first,second,winner"]
    for _ in range(n):
        first, second = rng.permutation(list("abcde"))[:2]
        winner = "tie" if rng.random() < 0.2 else "second" if first > second else "first"
        winner = rng.choice(["first", "second"]) if rng.random() < 0.4 else winner
        rows.append(f"p,{first},{second},{winner}")
    return "\n".join(rows) + "\n"


@pytest.mark.heavy
@pytest.mark.parametrize("covariates", [[], heavy(["words"])])
def test_intervals_are_those_of_an_explicit_hessian(covariates, tables):
    """theta's is of its distance from the mean of the contents; c's is the profile's."""
    batch = own.load(*tables(paired(), PAIRED), covariates)
    d = len(covariates)
    (found,) = own.fit(batch, k=2, prior=Prior(0.5, 0.2))
    (group,) = batch.groups
    with runtime.precision("float64"):
        comparisons, design = jax.tree.map(lambda leaf: leaf[0], (group.comparisons, group.design))
        z = design_vectors(design).reshape(-1, 4 + d)
        estimates = [
            identifiability.estimate_bias(comparisons, design, covariate=i) for i in range(d)
        ]
    mode = np.array([r.theta for r in sorted(found.ranking, key=lambda r: r.content)])
    mode = np.concatenate([mode, found.c, [found.kappa]])
    p = 1 / (1 + np.exp(-z @ mode))
    weight = np.asarray(comparisons.shown).reshape(-1) * p * (1 - p)
    covariance = np.linalg.inv((z.T * weight) @ z + np.diag([0.5] * 3 + [0.2] * (1 + d)))
    centre = np.eye(4 + d)
    centre[:3, :3] -= 1 / 3
    sd = np.sqrt((centre @ covariance @ centre.T).diagonal())
    owner = [0, 0, 1, 2, 2]
    # With c free, theta's would rest on quality that has nothing to do with the covariate.
    wide = Z * sd[owner] if d == 0 else np.full(5, np.nan)
    assert_allclose(found.theta_high - found.theta, wide, rtol=1e-8)
    assert_allclose(found.theta - found.theta_low, wide, rtol=1e-8)
    assert found.kappa_high - found.kappa == pytest.approx(Z * sd[-1], rel=1e-8)
    for of_c in estimates:
        expected = float(of_c.c), float(of_c.low), float(of_c.high)
        assert (found.c_mle, found.c_low, found.c_high) == pytest.approx(expected, abs=1e-8)
    draws = default_rng(0).multivariate_normal(mode, covariance, 100_000)[:, :3]
    top = (draws >= np.sort(draws, 1)[:, 1:2]).mean(0)
    among = [r.membership for r in sorted(found.ranking, key=lambda r: r.content)]
    assert_allclose(among, top, atol=0.02)
    assert d or [r.low for r in found.ranking] == sorted(
        (r.low for r in found.ranking), reverse=True
    )


def test_where_the_prior_chose_there_is_no_interval(batch):
    found = own.fit(batch)[0]
    assert found.prior_selected == ("theta", "c")
    for undefined in (found.theta_low, found.theta_high, found.c_mle, found.c_low, found.c_high):
        assert np.isnan(undefined).all()
    assert found.kappa_low < found.kappa < found.kappa_high
    nothing = own.fit(batch)[4]
    assert nothing.status == Status.NO_VERDICTS
    assert np.isnan([nothing.kappa_low, *nothing.theta_low]).all()
    assert nothing.islands == 2


@pytest.mark.heavy
def test_a_large_kappa_is_said_to_be_covered_less():
    pairs = list(itertools.permutations("abcd", 2))
    for n_turned, said in ((0, True), (5, False)):
        winner = ["second"] * n_turned + ["first"] * (len(pairs) - n_turned)
        verdicts = pd.DataFrame(pairs, columns=["first", "second"]).assign(pool="p", winner=winner)
        text = own.analyse(own.Batch.of(own.read(verdicts))).report("", []).text()
        assert ("covers less than 93 % in simulations" in text) == said


@pytest.mark.heavy
def test_equal_qualities_share_a_rank(tables):
    """b and c have the same record, whatever rounding makes of it."""
    rows = "p,a,b,first\np,b,a,second\np,a,c,first\np,c,a,second\np,b,d,first\np,d,b,second\n"
    v, i = tables(
        "pool,first,second,winner\n" + rows + "p,c,d,first\np,d,c,second\n",
        "pool,item\np,a\np,b\np,c\np,d\n",
    )
    (found,) = own.fit(own.load(v, i))
    assert [(r.content, r.rank) for r in found.ranking if r.content in "ad"] == [("a", 1), ("d", 4)]
    assert [r.rank for r in found.ranking] == [1, 2, 2, 4]


def test_a_record_is_what_json_takes(batch):
    record = own.fit(batch)[0].record()
    assert record["items"] == ["x", "y", "z"]
    assert record["status"] == "converged"
    assert record["prior_selected"] == ["theta", "c"]
    assert [type(v) for v in record["theta"]] == [float] * 3
    broken = dataclasses.replace(own.fit(batch)[0], kappa=np.nan, theta=np.array([np.nan, 1.0]))
    assert broken.record()["kappa"] is None
    assert broken.record()["theta"] == [None, 1.0]


def test_k_must_leave_something_out(batch):
    with pytest.raises(ValueError, match=r"k must lie in 1..1 \(pool 'q' has 2 contents\), got 2"):
        own.fit(batch, k=2)


def test_pools_of_one_content_have_nothing_to_rank(tables):
    items = "pool,item,content\np,x,A\np,y,A\n"
    with pytest.raises(ValueError, match="nothing to rank"):
        own.fit(own.load(*tables("pool,first,second,winner\np,x,y,first\n", items)))


def own_pools(n_judges: int = 5, each: int = 4) -> tuple[str, str]:
    """Tables in which every judge has pools of its own; one pool is judged by all, one by nobody,
    and one more judge has that pool alone, and an error on another."""
    rng = default_rng(0)
    pools = [f"p{p}" for p in range(n_judges * each)]
    rows = []

    def judged(pool: str, judge: str, n: int) -> None:
        for _ in range(n):
            one, two = rng.permutation(4)[:2]
            rows.append(f"{pool},i{one},i{two},{judge},{rng.choice(['first', 'second', 'tie'])}")

    for p, pool in enumerate(pools):
        judged(pool, f"j{p // each}", 20)
    for judge in (*(f"j{j}" for j in range(n_judges)), "lone"):
        judged("all of them", judge, 20)
    rows.append("p0,i0,i1,lone,error")
    items = [
        f"{pool},i{i},c{i // 2},{rng.integers(1, 9)}"
        for pool in (*pools, "all of them", "nobody")
        for i in range(4)
    ]
    return (
        "pool,first,second,judge,winner\n" + "\n".join(rows) + "\n",
        "pool,item,content,words\n" + "\n".join(items) + "\n",
    )


@pytest.mark.parametrize("position", ["auto", "yes"])
def test_only_what_has_verdicts_is_fitted(position, tables):
    """Not the product of pools and judges."""
    v, i = tables(*own_pools())
    batch = own.load(v, i, ["words"], position=position)
    n_pools, judges = len(batch.tables.pools), batch.tables.judges
    judged = sum(p.n_verdicts > 0 for p in batch.pools)
    assert judged == 26
    n_fits = sum(len(group.index) for group in batch.groups)
    assert judged < n_fits <= judged + n_pools + len(judges) < len(batch.pools) == 132
    for j, judge in enumerate(judges):
        alone = own.load(v, i, ["words"], judge=judge, position=position)
        assert batch.pools[j :: len(judges)] == alone.pools


@pytest.mark.nightly
@pytest.mark.parametrize("position", ["auto", "yes"])
def test_pools_without_verdicts_change_no_result(position, tables):
    """The results are those of each judge read alone."""
    v, i = tables(*own_pools(2, 2))
    batch = own.load(v, i, ["words"], position=position)
    judges = batch.tables.judges
    fits = own.fit(batch)
    of_judges = own.fit_judges(batch).of("c", "kappa")
    coefficients = list(own.identify(batch).table.itertuples())
    for j, judge in enumerate(judges):
        alone = own.load(v, i, ["words"], judge=judge, position=position)
        here = of_judges[of_judges["owner"] == j]
        there = own.fit_judges(alone).of("c", "kappa")
        assert here["basis"].tolist() == there["basis"].tolist()
        numbers = ["estimate", "low", "high"]
        assert_allclose(here[numbers], there[numbers], atol=1e-9)
        pairs = zip(fits[j :: len(judges)], own.fit(alone), strict=True)
        for one, other in pairs:
            assert (one.pool, one.judge, one.n_errors) == (other.pool, other.judge, other.n_errors)
            assert (one.status, one.islands) == (other.status, other.islands)
            for name in ("theta", "theta_low", "theta_naive", "phi", "c", "c_low", "kappa"):
                assert_allclose(getattr(one, name), getattr(other, name), atol=1e-7)
        those = own.identify(alone).table.itertuples()
        pairs = zip(coefficients[j :: len(judges)], those, strict=True)
        for one, other in pairs:
            assert (one.pool, one.judge, one.status) == (other.pool, other.judge, other.status)
            assert one.null_directions == other.null_directions
            assert_allclose(one.c_map, other.c_map, atol=1e-7)
