"""Coefficients that all pools share, of each judge alone and of all in one fit: against SciPy on an
explicit design matrix, on simulated verdicts whose truth is known, and as commands."""

import io
import itertools
import json

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from support.problems import minimum

from jbt import identifiability, own, runtime
from jbt.own.fits import batch as batches
from jbt.own.fits.analysis import profiles
from jbt.own.fits.judges import OWN, TOGETHER, Judges
from jbt.own.fits.shared import SharedModel
from jbt.own.fits.together import fit_panel
from jbt.own.shared_coefficients.intervals import Basis, Z
from jbt.types import Prior, Status

ITEMS = "pool,item,content,words\n" + "".join(
    f"{pool},{item},{content},{words}\n"
    for pool, rows in {
        "p": [("a", "A", 1), ("b", "A", 3), ("c", "B", 2)],
        "q": [("a", "A", 2), ("b", "B", 5), ("c", "C", 1), ("d", "D", 4)],
        "r": [("a", "A", 6), ("b", "B", 1)],
    }.items()
    for item, content, words in rows
)
ANCHORS = "pool,better,worse\nq,b,a\nq,c,d\np,a,c\n"
PRIOR = Prior(0.7, 0.2)


def verdicts(n=60, judges="xy"):
    """In pool r only one order is shown, so that kappa is fixed at 0 there."""
    rng, rows = default_rng(0), ["pool,judge,first,second,winner,count"]
    items = {"p": "abc", "q": "abcd", "r": "ab"}
    for _ in range(n):
        pool = rng.choice(list("pqr"))
        first, second = rng.permutation(list(items[pool]))[:2]
        if pool == "r":
            first, second = "a", "b"
        winner = rng.choice(["first", "first", "second", "tie"])
        judge, count = rng.choice(list(judges)), rng.integers(1, 4)
        rows.append(f"{pool},{judge},{first},{second},{winner},{count}")
    return "\n".join(rows) + "\n"


def read(tables, written, items=ITEMS, anchors=None, **options):
    """Tables with the anchors among the verdicts, as a batch, and who is in it."""
    v, i = tables(written, items)
    a = None
    if anchors is not None:
        a = v.with_name("anchors.csv")
        a.write_text(anchors)
    found = own.read(v, i, a, covariates=["words"]).with_anchors()
    return own.Batch.of(found, ["words"]), Judges.of(found, **options)


def estimates(fit, *quantities):
    return fit.of(*quantities)["estimate"].to_numpy()


def c_of(fit, judge=None):
    """The row of a judge's c."""
    table = fit.of("c")
    (row,) = table[table["judge"].isna() if judge is None else table["judge"] == judge].itertuples()
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
def test_the_coefficients_of_each_judge_are_those_of_scipy(spread, tables):
    batch = own.load(*tables(verdicts(), ITEMS), ["words"])
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
def fitted(tmp_path_factory):
    """One panel, with anchors that judged nothing in pool r."""
    folder = tmp_path_factory.mktemp("panel")

    def tables(v, i):
        (folder / "v.csv").write_text(v)
        (folder / "i.csv").write_text(i)
        return folder / "v.csv", folder / "i.csv"

    known = {"x": 1.0, "y": 1.0}
    batch, judges = read(tables, verdicts(), anchors=ANCHORS, discrimination=known)
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


def longer(c, *others):
    """A judge who pays c for the covariate (in turn over the pools, if there are several)."""
    return lambda pool, x, quality: quality + [c, *others][pool % (1 + len(others))] * x


