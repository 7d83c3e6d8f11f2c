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
(`prior_part`, `identifiability.undetermined`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from jbt.kernel.listed import Listed

ENTRIES = 2**18
"""Most numbers of clusters' information held at once: they stay in a processor's cache."""

STEP = 8
"""Clusters with equally many contents, above this rounded up to a multiple of it, are solved
together."""


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


def prior_part(
    inverse: Float[np.ndarray, "P P"], precision: Float[np.ndarray, " P"]
) -> Float[np.ndarray, "P P"]:
    """The prior's part H^-1 Lambda H^-1 of the posterior covariance H^-1; the verdicts' part is
    H^-1 information H^-1.

    Where the share s = a'(prior's part)a / a'H^-1 a of a combination a'beta is small, the MAP is
    biased by s times the distance of the truth from the prior's mean. With a truth drawn from the
    prior, that is sqrt(s / (1 - s)) standard errors.
    """
    return inverse @ (precision[:, None] * inverse)


def jackknife(
    inverse: Float[np.ndarray, "P P"],
    beta: Float[np.ndarray, " P"],
    rows: Listed,
    groups: Groups,
    *,
    loading: Float[np.ndarray, " R"] | None = None,
) -> Jackknife:
    """Cluster-robust covariance of the MAP, with its degrees of freedom.

    Args:
      inverse: from `Listed.inverse_hessian`.
      beta: the MAP.
      groups: of the rows.
      loading: change of a row's logit with theta of its first content less that of its second;
        default 1.

    Raises:
      ValueError: fewer than 2 clusters.
    """
    from scipy import sparse

    data = Clusters.of(beta, rows, groups, loading)
    g, m = groups.n_clusters, rows.n_contents
    if g < 2:
        raise ValueError(f"a jackknife needs 2 clusters, got {g}")
    # y_g with d_g = H^-1 y_g; like s_g it has entries only for the contents cluster g compares.
    y, information = np.zeros((2, len(groups.content)))
    n_biases = data.x.shape[1]
    y_bias, kept, lost = np.zeros((3, g, n_biases))
    for block in data.blocks():
        solved = block.solve(inverse)
        y[block.entries], information[block.entries] = solved[:2]
        y_bias[block.clusters], kept[block.clusters], lost[block.clusters] = solved[2:]
    y_theta = sparse.csr_array((y, (groups.owner, groups.content)), shape=(g, m))
    border = y_theta.T @ y_bias
    meat = np.block([[(y_theta.T @ y_theta).toarray(), border], [border.T, y_bias.T @ y_bias]])
    covariance = (g - 1) / g * inverse @ meat @ inverse

    total = np.bincount(groups.content, information, m)[groups.content]
    weight = _weights(information, total)
    squares = np.divide(y**2, total, out=np.zeros_like(total), where=total > 0)
    observed = np.bincount(groups.content, squares, m)
    theta_df = _degrees(groups.content, weight, weight**2, observed)
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
class Groups:
    """Which rows and contents each cluster has. Clusters of like size stand together, and so do
    their rows and entries, which are the contents that each cluster compares."""

    n_clusters: int
    rows: np.ndarray
    """[rows] those with a verdict, cluster by cluster."""
    cluster: np.ndarray
    """[rows] their cluster, ascending."""
    ends: np.ndarray
    """[2, rows] entry of the first and of the second content."""
    owner: np.ndarray
    """[entries] cluster, ascending."""
    content: np.ndarray
    """[entries]"""

    @classmethod
    def of(cls, rows: Listed, cluster: Int[np.ndarray, " R"]) -> Groups:
        """Group the rows.

        Args:
          cluster: [R] the cluster of each row, integers from 0. Rows without verdicts count for
            none.
        """
        m, real = rows.n_contents, np.flatnonzero(rows.real)
        present = np.bincount(cluster[real]) > 0
        index = (present.cumsum() - 1)[cluster[real]]
        contents = np.stack([rows.first[real], rows.second[real]])
        # By size, and at one size as they were numbered.
        size = _width(np.bincount(np.unique(index * m + contents) // m))
        index = np.argsort(np.argsort(size, kind="stable"))[index]
        keys, ends = np.unique(index * m + contents, return_inverse=True)
        owner, content = np.divmod(keys, m)
        row = np.argsort(index, kind="stable")
        ends = ends.reshape(2, -1)[:, row]
        return cls(len(size), real[row], index[row], ends, owner, content)


def _width(size: np.ndarray) -> np.ndarray:
    """Numbers of contents, rounded up: clusters of one width are solved together."""
    return np.where(size > STEP, -(-size // STEP) * STEP, size)


@dataclass(frozen=True, eq=False)
class Clusters:
    """The parts of scores and information, by the rows of `groups`."""

    groups: Groups
    n_contents: int
    loading: np.ndarray
    """[rows] multipliers of theta, that of the second content with its sign turned."""
    x: np.ndarray
    """[rows, K] multipliers of the other coefficients."""
    residual: np.ndarray
    """[rows] of `Listed.moments`, as `weight`"""
    weight: np.ndarray

    @classmethod
    def of(
        cls, beta: np.ndarray, rows: Listed, groups: Groups, loading: np.ndarray | None
    ) -> Clusters:
        at = groups.rows
        residual, weight = (v[at] for v in rows.moments(rows.logits(beta)))
        loading = np.ones(len(at)) if loading is None else loading[at]
        return cls(groups, rows.n_contents, loading, rows.columns[at], residual, weight)

    def blocks(self) -> Iterator[Block]:
        """All clusters, grouped by the approximate size of their information."""
        groups, n_biases = self.groups, self.x.shape[1]
        width = _width(np.bincount(groups.owner, minlength=groups.n_clusters))
        ends = np.flatnonzero(np.diff(width, append=-1)) + 1
        for begin, end in zip(np.r_[0, ends[:-1]].tolist(), ends.tolist(), strict=True):
            step = max(1, ENTRIES // (int(width[begin]) + n_biases) ** 2)
            for start in range(begin, end, step):
                yield self._block(start, min(end, start + step), int(width[begin]))

    def _block(self, begin: int, end: int, q: int) -> Block:
        n, b, groups = end - begin, self.x.shape[1], self.groups
        w = q + b
        entries = slice(*np.searchsorted(groups.owner, [begin, end]))
        owner = groups.owner[entries] - begin
        start = np.searchsorted(owner, np.arange(n))
        place = owner, np.arange(len(owner)) - start[owner]
        index = np.zeros((n, w), int)
        index[place] = groups.content[entries]
        index[:, q:] = self.n_contents + np.arange(b)

        rows = slice(*np.searchsorted(groups.cluster, [begin, end]))
        row = groups.cluster[rows] - begin
        i, j = groups.ends[:, rows] - entries.start - start[row]
        x, residual, weight = self.x[rows], self.residual[rows], self.weight[rows]
        loading = self.loading[rows]

        def add(to: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
            to += np.bincount(at, values, to.size).reshape(to.shape)

        information, score = np.zeros((n, w, w)), np.zeros((n, w))
        left, right = row * w + i, row * w + j
        add(score, np.r_[left, right], np.r_[residual * loading, -residual * loading])
        corners = np.r_[left * w + i, right * w + j, left * w + j, right * w + i]
        own = weight * loading**2
        add(information, corners, np.r_[own, own, -own, -own])
        for k in range(b):
            score[:, q + k] = np.bincount(row, residual * x[:, k], n)
            border = np.zeros((n, w))
            along = weight * x[:, k] * loading
            add(border, np.r_[left, right], np.r_[along, -along])
            for h in range(b):
                border[:, q + h] = np.bincount(row, weight * x[:, k] * x[:, h], n)
            information[:, q + k, :] = information[:, :, q + k] = border
        return Block(slice(begin, end), entries, place, index, information, score, b)


@dataclass(frozen=True, eq=False)
class Block:
    """n clusters, each with at most q contents, and w = q + D + 1 coordinates: first the contents',
    then those of c and kappa."""

    clusters: slice
    entries: slice
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
