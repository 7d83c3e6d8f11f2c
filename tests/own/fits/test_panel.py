"""All judges of a user's table in one fit: against SciPy on explicit design matrices, on simulated
verdicts whose truth is known, and as commands."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from jbt import cli, own
from jbt.own.fits import batch as batches
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
    rng, rows = np.random.default_rng(0), ["pool,judge,first,second,winner,count"]
    items = {"p": "abc", "q": "abcd", "r": "ab"}
    for _ in range(n):
        pool = rng.choice(list("pqr"))
        first, second = rng.permutation(list(items[pool]))[:2]
        if pool == "r":
            first, second = "a", "b"
        winner = rng.choice(["first", "first", "second", "tie"])
        rows.append(f"{pool},{rng.choice(list(judges))},{first},{second},{winner},1")
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


class Explicit:
    """One row a verdict; columns: every pool's qualities about their line in the covariate, then c
    of x and y, their kappa, and the slope of that line."""

    def __init__(self, batch):
        tables = batch.tables
        of, items = tables.verdicts, tables.items
        x = items["words"].to_numpy(float)
        x = (x - x.mean()) / x.std()
        names, owner = np.unique(items["pool"] * 100 + items["content"], return_inverse=True)
        mean = np.bincount(owner, x) / np.bincount(owner)
        first, second = of["first"].to_numpy(), of["second"].to_numpy()
        eye, judge = np.eye(len(names)), of["judge"].to_numpy()
        apart = x[first] - x[second]
        ordered = of["shown"] & (of["pool"] != 2)
        self.z = np.column_stack(
            [
                eye[owner[first]] - eye[owner[second]],
                *(apart * (judge == g) for g in (0, 1)),
                *(ordered * (judge == g) for g in (0, 1)),
                mean[owner[first]] - mean[owner[second]],
            ]
        ).astype(float)
        self.share, self.weight = of["p_first"].to_numpy(), of["count"].to_numpy()
        self.pools, self.mean = names // 100, mean

    def quality(self, bias):
        """Mode, loss there and Hessian in everything."""
        m, lam = len(self.pools), float(PRIOR.lam)
        theta = np.zeros(m)
        for _ in range(60):
            logit = self.z @ np.r_[theta, bias]
            p = expit(logit)
            full = (self.z.T * (self.weight * p * (1 - p))) @ self.z
            slope = self.z[:, :m].T @ (self.weight * (p - self.share)) + lam * theta
            theta = theta - np.linalg.solve(full[:m, :m] + lam * np.eye(m), slope)
        loss = (self.weight * (np.logaddexp(0, logit) - self.share * logit)).sum()
        return theta, loss + lam * theta @ theta / 2, full

    def loss(self, bias):
        """Minus the log-posterior of the coefficients, qualities integrated out pool by pool."""
        m = len(self.pools)
        _, value, full = self.quality(bias)
        own = full[:m, :m] + float(PRIOR.lam) * np.eye(m)
        for pool in set(self.pools):
            mine = self.pools == pool
            value += np.linalg.slogdet(own[np.ix_(mine, mine)])[1] / 2
        return value + float(PRIOR.lam_b) * bias @ bias / 2


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
    explicit = Explicit(batch)
    best = minimize(explicit.loss, np.zeros(5), method="BFGS", options={"gtol": 1e-7}).x
    x, y, anchors = found.judges
    assert anchors.known
    assert anchors.c == ()
    assert anchors.kappa is None
    estimates = [*x.c, *y.c, x.kappa, y.kappa, found.slope["words"]]
    np.testing.assert_allclose([e.estimate for e in estimates], best, atol=2e-5)
    m = len(explicit.pools)
    theta, _, full = explicit.quality(best)
    precision = full + np.diag([0.7] * m + [0.2] * 5)
    covariance = np.linalg.inv(precision)
    # Qualities: on their line and off it, about the pool's mean, with all of the uncertainty.
    turn = np.eye(m + 5)[:m]
    turn[:, -1] = explicit.mean
    for p, pool in enumerate(found.pools):
        mine = explicit.pools == p
        centre = turn[mine] - turn[mine].mean(0)
        of = sorted(pool.ranking, key=lambda r: r.content)
        mode = centre @ np.r_[theta, best]
        np.testing.assert_allclose([r.theta for r in of], mode, atol=1e-4)
        sd = np.sqrt((centre @ covariance @ centre.T).diagonal())
        np.testing.assert_allclose([r.high - r.theta for r in of], Z * sd, rtol=1e-4)


@pytest.mark.heavy
def test_a_pool_that_the_reference_did_not_see_is_a_status(fitted):
    _, found = fitted
    assert [p.status for p in found.pools] == [Status.CONVERGED] * 2 + [Status.NO_REFERENCE]
    assert [p.n_known for p in found.pools] == [1, 2, 0]
    assert found.trusted == ("anchors",)
    assert not any(p.prior_selected for p in found.pools)


@pytest.mark.heavy
def test_one_judge_under_two_names_has_one_c(tables):
    once = verdicts(judges="x").splitlines()
    twice = [*once, *(line.replace(",x,", ",y,") for line in once[1:])]
    batch, judges = read(tables, "\n".join(twice) + "\n", anchors=ANCHORS)
    x, y, _ = fit_panel(batch, judges, prior=PRIOR).judges
    assert x.c[0].estimate == pytest.approx(y.c[0].estimate, abs=1e-5)
    assert x.kappa.estimate == pytest.approx(y.kappa.estimate, abs=1e-5)
    assert x.c[0].identified_by == y.c[0].identified_by


def simulated(n_pools=60, c=1.0, seed=1):
    """Own qualities, which go with the covariate; judge x pays c for it, judge y nothing. Anchors:
    one trusted pair a pool."""
    rng = np.random.default_rng(seed)
    items, rows = ["pool,item,words"], ["pool,judge,first,second,winner"]
    anchors = ["pool,better,worse"]
    for pool in range(n_pools):
        x = rng.normal(size=3)
        quality = 0.8 * x + rng.normal(size=3)
        items += [f"{pool},{i},{v}" for i, v in enumerate(x)]
        for judge, bias in (("x", c), ("y", 0.0)):
            for i, j in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] * 2:
                p = expit(quality[i] - quality[j] + bias * (x[i] - x[j]))
                winner = "first" if rng.random() < p else "second"
                rows.append(f"{pool},{judge},{i},{j},{winner}")
        i, j = rng.permutation(3)[:2]
        better = rng.random() < expit(quality[i] - quality[j])
        anchors.append(f"{pool},{i if better else j},{j if better else i}")
    return *("\n".join(lines) + "\n" for lines in (rows, items)), "\n".join(anchors) + "\n"


@pytest.mark.heavy
def test_anchors_tell_what_the_prior_chose(tables):
    written, items, anchors = simulated()
    batch, judges = read(tables, written, items)
    without = fit_panel(batch, judges)
    assert all(j.c[0].identified_by == () for j in without.judges)
    assert all(np.isnan(j.c[0].low) for j in without.judges)
    assert all(p.prior_selected for p in without.pools)
    assert not without.slope
    # What a second biased judge buys is the difference.
    (apart,) = without.differences
    assert (apart.judge, apart.other) == ("y", "x")
    sd = np.std([float(r.split(",")[2]) for r in items.splitlines()[1:]])
    assert apart.low < -sd < apart.high < 0

    batch, judges = read(tables, written, items, anchors)
    trusted = fit_panel(batch, judges)
    x, y, _ = trusted.judges
    assert x.c[0].identified_by == y.c[0].identified_by == ("anchors",)
    assert x.c[0].low < sd < x.c[0].high
    assert y.c[0].low < 0 < y.c[0].high
    assert trusted.slope["words"].low < 0.8 * sd < trusted.slope["words"].high
    assert abs(x.c[0].estimate - sd) < abs(without.judges[0].c[0].estimate - sd)
    assert not trusted.differences

    batch, judges = read(tables, written, items, reference="y")
    (x, y) = fit_panel(batch, judges).judges
    assert x.c[0].identified_by == ("y",)
    assert y.known
    assert x.c[0].low < sd < x.c[0].high


@pytest.mark.heavy
def test_a_coin_has_no_discrimination_and_no_bias(tables):
    """Held at the discrimination of the others, it is biased against what the anchors favour."""
    written, items, anchors = simulated(n_pools=100)
    rng = np.random.default_rng(7)
    head, *rows = written.splitlines()
    coin = [
        f"{row.rpartition(',')[0]},{rng.choice(['first', 'second'])}" if ",y," in row else row
        for row in rows
    ]
    written = "\n".join([head, *coin]) + "\n"
    found = {}
    for name, held in (("estimated", {}), ("held", {"y": 1.0})):
        batch, judges = read(tables, written, items, anchors, discrimination=held)
        found[name] = fit_panel(batch, judges).judges[1]
    estimated, held = found["estimated"], found["held"]
    assert held.c[0].high < -0.3
    assert held.c[0].status == Basis.MEASURED  # as it used to be told, of a coin
    assert abs(estimated.c[0].estimate) < 0.1
    assert estimated.c[0].low < 0 < estimated.c[0].high
    assert abs(estimated.discrimination.estimate) < 0.15
    assert estimated.discrimination.low < 0 < estimated.discrimination.high < 0.5
    assert abs(estimated.agreement.share - 0.5) < 4 * 0.5 / np.sqrt(100)


@pytest.mark.heavy
def test_rows_are_counts(tables, monkeypatch):
    batch, judges = read(tables, verdicts(), anchors=ANCHORS, discrimination={"anchors": 2.0})
    counts = fit_panel(batch, judges, prior=PRIOR)
    monkeypatch.setattr(batches, "LARGEST_COUNTS", 0)
    batch, judges = read(tables, verdicts(), anchors=ANCHORS, discrimination={"anchors": 2.0})
    rows = fit_panel(batch, judges, prior=PRIOR)
    for one, other in zip(counts.judges, rows.judges, strict=True):
        assert [e.estimate for e in one.c] == pytest.approx([e.estimate for e in other.c], abs=1e-5)
        assert [e.low for e in one.c] == pytest.approx(
            [e.low for e in other.c], abs=1e-4, nan_ok=True
        )
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
    assert after.judges == ["x", "y", "anchors"] or after.judges == ["y", "x", "anchors"]
    of = after.verdicts[after.verdicts["judge"] == 2]
    assert (of["p_first"] == 1).all()
    assert not of["shown"].any()
    assert of["first"].tolist() == before.anchors["better"].tolist()
    counts = after.counts.set_index(["judge", "pool"])["n_verdicts"]
    assert counts[2].tolist() == [1, 2, 0]
    old = before.counts.set_index(["judge", "pool"])["n_verdicts"]
    assert counts[0].tolist() == old[0].tolist()
    assert own.read(v, i).with_anchors().judges == before.judges


def test_who_tells_a_coefficient(tables):
    """Judge x tells its own c, judge y only with x or z, whose biases are known; w with all."""

    def identified(some):
        x, y, z, w = some
        c = [x, y and (x or z), False, x and y and z and w]
        return np.array([c, [x, y, False, False]])

    judges = Judges(
        tuple("xyzw"), np.array([False, False, True, False]), np.ones(4), np.zeros(4, bool)
    )
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


# --- commands


def defined(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def written(tables, tmp_path):
    """Options that name the tables."""
    v, i = tables(verdicts(), ITEMS)
    (tmp_path / "anchors.csv").write_text(ANCHORS)
    return ["--verdicts", str(v), "--items", str(i), "--covariates", "words"]


@pytest.mark.heavy
def test_fit_says_what_all_judges_say_together(written, tmp_path, capsys):
    outputs = ["--json", str(tmp_path / "f.json"), "--out", str(tmp_path / "out"), "--per-pool"]
    anchors = ["--anchors", str(tmp_path / "anchors.csv")]
    assert cli.main(["fit", *written, *anchors, "--joint", *outputs]) == 0
    said = capsys.readouterr().out
    assert "c and kappa of anchors are taken to be 0" in said
    assert "anchors judged nothing in 1 of 3 pools: these are corrected with the c and" in said
    assert "no_reference 1" in said
    found = defined((tmp_path / "f.json").read_text())
    joint = found["joint"]
    assert [j["judge"] for j in joint["judges"]] == ["x", "y", "anchors"]
    assert joint["n_no_reference"] == 1
    assert [p["status"] for p in joint["pools"]] == ["converged", "converged", "no_reference"]
    assert len(found["pools"]) == 6  # of each judge alone, as without --joint
    table = pd.read_csv(tmp_path / "out" / "table.csv")
    of = table[table["judge"] == "joint"]
    assert set(of["quantity"]) == {"theta", "slope"}
    assert (table["quantity"] == "c_joint").sum() == 2


@pytest.mark.heavy
def test_identify_says_who_tells_what(written, tmp_path, capsys):
    """c is identified by renderings in pool p, and elsewhere only in the pool with anchors."""
    outputs = ["--json", str(tmp_path / "f.json"), "--out", str(tmp_path / "out")]
    anchors = ["--anchors", str(tmp_path / "anchors.csv")]
    assert cli.main(["identify", *written, *anchors, "--joint", *outputs]) == 0
    said = capsys.readouterr().out
    assert "trading quality against words in x and y" in said
    joint = defined((tmp_path / "f.json").read_text())["joint"]
    of = {(one["pool"], one["judge"]): one for one in joint}
    assert len(of) == 6
    assert of["q", "x"]["told_by"] == of["q", "y"]["told_by"] == ["anchors"]
    assert of["r", "x"]["told_by"] == []
    assert of["r", "x"]["status"] in ("flat", "disconnected")
    assert "its own verdicts" in of["p", "x"]["told_by"]
    table = pd.read_csv(tmp_path / "out" / "table.csv")
    assert table["joint"].tolist() == [False] * 6 + [True] * 6


@pytest.mark.heavy
def test_a_leaderboard_of_all_judges(written, tmp_path, capsys):
    options = ["--joint", "--reference", "y", "--json", str(tmp_path / "f.json")]
    assert cli.main(["leaderboard", *written, *options]) == 0
    assert "c and kappa of y are taken to be 0" in capsys.readouterr().out
    boards = defined((tmp_path / "f.json").read_text())["leaderboards"]
    assert [b["judge"] for b in boards] == ["x", "y", "joint"]
    assert [(j["judge"], j["covariate"]) for j in boards[2]["judges"]] == [
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
def test_what_a_joint_fit_refuses(written, options, message, capsys):
    assert cli.main(["fit", *written, *options]) == 2
    error = capsys.readouterr().err
    assert "error: " in error
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        ("anchors", ["--anchors", "anchors.csv"], "a judge is called 'anchors'"),
        ("Anchors", ["--anchors", "anchors.csv"], "a judge is called 'Anchors'"),
        ("X", [], "judges 'x' and 'X' have one name but for case"),
        ("joint", [], "a judge is called 'joint', as all judges are called together"),
    ],
)
def test_names_that_judges_cannot_have(other, options, message, tables, tmp_path, capsys):
    v, i = tables(verdicts().replace(",y,", f",{other},"), ITEMS)
    (tmp_path / "anchors.csv").write_text(ANCHORS)
    options = [str(tmp_path / o) if o.endswith(".csv") else o for o in options]
    arguments = ["--verdicts", str(v), "--items", str(i), "--joint", *options]
    for command in ("fit", "leaderboard"):
        assert cli.main([command, *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_a_reference_needs_verdicts(tables, capsys):
    lines = verdicts().splitlines()
    lines = [line.replace(",y,", ",x,") for line in lines] + ["p,y,a,b,error,1"]
    v, i = tables("\n".join(lines) + "\n", ITEMS)
    arguments = ["--verdicts", str(v), "--items", str(i), "--joint", "--reference", "y"]
    assert cli.main(["fit", *arguments]) == 2
    assert "the reference 'y' has no verdicts but errors" in capsys.readouterr().err
