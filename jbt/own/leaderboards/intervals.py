"""Intervals of a leaderboard's theta, c and kappa, comparisons of its models, and the reason where
there is no interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jbt import identifiability
from jbt.kernel import metrics
from jbt.own.leaderboards.counted import better_by_counts, through_others
from jbt.own.leaderboards.problem import Fitted
from jbt.stats.cluster_jackknife import NO_DIFFERENCE
from jbt.stats.row_jackknife import Jackknife, jackknife, prior_part
from jbt.types import Status

LEVEL = 0.95
"""Coverage of every interval."""

FEWEST_DEGREES = 5.0
"""Planned degrees of freedom (`Jackknife.planned`) below which there is no interval. In simulations
with 10 to 100 equal and unequal prompts, intervals cover .93 to .98 above it, and .97 to 1.00 at 3
to 4, where the quantiles of t are as uncertain as the degrees of freedom."""

PRIOR_SHARE = 0.1
"""Largest share of the prior in the posterior variance of an estimate with an interval. At this
limit, with a truth drawn from the prior, the bias of the MAP is a third of a standard error; with
qualities of sd 2.5 it was up to 2, of which intervals remove nine tenths. A limit on the shift by
the prior would depend on the estimate, and intervals of estimates within it cover .5 to .9."""

NEGLIGIBLE = 1e-6
"""A direction moves a parameter if by more than this share of its largest move, in posterior
standard deviations."""

REASONS = {
    "covariate_constant": "no comparison differs in it",
    "flat": "not identified: other parameters can undo any change of it",
    "separated": "the likelihood rises all the way to infinity",
    "prior_selected": f"the prior holds more than {PRIOR_SHARE:.0%} of its posterior variance",
    "few_clusters": (
        f"seen on too few prompts for an interval (fewer than {FEWEST_DEGREES:g} effective degrees "
        "of freedom)"
    ),
    "no_verdicts": "no verdicts",
    "no_ties": "no ties: nu is 0, and the model Bradley-Terry's",
}
"""Why there is no interval, by status."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Estimates with intervals, and comparisons of M models. NaN where undefined."""

    parameters: pd.DataFrame
    """A row for each parameter, in the order of `Problem.at`: estimate (of theta, about its mean
    over the models), low, high, status (converged, or a key of `REASONS`, or that of a fit without
    a maximum), degrees (effective degrees of freedom: of the interval, or what is too few)."""
    better: np.ndarray
    """[M, M] whether model j is significantly better than model i: the interval of the difference,
    Bonferroni-corrected for the model's M - 1 differences, lies above 0; or, where there is none
    because the likelihood or the prior sends it to infinity, by counts (`counted`)."""
    comparable: np.ndarray
    """[M, M] whether the difference of two models has an interval."""
    ranked: np.ndarray
    """[M] whether a model is compared with any other, by an interval or by counts."""
    runaway: np.ndarray
    """[M] models that the likelihood sends to infinity: all but the largest group whose differences
    it leaves finite."""
    pull: np.ndarray
    """[M] shift of theta by the prior in standard errors, to first order."""
    apart: np.ndarray
    """[M, M] theta of model j less that of model i, without the prior's pull."""
    variance: np.ndarray
    """[M, M] of `apart`, by the jackknife, with `degrees` of freedom."""
    degrees: np.ndarray

    @classmethod
    def undefined(cls, fit: Fitted) -> Intervals:
        """No intervals, for a fit without a maximum."""
        m, status = fit.problem.n_contents, fit.status.name.lower()
        nan = np.full(len(fit.beta), np.nan)
        parameters = {"estimate": nan, "low": nan, "high": nan, "status": status, "degrees": nan}
        no, unknown = np.zeros((m, m), bool), np.full((m, m), np.nan)
        none = no, no, no[0], no[0]
        return cls(pd.DataFrame(parameters), *none, nan[:m], unknown, unknown, unknown)


