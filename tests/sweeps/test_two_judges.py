"""The sweeps on a reference beside a cheap judge: what they simulate, tables, bad settings."""

import numpy as np
import pytest
from support.invented import invented, only

from jbt.experiments.run import table_of
from jbt.simulation.simulate import simulate
from sweeps.two_judges import TwoJudges

SMALL = TwoJudges.at(
    "smoke", pools=20, rho=(0.0, 0.4, 0.8), n_reference=(0, 10, 40), factor_rho=(0.0, 0.4)
)


def answers(s):
    """Naive recall 0.5, bias-aware 0.2 - rho / 2 above; joint as bias-aware without a reference,
    with 10 verdicts 0.3 - rho / 2 above, with 40 always 0.25."""
    noise, n = np.random.default_rng(0).normal(0, 1e-4, s.pools), np.array(s.n_reference)[:, None]

    def benefit(labels):
        rho = np.array(labels.rho)[:, None, None]
        return noise + np.where(n == 0, 0.2 - rho / 2, np.where(n == 10, 0.3 - rho / 2, 0.25))

    return invented(
        s,
        naive_recall=0.5,
        bias_aware_recall=lambda labels: 0.5 + benefit(labels)[:, 0],
        joint_recall=lambda labels: 0.5 + benefit(labels),
        correlated_recall=lambda labels: 0.51 + benefit(labels),
        mixed_recall=0.5,
        joint_c=1.5,
        correlated_c=1.5,
        mixed_c=0.5,
    )


@pytest.mark.heavy
def test_the_table():
    ds = answers(SMALL)
    table = table_of(SMALL, ds)
    joint = {"model": "joint", "placement": "boundary", "reference_bias": 0.0}
    joint |= {"reference_position": 0.0, "reference_discrimination": 2.0, "noise": 0.0}
    at = {**joint, "n_reference": 10, "rho": 0.4}
    assert only(table, quantity="benefit", **at).estimate == pytest.approx(0.1, abs=1e-3)
    crossing = {"quantity": "crossing", "rho": None}
    assert only(table, **crossing, **joint, n_reference=10).estimate == pytest.approx(0.6, abs=0.01)
    assert np.isnan(only(table, **crossing, **joint, n_reference=40).estimate)
    alone = only(table, **crossing, model="bias_aware").estimate
    assert alone == pytest.approx(0.4, abs=0.01)
    # Least of what it has over either: 0.1 - 0.2 - ... at rho = 0.8 over naive, for ten verdicts.
    worst = {"quantity": "worst_margin", "rho": None, **joint}
    assert only(table, **worst, n_reference=10).estimate == pytest.approx(-0.1, abs=1e-3)


@pytest.mark.heavy
def test_what_is_simulated():
    """With noise of a half the reference tells nothing of quality's part in what goes with x, which
    then passes for bias."""
    (group,) = TwoJudges.at("smoke", rho=(0.0, 0.8), n_reference=(0, 20)).groups()
    correlated = {name: values[[1, 1]] for name, values in group.conditions.items()}
    out = simulate(group.experiment, correlated | {"noise": np.array([0.0, 0.5])}, range(64))
    np.testing.assert_allclose(out["joint_recall"][..., 0], out["bias_aware_recall"], atol=1e-6)
    told, untold = out["correlated_c"].mean(0)[:, 1]
    assert told < untold - 0.2
