"""The sweep on memberships: its table from known results, and bins of memberships."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.invented import invented, only

from jbt.experiments.labelled_arrays import where
from jbt.experiments.run import table_of
from sweeps import membership
from sweeps.membership import Membership

DRAWN = Membership.at("smoke", pools=30, truth=("prior", "biased"), budget=(60, 870))


def test_the_table_of_memberships():
    """Memberships of 0.05 and 0.55 for every other item, of which 1 in 30 and one half are in; an
    error of 0.02 at every budget; no pair is left at 870."""
    bins = np.arange(10)[:, None]
    items = 15.0 * np.isin(bins, (0, 5))
    inside = np.where(bins == 5, 7.5, (bins == 0) * (np.arange(DRAWN.pools) % 2 == 0))
    ds = invented(
        DRAWN,
        items=items,
        estimated=items * (bins / 10 + 0.05),
        inside=inside,
        overconfidence=0.01,
        square_error=0.02**2,
        score_kept=lambda of: np.where(of.budget == 870, np.nan, 0.99)[:, None, None],
    )
    table = table_of(DRAWN, ds)
    of = {"truth": "biased", "budget": 60, "membership": "counted", "n_samples": 1500}
    error = only(table, quantity="rms_error", **of)
    assert error.estimate == pytest.approx(0.02)
    assert only(table, quantity="inside", bin=0.5, **of).estimate == pytest.approx(0.5)
    gap = only(table, quantity="estimated_minus_inside", bin=0.0, **of)
    assert gap.estimate == pytest.approx(0.05 - 1 / 30)
    assert set(table.bin.dropna()) == {0.0, 0.5}  # those that hold items
    assert only(table, quantity="score_kept", **of).estimate == pytest.approx(0.99)
    assert not len(where(table, quantity="score_kept", budget=870))


def test_reliability_counts_items_by_their_membership():
    p = jnp.array([0.0, 0.05, 0.1, 0.85, 1.0])
    inside = jnp.array([False, True, False, True, True])
    found = {k: np.asarray(v) for k, v in jax.jit(membership.reliability)(p, inside).items()}
    assert found["items"].tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]
    assert found["inside"].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    np.testing.assert_allclose(found["estimated"][[0, 1, 8, 9]], [0.05, 0.1, 0.85, 1], rtol=1e-6)
    # As sure as 1, .95, .9, .85 and 1, and right but for the second.
    assert found["overconfidence"] == pytest.approx((4.7 - 4) / 5)
