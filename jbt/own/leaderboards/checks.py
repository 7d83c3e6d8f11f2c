"""Evidence about what a corrected ranking assumes: that a covariate that varies within a model,
like length, is unrelated to quality (trusted pairs), that c holds for models far from all others in
a covariate, and that the ranks do not hang on a covariate's scale or on ties."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt import runtime
from jbt.kernel import metrics
from jbt.own.leaderboards.davidson import problem_of
from jbt.own.leaderboards.intervals import intervals
from jbt.own.leaderboards.problem import Fitted, Settings, Setup
from jbt.own.tables import missing
from jbt.own.tables.tables import Tables

FAR = 2.0
"""A model is far from the others beyond this many standard deviations of their answers."""

MIDDLE = 0.95
"""Share of the other models' answers in their middle."""

SCALES = {
    "log1p": {"transform": "log1p", "difference": "plain"},
    "none": {"transform": "none", "difference": "plain"},
    "relative": {"transform": "none", "difference": "relative"},
}
"""Scales of the covariates under which rankings are compared: changes of the settings."""


@dataclass(frozen=True)
class AnchorCheck:
    """Trusted pairs compared with the rankings. Shares are of pairs of two models; NaN without
    any."""

    n_pairs: int
    naive: float
    """Share of the pairs whose better item's model has the higher theta, ties half."""
    corrected: float
    n_disputed: int
    """Number of pairs that the two rankings order differently."""
    corrected_right: int
    """Number of disputed pairs that the corrected ranking orders as trusted."""
    larger_better: tuple[float, ...]
    """[D] share of all trusted pairs that differ in the covariate in which the better item has more
    of it."""
    larger_won: tuple[float, ...]
    """[D] share of the judge's verdicts won by the item with more of it."""


def check_anchors(
    tables: Tables, judge: int, x: np.ndarray, theta: np.ndarray, naive: np.ndarray
) -> AnchorCheck | None:
    """Compare both rankings with the trusted pairs; None without any.

    Args:
      judge: into `tables.judges`.
      x: [rows of items, D] covariates.
      theta, naive: [contents] by number in `tables.contents`, NaN where unknown.
    """
    if not len(tables.anchors):
        return None
    content = tables.items["content"].to_numpy()
    better, worse = (tables.anchors[side].to_numpy() for side in ("better", "worse"))
    right, right_naive = (
        metrics.order(v[content[better]], v[content[worse]]) for v in (theta, naive)
    )
    two_models = (content[better] != content[worse]) & np.isfinite(right) & np.isfinite(right_naive)
    right, right_naive = right[two_models], right_naive[two_models]
    disputed = right * right_naive < 0
    verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    won, weight = verdicts["p_first"].to_numpy(), verdicts["count"].to_numpy()
    return AnchorCheck(
        n_pairs=len(right),
        naive=_share((1 + right_naive) / 2),
        corrected=_share((1 + right) / 2),
        n_disputed=int(disputed.sum()),
        corrected_right=int((right[disputed] > 0).sum()),
        larger_better=_larger_wins(x[better] - x[worse]),
        larger_won=_larger_wins(x[first] - x[second], won, weight),
    )


def _share(values: np.ndarray, weight: np.ndarray | None = None) -> float:
    weight = np.ones(len(values)) if weight is None else weight
    return float(values @ weight / weight.sum()) if weight.sum() else np.nan


def _larger_wins(
    difference: np.ndarray, won: np.ndarray | float = 1.0, weight: np.ndarray | None = None
) -> tuple[float, ...]:
    """Share won by the side with more of each covariate."""
    weight = np.ones(len(difference)) if weight is None else weight
    return tuple(
        _share(np.where(d > 0, won, 1 - won)[d != 0], weight[d != 0]) for d in difference.T
    )


def judged_items(tables: Tables, judge: int) -> np.ndarray:
    """The rows of `tables.items` that a judge saw."""
    verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
    seen = np.zeros(len(tables.items), bool)
    seen[verdicts[["first", "second"]].to_numpy()] = True
    return np.flatnonzero(seen)


