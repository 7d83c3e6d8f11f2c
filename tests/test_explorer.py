"""The page with sliders shows the row of its grid that they point at, and asks for nothing."""

import runpy
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
EXPLORER = runpy.run_path(str(ROOT / "docs" / "explorer.py"), run_name="explorer")
CONTROLS = {"bias": (0.0, 1.0, 2.0), "sd": (0.6, 1.2), "k": (1, 5, 10)}


def test_places_of_the_sliders_lead_to_their_row():
    sizes = [len(values) for values in CONTROLS.values()]
    rows = [np.dot(at, EXPLORER["strides"](CONTROLS)) for at in np.ndindex(*sizes)]
    assert rows == list(range(np.prod(sizes)))


def test_the_kept_grid_is_that_of_the_controls():
    kept = EXPLORER["Grid"].load(EXPLORER["GRID"])
    assert kept.controls == EXPLORER["CONTROLS"]
    benefit = kept.values[0]
    assert np.isfinite(kept.values).all()
    usual = benefit[2, 2, 2, 0]  # c* = 1, sd 1.2, k = 5
    assert usual[0] > 0 > usual[-1]
