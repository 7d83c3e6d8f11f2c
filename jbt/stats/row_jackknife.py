"""How far a fit would move without each of the clusters of its verdicts.

Verdicts on one prompt go together, so that only clusters of them are independent draws. The MAP
solves sum_g s_g(beta) = Lambda beta, with s_g the score of cluster g = 1 ... G and Lambda the prior
precision. Without cluster g it moves, to one Newton step, by -d_g, so that over clusters it varies
about its own expectation with covariance

    V = (G - 1) / G sum_g d_g d_g',  d_g = (H - I_g)^-1 s_g,  H = sum_g I_g + Lambda.

This is CR3 (Bell & McCaffrey 2002; Hansen 2025). The plain sandwich has H in the place of H - I_g:
it is too small where one cluster holds much of the information about a parameter, and t with G - 1
degrees of freedom is then too narrow as well. Here the degrees of freedom match the first two
moments of a variance in V under a working model (Satterthwaite), in which the scores of a cluster
have covariance I_g + tau^2 I_g H^-1 I_g; the second part is the cluster's own effect, as in Imbens
& Kolesar (2016), and tau^2 is estimated for each parameter.

What the prior does to the expectation is not in V: where the verdicts say little V is small, and
the error is not (`clusters.prior_part`, `identifiability.undetermined`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from jbt.types import Parameters, Rows

ENTRIES = 2**22
"""Numbers of clusters' information that are held at once."""

STEP = 8
"""Clusters are solved together whose contents number the same, rounded up to this."""


@dataclass(frozen=True, eq=False)
class Jackknife:
    """How far the MAP would go with other clusters, and how well that is known."""

    covariance: Float[np.ndarray, "P P"]
    """V, in the order (theta, c, kappa). The constant of theta has variance 0, the mean of the MAP
    being 0 whatever the verdicts."""
    planned: Float[np.ndarray, " P"]
    """Degrees of freedom at tau = 0: they depend on where the verdicts are and hardly on how they
    went, so that an interval withheld for want of them is not withheld by its result. Those of a
    theta are as if all else were known. 0 where nothing informs the parameter."""
    df: Float[np.ndarray, " P"]
    """Degrees of freedom at the estimated tau, for the quantile. Both are lower bounds: of the
    covariance between clusters' residual scores that fitting causes, the squares are bounded."""


def jackknife(
    inverse: Float[np.ndarray, "P P"], mode: Parameters, rows: Rows, cluster: Int[np.ndarray, " R"]
) -> Jackknife:
    """Cluster-robust covariance of the MAP, with its degrees of freedom.

    Args:
      inverse: from `clusters.inverse_hessian`.
      mode: the MAP.
      cluster: [R] which cluster each row is of, integers from 0. Rows without verdicts are of none.

    Raises:
      ValueError: fewer than 2 clusters.
    """
    from scipy import sparse

    data = _Data.of(mode, rows, cluster)
    g, m = data.n_clusters, data.n_contents
    if g < 2:
        raise ValueError(f"a jackknife needs 2 clusters, got {g}")
    # y_g with d_g = H^-1 y_g; like s_g it has entries for what cluster g compares only.
    y, information = np.zeros((2, len(data.content)))
    n_biases = data.x.shape[1]
    y_bias, kept, lost = np.zeros((3, g, n_biases))
    for block in data.blocks():
        solved = block.solve(inverse)
        y[block.entries], information[block.entries] = solved[:2]
        y_bias[block.clusters], kept[block.clusters], lost[block.clusters] = solved[2:]
    in_theta = sparse.csr_array((y, (data.owner, data.content)), shape=(g, m))
    border = in_theta.T @ y_bias
    meat = np.block([[(in_theta.T @ in_theta).toarray(), border], [border.T, y_bias.T @ y_bias]])
    covariance = (g - 1) / g * inverse @ meat @ inverse

    total = np.bincount(data.content, information, m)[data.content]
    share = np.divide(information, total, out=np.zeros_like(total), where=total > 0)
    weight = share / np.maximum(1 - share, 1e-9)
    squares = np.divide(y**2, total, out=np.zeros_like(total), where=total > 0)
    observed = np.bincount(data.content, squares, m)
    of_theta = _degrees(data.content, weight, weight**2, observed)
    number = np.tile(np.arange(n_biases), g)
    observed = np.diagonal(covariance)[m:] * g / (g - 1)
    of_bias = _degrees(number, kept.ravel(), lost.ravel(), observed)
    return Jackknife(covariance, *np.concatenate([of_theta, of_bias], axis=1))