def outside(setup: Setup, judge: int) -> pd.DataFrame:
    """The models more than `FAR` from all others in a covariate, so that c is extrapolated to them,
    farthest first: model, covariate (with its transformation), distance (mean over its answers less
    that over the others', in standard deviations of the others'), inside (share of its answers in
    the middle 95 % of the others'). Only answers that the judge saw count."""
    judged, models = judged_items(setup.tables, judge), []
    content = setup.tables.items["content"].to_numpy()[judged]
    contents, owner = np.unique(content, return_inverse=True)
    for name, values in zip(setup.covariates, setup.x[judged].T, strict=True):
        if not len(judged):
            continue
        values = values - values.mean()
        n, total, squares = (
            np.bincount(owner, v) for v in (np.ones_like(values), values, values**2)
        )
        n_others = np.maximum(n.sum() - n, 1)
        mean = (total.sum() - total) / n_others
        sd = np.sqrt(((squares.sum() - squares) / n_others - mean**2).clip(0))
        spread = sd > 1e-7 * np.abs(values).max(initial=0)  # else rounding
        distance = np.divide(total / n - mean, sd, out=np.zeros_like(sd), where=spread)
        for i in np.flatnonzero(np.abs(distance) > FAR).tolist():
            low, high = np.quantile(values[owner != i], [(1 - MIDDLE) / 2, (1 + MIDDLE) / 2])
            answers = values[owner == i]
            inside = float(((low <= answers) & (answers <= high)).mean())
            model = setup.tables.contents[contents[i]]
            models.append((model, name, float(distance[i]), inside))
    models.sort(key=lambda model: -abs(model[2]))
    return pd.DataFrame(models, columns=pd.Index(["model", "covariate", "distance", "inside"]))


def under_other_choices(tables: Tables, settings: Settings) -> list[pd.DataFrame]:
    """Ranks of the models of each judge under other choices (MAP, float64).

    Returns:
      For each judge a table with a row a model, best first: model, `asked` (the ranking asked for),
      those of `SCALES` that the covariates allow (log1p and relative: none negative), and
      `ties_dropped` where there are ties; missing where a fit did not converge or the model has no
      verdict.
    """
    choices = {"asked": (tables, settings)}
    covariates = tables.items[list(settings.covariates)]
    negative = bool((covariates < 0).any(axis=None))
    for name, changes in SCALES.items() if settings.covariates else ():
        if name == "none" or not negative:
            choices[name] = tables, dataclasses.replace(settings, **changes)
    untied = tables.without_ties()
    if len(untied.verdicts) < len(tables.verdicts):
        choices["ties_dropped"] = untied, settings
    judges = range(len(tables.judges))
    with runtime.precision("float64"):
        setups = {name: Setup.of(*choice) for name, choice in choices.items()}
        theta = {
            name: [problem_of(setup, judge).fit().theta for judge in judges]
            for name, setup in setups.items()
        }
    frames = []
    for judge in judges:
        ranks = {name: metrics.ranks(by_judge[judge]) for name, by_judge in theta.items()}
        frame = pd.DataFrame(ranks).astype("Int64")
        frame.insert(0, "model", tables.contents)
        order = np.argsort(-theta["asked"][judge], kind="stable")
        frames.append(frame.iloc[order].reset_index(drop=True))
    return frames


def filled_either_way(setup: Setup, judge: int, fit: Fitted) -> pd.DataFrame:
    """c and ranks of a judge with every missing verdict won by the item with more of a covariate,
    and with all won by the other.

    Args:
      fit: without the missing verdicts.

    Returns:
      Two rows for each covariate, none without missing verdicts: covariate (with its
      transformation), wins (whether the item with more of it won), estimate, low, high and status
      of c, and n_changed, how many models have another rank than without them.
    """
    rows, ranks = [], metrics.ranks(fit.theta)
    for d, wins, other in setup.filled if missing.number_of(setup.tables, judge) else ():
        top = problem_of(other, judge).fit()
        place = top.problem.at["c"][d, 0]
        ends = intervals(top).parameters.loc[place, ["estimate", "low", "high", "status"]]
        both = np.isfinite(top.theta) & np.isfinite(fit.theta)
        changed = int((metrics.ranks(top.theta) != ranks)[both].sum())
        rows.append((setup.covariates[d], wins, *ends, changed))
    columns = ["covariate", "wins", "estimate", "low", "high", "status", "n_changed"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def widest(frame: pd.DataFrame) -> str:
    """Name the model whose rank depends most on the choices."""
    table = frame.drop(columns="model").astype(float)
    low, high = table.min(axis=1), table.max(axis=1)
    if not (high > low).any():
        return "every model has the same rank under all choices"
    i = int(np.argmax((high - low).fillna(0)))
    name, lowest, highest = frame["model"].iloc[i], low.iloc[i], high.iloc[i]
    return f"{name} ranks {lowest:.0f} to {highest:.0f}, the widest range"
