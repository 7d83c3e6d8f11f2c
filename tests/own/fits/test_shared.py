"""Coefficients that all pools share, of each judge alone and of all in one fit: against SciPy on an
explicit design matrix, on simulated verdicts whose truth is known, and as commands."""

import io
import itertools
import json

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from support.problems import minimum

from jbt import own
from jbt.own.fits.analysis import profiles
from jbt.own.fits.judges import OWN, TOGETHER, Judges
from jbt.own.fits.shared import SharedModel
from jbt.own.fits.together import fit_panel
from jbt.own.shared_coefficients.intervals import Basis, Z
from jbt.types import Prior, Status


def frame(columns, rows):
    return pd.DataFrame(rows, columns=columns.split(","))


def table(text):
    return pd.read_csv(io.StringIO(text))


ITEMS = table("""pool,item,content,words
p,a,A,1
p,b,A,3
p,c,B,2
q,a,A,2
q,b,B,5
q,c,C,1
q,d,D,4
r,a,A,6
r,b,B,1
""")
ANCHORS = table("pool,better,worse\nq,b,a\nq,c,d\np,a,c\n")
PRIOR = Prior(0.7, 0.2)


def drawn():
    """In pool r only one order is shown, so that kappa is fixed at 0 there."""
    rng, rows = default_rng(0), []
    items = {"p": "abc", "q": "abcd", "r": "ab"}
    for _ in range(60):
        pool = rng.choice(list("pqr"))
        first, second = rng.permutation(list(items[pool]))[:2]
        if pool == "r":
            first, second = "a", "b"
        winner = rng.choice(["first", "first", "second", "tie"])
        rows.append((pool, rng.choice(["x", "y"]), first, second, winner, rng.integers(1, 4)))
    return frame("pool,judge,first,second,winner,count", rows)


VERDICTS = drawn()


def read(verdicts, items, anchors=None, **options):
    """The batch, with the anchors among the verdicts, and its judges."""
    tables = own.read(verdicts, items, anchors, covariates=["words"]).with_anchors()
    return own.Batch.of(tables, ["words"]), Judges.of(tables, **options)


def estimates(fit, *quantities):
    return fit.of(*quantities)["estimate"].to_numpy()


def c_of(fit, judge="x"):
    """The row of a judge's c."""
    (row,) = fit.of("c").query("judge == @judge").itertuples()
    return row


class Explicit:
    """One row a verdict; columns: every pool's qualities about their line in the covariate, then c
    and kappa of some judges, and the slope of that line."""

    def __init__(self, batch, fitted, judges):
        """`fitted` judges' verdicts count, and some of them have coefficients."""
        tables = batch.tables
        of, items = tables.verdicts, tables.items
        of = of[of["judge"].isin(fitted)]
        x = items["words"].to_numpy(float)
        x = (x - x.mean()) / x.std()
        names, owner = np.unique(items["pool"] * 100 + items["content"], return_inverse=True)
        self.mean = np.bincount(owner, x) / np.bincount(owner)
        self.pools = names // 100
        first, second = of["first"].to_numpy(), of["second"].to_numpy()
        eye, judge, pool = np.eye(len(names)), of["judge"].to_numpy(), of["pool"].to_numpy()
        position = np.reshape([p.position for p in batch.pools], (-1, len(tables.judges)))
        ordered = position[pool, judge] & of["shown"].to_numpy()
        apart = x[first] - x[second]
        self.z = np.column_stack(
            [
                eye[owner[first]] - eye[owner[second]],
                *(apart * (judge == g) for g in judges),
                *(ordered * (judge == g) for g in judges),
                self.mean[owner[first]] - self.mean[owner[second]],
            ]
        ).astype(float)
        self.share, self.weight = of["p_first"].to_numpy(), of["count"].to_numpy()

    def quality(self, bias, lam):
        """Mode, loss and Hessian there."""
        m, p = len(self.pools), self.z.shape[1]
        known, free, precision = np.r_[np.zeros(m), bias], np.arange(p) < m, np.full(p, lam)
        wins = self.weight * self.share
        at, hessian, loss = minimum(self.z, self.weight, wins, precision, free, known)
        return at[:m], loss, hessian

    def loss(self, bias, log_sd, spread):
        """Minus the log-posterior of the coefficients and log sd, qualities integrated out."""
        m, lam = len(self.pools), np.exp(-2 * log_sd)
        _, value, hessian = self.quality(bias, lam)
        value += np.linalg.slogdet(hessian)[1] / 2 - m * np.log(lam) / 2
        value += float(PRIOR.lam_b) * bias @ bias / 2
        return value + (log_sd + np.log(PRIOR.lam) / 2) ** 2 / 2 if spread else value


