import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from support.small_sweep import group, sweep_of

from jbt.experiments import folder as store
from jbt.experiments import provenance, run, shards
from jbt.experiments.declare import Sweep as Settings
from jbt.experiments.paper import PaperNumber
from jbt.simulation import memory, simulate
from sweeps import acquisition, crossing, crossing_factors

ROOT = Path(__file__).parents[2]
FILES = {".lock", "config.json", "results.nc", "results.sha256", "table.csv", "figure.png"}
SMALL = ["--n-items", "8", "--k", "2", "--rho", "0.0", "0.7", "--pools", "48", "--seed", "3"]


def command(out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "sweeps.crossing", "--out", str(out), *options]


def same_results(a: Path, b: Path) -> None:
    left, right = xr.load_dataset(a / "results.nc"), xr.load_dataset(b / "results.nc")
    xr.testing.assert_equal(left, right)
    assert (a / "table.csv").read_bytes() == (b / "table.csv").read_bytes()


@pytest.mark.heavy
def test_sigkill_and_again_equals_an_undisturbed_run(tmp_path):
    options = [
        "--n-items",
        "8",
        "--k",
        "2",
        "--rho",
        "0.0",
        "0.7",
        "--pools",
        "1500",
        "--chunk",
        "16",
    ]
    assert "JBT_CACHE" in os.environ
    environment = {**os.environ}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # which JAX has set in this process
    broken, whole = tmp_path / "broken" / "crossing", tmp_path / "whole" / "crossing"
    running = subprocess.Popen(
        command(tmp_path / "broken", *options), cwd=ROOT, env=environment, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while len(list(broken.glob("shards/*.npz"))) < 4 and time.monotonic() < deadline:
        assert running.poll() is None, "ended before it could be killed"
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    survivors = len(list(broken.glob("shards/*.npz")))
    assert survivors >= 4
    assert not (broken / "results.nc").exists()
    again = command(tmp_path / "broken", *options)
    done = subprocess.run(again, cwd=ROOT, env=environment, check=True, capture_output=True)
    # A program kept by an earlier run is loaded without XLA's alarm about it.
    assert b"cpu_aot_loader" not in done.stderr
    assert run.main(crossing.SWEEP, ["--out", str(tmp_path / "whole"), *options]) == 0
    same_results(broken, whole)
    assert {p.name for p in broken.iterdir()} == FILES


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(out)]) == 0
    return out


def test_files_and_provenance(finished):
    folder = finished / "crossing"
    assert {p.name for p in folder.iterdir()} == FILES
    ds = xr.load_dataset(folder / "results.nc")
    assert ds["naive_recall"].dims == ("rho", "pool")
    assert ds.sizes == {"rho": 2, "pool": 48}
    assert ds["rho"].attrs["units"]
    assert ds["naive_recall"].attrs["units"]
    config = json.loads(ds.attrs["config"])
    assert config["seed"] == 3
    assert config["n_items"] == 8
    for name in ("versions", "dtype", "device", "git_revision", "wall_seconds", "preset", "python"):
        assert str(ds.attrs[name])
    table = pd.read_csv(folder / "table.csv")
    assert list(table.columns) == [
        *("covariate", "rho", "quantity", "estimate", "ci_low", "ci_high", "n_pools", "paper"),
        *("replicate_low", "replicate_high", "consistent"),
    ]
    counts = table.groupby("quantity").size().to_dict()
    assert counts == {
        **dict.fromkeys(("naive_recall", "bias_aware_recall", "benefit", "realised_corr"), 2),
        **dict.fromkeys(("crossing", "crossing_limit"), 1),
    }
    benefit = table[table.quantity == "benefit"]
    expected = (ds["bias_aware_recall"] - ds["naive_recall"]).mean("pool")
    np.testing.assert_allclose(benefit.estimate, expected, rtol=1e-4)
    assert (benefit.ci_low <= benefit.estimate).all()


def test_table_as_json(finished, tmp_path):
    out = tmp_path / "table.json"
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(finished), "--json", str(out)]) == 0
    rows = json.loads(out.read_text())
    assert rows[-1]["quantity"] == "crossing_limit"
    assert rows[-1]["rho"] is None
    assert "NaN" not in out.read_text()


def test_again_reprints_without_running(finished, capsys, monkeypatch):
    monkeypatch.setattr(run, "Simulation", None)
    before = (finished / "crossing" / "results.nc").stat().st_mtime_ns
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(finished)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Correction stops paying at a correlation of ")
    assert "crossing_limit" in printed
    assert (finished / "crossing" / "results.nc").stat().st_mtime_ns == before


