"""Cluster-robust covariance of a fit, from how far it moves without each cluster of verdicts.

Verdicts on one prompt are dependent, so only clusters of verdicts are independent draws. The MAP
solves sum_g s_g(beta) = Lambda beta, with s_g the score of cluster g = 1 ... G and Lambda the prior
precision. Without cluster g it moves, to one Newton step, by -d_g, so that over clusters it varies
about its own expectation with covariance

    V = (G - 1) / G sum_g d_g d_g',  d_g = (H - I_g)^-1 s_g,  H = sum_g I_g + Lambda.

This is CR3 (Bell & McCaffrey 2002; Hansen 2025). The plain sandwich has H in place of H - I_g: it
is too small where one cluster holds much of the information about a parameter, and t with G - 1
degrees of freedom is then too narrow as well. Here the degrees of freedom match the first two
moments of a variance in V under a working model (Satterthwaite), in which the scores of a cluster
have covariance I_g + tau^2 I_g H^-1 I_g; the second part is the cluster's own effect, as in Imbens
& Kolesar (2016), and tau^2 is estimated for each parameter.

V leaves out the bias from the prior: where the verdicts say little, V is small and the error is not
(`clusters.prior_part`, `identifiability.undetermined`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from jbt.types import Parameters, Rows

ENTRIES = 2**22
"""Most numbers of clusters' information held at once."""

STEP = 8
"""Clusters with equally many contents, rounded up to a multiple of this, are solved together."""


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Covariance of the MAP over clusters, with its degrees of freedom."""

    covariance: Float[np.ndarray, "P P"]
    """V, in the order (theta, c, kappa). The constant of theta has variance 0, because the mean of
    the MAP's theta is always 0."""
    planned: Float[np.ndarray, " P"]
    """Degrees of freedom at tau = 0. They depend on which pairs have verdicts and hardly on the
    outcomes, so an interval withheld for too few is not withheld because of its result. Those of a
    theta take all else as known. 0 where no verdict informs the parameter."""
    df: Float[np.ndarray, " P"]
    """Degrees of freedom at the estimated tau, for the quantile. Both are lower bounds, as the
    squared covariances between clusters' residual scores that fitting causes are bounded above."""


def jackknife(
    inverse: Float[np.ndarray, "P P"],
    mode: Parameters,
    rows: Rows,
    cluster: Int[np.ndarray, " R"],
    *,
    loading: Float[np.ndarray, "2 R"] | None = None,
    moments: Float[np.ndarray, "2 R"] | None = None,
) -> Jackknife:
    """Cluster-robust covariance of the MAP, with its degrees of freedom.

    Args:
      inverse: from `clusters.inverse_hessian`.
      mode: the MAP.
      cluster: [R] the cluster of each row, integers from 0. Rows without verdicts count for none.
      loading: change of a row's logit with theta of its first content, and minus that with theta of
        its second; default 1.
      moments: residual and weight of each row, where the model is not Bradley-Terry's: the score is
        the sum of residual z over rows z, and the information that of weight z z'.

    Raises:
      ValueError: fewer than 2 clusters.
    """
    from scipy import sparse

    data = Clusters.of(mode, rows, cluster, loading, moments)
    g, m = data.n_clusters, data.n_contents
    if g < 2:
        raise ValueError(f"a jackknife needs 2 clusters, got {g}")
    # y_g with d_g = H^-1 y_g; like s_g it has entries only for the contents cluster g compares.
    y, information = np.zeros((2, len(data.content)))
    n_biases = data.x.shape[1]
    y_bias, kept, lost = np.zeros((3, g, n_biases))
    for block in data.blocks():
        solved = block.solve(inverse)
        y[block.entries], information[block.entries] = solved[:2]
        y_bias[block.clusters], kept[block.clusters], lost[block.clusters] = solved[2:]
    y_theta = sparse.csr_array((y, (data.owner, data.content)), shape=(g, m))
    border = y_theta.T @ y_bias
    meat = np.block([[(y_theta.T @ y_theta).toarray(), border], [border.T, y_bias.T @ y_bias]])
    covariance = (g - 1) / g * inverse @ meat @ inverse

    total = np.bincount(data.content, information, m)[data.content]
    weight = _weights(information, total)
    squares = np.divide(y**2, total, out=np.zeros_like(total), where=total > 0)
    observed = np.bincount(data.content, squares, m)
    theta_df = _degrees(data.content, weight, weight**2, observed)
    coefficient = np.tile(np.arange(n_biases), g)
    observed = np.diagonal(covariance)[m:] * g / (g - 1)
    bias_df = _degrees(coefficient, kept.ravel(), lost.ravel(), observed)
    return Jackknife(covariance, *np.concatenate([theta_df, bias_df], axis=1))


