"""Probabilities against what is true, by bins: are three tenths of those near 0.3 true?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jbt import stats
from jbt.experiments.labelled_arrays import rows_of, where
from jbt.experiments.plots import Line, Panel

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from jbt.experiments.table import Table

EDGES = np.linspace(0, 1, 11)
"""Edges of the bins of probability."""
BINS = EDGES[:-1].round(2).tolist()
"""Lower end of each bin."""


def binned(
    p: Float[Array, " n"], true: Bool[Array, " n"], counted: Bool[Array, " n"] | bool = True
) -> tuple[Array, Array, Array]:
    """Of those counted, by bin [bins]: how many, the sum of p, and how many are true."""
    chosen = jnp.digitize(p, jnp.asarray(EDGES[1:-1], p.dtype))
    chosen = (chosen == jnp.arange(len(BINS))[:, None]) & counted
    return chosen.sum(1), jnp.where(chosen, p, 0).sum(1), (chosen & true).sum(1)


def stacked(values: xr.DataArray, t: Table) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Columns of each row, and the rows' numbers [rows, pool]."""
    rows, numbers = zip(*rows_of(values, t.columns), strict=True)
    return list(rows), np.stack(numbers)


def add_bins(
    t: Table,
    counts: xr.Dataset,
    names: tuple[str, str, str],
    *,
    fewest: int,
    **columns: Any,
) -> None:
    """Add each bin's mean probability, the share that is true, and their difference: ratios of
    means over the same pools.

    Args:
      counts: the three numbers of `binned` [..., bin, pool], in their order.
      names: of the three quantities.
      fewest: pools with a count in a bin that it takes for the bin to have a row.
      columns: beside the coordinates.
    """
    rows = stacked(counts[next(iter(counts))], t)[0]
    numbers = np.stack([stacked(values, t)[1] for values in counts.values()]).astype(float)
    filled = np.flatnonzero((numbers[0] > 0).sum(-1) >= fewest).tolist()
    if not len(filled):
        return

    def ratios(means: np.ndarray) -> np.ndarray:
        n, total, true = np.moveaxis(means, -2, 0)
        return np.stack([total / n, true / n, (total - true) / n], -1)

    chosen, n_pools = numbers[:, filled], numbers.shape[-1]
    estimates = ratios(chosen.mean(-1))
    with np.errstate(invalid="ignore"):  # a resample without a count in a bin
        resampled = ratios(stats.bootstrap_means(chosen, seed=t.seed))
    for i, row in enumerate(filled):
        for q, name in enumerate(names):
            interval = stats.percentiles(resampled[:, i, q], n_units=n_pools)
            t.add(name, estimates[i, q], interval, n_pools, **rows[row], **columns)


def of_bins(
    table: pd.DataFrame,
    names: tuple[str, str],
    lines: Sequence[Line],
    labels: tuple[str, str, str],
) -> Panel:
    """Each bin's share that is true against its mean probability, beside the diagonal.

    Args:
      names: of the two quantities, the probability first.
      lines: series of the table.
    """
    p, true = (where(table, quantity=name) for name in names)
    return Panel(
        "p",
        {},
        [replace(line, style={"fmt": "o-", "ms": 3}) for line in lines],
        labels,
        points=True,
        after=lambda ax: ax.plot([0, 1], [0, 1], color="black", linewidth=0.8),
        table=true.assign(p=p.estimate.values),
    )
