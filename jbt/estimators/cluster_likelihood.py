"""The likelihood of the verdicts of a cluster, its random effects integrated out, for `mixed`.

Laplace's approximation with the next terms of its expansion (Shun and McCullagh 1995), which few
verdicts a unit need: with 15 verdicts on 6 answers and sd 1.2, Laplace's alone finds 1.07. In each
cluster these terms are bounded. Clusters of similar size are padded and computed together, by
NumPy: a fit asks some hundred times, for which compiling does not pay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from jbt.estimators.mixed import Mixed

INNER_STEPS, INNER_TOLERANCE = 30, 1e-6
"""Of Newton's method for the effects of a cluster: most steps, and the last one's length in
standard deviations of the effects."""

LARGEST_TERMS = 0.25
"""Nats within which the terms of a cluster are bounded: where few verdicts meet a large sd, the
expansion diverges."""

FEWEST_ROWS = 8
"""Rows to which smaller clusters are padded."""

AT_ONCE = 2**22
"""Most entries of the clusters' matrices held at once."""


class Block(NamedTuple):
    """Clusters of similar size, padded with rows without verdicts."""

    clusters: np.ndarray
    """[n] numbers of the clusters."""
    rows: np.ndarray
    """[n, r] rows of the problem; R at padding."""
    columns: np.ndarray
    """[n, r, q] of the effects, sds 1; 0 at padding."""
    effect: np.ndarray
    """[q] the effect of each column."""
    data: tuple[np.ndarray, np.ndarray]
    """Shown and wins [n, r]."""
    met: Met
    """The coefficients that they meet."""