@pytest.mark.heavy
@pytest.mark.parametrize("spread", [True, False])
def test_the_coefficients_of_each_judge_are_those_of_scipy(spread):
    batch = own.load(VERDICTS, ITEMS, ["words"])
    fit = own.fit_judges(batch, prior=PRIOR, spread=spread)
    for g in range(2):
        explicit, known = Explicit(batch, [g], [g]), [] if spread else [-np.log(0.7) / 2]

        def loss(at, explicit=explicit, known=known):
            *bias, log_sd = np.r_[at, known]
            return explicit.loss(np.array(bias), log_sd, spread)

        best = minimize(loss, np.zeros(4 - len(known)), method="BFGS", options={"gtol": 1e-7}).x
        *mine, sd = fit.estimates.loc[fit.estimates["owner"] == g, "estimate"]
        assert_allclose([*mine, np.log(sd)], np.r_[best, known], atol=3e-5)


@pytest.fixture(scope="module")
def fitted():
    """One panel, with anchors that judged nothing in pool r."""
    batch, judges = read(VERDICTS, ITEMS, ANCHORS, discrimination={"x": 1.0, "y": 1.0})
    return batch, fit_panel(batch, judges, prior=PRIOR)


@pytest.mark.heavy
def test_the_joint_coefficients_are_those_of_scipy(fitted):
    batch, found = fitted
    explicit, log_sd = Explicit(batch, [0, 1, 2], [0, 1]), -np.log(0.7) / 2
    best = minimize(
        lambda bias: explicit.loss(bias, log_sd, False),
        np.zeros(5),
        method="BFGS",
        options={"gtol": 1e-7},
    ).x
    assert "anchors" not in list(found.shared.of("c", "kappa")["judge"])
    got = [*estimates(found.shared, "c"), *estimates(found.shared, "kappa")]
    assert_allclose([*got, *estimates(found.shared, "slope")], best, atol=2e-5)
    m = len(explicit.pools)
    theta, *_ = explicit.quality(best, 0.7)
    p = expit(explicit.z @ np.r_[theta, best])
    full = (explicit.z.T * (explicit.weight * p * (1 - p))) @ explicit.z
    covariance = np.linalg.inv(full + np.diag([0.7] * m + [0.2] * 5))
    # Qualities: on their line and off it, about the pool's mean, with all of the uncertainty.
    turn = np.eye(m + 5)[:m]
    turn[:, -1] = explicit.mean
    for p, pool in enumerate(found.pools):
        mine = explicit.pools == p
        centre = turn[mine] - turn[mine].mean(0)
        of = sorted(pool.ranking, key=lambda r: r.content)
        mode = centre @ np.r_[theta, best]
        assert_allclose([r.theta for r in of], mode, atol=1e-4)
        sd = np.sqrt((centre @ covariance @ centre.T).diagonal())
        assert_allclose([r.high - r.theta for r in of], Z * sd, rtol=1e-4)
    assert [p.status for p in found.pools] == [Status.CONVERGED] * 2 + [Status.NO_REFERENCE]
    assert [p.n_known for p in found.pools] == [1, 2, 0]
    assert not any(p.prior_selected for p in found.pools)


def longer(*c):
    """A judge who pays c for the covariate, in turn over the pools if there are several."""
    return lambda pool, x, quality: quality + c[pool % len(c)] * x


def simulated(
    n_pools, judges, content=(0, 1, 2, 3, 0, 1), sd=1.0, slope=0.0, kappa=0.0, repeats=1, seed=0
):
    """Verdicts on every ordered pair, items, and one trusted pair a pool. Quality goes with the
    covariate of a content's first item by `slope`.

    Args:
      judges: name -> apparent quality, of (pool, covariate, quality).
      content: of each item.
    """
    rng, content = default_rng(seed), np.array(content)
    items, verdicts, anchors = [], [], []
    copies = np.r_[0, np.maximum.accumulate(content)[:-1]]
    for pool in range(n_pools):
        base = rng.normal(size=content.max() + 1)
        quality = (slope * base + sd * rng.normal(size=len(base)))[content]
        is_copy = (np.arange(len(content)) > 0) & (content <= copies)
        x = base[content] + np.where(is_copy, rng.normal(size=len(content)), 0)
        items += [(pool, i, content[i], x[i]) for i in range(len(content))]
        for name, judge in judges.items():
            phi = judge(pool, x, quality)
            for i, j in [*itertools.permutations(range(len(content)), 2)] * repeats:
                won = rng.random() < expit(phi[i] - phi[j] + kappa)
                verdicts.append((pool, name, i, j, "first" if won else "second"))
        i, j = rng.permutation(len(content))[:2]
        right = rng.random() < expit(quality[i] - quality[j])
        anchors.append((pool, i, j) if right else (pool, j, i))
    return (
        frame("pool,judge,first,second,winner", verdicts),
        frame("pool,item,content,words", items),
        frame("pool,better,worse", anchors),
    )


