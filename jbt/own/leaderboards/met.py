"""How often each two models met, and which of them won: counts, without a model of the verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

COUNTS = ("n_won", "n_lost", "n_tied")


def met(verdicts: pd.DataFrame, content: np.ndarray, models: Sequence[str]) -> pd.DataFrame:
    """Count the verdicts between each two models.

    Args:
      verdicts: as of `Tables`.
      content: [rows of items] number of the model.
      models: [M] names.

    Returns:
      Two rows for each pair of models that met, one from the side of either: model, opponent,
      n_verdicts, n_won, n_lost, n_tied (repeats counted; a graded verdict is won by the side with
      more than half of it), share (mean of the verdicts, a tie being half a win).
    """
    first, second = (content[verdicts[side].to_numpy()] for side in ("first", "second"))
    share, n = verdicts["p_first"].to_numpy(), verdicts["count"].to_numpy()
    sides = np.r_[first, second], np.r_[second, first]
    share, n, other = np.r_[share, 1 - share], np.r_[n, n], sides[0] != sides[1]
    counts = {"n_won": n * (share > 0.5), "n_lost": n * (share < 0.5), "n_tied": n * (share == 0.5)}
    table = pd.DataFrame({"model": sides[0], "opponent": sides[1], "n_verdicts": n, **counts})
    table = table.assign(share=n * share)[other].groupby(["model", "opponent"]).sum()
    table["share"] /= table["n_verdicts"]
    names = dict(enumerate(models))
    return table.rename(index=names).reset_index()


def totals(table: pd.DataFrame, models: Sequence[str]) -> pd.DataFrame:
    """[M] the counts of `met` over all opponents, in the order of the models."""
    return table.groupby("model")[[*COUNTS]].sum().reindex(list(models), fill_value=0)
