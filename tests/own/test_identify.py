"""What `jbt identify` says, against SciPy on the explicit design matrix."""

import csv
import dataclasses
import json
from itertools import permutations

import jax
import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import chi2

from jbt import cli, own, runtime
from jbt.kernel import rows
from jbt.own.examine.identify import Identification, Identified, identify
from jbt.types import Prior, Status

CONTENTS = {"measured": "AABBC", "one_order": "AABBC", "flat": "ABCDE", "silent": "AABBC"}
CONTENTS |= {"constant": "AABBC", "separated": "AABBC", "apart": "ABCDE", "gaps": "AABBC"}
WORDS = {"constant": [4] * 5}


def write_tables(tables):
    """Pools of five items that differ in what they tell about c."""
    rng = np.random.default_rng(5)
    items, verdicts = ["pool,item,content,words"], ["pool,first,second,winner,count"]
    for pool, contents in CONTENTS.items():
        words = WORDS.get(pool, [3, 9, 2, 7, 5])
        items += [
            f"{pool},i{i},{c},{w}" for i, (c, w) in enumerate(zip(contents, words, strict=True))
        ]
        for a, b in permutations(range(5), 2):
            if pool == "silent" or (pool == "one_order" and a > b):
                continue
            if pool == "separated" and contents[a] != contents[b]:
                continue
            if (pool == "apart" and (a < 2) != (b < 2)) or (pool == "gaps" and 4 in (a, b)):
                continue
            longer = words[a] > words[b]
            for winner in ("first", "second", "tie"):
                count = rng.integers(1, 4)
                if pool == "separated" and winner != ("first" if longer else "second"):
                    count = 0
                verdicts.append(f"{pool},i{a},i{b},{winner},{count}")
    return tables("\n".join(verdicts) + "\n", "\n".join(items) + "\n")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identify")

    def tables(verdicts, items):
        (folder / "verdicts.csv").write_text(verdicts)
        (folder / "items.csv").write_text(items)
        return folder / "verdicts.csv", folder / "items.csv"

    paths = write_tables(tables)
    read = own.read(*paths, covariates=["words"])
    batch = own.Batch.of(read, ["words"], transform="log")
    return paths, read, batch, {one.pool: one for one in identify(batch).alone}


class Reference:
    """One pool in SciPy: an explicit row for each row of the table, quality of the first content
    fixed at 0 where there is no prior."""

    def __init__(self, paths, pool, x, position):
        verdicts, items = (list(csv.DictReader(p.read_text().splitlines())) for p in paths)
        names = [r["item"] for r in items if r["pool"] == pool]
        labels = [r["content"] for r in items if r["pool"] == pool]
        owner = [sorted(set(labels)).index(label) for label in labels]
        unit, self.z, self.w, self.n = np.eye(max(owner) + 1), [], [], []
        for r in verdicts:
            if r["pool"] != pool:
                continue
            a, b = names.index(r["first"]), names.index(r["second"])
            row = [*(unit[owner[a]] - unit[owner[b]]), x[a] - x[b], *[1.0] * position]
            self.z.append(row)
            self.n.append(float(r["count"]))
            self.w.append(self.n[-1] * {"first": 1, "second": 0, "tie": 0.5}[r["winner"]])
        self.z, self.w, self.n = np.array(self.z), np.array(self.w), np.array(self.n)
        self.at_c = max(owner) + 1

    def best(self, free, c=0.0, precision=0.0):
        """Smallest penalised negative log-likelihood over the free columns, and where."""
        z, offset = self.z[:, free], self.z[:, self.at_c] * c

        def objective(b):
            eta = z @ b + offset
            value = (self.n * np.logaddexp(0, eta) - self.w * eta).sum()
            p = 1 / (1 + np.exp(-eta))
            gradient = z.T @ (self.n * p - self.w) + precision * b
            return value + (precision * b * b).sum() / 2, gradient

        def hessian(b):
            p = 1 / (1 + np.exp(-(z @ b + offset)))
            return (z.T * (self.n * p * (1 - p))) @ z + np.diag(np.full(len(b), 1.0) * precision)

        start = np.zeros(z.shape[1])
        done = minimize(
            objective, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-10}
        )
        return done.fun, done.x

    def answers(self, lam, lam_b):
        every = np.arange(self.z.shape[1])
        precision = np.where(every < self.at_c, lam, lam_b)
        c_map = self.best(every, precision=precision)[1][self.at_c]
        top, b = self.best(every[1:])  # theta of the first content is 0
        c_mle = b[self.at_c - 1]
        others = np.delete(every, [0, self.at_c])
        curve = [-self.best(others, c)[0] for c in np.linspace(c_map - 1, c_map + 1, 9)]

        def fallen(c):
            return 2 * (self.best(others, c)[0] - top) - chi2.ppf(0.95, 1)

        ends = [brentq(fallen, c_mle, c_mle + side * 9, xtol=1e-12) for side in (-1, 1)]
        return c_map, c_mle, np.ptp(curve), ends


