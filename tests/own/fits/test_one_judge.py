"""One c and one kappa for each judge: against SciPy on explicit design matrices."""

import io
import itertools

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from jbt import identifiability, own, runtime
from jbt.own.fits.analysis import profiles
from jbt.own.shared_coefficients.intervals import Basis, Z
from jbt.types import Prior, Status

ITEMS = "pool,item,content,words,lists\n" + "".join(
    f"{pool},{item},{content},{words},{lists}\n"
    for pool, rows in {
        "p": [("a", "A", 1, 0), ("b", "A", 3, 1), ("c", "B", 2, 5)],
        "q": [("a", "A", 2, 1), ("b", "B", 5, 0), ("c", "B", 1, 2), ("d", "C", 4, 3)],
        "r": [("a", "A", 6, 2), ("b", "B", 1, 0)],
    }.items()
    for item, content, words, lists in rows
)


def verdicts(seed=0, n=40):
    """In pool r only one order is shown, so that kappa is fixed at 0 there."""
    rng, rows = np.random.default_rng(seed), ["pool,judge,first,second,winner,count"]
    items = {"p": "abc", "q": "abcd", "r": "ab"}
    for _ in range(n):
        pool = rng.choice(list("pqr"))
        first, second = rng.permutation(list(items[pool]))[:2]
        if pool == "r":
            first, second = "a", "b"
        winner = rng.choice(["first", "first", "second", "tie"])
        judge = rng.choice(["x", "y"])
        rows.append(f"{pool},{judge},{first},{second},{winner},{rng.integers(1, 4)}")
    return "\n".join(rows) + "\n"


class Explicit:
    """One judge's verdicts as an explicit design matrix over all qualities, then c, kappa and b."""

    def __init__(self, batch, judge):
        tables = batch.tables
        of = tables.verdicts[tables.verdicts["judge"] == judge]
        x, free = np.zeros(len(tables.items)), np.zeros(len(tables.pools), bool)
        for group in batch.groups:
            for i, at in enumerate(group.index):
                pool, j = divmod(int(at), len(tables.judges))
                rows = np.flatnonzero(tables.items["pool"] == pool)
                x[rows] = np.asarray(group.items.covariates)[i, : len(rows), 0]
                free[pool] |= j == judge and bool(group.variant.kappa[i])
        content = (tables.items["pool"] * 100 + tables.items["content"]).to_numpy()
        names, owner = np.unique(content, return_inverse=True)
        mean = np.bincount(owner, x) / np.bincount(owner)
        first, second = of["first"].to_numpy(), of["second"].to_numpy()
        eye = np.eye(len(names))
        self.z = np.column_stack(
            [
                eye[owner[first]] - eye[owner[second]],
                x[first] - x[second],
                free[of["pool"]],
                mean[owner[first]] - mean[owner[second]],
            ]
        ).astype(float)
        self.share, self.weight = of["p_first"].to_numpy(), of["count"].to_numpy()
        self.pools = names // 100

    def loss(self, at, prior, spread):
        """Minus the log-posterior of (c, kappa, b, log sd), qualities integrated out by pool."""
        m, lam = len(self.pools), np.exp(-2 * at[-1])
        theta = np.zeros(m)
        for _ in range(50):
            logit = self.z @ np.r_[theta, at[:-1]]
            p = expit(logit)
            z = self.z[:, :m]
            own = (z.T * (self.weight * p * (1 - p))) @ z + lam * np.eye(m)
            theta = theta - np.linalg.solve(
                own, z.T @ (self.weight * (p - self.share)) + lam * theta
            )
        value = (self.weight * (np.logaddexp(0, logit) - self.share * logit)).sum()
        value += lam * theta @ theta / 2 - m * np.log(lam) / 2
        value += np.linalg.slogdet(own)[1] / 2  # of all pools: block diagonal
        value += prior.lam_b * at[:-1] @ at[:-1] / 2
        return value + (at[-1] + np.log(prior.lam) / 2) ** 2 / 2 if spread else value


@pytest.mark.parametrize("spread", [True, False])
def test_the_coefficients_are_those_of_scipy(spread, tables):
    v, i = tables(verdicts(), ITEMS)
    batch = own.load(v, i, ["words"])
    prior = Prior(0.7, 0.2)
    for number, found in enumerate(own.fit_judges(batch, prior=prior, spread=spread)):
        explicit = Explicit(batch, number)
        known = [] if spread else [-np.log(0.7) / 2]
        best = minimize(
            lambda at, of=explicit, known=known: of.loss(np.r_[at, known], prior, spread),
            np.zeros(4 - len(known)),
            method="BFGS",
            options={"gtol": 1e-7},
        ).x
        (judge,) = found.judges
        of_slope = [b.estimate for b in found.slope.values()]
        got = [*(c.estimate for c in judge.coefficients), *of_slope, np.log(found.sd.estimate)]
        np.testing.assert_allclose(got, np.r_[best, known], atol=3e-5)


