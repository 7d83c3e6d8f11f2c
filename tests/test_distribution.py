"""A wheel holds what a checkout runs: commands, library, experiments, data files."""

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.heavy
def test_a_wheel_works_outside_the_checkout(python, tmp_path):
    dist, unpacked, empty = (tmp_path / name for name in ("dist", "wheel", "empty"))
    empty.mkdir()
    python("-m", "pip", "wheel", "-q", "--no-deps", "-w", dist, ROOT, cwd=empty)
    (wheel,) = dist.glob("judge_bt-*.whl")
    zipfile.ZipFile(wheel).extractall(unpacked)
    run = {"cwd": empty, "PYTHONPATH": str(unpacked)}
    home = python("-c", "import jbt.sweeps.crossing as c; print(c.__file__)", **run)
    assert Path(home.strip()).is_relative_to(unpacked)
    python("-m", "jbt.cli", "sweep", "crossing", "--preset", "smoke", "--pools", "16", **run)
    table = (empty / "results" / "crossing" / "table.csv").read_text()
    assert any(line.split(",")[6] for line in table.splitlines()[1:])  # the paper's numbers
    python("-m", "jbt.cli", "example", "tables", **run)
    assert "Type next" in python(
        "-m", "jbt.cli", "doctor", "--verdicts", "tables/verdicts.csv", **run
    )
    regions = "from jbt.twins import regions; print(len(regions.read()))"
    assert int(python("-c", regions, **run)) > 1
