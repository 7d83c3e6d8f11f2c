"""One c and one kappa for each judge: against SciPy on explicit design matrices."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from jbt import identifiability, own, runtime
from jbt.own import joint
from jbt.own.analysis import Z
from jbt.types import Prior

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


def explicit(batch, judge):
    """Design matrix [verdicts, all qualities then c then kappa], share won and weight."""
    tables = batch.tables
    of = tables.verdicts[tables.verdicts["judge"] == judge]
    x = np.zeros((len(tables.items), len(batch.covariates)))
    free = np.zeros(len(tables.pools), bool)
    for group in batch.groups:
        for i, at in enumerate(group.index):
            pool, j = divmod(int(at), len(tables.judges))
            rows = np.flatnonzero(tables.items["pool"] == pool)
            told = "c" not in batch.pools[int(at)].prior_selected  # else c is left out there
            if j == judge and told:
                x[rows] = np.asarray(group.items.covariates)[i, : len(rows)]
            free[pool] |= j == judge and bool(group.variant.kappa[i])
    owner = (tables.items["pool"] * 100 + tables.items["content"]).to_numpy()
    names, owner = np.unique(owner, return_inverse=True)
    first, second = of["first"].to_numpy(), of["second"].to_numpy()
    eye = np.eye(len(names))
    z = np.column_stack(
        [eye[owner[first]] - eye[owner[second]], x[first] - x[second], free[of["pool"]]]
    )
    return z, of["p_first"].to_numpy(), of["count"].to_numpy(), names // 100


def integrated(z, share, weight, pools, lam, lam_b):
    """The SciPy optimum of the posterior of (c, kappa), qualities integrated out pool by pool, and
    the precision of all parameters there."""
    m = len(pools)

    def of_quality(theta, bias):
        logit = z[:, :m] @ theta + z[:, m:] @ bias
        loss = (weight * (np.logaddexp(0, logit) - share * logit)).sum() + lam * theta @ theta / 2
        p = expit(logit)
        slope = z[:, :m].T @ (weight * (p - share)) + lam * theta
        return loss, slope, (z.T * (weight * p * (1 - p))) @ z

    def best(bias):
        theta = np.zeros(m)
        for _ in range(50):
            _, slope, full = of_quality(theta, bias)
            theta = theta - np.linalg.solve(full[:m, :m] + lam * np.eye(m), slope)
        return theta

    def loss(bias):
        theta = best(bias)
        value, _, full = of_quality(theta, bias)
        precision = full[:m, :m] + lam * np.eye(m)
        dets = [np.linalg.slogdet(precision[np.ix_(pools == p, pools == p)])[1] for p in set(pools)]
        return value + sum(dets) / 2 + lam_b * bias @ bias / 2

    start = np.zeros(z.shape[1] - m)
    found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    _, _, full = of_quality(best(found.x), found.x)
    return found.x, full + np.diag([lam] * m + [lam_b] * (len(full) - m))


@pytest.mark.parametrize("position", ["auto", "no"])
def test_the_coefficients_are_those_of_scipy(position, tables):
    v, i = tables(verdicts(), ITEMS)
    batch = own.load(v, i, ["words"], position=position)
    prior = Prior(0.7, 0.2)
    for judge, found in enumerate(own.fit_judges(batch, prior=prior)):
        z, share, weight, pools = explicit(batch, judge)
        if position == "no":
            z = z[:, :-1]
        expected, precision = integrated(z, share, weight, pools, 0.7, 0.2)
        got = np.append(found.c, found.kappa)[: len(expected)]
        np.testing.assert_allclose(got, expected, atol=1e-6)
        sd = np.sqrt(np.linalg.inv(precision).diagonal()[len(pools) :])
        np.testing.assert_allclose(found.c_high - found.c, Z * sd[:1], rtol=1e-6)
        assert found.c_told.all()
        assert np.isnan(found.kappa) == (position == "no")
        if position == "auto":
            assert found.kappa_high - found.kappa == pytest.approx(Z * sd[-1], rel=1e-6)


@pytest.mark.heavy
def test_pools_may_tell_together_what_none_tells_alone(tables):
    """One pool tells only the sum of two coefficients, the other only their difference."""
    head, rows = "pool,first,second,winner\n", "{0},a,b,first\n{0},b,a,first\n"
    items = "pool,item,content,words,lists\np,a,A,0,0\np,b,A,1,1\nq,a,A,0,1\nq,b,A,1,0\n"
    for pools, told in (("p", False), ("q", False), ("pq", True)):
        v, i = tables(head + "".join(rows.format(p) for p in pools), items)
        batch = own.load(v, i, ["words", "lists"], standardise=False)
        (found,) = own.fit_judges(batch)
        assert found.c_told.tolist() == [told, told]
        assert np.isfinite(found.c_low).tolist() == [told, told]
        assert "c" in own.load(v, i, ["words", "lists"]).pools[0].prior_selected


def test_items_of_their_own_tell_nothing_and_add_no_evidence(tables):
    v, i = tables(verdicts(), ITEMS)
    batch = own.load(v, i, ["words"], content=None)
    found = own.fit_judges(batch)
    assert not any(f.c_told.any() for f in found)
    assert all(f.kappa_told for f in found)
    assert (joint.profiles(batch, found)[1] == 0).all()


@pytest.mark.heavy
def test_evidence_is_summed_over_pools(tables):
    v, i = tables(verdicts(), ITEMS)
    batch = own.load(v, i, ["words"])
    found = own.fit_judges(batch)
    grids, sums = joint.profiles(batch, found)
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
    assert (found.c_high[0] - found.c[0]) / Z < 0.01
    assert abs(found.c[0] - 0.8) < 0.04
    assert abs(found.kappa - 0.3) < 0.04
