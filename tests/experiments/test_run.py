import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from support.small_sweep import group, sweep_of

from jbt.experiments import run, store
from jbt.experiments.paper import PaperNumber
from sweeps import crossing, crossing_factors

FILES = {".lock", ".making", "results.zarr", "table.csv", "figure.png"}
SMALL = ["--n-items", "8", "--k", "2", "--rho", "0.0", "0.7", "--pools", "48", "--seed", "3"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(out)]) == 0
    return out


def test_files_and_provenance(finished):
    folder = finished / "crossing"
    assert {p.name for p in folder.iterdir()} == FILES
    ds = store.opened(folder / store.RESULTS).results()
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
    monkeypatch.setattr(run, "computed", None)
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(finished)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Correction helps up to a correlation of ")
    assert "crossing_limit" in shown.out
    assert (
        f"{finished / 'crossing' / 'results.zarr'} is complete: nothing is simulated" in shown.err
    )


def test_redraw_uses_the_saved_results_alone(finished, monkeypatch, capsys):
    monkeypatch.setattr(run, "Work", None)
    folder = finished / "crossing"
    table = (folder / "table.csv").read_bytes()
    (folder / "table.csv").unlink()
    (folder / "figure.png").unlink()
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
    assert (folder / "table.csv").read_bytes() == table
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")


SMALLER = sweep_of(group("x", [1.0, 2.0]))
BEYOND = "99999999999999999999"
REFUSED = {
    crossing.SWEEP: {
        "--rho 0.96": "rho must lie within",
        "--covariate binary --rho 0.8": "0.798",
        "--rho 0.5 0.1": "increase",
        "--lam 0": "lam must be finite and above 0",
        "--lam-b -1": "lam_b",
        "--sd nan": "sd must",
        "--rho 0.3": "at least 2 values",
        "--k 30": "k must lie in 1..29, got 30",
        "--k 0": "k must lie",
        "--n-items 1": "n_items must be at least 2",
        "--pools 0": "pools must be at least 1",
        "--pools 4294967297": "pools must be at most 4294967296",
        "--bias inf": "bias must be finite",
        "--redraw": "nothing to redraw",
        "--seed -1": "seed must lie in",
        "--seed 4294967296": "seed must lie in",
        "--chunk 0": "chunk must be a whole number, at least 1",
        "--devices 99": "devices must lie in",
    },
    crossing_factors.SWEEP: {  # every number is checked by its name
        "--preset smoke --rho nan": "rho must be finite, got nan",
        "--preset smoke --rho 2": "rho must lie within -1..1, got 2",
        "--preset smoke --sd 1e308": "sd must lie within 1e-06..1e+06, got 1e+308",
        "--preset smoke --collapse-bias nan": "collapse_bias must be finite, got nan",
        "--preset smoke --collapse-n-items 1000000": "collapse_n_items must be at most 2000, got",
        "--preset smoke --large-pools -1": "large_pools must be at least 1, got -1",
        "--preset smoke --pool nonsense": "unknown pool 'nonsense': one of gaussian",
    },
    SMALLER: {
        # numbers beyond measure, before memory is taken
        f"--pools {BEYOND}": f"pools must be at most 4294967296, got {BEYOND}",
        f"--seed {BEYOND}": f"seed must lie in 0..2^32-1, got {BEYOND}",
        f"--devices {BEYOND}": f"devices must be at most 1000000, got {BEYOND}",
        "--part=2/2": "part must be I/N with I from 0 to N - 1, got '2/2'",
        "--part=-1/2": "part must be I/N",
        "--part=1": "part must be I/N with I from 0 to N - 1, got '1'",
        "--part=0/2 --overwrite": "--overwrite does not go with --part",
        "--part=0/2 --redraw": "--redraw does not go with --part",
        "--part=0/2 --json table.json": "--json does not go with --part",
        "--store results": "store must be a URL",
        "--store results --redraw": "store must be a URL",
    },
}


