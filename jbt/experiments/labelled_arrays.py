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


def where(data: Any, **labels: Any) -> Any:
    """The conditions of results, or the rows of a table, with these labels.

    Args:
      data: a Dataset or DataArray with conditions, or a DataFrame.
      labels: coordinate or column -> a value, or a list of values.
    """
    if not labels:
        return data
    chosen = np.logical_and.reduce([np.isin(data[name], wanted) for name, wanted in labels.items()])
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
    ordered = values.transpose(*outer, *inner)
    for index in np.ndindex(ordered.shape[: len(outer)]):
        row = ordered[index]
        yield scalars(row, columns), row.values


def scalars(values: xr.DataArray, columns: Sequence[str]) -> dict[str, Any]:
    """The coordinates without a dimension that are columns."""
    named = values.coords.items()
    return {str(n): plain(c.values) for n, c in named if n in columns and not c.dims}


def plain(value: Any) -> Any:
    """A Python value, None for NaN."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