def simulated(
    n_pools, judges, content=(0, 1, 2, 3, 0, 1), sd=1.0, slope=0.0, kappa=0.0, repeats=1, seed=0
):
    """Verdicts on every ordered pair, items, and one trusted pair a pool. Quality goes with the
    covariate of a content's first item by `slope`.

    Args:
      judges: name -> apparent quality, of (pool, covariate, quality); one without a name is called
        None.
      content: of each item.
    """
    rng, content = default_rng(seed), np.array(content)
    items, rows = ["pool,item,content,words"], ["pool,judge,first,second,winner"]
    anchors, copies = ["pool,better,worse"], np.r_[0, np.maximum.accumulate(content)[:-1]]
    for pool in range(n_pools):
        base = rng.normal(size=content.max() + 1)
        quality = (slope * base + sd * rng.normal(size=len(base)))[content]
        is_copy = (np.arange(len(content)) > 0) & (content <= copies)
        x = base[content] + np.where(is_copy, rng.normal(size=len(content)), 0)
        items += [f"{pool},{i},{content[i]},{x[i]}" for i in range(len(content))]
        for name, judge in judges.items():
            phi = judge(pool, x, quality)
            for i, j in [*itertools.permutations(range(len(content)), 2)] * repeats:
                won = rng.random() < expit(phi[i] - phi[j] + kappa)
                rows.append(f"{pool},{name or ''},{i},{j},{'first' if won else 'second'}")
        i, j = rng.permutation(len(content))[:2]
        right = rng.random() < expit(quality[i] - quality[j])
        anchors.append(f"{pool},{i if right else j},{j if right else i}")
    if None in judges:
        rows = [row.replace(",judge", "", 1).replace(",,", ",", 1) for row in rows]
    return tuple("\n".join(lines) + "\n" for lines in (rows, items, anchors))


def alone(tables, written, items, *_, **options):
    """The batch of one judge's verdicts, and its fit."""
    batch = own.load(*tables(written, items), ["words"], standardise=False, **options)
    return batch, own.fit_judges(batch)


@pytest.mark.heavy
def test_one_pool_that_decides_alone_has_no_interval(tables):
    """Only the first of six pools renders a content twice: c is its c, whatever the others'."""
    written, items, _ = simulated(6, {None: longer(1.0)}, slope=0.5, kappa=0.3)
    keep = pd.read_csv(io.StringIO(items))
    keep.loc[(keep["pool"] > 0) & (keep["item"] >= 4), "content"] = keep["item"]
    made = pd.read_csv(io.StringIO(written))
    made["count"] = np.where(made["pool"] == 0, 60, 1)
    c = c_of(alone(tables, made.to_csv(index=False), keep.to_csv(index=False))[1])
    assert c.basis == Basis.FEW_POOLS
    assert np.isnan(c.low)


@pytest.mark.heavy
def test_pools_may_tell_together_what_none_tells_alone(tables):
    """One pool tells only the sum of two coefficients, the other only their difference."""
    head, rows = "pool,first,second,winner\n", "{0},a,b,first\n{0},b,a,first\n"
    items = "pool,item,content,words,lists\np,a,A,0,0\np,b,A,1,1\nq,a,A,0,1\nq,b,A,1,0\n"
    for pools, told in (("p", False), ("q", False), ("pq", True)):
        v, i = tables(head + "".join(rows.format(p) for p in pools), items)
        batch = own.load(v, i, ["words", "lists"], standardise=False)
        basis = own.fit_judges(batch).of("c")["basis"]
        assert (basis == Basis.PRIOR).tolist() == [not told] * 2
        assert "c" in batch.pools[0].prior_selected


@pytest.mark.heavy
def test_items_of_their_own_tell_nothing_and_add_no_evidence(tables):
    batch = own.load(*tables(verdicts(), ITEMS), ["words"], content=None)
    fit = own.fit_judges(batch)
    assert (fit.of("c")["basis"] == Basis.PRIOR).all()
    assert (fit.of("kappa")["basis"] != Basis.PRIOR).all()
    assert fit.of("slope").empty
    assert (profiles(batch, fit)[1] == 0).all()