@pytest.mark.heavy
@pytest.mark.parametrize("pool", ["measured", "one_order", "gaps"])
def test_equals_scipy_on_the_explicit_matrix(pool, found):
    paths, read, _, records = found
    one = records[pool]
    x = np.log([float(r["words"]) for r in csv.DictReader(paths[1].read_text().splitlines())])
    x = ((x - x.mean()) / x.std())[read.items["pool"] == read.pools.index(pool)]
    reference = Reference(paths, pool, x, position=pool != "one_order")
    c_map, c_mle, spread, ends = reference.answers(1.0, 0.1)
    assert one.status == Status.CONVERGED
    assert one.c_map == pytest.approx(c_map, abs=1e-6)
    assert one.c_mle == pytest.approx(c_mle, abs=1e-6)
    assert one.profile_range == pytest.approx(spread, abs=1e-6)
    assert [one.low, one.high] == pytest.approx(ends, abs=1e-6)
    columns = reference.z.shape[1]
    assert (one.n_columns, one.rank) == (columns, np.linalg.matrix_rank(reference.z))


@pytest.mark.heavy
def test_what_is_not_measured_says_why(found):
    _, _, batch, records = found
    statuses = {pool: one.status.name.lower() for pool, one in records.items()}
    assert statuses == {
        "measured": "converged",
        "one_order": "converged",
        "flat": "flat",
        "silent": "no_verdicts",
        "constant": "covariate_constant",
        "separated": "separated",
        "apart": "flat",
        "gaps": "converged",
    }
    for pool in ("flat", "apart"):
        assert records[pool].profile_range < 1e-9
        assert np.isnan([records[pool].c_mle, records[pool].low]).all()
    fixed = {one.pool for one in batch.pools if not one.position}
    assert fixed == {"one_order", "silent"}
    assert records["one_order"].n_columns == 4  # three contents and c, no position
    names = records["apart"].null_directions
    linked = "adding 1 to the qualities of contents A, B, which no comparison links to the others"
    assert names[0] == linked
    assert "adding 1 to the quality of content C, which" in records["gaps"].null_directions[1]
    assert records["separated"].profile_range > 0.1
    again = identify(batch, Prior(5.0, 2.0)).alone
    assert again[0].c_mle == pytest.approx(records["measured"].c_mle, abs=1e-9)
    assert abs(again[0].c_map) < abs(records["measured"].c_map)


@pytest.mark.heavy
def test_rows_and_counts_give_the_same_answers(found):
    _, _, batch, records = found
    (group,) = batch.groups
    with runtime.precision("float64"):
        comparisons, design = jax.vmap(rows.of_counts)(group.comparisons, group.design)
    group = dataclasses.replace(group, comparisons=comparisons, design=design)
    for one in identify(dataclasses.replace(batch, groups=(group,))).alone:
        other = records[one.pool]
        assert one.null_directions == other.null_directions
        assert one.status == other.status
        for name in ("c_map", "c_mle", "low", "high", "profile_range"):
            value = getattr(other, name)
            assert getattr(one, name) == pytest.approx(value, abs=1e-9, nan_ok=True)


def identified(**changes):
    known = Identified(
        pool="q1",
        judge=None,
        covariate="log(words)",
        unit="standard deviation of log(words)",
        rank=4,
        n_columns=5,
        null_directions=("adding 1 to every quality",),
        grid=np.linspace(-0.57, 1.43, 9),
        log_likelihood=-np.linspace(0, 2, 9),
        profile_range=2.0,
        c_map=0.43,
        c_mle=0.5,
        low=0.1,
        high=0.9,
        withheld="",
        status=Status.CONVERGED,
    )
    return dataclasses.replace(known, **changes)


