"""The sweeps on pairing and on priors: tables from known results."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from support.invented import invented, only

from jbt.experiments.labelled_arrays import where
from jbt.experiments.paper import PaperNumber
from jbt.experiments.run import table_of
from jbt.experiments.table import Table
from jbt.types import Status
from sweeps import paired
from sweeps.gate import Gate
from sweeps.paired import Paired
from sweeps.partial_pairing import PartialPairing
from sweeps.prior_sensitivity import PRIORS, PriorSensitivity

SMALL = Paired.at("smoke", pools=20, n_contents=(8, 15), pools_other_sizes=12)
PARTIAL = PartialPairing.at("smoke", pools=20, rho=(0.0, 0.4))


def test_ratio_of_means_over_the_same_pools():
    """Pools without either number are left out."""
    below = np.random.default_rng(0).uniform(1, 2, 502)
    above = 3 * below
    below[0] = above[1] = np.nan
    t = Table(
        (), SimpleNamespace(seed=3), [PaperNumber("ratio", {}, 3.0, 20, None, 0.5, "derived")]
    )
    paired.add_ratio(t, "ratio", above, below)
    row = t.frame().iloc[0]
    assert (row.estimate, row.ci_low, row.ci_high) == pytest.approx((3, 3, 3))
    assert row.n_pools == 500


def of_paired(s):
    """Results of `paired` with numbers we choose: mostly the number of contents, one more for
    coder."""
    noise = np.random.default_rng(0).normal(0, 0.01, s.pools)

    def number(labels):
        return np.array(labels.n_contents + (labels.judge == "coder"))[:, None, None] + noise

    def unpaired(value):
        return lambda labels: np.where([[[True], [False]]], value, number(labels))

    def simulated(labels):
        missing = np.array(labels.n_contents != 15)[:, None, None]
        return np.where(missing & (np.arange(s.pools) >= s.pools_other_sizes), -1, 0)

    def columns(unpaired, paired):
        return lambda labels: np.outer(labels.n_contents, unpaired)[..., None] + paired

    # MAPs: the paper's prior, then lam 0.2, 1, 5, then lam_b 0.1, 1, 2.
    maps = np.array([[1, 0.9, 1, 1.3, 1, 0.8, 0.6], [1, 0.9, 1, 1.1, 1, 0.95, 0.9]])
    return invented(
        s,
        **dict.fromkeys(paired.MEANS, number)
        | {
            "profile_range": unpaired(1e-13),
            "profile_drop": unpaired(1e-13),
            "n_columns": columns((2, 1), 2),
            "rank": columns((2, 1), np.array([[0], [1]])),
            "mle": np.array([[Status.FLAT], [Status.CONVERGED]]),
            "c_mle": np.array([[np.nan], [1.0]]),
            "c_uncentred": 0.5,
            # Of c_hat = 1: half of the pools within a factor of 5, one with the wrong sign.
            "c_uncentred_first": np.resize([0.21, -1.0, 4.9, 5.1], s.pools),
            "c_map": maps[..., None],
            "status_map": simulated,
        },
    )


@pytest.mark.heavy
def test_the_table_of_paired():
    ds = of_paired(SMALL)
    table = table_of(SMALL, ds)
    row = only(table, quantity="profile_range", judge="llama", design="paired", n_contents=15)
    assert row.estimate == pytest.approx(15, abs=0.01)
    pooled = only(table, quantity="profile_range", judge="all", design="paired", n_contents=8)
    assert pooled.estimate == pytest.approx(8.5, abs=0.01)
    assert pooled.n_pools == 12
    assert table.paper.isna().all()  # two judges are not the paper's four
    nullity = where(table, quantity="nullity", judge="all")
    assert nullity.estimate.tolist() == [2, 1, 2, 1]
    exists = where(table, quantity="mle_exists", judge="all")
    assert exists.estimate.tolist() == [0, 1, 0, 1]
    for design, lam, lam_b in (("unpaired", 0.4, 0.4), ("paired", 0.2, 0.1)):
        at = {"judge": "all", "design": design, "n_contents": 8}
        assert only(table, quantity="c_sensitivity_lam", **at).estimate == pytest.approx(lam)
        assert only(table, quantity="c_sensitivity_lam_b", **at).estimate == pytest.approx(lam_b)
    ratio = only(table, quantity="c_sensitivity_lam_b_ratio", n_contents=8)
    assert ratio.estimate == pytest.approx(4)
    away = only(table, quantity="c_map_minus_mle_absolute", judge="coder", n_contents=8, lam=0.2)
    assert away.estimate == pytest.approx(0.1)
    at = {"judge": "llama", "design": "unpaired", "n_contents": 8}
    assert only(table, quantity="c_uncentred_ratio", **at).estimate == pytest.approx(0.5)
    assert only(table, quantity="c_uncentred_beyond_5", **at).estimate == pytest.approx(0.5)


def test_what_a_shift_by_a_half_costs():
    grid = np.linspace(-1, 1, 9)
    assert paired.drop(jnp.asarray(3.0 - 2 * (grid - 0.1) ** 2)) == pytest.approx(0.5)


def of_designs(s):
    """Results of `partial_pairing`: width 1.6 / n_twice; counted wins have a recall of 0.5
    throughout, correction crosses it at 0.2 with no content twice, and never with some."""
    noise = np.random.default_rng(0).normal(0, 1e-3, s.pools)

    def recall(labels):
        gain = np.where(labels.n_twice == 0, 0.5 * (0.2 - labels.rho), 0.1)
        return 0.5 + np.outer(gain, [0, 1, 1])[..., None] + noise

    def width(labels):
        return 1.6 / np.maximum(labels.n_twice, 1).to_numpy()[:, None]

    others = {"covered": 1, "mle": int(Status.CONVERGED), "recall": recall}
    return invented(s, c_interval_width=width, **others)


def test_the_table_of_partial_pairing():
    table = table_of(PARTIAL, of_designs(PARTIAL))
    crossing = where(table, quantity="crossing").set_index(["n_twice", "comparisons", "model"])
    assert crossing.estimate[0, "all", "bias_aware"] == pytest.approx(0.2, abs=0.01)
    assert np.isnan(crossing.estimate[8, "all", "measured"])
    assert (0, "all", "measured") not in crossing.index
    needed = only(table, quantity="n_twice_needed", comparisons="all")
    assert needed.estimate == pytest.approx(4)


@pytest.mark.parametrize("sweep", [Paired, PriorSensitivity, Gate])
def test_the_bias_may_grow_with_quality(sweep):
    """It is the judge's, or replaces the twin's; no number of the paper stands beside it."""
    for group in sweep.at(interaction=0.5).decided().groups():
        assert (group.conditions["interaction"] == 0.5).all()
    of_paper = [n.setting for n in sweep.paper()]
    assert {s.get("settings.interaction", s.get("interaction")) for s in of_paper} == {"0"}


@pytest.mark.heavy
def test_the_table_of_priors():
    s = PriorSensitivity.at(pools=20, judge=("llama", "phi", "unbiased"))
    lam_b = np.array([p.lam_b for p in PRIORS])
    c = np.nan_to_num(lam_b, nan=5.0)[:, None]
    recall = np.select([lam_b == 0.01, lam_b == 10], [0.7, 0.9], 0.8)[:, None]
    ds = invented(s, c_hat=c, recall=recall, tau2=np.exp(c), naive_recall=0.5, profile_range=2.0)
    table = table_of(s, ds)
    normal = where(table, prior="normal")
    llama = where(normal, judge="llama", design="unpaired", lam=1)
    benefit = where(llama, quantity="benefit")
    assert benefit.estimate.tolist() == pytest.approx([0.2, 0.3, 0.3, 0.3, 0.4])
    assert dict(zip(benefit.lam_b, benefit.paper, strict=True))[0.1] == 0.32
    change = where(table, quantity="benefit_change", lam=1, judge="llama", design="unpaired")
    assert change.estimate.tolist() == pytest.approx([-0.1, 0, 0, 0.1, 0, 0, 0])
    control = only(table, quantity="recall", judge="unbiased", design="unpaired", prior="naive")
    assert (control.estimate, control.paper) == (0.5, 0.86)
    spread = only(table, quantity="c_spread", judge="phi", design="paired", prior="all")
    assert spread.estimate == pytest.approx(10 - 0.01)
    learned = where(table, prior="fixed_point_c", quantity="log_tau2")
    assert learned.estimate.to_numpy() == pytest.approx(5.0)
