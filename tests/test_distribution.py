"""Wheel and sdist hold what a checkout runs: commands, library, experiments, data files."""

import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, python):
    folder = tmp_path_factory.mktemp("dist")
    python("-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT), cwd=folder)
    (built,) = folder.glob("judge_bt-*.whl")
    return built


@pytest.mark.heavy
def test_a_wheel_works_outside_the_checkout(wheel, python, tmp_path):
    unpacked, empty = tmp_path / "wheel", tmp_path / "empty"
    empty.mkdir()
    zipfile.ZipFile(wheel).extractall(unpacked)
    run = {"cwd": empty, "PYTHONPATH": str(unpacked)}
    home = python("-c", "import jbt.sweeps.crossing as c; print(c.__file__)", **run)
    assert Path(home.strip()).is_relative_to(unpacked)
    python("-m", "jbt.cli", "sweep", "crossing", "--preset", "smoke", "--pools", "16", **run)
    table = (empty / "results" / "crossing" / "table.csv").read_text()
    assert "crossing_limit" in table  # and the numbers of paper.csv stand beside ours
    assert any(line.split(",")[6] for line in table.splitlines()[1:])
    python("-m", "jbt.cli", "example", "tables", **run)
    assert "Type next" in python(
        "-m", "jbt.cli", "doctor", "--verdicts", "tables/verdicts.csv", **run
    )
    regions = "from jbt.twins import regions; print(len(regions.read()))"
    assert int(python("-c", regions, **run)) > 1


@pytest.mark.nightly
def test_the_wheel_of_the_sdist_has_the_same_files(wheel, python, tmp_path):
    python("-m", "pip", "install", "-q", "--target", str(tmp_path / "tools"), "hatchling", cwd=ROOT)
    tools = {"PYTHONPATH": str(tmp_path / "tools")}
    build = f"import hatchling.build as b; print(b.build_{{}}({str(tmp_path)!r}))"
    name = python("-c", build.format("sdist"), cwd=ROOT, **tools).split()[-1]
    with tarfile.open(tmp_path / name) as sdist:
        sdist.extractall(tmp_path, filter="data")
    source = tmp_path / name.removesuffix(".tar.gz")
    assert {"README.md", "CHANGELOG.md", "LICENSE", "tests", "docs"} <= {
        p.name for p in source.iterdir()
    }
    other = tmp_path / python("-c", build.format("wheel"), cwd=source, **tools).split()[-1]
    assert sorted(zipfile.ZipFile(other).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())
