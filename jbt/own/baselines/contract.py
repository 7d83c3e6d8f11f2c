"""What a baseline is given, and what it gives back; see `registry`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from jbt.kernel import metrics
from jbt.own.fits.batch import Position
from jbt.own.tables.tables import Tables, Transform
from jbt.types import Prior


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """The arguments of the leaderboard that a baseline is shown beside."""

    tables: Tables
    """Pools not merged, all judges. A model is a content; a prompt is a pool."""
    covariates: tuple[str, ...]
    """Columns of `tables.items`, which has them untransformed; possibly none."""
    transform: Transform = "none"
    standardise: bool = True
    position: Position = "auto"
    prior: Prior = field(default_factory=Prior)
    against: str | None = None
    """The model, of `tables.contents`, that win rates are against; None if not asked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Beside:
    """One baseline's ranking of the models. NaN where undefined."""

    name: str
    """Of the baseline in `registry.BASELINES`."""
    quantity: str
    """What is estimated, as the heading of a column: `win rate against NAME`, `theta`."""
    models: tuple[str, ...]
    """Of `tables.contents`, in any order; others have no estimate."""
    estimate: np.ndarray
    """[M] models are ranked by it, the highest first."""
    low: np.ndarray
    """[M] 95 % interval, NaN where it is withheld."""
    high: np.ndarray
    rank_low: np.ndarray
    """[M] best and worst plausible rank, NaN where there is no interval of ranks."""
    rank_high: np.ndarray
    share: bool = False
    """Whether estimates are shares, shown in per cent; else logits."""
    reading: tuple[str, ...] = ()
    """Sentences for "How to read this": what the baseline is and assumes, with its reference, and
    how it departs from what was published. True of any tables."""
    notes: tuple[str, ...] = ()
    """Sentences for the basis of the ranking, about these tables: what was left out, and why an
    interval is withheld."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers for the JSON; undefined is None."""

    @property
    def rank(self) -> np.ndarray:
        """[M] 1 + the number of models with a higher estimate."""
        return metrics.ranks(self.estimate)

    def in_order(self, models: Sequence[str]) -> Beside:
        """The same ranking with these models in this order."""
        index = pd.Index(self.models).get_indexer(pd.Index(list(models)))

        def placed(values: np.ndarray) -> np.ndarray:
            return np.where(index >= 0, np.append(values, np.nan)[index], np.nan)

        names = ("estimate", "low", "high", "rank_low", "rank_high")
        columns = {name: placed(getattr(self, name)) for name in names}
        return dataclasses.replace(self, models=tuple(models), **columns)

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file; the numbers of each model are in its entry of `models`."""
        return {"quantity": self.quantity, "notes": list(self.notes), **self.details}


Baseline = Callable[[Question], Sequence[Beside]]
"""A ranking for each judge, in the order of `tables.judges`. A baseline that uses all judges
together gives each the same. Raises `ValueError` with one line where the tables lack what it
needs."""
