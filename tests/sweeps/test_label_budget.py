"""The sweep on what to do with a few labels: what it simulates, its table."""

import dataclasses

import numpy as np
import pytest
from support.invented import invented, only

from jbt.experiments.run import table_of
from jbt.simulation.simulate import simulate
from sweeps.label_budget import ALONE, EACH, LabelBudget

SMALL = LabelBudget.at("smoke", rho=(0.0, 0.3, 0.6), pools=20)


def uses(s):
    """Naive recall 0.5, bias-aware 0.6, half of the pools the other way round; every use of labels
    gains 0.01 a label, less where they are wrong; there are no more than ten."""
    n, swap = np.array(s.n_labels)[:, None], 0.1 * (np.arange(s.pools) % 2)

    def recall(labels):
        return 0.55 + 0.01 * n * (1 - np.array(labels.noise)[:, None, None])

    alone = {"naive_recall": 0.5 + swap, "bias_aware_recall": 0.6 - swap}
    recalls = {f"{name}_recall": recall for name in EACH}
    used = {f"{name}_used": np.minimum(n, 10.0) for name in EACH}
    return invented(s, **alone, **recalls, **used)


@pytest.mark.heavy
def test_the_table():
    table = table_of(SMALL, uses(SMALL))
    at = {"rho": 0.3, "quantity": "recall"}
    for method, recall in zip(ALONE, (0.55, 0.55, 0.6), strict=True):
        found = only(table, **at, method=method, labels=None, n_labels=None, noise=None)
        assert found.estimate == pytest.approx(recall)
    fuse = {
        "method": "fuse_correlated",
        "labels": "boundary",
        "n_labels": 20,
        "rho": 0.3,
        "noise": 0.1,
    }
    assert only(table, **fuse, quantity="recall").estimate == pytest.approx(0.73)
    assert only(table, **fuse, quantity="benefit").estimate == pytest.approx(0.18)
    assert only(table, **fuse, quantity="labels_used").estimate == 10


@pytest.mark.heavy
def test_what_is_simulated():
    s = dataclasses.replace(SMALL, n_labels=(0, 3, 45))
    (group,) = s.groups()
    out = simulate(group.experiment, group.conditions, range(48))
    naive, aware = out["naive_recall"], out["bias_aware_recall"]
    true = np.array(group.labels["noise"]) == 0
    best = np.maximum(naive, aware)
    for name, (method, _) in EACH.items():
        recall = out[f"{name}_recall"]
        assert (out[f"{name}_used"][..., 0] == 0).all()
        if method != "fuse_correlated":
            np.testing.assert_allclose(recall[..., 0], naive, atol=1e-6)
        if method == "adjudicate":
            assert (recall[:, true, 2] >= best[:, true] - 1e-6).all()
    assert (out["gate_sign_pairs_used"][..., 2] == 45).all()
    # With all labels there are, a gate on pairs sees what one on disputed pairs sees.
    told = [out[f"gate_sign_{labels}_recall"][..., 2] for labels in ("pairs", "disputed")]
    np.testing.assert_array_equal(*told)
    # And the fit knows, with so much assumed of each.
    assert out["fuse_correlated_pairs_recall"][:, true, 2].mean() > best[:, true].mean() + 0.1