def _degrees(
    parameter: np.ndarray, kept: np.ndarray, lost: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Degrees of freedom of the variance of each parameter, planned and at the estimated tau.

    Args:
      parameter: [entries] whose entry it is, into `observed`.
      kept: [entries] a cluster's part of the variance, expected at tau = 0: w'I_g H^-1 a for the
        parameter a'beta, with w = (H - I_g)^-1 a.
      lost: [entries] w'I_g H^-1 I_g w, which fitting takes of w'I_g w; and the part that the
        clusters' own effects add at tau = 1, but for what fitting takes of them.
      observed: the sum of squares of a'd_g over clusters.
    """

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(parameter, values, len(observed))

    def over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.divide(a, b, out=np.zeros_like(a), where=b > 0)

    part, expected = kept + lost, total(kept)
    share = over(kept, part)
    planned = over(expected**2, total(part * kept))
    ratio = np.maximum(1, over(observed, expected))
    own = over(ratio - 1, total(lost * share))
    part = over(part, expected[parameter]) + own[parameter] * lost
    return planned, over(ratio**2, total(part**2 * share))


@dataclass(frozen=True, eq=False)
class _Data:
    """What scores and information are made of: rows with a verdict, and as entries the contents
    that each cluster compares."""

    n_clusters: int
    n_contents: int
    cluster: np.ndarray
    """[rows]"""
    ends: np.ndarray
    """[2, rows] entry of the first and of the second content."""
    x: np.ndarray
    """[rows, D + 1] what c and kappa are multiplied with."""
    residual: np.ndarray
    """[rows] wins - shown p"""
    weight: np.ndarray
    """[rows] shown p (1 - p)"""
    owner: np.ndarray
    """[entries] cluster, ascending."""
    content: np.ndarray
    """[entries]"""

    @classmethod
    def of(cls, mode: Parameters, rows: Rows, cluster: np.ndarray) -> _Data:
        from scipy.special import expit

        shown = np.asarray(rows.shown)
        made = shown > 0
        names, of = np.unique(np.asarray(cluster)[made], return_inverse=True)
        first, second = np.asarray(rows.first)[made], np.asarray(rows.second)[made]
        x = np.column_stack([np.asarray(rows.difference), np.asarray(rows.ordered)])[made]
        theta, bias = np.asarray(mode.theta), np.append(mode.c, mode.kappa)
        p = expit(theta[first] - theta[second] + x @ bias)
        residual, weight = np.asarray(rows.wins)[made] - shown[made] * p, shown[made] * p * (1 - p)
        m = len(theta)
        key = of.astype(np.int64) * m + np.stack([first, second])
        keys, ends = np.unique(key, return_inverse=True)
        sides = ends.reshape(2, -1)
        return cls(len(names), m, of, sides, x, residual, weight, keys // m, keys % m)

    def blocks(self) -> Iterator[_Block]:
        """All clusters, those together whose information has about the same size."""
        size = np.bincount(self.owner, minlength=self.n_clusters)
        width = -(-size // STEP) * STEP
        n_biases = self.x.shape[1]
        for q in np.unique(width):
            those = np.flatnonzero(width == q)
            step = max(1, ENTRIES // (q + n_biases) ** 2)
            for begin in range(0, len(those), step):
                yield self._block(those[begin : begin + step], int(q))

    def _block(self, clusters: np.ndarray, q: int) -> _Block:
        n, b = len(clusters), self.x.shape[1]
        w = q + b
        number = np.full(self.n_clusters, -1)
        number[clusters] = np.arange(n)
        start = np.searchsorted(self.owner, clusters)
        entries = np.flatnonzero(number[self.owner] >= 0)
        of = number[self.owner[entries]]
        place = of, entries - start[of]
        index = np.zeros((n, w), int)
        index[place] = self.content[entries]
        index[:, q:] = self.n_contents + np.arange(b)

        some = np.flatnonzero(number[self.cluster] >= 0)
        row = number[self.cluster[some]]
        i, j = self.ends[:, some] - start[row]
        x, residual, weight = self.x[some], self.residual[some], self.weight[some]

        def add(to: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
            to += np.bincount(at, values, to.size).reshape(to.shape)

        information, score = np.zeros((n, w, w)), np.zeros((n, w))
        left, right = row * w + i, row * w + j
        add(score, np.r_[left, right], np.r_[residual, -residual])
        both = np.r_[left * w + i, right * w + j, left * w + j, right * w + i]
        add(information, both, np.r_[weight, weight, -weight, -weight])
        for k in range(b):
            score[:, q + k] = np.bincount(row, residual * x[:, k], n)
            border = np.zeros((n, w))
            add(border, np.r_[left, right], np.r_[weight * x[:, k], -weight * x[:, k]])
            for h in range(b):
                border[:, q + h] = np.bincount(row, weight * x[:, k] * x[:, h], n)
            information[:, q + k, :] = information[:, :, q + k] = border
        return _Block(clusters, entries, place, index, information, score, b)


@dataclass(frozen=True, eq=False)
class _Block:
    """Clusters, n of them, each with at most q contents; w = q + D + 1 coordinates, the contents'
    and then those of c and kappa."""

    clusters: np.ndarray
    """[n]"""
    entries: np.ndarray
    """Which entries of the data are theirs."""
    place: tuple[np.ndarray, np.ndarray]
    """Where these are in [n, w]."""
    index: np.ndarray
    """[n, w] into the parameters; 0 for padding, where score and information are 0."""
    information: np.ndarray
    """[n, w, w]"""
    score: np.ndarray
    """[n, w]"""
    n_biases: int

    def solve(self, inverse: np.ndarray) -> tuple[np.ndarray, ...]:
        """y and the information of the entries; y of c and kappa and what `_degrees` calls kept
        and lost, all [n, D + 1].

        With H^-1 restricted to a cluster's coordinates called K, (H - I_g)^-1 s_g is
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
