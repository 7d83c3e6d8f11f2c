"""Intervals of a leaderboard's theta, c and kappa, and the reason where there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jbt import identifiability
from jbt.estimators import clusters
from jbt.kernel import metrics
from jbt.stats.cluster_jackknife import NO_DIFFERENCE
from jbt.stats.row_jackknife import Jackknife, jackknife
from jbt.types import Design, Parameters, Prior, Rows, Variant

LEVEL = 0.95
"""Coverage of every interval."""

FEWEST_DEGREES = 5.0
"""Planned degrees of freedom (`Jackknife.planned`) below which there is no interval. In simulations
with 10 to 100 equal and unequal prompts, intervals cover .93 to .98 above it, and .97 to 1.00 at 3
to 4, where the quantiles of t are as uncertain as the degrees of freedom."""

FEWEST_RESAMPLED = 50.0
"""The same limit for percentiles of resampled clusters, which no t quantile widens: like the plain
sandwich they cover .86 to .93 at 10 to 30 degrees of freedom and .94 or more from 50 on."""

FEWEST_FOUND = 0.9
"""Share of resamples that must have an estimate; those without one are unlike the others."""

PRIOR_SHARE = 0.1
"""Largest share of the prior in the posterior variance of an estimate with an interval. At this
limit, with a truth drawn from the prior, the bias of the MAP is a third of a standard error; with
qualities of sd 2.5 it was up to 2, of which intervals remove nine tenths. A limit on the shift by
the prior would depend on the estimate, and intervals of estimates within it cover .5 to .9."""

NEGLIGIBLE = 1e-6
"""A direction moves a parameter if by more than this share of its largest move, in posterior
standard deviations."""


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
    Bonferroni-corrected for the model's M - 1 differences, lies above 0."""
    comparable: np.ndarray
    """[M, M] whether the difference of two models has an interval."""
    runaway: np.ndarray
    """[M] whether the likelihood sends each model to infinity."""
    pull: np.ndarray
    """[M] shift of theta by the prior in standard errors, to first order."""
    degrees: np.ndarray
    """[P] effective degrees of freedom: of the interval, or what is too few for one."""

    @classmethod
    def undefined(cls, n_models: int, n_covariates: int, status: str) -> Intervals:
        """No intervals, for a fit without a maximum."""
        ends = np.full(n_models + n_covariates + 1, np.nan)
        nothing = np.zeros((n_models, n_models), bool)
        statuses = np.full(len(ends), status, object)
        return cls(ends, ends, statuses, nothing, nothing, nothing[0], ends[:n_models], ends)


def intervals(
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
    cluster: np.ndarray,
    *,
    bootstrap: int = 0,
    seed: int = 0,
    inverse: np.ndarray | None = None,
    loading: np.ndarray | None = None,
) -> Intervals:
    """Intervals of a MAP: by the jackknife with Student's t, or percentiles of resampled clusters.

    They are about beta + H^-1 Lambda beta, which removes the pull of the prior to first order.

    Args:
      mode: the MAP.
      rows, design, prior, variant: those of the fit; float64.
      cluster: [R] cluster of each row.
      bootstrap: resamples; 0 for the jackknife.
      seed: of the resampling.
      inverse: [P, P] H^-1, where it is not that of these rows, see `interaction`.
      loading: see `row_jackknife.jackknife`; not for the bootstrap.

    Raises:
      ValueError: more than a tenth of the resamples have no estimate.
    """
    m, known = design.n_contents, np.asarray(design.content_mask())
    if inverse is None:
        inverse = clusters.inverse_hessian(mode, rows, design, prior, variant)
    precision = clusters.prior_precision(design, prior)
    centre = centring(known, len(inverse))
    posterior = _Variances.of(inverse, centre, m)
    of_prior = _Variances.of(clusters.prior_part(inverse, precision), centre, m)
    undetermined = identifiability.undetermined(rows, design, variant, start=mode)
    undetermined_parameters, undetermined_pairs = _moved(undetermined, centre, posterior)
    nulls = identifiability.null_space(design, rows, position=bool(variant.kappa))
    flat, _ = _moved(nulls.directions, centre, posterior)
    if len(np.unique(cluster[np.asarray(rows.shown) > 0])) < 2:
        estimate = Jackknife(np.zeros_like(inverse), *np.zeros((2, len(inverse))))
    else:
        estimate = jackknife(inverse, mode, rows, cluster, loading=loading)
    fewest = FEWEST_RESAMPLED if bootstrap else FEWEST_DEGREES
    planned, df = (_Degrees.of(v, inverse, centre, m) for v in (estimate.planned, estimate.df))
    few = planned.parameters < fewest

    pushed = np.eye(len(centre)) + inverse * precision
    beta = mode.as_numpy()
    pull = -centre @ inverse @ (precision * beta)
    about = centre @ pushed @ beta
    low = high = np.full(len(beta), np.nan)
    if bootstrap and not few.all():
        draws = _draws(mode, rows, design, prior, variant, cluster, bootstrap, seed)
        covariance = np.cov(draws, rowvar=False)
        low, high = np.quantile(draws @ (centre @ pushed).T, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], 0)
    else:
        covariance = estimate.covariance
    variances = _Variances.of(pushed @ covariance @ pushed.T, centre, m).unless_none(posterior)
    error, error_of_difference = np.sqrt(variances.parameters), np.sqrt(variances.differences)
    if not bootstrap:
        half_width = _quantile((1 + LEVEL) / 2, df.parameters) * error
        low, high = about - half_width, about + half_width

    status = np.where(few, "few_clusters", "converged").astype(object)
    status[of_prior.parameters > PRIOR_SHARE * posterior.parameters] = "prior_selected"
    status[undetermined_parameters] = "separated"
    status[undetermined_parameters & flat] = "flat"
    status[m:-1][~np.any(np.asarray(rows.difference) != 0, axis=0)] = "covariate_constant"
    status[:m][~known] = "no_verdicts"
    comparable = known & known[:, None] & ~np.eye(m, dtype=bool) & ~undetermined_pairs
    comparable &= of_prior.differences <= PRIOR_SHARE * posterior.differences
    comparable &= planned.differences >= fewest
    runs_away = (
        np.abs(
            undetermined[:, :m] - np.median(undetermined[:, :m][:, known], axis=1, keepdims=True)
        )
        > 0.5
    )
    runaway = np.any(runs_away, axis=0) & (status[:m] == "separated")

    corrected = 1 - (1 - LEVEL) / 2 / max(1, int(known.sum()) - 1)
    half_widths = _quantile(corrected, df.differences) * error_of_difference
    better = comparable & (about[:m] - about[:m, None] > np.maximum(half_widths, metrics.TIED))
    has_interval = status == "converged"
    low, high, error = (np.where(has_interval, v, np.nan) for v in (low, high, error))
    degrees = np.where(few, planned.parameters, df.parameters)
    return Intervals(low, high, status, better, comparable, runaway, pull[:m] / error[:m], degrees)