@pytest.mark.heavy
def test_evidence_is_summed_over_pools(tables):
    batch = own.load(*tables(verdicts(), ITEMS), ["words"])
    grids, sums = profiles(batch, own.fit_judges(batch))
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
    assert_allclose(sums, expected, atol=1e-8)
    assert (sums.min(-1) < -0.01).all()


@pytest.mark.heavy
def test_a_c_that_differs_between_pools_is_found(tables):
    """The mean is 1; the test is not significant where pools are alike."""
    alike = alone(tables, *simulated(24, {None: longer(1.0)}))[1]
    unlike = alone(tables, *simulated(24, {None: longer(-1.0, 3.0)}))[1]
    assert c_of(alike).p_alike > 0.05
    assert c_of(unlike).p_alike < 1e-3


@pytest.mark.heavy
def test_judges_of_certain_verdicts(tables):
    """Of the same winner in both orders every score of kappa is 0, and the interval has some width.
    Where the longer rendering always wins, the posterior is convex on the way, and its maximum far
    away."""
    certain = alone(tables, *simulated(24, {None: lambda pool, x, q: 1e6 * (x + q)}))[1]
    (kappa,) = certain.of("kappa").itertuples()
    assert kappa.estimate == pytest.approx(0, abs=1e-6)
    assert kappa.high > 0.05
    by_length = alone(tables, *simulated(24, {None: lambda pool, x, q: 1000 * x}))[1]
    assert by_length.status == [Status.CONVERGED]
    c = c_of(by_length)
    assert c.estimate > 5
    assert c.basis == Basis.WEAK
    assert np.isnan(c.low)


@pytest.mark.heavy
def test_without_a_known_spread_of_quality_theta_has_no_interval(tables):
    """One pool of two contents tells no standard deviation; a prior that is given does."""
    made = simulated(1, {None: longer(0.0)}, content=(0, 0, 1, 1))
    batch = own.load(*tables(*made[:2]))
    (estimated,), (given,) = own.fit(batch), own.fit(batch, prior=Prior())
    assert np.isnan(estimated.theta_low).all()
    assert np.isfinite(given.theta_low).all()


PANEL = {"x": longer(1.0), "y": longer(0.0)}
APART = {"content": (0, 1, 2), "slope": 0.8, "repeats": 2, "seed": 1}


@pytest.mark.nightly
def test_anchors_tell_what_the_prior_chose(tables):
    written, items, anchors = simulated(60, PANEL, **APART)
    batch, judges = read(tables, written, items)
    without = fit_panel(batch, judges)
    assert without.shared.of("c")["identified_by"].tolist() == [(), ()]
    assert without.shared.of("c")["low"].isna().all()
    assert all(p.prior_selected for p in without.pools)
    assert without.shared.of("slope").empty
    # What a second biased judge buys is the difference.
    (apart,) = without.differences.itertuples()
    assert (apart.judge, apart.less) == ("y", "x")
    sd = np.std([float(r.split(",")[3]) for r in items.splitlines()[1:]])
    assert apart.low < -sd < apart.high < 0

    batch, judges = read(tables, written, items, anchors)
    trusted = fit_panel(batch, judges)
    x, y = (c_of(trusted.shared, judge) for judge in "xy")
    assert x.identified_by == y.identified_by == ("anchors",)
    assert x.low < sd < x.high
    assert y.low < 0 < y.high
    (slope,) = trusted.shared.of("slope").itertuples()
    assert slope.low < 0.8 * sd < slope.high
    assert abs(x.estimate - sd) < abs(c_of(without.shared, "x").estimate - sd)
    assert trusted.differences.empty

    batch, judges = read(tables, written, items, reference="y")
    (x,) = fit_panel(batch, judges).shared.of("c").itertuples()
    assert (x.judge, x.identified_by) == ("x", ("y",))
    assert x.low < sd < x.high


