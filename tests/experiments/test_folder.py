"""The digest of a run's results, and a file that takes every write."""

import os
import shutil
import subprocess
import sys
from io import FileIO
from pathlib import Path

import h5py
import numpy as np
import pytest

from jbt.experiments import folder as store

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("at", [0, 1, 500, 998, 999])
def test_any_changed_byte_is_found(tmp_path, at):
    file, digest = tmp_path / "results.nc", tmp_path / "results.sha256"
    data = bytearray(range(250)) * 4
    store.write_results(tmp_path, lambda p: p.write_bytes(data))
    store.check_digest(tmp_path)
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"results.nc is damaged: .* in results.sha256"):
        store.check_digest(tmp_path)
    file.write_bytes(data[:at])
    with pytest.raises(ValueError, match=r"results.nc is damaged"):
        store.check_digest(tmp_path)
    for damaged in (b"", b"0" * 63 + b"  results.nc\n", digest.read_bytes()[:-1]):
        digest.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"results.sha256 is damaged: it holds no digest of"):
            store.check_digest(tmp_path)
    digest.unlink()
    with pytest.raises(ValueError, match=r"results.nc cannot be trusted: there is no .*sha256"):
        store.check_digest(tmp_path)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_sha256sum_reads_the_digest(tmp_path):
    store.write_results(tmp_path, lambda p: p.write_bytes(b"1"))
    subprocess.run(["sha256sum", "--check", "--quiet", store.DIGEST], cwd=tmp_path, check=True)


def test_the_digest_is_there_before_its_file(tmp_path, monkeypatch):
    """Or a kill between the two would leave a file that cannot be trusted."""
    order = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(b.name), replace(a, b)))
    store.write_results(tmp_path, lambda p: p.write_bytes(b"1"))
    assert order == [store.DIGEST, store.RESULTS]


FILLING = """
import resource, sys
from pathlib import Path
import h5py
import numpy as np
from jbt.border import files
from jbt.experiments import folder as store

values = np.random.default_rng(0).random((4, 5000), np.float32)
folder = Path(sys.argv[1])

def write(path):
    with store.SteadyFile(path, "w+") as steady, h5py.File(steady, "w") as file:
        file.attrs["config"] = "x" * 1000
        data = file.create_dataset("m", values.shape, "f4", chunks=(4, 500), compression="gzip")
        for begin in range(0, 5000, 250):
            data[:, begin : begin + 250] = values[:, begin : begin + 250]

files.write_whole(folder / "whole", write)
with h5py.File(folder / "whole") as file:
    assert (file["m"][...] == values).all()
size = (folder / "whole").stat().st_size
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for limit in [1, 100, 1000, *range(2000, size, 4001), size - 1]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        files.write_whole(folder / "part", write)
    except ValueError as error:
        print(error)
    assert [p.name for p in folder.iterdir()] == ["whole"]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
@pytest.mark.heavy
def test_hdf5_survives_a_disk_that_fills_up(tmp_path):
    """At whatever write: attributes, pieces of data, their index when it closes. And so does the
    process as it ends, when HDF5 closes what it takes for open."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FILLING, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 20
    assert set(lines) == {f"cannot write {tmp_path / 'part'}: File too large"}
    assert done.stderr == ""


class CtrlC(FileIO):
    def write(self, data):
        raise KeyboardInterrupt


class Interrupted(store.SteadyFile, CtrlC):
    """Ctrl-C comes while HDF5 writes."""


def test_ctrl_c_is_not_lost_within_the_library(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        Interrupted(tmp_path / "part", "w+") as steady,
        h5py.File(steady, "w") as file,
    ):
        file["m"] = np.arange(5)
