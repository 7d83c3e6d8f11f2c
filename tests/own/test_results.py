"""Results of `jbt.own`: each is also a table; verdicts may come as data frames."""

import pytest
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
    # The same theta beside the coefficients over all pools.
    whole = own.analyse(batch, k=2).to_frame()
    coefficients = whole[whole.pool.isna()]
    alone = own.fit_judges(batch).of("c", "kappa")
    for name in ("judge", "quantity", "status", "estimate"):
        assert coefficients[name].tolist() == alone[name].tolist()
    assert (whole.quantity == "theta").sum() == len(theta)
