"""Results of `jbt.own`: each is also a table; verdicts may come as data frames."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from support.boards import written

from jbt import own

VERDICTS, ITEMS = written(
    2,
    theta=dict.fromkeys("abcd", 0.0),
    words=lambda rng, shape: rng.integers(20, 200, shape),
    c=0.0,
    judges={"fair": 1.0, "long": 1.0},
)


@pytest.fixture(scope="module")
def batch():
    return own.load(VERDICTS, ITEMS, ["words"], transform="log")


@pytest.mark.heavy
def test_fits_are_tables(batch):
    fits = own.fit(batch, k=2)
    rows = fits.to_frame()
    theta = rows[rows.quantity == "theta"].set_index(["judge", "pool", "name"])
    assert len(theta) == 16
    for fit in fits:
        assert theta.loc[(fit.judge, fit.pool, "c"), "estimate"] == fit.theta[2]
        of_c = rows[(rows.quantity == "c") & (rows.pool == fit.pool) & (rows.judge == fit.judge)]
        assert of_c.estimate.item() == fit.c[0]
    # The same theta beside the coefficients over all pools.
    whole = own.analyse(batch, k=2).to_frame()
    coefficients = whole[whole.pool.isna()]
    alone = own.fit_judges(batch).of("c", "kappa")
    for name in ("judge", "quantity", "prior_selected", "status"):
        assert coefficients[name].tolist() == alone[name].tolist()
    numbers = ["estimate", "low", "high"]
    np.testing.assert_array_equal(coefficients[numbers], alone[numbers])
    assert_frame_equal(
        whole[whole.quantity == "theta"].reset_index(drop=True),
        rows[rows.quantity == "theta"].sort_values("judge", kind="stable").reset_index(drop=True),
    )


@pytest.mark.heavy
def test_a_joint_fit_is_a_table(batch):
    judges = own.Judges.of(batch.tables, reference="fair")
    fit = own.fit_panel(batch, judges, k=2)
    rows = fit.to_frame().set_index(["quantity", "judge"])
    assert rows.loc[("c_joint", "long"), "estimate"] == fit.shared.of("c")["estimate"].item()
    assert ("c_joint", "fair") not in rows.index  # known, not estimated
    assert len(rows.loc[("theta", "joint")]) == 8
