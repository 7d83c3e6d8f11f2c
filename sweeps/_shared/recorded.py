"""Tables of recorded verdicts as arrays over pools."""

from __future__ import annotations

import dataclasses

import numpy as np

from jbt.experiments.declare import RecordedSweep
from jbt.own import tables


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
    """P pools of a user's tables with verdicts of J judges: at most N items a pool, D covariates, M
    contents."""

    pools: list[str]
    judges: list[str]
    contents: list[str]
    mask: np.ndarray
    """[P, N] False for padding."""
    content: np.ndarray
    """[P, N] in 0..M-1, the same over pools."""
    covariates: np.ndarray
    """[P, N, D] as in the table."""
    shown: np.ndarray
    """[P, J, N, N] how often i was shown first against j."""
    wins: np.ndarray
    """[P, J, N, N] how often i then won; a tie is half a win, errors are dropped."""
    better: np.ndarray
    """[P, N, N] whether a trusted label calls i better than j."""

    def data(self) -> dict[str, np.ndarray]:
        """The arrays, for `Group.data`."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: v for name, v in fields.items() if isinstance(v, np.ndarray)}


def read(s: RecordedSweep, covariates: tuple[str, ...]) -> Recorded:
    """Read at most `s.pools` of the pools, evenly spaced over the table.

    Raises:
      ValueError: no data, or tables that cannot be read (`tables.TableError`).
    """
    files = (s.file(name) for name in s.files)
    whole = tables.read(*files, covariates=covariates)
    n_pools, n_judges = len(whole.pools), len(whole.judges)
    items, verdicts, anchors = whole.items, whole.verdicts, whole.anchors
    place = items.groupby("pool").cumcount().to_numpy()
    pool = items["pool"].to_numpy()
    n = int(place.max()) + 1

    def over_items(values: np.ndarray) -> np.ndarray:
        out = np.zeros((n_pools, n, *values.shape[1:]), values.dtype)
        out[pool, place] = values
        return out

    shown = np.zeros((n_pools, n_judges, n, n))
    wins, better = np.zeros_like(shown), np.zeros((n_pools, n, n), bool)
    pair = (
        verdicts["pool"],
        verdicts["judge"],
        place[verdicts["first"]],
        place[verdicts["second"]],
    )
    np.add.at(shown, pair, verdicts["count"])
    np.add.at(wins, pair, verdicts["count"] * verdicts["p_first"])
    better[anchors["pool"], place[anchors["better"]], place[anchors["worse"]]] = True
    arrays = {
        "mask": over_items(np.ones(len(items), bool)),
        "content": over_items(items["content"].to_numpy()),
        "covariates": over_items(items[list(covariates)].to_numpy(float)),
        "shown": shown,
        "wins": wins,
        "better": better,
    }
    kept = spaced(n_pools, s.pools)
    return Recorded(
        [whole.pools[i] for i in kept],
        [judge or "judge" for judge in whole.judges],
        whole.contents,
        **{name: values[kept] for name, values in arrays.items()},
    )


def spaced(n: int, most: int) -> np.ndarray:
    """Indices of at most `most` of n things, evenly spaced."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(int)
