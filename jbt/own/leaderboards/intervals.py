"""Intervals of a leaderboard's theta, c and kappa, and the reason where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jbt import identifiability
from jbt.estimators import clusters
from jbt.kernel import metrics
from jbt.own.leaderboards.counted import better_by_counts, through_others
from jbt.own.leaderboards.spread import NEGLIGIBLE, Degrees, Variances, centring, quantile
from jbt.stats.row_jackknife import Jackknife, jackknife
from jbt.types import Design, Parameters, Prior, Rows, Variant

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


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences of two models, [M, M] model j less model i, without the prior's pull."""

    estimate: np.ndarray
    variance: np.ndarray
    degrees: np.ndarray
    """Degrees of freedom of the variance."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Ends of the intervals, their statuses, and comparisons of models. NaN where undefined."""

    low: np.ndarray
    """[P] of (theta, c, kappa), theta about its mean over the models."""
    high: np.ndarray
    status: np.ndarray
    """[P] converged, or why there is no interval: see `board.REASONS`."""
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
    degrees: np.ndarray
    """[P] effective degrees of freedom: of the interval, or what is too few for one."""
    differences: Differences
    """Of the jackknife."""

    @classmethod
    def undefined(cls, n_models: int, n_covariates: int, status: str) -> Intervals:
        """No intervals, for a fit without a maximum."""
        ends = np.full(n_models + n_covariates + 1, np.nan)
        nothing = np.zeros((n_models, n_models), bool)
        statuses = np.full(len(ends), status, object)
        unknown = Differences(*[np.full((n_models, n_models), np.nan)] * 3)
        none = np.zeros(n_models, bool)
        tests = nothing, nothing, none, none
        return cls(ends, ends, statuses, *tests, ends[:n_models], ends, unknown)


def intervals(
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
    cluster: np.ndarray,
    *,
    inverse: np.ndarray | None = None,
    loading: np.ndarray | None = None,
    moments: np.ndarray | None = None,
) -> Intervals:
    """Intervals of a MAP, by the jackknife with Student's t.

    They are about beta + H^-1 Lambda beta, which removes the pull of the prior to first order.

    Args:
      mode: the MAP.
      rows, design, prior, variant: those of the fit; float64.
      cluster: [R] cluster of each row.
      inverse: [P, P] H^-1, where it is not that of these rows, see `interaction`.
      loading, moments: see `row_jackknife.jackknife`.
    """
    m, known = design.n_contents, np.asarray(design.content_mask())
    is_linear = inverse is None  # eta is that of the rows, and every row a verdict
    if inverse is None:
        inverse = clusters.inverse_hessian(mode, rows, design, prior, variant)
    precision = clusters.prior_precision(design, prior)
    centre = centring(known, len(inverse))
    posterior = Variances.of(inverse, centre, m)
    of_prior = Variances.of(clusters.prior_part(inverse, precision), centre, m)
    undetermined = identifiability.undetermined(rows, design, variant, start=mode)
    undetermined_parameters, undetermined_pairs = _moved(undetermined, centre, posterior)
    nulls = identifiability.null_space(design, rows, variant=variant)
    flat, _ = _moved(nulls.directions, centre, posterior)
    if len(np.unique(cluster[np.asarray(rows.shown) > 0])) < 2:
        estimate = Jackknife(np.zeros_like(inverse), *np.zeros((2, len(inverse))))
    else:
        estimate = jackknife(inverse, mode, rows, cluster, loading=loading, moments=moments)
    planned, df = (Degrees.of(v, inverse, centre, m) for v in (estimate.planned, estimate.df))
    few, few_pairs = planned.parameters < FEWEST_DEGREES, planned.differences < FEWEST_DEGREES

    pushed = np.eye(len(centre)) + inverse * precision
    beta = mode.as_numpy()
    pull = -centre @ inverse @ (precision * beta)
    about = centre @ pushed @ beta
    variances = Variances.of(pushed @ estimate.covariance @ pushed.T, centre, m).unless_none(
        posterior
    )
    error, error_of_difference = np.sqrt(variances.parameters), np.sqrt(variances.differences)
    levels = (1 + LEVEL) / 2, 1 - (1 - LEVEL) / 2 / max(1, int(known.sum()) - 1)
    half_width = quantile(levels[0], df.parameters) * error
    half_widths = quantile(levels[1], df.differences) * error_of_difference
    low, high = about - half_width, about + half_width

    status = np.where(few, "few_clusters", "converged").astype(object)
    status[of_prior.parameters > PRIOR_SHARE * posterior.parameters] = "prior_selected"
    status[undetermined_parameters] = "separated"
    status[undetermined_parameters & flat] = "flat"
    status[m:-1][~np.any(np.asarray(rows.difference) != 0, axis=0)] = "covariate_constant"
    status[:m][~known] = "no_verdicts"
    comparable = known & known[:, None] & ~np.eye(m, dtype=bool) & ~undetermined_pairs
    prior_decides = of_prior.differences > PRIOR_SHARE * posterior.differences
    comparable &= ~prior_decides & ~few_pairs
    group = (~undetermined_pairs & known & known[:, None]).sum(1)
    is_largest = group == group.max(initial=0)
    runaway = (status[:m] == "separated") & ~(is_largest & (is_largest.sum() == group))

    apart = about[:m] - about[:m, None]
    better = comparable & (apart > np.maximum(half_widths, metrics.TIED))
    has_interval = status == "converged"
    ranked = np.asarray(comparable.any(1))
    open_pairs = known & known[:, None] & ~np.eye(m, dtype=bool)
    open_pairs &= undetermined_pairs | prior_decides
    if is_linear and open_pairs.any():
        upper = np.where(comparable, apart + half_widths, np.inf)
        np.fill_diagonal(upper, 0)
        half = half_width * quantile(levels[1], df.parameters) / quantile(levels[0], df.parameters)
        half = np.where(has_interval, half, np.inf)[m:]
        is_free = np.r_[np.asarray(variant.c), np.asarray(variant.kappa)]
        ends = np.where(is_free, np.stack([about[m:] - half, about[m:] + half]), 0)
        arguments = rows, cluster, open_pairs, upper, ends
        above, counted = better_by_counts(*arguments, level=1 - levels[1])
        better |= open_pairs & through_others(better | above)
        ranked = ranked | np.asarray((counted | (open_pairs & (better | better.T))).any(1))
    low, high, error = (np.where(has_interval, v, np.nan) for v in (low, high, error))
    degrees = np.where(few, planned.parameters, df.parameters)
    pull = pull[:m] / error[:m]
    tests = better, comparable, ranked, runaway
    differences = Differences(apart, variances.differences, df.differences)
    return Intervals(low, high, status, *tests, pull, degrees, differences)


def _moved(
    directions: np.ndarray, centre: np.ndarray, posterior: Variances
) -> tuple[np.ndarray, np.ndarray]:
    """[P] and [M, M] whether some direction moves each parameter and each difference of models."""
    m = len(posterior.differences)
    parameters, pairs = np.zeros(len(centre), bool), np.zeros((m, m), bool)

    def steps(change: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.abs(change) / np.sqrt(np.where(variance > 0, variance, np.inf))

    for direction in directions:
        step = steps(centre @ direction, posterior.parameters)
        # Of the direction itself: centred, the constant of theta is rounding.
        least = NEGLIGIBLE * max(steps(direction, posterior.parameters).max(), 1e-300)
        theta = direction[:m]
        parameters |= step > least
        pairs |= steps(theta - theta[:, None], posterior.differences) > least
    return parameters, pairs
