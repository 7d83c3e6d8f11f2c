"""The sweep on the draws of membership."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from jbt.experiments.run import table_of
from sweeps import membership

DRAWN = dataclasses.replace(
    membership.PRESETS["smoke"], pools=30, truth=("prior", "biased"), budget=(60, 870)
)


def only(table, **wanted):
    for name, value in wanted.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    assert len(table) == 1, table
    return table.iloc[0]


def invented_memberships(s) -> xr.Dataset:
    """Memberships of 0.05 and 0.55 for every other item, of which 1 in 30 and one half are in; an
    error of 0.02 at every budget; no pair is left at 870."""
    (group,) = membership.groups(s)
    estimates = membership.estimates(s)
    shape = (group.n_conditions, len(estimates), s.pools)
    every = np.zeros((*shape[:2], 10, s.pools))
    items, estimated, inside = every.copy(), every.copy(), every.copy()
    items[:, :, [0, 5]] = 15
    estimated[:, :, 0], estimated[:, :, 5] = 15 * 0.05, 15 * 0.55
    inside[:, :, 0, ::2], inside[:, :, 5] = 1, 7.5
    full = np.array(group.labels["budget"]) == 870
    kept = np.where(full[:, None, None], np.nan, 0.99) + np.zeros(shape)
    bins = ("condition", "estimate", "bin", "pool")
    return xr.Dataset(
        {
            "items": (bins, items),
            "estimated": (bins, estimated),
            "inside": (bins, inside),
            "overconfidence": (bins[:2] + bins[3:], np.full(shape, 0.01)),
            "square_error": (bins[:2] + bins[3:], np.full(shape, 0.02**2)),
            "score_kept": (bins[:2] + bins[3:], kept),
            "variance": (("condition", "pool"), np.full(shape[::2], 0.06)),
        },
        {k: ("condition", v) for k, v in group.labels.items()} | dict(group.axes["items"]),
    )


def test_the_table_of_memberships():
    ds = invented_memberships(DRAWN)
    table = table_of(membership.SWEEP.like(DRAWN), ds)
    where = {"truth": "biased", "budget": 60, "membership": "counted", "n_samples": 1500}
    error = only(table, quantity="rms_error", **where)
    assert error.estimate == pytest.approx(0.02)
    independent = only(table, quantity="rms_error_independent", **where)
    assert independent.estimate == pytest.approx(np.sqrt(0.06 / 1500))
    assert only(table, quantity="inside", bin=0.5, **where).estimate == pytest.approx(0.5)
    gap = only(table, quantity="estimated_minus_inside", bin=0.0, **where)
    assert gap.estimate == pytest.approx(0.05 - 1 / 30)
    assert gap.ci_low < gap.estimate < gap.ci_high
    assert set(table.bin.dropna()) == {0.0, 0.5}  # those that hold items
    assert only(table, quantity="score_kept", **where).estimate == pytest.approx(0.99)
    assert not len(table[(table.quantity == "score_kept") & (table.budget == 870)])
    assert len(membership.figure(ds, table, DRAWN).axes) == 3
    assert set(membership.headline(table, DRAWN).bin.isna()) == {True}


def test_reliability_counts_items_by_their_membership():
    p = jnp.array([[0.0, 0.05, 0.1, 0.85, 1.0]])
    inside = jnp.array([False, True, False, True, True])
    found = {k: np.asarray(v)[0] for k, v in jax.jit(membership.reliability)(p, inside).items()}
    assert found["items"].tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]
    assert found["inside"].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    np.testing.assert_allclose(found["estimated"][[0, 1, 8, 9]], [0.05, 0.1, 0.85, 1], rtol=1e-6)
    # As sure as 1, .95, .9, .85 and 1, and right but for the second.
    assert found["overconfidence"] == pytest.approx((4.7 - 4) / 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"truth": ("flat",)}, "truth must list some of prior, biased, correlated"),
        ({"budget": (60, 871)}, "budget must increase within 1..870"),
        ({"conditional": (16,)}, "conditional must include 64"),
        ({"counted": (1500, 150)}, r"counted must .*increase"),
        ({"rho": 0.99}, "rho must lie within"),
        ({"k": 30}, "k must lie in"),
    ],
)
def test_memberships_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        membership.groups(dataclasses.replace(DRAWN, **change))
