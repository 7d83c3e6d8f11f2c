"""The top k that trusted labels define: a quality column, or anchors."""

from __future__ import annotations

import numpy as np

from jbt.own.tables.sheets import TableError, location
from jbt.own.tables.tables import Tables


def top_by_quality(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """The contents of highest quality in the table, with all that tie with the k-th place.

    Args:
      owner: [rows of items] content of each item, numbered within its pool.
      n_contents: contents of the largest pool (count).
      k: size of the top set.

    Returns:
      [pools, n_contents] 1 for the top set, else 0; all NaN in pools with an item without a
      quality.

    Raises:
      TableError: two items of one content have different qualities.
    """
    pool, quality = tables.items["pool"].to_numpy(), tables.items["quality"].to_numpy(float)
    given = np.full((len(tables.pools), n_contents), -np.inf)
    known = ~np.isnan(quality)
    given[pool[known], owner[known]] = quality[known]
    for row in np.flatnonzero(known & (given[pool, owner] != quality)).tolist():
        content = tables.contents[tables.items["content"].to_numpy()[row]]
        problem = f"content {content!r} of pool {tables.pools[pool[row]]!r} has different qualities"
        raise TableError(f"{location(tables.items_path, int(tables.item_lines[row]))}: {problem}")
    cut = -np.sort(-given, axis=1)[:, k - 1 : k]
    top = np.where(given >= cut, 1.0, 0.0)
    top[pool[~known]] = np.nan
    return top


def top_by_anchors(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """The top k by anchors, where they define it.

    Anchors are chained: if a is better than b and b better than c, a is better than c. They define
    the top k of a pool if each of k contents is better than each of the others, and none the other
    way round; the order within the two sets does not matter.

    Args and returns: as `top_by_quality`; all NaN in pools where anchors do not define it.
    """
    top = np.full((len(tables.pools), n_contents), np.nan)
    size = _sizes(tables, owner)
    pool, better, worse = (tables.anchors[c].to_numpy() for c in ("pool", "better", "worse"))
    for p in np.unique(pool).tolist():
        in_pool, m = pool == p, int(size[p])
        reaches = np.zeros((m, m), bool)
        reaches[owner[better[in_pool]], owner[worse[in_pool]]] = True
        for _ in range(m.bit_length()):  # doubles the length of the chains
            reaches |= reaches @ reaches
        strict = reaches & ~reaches.T
        # A content of the set is above at least m - k others, one outside above fewer.
        inside = strict.sum(1) >= m - k
        if inside.sum() == k and strict[np.ix_(inside, ~inside)].all():
            top[p] = 0
            top[p, :m] = inside
    return top


def top_by_members(tables: Tables, owner: np.ndarray, n_contents: int, k: int) -> np.ndarray:
    """The top k by labels of members, in pools where k contents are labelled yes, or all but k no.

    A content whose items are labelled both ways counts as unlabelled.

    Args and returns: as `top_by_quality`; all NaN in pools where labels do not define it.
    """
    top = np.full((len(tables.pools), n_contents), np.nan)
    size = _sizes(tables, owner)
    pool, item, member = (tables.members[c].to_numpy() for c in ("pool", "item", "member"))
    labelled = np.zeros((2, *top.shape), bool)
    labelled[member.astype(int), pool, owner[item]] = True
    outside, inside = labelled & ~labelled[::-1]
    for p in np.unique(pool).tolist():
        if inside[p].sum() == k:
            top[p] = inside[p]
        elif outside[p].sum() == size[p] - k:
            top[p] = (np.arange(n_contents) < size[p]) & ~outside[p]
    return top


def _sizes(tables: Tables, owner: np.ndarray) -> np.ndarray:
    """[pools] number of contents."""
    size = np.zeros(len(tables.pools), int)
    np.maximum.at(size, tables.items["pool"].to_numpy(), owner + 1)
    return size