@pytest.mark.nightly
def test_rows_are_counts(tables, monkeypatch):
    found = []
    for largest in (batches.LARGEST_COUNTS, 0):
        monkeypatch.setattr(batches, "LARGEST_COUNTS", largest)
        batch, judges = read(tables, verdicts(), anchors=ANCHORS, discrimination={"anchors": 2.0})
        found.append(fit_panel(batch, judges, prior=PRIOR))
    counts, rows = found
    for name, atol in (("estimate", 1e-5), ("low", 1e-4)):
        pairs = (fit.shared.estimates[name] for fit in found)
        assert_allclose(*pairs, atol=atol)
    for one, other in zip(counts.pools, rows.pools, strict=True):
        for a, b in zip(one.ranking, other.ranking, strict=True):
            assert (a.content, a.rank) == (b.content, b.rank)
            assert a.theta == pytest.approx(b.theta, abs=1e-5)
            assert a.membership == pytest.approx(b.membership, abs=1e-3)


def test_anchors_are_verdicts_of_one_more_judge(tables):
    v, i = tables(verdicts(), ITEMS)
    a = v.with_name("anchors.csv")
    a.write_text(ANCHORS)
    before = own.read(v, i, a)
    after = before.with_anchors()
    assert after.judges == [*before.judges, "anchors"]
    of = after.verdicts[after.verdicts["judge"] == 2]
    assert (of["p_first"] == 1).all()
    assert not of["shown"].any()
    assert of["first"].tolist() == before.anchors["better"].tolist()
    counts, old = (t.counts.set_index(["judge", "pool"])["n_verdicts"] for t in (after, before))
    assert counts[2].tolist() == [1, 2, 0]
    assert counts[0].tolist() == old[0].tolist()
    assert own.read(v, i).with_anchors().judges == before.judges


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


def tellers_of(batch, judges):
    model = SharedModel.of(batch, judges)
    return list(judges.identified_by(lambda some: model.identified(model.null_directions(some))[0]))


def test_a_judge_that_tells_nothing_of_its_own_c_may_tell_another_s(tables, x64):
    """y compares answers of one length: nothing about its c, but how much better A is than B; so
    that x, who compares answers of A and B of two lengths, tells what it pays."""
    items = "pool,item,content,words\np,a,A,1\np,b,B,2\np,c,A,2\n"
    written = "pool,judge,first,second,winner\n" + "".join(
        f"p,{judge},{i},{j},tie\n" for judge, i, j in ["xab", "xba", "ycb", "ybc"]
    )
    x, y = tellers_of(*read(tables, written, items))
    assert x == (("y",), (OWN,))
    assert y == ((), (OWN,))


def test_both_orders_of_one_judge_tell_the_position_bias_of_another(tables, x64):
    v, i = tables("first,second,judge,winner\na,b,x,tie\na,b,y,tie\nb,a,y,tie\n", "item\na\nb\n")
    found = own.read(v, i)
    x, y = tellers_of(own.Batch.of(found, position="yes"), Judges.of(found))
    assert x == (("y",),)
    assert y == ((OWN,),)


@pytest.fixture
def written(tables, tmp_path):
    """Options that name the tables."""
    v, i = tables(verdicts(), ITEMS)
    (tmp_path / "anchors.csv").write_text(ANCHORS)
    return ["--verdicts", v, "--items", i, "--covariates", "words"]