def alone(verdicts, items, *_):
    """The fit of one judge's verdicts."""
    return own.fit_judges(own.load(verdicts, items, ["words"], standardise=False))


@pytest.mark.heavy
def test_one_pool_that_decides_alone_has_no_interval():
    """Only the first of six pools renders a content twice: c is its c, whatever the others'."""
    written, items, _ = simulated(6, {"x": longer(1.0)}, slope=0.5, kappa=0.3)
    items.loc[(items["pool"] > 0) & (items["item"] >= 4), "content"] = items["item"]
    written["count"] = np.where(written["pool"] == 0, 60, 1)
    c = c_of(alone(written, items))
    assert c.basis == Basis.FEW_POOLS
    assert np.isnan(c.low)


@pytest.mark.heavy
def test_pools_may_tell_together_what_none_tells_alone():
    """One pool tells only the sum of two coefficients, the other only their difference."""
    items = "pool,item,content,words,lists\np,a,A,0,0\np,b,A,1,1\nq,a,A,0,1\nq,b,A,1,0\n"
    rows = "{0},a,b,first\n{0},b,a,first\n"
    for pools, told in (("p", False), ("q", False), ("pq", True)):
        written = "pool,first,second,winner\n" + "".join(map(rows.format, pools))
        covariates = ["words", "lists"]
        batch = own.load(table(written), table(items), covariates, standardise=False)
        basis = own.fit_judges(batch).of("c")["basis"]
        assert (basis == Basis.PRIOR).tolist() == [not told] * 2
        assert "c" in batch.pools[0].prior_selected


@pytest.mark.heavy
def test_items_of_their_own_tell_nothing_and_add_no_evidence():
    batch = own.load(VERDICTS, ITEMS, ["words"], content=None)
    fit = own.fit_judges(batch)
    assert (fit.of("c")["basis"] == Basis.PRIOR).all()
    assert (fit.of("kappa")["basis"] != Basis.PRIOR).all()
    assert fit.of("slope").empty
    assert (profiles(batch, fit)[1] == 0).all()


@pytest.mark.heavy
def test_a_c_that_differs_between_pools_is_found():
    """The mean is 1; the test is not significant where pools are alike."""
    alike, unlike = (
        c_of(alone(*simulated(24, {"x": judge}))) for judge in (longer(1.0), longer(-1.0, 3.0))
    )
    assert alike.p_alike > 0.05
    assert unlike.p_alike < 1e-3


@pytest.mark.heavy
def test_judges_of_certain_verdicts():
    """Of the same winner in both orders every score of kappa is 0, and the interval has some width.
    Where the longer rendering always wins, the posterior is convex on the way, and its maximum far
    away."""
    certain = alone(*simulated(24, {"x": lambda pool, x, q: 1e6 * (x + q)}))
    (kappa,) = certain.of("kappa").itertuples()
    assert kappa.estimate == pytest.approx(0, abs=1e-6)
    assert kappa.high > 0.05
    by_length = alone(*simulated(24, {"x": lambda pool, x, q: 1000 * x}))
    c = c_of(by_length)
    assert c.estimate > 5
    assert c.basis == Basis.WEAK
    assert np.isnan(c.low)


@pytest.mark.heavy
def test_without_a_known_spread_of_quality_theta_has_no_interval():
    """One pool of two contents tells no standard deviation; a prior that is given does."""
    written, items, _ = simulated(1, {"x": longer(0.0)}, content=(0, 0, 1, 1))
    batch = own.load(written, items)
    (estimated,), (given,) = own.fit(batch), own.fit(batch, prior=Prior())
    assert np.isnan(estimated.theta_low).all()
    assert np.isfinite(given.theta_low).all()