def test_redraw_uses_the_saved_results_alone(finished, monkeypatch, capsys):
    monkeypatch.setattr(run, "Simulation", None)
    folder = finished / "crossing"
    table = (folder / "table.csv").read_bytes()
    (folder / "table.csv").unlink()
    (folder / "figure.png").unlink()
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").unlink()
    results = (folder / "results.nc").read_bytes()
    redraw = ["--out", str(finished), "--redraw"]
    for options, found in (
        (["--seed", "9"], "seed (3 there, 9 now)"),
        (["--bias", "2"], "bias (1.0 there, 2.0 now)"),
        (["--preset", "smoke"], "n_items (8 there, 30 now)"),
    ):
        assert run.main(crossing.SWEEP, [*redraw, *options]) == 2
        message = capsys.readouterr().err
        assert found in message
        assert len(message.splitlines()) == 1
    assert not (folder / "table.csv").exists()
    # Settings are those of the results, whether they are given again or not.
    assert run.main(crossing.SWEEP, [*redraw, *SMALL]) == 0
    (folder / "table.csv").unlink()
    assert run.main(crossing.SWEEP, redraw) == 0
    assert (folder / "results.nc").read_bytes() == results
    assert (folder / "table.csv").read_bytes() == table
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    # Results without a configuration are nobody's to overwrite.
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(finished)]) == 2
    assert (folder / "results.nc").read_bytes() == results
    (folder / "config.json").write_bytes(config)


def test_another_configuration_is_refused_by_name(finished, capsys):
    changed = [*SMALL, "--out", str(finished), "--bias", "2", "--dtype", "float64"]
    assert run.main(crossing.SWEEP, changed) == 2
    message = capsys.readouterr().err
    assert "bias (1.0 there, 2.0 now)" in message
    assert "dtype" in message
    assert "n_items" not in message
    assert len(message.splitlines()) == 1


@pytest.mark.heavy
def test_continuing_with_another_chunk_and_overwriting(finished, tmp_path):
    small = [*SMALL, "--out", str(tmp_path)]
    settings = crossing.Crossing(n_items=8, k=2, rho=(0.0, 0.7), pools=48, seed=3, out=tmp_path)
    one_group = settings.groups()[0]
    folder = tmp_path / "crossing"
    folder.mkdir()
    configuration = provenance.configuration_of(settings)
    code = provenance.code_of(crossing.SWEEP)
    store.claim(folder, configuration, code, overwrite=False)
    # What an earlier, interrupted run left: some pools, and a write cut short.
    ids = np.array([7, 8, 9, 30])
    out = simulate.simulate(one_group.experiment, one_group.conditions, ids, seed=3, devices=1)
    shards.save_shard(folder, "crossing", ids, {"seconds": np.array(1.0), **out})
    (folder / "shards" / ".999999999.crossing-0000000010.npz").write_bytes(b"PK")
    assert run.main(crossing.SWEEP, small) == 0
    same_results(folder, finished / "crossing")
    assert run.main(crossing.SWEEP, [*small, "--seed", "4"]) == 2
    assert run.main(crossing.SWEEP, [*small, "--seed", "4", "--overwrite"]) == 0
    assert json.loads((folder / "config.json").read_text())["seed"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rho", "0.96"], "rho must lie within"),
        (["--covariate", "binary", "--rho", "0.8"], "0.798"),
        (["--rho", "0.5", "0.1"], "increase"),
        (["--lam", "0"], "lam must be finite and above 0"),
        (["--lam-b", "-1"], "lam_b"),
        (["--sd", "nan"], "sd must"),
        (["--rho", "0.3"], "at least 2 values"),
        (["--k", "30"], "k must lie in 1..29, got 30"),
        (["--k", "0"], "k must lie"),
        (["--n-items", "1"], "n_items must be at least 2"),
        (["--pools", "0"], "pools must be at least 1"),
        (["--pools", str(2**32 + 1)], "pools must be at most 4294967296"),
        (["--bias", "inf"], "bias must be finite"),
        (["--redraw"], "nothing to redraw"),
        (["--seed", "-1"], "seed must lie in"),
        (["--seed", str(2**32)], "seed must lie in"),
        (["--chunk", "0"], "chunk must be a whole number, at least 1"),
        (["--devices", "99"], "devices must lie in"),
    ],
)
def test_bad_settings_end_with_one_line_and_nothing_written(tmp_path, capsys, options, message):
    out = tmp_path / "none"
    assert run.main(crossing.SWEEP, ["--out", str(out), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rho", "nan"], "rho must be finite, got nan"),
        (["--rho", "0", "inf"], "rho must be finite, got inf"),
        (["--rho", "2"], "rho must lie within -1..1, got 2"),
        (["--rho", "0.8", "0.9", "--covariate", "binary"], "rho must include some up to 0.75"),
        (["--sd", "1e308"], "sd must lie within 1e-06..1e+06, got 1e+308"),
        (["--sd", "1e-320"], "sd must lie within"),
        (["--collapse-sd", "0"], "collapse_sd must be finite and above 0, got 0"),
        (["--collapse-bias", "nan"], "collapse_bias must be finite, got nan"),
        (["--lam", "inf"], "lam must be finite and above 0, got inf"),
        (["--bias", "1e7"], "bias must lie within -1e+06..1e+06, got 1e+07"),
        (["--collapse-n-items", "1000000"], "collapse_n_items must be at most 2000, got 1000000"),
        (["--large-pools", "-1"], "large_pools must be at least 1, got -1"),
        (["--pool", "nonsense"], "unknown pool 'nonsense': one of gaussian"),
    ],
)
def test_every_number_of_a_sweep_is_checked_by_its_name(tmp_path, capsys, options, message):
    options = ["--preset", "smoke", "--out", str(tmp_path / "none"), *options]
    assert run.main(crossing_factors.SWEEP, options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pool", "nonsense"], "unknown pool 'nonsense': one of gaussian"),
        (["--n-seeds", "1000000"], "n_seeds must be at most 1000, got 1000000"),
    ],
)
def test_what_an_active_sweep_refuses(tmp_path, capsys, options, message):
    options = ["--preset", "smoke", "--out", str(tmp_path / "none"), *options]
    assert run.main(acquisition.SWEEP, options) == 2
    assert message in capsys.readouterr().err


