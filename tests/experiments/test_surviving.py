"""What happens to a run's folder from outside: damage is named and never trusted, what is whole
survives, and the same command goes on."""

import dataclasses
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from support.small_sweep import group, interrupted, numbered, sweep_of

from jbt.border import files
from jbt.experiments import folder as store
from jbt.experiments import results, run, shards
from jbt.experiments.declare import Sweep as Settings
from jbt.simulation import simulate

pytestmark = pytest.mark.heavy

SWEEP = sweep_of(group("x", [1.0, 2.0]))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of a finished run, and of one that has only its two shards."""
    out = tmp_path_factory.mktemp("runs")
    run.run(SWEEP.like(Settings(pools=5, out=out / "finished")))
    with pytest.MonkeyPatch.context() as m:
        m.setattr(simulate, "CPU_PROBLEMS", 6)  # of 2 conditions: 3 pools a shard
        options = Settings(pools=5, out=out / "begun", chunk=1, devices=1)
        interrupted(m, lambda: run.run(SWEEP.like(options)))
    assert len(list(out.glob("begun/axes/shards/*.npz"))) == 2
    return out


@pytest.fixture
def begun(runs, tmp_path):
    return shutil.copytree(runs / "begun", tmp_path, dirs_exist_ok=True) / "axes"


@pytest.fixture
def finished(runs, tmp_path):
    return shutil.copytree(runs / "finished", tmp_path, dirs_exist_ok=True) / "axes"


def main(folder, *options):
    return run.main(SWEEP, ["--out", str(folder.parent), *options])


def refused(folder, capsys, *options, code=2):
    """The one line of a run that ends without simulating."""
    capsys.readouterr()
    assert main(folder, *options) == code
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, shown.err
    assert shown.out == ""
    assert "allow_pickle" not in lines[0]
    return lines[0]


def whole(folder):
    """A folder's results are those of the sweep."""
    with results.open_results(folder) as ds:
        np.testing.assert_array_equal(ds["flat"], np.repeat([[1.0], [2.0]], 5, 1))
    assert not (folder / "shards").exists()
    return True


# --- a full disk


