"""Intervals and crossings, with the pool as the unit."""

from __future__ import annotations

import numpy as np

RESAMPLES = 2000
REPLICATES = 4000
"""Small studies drawn from many pools."""
PERMUTATIONS = 9999
MOST_BLOCKS = 20_000
"""Pools resampled one by one; more of them in as many blocks, so that neither time nor memory
grows with their number."""


def bootstrap_means(
    values: np.ndarray, *, seed: int, size: int | None = None, resamples: int = RESAMPLES
) -> np.ndarray:
    """Means over resampled pools.

    All rows are resampled together, so differences between them stay paired. Beyond 20,000 pools
    blocks of neighbours are resampled whole, whose means scatter as those of pools do.

    Args:
      values: [..., P] a number a pool; NaN (no result) is left out of its mean.
      seed: of the resampling.
      size: pools drawn, with replacement; default P (the bootstrap). Smaller sizes give the
        sampling distribution of a smaller study.
      resamples: R.

    Returns:
      [R, ...].

    Raises:
      ValueError: no pools.
    """
    n = values.shape[-1]
    if n == 0:
        raise ValueError("no pools to resample")
    flat = values.reshape(-1, n)
    rng = np.random.default_rng([seed, n])
    if size is not None:
        means = _means_of_few(flat, rng, size, resamples)
        return means.reshape(resamples, *values.shape[:-1])
    known = np.isfinite(flat)
    filled = np.where(known, flat, 0.0)
    if n > MOST_BLOCKS:
        begin = np.linspace(0, n, MOST_BLOCKS, endpoint=False).astype(int)
        filled = np.add.reduceat(filled, begin, -1, dtype=np.float64)
        known = np.add.reduceat(known, begin, -1, dtype=np.float64)
        n = MOST_BLOCKS
    totals, counts = filled.T.astype(np.float64), known.T.astype(np.float64)
    even = bool((counts == 1).all())
    means = np.empty((resamples, flat.shape[0]))
    step = max(1, 4_000_000 // n)
    for begin in range(0, resamples, step):
        rows = min(step, resamples - begin)
        drawn = rng.integers(0, n, (rows, n))
        weights = np.stack([np.bincount(d, minlength=n) for d in drawn]).astype(np.float64)
        total = n if even else weights @ counts
        with np.errstate(invalid="ignore"):  # no known pool drawn: the mean is undefined, NaN
            means[begin : begin + rows] = weights @ totals / total
    return means.reshape(resamples, *values.shape[:-1])


def _means_of_few(
    flat: np.ndarray, rng: np.random.Generator, size: int, resamples: int
) -> np.ndarray:
    """[R, rows] means of `size` drawn pools, without touching those that are not drawn."""
    drawn = rng.integers(0, flat.shape[-1], (resamples, size))
    means = np.empty((resamples, len(flat)))
    for row, values in enumerate(flat):
        picked = values[drawn].astype(np.float64)
        known = np.isfinite(picked)
        with np.errstate(invalid="ignore"):
            means[:, row] = np.where(known, picked, 0).sum(1) / known.sum(1)
    return means


def study_means(
    values: np.ndarray, *, seed: int, size: int, same_pools: bool = False
) -> np.ndarray:
    """Means [R, G] that studies of `size` pools find at each of G points, [G, P] pools each: fresh
    pools at every point, or the same ones at all of them."""
    if same_pools:
        return bootstrap_means(values, seed=seed, size=size, resamples=REPLICATES)
    points = [
        _means_of_few(v[None], np.random.default_rng([seed, i, len(v)]), size, REPLICATES)
        for i, v in enumerate(values)
    ]
    return np.concatenate(points, axis=-1)


def with_seeds(values: np.ndarray, seeds: int | None) -> np.ndarray:
    """Means over acquisition seeds [..., P] that scatter over pools as means of `seeds` would.

    Var(mean of a pool) = between + within / seeds. Both parts are estimated from the seeds there
    are, and the pools' means moved towards (or from) their overall mean by one factor, which keeps
    that mean.

    Args:
      values: [..., S, P] a number a seed and pool.
      seeds: acquisition seeds of the study meant; None for as many as there are. From one seed
        nothing can be told about others, and its numbers are returned as they are.
    """
    mean = values.mean(-2)
    s = values.shape[-2]
    if seeds in (None, s) or s == 1 or mean.shape[-1] == 1:
        return mean
    within = values.var(-2, ddof=1).mean(-1, keepdims=True)
    total = mean.var(-1, ddof=1, keepdims=True)
    wanted = np.maximum(total - within / s, 0) + within / seeds
    factor = np.sqrt(np.divide(wanted, total, out=np.ones_like(total), where=total > 0))
    overall = mean.mean(-1, keepdims=True)
    return overall + factor * (mean - overall)


def mean_interval(
    values: np.ndarray, *, seed: int, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over the last axis (pools) with its percentile-bootstrap interval: mean, low, high. One
    pool has no interval: NaN."""
    tail = (1 - level) / 2
    interval = np.quantile(bootstrap_means(values, seed=seed), [tail, 1 - tail], axis=0)
    low, high = np.where(np.isfinite(values).sum(-1) > 1, interval, np.nan)
    return np.asarray(np.nanmean(values, axis=-1)), np.asarray(low), np.asarray(high)


def share_interval(
    values: np.ndarray, *, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Share of ones among zeros and ones, over the last axis (pools), with its exact interval
    (Clopper & Pearson 1934): share, low, high. NaN is left out; without any other number all three
    are NaN. The bootstrap has no interval for a share of 0 or 1."""
    from scipy.stats import binomtest

    def of_row(row: np.ndarray) -> tuple[float, float, float]:
        known = row[np.isfinite(row)]
        if not len(known):
            return np.nan, np.nan, np.nan
        test = binomtest(int(known.sum()), len(known))
        low, high = test.proportion_ci(level, method="exact")
        return test.statistic, low, high

    rows = np.array([of_row(row) for row in values.reshape(-1, values.shape[-1])])
    share, low, high = rows.T.reshape(3, *values.shape[:-1])
    return share, low, high


def jackknife_interval(
    without_one: np.ndarray, *, level: float = 0.95
) -> tuple[float, float, float]:
    """Mean of an estimate that was made without each pool in turn, with the jackknife's interval of
    it (Tukey 1958; t with P - 1 degrees): mean, low, high.

    Args:
      without_one: [P] the estimate from all pools but one.
    """
    from scipy.stats import t

    n = len(without_one)
    mean = float(without_one.mean())
    half = float(t.ppf((1 + level) / 2, n - 1) * np.sqrt((n - 1) * without_one.var()))
    return mean, mean - half, mean + half


def paired_permutation(
    differences: np.ndarray, *, seed: int, resamples: int = PERMUTATIONS
) -> np.ndarray:
    """Two-sided p-values of paired differences whose sign is exchangeable under the null.

    The statistic is the absolute mean. All 2^n sign patterns are enumerated where there are at
    most `resamples` of them, and the smallest p is then 2 / 2^n; else that many are drawn, the
    observed one is counted among them, and the smallest p is 1 / (resamples + 1).

    Args:
      differences: [..., n] a difference a pool, the same pools along all rows.
      seed: of the drawn patterns.

    Returns:
      [...], NaN where a difference is not finite.
    """
    flat = np.asarray(differences, np.float64).reshape(-1, differences.shape[-1])
    n = flat.shape[-1]
    # Differences of recalls lie on a lattice, rounded to float32: equal sums count as equal.
    observed = np.abs(flat.sum(-1)) - 1e-6 * np.abs(flat).sum(-1)
    as_extreme = np.zeros(len(flat))
    if 2**n <= resamples:
        patterns = 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1
        as_extreme += (np.abs(patterns @ flat.T) >= observed).sum(0)
        p = as_extreme / 2**n
    else:
        rng = np.random.default_rng([seed, n])
        step = max(1, 4_000_000 // n)
        for begin in range(0, resamples, step):
            rows = min(step, resamples - begin)
            patterns = 2 * rng.integers(0, 2, (rows, n), np.int8) - 1
            as_extreme += (np.abs(patterns.astype(float) @ flat.T) >= observed).sum(0)
        p = (1 + as_extreme) / (1 + resamples)
    p = np.where(np.isfinite(flat).all(-1), p, np.nan)
    return p.reshape(differences.shape[:-1])


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment of p-values over the last axis, one family. NaN stays NaN and
    counts as one of the family."""
    p = np.asarray(p, float)
    order = np.argsort(p, axis=-1)
    m = p.shape[-1]
    stepped = np.take_along_axis(p, order, -1) * (m - np.arange(m))
    adjusted = np.minimum(np.maximum.accumulate(stepped, -1), 1)
    out = np.empty_like(adjusted)
    np.put_along_axis(out, order, adjusted, -1)
    return out


def small_study_p(
    differences: np.ndarray, *, size: int, seed: int, replicates: int = 1000, replace: bool = True
) -> np.ndarray:
    """p-values that studies of `size` pools find for several differences: exact paired permutation
    tests, Holm-corrected over the family.

    Args:
      differences: [F, P] a family of differences, each with a number a pool.
      size: pools of a study, drawn from the P; at most 12, so that the test is exact.
      seed: of the draws.
      replace: draw a study's pools with replacement.

    Returns:
      [replicates, F], NaN where a difference is not finite.

    Raises:
      ValueError: more than 12 pools a study.
    """
    n = differences.shape[1]
    if size > 12:
        raise ValueError(f"size must be at most 12, got {size}")
    rng = np.random.default_rng([seed, n])
    drawn = np.stack([rng.choice(n, size, replace=replace) for _ in range(replicates)])
    return holm(paired_permutation(differences[:, drawn], seed=seed).T)


def small_study_power(
    differences: np.ndarray, *, size: int, seed: int, level: float = 0.05
) -> np.ndarray:
    """How often a study of `size` pools calls each of several differences significant: the share
    of `small_study_p` below the level, a study's pools drawn without replacement.

    Returns:
      [F] shares of the studies, in either direction; NaN for fewer than 5 `size` pools, too few to
      stand for all, and where a difference is not finite.

    Raises:
      ValueError: more than 12 pools a study.
    """
    family, n = differences.shape
    if n < 5 * size:
        if size > 12:
            raise ValueError(f"size must be at most 12, got {size}")
        return np.full(family, np.nan)
    power = (small_study_p(differences, size=size, seed=seed, replace=False) < level).mean(0)
    return np.where(np.isfinite(differences).all(-1), power, np.nan)


def first_crossing(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where y first changes from positive to not positive, linearly interpolated.

    Args:
      x: [G] increasing.
      y: [..., G].

    Returns:
      [...] crossing in units of x; without one, +inf if y is positive anywhere (it stays so),
      -inf if it never is. NaN counts as not positive.
    """
    y = np.asarray(y, float)
    falls = (y[..., :-1] > 0) & (y[..., 1:] <= 0)
    i = falls.argmax(-1)
    y0 = np.take_along_axis(y, i[..., None], -1)[..., 0]
    y1 = np.take_along_axis(y, i[..., None] + 1, -1)[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        at = x[i] + (x[i + 1] - x[i]) * y0 / (y0 - y1)
    never = np.where((y > 0).any(-1), np.inf, -np.inf)
    return np.where(falls.any(-1), at, never)


def sign_changes(y: np.ndarray) -> np.ndarray:
    """How often y changes between positive and not positive along the last axis."""
    positive = np.asarray(y) > 0
    return (positive[..., 1:] != positive[..., :-1]).sum(-1)


def finite_or_nan(x: float | np.ndarray) -> float:
    """Infinity (no crossing on the grid) to NaN, which tables leave empty."""
    return float(x) if np.isfinite(x) else float("nan")


def percentiles(samples: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The central `level` of some samples, which may be infinite: order statistics, as
    interpolation between infinities is undefined."""
    tail = (1 - level) / 2
    low = np.quantile(samples, tail, method="lower")
    high = np.quantile(samples, 1 - tail, method="higher")
    return float(low), float(high)


def crossing_interval(samples: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of resampled crossings. Resamples without a crossing count as
    beyond the grid's end on their side; an end that lies there is NaN."""
    low, high = percentiles(samples, level)
    return finite_or_nan(low), finite_or_nan(high)
