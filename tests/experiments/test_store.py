"""The store of a run: what is in it, and what happens to it from outside. Damage is named and never
trusted, what is whole survives, and the same command goes on."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from support.small_sweep import group, sweep_of

from jbt.experiments import provenance, run, store, work

AXES = sweep_of(group("x", [1.0, 2.0]), group("y", [3.0], pools=3))
LINE = ["--chunk", "2", "--devices", "1"]
FILES = {".lock", ".making", "results.zarr", "table.csv", "figure.png"}


@pytest.fixture(scope="module", autouse=True)
def of_two_pools():
    """Chunks of two pools."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jbt.simulation.simulate.CPU_PROBLEMS", 4)
        yield


def main(out, *options, sweep=AXES):
    return run.main(sweep, ["--out", str(out), *LINE, *options])


def results(out):
    return store.Store(out / "axes" / store.RESULTS).results()


def refused(out, capsys, *options, sweep=AXES):
    """The one line of a run that ends without simulating."""
    capsys.readouterr()
    assert main(out, *options, sweep=sweep) == 2
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, shown.err
    assert shown.out == ""
    return lines[0]


def stop_after(monkeypatch, out, chunks, *options):
    """Ctrl-C when so many chunks are written."""
    write, left = store.Store.write, iter(range(chunks))

    def counted(self, *arguments):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(store.Store, "write", counted)
        assert main(out, *options) == 130


