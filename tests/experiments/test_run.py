import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from support.small_sweep import group, sweep_of

from jbt.experiments import run, store
from jbt.experiments.paper import PaperNumber
from sweeps import crossing

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
    assert ds.sizes == {"rho": 2, "pool": 48}
    assert ds["naive_recall"].attrs["units"]
    assert json.loads(ds.attrs["config"])["n_items"] == 8
    for name in ("versions", "dtype", "device", "git_revision", "wall_seconds", "preset", "python"):
        assert str(ds.attrs[name])
    table = pd.read_csv(folder / "table.csv")
    counts = table.groupby("quantity").size().to_dict()
    assert counts == {
        **dict.fromkeys(("naive_recall", "bias_aware_recall", "benefit", "realised_corr"), 2),
        **dict.fromkeys(("crossing", "crossing_limit"), 1),
    }
    benefit = table[table.quantity == "benefit"]
    expected = (ds["bias_aware_recall"] - ds["naive_recall"]).mean("pool")
    np.testing.assert_allclose(benefit.estimate, expected, rtol=1e-4)


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
    assert "results.zarr is complete: nothing is simulated" in shown.err


def test_redraw_uses_the_saved_results_alone(finished, monkeypatch, capsys):
    monkeypatch.setattr(run, "Work", None)
    folder = finished / "crossing"
    table = (folder / "table.csv").read_bytes()
    (folder / "table.csv").unlink()
    (folder / "figure.png").unlink()
    redraw = ["--out", str(finished), "--redraw"]
    for options, found in (
        (["--seed", "9"], "seed (3 there, 9 now)"),
        (["--preset", "smoke"], "n_items (8 there, 30 now)"),
    ):
        assert run.main(crossing.SWEEP, [*redraw, *options]) == 2
        assert found in capsys.readouterr().err
    assert not (folder / "table.csv").exists()
    # Settings are those of the results, whether they are given again or not.
    assert run.main(crossing.SWEEP, [*redraw, *SMALL]) == 0
    (folder / "table.csv").unlink()
    assert run.main(crossing.SWEEP, redraw) == 0
    assert (folder / "table.csv").read_bytes() == table
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")


SMALLER = sweep_of(group("x", [1.0, 2.0]))


def test_a_number_of_the_paper_without_a_row_is_reported(capsys):
    mistyped = PaperNumber("speed", {"pools": "5"}, "1.0", 10, None, 0.05, "reported")
    small = sweep_of(group("x", [1.0]), paper=classmethod(lambda cls: [mistyped]))
    results = xr.Dataset(coords={"pool": range(5)})
    run.table_of(small(), results)
    line = "no row of this table matches 1 number of these settings, the first: speed = 1.0 at"
    assert f"{line} pools=5" in capsys.readouterr().err
    run.table_of(small(pools=6), results)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["table.csv", ".lock", "results.zarr/x", "../axes/table.csv"])
def test_json_does_not_overwrite_the_runs_own_files(tmp_path, capsys, name):
    """Nor through links."""
    folder = tmp_path / "axes"
    folder.mkdir()
    targets = [folder / name]
    if name.endswith(".csv"):
        (folder / name).write_text("there")
        (tmp_path / "link").symlink_to(folder / name)
        (tmp_path / "hard").hardlink_to(folder / name)
        targets += [tmp_path / "link", tmp_path / "hard"]
    for target in targets:
        assert run.main(SMALLER, ["--out", str(tmp_path), "--json", str(target)]) == 2
        assert "would overwrite the run's own" in capsys.readouterr().err
    assert not (folder / "results.zarr").exists()
