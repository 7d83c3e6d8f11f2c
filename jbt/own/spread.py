"""Intervals of one leaderboard, for what its verdicts determine, and else the reason why not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jbt import clusters, identifiability, model
from jbt.types import Design, Parameters, Prior, Rows, Variant

LEVEL = 0.95
"""Coverage of every interval."""

FEWEST_CLUSTERS = 10
"""Below which the scores of clusters do not tell how they vary; of the clusters that tell of the
number in question (`clusters.effective_number`)."""

FEWEST_FOUND = 0.9
"""Share of resamples that must have an estimate; those without one are unlike the others."""

PRIOR_SHARE = 0.1
"""Share of the prior in the posterior variance beyond which the prior is said to have chosen. With
a truth drawn from the prior, the bias is a third of a standard error there."""

NEGLIGIBLE = 1e-6
"""A direction moves what it moves by more than this share of what it moves most, in posterior
standard deviations."""


@dataclass(frozen=True, eq=False)
class Spread:
    """How far the estimates would go with other pools of the file. NaN where undefined."""

    low: np.ndarray
    """[P] of (theta, c, kappa), theta about its mean over the models."""
    high: np.ndarray
    status: np.ndarray
    """[P] converged, or why there is no interval: see `leaderboard.Coefficient`."""
    better: np.ndarray
    """[M, M] whether model j is better than model i for certain: the interval of the difference,
    Bonferroni-corrected for a model's M - 1 of them, lies above 0."""
    comparable: np.ndarray
    """[M, M] whether the difference of two models has an interval."""
    runaway: np.ndarray
    """[M] which models the likelihood sends to infinity."""
    pull: np.ndarray
    """[M] how far the prior has moved theta, in standard errors, to first order."""

    @classmethod
    def undefined(cls, n_models: int, n_covariates: int, status: str) -> Spread:
        """Of a fit that says nothing."""
        ends = np.full(n_models + n_covariates + 1, np.nan)
        never = np.zeros((n_models, n_models), bool)
        why = np.full(len(ends), status, object)
        return cls(ends, ends, why, never, never, never[0], ends[:n_models])


def spread(
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
    cluster: np.ndarray,
    *,
    bootstrap: int = 0,
    seed: int = 0,
) -> Spread:
    """Intervals of a MAP: by the sandwich with Student's t, or percentiles of resampled clusters.

    Args:
      mode: the MAP.
      rows, design, prior, variant: what it was fitted with; float64.
      cluster: [R] which cluster each row is of.
      bootstrap: resamples; 0 for the sandwich.
      seed: of the resampling.

    Raises:
      ValueError: more than a tenth of the resamples have no estimate.
    """
    m, known = design.n_contents, np.asarray(design.content_mask())
    inverse = clusters.inverse_hessian(mode, rows, design, prior, variant)
    precision = np.asarray(model.prior_precision(design, prior))
    centre = _centring(known, len(inverse))
    posterior = _Variances.of(inverse, centre, m)
    of_prior = _Variances.of(clusters.prior_part(inverse, precision), centre, m)
    open_ = identifiability.undetermined(rows, design, variant, start=mode)
    moved, parted = _moved(open_, centre, posterior)
    silent = identifiability.null_space(design, rows, position=bool(variant.kappa))
    flat, _ = _moved(silent.directions, centre, posterior)
    # Of a model, the clusters that hold its verdicts. Its theta about the mean depends a little on
    # every model, which would take the intervals of all for the sake of one that is hardly there.
    biases = np.eye(len(centre))[m:]
    telling = np.r_[
        clusters.effective_number_of_contents(mode, rows, cluster),
        clusters.effective_number(biases, inverse, mode, rows, cluster),
    ]
    few = telling < FEWEST_CLUSTERS

    status = np.where(few, "few_clusters", "converged").astype(object)
    status[of_prior.own > PRIOR_SHARE * posterior.own] = "prior_selected"
    status[moved] = "separated"
    status[moved & flat] = "flat"
    status[m:-1][~np.any(np.asarray(rows.difference) != 0, axis=0)] = "covariate_constant"
    status[:m][~known] = "no_verdicts"
    comparable = known & known[:, None] & ~np.eye(m, dtype=bool) & ~parted
    comparable &= of_prior.apart <= PRIOR_SHARE * posterior.apart
    comparable &= ~(few[:m] | few[:m, None])
    beyond = np.abs(open_[:, :m] - np.median(open_[:, :m][:, known], axis=1, keepdims=True)) > 0.5
    runaway = np.any(beyond, axis=0) & (status[:m] == "separated")

    beta = centre @ np.asarray(mode.flat())
    low = high = error = np.full(len(beta), np.nan)
    better = np.zeros((m, m), bool)
    if not few.all():
        low, high, error, reach = _intervals(
            mode, rows, design, prior, variant, cluster, inverse, centre, bootstrap, seed
        )
        better = comparable & (beta[:m] - beta[:m, None] > reach)
    has_interval = status == "converged"
    low, high, error = (np.where(has_interval, v, np.nan) for v in (low, high, error))
    pull = -(centre @ inverse @ (precision * np.asarray(mode.flat())))[:m] / error[:m]
    return Spread(low, high, status, better, comparable, runaway, pull)