@pytest.mark.heavy
def test_commands_say_what_all_judges_say_together(written, tmp_path, jbt):
    """c is identified by renderings in pool p, and elsewhere only in the pool with anchors."""
    file, out = tmp_path / "f.json", tmp_path / "out"

    def run(command, *options):
        outputs = ["--joint", "--json", file, "--out", out, "--overwrite"]
        said = jbt(command, *written, *options, *outputs)
        return said, json.loads(file.read_text()), pd.read_csv(out / "table.csv")

    anchors = ["--anchors", tmp_path / "anchors.csv"]
    said, record, table = run("fit", *anchors, "--per-pool")
    assert "c and kappa of anchors are taken to be 0" in said
    assert "anchors judged nothing in 1 of 3 pools: these are corrected with the c and" in said
    joint = record["joint"]
    assert [j["judge"] for j in joint["judges"]] == ["x", "y", "anchors"]
    assert [p["status"] for p in joint["pools"]] == ["converged", "converged", "no_reference"]
    assert len(record["pools"]) == 6  # of each judge alone, as without --joint
    assert set(table.loc[table["judge"] == "joint", "quantity"]) == {"theta", "slope"}
    assert (table["quantity"] == "c_joint").sum() == 2

    said, record, table = run("identify", *anchors)
    assert "trading quality against words in x and y" in said
    told_by = {(one["pool"], one["judge"]): one["told_by"] for one in record["joint"]}
    assert told_by["q", "x"] == told_by["q", "y"] == ["anchors"]
    assert told_by["r", "x"] == []
    assert "its own verdicts" in told_by["p", "x"]
    assert table["joint"].tolist() == [False] * 6 + [True] * 6

    said, record, _ = run("leaderboard", "--reference", "y")
    assert "c and kappa of y are taken to be 0" in said
    *_, joint = record["leaderboards"]
    assert [(j["judge"], j["covariate"]) for j in joint["judges"]] == [
        ("x", "words"),
        ("x", "kappa"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--reference", "x"], "--reference needs a joint fit: add --joint"),
        (["--joint", "--reference", "z"], "no judge 'z' (reference): there are x, y"),
        (["--joint", "--reference", "X"], "no judge 'X' (reference): there are x, y"),
        (["--joint", "--judge", "x"], "needs two judges or anchors, but there is one judge, 'x'"),
        (["--joint", "--discrimination", "x"], "--discrimination is 'x', allowed: NAME=NUMBER"),
        (["--joint", "--discrimination", "x=0"], "the discrimination of 'x' must be above 0"),
        (["--joint", "--discrimination", "z=2"], "no judge 'z' (discrimination)"),
        (["--discrimination", "x=2"], "--discrimination needs a joint fit: add --joint"),
    ],
)
def test_what_a_joint_fit_refuses(written, options, message, jbt):
    assert message in jbt("fit", *written, *options, code=2)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (",anchors,", ["--anchors", "anchors.csv"], "a judge is called 'anchors'"),
        (",Anchors,", ["--anchors", "anchors.csv"], "a judge is called 'Anchors'"),
        (",X,", [], "judges 'x' and 'X' have one name but for case"),
        (",joint,", [], "a judge is called 'joint', as all judges are called together"),
        (",x,", ["--reference", "y"], "the reference 'y' has no verdicts but errors"),
    ],
)
def test_names_that_judges_cannot_have(change, options, message, tables, tmp_path, jbt):
    lines = verdicts().replace(",y,", change)
    v, i = tables(lines + "p,y,a,b,error,1\n" * ("--reference" in options), ITEMS)
    (tmp_path / "anchors.csv").write_text(ANCHORS)
    options = [tmp_path / o if o.endswith(".csv") else o for o in options]
    for command in ("fit", "leaderboard"):
        arguments = command, "--verdicts", v, "--items", i, "--joint", *options
        assert message in jbt(*arguments, code=2)


@pytest.mark.nightly
def test_the_answer_names_defaults_beside_what_is_measured(tables):
    """One judge's c is a default of the prior, as it saw no two renderings of a content."""
    written, items, _ = simulated(8, {"x": longer(1.0), "y": longer(1.0)}, content=(0, 1, 0))
    frame = pd.read_csv(io.StringIO(written))
    hidden = (frame["judge"] == "y") & (frame[["first", "second"]] == 2).any(axis=1)
    written = frame[~hidden].to_csv(index=False)
    batch = own.load(*tables(written, items), ["words"])
    answer = own.analyse(batch).report("", []).answer
    assert "(a default, not a measurement)" in answer[1]
