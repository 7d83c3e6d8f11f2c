import json

import numpy as np
import pandas as pd
import pytest

from jbt.experiments import run, store
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
    ds = store.Store(folder / store.RESULTS).results()
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