@pytest.mark.nightly
def test_anchors_tell_what_the_prior_chose():
    judges = {"x": longer(1.0), "y": longer(0.0)}
    written, items, anchors = simulated(60, judges, (0, 1, 2), slope=0.8, repeats=2, seed=1)
    without = fit_panel(*read(written, items))
    assert without.shared.of("c")["low"].isna().all()
    assert all(p.prior_selected for p in without.pools)
    # What a second biased judge buys is the difference.
    (apart,) = without.differences.itertuples()
    sd = items["words"].std(ddof=0)
    assert apart.low < -sd < apart.high < 0

    trusted = fit_panel(*read(written, items, anchors))
    x = c_of(trusted.shared, "x")
    assert x.low < sd < x.high
    assert trusted.differences.empty


def test_who_tells_a_coefficient():
    """Judge x tells its own c, judge y only with x or z, whose biases are known; w with all."""

    def identified(some):
        x, y, z, w = some
        c = [x, y and (x or z), False, x and y and z and w]
        return np.array([c, [x, y, False, False]])

    known = np.array([False, False, True, False])
    judges = Judges(tuple("xyzw"), known, np.ones(4), np.zeros(4, bool))
    x, y, z, w = judges.identified_by(identified)
    assert x == ((OWN,), (OWN,))
    assert y == (("x", "z"), (OWN,))
    assert z == ((), ())
    assert w == ((TOGETHER,), ())


@pytest.mark.parametrize(
    ("covariates", "verdicts", "x", "y"),
    [
        # y compares answers of one length: nothing about its c, but how much better A is than B; so
        # that x, who compares answers of A and B of two lengths, tells what it pays.
        (["words"], "xab xba ycb ybc", (("y",), (OWN,)), ((), (OWN,))),
        # Both orders of y tell the position bias of x.
        ([], "xab yab yba", (("y",),), ((OWN,),)),
    ],
)
def test_verdicts_of_one_judge_may_tell_a_coefficient_of_another(covariates, verdicts, x, y, x64):
    items = table("item,content,words\na,A,1\nb,B,2\nc,A,2\n")
    verdicts = frame("judge,first,second", map(list, verdicts.split())).assign(winner="tie")
    tables = own.read(verdicts, items, covariates=covariates)
    judges = Judges.of(tables)
    model = SharedModel.of(own.Batch.of(tables, covariates, position="yes"), judges)
    found = judges.identified_by(lambda some: model.identified(model.null_directions(some))[0])
    assert list(found) == [x, y]


@pytest.mark.heavy
def test_commands_say_what_all_judges_say_together(tables, tmp_path, jbt):
    """c is identified by renderings in pool p, and elsewhere only in the pool with anchors."""
    file, anchors = tmp_path / "f.json", tmp_path / "anchors.csv"
    ANCHORS.to_csv(anchors, index=False)
    verdicts, items = tables(VERDICTS.to_csv(index=False), ITEMS.to_csv(index=False))

    def run(command, *options):
        shared = "--verdicts", verdicts, "--items", items, "--covariates", "words", "--joint"
        said = jbt(command, *shared, *options, "--json", file, "--overwrite")
        return said, json.loads(file.read_text())

    said, record = run("fit", "--anchors", anchors, "--per-pool")
    assert "c and kappa of anchors are taken to be 0" in said
    assert [j["judge"] for j in record["joint"]["judges"]] == ["x", "y", "anchors"]

    _, record = run("identify", "--anchors", anchors)
    told_by = {(one["pool"], one["judge"]): one["told_by"] for one in record["joint"]}
    assert told_by["q", "x"] == told_by["q", "y"] == ["anchors"]
    assert told_by["r", "x"] == []
    assert "its own verdicts" in told_by["p", "x"]

    _, record = run("leaderboard", "--reference", "y")
    assert {j["judge"] for j in record["leaderboards"][-1]["judges"]} == {"x"}


@pytest.mark.parametrize(
    ("command", "of_y", "message"),
    [
        ("fit --reference x", {}, "--reference needs a joint fit: add --joint"),
        ("fit --joint --reference z", {}, "no judge 'z' (reference): there are x, y"),
        ("fit --joint --judge x", {}, "needs two judges or anchors, but there is one judge, 'x'"),
        ("fit --joint --discrimination x=0", {}, "the discrimination of 'x' must be above 0"),
        ("leaderboard --joint", {"judge": "joint"}, "a judge is called 'joint', as all judges are"),
        ("fit --joint --reference y", {"winner": "error"}, "'y' has no verdicts but errors"),
    ],
)
def test_what_a_joint_fit_refuses(command, of_y, message, tables, jbt):
    written = VERDICTS.copy()
    written.loc[written["judge"] == "y", list(of_y)] = list(of_y.values())
    verdicts, _ = tables(written.to_csv(index=False))
    assert message in jbt(*command.split(), "--verdicts", verdicts, code=2)
