"""Fits of real verdicts against slow ones, pool by pool."""

import numpy as np
import pytest
from support.explicit_fits import designs
from support.marks import heavy, nightly
from support.problems import minimum

from jbt import own
from jbt.types import Prior


@pytest.mark.parametrize(
    ("name", "merged"), [heavy("prd", False), heavy("prd", True), nightly("llmbar", False)]
)
def test_every_pool_equals_a_slow_fit(name, merged, data):
    paths, prior = [data / name / f"{table}.csv" for table in ("verdicts", "items")], Prior(1, 0.1)
    content = "content" if merged else None
    batch = own.load(*paths, ["words"], transform="log", content=content, merge_pools=merged)
    fits = {(f.pool, f.judge): f for f in own.fit(batch, prior=prior, intervals=False)}
    n = 0
    for design in designs(paths, content or "item", merged=merged):
        n += 1
        columns, at_c = np.arange(design.z.shape[1]), design.at_c
        precision = np.where(columns < at_c, prior.lam, prior.lam_b)
        table = design.z, design.count, design.wins
        beta, *_ = minimum(*table, precision, columns >= 0, 0.0 * columns)
        found = fits[str(design.pool), str(design.judge)]
        np.testing.assert_allclose(found.theta, beta[design.quality], atol=1e-6)
        kappa = beta[-1] if design.position else np.nan
        ends = [found.c[0], found.kappa]
        assert ends == pytest.approx([beta[at_c], kappa], abs=1e-6, nan_ok=True)
    assert n == sum(f.n_verdicts > 0 for f in fits.values())


@pytest.mark.nightly
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
