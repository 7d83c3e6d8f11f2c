"""One judge's verdicts on models against one common opponent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt.own.tables.tables import Tables


@dataclass(frozen=True, eq=False)
class Duels:
    """Verdicts with the opponent on one side, a row each."""

    opponent: str
    model: np.ndarray
    """[R] content, an index into `tables.contents`."""
    prompt: np.ndarray
    """[R] pool of the file, an index from 0 over those with a row."""
    share: np.ndarray
    """[R] share that the model won; graded verdicts are shares."""
    weight: np.ndarray
    """[R] verdicts that a row stands for (count)."""
    difference: np.ndarray
    """[R, D] covariates of the model's answer less those of the opponent's."""
    n_others: int
    """Verdicts without the opponent, left out (count)."""

    @classmethod
    def of(
        cls, tables: Tables, judge: int, covariates: Sequence[str], against: str | None, needs: str
    ) -> Duels:
        """The verdicts of a judge with `against` on one side; without it, with the one model that
        is in every verdict.

        Args:
          tables: pools not merged.
          judge: an index into `tables.judges`.
          needs: who needs a common opponent, for the message.

        Raises:
          ValueError: there is no common opponent, or more than one; none faced `against`.
        """
        verdicts = tables.verdicts[tables.verdicts["judge"] == judge]
        content = tables.items["content"].to_numpy()
        items = verdicts[["first", "second"]].to_numpy()
        sides = content[items]
        name = tables.judges[judge]
        whose = "" if name is None else f" of judge {name}"
        if against is None:
            common = _in_every(sides)
            if len(common) != 1:
                what = "no model is" if not len(common) else "two models are"
                raise ValueError(
                    f"{needs} needs a common opponent, and {what} in every verdict{whose}: "
                    "--against MODEL names it"
                )
            opponent = int(common[0])
        else:
            opponent = tables.contents.index(against)
        facing = (sides[:, 0] == opponent) != (sides[:, 1] == opponent)
        if not facing.any():
            raise ValueError(f"{needs}: no verdict{whose} is against {tables.contents[opponent]!r}")
        first = sides[facing, 0] != opponent  # whether the model is called the first
        won = verdicts["p_first"].to_numpy()[facing]
        model, other = np.where(first[:, None], items[facing], items[facing, ::-1]).T
        x = tables.items[list(covariates)].to_numpy(float)
        count = verdicts["count"].to_numpy()
        return cls(
            tables.contents[opponent],
            content[model],
            pd.factorize(verdicts["source"].to_numpy()[facing])[0],
            np.where(first, won, 1 - won),
            count[facing].astype(float),
            x[model] - x[other],
            int(count[~facing].sum()),
        )

    @property
    def n_prompts(self) -> int:
        return int(self.prompt.max()) + 1


def _in_every(sides: np.ndarray) -> np.ndarray:
    """The contents that are on one side of every verdict; [R, 2]"""
    if not len(sides):
        return np.zeros(0, int)
    return np.array([c for c in np.unique(sides[0]) if (sides == c).any(1).all()], int)
