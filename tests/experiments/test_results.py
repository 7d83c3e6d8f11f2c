"""From shards to results.nc: every pool at its place, whatever order the shards came in."""

import dataclasses
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from support.small_sweep import TIMES, group, numbered, sweep_of

from jbt.experiments import folder as store
from jbt.experiments import provenance, results, run, shards
from jbt.experiments.declare import Sweep as Settings
from jbt.simulation.simulate import Simulation


def test_metrics_stand_at_their_conditions_coordinates_and_pools(tmp_path):
    groups = group("x", [1.0, 2.0]), group("y", [3.0], pools=3)
    run.run(sweep_of(*groups).like(Settings(pools=5, out=tmp_path)))
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
    one_group = group("g", [1.0, 2.0], pools=9)
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
        assert set(ids) <= set(shards.missing(folder, one_group).tolist())
        shards.save_shard(folder, "g", np.array(ids), arrays)
    assert not len(shards.missing(folder, one_group))
    settings = Settings(pools=9, out=tmp_path)
    results.write(sweep_of(one_group, index="a"), [one_group], settings, {"pools": 9}, {}, folder)
    ds = xr.load_dataset(folder / "results.nc")
    assert ds["flat"].dims == ("a", "pool")
    np.testing.assert_array_equal(ds["flat"], value.T)
    np.testing.assert_array_equal(ds["curve"].isel(time=2), value.T)
    assert ds.attrs["wall_seconds"] == 3


def test_a_shard_of_another_group_is_none(tmp_path):
    """Though it has the same shapes."""
    one_group, folder = group("x", [1.0, 2.0]), tmp_path / "axes"
    folder.mkdir()
    shards.save_shard(folder, "y", np.arange(5), numbered(range(5)))
    (shard,) = (folder / "shards").iterdir()
    shard.rename(shard.with_name(shard.name.replace("y", "x", 1)))
    with pytest.raises(ValueError, match="is damaged, or belongs to another run or group"):
        shards.missing(folder, one_group)


def test_what_the_disk_does_not_hold_is_refused(tmp_path, monkeypatch):
    free = SimpleNamespace(free=4 * 5 * 5 * 2 - 1)  # metrics' 5 numbers of 5 pools, 2 conditions
    monkeypatch.setattr(results.shutil, "disk_usage", lambda _: free)
    sweep = sweep_of(group("x", [1.0, 2.0]))
    with pytest.raises(ValueError, match=r"50 numbers would take .* GB, and .* GB free; fewer"):
        run.run(sweep.like(Settings(pools=5, out=tmp_path)))
    free.free += 1
    run.run(sweep.like(Settings(pools=5, out=tmp_path)))


def test_integers_that_results_do_not_hold_are_refused(tmp_path):
    status = np.full((5, 2), 2**31)
    with pytest.raises(ValueError, match="metric status holds integers beyond int32"):
        shards.save_shard(tmp_path, "x", np.arange(5), numbered(range(5), status=status))


def test_what_is_written_is_compressed_in_pieces_that_do_not_grow_with_the_pools(tmp_path):
    import h5py

    one_group = group("g", [1.0, 2.0], pools=200_000, axes={})
    folder = tmp_path / "axes"
    folder.mkdir()
    for begin in (0, 100_000):
        ids = np.arange(begin, begin + 100_000)
        flat = np.tile(ids[:, None].astype(np.float32), 2)
        shards.save_shard(folder, "g", ids, {"flat": flat, "seconds": np.array(0.0)})
    settings = Settings(pools=200_000, out=tmp_path)
    results.write(sweep_of(one_group), [one_group], settings, {}, {}, folder)
    with h5py.File(folder / "results.nc") as file:
        chunks = file["flat"].chunks
        assert np.prod(chunks) * 4 <= results.CHUNK_BYTES
        assert file["flat"].compression == "gzip"
    with results.open_results(folder) as ds:
        np.testing.assert_array_equal(ds["flat"].isel(condition=1), np.arange(200_000))