def _weights(information: np.ndarray, total: np.ndarray) -> np.ndarray:
    """[entries] `kept` of `_degrees` for a theta at known other parameters, from the information of
    each entry and of all clusters about its content."""
    share = np.divide(information, total, out=np.zeros_like(total), where=total > 0)
    return share / np.maximum(1 - share, 1e-9)


def _degrees(
    parameter: np.ndarray, kept: np.ndarray, lost: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Degrees of freedom of the variance of each parameter, planned and at the estimated tau.

    Args:
      parameter: [entries] index of the entry's parameter in `observed`.
      kept: [entries] a cluster's part of the variance, expected at tau = 0: w'I_g H^-1 a for the
        parameter a'beta, with w = (H - I_g)^-1 a.
      lost: [entries] w'I_g H^-1 I_g w, by which fitting reduces w'I_g w; it is also the part that
        the clusters' own effects add at tau = 1, before fitting reduces them.
      observed: the sum of squares of a'd_g over clusters.
    """

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(parameter, values, len(observed))

    def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.divide(a, b, out=np.zeros_like(a), where=b > 0)

    part, expected = kept + lost, total(kept)
    share = ratio(kept, part)
    planned = ratio(expected**2, total(part * kept))
    excess = np.maximum(1, ratio(observed, expected))
    own_effect = ratio(excess - 1, total(lost * share))
    part = ratio(part, expected[parameter]) + own_effect[parameter] * lost
    return planned, ratio(excess**2, total(part**2 * share))


@dataclass(frozen=True, eq=False)
class Clusters:
    """The parts of scores and information: rows with a verdict, and as entries the contents that
    each cluster compares."""

    n_clusters: int
    n_contents: int
    cluster: np.ndarray
    """[rows]"""
    ends: np.ndarray
    """[2, rows] entry of the first and of the second content."""
    loading: np.ndarray
    """[2, rows] multipliers of theta, that of the second content with its sign turned."""
    x: np.ndarray
    """[rows, D + 1] multipliers of c and kappa."""
    residual: np.ndarray
    """[rows] wins - shown p, or as given"""
    weight: np.ndarray
    """[rows] shown p (1 - p), or as given"""
    owner: np.ndarray
    """[entries] cluster, ascending."""
    content: np.ndarray
    """[entries]"""

    @classmethod
    def of(
        cls,
        mode: Parameters,
        rows: Rows,
        cluster: np.ndarray,
        loading: np.ndarray | None,
        moments: np.ndarray | None = None,
    ) -> Clusters:
        from scipy.special import expit

        shown = np.asarray(rows.shown)
        real = shown > 0 if moments is None else moments[1] > 0
        names, index = np.unique(np.asarray(cluster)[real], return_inverse=True)
        first, second = np.asarray(rows.first)[real], np.asarray(rows.second)[real]
        x = np.column_stack([np.asarray(rows.difference), np.asarray(rows.ordered)])[real]
        theta, bias = np.asarray(mode.theta), np.append(mode.c, mode.kappa)
        if moments is None:
            p, n = expit(theta[first] - theta[second] + x @ bias), shown[real]
            residual, weight = np.asarray(rows.wins)[real] - n * p, n * p * (1 - p)
        else:
            residual, weight = moments[:, real]
        m = len(theta)
        key = index.astype(np.int64) * m + np.stack([first, second])
        keys, ends = np.unique(key, return_inverse=True)
        sides = ends.reshape(2, -1)
        loading = np.ones(sides.shape) if loading is None else loading[:, real]
        of_rows = sides, loading, x, residual, weight
        return cls(len(names), m, index, *of_rows, keys // m, keys % m)

    def blocks(self) -> Iterator[Block]:
        """All clusters, grouped by the approximate size of their information."""
        size = np.bincount(self.owner, minlength=self.n_clusters)
        width = -(-size // STEP) * STEP
        n_biases = self.x.shape[1]
        for q in np.unique(width):
            clusters = np.flatnonzero(width == q)
            step = max(1, ENTRIES // (q + n_biases) ** 2)
            for begin in range(0, len(clusters), step):
                yield self._block(clusters[begin : begin + step], int(q))

    def _block(self, clusters: np.ndarray, q: int) -> Block:
        n, b = len(clusters), self.x.shape[1]
        w = q + b
        position = np.full(self.n_clusters, -1)
        position[clusters] = np.arange(n)
        start = np.searchsorted(self.owner, clusters)
        entries = np.flatnonzero(position[self.owner] >= 0)
        entry_cluster = position[self.owner[entries]]
        place = entry_cluster, entries - start[entry_cluster]
        index = np.zeros((n, w), int)
        index[place] = self.content[entries]
        index[:, q:] = self.n_contents + np.arange(b)

        rows = np.flatnonzero(position[self.cluster] >= 0)
        row = position[self.cluster[rows]]
        i, j = self.ends[:, rows] - start[row]
        x, residual, weight = self.x[rows], self.residual[rows], self.weight[rows]
        one, other = self.loading[:, rows]

        def add(to: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
            to += np.bincount(at, values, to.size).reshape(to.shape)

        information, score = np.zeros((n, w, w)), np.zeros((n, w))
        left, right = row * w + i, row * w + j
        add(score, np.r_[left, right], np.r_[residual * one, -residual * other])
        corners = np.r_[left * w + i, right * w + j, left * w + j, right * w + i]
        crossed = -weight * one * other
        add(information, corners, np.r_[weight * one**2, weight * other**2, crossed, crossed])
        for k in range(b):
            score[:, q + k] = np.bincount(row, residual * x[:, k], n)
            border = np.zeros((n, w))
            along = weight * x[:, k]
            add(border, np.r_[left, right], np.r_[along * one, -along * other])
            for h in range(b):
                border[:, q + h] = np.bincount(row, weight * x[:, k] * x[:, h], n)
            information[:, q + k, :] = information[:, :, q + k] = border
        return Block(clusters, entries, place, index, information, score, b)


@dataclass(frozen=True, eq=False)
class Block:
    """n clusters, each with at most q contents, and w = q + D + 1 coordinates: first the contents',
    then those of c and kappa."""

    clusters: np.ndarray
    """[n]"""
    entries: np.ndarray
    """Indices of their entries in the data."""
    place: tuple[np.ndarray, np.ndarray]
    """Places of these entries in [n, w]."""
    index: np.ndarray
    """[n, w] into the parameters; 0 for padding, where score and information are 0."""
    information: np.ndarray
    """[n, w, w]"""
    score: np.ndarray
    """[n, w]"""
    n_biases: int

    def solve(self, inverse: np.ndarray) -> tuple[np.ndarray, ...]:
        """y and the information of the entries; for c and kappa y, and `kept` and `lost` of
        `_degrees`, all [n, D + 1].

        Let K be H^-1 restricted to a cluster's coordinates. Then (H - I_g)^-1 s_g is
        H^-1 (I - I_g K)^-1 s_g, and I_g (H - I_g)^-1 a is (I - I_g K)^-1 I_g H^-1 a.
        """
        q = self.information.shape[1] - self.n_biases
        k = inverse[self.index[:, :, None], self.index[:, None, :]]
        product = self.information @ k
        right = np.concatenate([self.score[:, :, None], product[:, :, q:]], axis=2)
        solved = np.linalg.solve(np.eye(k.shape[1]) - product, right)
        y, u = solved[:, :, 0], solved[:, :, 1:]
        kept = np.einsum("nwb,nwb->nb", u, k[:, :, q:]).clip(0)
        lost = np.einsum("nwb,nwb->nb", u, k @ u).clip(0)
        diagonal = np.diagonal(self.information, axis1=1, axis2=2)
        return y[self.place], diagonal[self.place], y[:, q:], kept, lost