@pytest.fixture
def file_size():
    """Set the largest size of a file; a larger one fails as on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_while_results_are_written(begun, capsys, file_size):
    """A line and an exit code, not a signal (`test_files` sees the process end whole); the shards
    survive, and the run goes on."""
    for limit in (2000, 6000, 10_000, 19_000):
        file_size(limit)
        message = refused(begun, capsys)
        assert message == f"error: cannot write {begun / 'results.nc'}: File too large"
        assert {p.name for p in begun.iterdir()} == {".lock", "config.json", "shards"}
        assert len(list(begun.glob("shards/*"))) == 2
    file_size(-1)
    assert main(begun) == 0
    assert whole(begun)


def test_a_full_disk_while_a_shard_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(simulate, "CPU_PROBLEMS", 6)
    write_whole = files.write_whole

    def full_after_one(path, write, **options):
        if path.suffix == ".npz" and list(path.parent.glob("*.npz")):
            write = lambda path: os.write(os.open("/dev/full", os.O_WRONLY), b"1")  # noqa: E731
        write_whole(path, write, **options)

    with monkeypatch.context() as m:
        m.setattr(files, "write_whole", full_after_one)
        message = refused(tmp_path / "axes", capsys, "--chunk", "1", "--devices", "1")
    assert message.startswith(f"error: cannot write {tmp_path}/axes/shards/x-0000000003-")
    assert message.endswith("No space left on device")
    assert len(list(tmp_path.glob("axes/shards/*"))) == 1
    assert main(tmp_path / "axes") == 0
    assert whole(tmp_path / "axes")


# --- damage


def first_shard(folder):
    return min((folder / "shards").glob("*.npz"))


def emptied(shard):
    shard.write_bytes(b"")


def cut_short(shard):
    shard.write_bytes(shard.read_bytes()[:-100])


def without_ids(shard):
    rewritten(shard, "ids")


def without_a_metric(shard):
    rewritten(shard, "flat")


def rewritten(shard, lacking):
    with np.load(shard) as arrays:
        rest = {name: arrays[name] for name in arrays if name != lacking}
    np.savez(shard, **rest)


def of_objects(shard):
    """Which NumPy would advise to unpickle."""
    np.savez(shard, ids=np.array([{}]))


@pytest.mark.parametrize("damage", [emptied, cut_short, without_ids, without_a_metric, of_objects])
def test_a_damaged_shard_is_named(begun, capsys, damage):
    shard = first_shard(begun)
    damage(shard)
    message = refused(begun, capsys)
    assert f"{shard} is damaged" in message
    assert "delete it and give the same command again, which computes its pools" in message
    assert "or start afresh with --overwrite" in message
    # Either way helps.
    shard.unlink()
    assert main(begun) == 0
    assert whole(begun)


def test_any_changed_byte_of_a_shard_is_found(begun):
    shard = first_shard(begun)
    data = shard.read_bytes()
    for at in {*range(0, len(data), 97), len(data) - 1}:
        changed = bytearray(data)
        changed[at] ^= 4
        shard.write_bytes(changed)
        with pytest.raises(ValueError, match=f"{shard.name} is damaged"):
            shards.missing(begun, group("x", [1.0, 2.0]))
    shard.write_bytes(data)
    assert not len(shards.missing(begun, group("x", [1.0, 2.0])))


def test_overwrite_starts_afresh_from_damage(begun, capsys):
    emptied(first_shard(begun))
    assert main(begun, "--overwrite") == 0
    assert whole(begun)
    (begun / "results.nc").write_bytes(b"")
    assert "results.nc is damaged" in refused(begun, capsys)
    assert main(begun, "--overwrite") == 0
    assert whole(begun)


def test_a_shard_of_another_run_is_named(begun, tmp_path, capsys, monkeypatch):
    """As one might collect by hand from several machines."""
    options = Settings(pools=5, seed=1, out=tmp_path / "other")
    interrupted(monkeypatch, lambda: run.run(SWEEP.like(options)))
    foreign = first_shard(options.out / "axes")
    shutil.copy(foreign, begun / "shards")
    message = refused(begun, capsys)
    assert f"{foreign.name} is damaged, or belongs to another run" in message


def test_shards_that_do_not_fit_the_sweep_are_named(tmp_path):
    """Whole shards of other code, where no digest distinguishes code, as in a notebook."""
    one_group = group("g", [1.0, 2.0])
    wrong = {
        "does not fit the pools, conditions and axes of g": [
            numbered([0, 1], conditions=3),
            numbered([0, 1], curve=np.zeros((2, 2, 4))),
            numbered([0, 1, 2]),
        ],
        "differs from the others in metrics: flat": [
            {k: v for k, v in numbered([0, 1]).items() if k != "flat"}
        ],
        "differs from the others in metrics: more": [numbered([0, 1], more=np.zeros((2, 2)))],
    }
    simulations = {"g": simulate.Simulation(one_group.experiment, one_group.conditions, range(5))}
    for message, cases in wrong.items():
        for arrays in cases:
            shards.save_shard(tmp_path, "g", np.array([0, 1]), arrays)
            with pytest.raises(ValueError, match=rf"g-0000000000-.*npz {message}.*delete it"):
                results.check_metrics([one_group], simulations, tmp_path)
            store.discard_shards(tmp_path)
    shards.save_shard(tmp_path, "g", np.array([5]), numbered([5]))  # there are pools 0 to 4
    with pytest.raises(ValueError, match="does not fit the pools"):
        shards.missing(tmp_path, one_group)


def test_shards_that_differ_among_themselves_are_named_before_results_are_written(begun, capsys):
    """All pools are there, and so nothing is simulated to compare them with."""
    shard = max((begun / "shards").glob("*.npz"))
    with np.load(shard) as arrays:
        rest = {name: arrays[name] for name in arrays if name not in ("flat", "ids", "device")}
    shard.unlink()
    shards.save_shard(begun, "x", np.array([3, 4]), rest)
    message = refused(begun, capsys)
    assert "x-0000000003" in message
    assert "differs from the others in metrics: flat" in message


@pytest.mark.parametrize("share", [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1])
def test_changed_bytes_in_results(finished, capsys, share):
    file = finished / "results.nc"
    data = bytearray(file.read_bytes())
    data[int(share * (len(data) - 1))] ^= 1
    file.write_bytes(data)
    for options in ([], ["--redraw"]):
        message = refused(finished, capsys, *options)
        assert f"{file} is damaged" in message
        assert "--overwrite" in message


def test_results_without_a_digest_are_not_trusted(finished, capsys):
    (finished / "results.sha256").unlink()
    message = refused(finished, capsys)
    assert "results.nc cannot be trusted" in message
    assert "--overwrite" in message


def test_results_of_another_seed_beside_the_configuration(finished, tmp_path, capsys):
    other = Settings(pools=5, seed=8, out=tmp_path / "other")
    run.run(SWEEP.like(other))
    for name in ("results.nc", "results.sha256"):
        shutil.copy(other.out / "axes" / name, finished / name)
    message = refused(finished, capsys)
    assert "results.nc is of another configuration than config.json beside it" in message
    assert "seed (8 there, 0 now)" in message
    assert "--overwrite" in message


def test_results_of_other_code_that_lack_a_metric(finished, capsys, monkeypatch):
    """A table that needs a metric which the earlier code did not measure."""
    monkeypatch.setattr(store, "changed", lambda *_: ["mine.py"])
    asking = dataclasses.replace(SWEEP, table=lambda ds, s, t: t.means("new", ds["new"]))
    assert run.main(asking, ["--out", str(finished.parent)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "results.nc was simulated before mine.py changed" in error
    assert "lacks what its table needs now" in error
    assert "'new'" in error
    assert "--overwrite" in error


@pytest.mark.parametrize("name", ["table.csv", "figure.png", "results.nc", "config.json"])
def test_a_folder_in_the_place_of_a_file(tmp_path, capsys, name, monkeypatch):
    """Found before anything is simulated."""
    monkeypatch.setattr(run, "Simulation", None)
    (tmp_path / "axes" / name).mkdir(parents=True)
    for options in ([], ["--overwrite"]):
        assert name in refused(tmp_path / "axes", capsys, *options)


def test_a_table_that_is_not_readable_is_written_anew(finished):
    before = (finished / "table.csv").read_bytes()
    (finished / "table.csv").write_bytes(b"\xff\xfe,")
    (finished / "table.csv").chmod(0)
    assert main(finished) == 0
    assert (finished / "table.csv").read_bytes() == before


# --- outputs in the wrong place


OWN = ("config.json", "table.csv", "results.nc", "results.sha256", "figure.png", ".lock")


@pytest.mark.parametrize("name", [*OWN, "shards/x.npz", "../axes/table.csv", "./config.json"])
def test_json_does_not_overwrite_the_runs_own_files(tmp_path, capsys, name):
    """Neither before they are there nor after, nor through links."""
    folder = tmp_path / "axes"
    folder.mkdir()
    assert "would overwrite the run's own" in refused(folder, capsys, "--json", str(folder / name))
    assert not list(folder.iterdir())
    (folder / "shards").mkdir()
    target = folder / name
    target.write_text("there")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "hard").hardlink_to(target)
    links = ["link"] if name.startswith((".lock", "shards")) else ["link", "hard"]
    for link in links:
        message = refused(folder, capsys, "--json", str(tmp_path / link))
        assert "would overwrite the run's own" in message
    assert target.read_text() == "there"


def test_json_may_stand_beside_the_runs_own_files(finished):
    assert main(finished, "--json", str(finished / "table.json")) == 0
    assert json.loads((finished / "table.json").read_text())


# --- numbers without measure


@pytest.mark.parametrize("field", ["pools", "chunk", "seed", "devices"])
def test_numbers_beyond_measure_are_refused_before_memory_is_taken(tmp_path, capsys, field):
    value = "99999999999999999999"
    if field == "chunk":  # no more than there are pools
        assert main(tmp_path / "axes", f"--{field}", value) == 0
    else:
        message = refused(tmp_path / "axes", capsys, f"--{field}", value)
        assert field in message
        assert value in message


# --- a folder that is finished


@pytest.fixture
def unprivileged():
    """Permissions that hold, even where the tests are run by root."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs users")
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
    except PermissionError:
        pytest.skip("root cannot become another user")
    yield
    if user == 0:
        os.seteuid(0)


