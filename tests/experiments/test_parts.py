"""A sweep divided among processes gives the same results as one; missing parts are named."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support import noise

from jbt import runtime
from jbt.experiments import folder as store
from jbt.experiments import parts, provenance, run, shards
from jbt.experiments.parts import Part

pytestmark = pytest.mark.heavy

SCRIPT = Path(noise.__file__)
POOLS = 200


def main(out, *options):
    return run.main(noise.SWEEP, ["--out", str(out), *options])


def start(out, *options, **environment):
    """The same in a process of its own that prints to a file; a full pipe would stop it."""
    environment = {**os.environ, **environment}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # which JAX has set in this process
    log = out / f"{len(list(out.glob('*.log')))}.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--out", str(out), *options],
            env=environment | {"PYTHONPATH": str(SCRIPT.parents[2])},
            stdout=file,
            stderr=file,
        )
    return process, log


def ended(process, log):
    """(exit code, what was printed)."""
    return process.wait(timeout=300), log.read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One undisturbed run."""
    out = tmp_path_factory.mktemp("whole")
    assert main(out, "--pools", str(POOLS)) == 0
    return out / "noise"


def same(folder, whole):
    left, right = (xr.load_dataset(f / "results.nc") for f in (folder, whole))
    xr.testing.assert_equal(left, right)
    assert (folder / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()
    names = {path.name for path in folder.iterdir()}
    assert names == {
        ".lock",
        "config.json",
        "results.nc",
        "results.sha256",
        "table.csv",
        "figure.png",
    }


@pytest.mark.parametrize(("pools", "count"), [(1, 1), (10, 3), (7, 7), (3, 5), (1000, 64)])
def test_parts_share_out_the_pools(pools, count):
    shares = [Part(i, count).pools(pools) for i in range(count)]
    assert [i for share in shares for i in share] == list(range(pools))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    for i in range(pools):
        (part,) = parts.holding(np.array([i]), pools, count)
        assert i in part.pools(pools)
    assert len(parts.holding(np.arange(pools), pools, count)) == min(pools, count)


def test_several_parts_equal_one_run(tmp_path, whole, capsys):
    folder = tmp_path / "noise"
    for part in ("2/3", "0/3", "1/3"):
        assert main(tmp_path, "--part", part) == 0
        assert f"part {part} is complete" in capsys.readouterr().out
        assert not (folder / "results.nc").exists()
    assert main(tmp_path) == 0
    same(folder, whole)
    assert xr.open_dataset(folder / "results.nc").attrs["device"] == runtime.device_name()
    # What is complete stays as it is.
    assert main(tmp_path, "--part", "1/3") == 0
    assert "nothing is left" in capsys.readouterr().out
    same(folder, whole)


def test_numbers_do_not_depend_on_the_chunk_and_the_devices_of_a_part(tmp_path, whole):
    for part, chunk, devices in (("0/3", "50", "2"), ("1/3", "2", "1"), ("2/3", "16", "2")):
        assert main(tmp_path, "--part", part, "--chunk", chunk, "--devices", devices) == 0
    assert main(tmp_path) == 0
    same(tmp_path / "noise", whole)


def test_what_is_missing_is_named_and_nothing_is_computed(tmp_path, capsys, monkeypatch):
    for part in ("1/4", "3/4"):
        assert main(tmp_path, "--part", part) == 0
    folder = tmp_path / "noise"
    last = sorted((folder / "shards" / "3-of-4").glob("few-*.npz"))[-1]
    last.unlink()
    monkeypatch.setattr(run, "Simulation", None)
    capsys.readouterr()
    with store.locked(folder / "shards" / "3-of-4"):
        assert main(tmp_path) == 2
    error = capsys.readouterr().err
    assert "3 of 4 parts are incomplete (0/4, 2/4, 3/4), some of them running (3/4)" in error
    assert len(error.splitlines()) == 1
    assert not (folder / "results.nc").exists()


def test_a_part_that_has_only_begun_is_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run, "simulate_missing", lambda *_: None)
    assert main(tmp_path, "--part", "0/2") == 0
    assert main(tmp_path) == 2
    assert "2 of 2 parts are incomplete (0/2, 1/2)" in capsys.readouterr().err


def test_long_lists_are_cut():
    listed = parts.listed([Part(i, 100) for i in range(100)])
    assert listed.startswith("0/100, 1/100, ")
    assert listed.endswith("19/100 and 80 more")


