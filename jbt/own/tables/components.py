"""Connected components of the comparisons, and whether a cycle of them changes a covariate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jbt.identifiability.design_matrix import NULL
from jbt.own.tables.tables import Tables


@dataclass(frozen=True, eq=False)
class Chains:
    """What the comparisons of every pool and judge link; fits are numbered as in `Batch.pools`, or
    by judge where pools are merged."""

    islands: np.ndarray
    """[fits] number of connected components of contents, 1 where all are linked. A content that is
    never compared is a component of its own."""
    varies: np.ndarray
    """[fits, D] whether some closed chain of comparisons changes the covariate; a chain may pass
    from one rendering of a content to another at any point. With one covariate and kappa known, its
    coefficient c is identified if and only if this holds."""


def chains(tables: Tables, x: np.ndarray, *, merged: bool = False) -> Chains:
    """Find the connected components, and the covariates that closed chains change.

    Args:
      x: [rows of items, D] covariates.
      merged: all pools as one, in which contents of one name are one content.
    """
    n_judges, n_contents = len(tables.judges), len(tables.contents)
    content, pool = tables.items["content"].to_numpy(), tables.items["pool"].to_numpy()
    pool = pool * (not merged)
    # With the indices it sorts: hashing many distinct numbers is slower.
    in_pool, _ = np.unique(pool * n_contents + content, return_index=True)
    sizes = np.bincount(in_pool // n_contents)

    # A node is a content that is compared in a fit; all others are components of their own.
    first, second = (tables.verdicts[side].to_numpy() for side in ("first", "second"))
    fit = pool[first] * n_judges + tables.verdicts["judge"].to_numpy()
    sides = np.stack([fit * n_contents + content[side] for side in (first, second)])
    nodes, at = np.unique(sides, return_inverse=True)
    a, b = at.reshape(sides.shape)
    apart, fit_of = x[first] - x[second], nodes // n_contents

    roots, potential = _potentials(len(nodes), a, b, apart)
    n_fits = len(sizes) * n_judges
    islands = np.repeat(sizes, n_judges) - np.bincount(fit_of, minlength=n_fits)
    islands += np.bincount(fit_of[roots], minlength=n_fits)
    unexplained = np.abs(apart - potential[a] + potential[b])
    changed = unexplained > NULL * np.maximum(x.std(0), np.finfo(float).tiny)
    varies = np.zeros((n_fits, x.shape[1]), bool)
    np.logical_or.at(varies, fit, changed)
    return Chains(islands, varies)


def _potentials(
    n: int, a: np.ndarray, b: np.ndarray, apart: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A node of each component, and potentials [n, D] that differ along the edges of a spanning
    forest as these do.

    Args:
      a, b: [edges] the nodes of each edge.
      apart: [edges, D] potential of a minus that of b.
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    def graph(a: np.ndarray, b: np.ndarray) -> Any:
        return sparse.coo_array((np.ones(len(a)), (a, b)), shape=(n + 1, n + 1)).tocsr()

    _, island = csgraph.connected_components(graph(a, b), directed=False)
    roots = np.unique(island[:n], return_index=True)[1]
    # One more node, joined to one of each component, makes the forest a tree.
    joined = graph(np.append(a, np.full(len(roots), n)), np.append(b, roots))
    _, parent = csgraph.breadth_first_order(joined, n, directed=False)
    parent[n] = n

    # Any one edge between a node and its parent will do.
    step = np.zeros((n + 1, apart.shape[1]))
    for child, above, sign in ((a, b, 1), (b, a, -1)):
        edges = parent[child] == above
        step[child[edges]] = sign * apart[edges]
    while (parent != n).any():  # each pass doubles how far up the tree the sums reach
        step, parent = step + step[parent], parent[parent]
    return roots, step[:n]
