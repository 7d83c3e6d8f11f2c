"""The top k that trusted labels define: of a quality column, or of anchors."""

from __future__ import annotations

import numpy as np
import pandas as pd

from jbt.own.reading import TableError
from jbt.own.tables import Tables


def top_by_quality(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """Contents of the highest given quality; those tied with the k-th place are among them.

    Args:
      owner: [rows of items] content of each item, numbered within its pool.
      n_contents: of the largest pool.
      k: size of the top set.

    Returns:
      [pools, n_contents] 1 for the top set, else 0; NaN throughout in pools with a content whose
      quality is not given.

    Raises:
      TableError: two items of one content have different qualities.
    """
    pool, quality = tables.items["pool"].to_numpy(), tables.items["quality"].to_numpy()
    rows = pd.DataFrame({"pool": pool, "owner": owner, "quality": quality})
    each = rows.groupby(["pool", "owner"], sort=False)["quality"].agg(["min", "max", "first"])
    unequal = each.index[each["min"] < each["max"]]
    if len(unequal):
        at, number = unequal[0]
        row = np.flatnonzero((pool == at) & (owner == number))[0]
        name = tables.contents[tables.items["content"].iloc[row]]
        what = f"content {name!r} of pool {tables.pools[at]!r} has items of different quality"
        raise TableError(f"{tables.items_path}: {what}")
    given = np.full((len(tables.pools), n_contents), -np.inf)
    at_pool, at_content = (each.index.get_level_values(i) for i in (0, 1))
    given[at_pool, at_content] = np.where(each["first"].isna(), np.nan, each["first"])
    unknown = np.isnan(given).any(1)
    cut = -np.sort(-given, axis=1)[:, k - 1 : k]
    return np.where(unknown[:, None], np.nan, (given >= cut) & (given > -np.inf))


def top_by_anchors(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """The top k of the order that the anchors make, where they make one.

    Anchors are chained: a better than b and b better than c is a better than c. They define the top
    k of a pool if each of k contents is better than each of the others, and none the other way
    round; what is known within the two sets does not matter.

    Args, returns: as `top_by_quality`; NaN throughout in pools where they do not define it.
    """
    top = np.full((len(tables.pools), n_contents), np.nan)
    size = pd.Series(owner).groupby(tables.items["pool"].to_numpy()).max() + 1
    pairs = tables.anchors.assign(
        better=owner[tables.anchors["better"]], worse=owner[tables.anchors["worse"]]
    )
    for pool, anchors in pairs.groupby("pool"):
        m = int(size[pool])
        reaches = np.zeros((m, m), bool)
        reaches[anchors["better"], anchors["worse"]] = True
        for _ in range(m.bit_length()):  # chains twice as long each time
            reaches |= reaches @ reaches
        strict = reaches & ~reaches.T
        # A content of the set is above at least m - k others, one outside above fewer.
        inside = strict.sum(1) >= m - k
        if inside.sum() == k and strict[np.ix_(inside, ~inside)].all():
            top[pool] = 0
            top[pool, :m] = inside
    return top