def _draws(
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
    cluster: np.ndarray,
    resamples: int,
    seed: int,
) -> np.ndarray:
    """[resamples with an estimate, P]"""
    draws = clusters.bootstrap(
        mode, rows, design, prior, variant, cluster, resamples=resamples, seed=seed
    )
    has_estimate = np.isfinite(draws).all(1)
    if has_estimate.mean() < FEWEST_FOUND:
        lost = f"{(~has_estimate).sum()} of {resamples} resamples have no estimate"
        raise ValueError(f"{lost}: use the jackknife (no --bootstrap)")
    return draws[has_estimate]


def _quantile(level: float, df: np.ndarray) -> np.ndarray:
    """Quantile of Student's t; NaN without degrees of freedom."""
    from scipy import special

    return special.stdtrit(np.where(df > 0, df, np.nan), level)


@dataclass(frozen=True, eq=False)
class _Degrees:
    """Degrees of freedom of the intervals."""

    parameters: np.ndarray
    """[P] of theta about its mean, c and kappa."""
    differences: np.ndarray
    """[M, M] of the difference of two models."""

    @classmethod
    def of(cls, df: np.ndarray, inverse: np.ndarray, centre: np.ndarray, m: int) -> _Degrees:
        """Combine the degrees of freedom of the parameters (`df`; theta at known c and kappa).

        The variance of a theta is a part from each coefficient plus a remainder. Their clusters are
        the same, so that the parts are dependent and combine by 1 / df = sum of share / df. For a
        difference, the remainder has the smaller df of the two models.
        """
        free = m + np.flatnonzero(np.diagonal(inverse)[m:] > 0)
        by_bias = centre[:m] @ inverse[:, free]
        theta, coefficients = df[:m], df[free]
        if len(free):
            root = np.linalg.cholesky(inverse[np.ix_(free, free)])
            by_bias = np.linalg.solve(root, by_bias.T).T
        posterior = _Variances.of(inverse, centre, m)
        parameters = _combined(by_bias.T, posterior.parameters[:m], coefficients, theta)
        pairs = (v - v[:, None] for v in by_bias.T)
        differences = _combined(
            pairs, posterior.differences, coefficients, np.minimum(theta, theta[:, None])
        )
        return cls(np.r_[parameters, df[m:]], differences)


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


@dataclass(frozen=True, eq=False)
class _Variances:
    """Variances of the parameters and of differences, from a covariance of (theta, c, kappa)."""

    parameters: np.ndarray
    """[P] of theta about its mean, c and kappa."""
    differences: np.ndarray
    """[M, M] of the difference of two models."""

    @classmethod
    def of(cls, covariance: np.ndarray, centre: np.ndarray, m: int) -> _Variances:
        theta = np.diagonal(covariance)[:m]
        differences = theta + theta[:, None] - 2 * covariance[:m, :m]
        parameters = np.einsum("ip,pq,iq->i", centre, covariance, centre, optimize=True)
        return cls(parameters.clip(0), differences.clip(0))

    def unless_none(self, of_model: _Variances) -> _Variances:
        """These variances, or the model's where clusters do not differ at all: the verdicts of a
        judge symmetric by construction do not show the error."""
        pairs = (self.parameters, of_model.parameters), (self.differences, of_model.differences)
        return _Variances(*(np.where(a > NO_DIFFERENCE * b, a, b) for a, b in pairs))


def centring(known: np.ndarray, n_parameters: int) -> np.ndarray:
    """[P, P] matrix that subtracts from theta its mean over the known models."""
    centre = np.eye(n_parameters)
    m = len(known)
    centre[:m, :m] = np.diag(known) - np.outer(known, known) / max(1, known.sum())
    return centre


def _moved(
    directions: np.ndarray, centre: np.ndarray, posterior: _Variances
) -> tuple[np.ndarray, np.ndarray]:
    """[P] and [M, M] whether some direction moves each parameter and each difference of models."""
    m = len(posterior.differences)
    parameters, pairs = np.zeros(len(centre), bool), np.zeros((m, m), bool)

    def steps(change: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.abs(change) / np.sqrt(np.where(variance > 0, variance, np.inf))

    for direction in directions:
        step = steps(centre @ direction, posterior.parameters)
        least = NEGLIGIBLE * max(step.max(), 1e-300)
        theta = direction[:m]
        parameters |= step > least
        pairs |= steps(theta - theta[:, None], posterior.differences) > least
    return parameters, pairs