def test_pools_that_no_shard_holds_are_counted(tmp_path):
    one_group = group("g", [1.0])
    two = {"flat": np.zeros((2, 1)), "seconds": np.array(1.0)}
    shards.save_shard(tmp_path, "g", np.array([0, 3]), two)
    with pytest.raises(ValueError, match="3 of 5 pools of g are in no shard"):
        results.write(sweep_of(one_group), [one_group], Settings(), {}, {}, tmp_path)


def refused(tmp_path, *groups):
    """The error of a run that must not simulate anything."""
    with pytest.raises(ValueError, match="metric") as error:
        run.run(sweep_of(*groups).like(Settings(pools=5, out=tmp_path)))
    assert not list(tmp_path.glob("**/*.npz"))
    return str(error.value)


def test_shapes_are_checked_before_anything_is_simulated(tmp_path):
    wrong = group("x", [1.0], axes={"curve": {"time": [1, 2]}})
    assert "metric curve has shape (3,)" in refused(tmp_path / "1", wrong)
    missing = group("x", [1.0], axes={})
    assert "its axes have ()" in refused(tmp_path / "2", missing)
    unknown = group("x", [1.0], axes=TIMES | {"speed": {"time": [1, 2, 4]}})
    assert "axes name metrics that x lacks: ['speed']" in refused(tmp_path / "3", unknown)

    def without_flat(key, condition):
        return {"curve": condition["a"] * jnp.arange(3.0), "status": jnp.array(0)}

    other = group("y", [1.0], experiment=without_flat)
    assert "groups x and y differ in metrics: flat" in refused(
        tmp_path / "4", group("x", [1.0]), other
    )


def test_groups_that_do_not_fit_together_are_refused_at_once(tmp_path):
    x = group("x", [1.0])
    later = group("y", [1.0], axes={"curve": {"time": [1, 2, 5]}})
    wrong = {
        "differ in the coordinates of time": (x, later),
        "groups x and y differ in labels": (x, group("y", [1.0], b=[1])),
        "two groups have one name: x, x": (x, group("x", [2.0])),
        "group y: b has 2 values for 1 conditions": (group("y", [1.0], b=[1, 2]),),
        "no groups: there is nothing to simulate": (),
        "group x has no conditions": (group("x", []),),
        "group x: pools must be at least 1, got 0": (group("x", [1.0], pools=0),),
        "group 'a/b': its name cannot be part of a file's name": (group("a/b", [1.0]),),
    }
    for i, (message, groups) in enumerate(wrong.items()):
        with pytest.raises(ValueError, match=message):
            run.run(sweep_of(*groups).like(Settings(pools=5, out=tmp_path / str(i))))
        assert not (tmp_path / str(i)).exists()


def test_an_index_names_the_conditions_one_to_one(tmp_path):
    settings = Settings(pools=5, out=tmp_path / "none")
    for index, a, message in (("b", [1.0], "has no label b"), ("a", [1.0, 1.0], "have one a")):
        with pytest.raises(ValueError, match=message):
            run.run(sweep_of(group("x", a).like(index=index), settings))
    assert not settings.out.exists()


def test_a_preset_that_is_not_there_is_named(capsys):
    only_full = dataclasses.replace(sweep_of(group("x", [1.0])), presets={"full": Settings()})
    assert run.main(only_full, ["--preset", "smoke"]) == 2
    assert capsys.readouterr().err == "error: axes has no preset smoke, only full\n"


@pytest.mark.parametrize("name", ["ids", "seconds"])
def test_names_that_shards_need_are_no_metrics(tmp_path, name):
    def reserved_metric(key, condition):
        return {name: condition["a"]}

    assert f"no metric may be called {name}" in refused(
        tmp_path, group("x", [1.0], axes={}, experiment=reserved_metric)
    )


def test_shapes_of_a_simulation_are_those_of_its_numbers():
    one_group = group("x", [1.0, 2.0])
    simulation = Simulation(one_group.experiment, one_group.conditions, range(5))
    shapes = simulation.shapes()
    ((_, out),) = simulation.chunks()
    assert {k: v.shape[2:] for k, v in out.items()} == shapes
    assert shapes == {"curve": (3,), "flat": (), "status": ()}


