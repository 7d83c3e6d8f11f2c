"""The sweep on what to do with a few labels: what it simulates, its table, bad settings."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

from jbt.experiments.run import table_of
from jbt.simulation.simulate import simulate
from sweeps import label_budget
from sweeps.label_budget import ALONE, EACH, SWEEP

SMALL = dataclasses.replace(label_budget.PRESETS["smoke"], rho=(0.0, 0.3, 0.6), pools=20)


def invented(s) -> xr.Dataset:
    """Naive recall 0.5, bias-aware 0.6, half of the pools the other way round; every use of labels
    gains 0.01 a label, less where they are wrong; there are no more than ten."""
    (group,) = label_budget.groups(s)
    noise, n = np.array(group.labels["noise"])[:, None, None], np.array(s.n_labels)[:, None]
    one, by_number = ("condition", "pool"), ("condition", "n_labels", "pool")
    swap = np.arange(s.pools) % 2
    shape = len(noise), s.pools
    values = {
        "naive_recall": (one, np.broadcast_to(0.5 + 0.1 * swap, shape)),
        "bias_aware_recall": (one, np.broadcast_to(0.6 - 0.1 * swap, shape)),
        "census_recall": (one, np.full(shape, 0.6)),
        "census_used": (one, np.full(shape, 5.0)),
    }
    recall = 0.55 + 0.01 * n * (1 - noise) + np.zeros(s.pools)
    used = np.broadcast_to(np.minimum(n, 10.0), recall.shape)
    for name in EACH:
        values |= {f"{name}_recall": (by_number, recall), f"{name}_used": (by_number, used)}
    labels = {k: ("condition", v) for k, v in group.labels.items()}
    return xr.Dataset(values, {**labels, "n_labels": list(s.n_labels)})


def only(table, **wanted):
    for name, value in wanted.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    assert len(table) == 1, table
    return table.iloc[0]


@pytest.mark.heavy
def test_the_table():
    ds = invented(SMALL)
    table = table_of(SWEEP.like(SMALL), ds)
    assert list(table.columns[:6]) == ["rho", "method", "labels", "n_labels", "noise", "quantity"]
    at = {"rho": 0.3, "quantity": "recall"}
    for method, recall in zip(ALONE, (0.55, 0.55, 0.6), strict=True):
        found = only(table, **at, method=method, labels=None, n_labels=None, noise=None)
        assert found.estimate == pytest.approx(recall)
    fuse = {"method": "fuse", "labels": "boundary", "n_labels": 20, "rho": 0.3, "noise": 0.1}
    assert only(table, **fuse, quantity="recall").estimate == pytest.approx(0.73)
    assert only(table, **fuse, quantity="benefit").estimate == pytest.approx(0.18)
    assert only(table, **fuse, quantity="labels_used").estimate == 10
    census = {"method": "census", "labels": "members", "n_labels": None, "noise": 0.0}
    assert only(table, **at, **census).estimate == pytest.approx(0.6)
    fig = label_budget.figure(ds, table, SMALL)
    assert len(fig.axes) == 6
    assert 0 < len(label_budget.headline(table, SMALL)) < len(table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_labels": (2, 4)}, "n_labels must include 0"),
        ({"n_labels": (0,)}, "n_labels must list at least 2 values that increase"),
        ({"noise": (0.1, 0.7)}, "noise must increase within 0..0.5"),
        ({"alpha": 1.0}, "alpha must lie above 0 and below 1/2, got 1"),
        ({"label_discrimination": 0.0}, "label_discrimination must be finite and above 0"),
        ({"judge": "nobody"}, "judge must list some of"),
        ({"rho": (0.9,)}, "rho must lie within"),
        ({"k": 10}, "k must lie in"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        label_budget.groups(dataclasses.replace(SMALL, **change))


@pytest.mark.heavy
def test_what_is_simulated():
    s = dataclasses.replace(SMALL, n_labels=(0, 3, 45))
    (group,) = label_budget.groups(s)
    out = simulate(group.experiment, group.conditions, range(48))
    naive, aware = out["naive_recall"], out["bias_aware_recall"]
    true = np.array(group.labels["noise"]) == 0
    best = np.maximum(naive, aware)
    assert (aware > naive).any()
    assert (aware < naive).any()
    for name, (method, _) in EACH.items():
        recall, used = out[f"{name}_recall"], out[f"{name}_used"]
        assert (used[..., 0] == 0).all()
        assert (used <= [0, 6 if name.endswith("_members") and "gate" in name else 3, 45]).all()
        before = {"gate_at_least": aware, "fuse": aware}.get(method, naive)
        if method != "fuse_correlated":
            np.testing.assert_allclose(recall[..., 0], before, atol=1e-6)
        if method == "adjudicate":
            assert (np.diff(recall[:, true], axis=-1) >= -1e-6).all()
            assert (recall[:, true, 2] >= best[:, true] - 1e-6).all()
    assert (out["gate_sign_pairs_used"][..., 2] == 45).all()
    assert (out["adjudicate_contents_recall"][:, true, 2] == 1).all()
    np.testing.assert_allclose(out["census_recall"][:, true], best[:, true], atol=1e-6)
    np.testing.assert_array_equal(out["census_used"], out["adjudicate_members_used"][..., 2])
    # With all labels there are, a gate on pairs sees what one on disputed pairs sees.
    for rule in label_budget.RULES:
        told = [out[f"gate_{rule}_{labels}_recall"][..., 2] for labels in ("pairs", "disputed")]
        np.testing.assert_array_equal(*told)
    # And the fit knows, with so much assumed of each.
    assert out["fuse_pairs_recall"][:, true, 2].mean() > best[:, true].mean() + 0.1
    for name, status in out.items():
        if name.startswith("status"):
            assert (status == 0).all()
