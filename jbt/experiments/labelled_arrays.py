"""Select by label, and the rows of a labelled array, each with the coordinates of its setting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


SEEDS = "acquisition_seed"
"""Dimension that is averaged over within each pool."""

AT_ONCE = 8_000_000
"""Numbers that are resampled together; the limit keeps memory from growing with the pools."""


def where(data: Any, **labels: Any) -> Any:
    """The conditions of results, or the rows of a table, with these labels.

    Args:
      data: a Dataset or DataArray with conditions, or a DataFrame.
      labels: coordinate or column -> a value, or a list of values.
    """
    chosen = np.array(True)
    for name, wanted in labels.items():
        chosen = chosen & np.isin(np.asarray(data[name]), wanted)
    if not labels:
        return data
    if not hasattr(data, "sizes"):
        return data[chosen]
    (dimension,) = {data[name].dims[0] for name in labels}
    return data.isel({dimension: np.flatnonzero(chosen)})


def rows_of(
    values: xr.DataArray, columns: Sequence[str]
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Each row of an array with those of its coordinates that are columns.

    Args:
      values: [..., pool] or [..., acquisition_seed, pool].

    Yields:
      (column -> value, [P] or [S, P]) in the order of the array.
    """
    inner = [d for d in (SEEDS, "pool") if d in values.dims]
    outer = [d for d in values.dims if d not in inner]
    values = values.transpose(*outer, *inner)
    named = {
        str(name): c
        for name, c in values.coords.items()
        if name in columns and not set(c.dims) & set(inner)
    }
    data = values.values
    coordinates = {name: (c.dims, c.values) for name, c in named.items()}
    for index in np.ndindex(*data.shape[: len(outer)]):
        place = dict(zip(outer, index, strict=True))
        row = {n: v[tuple(place[d] for d in dims)] for n, (dims, v) in coordinates.items()}
        yield row, data[index]


def slabs(
    rows: Iterator[tuple[dict[str, Any], np.ndarray]],
) -> Iterator[list[tuple[dict[str, Any], np.ndarray]]]:
    """Rows in lists of about AT_ONCE numbers, as float64."""
    slab, size = [], 0
    for row, numbers in rows:
        slab.append((row, numbers.astype(np.float64)))
        size += numbers.size
        if size >= AT_ONCE:
            yield slab
            slab, size = [], 0
    if slab:
        yield slab


def scalars(values: xr.DataArray, columns: Sequence[str]) -> dict[str, Any]:
    """The coordinates without a dimension that are columns."""
    named = {str(n): c.values for n, c in values.coords.items() if n in columns and not c.dims}
    return {name: plain(value) for name, value in named.items()}


def plain(value: Any) -> Any:
    """A Python value, None for NaN."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
