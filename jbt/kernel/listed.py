"""One problem's verdicts as rows, in NumPy: its sums, its Newton steps, its information.

Row r compares content f with content s: z_r = (e_f - e_s, columns_r), and its logit is z_r'beta.
Nothing is compiled, and `np.bincount` sums a million rows in milliseconds; the products of
`jbt.kernel.rows` are for batches. The steps are those of `jbt.kernel.newton`, which has their
reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from jbt.kernel.newton import LONGEST_STRETCH, MAX_STEPS, RIDGE
from jbt.types import Rows, Status

WITH_PRIOR, WITHOUT_PRIOR = 1e-12, 1e-7
"""Error left by a maximum, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Verdicts one a row, of a logistic model."""

    n_contents: int
    first: Int[np.ndarray, " R"]
    """Content of one item, 0..M-1."""
    second: Int[np.ndarray, " R"]
    """Content of the other item."""
    columns: Float[np.ndarray, "R K"]
    """What multiplies the coefficients beside theta, such as (c, kappa); column-major is fast."""
    shown: Float[np.ndarray, " R"]
    """How many verdicts the row stands for."""
    wins: Float[np.ndarray, " R"]
    """How many of them the first won, a tie being half a win."""

    @classmethod
    def of(cls, rows: Rows, n_contents: int) -> Listed:
        """The same rows, their columns those of c, then that of kappa."""
        columns = np.column_stack([np.asarray(rows.difference), np.asarray(rows.ordered)])
        first, second = (np.asarray(v).astype(np.intp) for v in (rows.first, rows.second))
        shown, wins = (np.asarray(v, float) for v in (rows.shown, rows.wins))
        return cls(n_contents, first, second, np.asfortranarray(columns, float), shown, wins)

    @cached_property
    def n_verdicts(self) -> Float[np.ndarray, " M"]:
        """Number of verdicts on each content."""
        other = np.where(self.first != self.second, self.shown, 0)
        return self._at(self.first, self.shown) + self._at(self.second, other)

    @property
    def real(self) -> Bool[np.ndarray, " R"]:
        """Which rows have a verdict."""
        return self.shown > 0

    def logits(self, beta: Float[np.ndarray, " P"]) -> Float[np.ndarray, " R"]:
        """z'beta: the log-odds that the first of each row wins [Eq. 1]."""
        theta = beta[: self.n_contents]
        return theta[self.first] - theta[self.second] + self.columns @ beta[self.n_contents :]

    def moments(
        self, logits: Float[np.ndarray, " R"]
    ) -> tuple[Float[np.ndarray, " R"], Float[np.ndarray, " R"]]:
        """Residual and weight of each row: the score is the sum of residual z, and the information
        that of weight z z'. Here wins - shown p and shown p (1 - p), without cancellation."""
        odds, lost = np.exp(-np.abs(logits)), self.shown - self.wins
        less = 1 / (1 + odds)
        residual = np.where(logits > 0, self.wins * odds - lost, self.wins - lost * odds) * less
        return residual, self.shown * odds * less**2

    def log_likelihood(self, logits: Float[np.ndarray, " R"]) -> float:
        """Bradley-Terry's, of the verdicts, without the binomial coefficients."""
        return float(self.wins @ logits - self.shown @ np.logaddexp(0, logits))

    def score(self, residual: Float[np.ndarray, " R"]) -> Float[np.ndarray, " P"]:
        """Z'r."""
        return np.r_[self._between(residual), self.columns.T @ residual]

    def information(self, weight: Float[np.ndarray, " R"]) -> Float[np.ndarray, "P P"]:
        """Z'WZ."""
        m, weighted = self.n_contents, weight[:, None] * self.columns
        pairs = np.bincount(self._pair, weight, m * m).reshape(m, m)
        pairs = pairs + pairs.T
        border = [self._between(column) for column in weighted.T]
        border = np.stack(border, 1) if border else np.zeros((m, 0))
        corner = self.columns.T @ weighted
        return np.block([[np.diag(pairs.sum(1)) - pairs, border], [border.T, corner]])

    @cached_property
    def gram(self) -> Float[np.ndarray, "P P"]:
        """Z'Z, each row with a verdict once."""
        return self.information(self.real * 1.0)

    @cached_property
    def scale(self) -> Float[np.ndarray, " P"]:
        """Information about each parameter alone at even odds; 1 for those in no verdict."""
        scale = np.diagonal(self.information(self.shown / 4))
        return np.where(scale > 0, scale, 1)

    def inverse_hessian(
        self,
        beta: Float[np.ndarray, " P"],
        precision: Float[np.ndarray, " P"],
        free: Bool[np.ndarray, " P"],
    ) -> Float[np.ndarray, "P P"]:
        """H^-1 with these prior precisions, which is also the posterior covariance of `laplace`;
        zero in the rows and columns of parameters that are not free or in no verdict."""
        free = self.informed(free)
        at = np.ix_(free, free)
        information = self.information(self.moments(self.logits(beta))[1])
        inverse = np.zeros_like(information)
        inverse[at] = np.linalg.inv((information + np.diag(precision))[at])
        return inverse

    def informed(self, free: Bool[np.ndarray, " P"]) -> Bool[np.ndarray, " P"]:
        """The free parameters that some verdict is on."""
        return free & np.r_[self.n_verdicts > 0, np.ones(self.columns.shape[1], bool)]

    def top(
        self,
        free: Bool[np.ndarray, " P"],
        precision: Float[np.ndarray, " P"] | None = None,
        start: Float[np.ndarray, " P"] | None = None,
    ) -> Top:
        """Maximise over the free parameters, theta about its mean.

        Args:
          precision: of the prior, the same for all contents; default none: the supremum of the
            likelihood, which may be at infinity.
          start: default zero; parameters that are not free stay there.
        """
        fixed, free = ~free, self.informed(free)
        at = np.flatnonzero(free)
        of_theta = (at < self.n_contents) * 1.0
        rows = replace(self, columns=self.columns.T[free[self.n_contents :]].T)
        inner = np.r_[free[: self.n_contents], np.ones(rows.columns.shape[1], bool)]
        ridge = RIDGE * self.scale[at] if precision is None else precision[at]
        pull = 0 * ridge if precision is None else ridge
        beta = np.zeros(len(free)) if start is None else np.where(free | fixed, start, 0)
        delta = np.zeros(len(inner))
        logits, last, before = self.logits(beta), np.inf, np.inf
        # From a start where verdicts look decided already, a full step could overshoot for good.
        careful, stretch, done = start is not None, 1.0, False
        for _ in range(MAX_STEPS if precision is not None else 8 * MAX_STEPS):
            residual, weight = self.moments(logits)
            gradient = rows.score(residual)[inner] - pull * beta[at]
            information = rows.information(weight)[np.ix_(inner, inner)]
            try:
                step = np.linalg.solve(_hessian(information, ridge, of_theta), gradient)
            except np.linalg.LinAlgError:
                return Top(self, beta, logits, Status.NOT_FINITE)
            decrement, norm = np.sqrt(max(gradient @ step, 0)), np.linalg.norm(gradient)
            if not np.isfinite(gradient @ step):
                return Top(self, beta, logits, Status.NOT_FINITE)
            delta[inner] = step
            change = rows.logits(delta)
            reach = np.abs(change[self.real]).max(initial=0)
            careful |= bool(norm >= before)
            length = np.log1p(reach) / reach if careful and reach > 1 else 1.0
            if precision is None:
                done = decrement * min(1, reach) <= WITHOUT_PRIOR
                # Towards an optimum at infinity the decrement decays at this rate or more slowly.
                slow = decrement > 0.8 * np.exp(-stretch / 2) * last
                decays = slow and decrement < min(last, 0.1)
                stretch = min(2 * stretch, LONGEST_STRETCH) if decays else 1.0
                length *= stretch
            else:
                done = decrement * reach <= 2 * WITH_PRIOR and reach <= 0.1
            beta[at] += length * step
            logits, last, before = logits + length * change, decrement, norm
            if done:
                break
        # No verdict moves the constant of theta: at the mode its mean is 0.
        beta[at] -= of_theta * (of_theta @ beta[at] / of_theta.sum())
        return Top(self, beta, logits, Status.CONVERGED if done else Status.NOT_CONVERGED)

    @cached_property
    def _pair(self) -> np.ndarray:
        return self.first * self.n_contents + self.second

    def _at(self, content: np.ndarray, values: np.ndarray) -> np.ndarray:
        """[M] the sum of the values [R] on each content."""
        return np.bincount(content, values, self.n_contents).astype(float, copy=False)

    def _between(self, values: np.ndarray) -> np.ndarray:
        """[M] the sum of the values [R], less that of the rows where a content is second."""
        return self._at(self.first, values) - self._at(self.second, values)


