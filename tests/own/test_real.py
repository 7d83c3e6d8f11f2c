"""Fits of real verdicts against slow ones, pool by pool."""

import numpy as np
import pytest
from support.explicit_fits import designs
from support.problems import minimum

from jbt import own
from jbt.types import Prior


@pytest.mark.heavy
@pytest.mark.parametrize("merged", [False, True])
def test_every_pool_equals_a_slow_fit(merged, data):
    paths = [data / "prd" / f"{table}.csv" for table in ("verdicts", "items")]
    prior = Prior(1, 0.1)
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
