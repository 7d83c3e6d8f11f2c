"""Evidence for or against the assumption of a correction: a covariate that varies within a model,
like length, is unrelated to quality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jbt.kernel import metrics
from jbt.own.tables.tables import Tables


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
