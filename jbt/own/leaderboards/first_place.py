"""How fragile the first place is: how few verdicts, left out, put another model first.

Leaving out a verdict of residual e and columns z moves the estimates by some -H^-1 z e. Those that
favour the first over another model most are left out first, until the other is ahead (Broderick,
Giordano & Meager 2020; for leaderboards Huang et al. 2025, arXiv 2508.11847). Refits then count how
many of that order it takes. Another choice of verdicts may do with fewer: the number is an upper
bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jbt.kernel import metrics
from jbt.own.leaderboards.problem import Fitted
from jbt.types import Status

CHALLENGERS = 10
"""Models nearest to the first, in posterior standard deviations, that are tried."""

STEP = 0.05
"""Share by which the predicted number is changed first, twice as much each time."""


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
            f"{self.challenger} would be first without {self.n_removed} of the {self.n_verdicts} "
            f"verdicts ({share:.2g} %), if those most in favour of {self.model} are left out "
            "(confirmed by a refit; fewer may be enough)"
        )


def first_place(fit: Fitted, models: Sequence[str]) -> FirstPlace | None:
    """The fewest verdicts found whose removal puts another model first, strictly. None where the
    first place is shared, no removal of this kind changes it, or the model is not Bradley-Terry's.

    Args:
      fit: of one judge.
      models: [M] names.
    """
    from scipy.special import expit

    theta, problem = fit.theta, fit.problem
    if fit.status != Status.CONVERGED or not fit.bradley_terry:
        return None
    first = int(np.nanargmax(theta))
    apart, rows, m = theta[first] - theta, problem.rows, len(theta)
    others = np.flatnonzero(apart > metrics.TIED)
    if len(others) < np.isfinite(theta).sum() - 1:
        return None
    shown, wins, inverse = rows.shown, rows.wins, fit.inverse
    residual = np.divide(wins, shown, out=np.zeros_like(wins), where=shown > 0)
    residual -= expit(rows.logits(fit.beta))
    variance = np.diagonal(inverse)[:m] + inverse[first, first] - 2 * inverse[first, :m]
    near = np.argsort(apart[others] / np.sqrt(variance[others]), kind="stable")[:CHALLENGERS]
    orders = {}
    for challenger in others[near].tolist():
        gain = np.where(shown > 0, residual * rows.logits(inverse[first] - inverse[challenger]), 0)
        order = np.flatnonzero(gain > 0)
        order = order[np.argsort(-gain[order], kind="stable")]
        if not len(order):
            continue
        total, count = np.cumsum(gain[order] * shown[order]), np.cumsum(shown[order])
        at = min(int(np.searchsorted(total, apart[challenger])), len(order) - 1)
        beyond = max(0, np.floor((total[at] - apart[challenger]) / gain[order[at]]))
        orders[challenger] = max(1, int(count[at] - beyond)), order
    if not orders:
        return None
    n, order = min(orders.values(), key=lambda found: found[0])
    return _confirmed(fit, first, n, order, models)


def _confirmed(
    fit: Fitted, first: int, n: int, order: np.ndarray, models: Sequence[str]
) -> FirstPlace | None:
    """The least number of verdicts, in an order of rows, that a refit confirms; n is tried
    first."""
    problem = fit.problem
    shown, wins = problem.rows.shown, problem.rows.wins
    left = shown[order].cumsum() - shown[order]

    def ahead(n: int) -> int | None:
        """Who is ahead of the first without n verdicts."""
        kept = np.ones_like(shown)
        kept[order] -= np.clip((n - left) / shown[order], 0, 1)
        rows = dataclasses.replace(problem.rows, shown=shown * kept, wins=wins * kept)
        theta = dataclasses.replace(problem, rows=rows).fit(fit.free, fit.beta).theta
        best = int(np.argmax(np.nan_to_num(theta, nan=-np.inf)))
        return best if theta[best] - theta[first] > metrics.TIED else None

    least, most, total = 0, round(shown[order].sum()), round(shown.sum())
    step = max(1, round(STEP * n))
    while (challenger := ahead(n)) is None:
        if n == most:
            return None
        least, n, step = n, min(most, n + step), 2 * step
    while n - least > 1:
        middle, step = max((least + n) // 2, n - step), 2 * step
        found = ahead(middle)
        if found is None:
            least = middle
        else:
            n, challenger = middle, found
    return FirstPlace(models[first], models[challenger], n, total)
