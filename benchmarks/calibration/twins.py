"""Ranges of the numbers of twins: `consistent` in `sweeps.judges`."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from benchmarks.calibration import cell, claim, grid
from jbt import estimators, stats, twins
from jbt.kernel import metrics
from jbt.simulation import judges, pairs
from jbt.simulation.simulate import simulate, stream
from jbt.twins import CalibrationError
from jbt.types import Prior

NUMBERS = {
    "bias_aware": ("recall of the bias-aware model", (0, 1)),
    "gain": ("gain over the naive model", (-1, 1)),
    "bias_aware_10": ("recall at k = 10", (0, 1)),
    "verbosity": ("correlation of naive estimates with verbosity", (-1, 1)),
}
"""Number -> what it is in words, and its range."""
AROUND, POOLS, TRUE_POOLS = 40, 160, 2048
"""Twins around the true one, pools of each, and pools that studies are drawn from."""
SPREAD = 1.3
"""Standard deviation of the twins around, in standard errors of the calibration."""
HALF_DIGIT = 0.005
BENT = (
    "few pools, or a target near its maximum: the error of the twin's calibration is of first order"
)
"""Fewer than ten pools leave a twin uncertain; the correlation rests on the calibration
(docs/findings/judges.md)."""


def experiment(key, condition):
    """A twin's targets, then its `NUMBERS`, in one pool; and the steps by which it is displaced."""
    condition, steps = twins.displaced(key, condition)
    pool = twins.paper_pool()(stream(key, "pool"), condition)
    shown = judges.reveal(twins.answers(key, pool, condition), pairs.every_pair(pool))
    naive = estimators.naive(shown, pool.design, Prior()).parameters.theta
    aware = estimators.bias_aware(shown, pool.design, Prior()).parameters
    recall = metrics.top_k_recall(naive, pool.quality, 5)
    corrected, large = (metrics.top_k_recall(aware.theta, pool.quality, k) for k in (5, 10))
    verbosity = jnp.corrcoef(naive, pool.design.covariates[:, 0])[0, 1]
    numbers = corrected, corrected - recall, large, verbosity
    return {"values": jnp.stack([aware.c[0], aware.kappa, recall, *numbers]), "steps": steps}


def simulated(
    judge_twins: list[twins.Twin], pool_ids: range, seed: int
) -> tuple[np.ndarray, list[CalibrationError]]:
    """Targets and numbers [3, C, 7, P] of twins as they are and displaced up and down, and the
    error of each calibration."""
    conditions, count = twins.conditions(judge_twins * 3), len(judge_twins)
    conditions["displaced"] = np.repeat([0.0, *twins.DISPLACED], count)
    results = simulate(experiment, conditions, pool_ids, seed=seed)
    values, steps = (
        np.moveaxis(results[name], 0, -1).reshape(3, count, -1, len(pool_ids))
        for name in ("values", "steps")
    )
    published = twins.known()[judge_twins[0].name]
    ways = zip(*values[:, :, :3], steps[1], strict=True)
    return values, [CalibrationError.of(published, *way) for way in ways]


def quadratic(z: np.ndarray) -> np.ndarray:
    """[..., 10] terms of a quadratic in [..., 3] parameters: constant, linear, then the others."""
    i, j = np.triu_indices(3)
    return np.concatenate([np.ones_like(z[..., :1]), z, z[..., i] * z[..., j]], -1)


def fitted(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Coefficients [terms, ...] of values [C, ...] by least squares."""
    flat = np.linalg.lstsq(terms, values.reshape(len(values), -1), rcond=None)[0]
    return flat.reshape(-1, *values.shape[1:])


@claim(
    "`consistent` in `sweeps.judges`",
    grid(name=["llama", "deepseek_chat", "gemini", "claude_haiku"]),
)
def consistent(rng, studies, name):
    """Ranges of the numbers of a judge, which include the error of its twin's calibration.

    For each study of a true twin, of as many pools as the paper's, a twin is calibrated to the
    printed numbers, and another number of the same study should lie in the new twin's range. A
    surface replaces the calibration: means of targets and numbers at twins around the true one are
    quadratics of the parameters, their slopes linear. The range is then made as in `sweeps.judges`,
    at the nearest of these twins.
    """
    seed = int(rng.integers(2**31))
    twin, n = twins.twin(name), twins.known()[name].pools
    values, (true,) = simulated([twin], range(TRUE_POOLS), seed)
    root = np.linalg.cholesky(true.covariance())  # of the parameters' error, in steps
    z = np.concatenate([np.zeros((1, 3)), SPREAD * rng.normal(size=(AROUND - 1, 3))])
    size = np.abs(true.steps).mean(-1)
    at = np.array([getattr(twin, p) for p in twins.PARAMETERS]) + (z @ root.T) * size
    at[:, 0] = np.maximum(at[:, 0], 0.05 * twin.discrimination)
    around = [replace(twin, **dict(zip(twins.PARAMETERS, row, strict=True))) for row in at.tolist()]
    near, errors = simulated(around, range(TRUE_POOLS, TRUE_POOLS + POOLS), seed)
    z = np.linalg.solve(root, ((at - at[0]) / size).T).T
    terms = quadratic(z)
    surface = fitted(terms, near[0].mean(-1))
    # All twins share pools that differ from the true one's: shift the surface to its own mean.
    surface[0] += values[0, 0].mean(-1) - surface[0]
    # 160 pools estimate slopes less well than the sweep's 1,024: linear in the parameters.
    ways = zip(near[1], near[2], errors, strict=True)
    slopes = np.stack([twins.slopes(up, down, error.steps) for up, down, error in ways])
    slopes = np.tensordot(terms[:, :4], fitted(terms[:, :4], slopes), 1)

    drawn = rng.integers(0, TRUE_POOLS, (studies, n))
    printed = np.round(values[0, 0][:, drawn].mean(-1).T, 2)
    again, step = np.zeros((studies, 3)), 1e-3
    for _ in range(8):  # Gauss-Newton on the surface of the targets
        here = quadratic(again) @ surface[:, :3]
        there = quadratic(again[:, None] + step * np.eye(3)) @ surface[:, :3]
        slope = (there - here[:, None]) / step
        damped = slope @ slope.swapaxes(1, 2) + 1e-9 * np.eye(3)
        move = np.linalg.solve(damped, slope @ (printed[:, :3] - here)[..., None])[..., 0]
        again = np.clip(again + np.clip(move, -1, 1), -4, 4)
    nearest = ((again[:, None] - z) ** 2).sum(-1).argmin(1)
    centres = quadratic(again) @ surface
    for m, (number, (words, within)) in enumerate(NUMBERS.items(), start=3):
        ranges = np.empty((AROUND, 2))
        for g, error in enumerate(errors):
            error = replace(error, slopes=slopes[g, :3])
            weights = error.weights_of(slopes[g, m])
            pools = error.carried(near[0, g, m], weights)
            means = stats.bootstrap_means(pools, seed=seed, size=n, resamples=stats.REPLICATES)
            blur = rng.normal(0, CalibrationError.blur(weights), len(means))
            ranges[g] = np.array(stats.percentiles(means + blur)) - pools.mean()
        ends = np.clip(centres[:, m] + ranges[nearest].T, *within)
        miss = BENT if n < 10 or number == "verbosity" else ""
        # The number is printed with two digits.
        ends += np.array([[-HALF_DIGIT], [HALF_DIGIT]])
        yield cell(f"replicates of the {words}", ends, printed[:, m], miss=miss)