@pytest.mark.parametrize(
    ("sweep", "options", "message"),
    [(sweep, *case) for sweep, cases in REFUSED.items() for case in cases.items()],
)
def test_wrong_options_end_with_one_line_and_nothing_written(
    tmp_path, capsys, sweep, options, message
):
    out = tmp_path / "none"
    assert run.main(sweep, ["--out", str(out), *options.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


def test_a_number_of_the_paper_without_a_row_is_reported(capsys):
    mistyped = PaperNumber("speed", {"pools": "5"}, "1.0", 10, None, 0.05, "reported")
    small = sweep_of(group("x", [1.0]), paper=classmethod(lambda cls: [mistyped]))
    results = xr.Dataset(coords={"pool": range(5)})
    run.table_of(small(), results)
    line = "no row of this table matches 1 number of these settings, the first: speed = 1.0 at"
    assert f"{line} pools=5" in capsys.readouterr().err
    run.table_of(small(pools=6), results)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "name",
    [
        *("table.csv", "results.zarr", "figure.png", "figure-curves.png", ".lock"),
        *("results.zarr/x", "../axes/table.csv"),
    ],
)
def test_json_does_not_overwrite_the_runs_own_files(tmp_path, capsys, name):
    """Nor through links."""
    folder = tmp_path / "axes"
    folder.mkdir()
    targets = [folder / name]
    if name.endswith((".csv", ".png")):
        (folder / name).write_text("there")
        (tmp_path / "link").symlink_to(folder / name)
        (tmp_path / "hard").hardlink_to(folder / name)
        targets += [tmp_path / "link", tmp_path / "hard"]
    for target in targets:
        assert run.main(SMALLER, ["--out", str(tmp_path), "--json", str(target)]) == 2
        assert "would overwrite the run's own" in capsys.readouterr().err
    assert not (folder / "results.zarr").exists()


@pytest.mark.parametrize("name", ["table.csv", "figure.png"])
def test_a_folder_in_the_place_of_a_file_is_found_at_once(tmp_path, capsys, name, monkeypatch):
    monkeypatch.setattr(run, "computed", None)
    (tmp_path / "axes" / name).mkdir(parents=True)
    for options in ([], ["--overwrite"]):
        assert run.main(SMALLER, ["--out", str(tmp_path), *options]) == 2
        assert name in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run.main(SMALLER, ["--out", str(tmp_path / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_wait_is_said_when_it_is_one(capsys):
    with run.said_after(0.1, "waiting"):
        pass
    with run.said_after(0.0, "waiting"):
        time.sleep(0.2)
    assert capsys.readouterr().err == "waiting\n"


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
def read_only():
    """A finished run in a folder that nobody may write to."""
    with tempfile.TemporaryDirectory() as out:  # tmp_path can be entered by its owner alone
        assert run.main(SMALLER, ["--out", out]) == 0
        places = [Path(out), *Path(out).rglob("*")]
        for path in places:
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield Path(out)
        for path in places:
            path.chmod(0o755)


def test_a_finished_run_in_a_read_only_folder_is_printed_again(read_only, unprivileged, capsys):
    folder = read_only / "axes"
    for options in ([], ["--redraw"]):
        capsys.readouterr()
        assert run.main(SMALLER, ["--out", str(read_only), *options]) == 0
        shown = capsys.readouterr()
        assert "quantity" in shown.out
        assert "written:" not in shown.out
        assert f"not written, as {folder} is read-only: " in shown.err
        assert "table.csv" in shown.err
    # What would have to be written is still refused.
    for options, message in (
        (["--overwrite"], "cannot write"),
        (["--seed", "1"], "seed (0 there, 1 now)"),
    ):
        assert run.main(SMALLER, ["--out", str(read_only), *options]) == 2
        assert message in capsys.readouterr().err


def test_a_run_says_before_the_bar_how_many_programs_it_compiles(tmp_path, capsys):
    """Groups of one experiment and as many conditions share one."""
    kinds = [group("a", [1.0, 2.0]), group("b", [4.0, 3.0]), group("c", [5.0])]
    sweep = sweep_of(*kinds, label="a")(out=tmp_path)
    run.run(sweep)
    said = capsys.readouterr().err
    assert "15 pools in 3 groups under 1 or 2 conditions each, 2 programs to compile\n" in said
    assert said.index("to compile") < said.index("pool/s")
    run.run(sweep)  # it is finished
    assert "to compile" not in capsys.readouterr().err