UNKNOWN = {"c_mle": np.nan, "low": np.nan, "high": np.nan}


def test_a_record_has_null_for_what_is_undefined():
    assert identified().record() == {
        "pool": "q1",
        "judge": None,
        "covariate": "log(words)",
        "unit": "standard deviation of log(words)",
        "rank": 4,
        "n_columns": 5,
        "nullity": 1,
        "null_directions": ["adding 1 to every quality"],
        "profile_range": 2.0,
        "c_map": 0.43,
        "c_mle": 0.5,
        "c_interval": [0.1, 0.9],
        "withheld": None,
        "status": "converged",
    }
    flat = identified(status=Status.FLAT, **UNKNOWN).record()
    assert (flat["c_mle"], flat["c_interval"], flat["status"]) == (None, None, "flat")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            Status.CONVERGED,
            "+0.43 with the prior; the verdicts carry 2.0 nats about c[log(words)] between -0.57",
        ),
        (
            Status.FLAT,
            "any value between -0.57 and +1.43 and beyond fits as well; the prior",
        ),
        (Status.DISCONNECTED, "comparisons between the unconnected items would identify it"),
        (Status.SEPARATED, "the smaller c, the better the fit, without end; the prior chose +0.43"),
        (Status.COVARIATE_CONSTANT, "log(words) never differs between the items"),
        (Status.NO_VERDICTS, "there are no verdicts"),
        (Status.NOT_FINITE, "c[log(words)] has no estimate: not_finite"),
    ],
)
def test_plain_words(status, words):
    assert words in identified(status=status).sentence()


def test_a_report_is_short_and_its_table_whole(tmp_path):
    some = [
        identified(pool=f"q{i}", judge=judge, status=status)
        for i, status in enumerate((Status.CONVERGED, Status.FLAT, Status.FLAT, Status.SEPARATED))
        for judge in ("a", "b")
    ]
    report = Identification(some).report("What v.csv says", ["first"])
    lines = report.text().splitlines()
    assert lines[0].startswith("c[log(words)] is identified by the verdicts: a in 2 of 4 pools, b")
    assert lines[3] == (
        "a: converged in 1, flat in 2, separated in 1 of 4 pools; 2.0 nats about c in a pool "
        "(median), at most 2.0 nats; without a prior +0.5 (median of 1); not identified in "
        "2, where the prior chose +0.43 (median)"
    )
    assert lines[-4:] == ["adding 1 to every quality (in 8 of 8)", "", "Notes", "first"]
    alone = Identification(some[:1]).report("What v.csv says", []).text()
    assert some[0].sentence() in alone
    for identification in (Identification(some), Identification(some[:2])):
        report.write(tmp_path, identification.to_frame(), identification.figure())
    table = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["judge"] for row in table] == ["a", "b"]
    assert table[0]["c_low"] == "0.1"


def test_no_covariate_ends_with_one_line(tables, capsys):
    v, _ = tables()
    assert cli.main(["identify", "--verdicts", str(v)]) == 2
    assert capsys.readouterr().err == "error: jbt identify needs a covariate (--covariates)\n"
    read = own.read(v)
    with pytest.raises(ValueError, match="no covariate"):
        identify(own.Batch.of(read))


@pytest.mark.heavy
def test_the_command_and_its_files(tables, tmp_path, capsys):
    v, i = write_tables(tables)
    out, json_ = tmp_path / "out", tmp_path / "identify.json"
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    options = ["--verdicts", str(v), "--items", str(i), "--covariates", "words"]
    options += ["--transform", "log", "--json", str(json_), "--out", str(out)]
    assert cli.main(["identify", *options]) == 0
    assert set(tmp_path.iterdir()) - set(before) == {out, json_}
    assert all(p.read_bytes() == content for p, content in before.items())
    content = json.loads(json_.read_text(), parse_constant=pytest.fail)
    assert set(content) == {"settings", "pools"}
    assert [r["pool"] for r in content["pools"]] == list(CONTENTS)
    shown = capsys.readouterr().out
    assert shown.startswith("c[log(words)] is identified by the verdicts: in 6 of 8 pools")
    assert "separated in 1 of 8 pools; " in shown
