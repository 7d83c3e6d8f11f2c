"""Error of the twins' calibration: the conditions in which twins are displaced and, from the saved
results, the numbers that studies of the paper's size are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from jbt import twins
from jbt.experiments.labelled_arrays import SEEDS, rows_of, where
from jbt.experiments.table import Table
from jbt.simulation.judges import Published
from jbt.twins import CalibrationError

AXES = {"targets": {"target": list(twins.TARGETS)}, "steps": {"parameter": list(twins.PARAMETERS)}}
"""Axes of the metrics `targets` and `steps`, which every experiment on twins returns."""
UNITS = {
    "targets": "logits; of the naive recall, share of the top k",
    "steps": "logits (of discrimination, a statement)",
    "displaced": "steps",
}
SHARE, SIGNED, ANY = (0.0, 1.0), (-1.0, 1.0), (-np.inf, np.inf)
"""The least and the largest possible number."""


def errors(
    calibrated: xr.Dataset, displaced: Sequence[xr.Dataset], published: Sequence[Published]
) -> list[CalibrationError]:
    """Calibration error of each judge, from results of the twins and of the twins displaced one way
    and the other; their conditions are the published judges in this order."""
    numbers = [_numpy(ds["targets"]) for ds in (calibrated, *displaced)]
    judges = zip(published, *numbers, _numpy(displaced[0]["steps"]), strict=True)
    return [CalibrationError.of(*judge) for judge in judges]


def opened(
    calibrated: xr.DataArray,
    errors: Sequence[tuple[CalibrationError, np.ndarray, np.ndarray] | None],
) -> xr.Dataset:
    """Numbers beside the same with the calibration's error, in a form that can be selected from and
    subtracted: `add_means` adds their means.

    Args:
      calibrated: [condition, ..., pool] the number in pools of the twins.
      errors: [condition] error of the twin, and [..., pool] its number displaced one way, and the
        other, without a dimension of acquisition seeds; None for a judge without a twin.

    Returns:
      value, pools like it, weights [condition, ..., weight] of `CalibrationError.weights`.
    """
    pools = calibrated.astype(float)
    dims = [dim for dim in calibrated.dims if dim not in (SEEDS, "pool")]
    shape = [calibrated.sizes[dim] for dim in dims]
    weights = np.zeros((*shape, len(twins.TARGETS) + len(twins.PARAMETERS)))
    for i, of_twin in enumerate(errors):
        if of_twin is not None:
            error, *displaced = of_twin
            weights[i] = error.weights(*displaced)
            pools[i] = error.carried(pools.values[i], weights[i])
    of_weights = [*dims, "weight"], weights
    return xr.Dataset({"value": calibrated, "pools": pools, "weights": of_weights})


def blur_of(opened: xr.Dataset) -> np.ndarray:
    """[...] additional standard deviation of a study's mean, of numbers of `opened`: from the
    targets' rounding and from the parameters that the targets do not determine."""
    return CalibrationError.blur(opened["weights"].transpose(..., "weight").values)


def add_means(
    t: Table, quantity: str, opened: xr.Dataset, within: tuple[float, float] = ANY, **setting: Any
) -> None:
    """Add means over pools of numbers of `opened`. Studies of the paper's size are drawn from those
    with the calibration's error.

    Args:
      within: the smallest and the largest possible number.
    """

    def found(pools: np.ndarray, blur: float, size: int, seeds: int | None) -> np.ndarray:
        means = t.study_means(pools, size, seeds)
        noise = np.random.default_rng([t.seed, len(means)]).normal(0.0, blur, len(means))
        return np.clip(means + noise, *within)

    behind = zip(rows_of(opened["pools"], t.columns), np.ravel(blur_of(opened)), strict=True)
    studies = [partial(found, pools, blur) for (_, pools), blur in behind]
    t.means(quantity, opened["value"], studies=studies, **setting)


def by_seed(values: xr.DataArray, n_seeds: int) -> xr.DataArray:
    """A metric [condition, ..., pool] as [condition, acquisition_seed, ..., pool], without the
    displaced judges."""
    values = where(values, displaced=0.0)
    first = values.isel(condition=slice(None, None, n_seeds)).drop_vars(SEEDS)
    data = values.values.reshape(-1, n_seeds, *values.shape[1:]).astype(float)
    return xr.DataArray(data, first.coords, ("condition", SEEDS, *values.dims[1:]))


def opened_by_seed(values: xr.DataArray, ds: xr.Dataset, n_seeds: int) -> xr.Dataset:
    """A metric as `by_seed` returns it, `opened`. The displaced twins have one acquisition seed."""
    calibrated, of_twins = by_seed(values, n_seeds), []
    names = [n for n in ("judge", "model", "rule", "refit_every") if n in calibrated.coords]
    for condition in zip(*(calibrated[name].values for name in names), strict=True):
        labels = dict(zip(names, condition, strict=True))
        ways = [where(values, displaced=way, **labels) for way in twins.DISPLACED]
        if not ways[0].sizes["condition"]:
            of_twins.append(None)
            continue
        judge = labels["judge"]
        twin, *displaced = (
            where(ds, judge=judge, displaced=way).isel(condition=[0])
            for way in (0.0, *twins.DISPLACED)
        )
        (error,) = errors(twin, displaced, [twins.known()[judge]])
        of_twins.append((error, *(_numpy(way)[0] for way in ways)))
    return opened(calibrated, of_twins)


def _numpy(values: xr.DataArray) -> np.ndarray:
    return values.transpose("condition", ..., "pool").values.astype(float)
