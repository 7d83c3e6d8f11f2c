"""A sweep divided among parts or workers, some of them killed, gives the numbers of one run."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import absl.logging  # noqa: F401  its handler holds stderr, which submitit would close
import pytest
import xarray as xr
from support import noise

from jbt.experiments import store, work

SCRIPT = Path(noise.__file__)
LINE = ["--pools", "60", "--chunk", "8", "--devices", "1"]


def start(out, *options, **environment):
    """The sweep in a process of its own."""
    with (out / "log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, str(SCRIPT), "--out", str(out), *LINE, *options],
            env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[2]), **environment},
            stdout=log,
            stderr=log,
        )


def ran(out, *options, code=0, **environment):
    assert start(out, *options, **environment).wait(timeout=300) == code, (out / "log").read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One undisturbed run in this process, with chunks of another size."""
    out = tmp_path_factory.mktemp("whole")
    assert noise.SWEEP.main(["--out", str(out), "--pools", "60", "--chunk", "20"]) == 0
    return out / "noise"


def same(out, whole):
    left, right = (store.Store(f / store.RESULTS).results() for f in (out / "noise", whole))
    xr.testing.assert_equal(left, right)
    assert (out / "noise" / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()


def written(out):
    return len(list(out.glob("noise/results.zarr/*/done/c/*[0-9]")))


@pytest.mark.heavy
def test_parts_one_killed_and_given_again(tmp_path, whole):
    """It dies with a file half written; the rest of its chunks are computed by the whole run."""
    ran(tmp_path, "--part", "6/7")  # whoever is first makes the store, which is many files
    killed = start(tmp_path, "--part", "0/2", NOISE_DIES_AT="5")
    ran(tmp_path, "--part", "1/2")
    assert killed.wait() == -signal.SIGKILL
    before = written(tmp_path)
    assert len(list(tmp_path.rglob("*.partial"))) == 1
    assert noise.SWEEP.main(["--out", str(tmp_path), *LINE, "--part", "3/7"]) == 0  # another range
    assert noise.SWEEP.main(["--out", str(tmp_path), *LINE]) == 0
    assert 3 < before < written(tmp_path)
    assert not list(tmp_path.rglob("*.partial"))
    same(tmp_path, whole)


@pytest.mark.heavy
def test_dask_with_a_killed_worker_and_a_killed_client(tmp_path, whole, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("NOISE_KILL", str(tmp_path / "kill"))
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT.parents[2]))
    (tmp_path / "kill").touch()
    options = {"threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        address = cluster.scheduler_address.replace("tcp", "dask")
        client = start(tmp_path, "--executor", address, NOISE_KILL="")
        while not written(tmp_path) and client.poll() is None:
            time.sleep(0.05)
        client.kill()
        client.wait()
        assert not (tmp_path / "kill").exists()
        assert written(tmp_path) >= 1
        ran(tmp_path, "--executor", address, NOISE_KILL="")
    same(tmp_path, whole)


@pytest.mark.nightly
def test_jobs_of_submitit_one_killed(tmp_path, whole):
    pytest.importorskip("submitit")
    (tmp_path / "kill").touch()
    sweep = noise.SWEEP(pools=60, chunk=8, devices=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISE_KILL", str(tmp_path / "kill"))
        patch.setenv("PYTHONPATH", f"{SCRIPT.parents[2]}:{SCRIPT.parents[1]}")
        text = "slurm:cluster=local,jobs=2,timeout_min=5"
        with work.executor_of(text, tmp_path / "jobs") as workers:
            (tmp_path / "kill").unlink()
            here = work.Work(sweep)
            (tmp_path / "kill").touch()
            pools = range(60)
            chunks = [store.Chunk("many", i, pools[i : i + 16]) for i in range(0, 60, 16)]
            found = list(work.computed(here, chunks, *workers))
    assert not (tmp_path / "kill").exists()
    expected = store.Store(whole / store.RESULTS).results()["noise"].values[:64]
    assert len(found) == 4
    for chunk in found:
        ids = slice(chunk.chunk.number, chunk.chunk.number + 16)
        assert chunk.numbers["noise"].tobytes() == expected[:, ids].tobytes()


def test_a_worker_with_other_code_is_refused():
    with pytest.raises(ValueError, match=r"runs other code than this process \(jax\)"):
        work.compute_elsewhere(noise.SWEEP(pools=4), {"jax": "another"}, [])


class Dying(Executor):
    """Whose workers die so often."""

    def __init__(self, deaths):
        self.left = deaths

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.left -= 1
        if self.left >= 0:
            future.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_chunks_are_given_out_again_until_they_kill_too_many(capsys):
    here = work.Work(noise.SWEEP(pools=60, chunk=8, devices=1))
    chunks = [store.Chunk("many", 7, range(56, 60)), store.Chunk("few", 0, range(7))]
    found = list(work.computed(here, chunks, Dying(3), None))
    assert {chunk.numbers["noise"].shape for chunk in found} == {(64, 4), (64, 7)}
    assert capsys.readouterr().err.count("a worker failed") == 3
    with pytest.raises(ValueError, match=r"failed 4 times at chunk 7 of many, the last time with"):
        list(work.computed(here, chunks[:1], Dying(4), None))


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("spark://here", "cannot use spark://here: an executor is dask://HOST:PORT or slurm"),
        ("slurm:cluster=abacus", "cannot use slurm:cluster=abacus"),
        ("slurm:cluster=local,jobs=0", "cannot use slurm:cluster=local,jobs=0"),
    ],
)
def test_an_executor_that_does_not_exist_ends_with_one_line(tmp_path, capsys, executor, message):
    assert noise.SWEEP.main(["--out", str(tmp_path), *LINE, "--executor", executor]) == 2
    error = capsys.readouterr().err.splitlines()
    assert message in error[-1]
    assert sum(line.startswith("error") for line in error) == 1