def _hessian(information: np.ndarray, ridge: np.ndarray, of_theta: np.ndarray) -> np.ndarray:
    """Information and prior, with the constant of theta fixed, which leaves its mean as it is."""
    level = (ridge * of_theta).max() + np.diagonal(information) @ of_theta / of_theta.sum()
    return information + np.diag(ridge) + level / of_theta.sum() * np.outer(of_theta, of_theta)


@dataclass(frozen=True, eq=False)
class Top:
    """Where a posterior or a likelihood is largest."""

    rows: Listed
    beta: Float[np.ndarray, " P"]
    logits: Float[np.ndarray, " R"]
    status: Status
    """CONVERGED, NOT_CONVERGED, NOT_FINITE"""

    @cached_property
    def information(self) -> Float[np.ndarray, "P P"]:
        """Of the verdicts alone."""
        return self.rows.information(self.rows.moments(self.logits)[1])

    def compensation(self, free: Bool[np.ndarray, " P"], place: int) -> Float[np.ndarray, " P"]:
        """Change of the maximising parameters as the one at `place` goes up by 1, to first order,
        without a prior."""
        at = np.flatnonzero(self.rows.informed(free) & (np.arange(len(free)) != place))
        of_theta = (at < self.rows.n_contents) * 1.0
        ridge = RIDGE * self.rows.scale[at]
        hessian = _hessian(self.information[np.ix_(at, at)], ridge, of_theta)
        change = np.zeros(len(free))
        change[place], change[at] = 1, -np.linalg.solve(hessian, self.information[at, place])
        return change
