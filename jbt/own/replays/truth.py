"""The top k that trusted labels define: of a quality column, or of anchors."""

from __future__ import annotations

import numpy as np

from jbt.own.tables.reading import TableError, location
from jbt.own.tables.tables import Tables


def top_by_quality(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """Contents of the highest given quality; those tied with the k-th place are among them.

    Args:
      owner: [rows of items] content of each item, numbered within its pool.
      n_contents: of the largest pool.
      k: size of the top set.

    Returns:
      [pools, n_contents] 1 for the top set, else 0; NaN throughout in pools with an item whose
      quality is not given.

    Raises:
      TableError: two items of one content have different qualities.
    """
    pool, quality = tables.items["pool"].to_numpy(), tables.items["quality"].to_numpy(float)
    given = np.full((len(tables.pools), n_contents), -np.inf)
    known = ~np.isnan(quality)
    given[pool[known], owner[known]] = quality[known]
    for row in np.flatnonzero(known & (given[pool, owner] != quality)).tolist():
        content = tables.contents[tables.items["content"].to_numpy()[row]]
        what = f"content {content!r} of pool {tables.pools[pool[row]]!r} has different qualities"
        raise TableError(f"{location(tables.items_path, tables.item_lines[row])}: {what}")
    cut = -np.sort(-given, axis=1)[:, k - 1 : k]
    top = np.where(given >= cut, 1.0, 0.0)
    top[pool[~known]] = np.nan
    return top


def top_by_anchors(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """The top k of the order that the anchors make, where they make one.

    Anchors are chained: a better than b and b better than c is a better than c. They define the top
    k of a pool if each of k contents is better than each of the others, and none the other way
    round; what is known within the two sets does not matter.

    Args, returns: as `top_by_quality`; NaN throughout in pools where they do not define it.
    """
    top = np.full((len(tables.pools), n_contents), np.nan)
    size = _sizes(tables, owner)
    pool, better, worse = (tables.anchors[c].to_numpy() for c in ("pool", "better", "worse"))
    for p in np.unique(pool).tolist():
        mine, m = pool == p, int(size[p])
        reaches = np.zeros((m, m), bool)
        reaches[owner[better[mine]], owner[worse[mine]]] = True
        for _ in range(m.bit_length()):  # chains twice as long each time
            reaches |= reaches @ reaches
        strict = reaches & ~reaches.T
        # A content of the set is above at least m - k others, one outside above fewer.
        inside = strict.sum(1) >= m - k
        if inside.sum() == k and strict[np.ix_(inside, ~inside)].all():
            top[p] = 0
            top[p, :m] = inside
    return top


def top_by_members(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """The top k of labels of members, where k contents are labelled members, or all but k not.

    Nothing is known of a content whose items are labelled both ways.

    Args, returns: as `top_by_quality`; NaN throughout in pools where they do not define it.
    """
    top = np.full((len(tables.pools), n_contents), np.nan)
    size = _sizes(tables, owner)
    pool, item, member = (tables.members[c].to_numpy() for c in ("pool", "item", "member"))
    said = np.zeros((2, *top.shape), bool)
    said[member.astype(int), pool, owner[item]] = True
    outside, inside = said & ~said[::-1]
    for p in np.unique(pool).tolist():
        if inside[p].sum() == k:
            top[p] = inside[p]
        elif outside[p].sum() == size[p] - k:
            top[p] = (np.arange(n_contents) < size[p]) & ~outside[p]
    return top


def _sizes(tables: Tables, owner: np.ndarray) -> np.ndarray:
    """[pools] contents of each."""
    size = np.zeros(len(tables.pools), int)
    np.maximum.at(size, tables.items["pool"].to_numpy(), owner + 1)
    return size
