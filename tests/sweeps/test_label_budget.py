"""The sweep on what to do with a few labels: what it simulates."""

import numpy as np
import pytest

from jbt.simulation.simulate import simulate
from sweeps.label_budget import LINES, LabelBudget


@pytest.mark.heavy
def test_what_is_simulated():
    (group,) = LabelBudget.at("smoke", n_labels=(0, 3, 45)).groups()
    out = simulate(group.experiment, group.conditions, range(48))
    naive, aware = out["naive_recall"], out["bias_aware_recall"]
    true = np.array(group.labels["noise"]) == 0
    best = np.maximum(naive, aware)
    for method, labels in LINES:
        recall = out[f"{method}_{labels}_recall"]
        assert (out[f"{method}_{labels}_used"][..., 0] == 0).all()
        if method != "fuse_correlated":
            np.testing.assert_allclose(recall[..., 0], naive, atol=1e-6)
        if method == "adjudicate":
            assert (recall[:, true, 2] >= best[:, true] - 1e-6).all()
    # The fit knows, with so much assumed of each.
    assert out["fuse_correlated_boundary_recall"][:, true, 2].mean() > best[:, true].mean() + 0.1
