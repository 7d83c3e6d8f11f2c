"""Intervals of the win rates of several models against one opponent, with prompts as the unit.

Leaving prompt g out moves the coefficients of a model's ridge regression, to one Newton step, by
-d_g = -(H - I_g)^-1 s_g, with s_g the score of its verdicts, I_g their information, and H the
information of all plus the penalty. The win rate, a mean of p_r over the model's verdicts, moves
with them, and because the prompt's own p_r are no longer in the mean. (G - 1) / G times the sum of
the squared changes is its variance (as CR3; Bell & McCaffrey 2002), and their products for two
models give that of a difference. Intervals are made on the logit scale with Student's t, where
there are `FEWEST_PROMPTS` effective prompts, and wins and losses worth `FEWEST` each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from jbt.kernel import metrics
from jbt.own.baselines.ridge import sigmoid
from jbt.stats import FEWEST

LEVEL = 0.95

FEWEST_PROMPTS = 50
"""Effective number of prompts below which there is no interval: from 12 to 30 prompts, intervals
that have wins and losses enough cover up to .998, as those without have not."""


@dataclass(frozen=True, eq=False)
class WinRate:
    """A model's win rate, and what leaving each prompt out takes from it."""

    estimate: float
    change: Float[np.ndarray, " G"]
    """[G] the estimate less that without the prompt, times sqrt((n - 1) / n) of its n prompts, so
    that the sum of squares is the variance; 0 for prompts without a verdict on it."""
    prompts: float
    """Effective number of prompts: of prompts with equally many verdicts that would say as much."""
    fewest: float
    """The lesser of its wins and losses (count)."""

    @classmethod
    def of(
        cls,
        beta: Float[np.ndarray, " K"],
        z: Float[np.ndarray, "R K"],
        controlled: Float[np.ndarray, "R K"],
        share: Float[np.ndarray, " R"],
        weight: Float[np.ndarray, " R"],
        precision: Float[np.ndarray, " K"],
        prompt: Int[np.ndarray, " R"],
        n_prompts: int,
    ) -> WinRate:
        """The win rate of one model.

        Args:
          beta, z, share, weight, precision: of `ridge`.
          controlled: the rows at which outcomes are predicted.
          prompt: of each row, 0 ... n_prompts - 1.
        """
        k, total = z.shape[1], weight.sum()
        p, at = sigmoid(z @ beta), sigmoid(controlled @ beta)
        score, information = np.zeros((n_prompts, k)), np.zeros((n_prompts, k, k))
        np.add.at(score, prompt, (weight * (share - p))[:, None] * z)
        outer = z[:, :, None] * z[:, None]
        np.add.at(information, prompt, (weight * p * (1 - p))[:, None, None] * outer)
        hessian = information.sum(0) + np.diag(precision)
        d = np.linalg.solve(hessian - information, score[:, :, None])[:, :, 0]
        estimate = float(weight @ at / total)
        slope = (weight * at * (1 - at)) @ controlled / total
        own = np.bincount(prompt, weight, n_prompts)
        rest = total * estimate - np.bincount(prompt, weight * at, n_prompts)
        without = np.divide(rest, total - own, out=np.zeros(n_prompts), where=own < total)
        n = (own > 0).sum()
        change = np.where(own > 0, estimate - without + d @ slope, 0) * np.sqrt((n - 1) / n)
        won = float(weight @ share)
        return cls(estimate, change, float(total**2 / (own**2).sum()), float(min(won, total - won)))

    @classmethod
    def of_opponent(cls, n_prompts: int) -> WinRate:
        """The opponent's against itself, a half by definition."""
        return cls(0.5, np.zeros(n_prompts), np.inf, np.inf)

    @property
    def known(self) -> bool:
        """Whether it has an interval."""
        return bool(self.prompts >= FEWEST_PROMPTS and self.fewest >= FEWEST)

    def interval(self) -> tuple[float, float]:
        """Ends of the interval; NaN without."""
        from scipy.special import expit, logit

        if not self.known or np.isinf(self.prompts):
            return np.nan, np.nan
        scale = self.estimate * (1 - self.estimate)
        error = np.linalg.norm(self.change) / scale
        half = float(_quantile((1 + LEVEL) / 2, self.prompts) * error)
        middle = logit(self.estimate)
        return float(expit(middle - half)), float(expit(middle + half))


def plausible_ranks(rates: Sequence[WinRate]) -> tuple[np.ndarray, np.ndarray]:
    """[M], [M] best and worst plausible rank: 1 + the number of models significantly better, and M
    less the number significantly worse, with Bonferroni's correction for the M - 1 differences of a
    model. A difference without an interval is never significant. NaN for models without any."""
    m, change = len(rates), np.stack([rate.change for rate in rates])
    estimate, prompts = (np.array([getattr(r, k) for r in rates]) for k in ("estimate", "prompts"))
    known = np.array([rate.known for rate in rates])
    better = significantly_better(estimate, change @ change.T, prompts, known)
    compared = known & (known.sum() > 1)
    low, high = 1 + better.sum(1), m - better.sum(0)
    return np.where(compared, low, np.nan), np.where(compared, high, np.nan)


def significantly_better(
    estimate: np.ndarray, covariance: np.ndarray, prompts: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """[..., M, M] whether model j is significantly better than model i: the interval of the
    difference, Bonferroni-corrected for the model's M - 1 differences, lies above 0.

    Args:
      estimate, covariance: [..., M] and [..., M, M].
      prompts: [..., M] effective numbers of prompts; a difference has the smaller of its models'.
      known: [..., M] whether a model has an interval; else it is significantly better or worse
        than none.
    """
    m = known.shape[-1]
    comparable = known[..., None, :] & known[..., :, None] & ~np.eye(m, dtype=bool)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    variance = (variance[..., None, :] + variance[..., :, None] - 2 * covariance).clip(0)
    level = 1 - (1 - LEVEL) / 2 / max(1, m - 1)
    fewer = np.minimum(prompts[..., None, :], prompts[..., :, None])
    apart = np.where(comparable, estimate[..., None, :] - estimate[..., :, None], 0)
    return comparable & (
        apart > np.maximum(_quantile(level, fewer) * np.sqrt(variance), metrics.TIED)
    )


def _quantile(level: float, prompts: np.ndarray | float) -> np.ndarray:
    """Of Student's t, at least 1 degree of freedom."""
    from scipy.special import ndtri, stdtrit

    many = np.isinf(prompts)
    degrees = np.maximum(np.where(many, 2, prompts) - 1, 1)
    return np.where(many, ndtri(level), stdtrit(degrees, level))
