"""The sweeps on pairing and on priors: tables from known results, and bad settings."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from jbt import twins
from jbt.experiments.run import main, table_of
from jbt.types import Status
from sweeps import paired, partial_pairing, prior_sensitivity

SMALL = dataclasses.replace(
    paired.PRESETS["smoke"],
    pools=20,
    n_contents=(8, 15),
    judge=("llama", "coder"),
    pools_other_sizes=12,
)


PARTIAL = dataclasses.replace(
    partial_pairing.PRESETS["smoke"],
    pools=20,
    n_twice=(2, 8),
    comparisons=("all",),
    rho=(0.0, 0.4),
)


def invented(s) -> xr.Dataset:
    """Results of `paired` as a run leaves them, with numbers we choose."""
    rng = np.random.default_rng(0)
    groups = paired.groups(s)
    labels = {k: [v for g in groups for v in g.labels[k]] for k in groups[0].labels}
    n = len(labels["n_contents"])
    values = {
        name: np.full((n, 2, s.pools), np.nan)
        for name in (
            "profile_range",
            "profile_range_mle_centred",
            "profile_drop",
            "slice_drop",
            "c_uncentred",
            "c_uncentred_first",
            "curvature",
            "c_mle",
            "c_interval_width",
            "c_interval_width_wald",
        )
    }
    ints = {
        name: np.full((n, 2, s.pools), -1)
        for name in ("rank", "n_columns", "mle", "status_map", "status_profile")
    }
    c_map = np.full((n, 2, len(paired.priors(s)), s.pools), np.nan)
    extreme = np.full((n, s.pools), np.nan)
    for i, size in enumerate(labels["n_contents"]):
        pools = slice(0, s.pools if size == 15 else s.pools_other_sizes)
        for v in values.values():
            v[i, :, pools] = size + i % 2 + rng.normal(0, 0.01, v[i, :, pools].shape)
        values["profile_range"][i, 0, pools] = 1e-13
        for v in ints.values():
            v[i, :, pools] = 0
        for d in (0, 1):
            ints["n_columns"][i, d, pools] = [2 * size + 2, size + 2][d]
            ints["rank"][i, d, pools] = [2 * size, size + 1][d]
            ints["mle"][i, d, pools] = [Status.FLAT, Status.CONVERGED][d]
            values["c_mle"][i, d, pools] = [np.nan, 1.0][d]
        values["profile_drop"][i, 0, pools] = 1e-13
        values["c_uncentred"][i, :, pools] = 0.5
        # Of c_hat = 1: half of the pools within a factor of 5, one with the wrong sign.
        values["c_uncentred_first"][i, :, pools] = np.resize([0.21, -1.0, 4.9, 5.1], pools.stop)
        # MAPs: the paper's prior, then lam 0.2, 1, 5, then lam_b 0.1, 1, 2.
        maps = np.array([[1, 0.9, 1, 1.3, 1, 0.8, 0.6], [1, 0.9, 1, 1.1, 1, 0.95, 0.9]])
        c_map[i][..., pools] = maps[..., None]
        extreme[i, pools] = 0.25
    two = ("condition", "design", "pool")
    return xr.Dataset(
        {k: (two, v) for k, v in (values | ints).items()}
        | {
            "c_map": (("condition", "design", "prior", "pool"), c_map),
            "extreme_item": (("condition", "pool"), extreme),
        },
        coords={k: ("condition", v) for k, v in labels.items()} | {"design": list(paired.DESIGNS)},
    )


def invented_designs(s) -> xr.Dataset:
    """Results of `partial_pairing`: width 1.6 / n_twice; counted wins have a recall of 0.5
    throughout, correction crosses it at 0.2 with no content twice, and never with some."""
    rng = np.random.default_rng(0)
    (group,) = partial_pairing.groups(s)
    labels = group.labels
    n_twice, rho = np.array(labels["n_twice"]), np.array(labels["rho"])
    gain = np.where(n_twice == 0, 0.5 * (0.2 - rho), 0.1)
    recall = 0.5 + gain[:, None] * [0, 1, 1]
    recall = recall[..., None] + rng.normal(0, 1e-3, (len(rho), 1, s.pools))
    pools = np.ones(s.pools)
    width = 1.6 / np.maximum(n_twice, 1)[:, None] * pools
    one = ("condition", "pool")
    metrics = ("c_interval_width", "c_interval_width_wald", "c_interval_width_planned", "curvature")
    return xr.Dataset(
        {
            **dict.fromkeys(metrics, (one, width)),
            "covered": (one, np.ones(width.shape, int)),
            "mle": (one, np.full(width.shape, int(Status.CONVERGED))),
            "recall": (("condition", "model", "pool"), recall),
        },
        coords={k: ("condition", v) for k, v in labels.items()}
        | {"model": list(partial_pairing.MODELS)},
    )


def only(table: pd.DataFrame, **wanted) -> pd.Series:
    for name, value in wanted.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    assert len(table) == 1, table
    return table.iloc[0]


LEADING = ["judge", "design", "n_contents", "n_twice", "lam", "lam_b", "comparisons"]
LEADING += ["budget", "protocol", "rho", "model"]


def test_the_table_of_paired():
    table = table_of(paired.SWEEP.like(SMALL), invented(SMALL))
    assert list(table.columns[:11]) == LEADING
    row = only(table, quantity="profile_range", judge="llama", design="paired", n_contents=15)
    assert row.estimate == pytest.approx(15, abs=0.01)
    assert row.n_pools == 20
    assert row.ci_low < 15 < row.ci_high or abs(row.estimate - 15) < 0.01
    assert (row.n_twice, row.budget, row.comparisons, row.protocol) == (15, 870, "all", "frozen")
    pooled = only(table, quantity="profile_range", judge="all", design="paired", n_contents=8)
    assert pooled.estimate == pytest.approx(8.5, abs=0.01)
    assert pooled.n_pools == 12
    assert table.paper.isna().all()  # two judges are not the paper's four
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
    assert not len(table[(table.quantity == "c_map_minus_mle") & (table.design == "unpaired")])
    at = {"judge": "llama", "design": "unpaired", "n_contents": 8}
    assert only(table, quantity="c_uncentred_ratio", **at).estimate == pytest.approx(0.5)
    assert only(table, quantity="c_uncentred_beyond_5", **at).estimate == pytest.approx(0.5)
    assert not len(table[table.quantity.str.startswith("c_unc") & (table.design == "paired")])
    assert len(paired.figure(invented(SMALL), table, SMALL).axes) == 2
    assert len(paired.headline(table, SMALL)) < len(table)


@pytest.mark.parametrize("oracle", ["draw", "argmax"])
def test_contents_of_statements_and_their_twins(oracle):
    s = dataclasses.replace(SMALL, pool="statement_bank", oracle=oracle)
    pool = paired.drawn(s, jax.random.key(0), 15)
    assert pool.quality.shape == (15,)
    assert (pool.quality == 6).sum() == 2  # as 5 of 30
    assert pool.design.covariates[:, 0].tolist() == [0] * 15 + [1] * 15
    assert pool.design.content.tolist() == [*range(15)] * 2
    simulated = [twins.twin(name, oracle={"draw": "draws"}.get(oracle, oracle)) for name in s.judge]
    for group in paired.groups(s):
        for name in ("bias", "position", "discrimination", "pair_noise"):
            assert group.conditions[name].tolist() == [getattr(twin, name) for twin in simulated]


def test_what_a_shift_by_a_half_costs():
    grid = np.linspace(-1, 1, 9)
    assert paired.drop(jnp.asarray(3.0 - 2 * (grid - 0.1) ** 2)) == pytest.approx(0.5)


@pytest.mark.heavy
def test_every_number_of_the_paper_on_paired_finds_its_row():
    s = dataclasses.replace(paired.PRESETS["full"], pools=20)
    s = dataclasses.replace(s, pools_other_sizes=12)
    table = table_of(paired.SWEEP.like(s), invented(s))
    numbers = paired.SWEEP.paper()
    assert table.paper.notna().sum() == len(numbers) == 28
    assert table[table.paper.notna()].consistent.isin(["yes", "no"]).all()
    eight = {"quantity": "profile_range", "judge": "all", "n_contents": 8}
    row = only(table, **eight, design="paired")
    assert (row.paper, row.consistent) == (10.8, "no")
    # 1e-13 nats are what the paper prints as 0.0000.
    row = only(table, **eight, design="unpaired")
    assert (row.paper, row.consistent) == (0, "yes")


def test_the_table_of_partial_pairing():
    ds = invented_designs(PARTIAL)
    table = table_of(partial_pairing.SWEEP.like(PARTIAL), ds)
    assert list(table.columns[:11]) == LEADING
    assert set(table.protocol) == {"stochastic"}
    assert set(table.judge) == {"default"}
    assert set(table.design) == {"paired", "unpaired"}
    crossing = table[table.quantity == "crossing"].set_index(["n_twice", "comparisons", "model"])
    assert crossing.estimate[0, "all", "bias_aware"] == pytest.approx(0.2, abs=0.01)
    assert np.isnan(crossing.estimate[8, "all", "measured"])
    assert (0, "all", "measured") not in crossing.index
    needed = only(table, quantity="n_twice_needed")
    assert needed.estimate == pytest.approx(4)
    assert needed.n_pools == 20
    assert len(partial_pairing.figure(ds, table, PARTIAL).axes) == 2
    assert len(partial_pairing.headline(table, PARTIAL)) < len(table)
    for left_out in ({"n_twice": ()}, {"recall_n_twice": ()}):
        s = dataclasses.replace(PARTIAL, **left_out)
        table = table_of(partial_pairing.SWEEP, invented_designs(s), s)
        assert ("n_twice_needed" in set(table.quantity)) == bool(s.n_twice)
        assert ("crossing" in set(table.quantity)) == bool(s.recall_n_twice)
        assert len(partial_pairing.figure(invented_designs(s), table, s).axes) == 1


def test_how_many_are_needed():
    n_twice = np.array([1, 2, 8])
    width = np.tile(np.array([2.0, 1.0, 0.25])[:, None], 30)
    at, low, high = partial_pairing.needed(n_twice, width, 0.5, 0)
    assert at == low == high == pytest.approx(4)  # width 2 / n
    assert np.isnan(partial_pairing.needed(n_twice, width, 0.1, 0)).all()
    assert partial_pairing.needed(n_twice, width, 5.0, 0)[0] == 1
    width[0] = np.nan  # c not told with one content
    assert partial_pairing.needed(n_twice, width, 1.5, 0)[0] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "dtype must be float64"),
        ({"judge": ("gpt",)}, "judge must list some of llama, .*, got 'gpt'"),
        ({"judge": ("llama", "llama")}, "lists a name twice"),
        ({"lam": (0.2, 5.0)}, r"lam must include 1, got 0\.2 5"),
        ({"lam_b": (-0.1, 0.1)}, "lam_b must increase from at least 1e-06, got -0.1 0.1"),
        ({"n_contents": (1, 8)}, "n_contents must increase from at least 2, got 1 8"),
        ({"pair_noise": -1.0}, "pair_noise must be finite and at least 0"),
        ({"pools_other_sizes": 0}, "pools_other_sizes must be at least 1"),
        ({"pool": "bank"}, "pool must list some of gaussian, statement_bank"),
        ({"pool": "statement_bank", "sd": 1.0}, "sd has no effect with --pool statement_bank"),
        ({"pool": "statement_bank", "pair_noise": 1.0}, "pair_noise has no effect"),
    ],
)
def test_bad_settings_of_paired(change, message):
    with pytest.raises(ValueError, match=message):
        paired.groups(dataclasses.replace(SMALL, **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "dtype must be float64"),
        ({"n_twice": (9,)}, r"n_twice must increase within 1\.\.8, got 9"),
        ({"recall_n_twice": (0,)}, r"recall_n_twice must increase within 1\.\.8"),
        ({"n_twice": (), "recall_n_twice": ()}, "both empty: nothing to do"),
        ({"comparisons": ("some",)}, "comparisons must list some of all, across"),
        ({"budget": ()}, "budget must increase from at least 1, got nothing"),
        ({"rho": (0.0, 2.0)}, "rho must lie within"),
        ({"rho": (0.5,)}, "rho must list at least 2 values that increase, got 0.5"),
        ({"n_contents": 1}, "n_contents must be at least 2"),
        ({"k": 8}, r"k must lie in 1\.\.7"),
        ({"half_width": 0.0}, "half_width must be finite and above 0"),
    ],
)
def test_bad_settings_of_partial_pairing(change, message):
    with pytest.raises(ValueError, match=message):
        partial_pairing.groups(dataclasses.replace(PARTIAL, **change))


@pytest.mark.parametrize(
    ("sweep", "options"),
    [(paired, {}), (paired, {"pool": paired.BANK}), (prior_sensitivity, {})],
    ids=["paired", "twins", "priors"],
)
def test_the_bias_may_grow_with_quality(sweep, options):
    """It is the judge's, or replaces the twin's; no number of the paper stands beside it."""
    constant = dataclasses.replace(sweep.PRESETS["full"], **options)
    growing = dataclasses.replace(constant, interaction=0.5)
    pairs = zip(sweep.groups(constant), sweep.groups(growing), strict=True)
    for of_constant, of_growing in pairs:
        assert (of_constant.conditions["interaction"] == 0).all()
        assert (of_growing.conditions["interaction"] == 0.5).all()
        other = {n: v for n, v in of_growing.conditions.items() if n != "interaction"}
        assert all((of_constant.conditions[n] == v).all() for n, v in other.items())
    assert {n.setting["settings.interaction"] for n in sweep.SWEEP.paper()} == {"0"}


@pytest.mark.heavy
def test_the_table_of_priors():
    few = ("llama", "phi", "unbiased")
    s = dataclasses.replace(prior_sensitivity.PRESETS["full"], pools=20, judge=few)
    which = prior_sensitivity.priors(s)
    assert len(which) == 15 + 12
    n = 2 * len(s.judge)
    lam_b = np.array([np.nan if b is None else b for _, _, b in which])
    c = np.tile(np.nan_to_num(lam_b, nan=5.0)[:, None], (n, 1, s.pools))
    recall = np.full((n, len(which), s.pools), 0.8)
    recall[:, lam_b == 0.01], recall[:, lam_b == 10] = 0.7, 0.9
    one, two = ("condition", "pool"), ("condition", "prior", "pool")
    groups = prior_sensitivity.groups(s)
    labels = {k: [v for g in groups for v in g.labels[k]] for k in groups[0].labels}
    ds = xr.Dataset(
        {
            "c_hat": (two, c),
            "recall": (two, recall),
            "tau2": (two, np.exp(c)),
            "naive_recall": (one, np.full((n, s.pools), 0.5)),
            "profile_range": (one, np.full((n, s.pools), 2.0)),
        },
        coords={k: ("condition", v) for k, v in labels.items()},
    )
    table = table_of(prior_sensitivity.SWEEP.like(s), ds)
    assert table.paper.notna().sum() == len(prior_sensitivity.SWEEP.paper())
    assert list(table.columns[:5]) == ["judge", "design", "prior", "lam", "lam_b"]
    normal = table[table.prior == "normal"]
    llama = normal[(normal.judge == "llama") & (normal.design == "unpaired") & (normal.lam == 1)]
    benefit = llama[llama.quantity == "benefit"]
    assert benefit.estimate.tolist() == pytest.approx([0.2, 0.3, 0.3, 0.3, 0.4])
    assert dict(zip(benefit.lam_b, benefit.paper, strict=True))[0.1] == 0.32
    assert dict(zip(benefit.lam_b, benefit.paper, strict=True))[2.0] == 0.24
    change = table[(table.quantity == "benefit_change") & (table.lam == 1)]
    change = change[(change.judge == "llama") & (change.design == "unpaired")]
    assert change.prior.tolist() == ["normal"] * 4 + list(prior_sensitivity.LEARNED)
    assert change.estimate.tolist() == pytest.approx([-0.1, 0, 0, 0.1, 0, 0, 0, 0])
    assert change.replicate_high.notna().all()
    assert dict(zip(change.lam_b, change.paper, strict=True))[2.0] == -0.08
    control = only(table, quantity="recall", judge="unbiased", design="unpaired", prior="naive")
    assert (control.estimate, control.paper) == (0.5, 0.86)
    spread = only(table, quantity="c_spread", judge="phi", design="paired", prior="all")
    assert spread.estimate == pytest.approx(10 - 0.01)
    spread = only(table, quantity="c_spread", judge="phi", design="paired", prior="evidence")
    assert spread.estimate == 0
    learned = table[(table.prior == "evidence") & (table.quantity == "log_tau2")]
    assert learned.estimate.to_numpy() == pytest.approx(5.0)
    other = dataclasses.replace(s, n_contents=20, budget=100)
    assert table_of(prior_sensitivity.SWEEP.like(other), ds).paper.isna().all()
    figure = prior_sensitivity.figure(ds, table, s)
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert labels[0] == r"mean $\hat c$ (logits)"
    assert labels[1] == "top-5 recall, bias-aware minus naive"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "dtype must be float64"),
        ({"judge": ()}, "judge must list some of .*, got nothing"),
        ({"lam_b": (1.0,)}, r"lam_b must include 0\.1"),
        ({"n_contents": 1}, "n_contents must be at least 2"),
        ({"design": ()}, "design must list some of unpaired, paired"),
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
    assert main(paired.SWEEP, options) == 2
    assert "error: dtype must be float64" in capsys.readouterr().err
