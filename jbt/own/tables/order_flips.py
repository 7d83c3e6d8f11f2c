"""Count how often a judge contradicts itself when two items are shown in the other order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.tables.tables import Tables


@dataclass(frozen=True, eq=False)
class Flips:
    """Pairs shown in both orders, for every pool and judge, numbered as in `Batch.pools`."""

    n_pairs: np.ndarray
    """[fits] pairs of items that were shown in both orders."""
    n_flips: np.ndarray
    """[fits] contradictions, summed over these pairs: the difference between the shares that an
    item of the pair won shown first and shown second. 1 where the other item won, a half where one
    verdict is a tie, 0 where both agree; repeats count by their mean."""


def flips(tables: Tables) -> Flips:
    """Count contradictions between orders; verdicts of unknown order are left out."""
    verdicts = tables.verdicts[tables.verdicts["shown"]]
    first, second = verdicts["first"].to_numpy(), verdicts["second"].to_numpy()
    turned = first > second
    share = verdicts["p_first"].to_numpy()
    shown = pd.DataFrame(
        {
            "fit": (verdicts["pool"] * len(tables.judges) + verdicts["judge"]).to_numpy(),
            "low": np.minimum(first, second),
            "high": np.maximum(first, second),
            "turned": turned,
            "count": verdicts["count"].to_numpy(),
            "won": verdicts["count"].to_numpy() * np.where(turned, 1 - share, share),
        }
    )
    pair = ["fit", "low", "high"]
    total = shown.groupby([*pair, "turned"], as_index=False, sort=False).sum()
    total["share"] = total["won"] / total["count"]
    both = total[~total["turned"]].merge(total[total["turned"]], on=pair)
    n_fits = len(tables.pools) * len(tables.judges)
    fit, apart = both["fit"].to_numpy(), (both["share_x"] - both["share_y"]).abs().to_numpy()
    return Flips(
        np.bincount(fit, minlength=n_fits), np.bincount(fit, weights=apart, minlength=n_fits)
    )
