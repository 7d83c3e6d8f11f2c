"""Qualities on the scale of Elo: 10 to 1 odds are 400 points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jbt.own.leaderboards.intervals import LEVEL, Intervals, quantile
from jbt.own.tables.names import hint
from jbt.own.tables.outcomes import NUMBER

PER_LOGIT = 400 / np.log(10)
"""Points a logit."""


class Scale(NamedTuple):
    """Qualities as a reader sees them."""

    name: str
    form: str
    """Of a number, as `format` takes it."""
    corrected: list[str]
    """Columns of the estimate, the low and the high end among the models of a leaderboard."""
    naive: list[str]


def scale_of(models: pd.DataFrame) -> Scale:
    """Elo where a leaderboard has it, else theta."""
    name, form, quality = ("Elo", ".0f", "elo_") if "elo" in models else ("theta", "+.2f", "")
    ends = [name.lower(), f"{quality}low", f"{quality}high"]
    return Scale(name, form, ends, [f"{end}_naive" for end in ends])


@dataclass(frozen=True)
class Elo:
    """What is fixed of the scale."""

    points: float
    anchor: str | None
    """Model that has so many points; None if the mean over the models has them."""

    @classmethod
    def of(cls, text: str, models: Sequence[str]) -> Elo:
        """Read `NAME=POINTS`, or `POINTS`.

        Raises:
          ValueError: not of this form; no such model.
        """
        name, separator, points = text.rpartition("=")
        if not NUMBER.fullmatch(points) or not np.isfinite(float(points)):
            raise ValueError(f"--elo is {text!r}, allowed: NAME=1000, or 1000 for the mean")
        if separator and name not in models:
            which = f"among the {len(models)} of the items{hint(name, models)}"
            raise ValueError(f"--elo: no model {name!r} {which}")
        return cls(float(points), name if separator else None)

    def in_words(self) -> str:
        """What is fixed, and what intervals are of."""
        fixed, of = "the mean over the models", "from it"
        if self.anchor is not None:
            fixed, of = self.anchor, "from this model"
        return (
            f"a logit is {PER_LOGIT:.1f} Elo points; {fixed} is fixed at {self.points:g}, and "
            f"intervals are those of differences {of}"
        )

    def columns(self, theta: np.ndarray, ends: Intervals, models: Sequence[str]) -> dict[str, Any]:
        """elo, low and high of each model [M]: with an anchor of its difference from that, which
        itself has no interval.

        Args:
          theta: [M] estimates.
        """
        if self.anchor is None:
            low, high = ends.parameters[["low", "high"]].head(len(theta)).to_numpy(float).T
        else:
            a = models.index(self.anchor)
            theta = theta - theta[a]
            half = quantile((1 + LEVEL) / 2, ends.degrees[a]) * np.sqrt(ends.variance[a])
            half = np.where(ends.comparable[a], half, np.nan)
            low, high = ends.apart[a] - half, ends.apart[a] + half
        values = {"elo": theta, "elo_low": low, "elo_high": high}
        return {name: self.points + PER_LOGIT * value for name, value in values.items()}
