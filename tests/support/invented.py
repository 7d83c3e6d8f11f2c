"""Results of a sweep whose numbers are ours, so that its table can be checked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr


def only(table: pd.DataFrame, **wanted: Any) -> pd.Series:
    """The one row with these values; None for a column that is empty there."""
    for name, value in wanted.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    assert len(table) == 1, table
    return table.iloc[0]


def invented(sweep: Any, **metrics: Any) -> xr.Dataset:
    """Results as a run leaves them.

    Args:
      metrics: numbers that broadcast to [conditions, axes of the metric, pools], or a function of
        the conditions' labels (a frame, a row each) that gives them.
    """
    groups = sweep.groups()
    labels = pd.DataFrame(
        {name: [v for group in groups for v in group.labels[name]] for name in groups[0].labels}
    )
    axes, pools = groups[0].axes, max(group.pools for group in groups)
    data = {}
    for name, values in metrics.items():
        own = axes.get(name, {})
        shape = (len(labels), *map(len, own.values()), pools)
        numbers = values(labels) if isinstance(values, Callable) else values
        data[name] = (("condition", *own, "pool"), np.broadcast_to(numbers, shape).copy())
    coordinates = {name: ("condition", list(labels[name])) for name in labels}
    coordinates |= {name: list(values) for own in axes.values() for name, values in own.items()}
    ds = xr.Dataset(data, coordinates | {"pool": np.arange(pools)})
    return ds.swap_dims(condition=sweep.index) if sweep.index else ds
