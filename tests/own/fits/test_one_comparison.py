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
from jbt.own.fits.one_comparison import OfPools, one_comparison
from jbt.own.fits.shared import SharedModel, fit_shared
from jbt.types import Status

JUDGES = {"llm": (1.0, 0.8, 0.3), "expert": (2.0, 0.0, 0.0)}
"""Discrimination, c and kappa."""


def written(rng, pools=12, judges=("llm",), contents=3, versions=2, apart=0.0):
    """Every ordered pair of a pool once; the first contents have two versions."""
    verdicts, items = [], []
    for pool in range(pools):
        quality = rng.normal(size=contents)
        names = [*range(contents), *range(versions)]
        q = quality[names] + apart * rng.normal(size=len(names))
        x = rng.normal(size=len(names))
        items += [(f"p{pool}", f"i{i}", f"c{c}", x[i]) for i, c in enumerate(names)]
        for judge in judges:
            s, c, kappa = JUDGES[judge]
            for i, j in itertools.permutations(range(len(names)), 2):
                logit = s * (q[i] - q[j]) + c * (x[i] - x[j]) + kappa
                won = "first" if rng.random() < expit(logit) else "second"
                verdicts.append((f"p{pool}", judge, f"i{i}", f"i{j}", won))
    columns = ["pool", "judge", "first", "second", "winner"]
    return (
        pd.DataFrame(verdicts, columns=columns),
        pd.DataFrame(items, columns=["pool", "item", "content", "x"]),
    )


def fitted(tables, reference=None, covariates=("x",), **options):
    batch = own.Batch.of(tables, list(covariates), standardise=False, **options)
    judges = own.Judges.of(tables, reference=reference) if reference else None
    with runtime.precision("float64"):
        return fit_shared(SharedModel.of(batch, judges))


def read(verdicts, items):
    return own.read(verdicts, items, covariates=["x"])


