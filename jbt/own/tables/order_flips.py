"""How often a judge contradicts itself when the same two items are shown the other way round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.tables.tables import Tables


@dataclass(frozen=True, eq=False)
class Flips:
    """Of every pool and judge, numbered as in `Batch.pools`."""

    n_pairs: np.ndarray
    """[fits] pairs of items that were shown in both orders."""
    n_flips: np.ndarray
    """[fits] those whose verdicts contradict each other: for each pair the difference between the
    shares that one of the two items won shown first and shown second. 1 where another item won, a
    half where one verdict is a tie, 0 where both agree; repeats count by their mean."""


def flips(tables: Tables) -> Flips:
    """Contradictions between orders; verdicts of unknown order are left out."""
    of = tables.verdicts[tables.verdicts["shown"]]
    first, second = of["first"].to_numpy(), of["second"].to_numpy()
    turned = first > second
    share = of["p_first"].to_numpy()
    shown = pd.DataFrame(
        {
            "fit": (of["pool"] * len(tables.judges) + of["judge"]).to_numpy(),
            "one": np.where(turned, second, first),
            "other": np.where(turned, first, second),
            "turned": turned,
            "count": of["count"].to_numpy(),
            "won": of["count"].to_numpy() * np.where(turned, 1 - share, share),
        }
    )
    pair = ["fit", "one", "other"]
    total = shown.groupby([*pair, "turned"], as_index=False, sort=False).sum()
    total["share"] = total["won"] / total["count"]
    both = total[~total["turned"]].merge(total[total["turned"]], on=pair)
    n_fits = len(tables.pools) * len(tables.judges)
    fit, apart = both["fit"].to_numpy(), (both["share_x"] - both["share_y"]).abs().to_numpy()
    return Flips(
        np.bincount(fit, minlength=n_fits), np.bincount(fit, weights=apart, minlength=n_fits)
    )