def test_only_results_of_this_sweep_are_drawn_again(tmp_path):
    asked = Settings(out=tmp_path)
    with pytest.raises(ValueError, match="nothing to redraw"):
        results.saved(tmp_path, asked)
    (tmp_path / "results.nc").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"cannot be trusted.*--overwrite"):
        results.saved(tmp_path, asked)
    groups = (group("x", [1.0]),)
    run.run(sweep_of(*groups).like(dataclasses.replace(asked, pools=5, seed=7)))
    with pytest.raises(ValueError, match=r"other settings: pools \(5 there, 4096 now\), seed"):
        run.run(sweep_of(*groups).like(dataclasses.replace(asked, redraw=True)))
    saved = results.saved(tmp_path / "axes", asked)
    assert (saved.pools, saved.seed, saved.out) == (5, 7, tmp_path)


def test_results_of_an_earlier_layout_are_refused(tmp_path, monkeypatch):
    settings = Settings(pools=5, out=tmp_path)
    sweep = sweep_of(group("x", [1.0]))
    with monkeypatch.context() as m:
        m.setattr(provenance, "LAYOUT", 1)
        run.run(sweep.like(settings))
    with pytest.raises(ValueError, match="another configuration: results layout \\(1 there, 3 now"):
        run.run(sweep.like(settings))
    with pytest.raises(ValueError, match="has another layout, of an earlier jbt"):
        run.run(sweep.like(dataclasses.replace(settings, redraw=True)))


def test_a_run_killed_between_any_two_writes_goes_on(tmp_path, monkeypatch):
    """The same command again ends with the results of an undisturbed run."""
    sweep, whole = sweep_of(group("x", [1.0, 2.0])), Settings(pools=5, out=tmp_path / "whole")
    run.run(sweep.like(whole))
    expected = xr.load_dataset(whole.out / "axes" / "results.nc")

    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    places = {
        "before the first shard": (shards, "save_shard"),
        "before results.nc": (results, "write"),
        "while results.nc is written": (results, "_add"),
        "before the shards are gone": (store, "discard_shards"),
        "before the report": (run, "_report"),
    }
    for place, (module, name) in places.items():
        settings = dataclasses.replace(whole, out=tmp_path / place)
        if name == "discard_shards":  # which `claim` calls, too
            store.claim(
                settings.out / "axes", provenance.configuration_of(settings), {}, overwrite=False
            ) if (settings.out / "axes").mkdir(parents=True) else None
        with monkeypatch.context() as m:
            m.setattr(module, name, killed)
            with pytest.raises(Killed):
                run.run(sweep.like(settings))
        run.run(sweep.like(settings))
        xr.testing.assert_equal(xr.load_dataset(settings.out / "axes" / "results.nc"), expected)
        assert not list(settings.out.glob("axes/.[0-9]*"))
        assert not (settings.out / "axes" / "shards").exists()


def test_overwriting_removes_what_a_killed_run_left(tmp_path):
    folder = tmp_path / "axes"
    (folder / "shards").mkdir(parents=True)
    for name in (".123.results.nc", "shards/.123.x-0000000000.npz"):
        (folder / name).write_bytes(b"torn")
    store.claim(folder, {"pools": 5}, {"a.py": "1"}, overwrite=True)
    assert {p.name for p in folder.iterdir()} == {"config.json"}
    # Nothing was simulated: other code may begin.
    store.claim(folder, {"pools": 5}, {"a.py": "2"}, overwrite=False)
    assert '"2"' in (folder / "config.json").read_text()


def test_a_folder_is_locked_while_somebody_writes(tmp_path):
    with (
        store.locked(tmp_path / "a"),
        pytest.raises(ValueError, match="another run is writing"),
        store.locked(tmp_path / "a"),
    ):
        pass
    with store.locked(tmp_path / "a"):  # and free afterwards
        pass
