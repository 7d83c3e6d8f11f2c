"""What would give the intervals that a leaderboard withholds for want of prompts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jbt.own.leaderboards.few_prompts import MOST_COPIES
from jbt.own.leaderboards.problem import Problem
from jbt.types import Fit


@dataclass(frozen=True)
class Remedy:
    """Prompts to add, or models to leave out, until no interval is withheld for want of prompts."""

    prompts: int | None
    """Prompts like these to add; None where `MOST_COPIES` times as many are not enough."""
    models: int | None
    """Models among which as many verdicts on these prompts would be enough; None where there is no
    such number, or c or kappa lacks prompts too."""

    @classmethod
    def of(cls, problem: Problem, fit: Fit, few: np.ndarray) -> Remedy:
        """Find it; `few` [P] marks the parameters that are seen on too few prompts."""
        prompts, m = problem.more_prompts(fit, few), len(problem.contents)
        if prompts is None or few[m:].any():
            return cls(prompts, None)
        n = problem.n_clusters
        factor = (n + prompts) / n
        rows, real = problem.rows, np.asarray(problem.rows.shown) > 0
        ends = np.r_[np.asarray(rows.first)[real], np.asarray(rows.second)[real]]
        appearances = len(np.unique(np.tile(problem.source[real], 2) * m + ends))
        models = int((problem.n_verdicts > 0).sum() / factor)
        # A prompt cannot have more answers than models.
        return cls(prompts, models if models > 1 and appearances <= n * models else None)

    def sentence(self) -> str:
        """In words."""
        if self.prompts is None:
            return (
                f"{MOST_COPIES:g} times as many prompts like these would not give all of them one"
            )
        more = f"{self.prompts} more prompt{'s' * (self.prompts > 1)} like these"
        fewer = "" if self.models is None else f", or as many verdicts on {self.models} models,"
        return f"about {more}{fewer} would give each an interval"

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        return asdict(self)