@pytest.fixture
def read_only(runs):
    """A finished run in a folder that nobody may write to."""
    with tempfile.TemporaryDirectory() as out:  # tmp_path can be entered by its owner alone
        shutil.copytree(runs / "finished", out, dirs_exist_ok=True)
        folder = Path(out) / "axes"
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        Path(out).chmod(0o755)
        yield folder
        folder.chmod(0o755)


def state(folder):
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_a_finished_run_in_a_read_only_folder_is_printed_again(read_only, unprivileged, capsys):
    before = state(read_only)
    for options in ([], ["--redraw"]):
        capsys.readouterr()
        assert main(read_only, *options) == 0
        shown = capsys.readouterr()
        assert "quantity" in shown.out
        assert "written:" not in shown.out
        assert f"not written, as {read_only} is read-only: " in shown.err
        assert "table.csv" in shown.err
        assert "figure.png" in shown.err
    assert state(read_only) == before
    # What would have to be written is still refused.
    assert "cannot write to" in refused(read_only, capsys, "--overwrite")
    assert "seed (0 there, 1 now)" in refused(read_only, capsys, "--seed", "1")


def test_a_finished_run_says_that_nothing_is_simulated(finished, capsys, monkeypatch):
    monkeypatch.setattr(run, "Simulation", None)
    capsys.readouterr()
    assert main(finished) == 0
    shown = capsys.readouterr()
    assert f"{finished / 'results.nc'} is complete: nothing is simulated" in shown.err
    assert "quantity" in shown.out


# --- a kill at the first write


def test_a_kill_while_the_configuration_is_written(tmp_path, monkeypatch):
    folder = tmp_path / "axes"
    torn = []

    def killed(temporary, target):
        torn.append(temporary.with_name(f".4711.{target.name}"))
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(os, "replace", killed)
        assert main(folder) == 130
    torn[0].write_text("{")  # as SIGKILL would have left it
    assert main(folder) == 0
    assert not torn[0].exists()
    (folder / ".4711.figure.png").write_text("")
    assert main(folder, "--redraw") == 0
    assert {p.name for p in folder.iterdir()} == {*OWN}


def test_what_a_kill_has_left_is_left_alone_where_a_run_is_refused(tmp_path, capsys):
    folder = tmp_path / "axes"
    folder.mkdir()
    theirs = [folder / name for name in (".4711.table.csv", ".2026.txt", "results.nc")]
    for file in theirs:
        file.write_text("theirs")
    assert "holds results.nc but no config.json" in refused(folder, capsys)
    assert all(file.exists() for file in theirs)
