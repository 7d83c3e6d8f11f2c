"""What a run says beforehand of how long it takes."""

import dataclasses

import pytest
from support.small_sweep import group, sweep_of

from jbt.experiments import run, times
from sweeps.report.runs import sweep_names
from sweeps.report.runs import sweep_of as sweep_named

MEASURED = times.Times(compile_seconds=20.0, run_seconds=1_000.0, fits=8_000.0, smoke_seconds=9.4)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 s"), (59.4, "59 s"), (59.6, "1 min"), (3_569.0, "59 min"), (5_400.0, "1.5 h")],
)
def test_a_duration_has_one_unit(seconds, said):
    assert times.duration(seconds) == said


def test_simulation_takes_as_long_as_it_has_fits_and_compiling_does_not():
    whole, half = (MEASURED.said("full", fits) for fits in (8_000.0, 480.0))
    assert whole.count("20 s of compiling") == half.count("20 s of compiling") == 1
    assert "and 17 min of simulation" in whole
    assert "and 1 min of simulation" in half
    assert MEASURED.said("smoke", 8_000.0).startswith("about 9 s on two CPU cores")


def test_a_fit_costs_the_cube_of_its_items():
    small = group("small", [1.0, 2.0], pools=10)
    large = dataclasses.replace(small, n_items=60, fits=3)
    assert times.fits([small]) == 10 * small.n_conditions
    assert times.fits([small, large]) == 10 * small.n_conditions * (1 + 3 * 2**3)


@pytest.mark.parametrize("name", sweep_names())
def test_every_sweep_says_how_long_it_takes(name):
    measured = times.times_of(sweep_named(name))
    assert measured is not None
    assert all(0 < seconds < 7_200 for seconds in dataclasses.astuple(measured)[:2])
    assert 2 < measured.smoke_seconds < 120
    assert measured.fits >= 1


def test_a_run_says_it_before_the_bar(tmp_path, capsys, monkeypatch):
    sweep = sweep_of(group("all", [1.0, 2.0], pools=8))(pools=8, out=tmp_path)
    run.run(sweep)
    said = capsys.readouterr().err
    line, bar = said.index("8 pools under"), said.index("pool/s")
    assert line < bar
    assert "1 program to compile; some seconds of compiling each" in said  # nobody measured it

    monkeypatch.setattr(times, "times_of", lambda sweep: MEASURED)
    run.run(dataclasses.replace(sweep, overwrite=True))
    assert "1 program to compile; on two CPU cores about 20 s" in capsys.readouterr().err
    run.run(sweep)  # it is finished
    assert "to compile" not in capsys.readouterr().err
