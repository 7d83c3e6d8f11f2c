"""The two sweeps on acquisition: their tables from known results, and bad settings."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

from jbt import plots, study
from sweeps import _active as active
from sweeps import acquisition, stochastic_judge

SMALL = dataclasses.replace(
    acquisition.PRESETS["full"], pools=60, rule=("top_k_aware", "round_robin"), n_seeds=2
)


def invented(s, effect):
    """A dataset as a run leaves it, with recalls we choose: rule i is worse by i * effect."""
    rng = np.random.default_rng(0)
    groups = acquisition.groups(s)
    axes = groups[0].axes
    labels = {k: [v for g in groups for v in g.labels[k]] for k in groups[0].labels}
    c, t = len(labels["rule"]), len(axes["recall"]["budget"])
    pool = rng.normal(0, 0.1, s.pools)
    recall = 0.7 + pool[:, None] + rng.normal(0, 0.01, (c, s.pools, t))
    worse = np.array([s.rule.index(r) for r in labels["rule"]])
    naive = np.array([m == "naive" for m in labels["model"]])
    recall -= (worse * effect * (1 - 0.5 * naive))[:, None, None]
    shares = np.full((c, s.pools, len(s.budget), 25), 1 / 25)
    return xr.Dataset(
        {
            "recall": (("condition", "pool", "budget"), recall),
            "allocation": (("condition", "pool", "table_budget", "distance"), shares),
        },
        coords={k: ("condition", v) for k, v in labels.items()}
        | {"budget": axes["recall"]["budget"], "distance": np.arange(25)},
    )


def test_the_table_averages_seeds_and_pairs_pools():
    ds = invented(SMALL, 0.05)
    table = acquisition.table(ds, SMALL)
    assert list(table.columns[:9]) == list(active.LEADING)
    mine = table[(table.rule == "round_robin") & (table.judge == "default")]
    mine = mine[(mine.model == "bias_aware") & (mine.budget == 120)].set_index("quantity")
    at = (ds.rule == "round_robin") & (ds.judge == "default") & (ds.model == "bias_aware")
    assert int(at.sum()) == SMALL.n_seeds
    values = ds.recall.isel(condition=at.values).sel(budget=120).values.mean(0)
    assert mine.estimate["recall"] == pytest.approx(values.mean())
    assert mine.estimate["delta"] == pytest.approx(-0.05, abs=0.01)
    # Paired: the pools' spread of 0.1 is not in the interval.
    assert mine.ci_high["delta"] - mine.ci_low["delta"] < 0.02
    assert mine.estimate["p_holm"] == pytest.approx(1e-4)
    assert mine.estimate["power_at_10_pools"] == 1
    assert mine.estimate["share_at_boundary"] == pytest.approx(1 / 25)
    assert mine.paper["recall"] == 0.61
    synergy = table[(table.quantity == "synergy") & (table.budget == 120)].iloc[0]
    assert synergy.estimate == pytest.approx(0.025, abs=0.01)
    # No rule of ours exceeds the full data in these numbers; the largest of 110 means would.
    above = table[table.quantity == "recall_above_full_data"]
    assert len(above) == 8
    assert (above.ci_low < 0.004).all()
    assert table[(table.judge != "default") & table.paper.notna()].empty


def test_all_groups_report_on_the_same_budgets():
    """Whatever R is: they go into one array."""
    for sweep, module in (
        (SMALL, acquisition),
        (stochastic_judge.PRESETS["full"], stochastic_judge),
    ):
        axes = [g.axes for g in module.groups(sweep)]
        assert all(a == axes[0] for a in axes)


def test_the_papers_numbers_stand_beside_its_scenario_alone():
    for other in ({"k": 4}, {"discrimination": 0.1}):
        s = dataclasses.replace(SMALL, **other)
        assert acquisition.table(invented(s, 0.05), s).paper.isna().all()


def test_uncertain_pairs_decide_the_discrimination():
    s = stochastic_judge.PRESETS["full"]
    d = stochastic_judge.discrimination_of(s)
    assert stochastic_judge.uncertain_share(s, d) == pytest.approx(0.43)
    rng = np.random.default_rng(0)
    theta = 1.25 * d * rng.standard_normal((4000, 30))
    phi = theta + 1.5 * np.repeat([1.0, 0.0], 15)
    z = phi[:, :, None] - phi[:, None, :] + 0.35
    share = (np.abs(z) < np.log(4)).sum((1, 2)) - 30  # an item against itself is doubtful
    share = share / (30 * 29)
    assert abs(share.mean() - 0.43) < 4 * share.std() / 4000**0.5
    assert stochastic_judge.discrimination_of(dataclasses.replace(s, discrimination=0.7)) == 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rule", "round_robin", "fancy"], "must include top_k_aware"),
        (["--rule", "top_k_aware", "fancy"], "unknown rule 'fancy': one of top_k_aware, thompson"),
        (["--rule", "top_k_aware", "top_k_aware"], "lists a name twice"),
        (["--budget", "120", "60"], "budget must be an increasing list, got 120 60"),
        (["--budget", "60", "871"], "30 items have 870 ordered pairs"),
        (["--budget", "6", "60"], "budget must be at least refit_every = 8, got 6"),
        (["--k", "30"], r"k must lie in 1..29, got 30"),
        (["--refit-every", "0"], "refit_every must be at least 1, got 0"),
        (["--n-samples", "0"], "n_samples must be at least 1, got 0"),
        (["--n-seeds", "0"], "n_seeds must be at least 1"),
        (["--n-items", "3"], "n_items must be at least 4"),
        (["--sd", "-1"], "sd must be finite and above 0"),
        (["--bias", "nan"], "bias must be finite"),
        (["--discrimination", "nan"], "discrimination must be finite and above 0"),
    ],
)
def test_bad_settings(tmp_path, capsys, options, message):
    assert study.main(acquisition.SWEEP, ["--out", str(tmp_path / "r"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_bad_settings_of_the_stochastic_judge(tmp_path, capsys):
    for options, message in (
        (["--uncertain", "0.99"], "uncertain must lie between"),
        (["--refit-every", "8", "8"], "none twice"),
    ):
        sweep = stochastic_judge.SWEEP
        assert study.main(sweep, ["--out", str(tmp_path / "r"), *options]) == 2
        assert message in capsys.readouterr().err


def test_metrics_with_axes_are_saved_with_their_coordinates(tmp_path):
    def experiment(key, condition):
        import jax.numpy as jnp

        return {"curve": condition["a"] * jnp.arange(3.0), "flat": condition["a"]}

    def group(name, a, axes):
        conditions = {"a": np.array(a)}
        return study.Group(name, experiment, conditions, {"a": a}, 4, 5, axes=axes)

    def sweep(*groups):
        return study.Sweep(
            "axes",
            "",
            {},
            lambda s: list(groups),
            lambda ds, s: study.tidy_table((), [["n", ds.sizes["pool"]]]),
            lambda ds, t, s: plots.new_figure()[0],
        )

    here = {"curve": {"time": [1, 2, 4]}}
    settings = study.Settings(pools=5, out=tmp_path)
    study.run(sweep(group("x", [1.0, 2.0], here), group("y", [3.0], here)), settings)
    ds = xr.load_dataset(tmp_path / "axes" / "results.nc")
    assert ds["curve"].dims == ("condition", "pool", "time")
    np.testing.assert_array_equal(ds["time"], [1, 2, 4])
    expected = np.array([1.0, 2.0, 3.0])[:, None, None] * np.arange(3.0) + np.zeros((3, 5, 3))
    np.testing.assert_array_equal(ds["curve"], expected)
    assert ds["flat"].dims == ("condition", "pool")
    wrong = dataclasses.replace(settings, out=tmp_path / "wrong")
    with pytest.raises(ValueError, match="its axes say"):
        study.run(sweep(group("x", [1.0], {"curve": {"time": [1, 2]}})), wrong)
    other = dataclasses.replace(settings, out=tmp_path / "other")
    groups = group("x", [1.0], here), group("y", [1.0], {"curve": {"time": [1, 2, 5]}})
    with pytest.raises(ValueError, match="differ in the coordinates of time"):
        study.run(sweep(*groups), other)
