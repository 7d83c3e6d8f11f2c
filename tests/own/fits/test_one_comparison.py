"""c of `jbt fit` on one comparison, beside a fit whose columns are written verdict by verdict."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from scipy import sparse
from scipy.special import expit

from jbt import own, runtime
from jbt.estimators import mixed
from jbt.own.fits import one_comparison as module
from jbt.own.fits.one_comparison import OfJudges, OfPools, one_comparison
from jbt.own.fits.report import ONE_COMPARISON
from jbt.own.fits.shared import SharedModel, fit_shared
from jbt.own.leaderboards.one_comparison import OfModels
from jbt.own.shared_coefficients.one_comparison import UNDECIDED
from jbt.types import Status

JUDGES = {"llm": (1.0, 0.8, 0.3), "other": (0.7, 0.2, -0.3), "expert": (2.0, 0.0, 0.0)}
"""Discrimination, c and kappa."""


def written(rng, pools=12, judges=("llm",), contents=3, versions=2, apart=0.0):
    """Every ordered pair of a pool once; the first contents have two versions. y biases nobody."""
    verdicts, items = [], []
    for pool in range(pools):
        quality = rng.normal(size=contents)
        names = [*range(contents), *range(versions)]
        q = quality[names] + apart * rng.normal(size=len(names))
        x, y = rng.normal(size=(2, len(names)))
        items += [(f"p{pool}", f"i{i}", f"c{c}", x[i], y[i]) for i, c in enumerate(names)]
        for judge in judges:
            s, c, kappa = JUDGES[judge]
            for i, j in itertools.permutations(range(len(names)), 2):
                logit = s * (q[i] - q[j]) + c * (x[i] - x[j]) + kappa
                won = "first" if rng.random() < expit(logit) else "second"
                verdicts.append((f"p{pool}", judge, f"i{i}", f"i{j}", won))
    columns = ["pool", "judge", "first", "second", "winner"]
    return (
        pd.DataFrame(verdicts, columns=columns),
        pd.DataFrame(items, columns=["pool", "item", "content", "x", "y"]),
    )


def fitted(tables, reference=None, covariates=("x",)):
    batch = own.Batch.of(tables, list(covariates), standardise=False)
    judges = own.Judges.of(tables, reference=reference) if reference else None
    with runtime.precision("float64"):
        return fit_shared(SharedModel.of(batch, judges))


def read(verdicts, items):
    return own.read(verdicts, items, covariates=["x", "y"])


def naive(verdicts, items, s, covariates=("x",), known=()):
    """The same problem, written verdict by verdict; `s` by judge. Coefficients: each covariate's c
    of each judge, kappa of each judge, then the slope of each covariate."""
    names, place = list(covariates), pd.MultiIndex.from_frame(items[["pool", "item"]])
    x, contents = items[names].set_axis(place), items.groupby(["pool", "content"])
    means = contents[names].transform("mean").set_axis(place)
    content = contents.ngroup().set_axis(place)
    version = pd.Series(range(len(items)), place)
    sides = [pd.MultiIndex.from_frame(verdicts[["pool", side]]) for side in ("first", "second")]

    def both(of_items):
        return np.array([of_items.loc[side] for side in sides])

    apart, between = (v[0] - v[1] for v in map(both, (x, means)))
    factor, ordered = verdicts["judge"].map(s).to_numpy(), verdicts.get("order", "shown") == "shown"
    of_judge = {g: (verdicts["judge"] == g).to_numpy() * (g not in known) for g in s}
    slopes = {
        f"{name} {g}": apart[:, i] * of
        for i, name in enumerate(names)
        for g, of in of_judge.items()
    }
    positions = [ordered * of for of in of_judge.values()]
    columns = np.column_stack([*slopes.values(), *positions, factor[:, None] * between])
    low, high = np.sort(both(version), axis=0)
    pair = verdicts.groupby(["judge", low, high]).ngroup().to_numpy()
    return mixed.Mixed(
        fixed=sparse.csr_array(columns.astype(float)),
        precision=np.full(columns.shape[1], 0.1),
        shown=np.ones(len(verdicts)),
        wins=(verdicts["winner"] == "first").to_numpy(float),
        cluster=verdicts.groupby("pool", sort=False).ngroup().to_numpy(),
        units={
            "content": both(content),
            "version": both(version),
            "pair": np.where(both(version) == low, pair, -1),
        },
        factors={"content": factor, "version": factor},
        slopes={name: column for name, column in slopes.items() if column.any()},
    )


def test_units_of_a_factor_enter_that_often():
    problem = naive(*written(default_rng(0), 2), {"llm": 1.0})
    factor = default_rng(1).normal(size=len(problem.wins))
    (plain,), (scaled,) = (
        mixed.blocks_of(replace(problem, factors=factors)) for factors in ({}, {"content": factor})
    )
    expected = plain.columns.copy()
    expected[:, :, plain.effect == 0] *= np.append(factor, 0)[plain.rows][:, :, None]
    assert_allclose(scaled.columns, expected)
    assert (expected != plain.columns).any()


@pytest.mark.heavy
def test_the_fit_is_that_of_the_columns_written_verdict_by_verdict():
    """Of one judge; the order of some verdicts is unknown."""
    verdicts, items = written(default_rng(2), 24, contents=4, apart=1.0)
    verdicts["order"] = np.where(np.arange(len(verdicts)) % 5, "shown", "unknown")
    one = one_comparison(fitted(read(verdicts, items)), 0)
    with runtime.precision("float64"):
        twin = mixed.fit(naive(verdicts, items, {"llm": 1.0}), module.PRIORS_SHARE)
        ends = twin.intervals(np.eye(3)[:1])[["estimate", "low", "high"]]
    assert one.status == Status.CONVERGED
    assert_allclose(one.c[["estimate", "low", "high"]], ends, atol=1e-5)
    assert_allclose(one.spread["sd"], list(twin.sd.values()), atol=1e-5)
    assert (one.spread["sd"][:2] > 0.3).all()


@pytest.mark.heavy
def test_several_judges_have_their_own_c_and_the_error_of_their_discriminations():
    """Two of three are biased, by two covariates; beside three fits of the columns."""
    verdicts, items = written(default_rng(4), 24, list(JUDGES), contents=4, versions=1)
    fit = fitted(read(verdicts, items), "expert", ["x", "y"])
    one = one_comparison(fit, 0)
    s = fit.of("discrimination").set_index("judge")["estimate"].to_dict()
    at = fit.model.places["discrimination"]
    errors = np.sqrt(np.diagonal(np.linalg.inv(fit.top.information[0]))[at])
    assert list(one.c["judge"]) == ["llm", "llm", "other", "other"]
    assert list(one.c["covariate"]) == ["x", "y", "x", "y"]
    with runtime.precision("float64"):
        twin, *others = (
            mixed.fit(
                naive(verdicts, items, s | changed, ["x", "y"], ["expert"]), module.PRIORS_SHARE
            )
            for changed in ({}, {"llm": s["llm"] + errors[0]}, {"other": s["other"] + errors[1]})
        )
        places = [0, 3, 1, 4]  # judge by judge; the expert's are 2 and 5
        ends = twin.intervals(np.eye(len(twin.beta))[places])
    assert_allclose(one.c["estimate"], ends["estimate"], atol=1e-5)
    variance = ((ends["high"] - ends["low"]) / 2) ** 2
    variance += sum((1.96 * (o.beta - twin.beta)[places]) ** 2 for o in others)
    assert_allclose(one.c["high"] - one.c["low"], 2 * np.sqrt(variance), rtol=1e-3)
    assert (one.c["high"] - one.c["low"] > 1.01 * (ends["high"] - ends["low"])).any()


@pytest.mark.heavy
def test_versions_that_differ_draw_the_average_effect_towards_0_and_not_this_c():
    """On many pools, in standard errors; Monte Carlo with a fixed seed."""
    fit = fitted(read(*written(default_rng(3), 80, apart=2.0)))
    average = fit.of("c").iloc[0]
    one = one_comparison(fit, 0)
    c = one.c.iloc[0]
    assert average["high"] < 0.8
    assert c["low"] < 0.8 < c["high"]
    assert c["estimate"] > 1.3 * average["estimate"]
    spread = one.spread.set_index("effect")
    error = spread["log_error"][module.VERSIONS]
    assert abs(np.log(spread["sd"][module.VERSIONS] / 2)) < 3 * error < 0.6


@pytest.mark.heavy
def test_repeated_verdicts_are_verdicts():
    verdicts, items = written(default_rng(4))
    repeated = read(verdicts.loc[verdicts.index.repeat(2)], items)
    counted = read(verdicts.assign(count=2), items)
    one, other = (one_comparison(fitted(tables), 0) for tables in (repeated, counted))
    for name in ("c", "spread"):
        assert_frame_equal(getattr(one, name), getattr(other, name), atol=1e-6)


@pytest.fixture(scope="module")
def alone():
    """The average effects of one judge in as many pools as are needed."""
    return fitted(read(*written(default_rng(5))))


def test_nothing_is_fitted_where_no_interval_could_be(alone, monkeypatch):
    not_measured, batch = alone.estimates.assign(basis="merged"), alone.model.batch
    verdicts = batch.tables.verdicts.assign(p_first=0.7)
    graded = replace(batch, tables=replace(batch.tables, verdicts=verdicts))
    none_trusted = own.Judges(("llm",), np.zeros(1, bool), np.ones(1), np.zeros(1, bool))
    for fit, why in (
        (replace(alone, estimates=not_measured), "no c"),
        (replace(alone, model=replace(alone.model, judges=none_trusted)), "must be trusted"),
        (replace(alone, model=replace(alone.model, batch=graded)), "ties or graded"),
    ):
        assert why in one_comparison(fit, 0)
    # There are 12 pools of 20 different verdicts each.
    for limit, value, n_pools in (("WIDEST", 19, 0), ("FEWEST", 13, 12)):
        with monkeypatch.context() as changed:
            changed.setattr(module, limit, value)
            assert f"finds {n_pools}" in one_comparison(alone, 0)


@pytest.mark.heavy
def test_ties_of_one_judge_leave_the_others():
    verdicts, items = written(default_rng(5), judges=("llm", "expert"))
    verdicts.loc[verdicts.index[verdicts["judge"] == "expert"][0], "winner"] = "tie"
    tables = read(verdicts, items)
    llm, expert = (one_comparison(fitted(tables), judge) for judge in (0, 1))
    assert llm.status == Status.CONVERGED
    assert expert == one_comparison(fitted(tables, "expert"), 0) == UNDECIDED


@pytest.mark.heavy
def test_a_covariate_that_no_two_versions_differ_in_is_left_out():
    verdicts, items = written(default_rng(8), 14, ["llm", "other"])
    items["y"] = items.groupby(["pool", "content"])["y"].transform("mean")
    one = one_comparison(fitted(read(verdicts, items), covariates=["x", "y"]), 0)
    assert list(one.c["covariate"]) == ["x"]


@pytest.mark.heavy
def test_the_command_prints_c_with_what_its_interval_covers(tables, tmp_path, jbt):
    written_tables = written(default_rng(7), 12, ["llm", "expert"])
    v, i = tables(*(table.to_csv(index=False) for table in written_tables))
    options = ["--covariates", "x", "--one-comparison", "--joint", "--reference", "expert"]
    file = tmp_path / "f.json"
    printed = jbt("fit", "--verdicts", v, "--items", i, *options, "--json", file)
    record = json.loads(file.read_text())
    for one, where in (
        (record["judges"][0], f"llm: on one comparison\n{ONE_COMPARISON}\n"),
        (record["joint"], f"together: on one comparison\n{ONE_COMPARISON}\nllm: "),
    ):
        (c,) = one["one_comparison"]["c"]
        assert f"{where}c[x] = {c['estimate']:+.2f} [{c['low']:+.2f}, {c['high']:+.2f}]" in printed
    assert OfPools.COVERAGE in printed
    assert OfJudges.COVERAGE in printed


@pytest.mark.parametrize(
    ("kind", "file", "interval"),
    [
        (OfPools, "fit_one_comparison", "c of `jbt fit`"),
        (OfJudges, "fit_one_comparison", "c of `jbt fit --joint`"),
        (OfModels, "one_comparison", "c"),
    ],
)
def test_the_printed_coverage_is_that_of_the_kept_rows(kind, file, interval):
    rows = pd.read_csv(f"docs/calibration/{file}.csv")
    rows = rows[rows["interval"] == interval]
    n = (rows["studies"] * rows["printed"]).round()
    held, sound = n * rows["coverage"], rows["miss"].isna()
    low, high = rows["coverage"][sound].agg(["min", "max"])
    share = held[sound].sum() / n[sound].sum()
    assert (
        f"{share:.2f} of {n[sound].sum():.0f} studies ({low:.2f} to {high:.2f} by" in kind.COVERAGE
    )
    if not sound.all():
        share = held[~sound].sum() / n[~sound].sum()
        assert f"in only {share:.2f} of {n[~sound].sum():.0f} studies in which" in kind.COVERAGE


def test_a_fit_that_fails_leaves_the_other_results(alone, monkeypatch):
    def fail(*arguments):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("jbt.estimators.mixed.fit", fail)
    one = one_comparison(alone, 0)
    assert one.status == Status.NOT_CONVERGED
    (line,) = one.sentences(["unit of x"])
    assert line == "not estimated: the fit of what varies did not converge"