def intervals(fit: Fitted) -> Intervals:
    """Intervals of a maximum a posteriori by the jackknife over prompts, with Student's t.

    They are about beta + H^-1 Lambda beta, which removes the pull of the prior to first order.
    """
    if fit.status != Status.CONVERGED:
        return Intervals.undefined(fit)
    problem, rows, beta, inverse = fit.problem, fit.problem.rows, fit.beta, fit.inverse
    m, known, precision = problem.n_contents, problem.known, problem.precision
    is_free = fit.free[m:]
    centre = centring(known, len(inverse))
    posterior = variances(inverse, centre, m)
    of_prior = variances(prior_part(inverse, precision), centre, m)
    unlimited = identifiability.undetermined(fit.supremum, fit.free)
    undetermined = _moved(unlimited, centre, posterior, m)
    flat = _moved(fit.nulls, centre, posterior, m)
    if problem.n_clusters < 2:
        estimate = Jackknife(np.zeros_like(inverse), *np.zeros((2, len(inverse))))
    else:
        estimate = jackknife(inverse, beta, rows, problem.groups, loading=fit.loading)
    planned = degrees_of_freedom(estimate.planned, inverse, centre, m)
    df = degrees_of_freedom(estimate.df, inverse, centre, m)
    few, prior_decides = planned < FEWEST_DEGREES, of_prior > PRIOR_SHARE * posterior

    pushed = np.eye(len(centre)) + inverse * precision
    pull = -centre @ inverse @ (precision * beta)
    about = centre @ pushed @ beta
    variance = variances(pushed @ estimate.covariance @ pushed.T, centre, m)
    # Verdicts of a judge symmetric by construction do not show the error: then the model's.
    variance = np.where(variance > NO_DIFFERENCE * posterior, variance, posterior)
    error = np.sqrt(variance)
    level, of_pairs = (1 + LEVEL) / 2, 1 - (1 - LEVEL) / 2 / max(1, int(known.sum()) - 1)
    own, between = slice(len(beta)), slice(len(beta), None)
    half_width = quantile(level, df[own]) * error[own]
    half_widths = (quantile(of_pairs, df[between]) * error[between]).reshape(m, m)

    theta, coefficients = slice(m), slice(m, len(beta))
    status = np.where(few[own], "few_clusters", "converged").astype(object)
    status[prior_decides[own]] = "prior_selected"
    status[undetermined[own]] = "separated"
    status[(undetermined & flat)[own]] = "flat"
    is_c = np.isin(np.arange(m, len(beta)), problem.at["c"])
    status[coefficients][is_c & ~(rows.columns != 0).any(0)] = "covariate_constant"
    status[coefficients][~is_free] = "flat"
    status[theta][~known] = "no_verdicts"
    both, open_ends = known & known[:, None], undetermined | prior_decides
    pairs = both & ~np.eye(m, dtype=bool)
    comparable = pairs & ~(open_ends | few)[between].reshape(m, m)
    group = (both & ~undetermined[between].reshape(m, m)).sum(1)
    is_largest = group == group.max(initial=0)
    runaway = (status[theta] == "separated") & ~(is_largest & (is_largest.sum() == group))

    apart = about[theta] - about[theta, None]
    better = comparable & (apart > np.maximum(half_widths, metrics.TIED))
    has_interval = status == "converged"
    ranked = np.asarray(comparable.any(1))
    open_pairs = pairs & open_ends[between].reshape(m, m)
    if fit.bradley_terry and open_pairs.any():  # eta is that of the rows, every row a verdict
        upper = np.where(comparable, apart + half_widths, np.inf)
        np.fill_diagonal(upper, 0)
        half = half_width * quantile(of_pairs, df[own]) / quantile(level, df[own])
        half = np.where(has_interval, half, np.inf)[coefficients]
        ends = np.stack([about[coefficients] - half, about[coefficients] + half])
        ends = np.where(is_free, ends, 0)
        arguments = rows, problem.source, open_pairs, upper, ends
        above, counted = better_by_counts(*arguments, level=1 - of_pairs)
        better |= open_pairs & through_others(better | above)
        ranked = ranked | np.asarray((counted | (open_pairs & (better | better.T))).any(1))
    parameters = pd.DataFrame(
        {
            "estimate": beta,
            "low": np.where(has_interval, about - half_width, np.nan),
            "high": np.where(has_interval, about + half_width, np.nan),
            "status": status,
            "degrees": np.where(few, planned, df)[own],
        }
    )
    pull = (pull / np.where(has_interval, error[own], np.nan))[theta]
    of_pairs = (v[between].reshape(m, m) for v in (variance, df))
    return Intervals(parameters, better, comparable, ranked, runaway, pull, apart, *of_pairs)


