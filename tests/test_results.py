"""From shards to results.nc: every pool at its place, whatever order the shards came in."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from jbt import plots, results, store, study
from jbt.simulate import Simulation
from jbt.sweep import Group, Settings, Sweep

TIMES = {"curve": {"time": [1, 2, 4]}}


def experiment(key, condition):
    return {
        "curve": condition["a"] * jnp.arange(3.0),
        "flat": condition["a"],
        "status": jnp.asarray(condition["a"] > 2, int),
    }


def group(name, a, *, axes=TIMES, pools=5, experiment=experiment, **labels):
    labels = {"a": a, **labels}
    return Group(name, experiment, {"a": np.array(a)}, labels, 4, pools, axes=axes)


def sweep_of(*groups, index=None):
    return Sweep(
        "axes",
        "",
        {},
        lambda s: list(groups),
        (),
        lambda ds, s, t: t.add("n", ds.sizes["pool"]),
        lambda ds, t, s: plots.new_figure()[0],
        units={"curve": "metres", "a": "1"},
        index=index,
    )


def test_metrics_stand_at_their_conditions_coordinates_and_pools(tmp_path):
    groups = group("x", [1.0, 2.0]), group("y", [3.0], pools=3)
    study.run(sweep_of(*groups), Settings(pools=5, out=tmp_path))
    ds = xr.load_dataset(tmp_path / "axes" / "results.nc")
    assert ds["curve"].dims == ("condition", "time", "pool")
    assert ds["flat"].dims == ("condition", "pool")
    np.testing.assert_array_equal(ds["time"], [1, 2, 4])
    np.testing.assert_array_equal(ds["a"], [1, 2, 3])
    expected = np.array([1.0, 2.0, 3.0])[:, None, None] * np.arange(3.0)[:, None] + np.zeros(5)
    expected[2, :, 3:] = np.nan  # the second group has fewer pools
    np.testing.assert_array_equal(ds["curve"], expected)
    np.testing.assert_array_equal(ds["status"][2], [1, 1, 1, -1, -1])
    assert ds["status"].dtype == np.int32
    assert ds["curve"].attrs["units"] == "metres"
    assert ds["a"].attrs["units"] == "1"
    assert ds["pool"].attrs["units"] == "id"


def test_shards_with_gaps_and_in_any_order(tmp_path):
    mine = group("g", [1.0, 2.0], pools=9)
    folder = tmp_path / "axes"
    folder.mkdir()
    value = np.arange(18.0).reshape(9, 2)  # [pools, conditions]
    for ids in ([1, 2, 7], [0, 3, 4, 5, 6], [8]):
        arrays = {
            "curve": np.repeat(value[ids][..., None], 3, -1),
            "flat": value[ids],
            "status": np.zeros((len(ids), 2), int),
            "seconds": np.array(1.0),
        }
        assert set(ids) <= set(results.missing(folder, mine).tolist())
        results.save_shard(folder, "g", np.array(ids), arrays)
    assert not len(results.missing(folder, mine))
    settings = Settings(pools=9, out=tmp_path)
    results.write(sweep_of(mine, index="a"), [mine], settings, {"pools": 9}, {}, folder)
    ds = xr.load_dataset(folder / "results.nc")
    assert ds["flat"].dims == ("a", "pool")
    np.testing.assert_array_equal(ds["flat"], value.T)
    np.testing.assert_array_equal(ds["curve"].isel(time=2), value.T)
    assert ds.attrs["wall_seconds"] == 3


def test_what_is_written_is_compressed_in_pieces_that_do_not_grow_with_the_pools(tmp_path):
    import h5py

    mine = group("g", [1.0, 2.0], pools=200_000, axes={})
    folder = tmp_path / "axes"
    folder.mkdir()
    for begin in (0, 100_000):
        ids = np.arange(begin, begin + 100_000)
        flat = np.tile(ids[:, None].astype(np.float32), 2)
        results.save_shard(folder, "g", ids, {"flat": flat, "seconds": np.array(0.0)})
    settings = Settings(pools=200_000, out=tmp_path)
    results.write(sweep_of(mine), [mine], settings, {}, {}, folder)
    with h5py.File(folder / "results.nc") as file:
        chunks = file["flat"].chunks
        assert np.prod(chunks) * 4 <= results.CHUNK_BYTES
        assert file["flat"].compression == "gzip"
    with results.open_results(folder) as ds:
        np.testing.assert_array_equal(ds["flat"].isel(condition=1), np.arange(200_000))


def test_pools_that_no_shard_holds_are_counted(tmp_path):
    mine = group("g", [1.0])
    results.save_shard(tmp_path, "g", np.array([0, 3]), {"flat": np.zeros((2, 1))})
    with pytest.raises(ValueError, match="3 of 5 pools of g are not there"):
        results.write(sweep_of(mine), [mine], Settings(), {}, {}, tmp_path)


def refused(tmp_path, *groups):
    """The error of a run that must not simulate anything."""
    with pytest.raises(ValueError, match="metric") as error:
        study.run(sweep_of(*groups), Settings(pools=5, out=tmp_path))
    assert not list(tmp_path.glob("**/*.npz"))
    return str(error.value)


def test_shapes_are_checked_before_anything_is_simulated(tmp_path):
    wrong = group("x", [1.0], axes={"curve": {"time": [1, 2]}})
    assert "metric curve has shape (3,)" in refused(tmp_path / "1", group("w", [1.0]), wrong)
    missing = group("x", [1.0], axes={})
    assert "its axes say ()" in refused(tmp_path / "2", missing)
    unknown = group("x", [1.0], axes=TIMES | {"speed": {"time": [1, 2, 4]}})
    assert "axes name metrics that x has not: ['speed']" in refused(tmp_path / "3", unknown)

    def without_flat(key, condition):
        return {"curve": condition["a"] * jnp.arange(3.0), "status": jnp.array(0)}

    other = group("y", [1.0], experiment=without_flat)
    assert "groups x and y differ in metrics: flat" in refused(
        tmp_path / "4", group("x", [1.0]), other
    )


def test_groups_that_do_not_fit_together(tmp_path):
    later = group("y", [1.0], axes={"curve": {"time": [1, 2, 5]}})
    with pytest.raises(ValueError, match="differ in the coordinates of time"):
        study.run(sweep_of(group("x", [1.0]), later), Settings(pools=5, out=tmp_path / "1"))
    labelled = group("y", [1.0], b=[1])
    with pytest.raises(ValueError, match="groups x and y differ in labels"):
        study.run(sweep_of(group("x", [1.0]), labelled), Settings(pools=5, out=tmp_path / "2"))


def test_shapes_of_a_simulation_are_those_of_its_numbers():
    mine = group("x", [1.0, 2.0])
    simulation = Simulation(mine.experiment, mine.conditions, range(5))
    shapes = simulation.shapes()
    ((_, out),) = simulation.chunks()
    assert {k: v.shape[2:] for k, v in out.items()} == shapes
    assert shapes == {"curve": (3,), "flat": (), "status": ()}


def test_only_results_of_this_sweep_are_drawn_again(tmp_path):
    asked = Settings(out=tmp_path)
    with pytest.raises(ValueError, match="nothing to redraw"):
        results.saved_settings(tmp_path, asked)
    (tmp_path / "results.nc").write_bytes(b"junk")
    with pytest.raises(ValueError, match="cannot be read as results"):
        results.saved_settings(tmp_path, asked)
    groups = (group("x", [1.0]),)
    study.run(sweep_of(*groups), dataclasses.replace(asked, pools=5, seed=7))
    saved = results.saved_settings(tmp_path / "axes", asked)
    assert (saved.pools, saved.seed, saved.out) == (5, 7, tmp_path)


def test_a_folder_is_locked_while_somebody_writes(tmp_path):
    with (
        store.locked(tmp_path / "a"),
        pytest.raises(ValueError, match="another run is writing"),
        store.locked(tmp_path / "a"),
    ):
        pass
    with store.locked(tmp_path / "a"):  # and free afterwards
        pass