def whole(out):
    """The results are those of the sweep, padded where a group has fewer pools."""
    with results(out) as ds:
        flat = np.repeat([[1.0], [2.0], [3.0]], 5, 1)
        flat[2, 3:] = np.nan
        np.testing.assert_array_equal(ds["flat"], flat)
        np.testing.assert_array_equal(ds["curve"], np.arange(3.0)[:, None] * flat[:, None])
        np.testing.assert_array_equal(ds["status"], [[0] * 5, [0] * 5, [1, 1, 1, -1, -1]])
    return True


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of a finished run, and of one with two of its four chunks."""
    out = tmp_path_factory.mktemp("runs")
    assert main(out / "finished") == 0
    stop_after(pytest.MonkeyPatch(), out / "begun", 2)
    return out


@pytest.fixture
def begun(runs, tmp_path):
    return shutil.copytree(runs / "begun", tmp_path, dirs_exist_ok=True)


@pytest.fixture
def finished(runs, tmp_path):
    return shutil.copytree(runs / "finished", tmp_path, dirs_exist_ok=True)


# --- what is in it


def test_metrics_stand_at_their_conditions_coordinates_and_pools(finished):
    assert whole(finished)
    place = finished / "axes" / "results.zarr"
    with xr.open_zarr(place, group="x", chunks=None) as ds:  # as a user reads it
        assert ds["curve"].dims == ("condition", "time", "pool")
        assert (ds["flat"].dtype, ds["status"].dtype) == (np.float32, np.int32)
        assert ds["time"].values.tolist() == [1, 2, 4]
        assert ds["a"].values.tolist() == [1, 2]
        assert [ds[n].attrs["units"] for n in ("curve", "a", "pool")] == ["metres", "1", "id"]
    with results(finished) as ds:
        assert set(ds.data_vars) == {"curve", "flat", "status"}
        assert ds["a"].values.tolist() == [1, 2, 3]
    assert {path.name for path in (finished / "axes").iterdir()} == FILES


def test_large_results_are_read_on_access_and_are_the_same(tmp_path, monkeypatch):
    assert main(tmp_path, sweep=sweep_of(group("x", [1.0, 2.0]))) == 0
    with results(tmp_path) as ds:
        read_at_once = ds.copy(deep=True)
        assert ds["flat"].variable._in_memory
    monkeypatch.setattr(store, "IN_MEMORY", 0)
    with results(tmp_path) as ds:
        assert not ds["flat"].variable._in_memory
        assert ds.equals(read_at_once)


def test_a_store_at_a_url(tmp_path):
    pytest.importorskip("fsspec")
    url = f"memory://{tmp_path.name}/results.zarr"
    assert main(tmp_path, "--store", url) == 0
    assert not (tmp_path / "axes" / "results.zarr").exists()
    assert store.Store(url).results()["flat"].isel(condition=1).values.tolist() == [2.0] * 5


def test_nothing_is_removed_at_a_url(tmp_path, capsys):
    pytest.importorskip("fsspec")
    url = f"memory://{tmp_path.name}/results.zarr"
    assert main(tmp_path, "--store", url) == 0
    message = refused(tmp_path, capsys, "--store", url, "--overwrite", "--seed", "1")
    assert f"remove {url} yourself" in message
    assert main(tmp_path, "--store", url) == 0


def test_a_store_that_was_half_removed_is_made_anew(finished):
    for name in (store.TABLE, store.FIGURE, "results.zarr/zarr.json"):
        (finished / "axes" / name).unlink()
    assert main(finished, "--seed", "3") == 0
    assert json.loads(results(finished).attrs["config"])["seed"] == 3
    assert whole(finished)


def test_a_store_that_another_part_has_just_made_keeps_its_chunks(begun):
    """Both found none, and both make one."""
    sweep = AXES(out=begun, chunk=2, devices=1)
    of_sweep, folder = work.Work(sweep), begun / "axes"
    place = folder / store.RESULTS
    made = provenance.configuration_of(sweep), provenance.code_of(AXES)
    groups = [*of_sweep.groups.values()]
    store.create(folder, place, sweep, groups, of_sweep.shapes(), of_sweep.sizes(), *made)
    assert len(store.Store(place).missing()) == 2


def test_what_is_begun_afresh_has_no_table_of_before(finished, monkeypatch):
    stop_after(monkeypatch, finished, 0, "--overwrite")
    assert {p.name for p in (finished / "axes").iterdir()} == FILES - {"table.csv", "figure.png"}


def test_a_long_run_has_chunks_of_several_calls(monkeypatch):
    monkeypatch.setattr(work, "MOST_CHUNKS", 10)
    long = work.Work(sweep_of(group("x", [1.0, 2.0], pools=999, axes={}))(chunk=2, devices=1))
    assert long.sizes() == {"x": 100}
    out = long.compute(store.Chunk("x", 3, range(300, 399)))
    np.testing.assert_array_equal(out.numbers["flat"], np.repeat([[1.0], [2.0]], 99, 1))
    assert long.simulation("x").size == 2


# --- what is refused before anything is simulated


def too_large(key, condition):
    return {"flat": jnp.uint32(2**31)}


REFUSED = {
    "two groups have one name: x, x": (group("x", [1.0]), group("x", [2.0])),
    "group x has no conditions": (group("x", []),),
    "metric flat holds integers beyond int32": (group("x", [1.0], axes={}, experiment=too_large),),
}


@pytest.mark.parametrize("message", REFUSED)
def test_groups_and_metrics_that_do_not_fit_are_refused(tmp_path, capsys, message):
    assert message in refused(tmp_path, capsys, sweep=sweep_of(*REFUSED[message]))
    assert not list(tmp_path.glob("axes/results.zarr/*/*/c/*/*"))


# --- kills, full disks, other runs


@pytest.mark.heavy
def test_a_run_interrupted_anywhere_goes_on(begun, tmp_path, monkeypatch):
    """Only what is missing is computed; torn files are removed."""
    torn = begun / "axes" / "results.zarr" / "x" / "flat" / "c" / "0" / "2.1234.partial"
    for file in (torn, begun / "axes" / ".4711.figure.png"):
        file.write_bytes(b"torn")
    computed, compute = [], work.Work.compute
    monkeypatch.setattr(
        work.Work, "compute", lambda self, chunk: computed.append(chunk) or compute(self, chunk)
    )
    assert main(begun) == 0
    assert computed == [("x", 2, range(4, 5)), ("y", 0, range(3))]
    assert whole(begun)
    assert {path.name for path in (begun / "axes").iterdir()} == FILES
    assert not torn.exists()
    for module, name in ((store, "create"), (store.Store, "results"), (run, "_report")):
        out = tmp_path / name

        def stop(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(module, name, stop)
            assert main(out) == 130
        assert main(out) == 0
        assert whole(out)


def test_a_full_disk(tmp_path, capsys):
    """A file may not grow beyond a limit: an error and an exit code; what is whole survives."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for limit in (20, 2000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            message = refused(tmp_path, capsys)
            assert message == "error: [Errno 27] File too large"
            assert not list(tmp_path.rglob("*.partial"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert main(tmp_path) == 0
    assert whole(tmp_path)


def test_another_configuration_is_refused_by_name(begun, finished, capsys):
    for out in (begun, finished):
        message = refused(out, capsys, "--seed", "1", "--dtype", "float64")
        assert "another configuration: dtype (float32 there, float64 now), seed (0 there" in message
        assert "pools" not in message
        assert whole(out) if out is finished else True


def test_what_two_runs_may_share(begun, capsys, monkeypatch):
    """A part shares the folder with other parts, the whole run with none."""
    monkeypatch.setattr(store, "PROBE_SECONDS", 0.1)
    folder = begun / "axes"
    with store.locked(folder, (0, 2)):
        for options in ([], ["--overwrite"], ["--part", "0/2"]):
            assert "another run is writing to" in refused(begun, capsys, *options)
        assert main(begun, "--part", "1/2") == 0
    with store.locked(folder):
        assert "another run is writing to" in refused(begun, capsys, "--part", "0/2")
    assert main(begun) == 0
    assert whole(begun)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path, capsys):
    folder = tmp_path / "axes"
    folder.mkdir()
    theirs = [folder / name for name in ("table.csv", ".2026.txt")]
    for file in theirs:
        file.write_text("theirs")
    assert "holds table.csv but no results.zarr" in refused(tmp_path, capsys)
    assert all(file.read_text() == "theirs" for file in theirs)
    theirs[0].unlink()
    (folder / "results.zarr").mkdir()
    (folder / "results.zarr" / "zarr.json").write_text('{"attributes": {"my": "array"}}')
    assert "is damaged, or no sweep wrote it ('digest')" in refused(tmp_path, capsys)
    assert (folder / "results.zarr" / "zarr.json").exists()


# --- damage


def files_of(out):
    place = out / "axes" / "results.zarr"
    return [file for file in sorted(place.rglob("*")) if file.is_file()]


@pytest.mark.heavy
def test_any_changed_byte_is_found(finished):
    """Of numbers, labels, notes and metadata; one byte of each file, and the file's end."""
    for number, file in enumerate(files_of(finished)):
        data = file.read_bytes()
        changed = bytearray(data)
        changed[number * 7919 % len(data)] ^= 4
        for damaged in (bytes(changed), data[:-1], b""):
            file.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"is damaged.*--overwrite"):
                results(finished)
        file.unlink()
        if file.name == "zarr.json" and file.parent.name == "results.zarr":
            with pytest.raises(FileNotFoundError, match="does not exist"):
                results(finished)
        elif file.parts[-3] == "done":
            with pytest.raises(ValueError, match=r"unfinished: [123] pools are missing"):
                results(finished)
        else:
            with pytest.raises(ValueError, match="is damaged"):
                results(finished)
        file.write_bytes(data)
    assert whole(finished)