@pytest.mark.heavy
def test_two_parts_at_once_one_killed_and_started_again(tmp_path, whole, monkeypatch):
    place = tmp_path / "noise" / "shards"
    killed = start(tmp_path, "--part", "0/2", "--chunk", "20", NOISE_DIES_AT="4")
    other = start(tmp_path, "--part", "1/2")
    for running, expected in ((killed, -signal.SIGKILL), (other, 0)):
        code, text = ended(*running)
        assert code == expected, text
    assert len(list(place.glob("*/.[0-9]*.npz"))) == 1
    kept = (place / "0-of-2").glob("many-*.npz")
    survivors = {int(i) for path in kept for i in np.load(path)["ids"]}
    assert 40 <= len(survivors) <= 60  # it may have written config.json, or the other one
    saved = set()

    def save(folder, group, ids, *rest, keep=shards.save_shard):
        if group == "many":
            saved.update(ids.tolist())
        keep(folder, group, ids, *rest)

    monkeypatch.setattr(shards, "save_shard", save)
    assert main(tmp_path, "--part", "0/2") == 0
    assert saved == set(range(POOLS // 2)) - survivors
    assert not list(place.glob("*/.[0-9]*"))
    assert main(tmp_path) == 0
    same(tmp_path / "noise", whole)


def test_parts_go_on_with_what_a_whole_run_has_begun(tmp_path, whole, monkeypatch):
    settings = noise.SWEEP.at(out=tmp_path)
    many, folder = noise.groups(settings)[0], tmp_path / "noise"
    folder.mkdir()
    configuration = provenance.configuration_of(settings)
    store.claim(folder, configuration, provenance.code_of(noise.SWEEP), overwrite=False)
    ids = np.array([2, 3, 99, 100, 130])
    simulation = run.Simulation(many.experiment, many.conditions, ids)
    for chunk, out in simulation.chunks():
        shards.save_shard(folder, many.name, chunk, {**out, shards.SECONDS: np.array(0.0)})
    left = shards.missing(folder, many, Part(0, 2))
    assert left.tolist() == sorted(set(range(100)) - set(ids.tolist()))
    for part in ("0/2", "1/2"):
        assert main(tmp_path, "--part", part) == 0
    assert main(tmp_path) == 0
    same(folder, whole)


def test_one_process_a_part(tmp_path, capsys):
    assert main(tmp_path, "--part", "0/2") == 0
    part_folder = tmp_path / "noise" / "shards" / "0-of-2"
    with store.locked(part_folder):
        (part_folder / ".1234.many-0000000000.npz").write_bytes(b"PK")  # half written
        assert main(tmp_path, "--part", "0/2") == 2
        assert "another run is writing to" in capsys.readouterr().err
        assert main(tmp_path, "--part", "1/2") == 0  # at the same time
        assert (part_folder / ".1234.many-0000000000.npz").exists()


def test_a_part_waits_for_one_that_is_starting(tmp_path):
    entered = threading.Event()

    def starting():
        with store.locked(tmp_path / "noise"):
            entered.set()
            time.sleep(0.3)

    other = threading.Thread(target=starting)
    other.start()
    entered.wait()
    assert main(tmp_path, "--part", "0/2") == 0
    other.join()


def test_process_0_waits_for_what_a_network_file_system_does_not_list_yet(tmp_path, monkeypatch):
    listings = iter([[Part(1, 2)], []])
    monkeypatch.setattr(shards, "incomplete", lambda *_: next(listings))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    run._check_complete([], tmp_path, 2, wait=60.0)
    assert next(listings, None) is None


def test_a_part_does_not_enter_a_folder_that_a_whole_run_is_in(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run, "CLAIM_SECONDS", 0.1)
    with store.locked(tmp_path / "noise"):
        assert main(tmp_path, "--part", "0/2") == 2
    assert "another run is writing to" in capsys.readouterr().err


def test_parts_of_another_count_and_another_configuration_are_refused(tmp_path, capsys):
    assert main(tmp_path, "--part", "0/2") == 0
    assert main(tmp_path, "--part", "0/3") == 2
    assert "holds parts of 2, got part 0/3" in capsys.readouterr().err
    assert main(tmp_path, "--part", "1/2", "--seed", "1") == 2
    assert "seed (0 there, 1 now)" in capsys.readouterr().err


def test_starting_afresh_waits_for_running_parts_and_removes_all(tmp_path, whole, capsys):
    for part in ("0/2", "1/2"):
        assert main(tmp_path, "--part", part, "--seed", "5") == 0
    place = tmp_path / "noise" / "shards"
    with store.locked(place / "1-of-2"):
        assert main(tmp_path, "--overwrite") == 2
    assert "parts are running (1/2)" in capsys.readouterr().err
    assert len(list(place.glob("*/*.npz"))) > 2
    assert main(tmp_path, "--overwrite") == 0
    same(tmp_path / "noise", whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--part", "2/2"], "part must be I/N with I from 0 to N - 1, got 2/2"),
        (["--part", "0/0"], "part must be I/N"),
        (["--part", "-1/2"], "part must be I/N"),
        (["--part", "1"], "part must be I/N with I from 0 to N - 1, got '1'"),
        (["--part", "1/two"], "part must be I/N"),
        (["--part", "0/201"], "part 0/201: there are only 200 pools"),
        (["--part", "0/2", "--overwrite"], "--overwrite does not go with --part"),
        (["--part", "0/2", "--redraw"], "--redraw does not go with --part"),
        (["--part", "0/2", "--json", "table.json"], "--json does not go with --part"),
        (["--distributed", "--overwrite"], "--overwrite does not go with --distributed"),
        (["--coordinator", "node:1234"], "--coordinator needs --distributed"),
        (["--distributed", "--coordinator", "node"], "coordinator must be ADDRESS:PORT"),
        (["--distributed", "--coordinator", "node:1234"], "cannot join"),
        (["--distributed"], "cannot join the other processes"),  # JAX runs here already
    ],
)
def test_bad_options_end_with_one_line_and_nothing_written(tmp_path, capsys, options, message):
    out = tmp_path / "none"
    options = [f"--part={options[1]}", *options[2:]] if options[0] == "--part" else options
    assert main(out, *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def test_what_is_missing_to_join_is_named(monkeypatch):
    def no_job(*_, **__):
        raise ValueError("Number of processes must be defined.")

    monkeypatch.setattr(runtime.jax.distributed, "initialize", no_job)
    with pytest.raises(
        ValueError, match=r"is found .*; give --coordinator ADDRESS:PORT and --part"
    ):
        runtime.join()
    with pytest.raises(ValueError, match=r"is found .*; give --part I/N, the number of this"):
        runtime.join("node:1234")


def test_a_wait_is_said_when_it_is_one(capsys):
    with run.said_after(0.1, "waiting"):
        pass
    time.sleep(0.2)
    assert capsys.readouterr().err == ""
    with run.said_after(0.0, "waiting"):
        time.sleep(0.2)
    assert capsys.readouterr().err == "waiting\n"


def test_a_taken_port_is_named():
    with (
        socket.create_server(("", 0)) as server,
        pytest.raises(ValueError, match="cannot listen at port"),
    ):
        runtime.join(f"localhost:{server.getsockname()[1]}", (0, 2))


@pytest.mark.heavy
def test_three_processes_one_killed_and_all_started_again(tmp_path, whole):
    place = tmp_path / "noise" / "shards"
    join = ["--distributed", "--coordinator", f"localhost:{free_port()}"]
    dies: list[dict[str, str]] = [{}, {"NOISE_DIES_AT": "4"}, {}]
    running = [
        start(tmp_path, *join, "--part", f"{i}/3", "--chunk", "4", NOISE_HEARTBEAT="20", **dies[i])
        for i in range(3)
    ]
    # JAX ends the others; what has been computed stays.
    for i, process in enumerate(running):
        code, text = ended(*process)
        assert code == -(signal.SIGKILL if i == 1 else signal.SIGABRT), text
    kept = {i: len(list((place / f"{i}-of-3").glob("[!.]*.npz"))) for i in range(3)}
    assert 2 <= kept[1] <= 3
    assert not (tmp_path / "noise" / "results.nc").exists()
    assert main(tmp_path) == 2
    # As SLURM starts them, where JAX finds out by itself.
    job = str(free_port())
    slurm = {
        **{"SLURM_JOB_ID": job, "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "3"},
        **{"SLURM_STEP_NUM_NODES": "1", "SLURM_LOCALID": "0"},
    }
    running = [start(tmp_path, "--distributed", SLURM_PROCID=str(i), **slurm) for i in range(3)]
    for i, process in enumerate(running):
        code, text = ended(*process)
        assert code == 0, text
        assert f"part {i}/3 is complete" in text
        assert ("written:" in text) == (i == 0)
        begun = re.search(r"noise \d/3: +(\d+)%", text)
        assert begun is None or int(begun[1]) > 0  # None: nothing was left to compute
    same(tmp_path / "noise", whole)
