"""How fragile the first place is: how few verdicts, left out, put another model first.

Leaving out a verdict of residual e and columns z moves the estimates by -H^-1 z e / (1 - h), to one
Newton step, with h = w z' H^-1 z its leverage. Those that favour the first over another model most
are left out first, until the other is ahead (Broderick, Giordano & Meager 2020; for leaderboards
Huang et al. 2025, arXiv 2508.11847). Refits then count how many of that order it takes. Another
choice of verdicts may do with fewer: the number is an upper bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from jbt.estimators import clusters
from jbt.kernel import metrics
from jbt.own.leaderboards.problem import Fitted
from jbt.types import Status

CHALLENGERS = 10
"""Models nearest to the first, in posterior standard deviations, that are tried."""

STEP = 0.05
"""Share by which a number that a refit does not confirm is raised."""


@dataclass(frozen=True)
class FirstPlace:
    """Which verdicts decide the first place."""

    model: str
    """The first."""
    challenger: str
    """Who is first without these verdicts, by a refit."""
    n_removed: int
    """How many they are (count)."""
    n_verdicts: int
    """All verdicts (count)."""

    def in_words(self) -> str:
        """The numbers, in a sentence."""
        share = 100 * self.n_removed / self.n_verdicts
        return (
            f"first place: without {self.n_removed} of the {self.n_verdicts} verdicts "
            f"({share:.2g} %), chosen to this end, {self.challenger} is first, not {self.model} "
            "(by a refit; another choice may need fewer)"
        )


def first_place(fit: Fitted, models: Sequence[str]) -> FirstPlace | None:
    """The fewest verdicts found whose removal puts another model first, strictly. None where the
    first place is shared, no removal of this kind changes it, or the model is not Bradley-Terry's.

    Args:
      fit: of one judge.
      models: [M] names.
    """
    theta = fit.theta
    if fit.status != Status.CONVERGED or fit.inverse is not None:
        return None
    first = int(np.nanargmax(theta))
    removal = _Removal.of(fit, first)
    best: tuple[float, np.ndarray] | None = None
    for challenger in removal.nearest(theta):
        order, n = removal.fewest(challenger, theta[first] - theta[challenger])
        if best is None or n < best[0]:
            best = n, order
    if best is None or not np.isfinite(best[0]):
        return None
    return removal.confirmed(*best, models)


@dataclass(frozen=True, eq=False)
class _Removal:
    fit: Fitted
    first: int
    inverse: np.ndarray
    """[P, P]"""
    shown: np.ndarray
    """[R]"""
    moves: np.ndarray
    """[R] e / (1 - h) of one verdict of each row."""

    @classmethod
    def of(cls, fit: Fitted, first: int) -> _Removal:
        problem = fit.problem
        rows = problem.rows
        arguments = fit.mode, rows, problem.design, problem.prior, fit.variant
        inverse = clusters.inverse_hessian(*arguments)
        shown, wins = np.asarray(rows.shown), np.asarray(rows.wins)
        removal = cls(fit, first, inverse, shown, shown)
        p = expit(removal.along(fit.beta))
        one, other, m = np.asarray(rows.first), np.asarray(rows.second), problem.design.n_contents
        biases, diagonal = removal.biases, np.diagonal(inverse)
        leverage = diagonal[one] + diagonal[other] - 2 * inverse[one, other]
        mixed = inverse[one, m:] - inverse[other, m:] + biases @ inverse[m:, m:] / 2
        leverage = p * (1 - p) * (leverage + 2 * (biases * mixed).sum(1))
        residual = np.divide(wins, shown, out=p.copy(), where=shown > 0) - p
        return dataclasses.replace(removal, moves=residual / (1 - leverage))

    @property
    def biases(self) -> np.ndarray:
        """[R, D + 1] columns of c and kappa."""
        rows = self.fit.problem.rows
        return np.column_stack([np.asarray(rows.difference), np.asarray(rows.ordered)])

    def along(self, beta: np.ndarray) -> np.ndarray:
        """[R] z'beta."""
        rows, m = self.fit.problem.rows, self.fit.problem.design.n_contents
        theta = beta[np.asarray(rows.first)] - beta[np.asarray(rows.second)]
        return theta + self.biases @ beta[m:]

    def nearest(self, theta: np.ndarray) -> list[int]:
        """The models that are tried."""
        diagonal = np.diagonal(self.inverse)[: len(theta)]
        variance = diagonal + diagonal[self.first] - 2 * self.inverse[self.first, : len(theta)]
        apart = theta[self.first] - theta
        steps = apart / np.sqrt(np.where(variance > 0, variance, np.nan))
        order = np.argsort(steps, kind="stable")[: 1 + CHALLENGERS]
        shared = np.sum(apart <= metrics.TIED) > 1
        return [] if shared else [i for i in order.tolist() if i != self.first and apart[i] > 0]

    def fewest(self, challenger: int, apart: float) -> tuple[np.ndarray, float]:
        """The rows whose verdicts favour the first over the challenger, most of all first; and how
        many verdicts of them bring both together, infinite where all do not."""
        gain = self.moves * self.along(self.inverse[self.first] - self.inverse[challenger])
        gain = np.where(self.shown > 0, gain, 0)
        order = np.argsort(-gain, kind="stable")[: np.sum(gain > 0)]
        total = np.cumsum(gain[order] * self.shown[order])
        at = int(np.searchsorted(total, apart))
        if at == len(order):
            return order, np.inf
        before = total[at] - gain[order[at]] * self.shown[order[at]]
        whole = self.shown[order[:at]].sum()
        return order, whole + np.ceil((apart - before) / gain[order[at]])

    def first_without(self, order: np.ndarray, n: int) -> int | None:
        """Who is first without n verdicts; None if that is still the first."""
        left = np.cumsum(self.shown[order])
        removed = np.clip(n - (left - self.shown[order]), 0, self.shown[order])
        share = np.ones_like(self.shown)
        share[order] -= removed / self.shown[order]
        problem = self.fit.problem
        rows = dataclasses.replace(
            problem.rows,
            shown=jnp.asarray(self.shown * share),
            wins=jnp.asarray(np.asarray(problem.rows.wins) * share),
        )
        theta = dataclasses.replace(problem, rows=rows).fit(self.fit.variant).theta
        if not np.isfinite(theta).any():
            return None
        ahead = int(np.nanargmax(theta))
        return ahead if theta[ahead] - theta[self.first] > metrics.TIED else None

    def confirmed(self, n: float, order: np.ndarray, models: Sequence[str]) -> FirstPlace | None:
        """The least number in this order that a refit confirms."""
        low, high, total = 0, int(n), int(self.shown.sum())
        most = int(self.shown[order].sum())
        while (ahead := self.first_without(order, high)) is None:
            if high == most:
                return None
            low, high = high, min(most, high + max(1, round(STEP * high)))
        while high - low > 1:
            middle = (low + high) // 2 if low else high - max(1, round(STEP * high))
            other = self.first_without(order, middle)
            if other is None:
                low = middle
            else:
                high, ahead = middle, other
        return FirstPlace(models[self.first], models[ahead], high, total)
