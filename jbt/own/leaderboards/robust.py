"""How much a ranking depends on a covariate's scale, on ties, and on extrapolation to models far
from all others in a covariate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from jbt import runtime
from jbt.kernel import metrics
from jbt.own.fits.batch import Position
from jbt.own.leaderboards.davidson import problem_of
from jbt.own.leaderboards.listing import Difference
from jbt.own.leaderboards.problem import Setup
from jbt.own.tables.tables import Tables, Transform
from jbt.types import Prior, Status

FAR = 2.0
"""A model is far from the others beyond this many standard deviations of their answers."""

MIDDLE = 0.95
"""Share of the other models' answers in their middle."""

CHOICES: dict[str, tuple[Transform, Difference]] = {
    "log1p": ("log1p", "plain"),
    "none": ("none", "plain"),
    "relative": ("none", "relative"),
}
"""Scales of the covariates under which rankings are compared."""


@dataclass(frozen=True)
class Outside:
    """A model whose answers are far from all others' in a covariate, so that c is extrapolated."""

    model: str
    covariate: str
    """With its transformation."""
    distance: float
    """Mean over its answers less that over the others', in standard deviations of the others'."""
    inside: float
    """Share of its answers in the middle 95 % of the others'."""

    def sentence(self) -> str:
        side = "above" if self.distance > 0 else "below"
        return (
            f"{self.model} lies outside the other models in {self.covariate}: on average "
            f"{abs(self.distance):.1f} sd {side} theirs, {self.inside:.0%} of its answers in their "
            f"middle {MIDDLE:.0%}; its rank assumes that c holds that far out (--robust: its rank "
            "on other scales)"
        )

    def record(self) -> dict[str, Any]:
        """The entry of the JSON file."""
        return asdict(self)


def outside(
    tables: Tables, judge: int, x: np.ndarray, covariates: Sequence[str]
) -> tuple[Outside, ...]:
    """The models that are more than `FAR` from all others, farthest first.

    Args:
      tables: pools not merged.
      judge: index into `tables.judges`; only answers that it judged count.
      x: [rows of items, D] covariates, named in `covariates`.
    """
    verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
    judged = np.unique(verdicts[["first", "second"]].to_numpy())
    if not len(judged):
        return ()
    contents, owner = np.unique(tables.items["content"].to_numpy()[judged], return_inverse=True)
    models = []
    for name, values in zip(covariates, x[judged].T, strict=True):
        values = values - values.mean()
        sums = [np.bincount(owner, v, len(contents)) for v in (np.ones_like(values), values)]
        squares = np.bincount(owner, values**2, len(contents))
        n, total = sums
        n_others = np.maximum(n.sum() - n, 1)
        mean = (total.sum() - total) / n_others
        sd = np.sqrt(((squares.sum() - squares) / n_others - mean**2).clip(0))
        distance = np.divide(total / n - mean, sd, out=np.zeros_like(sd), where=sd > 0)
        for i in np.flatnonzero(np.abs(distance) > FAR):
            low, high = np.quantile(values[owner != i], [(1 - MIDDLE) / 2, (1 + MIDDLE) / 2])
            answers = values[owner == i]
            inside = float(((low <= answers) & (answers <= high)).mean())
            models.append(Outside(tables.contents[contents[i]], name, float(distance[i]), inside))
    return tuple(sorted(models, key=lambda model: -abs(model.distance)))


def compare(
    tables: Tables,
    covariates: Sequence[str],
    *,
    transform: Transform,
    standardise: bool,
    difference: Difference,
    position: Position,
    prior: Prior,
) -> list[pd.DataFrame]:
    """Ranks of the models of each judge under other choices (MAP, float64).

    Args:
      tables, covariates, ...: as for `leaderboard`.

    Returns:
      For each judge a table with a row a model, best first: model, `asked` (the ranking asked for),
      those of `CHOICES` that the covariates allow (log1p and relative: none negative), and
      `ties_dropped` where there are ties; missing where a fit did not converge or the model has no
      verdict.
    """
    default = (tables, transform, difference)
    choices = {"asked": default}
    negative = bool(len(covariates)) and bool((tables.items[list(covariates)] < 0).any(axis=None))
    if len(covariates):
        choices |= {
            name: (tables, *scale)
            for name, scale in CHOICES.items()
            if name == "none" or not negative
        }
    untied = tables.without_ties()
    if len(untied.verdicts) < len(tables.verdicts):
        choices["ties_dropped"] = (untied, transform, difference)
    columns: dict[str, list[np.ndarray]] = {}
    with runtime.precision("float64"):
        for name, (given, scale, rule) in choices.items():
            setup = Setup.of(given, covariates, scale, standardise, rule, position, prior)[0]
            columns[name] = [_theta(setup, judge) for judge in range(len(tables.judges))]
    frames = []
    for judge in range(len(tables.judges)):
        theta = {name: by_judge[judge] for name, by_judge in columns.items()}
        frame = pd.DataFrame({name: metrics.ranks(v) for name, v in theta.items()}).astype("Int64")
        frame.insert(0, "model", tables.contents)
        order = np.argsort(-theta["asked"], kind="stable")
        frames.append(frame.iloc[order].reset_index(drop=True))
    return frames


def _theta(setup: Setup, judge: int) -> np.ndarray:
    """[contents of the tables] NaN where unknown."""
    problem = problem_of(setup, judge)
    theta = np.full(len(setup.tables.contents), np.nan)
    if (problem.n_verdicts > 0).any():
        fit = problem.fit(problem.variant)
        if int(fit.status) == Status.CONVERGED:
            quality = np.asarray(fit.parameters.theta)
            theta[problem.contents] = np.where(problem.n_verdicts > 0, quality, np.nan)
    return theta


def widest(frame: pd.DataFrame) -> str:
    """Name the model whose rank depends most on the choices."""
    table = frame.drop(columns="model").astype(float)
    low, high = table.min(axis=1), table.max(axis=1)
    if not (high > low).any():
        return "every model has the same rank under all choices"
    i = int(np.argmax((high - low).fillna(0)))
    name, lowest, highest = frame["model"].iloc[i], low.iloc[i], high.iloc[i]
    return f"{name} ranks {lowest:.0f} to {highest:.0f}, the widest range"


def record(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The entry of the JSON file: null where missing."""
    columns = {
        k: v.tolist() if k == "model" else [None if pd.isna(rank) else int(rank) for rank in v]
        for k, v in frame.items()
    }
    names = [str(k) for k in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
