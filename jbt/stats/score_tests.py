"""Tests of what a logistic model leaves out: effects that rows of a group share.

Let e = wins - shown p be the residuals of a fit with columns X and V = shown p (1 - p). If the log
odds of the rows also had effects Z b, b ~ N(0, tau^2 I), the log-likelihood would rise in tau^2 at
0 with |Z' e|^2 but for a constant: the score test of a variance component (le Cessie and van
Houwelingen 1995; Lin 1997). With one column of Z it is the score test of a coefficient.

The fit itself uses up a part of the residuals. Refitting is replaced by one Newton step without the
prior: e - V X (X' V X)^-1 X' e, of the verdicts and of all draws alike. The draws are

- of verdicts with the fitted probabilities, where the hypothesis says that verdicts are independent
  (scaled to the variance of the residuals, where some are ties or graded); or
- of signs for whole clusters of residuals, where verdicts of a cluster may depend on each other
  under the hypothesis, too (wild bootstrap of scores: Kline and Santos 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.random import Generator

DRAWS = 999

MOST = 10_000
"""Rows beyond which a random part of the clusters is tested (seconds)."""

AT_ONCE = 2**22
"""Most numbers of draws held at once."""

ROUNDING = 1e-6
"""Share of a column's information below which nothing but rounding remains."""

RIDGE = 1e-9
"""Relative to the information about the best known coefficient: the fit's columns may depend on
each other."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Rows of a fit."""

    columns: Any
    """[R, K] sparse, X."""
    shown: Float[np.ndarray, " R"]
    """Number of verdicts of each row; a fraction is the weight of one."""
    wins: Float[np.ndarray, " R"]
    """How many of them the first won, a tie being half a win."""
    p: Float[np.ndarray, " R"]
    """Fitted probabilities that the first wins."""

    @cached_property
    def _information(self) -> Any:
        """The factorised information, and V X."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        weighted = self.columns.multiply((self.shown * self.p * (1 - self.p))[:, None]).tocsr()
        information = (self.columns.T @ weighted).tocsc()
        ridge = RIDGE * information.diagonal().max(initial=1e-300)
        return splu(information + ridge * sparse.eye_array(len(information.diagonal()))), weighted

    @cached_property
    def _verdicts(self) -> tuple[np.ndarray, np.ndarray]:
        """[R] number of verdicts, and the weight of each."""
        number = np.ceil(self.shown - ROUNDING).astype(int)
        return number, self.shown / np.maximum(number, 1)

    @cached_property
    def _grading(self) -> float:
        """Standard deviation of the residuals by that of decided verdicts: below 1 where some are
        ties or graded."""
        weight = self._verdicts[1]
        won = self.wins / np.where(weight > 0, weight, 1)
        if np.allclose(won, np.round(won), 0, ROUNDING):
            return 1.0
        variance = (weight * self.shown * self.p * (1 - self.p)).sum()
        used = 1 - self.columns.shape[1] / len(self.shown)
        squares = ((self.wins - self.shown * self.p) ** 2).sum() / max(used, 0.5)
        return float(np.sqrt(min(1.0, squares / variance)))

    def after_refit(self, residuals: Float[np.ndarray, "R B"]) -> Float[np.ndarray, "R B"]:
        """Residuals as a refit would leave them, to one Newton step."""
        factors, weighted = self._information
        return residuals - weighted @ factors.solve(np.asarray(self.columns.T @ residuals))

    def p_value(
        self, z: Any, rng: Generator, cluster: Int[np.ndarray, " R"] | None = None
    ) -> float:
        """p of the hypothesis that no effects are left out along the columns z; NaN where the
        fit's own columns have them all, so that nothing can be left out.

        Args:
          z: [R, Q] sparse.
          cluster: whose verdicts may depend on each other; default all are independent.
        """
        z = z[:, self._remain(z)]
        if not z.shape[1]:
            return np.nan
        found = float(self._statistic(z, (self.wins - self.shown * self.p)[:, None])[0])
        draws = max(1, AT_ONCE // len(self.shown))
        beyond = 0
        for start in range(0, DRAWS, draws):
            n = min(draws, DRAWS - start)
            drawn = self._statistic(z, self._drawn(rng, n, cluster))
            beyond += int((drawn >= found * (1 - 1e-9)).sum())
        return (1 + beyond) / (1 + DRAWS)

    def _remain(self, z: Any) -> np.ndarray:
        """[Q] whether more than rounding of each column remains beside the fit's columns: its
        information, less that of its projection on them."""
        factors, weighted = self._information
        shared = np.asarray((z.T @ weighted).todense())
        weight = self.shown * self.p * (1 - self.p)
        own = np.asarray(z.multiply(z).T @ weight)
        return own - (shared * factors.solve(shared.T).T).sum(1) > ROUNDING * own

    def _statistic(self, z: Any, residuals: np.ndarray) -> np.ndarray:
        return (np.asarray(z.T @ self.after_refit(residuals)) ** 2).sum(0)

    def _drawn(self, rng: Generator, n: int, cluster: np.ndarray | None) -> np.ndarray:
        """[R, n] residuals under the hypothesis."""
        if cluster is None:
            counts, weight = self._verdicts
            won = rng.binomial(counts, self.p, (n, len(counts)))
            return self._grading * (weight * (won - counts * self.p)).T
        _, of_row = np.unique(cluster, return_inverse=True)
        signs = rng.choice([-1.0, 1.0], (of_row.max() + 1, n))
        of_fit = self.after_refit((self.wins - self.shown * self.p)[:, None])
        return of_fit * signs[of_row]


def part(
    cluster: Int[np.ndarray, " R"],
    shown: Float[np.ndarray, " R"],
    rng: Generator,
    *,
    most: int = MOST,
    widest: int | float = np.inf,
) -> Any:
    """Rows with verdicts of all clusters of at most `widest` rows, or of a random part of them with
    at most `most` rows, or one cluster if all have more."""
    rows = np.flatnonzero(shown > 0)
    _, of_row, count = np.unique(cluster[rows], return_inverse=True, return_counts=True)
    order = rng.permutation(np.flatnonzero(count <= widest))
    most = max(most, count[order].max(initial=0))
    return rows[np.isin(of_row, order[count[order].cumsum() <= most])]


def contrast(
    groups: Int[np.ndarray, "2 R"], values: np.ndarray | float = 1.0, n: int | None = None
) -> Any:
    """[R, groups] values [2, R] of the first side's group, less those of the second's; a column for
    each group, or for each of 0 to n - 1."""
    first, second = np.broadcast_to(values, groups.shape)
    rows = np.tile(np.arange(groups.shape[1]), 2)
    return grouped(groups.ravel(), np.r_[first, -second], rows, n)


def grouped(
    group: np.ndarray, values: np.ndarray, row: np.ndarray | None = None, n: int | None = None
) -> Any:
    """[R, groups] values in the columns of their groups, each in its row; columns as `contrast`."""
    from scipy import sparse

    found, column = np.unique(group, return_inverse=True)
    column = column.ravel() if n is None else group
    row = np.arange(len(group)) if row is None else row
    shape = row.max(initial=-1) + 1, len(found) if n is None else n
    return sparse.csr_array((values.astype(float), (row, column)), shape=shape)
