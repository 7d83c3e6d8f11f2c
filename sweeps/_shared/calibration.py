"""Error of the twins' calibration: the conditions in which twins are displaced and, from the saved
results, the numbers that studies of the paper's size are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import xarray as xr

from jbt import twins
from jbt.experiments.table import Carried
from jbt.simulation.judges import Published
from jbt.twins import CalibrationError

AXES = {"targets": {"target": list(twins.TARGETS)}, "steps": {"parameter": list(twins.PARAMETERS)}}
"""Axes of the metrics `targets` and `steps`, which every experiment on twins returns."""
UNITS = {
    "targets": "logits; of the naive recall, share of the top k",
    "steps": "logits (of discrimination, a statement)",
    "displaced": "steps",
}
SHARE, SIGNED = (0.0, 1.0), (-1.0, 1.0)


V = TypeVar("V", xr.DataArray, xr.Dataset)


def at(ds: V, displaced: float = 0.0) -> V:
    """Conditions in which judges are displaced by this many steps."""
    return ds.isel(condition=np.flatnonzero(ds["displaced"].values == displaced))


def ways(ds: xr.Dataset) -> list[xr.Dataset]:
    """Conditions with judges displaced one way, and those displaced the other."""
    return [at(ds, way) for way in twins.DISPLACED]


def errors(
    calibrated: xr.Dataset, displaced: Sequence[xr.Dataset], published: Sequence[Published]
) -> list[CalibrationError]:
    """Calibration error of each judge, from results of the twins and of the displaced twins; their
    conditions are the published judges in this order."""
    targets, up, down = (_numpy(ds["targets"]) for ds in (calibrated, *displaced))
    steps = _numpy(displaced[0]["steps"])
    numbers = zip(published, targets, up, down, steps, strict=True)
    return [CalibrationError.of(*judge) for judge in numbers]


def carried(
    errors: Sequence[CalibrationError],
    calibrated: xr.DataArray,
    displaced: Sequence[xr.DataArray],
    within: tuple[float, float] = (-np.inf, np.inf),
) -> Carried:
    """Numbers that studies are drawn from.

    Args:
      errors: [condition].
      calibrated: [condition, ..., pool] the number in pools of the twins.
      displaced: the same of twins displaced one way and the other.
      within: the least and the largest possible number.
    """
    calibrated = calibrated.transpose("condition", ..., "pool")
    up, down = (_numpy(way.transpose(*calibrated.dims)) for way in displaced)
    weights = [e.weights(*ways) for e, *ways in zip(errors, up, down, strict=True)]
    pools = [
        e.carried(*numbers) for e, *numbers in zip(errors, _numpy(calibrated), weights, strict=True)
    ]
    blur = CalibrationError.blur(np.stack(weights))
    return Carried(calibrated.copy(data=np.stack(pools)), blur, within)


def opened(pools: xr.DataArray, weights: xr.DataArray) -> xr.Dataset:
    """Numbers with the calibration's error in them, in a form that can be selected from and
    subtracted; `drawn_from` turns them into a `Carried`.

    Args:
      pools: [condition, ..., pool].
      weights: [condition, ..., weight] of `CalibrationError.weights`.
    """
    return xr.Dataset({"pools": pools, "weights": weights})


def drawn_from(
    opened: xr.Dataset | None, within: tuple[float, float] = (-np.inf, np.inf)
) -> Carried | None:
    """Turn numbers of `opened` into what studies are drawn from; None into None."""
    if opened is None:
        return None
    blur = CalibrationError.blur(opened["weights"].transpose(..., "weight").values)
    return Carried(opened["pools"], blur, within)


def _numpy(values: xr.DataArray) -> np.ndarray:
    return values.transpose("condition", ..., "pool").values.astype(float)
