"""A user's tables as explicit design matrices, by a reader of its own."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

SHARE = {"first": 1.0, "second": 0.0, "tie": 0.5}


def designs(paths: list[Path], owner: str) -> Iterator[SimpleNamespace]:
    """Yield for each pool: z, a row for each row of the verdicts with the columns qualities,
    log(words) standardised (`at_c`), and position where some pair was shown in both orders; wins
    and count of each row.

    Args:
      paths: verdicts of one judge and items.
      owner: column of the items that names the quality.
    """
    verdicts, items = (pd.read_csv(path) for path in paths)
    words = np.log(items["words"])
    items = items.assign(x=(words - words.mean()) / words.std(ddof=0)).set_index(["pool", "item"])
    for pool, of in verdicts.groupby("pool", sort=False):
        first, second = (items.loc[pool].loc[of[side]] for side in ("first", "second"))
        names = np.array(items.loc[pool][owner].unique())
        one, other = (np.array(side[owner])[:, None] == names for side in (first, second))
        pairs = set(zip(first[owner], second[owner], strict=True))
        position = any((b, a) in pairs for a, b in pairs if a != b)
        x = first["x"].to_numpy() - second["x"].to_numpy()
        z = np.column_stack([one * 1.0 - other, x, *[np.ones(len(x))] * position])
        count = of["count"].to_numpy(float)
        wins = count * of["winner"].map(SHARE).to_numpy()
        yield SimpleNamespace(pool=pool, z=z, wins=wins, count=count, at_c=len(names))
