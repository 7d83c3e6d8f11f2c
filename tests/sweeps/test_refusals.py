"""Options that make no sense are refused in one line before anything runs, and nothing is written.

refusals.csv lists a sweep, options of its smoke preset, and a part of what is said.
"""

import csv
import importlib
import shlex
from pathlib import Path

import pytest

from jbt.experiments import run

with Path(__file__).with_name("refusals.csv").open(encoding="utf-8", newline="") as file:
    REFUSALS = list(csv.DictReader(file))


def ids(row):
    return f"{row['sweep']} {row['options']}"


@pytest.mark.parametrize("row", REFUSALS, ids=ids)
def test_wrong_options_are_refused(row, tmp_path, monkeypatch, capsys):
    sweep = importlib.import_module(f"sweeps.{row['sweep']}").SWEEP
    monkeypatch.setattr(run, "fill", None)  # nothing may be simulated
    options = ["--preset", "smoke", "--out", str(tmp_path), *shlex.split(row["options"])]
    assert run.main(sweep, options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert row["message"] in line
    assert not list(tmp_path.iterdir())