def _intervals(
    mode: Parameters,
    rows: Rows,
    design: Design,
    prior: Prior,
    variant: Variant,
    cluster: np.ndarray,
    inverse: np.ndarray,
    centre: np.ndarray,
    bootstrap: int,
    seed: int,
) -> tuple[np.ndarray, ...]:
    """Low, high and standard error [P]; half-width of the corrected interval of every difference
    [M, M]."""
    from scipy import stats

    m, n_models = design.n_contents, int(np.asarray(design.content_mask()).sum())
    n_clusters = len(np.unique(cluster[np.asarray(rows.shown) > 0]))
    t = stats.t(n_clusters - 1)
    if bootstrap:
        draws = clusters.bootstrap(
            mode, rows, design, prior, variant, cluster, resamples=bootstrap, seed=seed
        )
        found = np.isfinite(draws).all(1)
        if found.mean() < FEWEST_FOUND:
            lost = f"{(~found).sum()} of {bootstrap} resamples have no estimate"
            raise ValueError(f"{lost}: use the sandwich (no --bootstrap)")
        draws = draws[found] @ centre.T
        variances = _Variances.of(np.cov(draws, rowvar=False), np.eye(len(centre)), m)
        error = np.sqrt(variances.own)
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    else:
        covariance = clusters.sandwich(inverse, mode, rows, cluster)
        variances = _Variances.of(covariance, centre, m)
        error = np.sqrt(variances.own)
        beta, half = centre @ np.asarray(mode.flat()), t.ppf((1 + LEVEL) / 2) * error
        low, high = beta - half, beta + half
    corrected = t.ppf(1 - (1 - LEVEL) / 2 / max(1, n_models - 1))
    return low, high, error, corrected * np.sqrt(variances.apart)


@dataclass(frozen=True, eq=False)
class _Variances:
    """What a covariance of (theta, c, kappa) says of them and of differences."""

    own: np.ndarray
    """[P] of theta about its mean, c and kappa."""
    apart: np.ndarray
    """[M, M] of the difference of two models."""

    @classmethod
    def of(cls, covariance: np.ndarray, centre: np.ndarray, m: int) -> _Variances:
        theta = np.diagonal(covariance)[:m]
        apart = theta + theta[:, None] - 2 * covariance[:m, :m]
        own = np.einsum("ip,pq,iq->i", centre, covariance, centre, optimize=True)
        return cls(own.clip(0), apart.clip(0))


def _centring(known: np.ndarray, n_parameters: int) -> np.ndarray:
    """[P, P], takes the mean over the models that are known off theta."""
    centre = np.eye(n_parameters)
    m = len(known)
    centre[:m, :m] = np.diag(known) - np.outer(known, known) / max(1, known.sum())
    return centre


def _moved(
    directions: np.ndarray, centre: np.ndarray, posterior: _Variances
) -> tuple[np.ndarray, np.ndarray]:
    """[P] and [M, M] which parameters, and which differences of models, some direction moves."""
    m = len(posterior.apart)
    own, apart = np.zeros(len(centre), bool), np.zeros((m, m), bool)

    def steps(change: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.abs(change) / np.sqrt(np.where(variance > 0, variance, np.inf))

    for direction in directions:
        step = steps(centre @ direction, posterior.own)
        least = NEGLIGIBLE * max(step.max(), 1e-300)
        theta = direction[:m]
        own |= step > least
        apart |= steps(theta - theta[:, None], posterior.apart) > least
    return own, apart