class Met(NamedTuple):
    """The few of the K coefficients that each cluster of a block meets."""

    columns: np.ndarray
    """[n, r, m] their columns in the problem's `fixed`; 0 at padding."""
    places: np.ndarray
    """[n, m] among the K; K at padding."""

    @classmethod
    def of(cls, fixed: Any, n: int) -> Met:
        """From the block's rows [n r, K], sparse."""
        fixed.sum_duplicates()
        fixed.eliminate_zeros()
        fixed, (n_rows, k) = fixed.tocoo(), fixed.shape
        cluster, row = np.divmod(fixed.row.astype(int), n_rows // n)
        slot, n_met = _numbered(cluster, fixed.col, n)
        columns = np.zeros((n, n_rows // n, n_met.max(initial=0)))
        columns[cluster, row, slot] = fixed.data
        places = np.full((n, columns.shape[2]), k)
        places[cluster, slot] = fixed.col
        return cls(columns, places)

    def rows(self, values: np.ndarray) -> np.ndarray:
        """[n, r, C] sums of the columns, weighted by values of the coefficients [K, C]."""
        return self.columns @ np.vstack([values, np.zeros(values.shape[1])])[self.places]

    def gradient(self, residual: np.ndarray, k: int) -> np.ndarray:
        """[K] from that in the rows' logits [n, r]."""
        of_met = _times(self.columns.transpose(0, 2, 1), residual)
        return np.bincount(self.places.ravel(), of_met.ravel(), k + 1)[:k]

    def information(self, weight: np.ndarray, k: int) -> np.ndarray:
        """[K, K] from that about the rows' logits [n, r, r]."""
        n, m = self.places.shape
        step = max(1, AT_ONCE // max(1, m**2))
        total = np.zeros((k + 1) ** 2)
        for start in range(0, n, step):
            some = slice(start, start + step)
            columns, places = self.columns[some], self.places[some]
            of_met = columns.transpose(0, 2, 1) @ (weight[some] @ columns)
            cells = places[:, :, None] * (k + 1) + places[:, None]
            total += np.bincount(cells.ravel(), of_met.ravel(), len(total))
        return total.reshape(k + 1, k + 1)[:k, :k]

    def leverage(self, covariance: np.ndarray) -> np.ndarray:
        """[n, r, r] covariance of the rows, from that of the coefficients [K, K]."""
        padded = np.pad(covariance, (0, 1))
        of_met = padded[self.places[:, :, None], self.places[:, None]]
        return self.columns @ of_met @ self.columns.transpose(0, 2, 1)


def blocks_of(problem: Mixed) -> list[Block]:
    """The clusters with a verdict, those of similar numbers of rows and units together."""
    from scipy import sparse

    real = np.flatnonzero(problem.shown > 0)
    _, cluster = np.unique(problem.cluster[real], return_inverse=True)
    order = np.argsort(cluster, kind="stable")
    rows, cluster = real[order], cluster[order]
    n_rows = np.bincount(cluster)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
    local = []
    for name, sides in problem.units.items():
        unit, of_unit = sides[:, rows].ravel(), np.tile(cluster, 2)
        at, has = np.full(len(unit), -1), unit >= 0
        at[has], n_units = _numbered(of_unit[has], unit[has], len(n_rows))
        factor = problem.factors.get(name, np.ones(len(problem.shown)))[rows]
        local.append((at.reshape(2, -1), n_units, factor))
    k = problem.fixed.shape[1]
    fixed = sparse.vstack([problem.fixed, sparse.csr_array((1, k))]).tocsr()
    sizes, blocks = _rounded(np.maximum(n_rows, FEWEST_ROWS)), []
    for r in np.unique(sizes).tolist():
        members = np.flatnonzero(sizes == r)
        number = np.full(len(n_rows), -1)
        number[members] = np.arange(len(members))
        chosen = number[cluster] >= 0
        at = number[cluster[chosen]], place[chosen]
        index = np.full((len(members), r), len(problem.shown))
        index[at] = rows[chosen]
        columns, effect = [], []
        for h, (sides, n_units, factor) in enumerate(local):
            q = int(n_units[members].max())
            column = np.zeros((len(members), r, q))
            for unit, sign in zip(sides[:, chosen], (1, -1), strict=True):
                has = unit >= 0
                cells = at[0][has], at[1][has], unit[has]
                np.add.at(column, cells, sign * factor[chosen][has])
            columns.append(column)
            effect += [h] * q
        for h, values in enumerate(problem.slopes.values(), len(local)):
            columns.append(np.append(values, 0)[index][:, :, None])
            effect.append(h)
        columns = np.concatenate([*columns, np.zeros((len(members), r, 0))], 2)
        data = np.append(problem.shown, 0.0)[index], np.append(problem.wins, 0.0)[index]
        met = Met.of(fixed[index.ravel()], len(members))
        blocks.append(Block(members, index, columns, np.array(effect, int), data, met))
    return blocks


def _numbered(cluster: np.ndarray, what: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Number what each of n clusters has, from 0 on: the number of each entry, and the count of
    each cluster."""
    most = what.max(initial=0) + 1
    found, at = np.unique(cluster * most + what, return_inverse=True)
    count = np.bincount(found // most, minlength=n)
    return at - (np.cumsum(count) - count)[cluster], count


def _rounded(n: np.ndarray) -> np.ndarray:
    """The least 2^i, or above 32 the least 2^i or 1.5 2^i, that is not smaller: clusters are then
    of few sizes."""
    power = 2 ** np.ceil(np.log2(np.maximum(n, 1)))
    return np.where((n <= 0.75 * power) & (power > 32), 0.75 * power, power).astype(int)


def likelihood(*arrays: np.ndarray) -> tuple[Any, ...]:
    """The marginal log-likelihood of the n clusters of a block, some at a time.

    Args:
      arrays: logits [n, r], sds [q] of the columns, columns [n, r, q], shown and wins [n, r], and
        the modes [n, q] to start at.

    Returns:
      Its sum; its gradient in the logits [n, r], and in the sds of the columns [n, q]; minus its
      second derivative in the logits [n, r, r], without the part of the expansion; and the modes of
      the effects [n, q], in units of their sd.
    """
    logits, sds, columns, shown, wins, mode = arrays
    n, r, q = columns.shape
    step = max(1, AT_ONCE // (r * max(q, r)))
    results = []
    for start in range(0, n, step):
        some = slice(start, start + step)
        density = _Density(logits[some], columns[some] * sds, shown[some], wins[some])
        results.append(_terms(density, columns[some], density.modes(mode[some])))
    value, *rest = zip(*results, strict=True)
    return float(np.concatenate(value).sum()), *map(np.concatenate, rest)


@dataclass(frozen=True, eq=False)
class _Density:
    """Log-density of the verdicts of n clusters and their effects, these in units of their sd."""

    logits: Float[np.ndarray, "n r"]
    scaled: Float[np.ndarray, "n r q"]
    shown: Float[np.ndarray, "n r"]
    wins: Float[np.ndarray, "n r"]

    def some(self, chosen: np.ndarray) -> _Density:
        """That of some clusters."""
        return _Density(*(v[chosen] for v in vars(self).values()))

    def at(self, mode: Float[np.ndarray, "n q"]) -> Float[np.ndarray, " n"]:
        eta = self.logits + _times(self.scaled, mode)
        of_verdicts = self.wins * eta - self.shown * np.logaddexp(0, eta)
        return of_verdicts.sum(1) - (mode**2).sum(1) / 2

    def precision(self, weight: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n q q"]:
        """Minus the second derivative in the effects."""
        across = self.scaled.transpose(0, 2, 1)
        return np.eye(len(across[0])) + across @ (self.scaled * weight[..., None])

    def newton(self, mode: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """Newton's steps to the largest densities."""
        from scipy.special import expit

        p = expit(self.logits + _times(self.scaled, mode))
        gradient = _times(self.scaled.transpose(0, 2, 1), self.wins - self.shown * p) - mode
        precision = self.precision(self.shown * p * (1 - p))
        return np.linalg.solve(precision, gradient[..., None])[..., 0]

    def modes(self, start: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q"]:
        """The effects of the largest densities, by Newton's method with shorter steps where they
        fall."""
        mode, height, length = start.copy(), self.at(start), np.ones(len(start))
        going = np.arange(len(start))
        for _ in range(INNER_STEPS):
            left = self.some(going)
            step = length[going, None] * left.newton(mode[going])
            new = left.at(mode[going] + step)
            good = new >= height[going] - INNER_TOLERANCE
            mode[going[good]] += step[good]
            height[going[good]] = new[good]
            length[going] = np.where(good, np.minimum(1, 2 * length[going]), length[going] / 4)
            going = going[abs(step).max(1, initial=0) > INNER_TOLERANCE]
            if not len(going):
                break
        return mode


def _terms(
    density: _Density, columns: Float[np.ndarray, "n r q"], mode: Float[np.ndarray, "n q"]
) -> tuple[np.ndarray, ...]:
    """The results of `likelihood` at the modes, a log-likelihood for each cluster.

    Let V be the posterior covariance of the rows' logits, and G the log-likelihood without the
    density at the mode. G is a function of V and of the rows' weights, which change with the logits
    at the mode. The gradient is exact there.
    """
    from scipy.special import expit

    wins, shown = density.wins, density.shown
    p = expit(density.logits + _times(density.scaled, mode))
    residual, of_one = wins - shown * p, p * (1 - p)
    weight = shown * of_one
    third, fourth = weight * (1 - 2 * p), weight * (1 - 6 * of_one)
    fifth = third * (1 - 12 * of_one)
    root = np.linalg.cholesky(density.precision(weight))
    inverse = np.linalg.inv(root)
    half = inverse @ density.scaled.transpose(0, 2, 1)
    covariance = half.transpose(0, 2, 1) @ half
    squares, variance = covariance * covariance, _diagonal(covariance)
    skew = third * variance
    pulled, cubed = _times(covariance, skew), _times(squares * covariance, third)
    terms = (-fourth * variance**2 / 8 + skew * pulled / 8 + third * cubed / 12).sum(1)
    bounded = np.tanh(terms / LARGEST_TERMS)
    value = density.at(mode) - np.log(_diagonal(root)).sum(1) + LARGEST_TERMS * bounded

    # Derivatives of G: in V (without the determinant), in the weights, in the logits at the mode.
    inside = 1 - bounded[:, None] ** 2
    by_covariance = _outer(third / 4, third) * squares + _outer(skew / 8, skew)
    _diagonal(by_covariance)[:] += (third * pulled - fourth * variance) / 4
    by_covariance *= inside[..., None]
    by_weight = -variance / 2 - ((covariance @ by_covariance) * covariance).sum(2)
    of_terms = fourth * (variance * pulled / 4 + cubed / 6) - fifth * variance**2 / 8
    by_eta = third * by_weight + inside * of_terms
    # The mode follows the logits and the sds.
    of_logits = residual + by_eta - weight * _times(covariance, by_eta)
    lifted = half.transpose(0, 2, 1) @ inverse
    turned = by_covariance @ lifted
    pulled_back = turned - weight[..., None] * (covariance @ turned)
    by_scaled = 2 * pulled_back - weight[..., None] * lifted
    of_effects = columns.transpose(0, 2, 1)
    of_sds = (columns * by_scaled).sum(1) + mode * _times(of_effects, of_logits)
    of_sds += _times(lifted.transpose(0, 2, 1), by_eta) * _times(of_effects, residual)
    marginal_weight = -_outer(weight, weight) * covariance
    _diagonal(marginal_weight)[:] += weight
    return value, of_logits, of_sds, marginal_weight, mode


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """[n, r, q] times [n, q]."""
    return (matrices @ vectors[..., None])[..., 0]


def _outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, r] and [n, s] -> [n, r, s]."""
    return a[:, :, None] * b[:, None]


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    """[n, r] a view of the diagonals, to be read and written."""
    return np.einsum("nii->ni", matrices)