def paired(rng, n_pools, sd, slope, c=1.0, kappa=0.3, c_sd=0.0):
    """Pools of four contents, two of them rendered twice; quality goes with the covariate by
    `slope`, and every ordered pair is judged once."""
    items, rows = ["pool,item,content,x"], ["pool,first,second,winner"]
    content = [0, 1, 2, 3, 0, 1]
    for pool in range(n_pools):
        base = rng.normal(size=4)
        quality = (slope * base + sd * rng.normal(size=4))[content]
        x = base[content] + np.r_[np.zeros(4), rng.normal(size=2)]
        phi = quality + (c + c_sd * rng.normal()) * x
        items += [f"{pool},{i},{content[i]},{x[i]}" for i in range(6)]
        for i, j in itertools.permutations(range(6), 2):
            won = rng.random() < expit(phi[i] - phi[j] + kappa)
            rows.append(f"{pool},{i},{j},{'first' if won else 'second'}")
    return "\n".join(rows) + "\n", "\n".join(items) + "\n"


@pytest.mark.heavy
@pytest.mark.parametrize(("sd", "slope"), [(0.4, 0.5), (2.5, 0.0), (1.0, 1.0)])
def test_neither_the_spread_of_quality_nor_its_slope_moves_c(sd, slope, tables):
    """200 pools: with sd held at 1 and quality that has nothing to do with x, c is off by more than
    4 standard errors in each of these."""
    v, i = tables(*paired(np.random.default_rng(3), 200, sd, slope))
    (found,) = own.fit_judges(own.load(v, i, ["x"], standardise=False))
    c, kappa = found.judges[0].coefficients
    error = (c.high - c.estimate) / Z
    assert error < 0.07
    assert abs(c.estimate - 1.0) < 4 * error
    assert abs(kappa.estimate - 0.3) < 4 * (kappa.high - kappa.estimate) / Z
    assert found.sd.estimate == pytest.approx(sd, rel=0.2)


@pytest.mark.heavy
def test_renderings_that_hardly_differ_measure_nothing(tables):
    """Two renderings .02 apart: the verdicts identify c, and nearly all of it is the prior's."""
    written, items = paired(np.random.default_rng(0), 6, 1.0, 0.5)
    near = pd.read_csv(io.StringIO(items))
    first = near[near["item"] < 4].set_index(["pool", "content"])["x"]
    copies = near["item"] >= 4
    keys = pd.MultiIndex.from_frame(near.loc[copies, ["pool", "content"]])
    near.loc[copies, "x"] = first.loc[keys].to_numpy() + 0.02
    v, i = tables(written, near.to_csv(index=False))
    (found,) = own.fit_judges(own.load(v, i, ["x"], standardise=False))
    c, kappa = found.judges[0].coefficients
    assert c.status == Basis.WEAK
    assert np.isnan(c.low)
    assert kappa.status == Basis.MEASURED


def test_one_pool_that_decides_alone_has_no_interval(tables):
    """Only the first of six pools renders a content twice: c is its c, whatever the others'."""
    written, items = paired(np.random.default_rng(0), 6, 1.0, 0.5)
    keep = pd.read_csv(io.StringIO(items))
    keep.loc[(keep["pool"] > 0) & (keep["item"] >= 4), "content"] = keep["item"]
    made = pd.read_csv(io.StringIO(written))
    made["count"] = np.where(made["pool"] == 0, 20, 1)
    v, i = tables(made.to_csv(index=False), keep.to_csv(index=False))
    (found,) = own.fit_judges(own.load(v, i, ["x"], standardise=False))
    (c,) = found.judges[0].c
    assert c.status == Basis.FEW_POOLS
    assert np.isnan(c.low)


@pytest.mark.heavy
def test_pools_may_tell_together_what_none_tells_alone(tables):
    """One pool tells only the sum of two coefficients, the other only their difference."""
    head, rows = "pool,first,second,winner\n", "{0},a,b,first\n{0},b,a,first\n"
    items = "pool,item,content,words,lists\np,a,A,0,0\np,b,A,1,1\nq,a,A,0,1\nq,b,A,1,0\n"
    for pools, told in (("p", False), ("q", False), ("pq", True)):
        v, i = tables(head + "".join(rows.format(p) for p in pools), items)
        batch = own.load(v, i, ["words", "lists"], standardise=False)
        (found,) = own.fit_judges(batch)
        assert [c.status == Basis.PRIOR for c in found.judges[0].c] == [not told] * 2
        assert "c" in own.load(v, i, ["words", "lists"]).pools[0].prior_selected


def test_items_of_their_own_tell_nothing_and_add_no_evidence(tables):
    v, i = tables(verdicts(), ITEMS)
    batch = own.load(v, i, ["words"], content=None)
    found = own.fit_judges(batch)
    for fit in found:
        c, kappa = fit.judges[0].coefficients
        assert c.status == Basis.PRIOR
        assert kappa.status != Basis.PRIOR
        assert not fit.slope
    assert (profiles(batch, found)[1] == 0).all()