def test_a_number_of_the_paper_without_a_row_is_reported(monkeypatch, capsys):
    mistyped = PaperNumber("speed", {"pools": "5"}, "1.0", 10, None, 0.05, "reported")
    monkeypatch.setattr(crossing.SWEEP, "paper", lambda: [mistyped])
    small, results = sweep_of(group("x", [1.0])), xr.Dataset(coords={"pool": range(5)})
    run.table_of(small.like(Settings(pools=5)), results)
    line = "no row of this table matches 1 number of these settings, the first: speed = 1.0 at"
    assert f"{line} pools=5" in capsys.readouterr().err
    run.table_of(small.like(Settings(pools=6)), results)
    assert capsys.readouterr().err == ""


def test_two_runs_do_not_share_a_folder(tmp_path, capsys):
    with store.locked(tmp_path / "crossing"):
        assert run.main(crossing.SWEEP, [*SMALL, "--out", str(tmp_path)]) == 2
    assert "another run" in capsys.readouterr().err


def test_a_folder_of_somebody_else_is_left_alone(tmp_path, capsys):
    shards = tmp_path / "crossing" / "shards"
    shards.mkdir(parents=True)
    (shards / "model.bin").write_bytes(b"1")
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(tmp_path)]) == 2
    assert "no config.json" in capsys.readouterr().err
    assert (shards / "model.bin").exists()


def test_a_run_that_computed_nothing_blocks_no_folder(tmp_path, monkeypatch, capsys):
    small, options = sweep_of(group("x", [1.0])), ["--out", str(tmp_path)]
    monkeypatch.setattr(memory, "there_is", lambda device: 1)
    assert run.main(small, options) == 2
    assert "of memory" in capsys.readouterr().err
    assert (tmp_path / "axes" / "config.json").exists()
    monkeypatch.undo()
    assert run.main(small, [*options, "--seed", "1"]) == 0


def test_unwritable_folder_and_damaged_configuration(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(file)]) == 2
    assert "cannot write" in capsys.readouterr().err
    folder = tmp_path / "crossing"
    (folder / "shards").mkdir(parents=True)
    for damaged in ("{", "[1]", "3", '{"code": 3}'):
        (folder / "config.json").write_text(damaged)
        assert run.main(crossing.SWEEP, [*SMALL, "--out", str(tmp_path)]) == 2
        assert "not readable" in capsys.readouterr().err
    (folder / "results.nc").write_bytes(b"junk")
    assert run.main(crossing.SWEEP, ["--out", str(tmp_path), "--redraw"]) == 2
    assert "cannot be trusted" in capsys.readouterr().err
