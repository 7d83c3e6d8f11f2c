"""Where prompts are too few for an interval: wider intervals under an assumption, and how many
prompts would be enough.

The wider intervals assume that the quality of every model varies alike between prompts
(`stats.common_effect`): its standard deviation is estimated from all models together, so that even
a model seen on two prompts has an interval. They cover at least 95 %, by design: the variance is
the upper end of its own one-sided 95 % interval, t has the degrees of freedom of the standard
deviation, and what is left of the prior's pull is added. For c and kappa, about whose variation
prompts alone inform, the variance is at least that of the jackknife, and t has its few degrees of
freedom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from jbt.own.leaderboards.spread import Degrees, Variances, quantile
from jbt.stats.common_effect import common_effect
from jbt.stats.row_jackknife import Jackknife, planned_degrees
from jbt.types import Parameters, Rows

FewPrompts = Literal["withhold", "wide"]

FEWEST_DEGREES = 5.0
"""Planned degrees of freedom (`Jackknife.planned`) below which there is no interval. In simulations
with 10 to 100 equal and unequal prompts, intervals cover .93 to .98 above it, and .97 to 1.00 at 3
to 4, where the quantiles of t are as uncertain as the degrees of freedom."""

FEWEST_COMMON = 5.0
"""Degrees of freedom of the common standard deviation below which no interval is wider instead. In
simulations with 3 to 13 prompts (`benchmarks.calibration few_prompts`) they cover .95 to 1.00."""

FEWEST_OF_BIAS = 0.5
"""Planned degrees of freedom of c or kappa below which theta, which depends on them, has none."""

UPPER = 0.05
"""Chance that the variance exceeds the upper end used."""

MOST_COPIES = 64.0
"""Largest multiple of the prompts that is tried."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A MAP with what its intervals need."""

    inverse: np.ndarray
    """[P, P] H^-1"""
    mode: Parameters
    rows: Rows
    cluster: np.ndarray
    """[R] prompt of each row."""
    precision: np.ndarray
    """[P] of the prior."""
    centre: np.ndarray
    """[P, P] see `spread.centring`."""


@dataclass(frozen=True, eq=False)
class Wide:
    """Half-widths of wider intervals."""

    parameters: np.ndarray
    """[P] whether there is one."""
    pairs: np.ndarray
    """[M, M] whether there is one of the difference of two models."""
    half_width: np.ndarray
    """[P]"""
    half_widths: np.ndarray
    """[M, M]"""
    error: np.ndarray
    """[P] standard error."""
    sd: float
    """Standard deviation of a model's quality between prompts, logits."""


def wide(fit: Fitted, alone: Jackknife, levels: tuple[float, float]) -> Wide:
    """Wider intervals.

    Args:
      alone: the jackknife of the fit.
      levels: quantiles of t for a parameter and for the difference of two models.
    """
    from scipy import special

    inverse, centre, m = fit.inverse, fit.centre, len(np.asarray(fit.mode.theta))
    common = common_effect(inverse, fit.mode, fit.rows, fit.cluster, alone)
    free = np.diagonal(inverse)[m:] > 0
    enough = common.df >= FEWEST_COMMON and bool((alone.planned[m:][free] >= FEWEST_OF_BIAS).all())
    df = np.r_[np.full(m, common.df), np.maximum(alone.df[m:], 1)]
    degrees = Degrees.of(df, inverse, centre, m)
    shrink = inverse * fit.precision
    pushed = np.eye(len(inverse)) + shrink
    left = np.abs(centre @ shrink @ shrink @ fit.mode.as_numpy())  # of the prior's pull
    variances = Variances.of(pushed @ common.covariance @ pushed.T, centre, m)
    upper = common.df / special.chdtri(common.df, 1 - UPPER) if enough else np.nan
    error, errors = (np.sqrt(upper * v) for v in (variances.parameters, variances.differences))
    half_width = quantile(levels[0], degrees.parameters) * error + left
    half_widths = quantile(levels[1], degrees.differences) * errors
    half_widths = half_widths + np.abs(left[:m] - left[:m, None])
    given = np.isfinite(half_width), np.isfinite(half_widths)
    return Wide(*given, half_width, half_widths, error, common.sd)


def more_prompts(fit: Fitted, few: np.ndarray) -> int | None:
    """How many prompts like these to add until the parameters in a mask [P] have enough degrees of
    freedom for an interval; None where `MOST_COPIES` times as many are not enough."""
    free = np.diagonal(fit.inverse) > 0
    hessian = np.zeros_like(fit.inverse)
    hessian[np.ix_(free, free)] = np.linalg.inv(fit.inverse[np.ix_(free, free)])
    information = hessian - np.diag(np.where(free, fit.precision, 0))
    m = len(np.asarray(fit.mode.theta))

    def enough(copies: float) -> bool:
        inverse = np.zeros_like(hessian)
        more = copies * information + np.diag(fit.precision)
        inverse[np.ix_(free, free)] = np.linalg.inv(more[np.ix_(free, free)])
        planned = planned_degrees(inverse, fit.mode, fit.rows, fit.cluster, copies)
        planned = Degrees.of(planned, inverse, fit.centre, m).parameters
        return bool((planned[few] >= FEWEST_DEGREES).all())

    prompts = len(np.unique(fit.cluster[np.asarray(fit.rows.shown) > 0]))
    high = 2 * prompts
    while not enough(high / prompts):
        high *= 2
        if high > MOST_COPIES * prompts:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle / prompts) else (middle, high)
    return high - prompts
