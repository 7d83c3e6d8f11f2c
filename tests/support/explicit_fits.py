"""A user's tables as explicit design matrices, by a reader of its own."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

SHARE = {"first": 1.0, "second": 0.0, "tie": 0.5}


def designs(paths: list[Path], owner: str) -> Iterator[SimpleNamespace]:
    """Yield for each pool and judge: z, a row for each row of the verdicts with the columns
    qualities, log(words) standardised (`at_c`), and position where some pair was shown in both
    orders; wins and count of each row.

    Args:
      paths: verdicts and items.
      owner: column of the items that names the quality.
    """
    verdicts, items = (pd.read_csv(path) for path in paths)
    words = np.log(items["words"])
    items = items.assign(x=(words - words.mean()) / words.std(ddof=0), key=items[owner])
    rows = items.set_index(["pool", "item"])
    verdicts = verdicts[verdicts["winner"].isin(SHARE)]
    verdicts = verdicts.assign(**{name: verdicts.get(name, 1) for name in ("judge", "count")})
    for (pool, _), of in verdicts.groupby(["pool", "judge"], sort=False):
        first, second = (
            rows.loc[pd.MultiIndex.from_frame(of[["pool", side]])] for side in ("first", "second")
        )
        mine = items[items["pool"] == pool]
        names = list(dict.fromkeys(mine["key"]))
        pairs = set(zip(first["key"], second["key"], strict=True))
        position = any((b, a) in pairs for a, b in pairs if a != b)
        eye = pd.DataFrame(np.eye(len(names)), names, names)
        z = eye.loc[first["key"]].to_numpy() - eye.loc[second["key"]].to_numpy()
        x = first["x"].to_numpy() - second["x"].to_numpy()
        z = np.column_stack([z, x, *[np.ones(len(z))] * position])
        count = of["count"].to_numpy(float)
        wins = count * of["winner"].map(SHARE).to_numpy()
        yield SimpleNamespace(pool=pool, z=z, wins=wins, count=count, at_c=len(names))