def _moved(directions: np.ndarray, centre: np.ndarray, posterior: np.ndarray, m: int) -> np.ndarray:
    """[P + M M] whether some direction moves each parameter and each difference of models."""
    moved, own = np.zeros(len(posterior), bool), slice(len(centre))

    def steps(change: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.abs(change) / np.sqrt(np.where(variance > 0, variance, np.inf))

    for direction in directions:
        # Of the direction itself: centred, the constant of theta is rounding.
        least = NEGLIGIBLE * max(steps(direction, posterior[own]).max(), 1e-300)
        theta = direction[:m]
        change = np.r_[centre @ direction, (theta - theta[:, None]).ravel()]
        moved |= steps(change, posterior) > least
    return moved


def quantile(level: float, df: np.ndarray) -> np.ndarray:
    """Quantile of Student's t; NaN without degrees of freedom."""
    from scipy import special

    return special.stdtrit(np.where(df > 0, df, np.nan), level)


def centring(known: np.ndarray, n_parameters: int) -> np.ndarray:
    """[P, P] matrix that subtracts from theta its mean over the known models."""
    centre = np.eye(n_parameters)
    m = len(known)
    centre[:m, :m] = np.diag(known) - np.outer(known, known) / max(1, known.sum())
    return centre


def variances(covariance: np.ndarray, centre: np.ndarray, m: int) -> np.ndarray:
    """[P + M M] variances of the parameters, theta about its mean, and of the differences of two
    models, from a covariance of the parameters."""
    theta = np.diagonal(covariance)[:m]
    pairs = theta + theta[:, None] - 2 * covariance[:m, :m]
    parameters = np.einsum("ip,pq,iq->i", centre, covariance, centre, optimize=True)
    return np.r_[parameters, pairs.ravel()].clip(0)


def degrees_of_freedom(
    df: np.ndarray, inverse: np.ndarray, centre: np.ndarray, m: int
) -> np.ndarray:
    """[P + M M] degrees of freedom of the intervals of the parameters, theta about its mean, and of
    the differences of two models.

    The variance of a theta is a part from each coefficient plus a remainder. Their clusters are the
    same, so that the parts are dependent and combine by 1 / df = sum of share / df. The parts of
    correlated coefficients are those of the uncorrelated variables nearest to them, whatever the
    order of judges and covariates. For a difference, the remainder has the smaller df of the two
    models.

    Args:
      df: [P] of the parameters; of theta at known coefficients.
      inverse: [P, P] H^-1.
    """
    free = m + np.flatnonzero(np.diagonal(inverse)[m:] > 0)
    by_bias = centre[:m] @ inverse[:, free]
    theta, coefficients = df[:m], df[free]
    if len(free):
        sd = np.sqrt(np.diagonal(inverse)[free])
        values, vectors = np.linalg.eigh(inverse[np.ix_(free, free)] / np.outer(sd, sd))
        by_bias = by_bias / sd @ (vectors / np.sqrt(values.clip(1e-12))) @ vectors.T
    posterior = variances(inverse, centre, m)
    of_theta = _combined(by_bias.T, posterior[:m], coefficients, theta)
    changes = (v - v[:, None] for v in by_bias.T)
    variance, smaller = posterior[len(df) :].reshape(m, m), np.minimum(theta, theta[:, None])
    pairs = _combined(changes, variance, coefficients, smaller)
    return np.r_[of_theta, df[m:], pairs.ravel()]


def _combined(
    by_bias: Iterable[np.ndarray], variance: np.ndarray, df: np.ndarray, remainder_df: np.ndarray
) -> np.ndarray:
    """Degrees of freedom of a variance: each coefficient contributes its square in `by_bias`, and
    the remainder has `remainder_df`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total, remainder = np.zeros_like(variance), np.ones_like(variance)
        for change, degrees in zip(by_bias, df, strict=True):
            share = np.where(variance > 0, change**2 / variance, 0)
            total = total + np.where(share > NEGLIGIBLE, share / degrees, 0)
            remainder = remainder - share
        total += remainder.clip(0) / remainder_df
        return np.where((total > 0) & np.isfinite(total), 1 / total, 0)