def test_damage_is_computed_again_as_the_message_says(finished, capsys):
    chunk = finished / "axes" / "results.zarr" / "x" / "flat" / "c" / "0" / "2"
    chunk.write_bytes(b"")
    message = refused(finished, capsys)
    assert "pools 4 to 4 of x are not as they were written" in message
    note = finished / "axes" / "results.zarr" / "x" / "done" / "c" / "2"
    assert f"delete {note} and give the same command again" in message
    note.unlink()
    assert main(finished) == 0
    assert whole(finished)


def test_a_chunk_in_another_place_or_of_another_run_is_named(finished, tmp_path, capsys):
    place = finished / "axes" / "results.zarr"
    notes = [place / "x" / "done" / "c" / name for name in "01"]
    data = [note.read_bytes() for note in notes]
    for note, content in zip(notes, reversed(data), strict=True):
        note.write_bytes(content)
    assert "pools 0 to 1 of x are" in refused(finished, capsys)
    for note, content in zip(notes, data, strict=True):
        note.write_bytes(content)
    assert whole(finished)
    assert main(tmp_path / "other", "--seed", "1") == 0
    theirs = tmp_path / "other" / "axes" / "results.zarr" / "x" / "done" / "c" / "0"
    shutil.copy(theirs, notes[0])
    assert "or they are of another run" in refused(finished, capsys)