@pytest.mark.heavy
def test_evidence_is_summed_over_pools(tables):
    v, i = tables(verdicts(), ITEMS)
    batch = own.load(v, i, ["words"])
    found = own.fit_judges(batch)
    grids, sums = profiles(batch, found)
    expected = np.zeros_like(sums)
    with runtime.precision("float64"):
        for group in batch.groups:
            for at, index in enumerate(group.index):
                each = (group.comparisons, group.design, group.variant)
                comparisons, design, variant = jax.tree.map(lambda leaf, at=at: leaf[at], each)
                grid = jax.numpy.asarray(grids[index % 2, 0])
                curve = identifiability.profile(comparisons, design, grid, variant=variant)
                expected[index % 2, 0] += curve.log_likelihood
    expected -= expected.max(-1, keepdims=True)
    np.testing.assert_allclose(sums, expected, atol=1e-8)
    assert (sums.min(-1) < -0.01).all()


@pytest.mark.heavy
def test_many_pools_of_few_verdicts_do_not_shrink_c(tables):
    """6,000 pools of ten verdicts, of the model's own prior, whose c is known to +-0.01: the mode
    over everything at once is near 0.73. What Laplace's approximation leaves is 0.01."""
    rng, n = np.random.default_rng(1), 6000
    x, quality = rng.normal(size=(n, 6)), np.repeat(rng.normal(size=(n, 3)), 2, axis=1)
    rows = ["pool,first,second,winner"]
    for p in range(n):
        for _ in range(10):
            i, j = rng.permutation(6)[:2]
            logit = quality[p, i] - quality[p, j] + 0.8 * (x[p, i] - x[p, j]) + 0.3
            rows.append(f"{p},{i},{j},{'first' if rng.random() < expit(logit) else 'second'}")
    items = [f"{p},{i},{i // 2},{x[p, i]}" for p in range(n) for i in range(6)]
    v, i = tables("\n".join(rows), "pool,item,content,x\n" + "\n".join(items))
    (found,) = own.fit_judges(own.load(v, i, ["x"], standardise=False, position="yes"))
    c, kappa = found.judges[0].coefficients
    assert (c.high - c.estimate) / Z < 0.012
    assert abs(c.estimate - 0.8) < 0.04
    assert abs(kappa.estimate - 0.3) < 0.04


def rendered(n_pools, judge, seed=0):
    """Pools of two contents, each rendered twice, both orders of every pair shown twice.

    Args:
      judge: (pool, x of the first less that of the second, quality likewise) -> logits.
    """
    rng = np.random.default_rng(seed)
    items, rows = ["pool,item,content,words"], ["pool,first,second,winner"]
    for pool in range(n_pools):
        quality, x = np.repeat(rng.normal(size=2), 2), rng.normal(size=4)
        items += [f"{pool},{i},{i // 2},{v}" for i, v in enumerate(x)]
        for i, j in [*itertools.permutations(range(4), 2)] * 2:
            p = expit(judge(pool, x[i] - x[j], quality[i] - quality[j]))
            rows.append(f"{pool},{i},{j},{'first' if rng.random() < p else 'second'}")
    return "\n".join(rows) + "\n", "\n".join(items) + "\n"


def judge_of(tables, written):
    batch = own.load(*tables(*written), ["words"], standardise=False)
    (judge,) = own.fit_judges(batch)
    return batch, judge


@pytest.mark.heavy
def test_a_c_that_differs_between_pools_is_found(tables):
    """The mean is 1; the test is not significant where pools are alike."""
    alike = judge_of(tables, rendered(24, lambda pool, x, q: x + q))[1]
    unlike = judge_of(tables, rendered(24, lambda pool, x, q: (-1, 3)[pool % 2] * x + q))[1]
    assert alike.judges[0].c[0].p_alike > 0.05
    assert unlike.judges[0].c[0].p_alike < 1e-3


@pytest.mark.heavy
def test_a_judge_that_is_symmetric_by_construction_has_an_interval_of_some_width(tables):
    """The same winner in both orders in every pool: every score of kappa is 0."""
    written = rendered(24, lambda pool, x, q: 1e6 * (x + q))
    _, judge = judge_of(tables, written)
    kappa = judge.judges[0].kappa
    assert kappa.estimate == pytest.approx(0, abs=1e-6)
    assert kappa.high > 0.05


@pytest.mark.heavy
def test_the_longer_rendering_always_wins(tables):
    """The posterior is convex on the way, and its maximum far away."""
    _, judge = judge_of(tables, rendered(24, lambda pool, x, q: 1000 * x))
    assert judge.status == Status.CONVERGED
    (c,) = judge.judges[0].c
    assert c.estimate > 5
    assert c.status == Basis.WEAK
    assert np.isnan(c.low)


@pytest.mark.heavy
def test_without_a_known_spread_of_quality_theta_has_no_interval(tables):
    """One pool of two contents tells no standard deviation; a prior that is given does."""
    written = rendered(1, lambda pool, x, q: q)
    batch = own.load(*tables(*written))
    (estimated,), (given,) = own.fit(batch), own.fit(batch, prior=Prior())
    assert np.isnan(estimated.theta_low).all()
    assert np.isfinite(given.theta_low).all()
