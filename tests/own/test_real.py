"""Fits of real verdicts against SciPy, pool by pool."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from jbt import own, runtime
from jbt.kernel import rows
from jbt.kernel.fit import fit_map
from jbt.kernel.laplace import laplace
from jbt.types import Prior


def newton_cg(z, share, weight, precision):
    """The MAP of a logistic regression, by SciPy's trust-region Newton method."""

    def loss(beta):
        logit = z @ beta
        each = np.logaddexp(0, logit) - share * logit
        return (weight * each).sum() + precision @ beta**2 / 2

    def slope(beta):
        return z.T @ (weight * (expit(z @ beta) - share)) + precision * beta

    def hessian(beta):
        p = expit(z @ beta)
        return (z.T * (weight * p * (1 - p))) @ z + np.diag(precision)

    found = minimize(
        loss,
        np.zeros(z.shape[1]),
        jac=slope,
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-10},
    )
    return found.x


def by_scipy(folder, merged, prior):
    """(pool, judge) -> theta of the items, c of log(words) standardised, kappa: from the files, by
    a reader of its own."""
    verdicts, items = (pd.read_csv(folder / f"{n}.csv") for n in ("verdicts", "items"))
    words = np.log(items["words"])
    items["x"] = (words - words.mean()) / words.std(ddof=0)
    items["key"] = items["content"] if merged else items["pool"] + "/" + items["item"]
    key = items.set_index(["pool", "item"])
    share = {"first": 1.0, "second": 0.0, "tie": 0.5}
    verdicts = verdicts[verdicts["winner"].isin(share)].copy()
    verdicts["group"] = "all" if merged else verdicts["pool"]
    for (pool, judge), of in verdicts.groupby(["group", "judge"], sort=False):
        first, second = (
            key.loc[pd.MultiIndex.from_frame(of[["pool", side]])] for side in ("first", "second")
        )
        mine = items if merged else items[items["pool"] == pool]
        names = list(dict.fromkeys(mine["key"]))
        pairs = set(zip(first["key"], second["key"], strict=True))
        free = any((b, a) in pairs for a, b in pairs if a != b)
        eye = pd.DataFrame(np.eye(len(names)), names, names)
        z = eye.loc[first["key"]].to_numpy() - eye.loc[second["key"]].to_numpy()
        x = first["x"].to_numpy() - second["x"].to_numpy()
        z = np.column_stack([z, x, np.full(len(z), float(free))])
        precision = np.array([prior.lam] * len(names) + [prior.lam_b] * 2)
        won = of["winner"].map(share).to_numpy()
        beta = newton_cg(z, won, np.ones(len(z)), precision)
        theta = dict(zip(names, beta, strict=False))
        yield pool, judge, mine["key"].map(theta).to_numpy(), beta[-2], beta[-1] if free else np.nan


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "merged"), [("prd", False), ("prd", True), ("llmbar", False)])
def test_every_pool_equals_scipy(name, merged, data):
    folder, prior = data / name, Prior(1.0, 0.1)
    content = "content" if merged else None
    batch = own.load(
        folder / "verdicts.csv",
        folder / "items.csv",
        ["words"],
        transform="log",
        content=content,
        merge_pools=merged,
    )
    fits = {(f.pool, f.judge): f for f in own.fit(batch, prior=prior, intervals=False)}
    n = 0
    for pool, judge, theta, c, kappa in by_scipy(folder, merged, prior):
        found = fits[str(pool), str(judge)]
        np.testing.assert_allclose(found.theta, theta, atol=1e-6)
        assert found.c[0] == pytest.approx(c, abs=1e-6)
        assert found.kappa == pytest.approx(kappa, abs=1e-6, nan_ok=True)
        n += 1
    assert n == sum(f.n_verdicts > 0 for f in fits.values())


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["prd", "llmbar"])
def test_rows_and_counts_give_one_posterior_on_every_pool(data, name):
    folder = data / name
    batch = own.load(folder / "verdicts.csv", folder / "items.csv", ["words"], transform="log")

    @jax.jit
    @jax.vmap
    def both(comparisons, design, variant):
        out = []
        for made, owner in ((comparisons, design), rows.of_counts(comparisons, design)):
            mode = fit_map(made, owner, Prior(), variant).parameters
            out.append((mode.flat(), laplace(mode, made, owner, Prior(), variant).covariance()))
        return out

    n = 0
    with runtime.precision("float64"):
        for group in batch.groups:
            (mode, spread), (listed, its) = both(group.comparisons, group.design, group.variant)
            np.testing.assert_allclose(listed, mode, atol=1e-9)
            np.testing.assert_allclose(its, spread, atol=1e-9)
            n += len(mode)
    assert n == len(batch.pools)


@pytest.mark.heavy
def test_what_people_say_of_three_judges_is_told_through_the_qualities(data):
    folder = data / "prd"
    files = [folder / f"{name}.csv" for name in ("verdicts", "items", "anchors")]
    read = own.read(*files, covariates=["words"], content=None)
    found, alike = {}, dict.fromkeys(read.judges, 1.0)
    with_anchors = read.with_anchors()
    for name, tables, known in (
        ("without", read, {}),
        ("with", with_anchors, {}),
        ("alike", with_anchors, alike),
    ):
        batch = own.Batch.of(tables, ["words"], transform="log")
        found[name] = own.fit_panel(batch, own.Judges.of(tables, discrimination=known))
        assert {p.status.name for p in found[name].pools} == {"CONVERGED"}
    c = {name: fit.shared.of("c").set_index("judge") for name, fit in found.items()}
    assert c["without"]["identified_by"].tolist() == [()] * 3
    assert found["with"].record()["judges"][-1]["n_verdicts"] == 704
    assert c["with"]["identified_by"].tolist() == [("anchors",)] * 3
    # People prefer the longer answer, and no less than the judges do.
    assert found["with"].shared.of("slope")["low"].item() > 1
    assert c["with"]["estimate"].max() < 0
    # Differences without anchors hold if all discriminate alike; these judges do not.
    s = found["with"].shared.of("discrimination")["estimate"].tolist()
    assert s[:3] != pytest.approx([1] * 3, abs=0.2)
    alike = c["alike"]["estimate"]
    for apart in found["without"].differences.itertuples():
        assert apart.low < alike[apart.judge] - alike[apart.less] < apart.high
