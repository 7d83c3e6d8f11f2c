"""Files whole or not at all, their digests, and a file that takes every write."""

import errno
import os
import shutil
import subprocess
import sys
from io import FileIO
from pathlib import Path

import h5py
import numpy as np
import pytest

from jbt.border import files

ROOT = Path(__file__).parents[2]


def test_a_failed_write_leaves_what_was_there_and_names_the_file(tmp_path):
    target = tmp_path / "table.csv"
    target.write_text("before")

    def full(path):
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ValueError, match=r"cannot write .*table.csv: No space left on device"):
        files.write_whole(target, full)
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert target.read_text() == "before"


def test_files_that_belong_together_are_all_there_or_none(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("before")

    def full(path):
        path.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ValueError, match=r"cannot write .*two.csv: No space left on device"):
        files.write_together(
            {one: lambda path: path.write_text("after"), two: full}, overwrite=True
        )
    assert [p.name for p in tmp_path.iterdir()] == ["one.csv"]
    assert one.read_text() == "before"
    writes = {p: lambda path: path.write_text("after") for p in (one, two)}
    files.write_together(writes, overwrite=True)
    assert (one.read_text(), two.read_text()) == ("after", "after")
    assert len(list(tmp_path.iterdir())) == 2


def test_what_a_killed_write_leaves_goes_with_the_next(tmp_path):
    """And nothing else: other files may begin with a point and digits."""
    killed = tmp_path / ".4711.out.json"
    others = [tmp_path / name for name in (".2026.notes", ".4711.my.out.json", ".x.out.json")]
    for file in (killed, *others):
        file.write_text("")
    files.write_text(tmp_path / "out.json", "{}\n")
    assert killed.exists()  # somebody may be writing it
    for file in (killed, *others):
        os.utime(file, (0, 0))
    files.write_text(tmp_path / "out.json", "{}\n", overwrite=True)
    assert not killed.exists()
    assert all(file.exists() for file in others)


@pytest.mark.parametrize("quick", [files.write_text, lambda p, t: files.write_together({p: t})])
def test_who_writes_a_file_at_the_same_time_takes_nothing_away(tmp_path, quick):
    target = tmp_path / "report.md"
    text = "quick" if quick is files.write_text else lambda path: path.write_text("quick")

    def slow(path):
        path.write_text("slow")
        quick(target, text)
        assert target.read_text() == "quick"

    files.write_together({target: slow})
    assert target.read_text() == "slow"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("at", [0, 1, 500, 998, 999])
def test_any_changed_byte_is_found(tmp_path, at):
    file, digest = tmp_path / "results.nc", tmp_path / "results.sha256"
    data = bytearray(range(250)) * 4
    files.write_whole(file, lambda p: p.write_bytes(data), digest=digest)
    files.check_digest(file, digest)
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"results.nc is damaged: .* in results.sha256"):
        files.check_digest(file, digest)
    file.write_bytes(data[:at])
    with pytest.raises(ValueError, match=r"results.nc is damaged"):
        files.check_digest(file, digest)
    for damaged in (b"", b"0" * 63 + b"  results.nc\n", digest.read_bytes()[:-1]):
        digest.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"results.sha256 is damaged: it holds no digest of"):
            files.check_digest(file, digest)
    digest.unlink()
    with pytest.raises(ValueError, match=r"results.nc cannot be trusted: there is no .*sha256"):
        files.check_digest(file, digest)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs sha256sum")
def test_sha256sum_reads_the_digest(tmp_path):
    files.write_whole(
        tmp_path / "a.nc", lambda p: p.write_bytes(b"1"), digest=tmp_path / "a.sha256"
    )
    subprocess.run(["sha256sum", "--check", "--quiet", "a.sha256"], cwd=tmp_path, check=True)


def test_the_digest_is_there_before_its_file(tmp_path, monkeypatch):
    """Or a kill between the two would leave a file that cannot be trusted."""
    order = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(b.name), replace(a, b)))
    files.write_whole(tmp_path / "a", lambda p: p.write_bytes(b"1"), digest=tmp_path / "b")
    assert order == ["b", "a"]


FILLING = """
import resource, sys
from pathlib import Path
import h5py
import numpy as np
from jbt import files

values = np.random.default_rng(0).random((4, 5000), np.float32)
folder = Path(sys.argv[1])

def write(path):
    with files.SteadyFile(path, "w+") as steady, h5py.File(steady, "w") as file:
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


class Interrupted(files.SteadyFile, CtrlC):
    """Ctrl-C comes while HDF5 writes."""


def test_ctrl_c_is_not_lost_within_the_library(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        Interrupted(tmp_path / "part", "w+") as steady,
        h5py.File(steady, "w") as file,
    ):
        file["m"] = np.arange(5)