def naive(verdicts, items, s):
    """The same problem, written verdict by verdict; `s` by judge, whose first alone is biased."""
    biased = next(iter(s))
    facts = items.set_index(["pool", "item"])
    means = items.groupby(["pool", "content"])["x"].mean()
    rows, pools = [], {}
    units = {name: ([], []) for name in ("content", "version", "pair")}
    numbers = {}

    def number(*key):
        return numbers.setdefault(key, len(numbers))

    for v in verdicts.itertuples():
        first, second = facts.loc[(v.pool, v.first)], facts.loc[(v.pool, v.second)]
        b = means[(v.pool, first["content"])] - means[(v.pool, second["content"])]
        is_biased = float(v.judge == biased)
        rows.append([is_biased * (first["x"] - second["x"]), is_biased, s[v.judge] * b])
        pools.setdefault(v.pool, len(pools))
        same = first["content"] == second["content"]
        pair = number("pair", v.judge, v.pool, *sorted((v.first, v.second)))
        for side, item, of_item in ((0, v.first, first), (1, v.second, second)):
            content = -1 if same else number("content", v.pool, of_item["content"])
            units["content"][side].append(content)
            units["version"][side].append(number("version", v.pool, item))
            is_less = item == min(v.first, v.second)
            units["pair"][side].append(pair if is_less else -1)
    columns = np.array(rows)
    factor = verdicts["judge"].map(s).to_numpy()
    return mixed.Mixed(
        fixed=sparse.csr_array(columns),
        precision=np.full(3, 0.1),
        shown=np.ones(len(rows)),
        wins=(verdicts["winner"] == "first").to_numpy(float),
        cluster=verdicts["pool"].map(pools).to_numpy(),
        units={name: np.array(sides) for name, sides in units.items()},
        factors={"content": factor, "version": factor},
        slopes={"c": columns[:, 0]},
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
@pytest.mark.parametrize("reference", [None, "expert"])
def test_the_fit_is_that_of_the_columns_written_verdict_by_verdict(reference):
    judges = ["llm"] if reference is None else ["llm", "expert"]
    verdicts, items = written(default_rng(2), 24, judges, contents=4, apart=1.0)
    fit = fitted(read(verdicts, items), reference)
    one = one_comparison(fit, 0)
    s = fit.of("discrimination")["estimate"].to_numpy() if reference else np.ones(1)
    with runtime.precision("float64"):
        twin = mixed.fit(
            naive(verdicts, items, dict(zip(judges, s, strict=True))), module.PRIORS_SHARE
        )
        ends = twin.intervals(np.eye(3)[:1])[["estimate", "low", "high"]]
    assert one.status == Status.CONVERGED
    assert_allclose(one.c[["estimate", "low", "high"]], ends, atol=1e-5)
    assert_allclose(one.spread["sd"], list(twin.sd.values()), atol=1e-5)
    assert (one.spread["sd"][:2] > 0.3).all()
    if reference:
        assert abs(s[0] - 0.5) < 0.3  # in the expert's logits


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


def test_nothing_is_fitted_where_no_interval_could_be():
    rng = default_rng(5)
    few, plain = read(*written(rng, 9)), read(*written(rng, 12, versions=0))
    merged = own.read(*written(rng, 12), covariates=["x"], merge_pools=True)
    for tables in (few, plain, merged):
        assert one_comparison(fitted(tables), 0) is None
    assert one_comparison(fitted(read(*written(rng)), covariates=()), 0) is None


def test_a_fit_that_fails_leaves_the_other_results(monkeypatch):
    def fail(*arguments):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("jbt.estimators.mixed.fit", fail)
    one = one_comparison(fitted(read(*written(default_rng(6)))), 0)
    assert one.status == Status.NOT_CONVERGED
    (line,) = one.sentences(["unit of x"])
    assert line == "not estimated: the fit of what varies did not converge"


@pytest.mark.heavy
def test_the_command_prints_c_with_what_its_interval_covers(tmp_path, jbt):
    verdicts, items = written(default_rng(7), 12, ["llm", "expert"])
    for name, table in (("v", verdicts), ("i", items)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    options = ["--verdicts", tmp_path / "v.csv", "--items", tmp_path / "i.csv"]
    options += ["--one-comparison"]
    asked = ["--covariates", "x", "--joint", "--reference", "expert", "--json", tmp_path / "f.json"]
    printed = jbt("fit", *options, *asked)
    record = json.loads((tmp_path / "f.json").read_text())
    alone, joint = record["judges"][0]["one_comparison"], record["joint"]["one_comparison"]
    for one, where in (
        (alone, "llm: on one comparison\n"),
        (joint, "joint: on one comparison\nllm: "),
    ):
        (c,) = one["c"]
        assert f"{where}c[x] = {c['estimate']:+.2f} [{c['low']:+.2f}, {c['high']:+.2f}]" in printed
        assert one["n_pools"] == 12
    assert OfPools.COVERAGE in printed
    printed = jbt("fit", *options)
    assert "llm: on one comparison\nnot estimated: this needs" in printed
    assert "joint: on" not in printed


@pytest.mark.heavy
def test_the_printed_coverage_is_that_of_the_kept_rows():
    rows = pd.read_csv("docs/calibration/fit_one_comparison.csv")
    n = (rows["studies"] * rows["printed"]).round()
    held, guessed = n * rows["coverage"], rows["setting"].str.contains("guesses")
    shares = [held[some].sum() / n[some].sum() for some in (~guessed, guessed)]
    ends = rows["coverage"][~guessed].agg(["min", "max"])
    assert f"{shares[0]:.2f} of {n[~guessed].sum():.0f} studies" in OfPools.COVERAGE
    assert f"({ends['min']:.2f} to {ends['max']:.2f} by setting)" in OfPools.COVERAGE
    assert f"{shares[1]:.2f} of {n[guessed].sum():.0f} studies in which" in OfPools.COVERAGE
