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


def test_again_reprints_without_running(finished, capsys, monkeypatch):
    monkeypatch.setattr(run, "computed", None)
    assert run.main(crossing.SWEEP, [*SMALL, "--out", str(finished)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Correction helps up to a correlation of ")
    assert "results.zarr is complete: nothing is simulated" in shown.err


def test_a_number_of_the_paper_without_a_row_is_reported(capsys):
    mistyped = PaperNumber("speed", {"pools": "5"}, "1.0", 10, None, 0.05, "reported")
    small = sweep_of(group("x", [1.0]), paper=classmethod(lambda cls: [mistyped]))
    results = xr.Dataset(coords={"pool": range(5)})
    run.table_of(small(), results)
    line = "no row of this table matches 1 number of these settings, the first: speed = 1.0 at"
    assert f"{line} pools=5" in capsys.readouterr().err
    run.table_of(small(pools=6), results)
    assert capsys.readouterr().err == ""
