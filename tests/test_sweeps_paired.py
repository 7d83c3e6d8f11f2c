"""The sweeps on pairing and on priors: tables from known results, and bad settings."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from jbt import study
from jbt.types import Status
from sweeps import _evidence, _pairing, paired, prior_sensitivity

SMALL = dataclasses.replace(
    paired.PRESETS["smoke"],
    pools=20,
    n_contents=(8, 15),
    lam_b=(0.1, 2.0),
    judge=("llama", "coder"),
    pools_other_sizes=12,
)


def invented(s) -> xr.Dataset:
    """Results as a run leaves them, with numbers we choose."""
    rng = np.random.default_rng(0)
    groups = paired.groups(s)
    labels = {k: [v for g in groups for v in g.labels[k]] for k in groups[0].labels}
    n = len(labels["part"])
    values = {
        name: np.full((n, s.pools, 2), np.nan)
        for name in (
            "profile_range",
            "profile_range_mle_centred",
            "curvature",
            "c_mle",
            "c_interval_width",
            "c_interval_width_wald",
        )
    }
    ints = {
        name: np.full((n, s.pools, 2), -1)
        for name in ("rank", "n_columns", "mle", "status_map", "status_profile")
    }
    priors = len(_evidence.priors(s))
    c_map = np.full((n, s.pools, 2, priors), np.nan)
    extreme = np.full((n, s.pools), np.nan)
    for i, (part, size) in enumerate(zip(labels["part"], labels["n_contents"], strict=True)):
        if part != "size":
            continue
        pools = slice(0, s.pools if size == 15 else s.pools_other_sizes)
        for v in values.values():
            v[i, pools] = size + i % 2 + rng.normal(0, 0.01, v[i, pools].shape)
        values["profile_range"][i, pools, 0] = 1e-13
        for v in ints.values():
            v[i, pools] = 0
        ints["n_columns"][i, pools] = [2 * size + 2, size + 2]
        ints["rank"][i, pools] = [2 * size, size + 1]
        ints["mle"][i, pools] = [Status.FLAT, Status.CONVERGED]
        values["c_mle"][i, pools] = [np.nan, 1.0]
        # MAPs: the paper's prior, then lam 0.2, 1, 5, then lam_b 0.1, 2.
        c_map[i, pools, 0] = [1, 0.9, 1, 1.3, 1, 0.6]
        c_map[i, pools, 1] = [1, 0.9, 1, 1.1, 1, 0.9]
        extreme[i, pools] = 0.25
    recall = np.full((n, s.pools, 3), np.nan)
    for i, (part, rho, m) in enumerate(
        zip(labels["part"], labels["rho"], labels["n_twice"], strict=True)
    ):
        if part == "recall":
            # The naive model has 0.5 throughout; correction crosses it at 0.2, or never.
            gain = 0.5 * (0.2 - rho) if m == 0 else 0.1
            recall[i] = 0.5 + np.array([0, gain, gain]) + rng.normal(0, 1e-3, (s.pools, 1))
    interval = {
        name: np.full((n, s.pools), np.nan)
        for name in (
            "interval_width",
            "interval_width_wald",
            "interval_information",
            "planned_width",
            "covered",
        )
    }
    mle = np.full((n, s.pools), -1)
    for i, part in enumerate(labels["part"]):
        if part == "interval":
            for v in interval.values():
                v[i] = 1.6 / labels["n_twice"][i]
            mle[i] = Status.CONVERGED
    two, one = ("condition", "pool", "design"), ("condition", "pool")
    return xr.Dataset(
        {k: (two, v) for k, v in (values | ints).items()}
        | {
            "c_map": ((*two, "prior"), c_map),
            "extreme_item": (one, extreme),
            "recall": ((*one, "model"), recall),
            "interval_mle": (one, mle),
        }
        | {k: (one, v) for k, v in interval.items()},
        coords={k: ("condition", v) for k, v in labels.items()},
    )


def only(table: pd.DataFrame, **wanted) -> pd.Series:
    for name, value in wanted.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    assert len(table) == 1, table
    return table.iloc[0]


def test_the_table_of_paired():
    s = dataclasses.replace(SMALL, n_twice=(2, 8), comparisons=("all",), rho=(0.0, 0.4))
    table = paired.table(invented(s), s)
    assert list(table.columns[:7]) == [
        "judge",
        "design",
        "n_contents",
        "n_twice",
        "lam",
        "lam_b",
        "comparisons",
    ]
    row = only(table, quantity="profile_range", judge="llama", design="paired", n_contents=15)
    assert row.estimate == pytest.approx(15, abs=0.01)
    assert row.n_pools == 20
    assert row.ci_low < 15 < row.ci_high or abs(row.estimate - 15) < 0.01
    pooled = only(table, quantity="profile_range", judge="all", design="paired", n_contents=8)
    assert pooled.estimate == pytest.approx(8.5, abs=0.01)
    assert pooled.n_pools == 12
    assert np.isnan(pooled.paper)  # two judges are not the paper's four
    four = dataclasses.replace(s, judge=paired.Settings.judge)
    assert (
        only(
            paired.table(invented(four), four),
            quantity="profile_range",
            judge="all",
            design="paired",
            n_contents=8,
        ).paper
        == 10.8
    )
    largest = only(table, quantity="profile_range_max", design="unpaired", n_contents=8)
    assert largest.estimate == 1e-13
    nullity = table[(table.quantity == "nullity") & (table.judge == "all")]
    assert nullity.estimate.tolist() == [2, 1, 2, 1]
    exists = table[(table.quantity == "mle_exists") & (table.judge == "all")]
    assert exists.estimate.tolist() == [0, 1, 0, 1]
    for design, lam, lam_b in (("unpaired", 0.4, 0.4), ("paired", 0.2, 0.1)):
        at = {"judge": "all", "design": design, "n_contents": 8}
        assert only(table, quantity="c_sensitivity_lam", **at).estimate == pytest.approx(lam)
        assert only(table, quantity="c_sensitivity_lam_b", **at).estimate == pytest.approx(lam_b)
    ratio = only(table, quantity="c_sensitivity_lam_b_ratio", n_contents=8)
    assert ratio.estimate == pytest.approx(4)
    away = only(
        table, quantity="c_map_minus_mle", judge="coder", design="paired", n_contents=8, lam=0.2
    )
    assert away.estimate == pytest.approx(-0.1)
    protocol = table[table.quantity.isin(["recall", "profile_range"])]
    assert set(protocol.protocol) == {"stochastic", "frozen"}
    assert not len(table[(table.quantity == "c_map_minus_mle") & (table.design == "unpaired")])
    crossing = table[table.quantity == "crossing"].set_index(["n_twice", "comparisons", "model"])
    assert crossing.estimate[0, "all", "bias_aware"] == pytest.approx(0.2, abs=0.01)
    assert np.isnan(crossing.estimate[8, "all", "measured"])
    assert (0, "all", "measured") not in crossing.index
    needed = only(table, quantity="n_twice_needed")
    assert needed.estimate == pytest.approx(4)
    figure = paired.figure(invented(s), table, s)
    assert len(figure.axes) == 4
    assert len(paired.headline(table, s)) < len(table)


def test_how_many_are_needed():
    n_twice = np.array([1, 2, 8])
    width = np.tile(np.array([2.0, 1.0, 0.25])[:, None], 30)
    at, low, high = _pairing.needed(n_twice, width, 0.5, 0)
    assert at == low == high == pytest.approx(4)  # width 2 / n
    assert np.isnan(_pairing.needed(n_twice, width, 0.1, 0)).all()
    assert _pairing.needed(n_twice, width, 5.0, 0)[0] == 1
    width[0] = np.nan  # c not told with one content
    assert _pairing.needed(n_twice, width, 1.5, 0)[0] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "dtype must be float64"),
        ({"judge": ("gpt",)}, "judge must list some of llama, .*, got 'gpt'"),
        ({"judge": ("llama", "llama")}, "lists a name twice"),
        ({"lam": (0.2, 5.0)}, "lam must increase, be above 0 and include 1, got 0.2 5"),
        ({"lam_b": (-0.1, 0.1)}, "lam_b must increase, be above 0"),
        ({"n_contents": (1, 8)}, "n_contents must increase from at least 2"),
        ({"n_twice": (9,)}, r"n_twice must increase within 1\.\.8, got \[9\]"),
        ({"recall_n_twice": (0,)}, r"recall_n_twice must increase within 1\.\.8"),
        ({"comparisons": ("some",)}, "comparisons must list some of all, across"),
        ({"budget": ()}, "budget must increase"),
        ({"rho": (0.0, 2.0)}, "rho must lie within"),
        ({"k": 8}, r"k must lie in 1\.\.7"),
        ({"half_width": 0.0}, "half_width must be finite and above 0"),
        ({"pair_noise": -1.0}, "pair_noise must be finite and at least 0"),
        ({"pools_other_sizes": 0}, "pools_other_sizes must be at least 1"),
    ],
)
def test_bad_settings_of_paired(change, message):
    with pytest.raises(ValueError, match=message):
        paired.groups(dataclasses.replace(SMALL, **change))


def test_the_table_of_priors():
    s = dataclasses.replace(prior_sensitivity.PRESETS["full"], pools=20)
    which = prior_sensitivity.priors(s)
    assert len(which) == 15 + 9
    n = 2 * len(s.judge)
    lam_b = np.array([np.nan if b is None else b for _, _, b in which])
    c = np.tile(np.nan_to_num(lam_b, nan=5.0), (n, s.pools, 1))
    recall = np.full((n, s.pools, len(which)), 0.8)
    one, two = ("condition", "pool"), ("condition", "pool", "prior")
    ds = xr.Dataset(
        {
            "c_hat": (two, c),
            "recall": (two, recall),
            "tau2": (two, np.exp(c)),
            "naive_recall": (one, np.full((n, s.pools), 0.5)),
            "profile_range": (one, np.full((n, s.pools), 2.0)),
        }
    )
    table = prior_sensitivity.table(ds, s)
    assert list(table.columns[:5]) == ["judge", "design", "prior", "lam", "lam_b"]
    normal = table[table.prior == "normal"]
    llama = normal[(normal.judge == "llama") & (normal.design == "unpaired") & (normal.lam == 1)]
    benefit = llama[llama.quantity == "benefit"]
    assert benefit.estimate.tolist() == pytest.approx([0.3] * 5)
    assert dict(zip(benefit.lam_b, benefit.paper, strict=True))[0.1] == 0.32
    assert dict(zip(benefit.lam_b, benefit.paper, strict=True))[2.0] == 0.24
    control = only(table, quantity="recall", judge="unbiased", design="unpaired", prior="naive")
    assert (control.estimate, control.paper) == (0.5, 0.86)
    spread = only(table, quantity="c_spread", judge="phi", design="paired", prior="all")
    assert spread.estimate == pytest.approx(10 - 0.01)
    learned = table[(table.prior == "evidence") & (table.quantity == "log_tau2")]
    assert learned.estimate.to_numpy() == pytest.approx(5.0)
    other = dataclasses.replace(s, n_contents=20, budget=100)
    assert prior_sensitivity.table(ds, other).paper.isna().all()
    assert len(prior_sensitivity.figure(ds, table, s).axes) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "dtype must be float64"),
        ({"judge": ()}, "judge must list some of .*, got nothing"),
        ({"lam_b": (1.0,)}, r"lam_b must increase, be above 0 and include 0\.1"),
        ({"n_contents": 1}, "n_contents must be at least 2"),
        ({"design": ()}, "design must list unpaired, paired or both"),
        ({"k": 30}, r"k must lie in 1\.\.29"),
        ({"budget": 871}, r"budget must lie in 1\.\.870"),
        ({"sd": 0.0}, "sd must be finite and above 0"),
    ],
)
def test_bad_settings_of_priors(change, message):
    s = dataclasses.replace(prior_sensitivity.PRESETS["full"], **change)
    with pytest.raises(ValueError, match=message):
        prior_sensitivity.groups(s)


def test_the_command_refuses_float32(tmp_path, capsys):
    options = ["--preset", "smoke", "--dtype", "float32", "--out", str(tmp_path)]
    assert study.main(paired.SWEEP, options) == 2
    assert "error: dtype must be float64" in capsys.readouterr().err
