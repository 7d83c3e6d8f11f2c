"""Evidence for or against the assumption of a correction: a covariate that varies within a model,
like length, is unrelated to quality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.kernel import metrics
from jbt.own.tables.tables import Tables

RECURRING = 5
"""Fewest pools with a version of a model for that version to be fitted as a model of its own."""


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


@dataclass(frozen=True)
class VersionCheck:
    """Models with several answers to one prompt that differ in a covariate."""

    n_sets: int
    """Number of prompts and models with several such answers."""
    models: tuple[str, ...]
    """[V] model of each version (items of one name) that recurs over the pools."""
    versions: tuple[str, ...]
    """[V] names of the versions."""
    naive: np.ndarray
    """[V] theta with each version fitted as a model of its own, logits."""
    corrected: np.ndarray

    def spreads(self) -> list[tuple[str, int, float, float]]:
        """For each model its name, its number of versions and the range of their theta, naive and
        corrected, in logits."""
        frame = pd.DataFrame(
            {"model": self.models, "naive": self.naive, "corrected": self.corrected}
        )
        return [
            (
                str(name),
                len(versions),
                float(np.ptp(versions["naive"])),
                float(np.ptp(versions["corrected"])),
            )
            for name, versions in frame.groupby("model", sort=False)
        ]


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


@dataclass(frozen=True, eq=False)
class Versions:
    """The items that are fitted as versions of their model."""

    n_sets: int
    content: np.ndarray
    """[rows of items] number of the model, or of the version, from `len(tables.contents)` on."""
    models: tuple[str, ...]
    names: tuple[str, ...]
    """Names of the versions, in the order of their numbers."""


def find_versions(tables: Tables, judge: int, x: np.ndarray) -> Versions | None:
    """Find items of one content and pool that differ in a covariate, among those the judge saw.
    None if there are none.

    Args:
      tables: its pools not merged.
      judge, x: see `check_anchors`.
    """
    verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
    judged = np.unique(verdicts[["first", "second"]].to_numpy())
    items = tables.items.iloc[judged][["pool", "content", "item"]]
    covariates = pd.DataFrame(x[judged], index=items.index)
    answers = covariates.groupby([items["pool"], items["content"]])
    varying = np.asarray((answers.transform("max") > answers.transform("min")).any(axis=1))
    items = items[varying]
    if items.empty:
        return None
    n_sets = len(items.drop_duplicates(["pool", "content"]))
    pools = items.groupby(["content", "item"], sort=False).size()
    recurring = pools[pools >= RECURRING].reset_index()[["content", "item"]]
    has_several = recurring.groupby("content")["item"].transform("size") > 1
    recurring = recurring[has_several].reset_index(drop=True)
    number = pd.MultiIndex.from_frame(recurring).get_indexer(
        pd.MultiIndex.from_frame(tables.items[["content", "item"]])
    )
    content = tables.items["content"].to_numpy()
    content = np.where(number >= 0, len(tables.contents) + number, content)
    models = np.asarray(tables.contents, object)[recurring["content"].to_numpy(int)]
    return Versions(n_sets, content, tuple(models), tuple(recurring["item"]))
