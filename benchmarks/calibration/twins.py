"""Coverage of `consistent` with twins: for each study of a true twin, a twin is calibrated to the
printed numbers, and another number of the same study should lie in the new twin's range.

A surface replaces the calibration: means of targets and numbers at twins around the true one are
quadratics of the parameters, their slopes linear. The range is then made as in `sweeps.judges`, at
the nearest of these twins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from benchmarks.calibration import Cell
from jbt import estimators, stats, twins
from jbt.kernel import metrics
from jbt.simulation import judges, pairs
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.twins import CalibrationError
from jbt.types import Prior

JUDGES = ("llama", "deepseek_chat", "gemini", "claude_haiku")
NUMBERS = {
    "bias_aware": "recall of the bias-aware model",
    "gain": "gain over the naive model",
    "bias_aware_10": "recall at k = 10",
    "verbosity": "correlation of naive estimates with verbosity",
}
WITHIN = {"gain": (-1.0, 1.0), "verbosity": (-1.0, 1.0)}
AROUND, POOLS, TRUE_POOLS = 40, 160, 2048
"""Twins around the true one, pools of each, and pools that studies are drawn from."""
SPREAD = 1.3
"""Standard deviation of the twins around, in standard errors of the calibration."""
HALF_DIGIT = 0.005
BENT = (
    "slopes are first order: the range is printed, and `no` is too frequent where few pools leave "
    "the twin uncertain, or a target is near its maximum (docs/findings/judges.md)"
)
"""Note of cells with fewer than ten pools, and of the correlation, which rests on the
calibration."""


def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
    """A twin's targets and numbers in one pool."""
    condition, steps = twins.displaced(key, condition)
    pool = twins.paper_pool()(stream(key, "pool"), condition)
    verdicts = twins.answers(key, pool, condition)
    shown = judges.reveal(verdicts, pairs.every_pair(pool))
    naive = estimators.naive(shown, pool.design, Prior()).parameters.theta
    aware = estimators.bias_aware(shown, pool.design, Prior()).parameters
    x = pool.design.covariates[:, 0]
    recall = [metrics.top_k_recall(theta, pool.quality, 5) for theta in (naive, aware.theta)]
    numbers = {
        "bias_aware": recall[1],
        "gain": recall[1] - recall[0],
        "bias_aware_10": metrics.top_k_recall(aware.theta, pool.quality, 10),
        "verbosity": jnp.corrcoef(naive, x)[0, 1],
    }
    targets = jnp.stack([aware.c[0], aware.kappa, recall[0]])
    return {"targets": targets, "steps": steps, "numbers": jnp.stack([numbers[n] for n in NUMBERS])}


def errors_of(
    judge_twins: list[twins.Twin], pool_ids: np.ndarray, seed: int
) -> tuple[np.ndarray, list[CalibrationError]]:
    """Numbers [3, C, 4, P] of twins as they are and displaced up and down, and the error of each
    calibration."""
    conditions, count = twins.conditions(judge_twins * 3), len(judge_twins)
    conditions["displaced"] = np.repeat([0.0, *twins.DISPLACED], count)
    results = simulate(experiment, conditions, pool_ids, seed=seed)
    targets, steps, numbers = (
        np.moveaxis(results[name], 0, -1).reshape(3, count, -1, len(pool_ids))
        for name in ("targets", "steps", "numbers")
    )
    published = twins.known()[judge_twins[0].name]
    ways = zip(targets[0], targets[1], targets[2], steps[1], strict=True)
    errors = [CalibrationError.of(published, *way) for way in ways]
    return numbers, errors


def coefficients(z: np.ndarray) -> np.ndarray:
    """[..., 10] terms of a quadratic in [..., 3] parameters."""
    i, j = np.triu_indices(3)
    return np.concatenate([np.ones_like(z[..., :1]), z, z[..., i] * z[..., j]], -1)


def judge_cells(
    name: str, studies: int, seed: int
) -> Iterator[tuple[str, int, int, np.ndarray, int]]:
    """For each number of a judge: its name, pools of a study, studies covered, widths, and studies
    covered by ranges that take the twin as known."""
    rng = np.random.default_rng([seed, len(name)])
    twin, n = twins.twin(name), twins.known()[name].pools
    numbers, (true,) = errors_of([twin], np.arange(TRUE_POOLS), seed)
    root = np.linalg.cholesky(true.covariance())  # of the parameters' error, in steps
    z = np.concatenate([np.zeros((1, 3)), SPREAD * rng.normal(size=(AROUND - 1, 3))])
    size = np.abs(true.steps).mean(-1)
    at = np.array([getattr(twin, p) for p in twins.PARAMETERS]) + (z @ root.T) * size
    at[:, 0] = np.maximum(at[:, 0], 0.05 * twin.discrimination)
    around = [
        dataclasses.replace(twin, **dict(zip(twins.PARAMETERS, map(float, row), strict=True)))
        for row in at
    ]
    ids = TRUE_POOLS + np.arange(POOLS)
    near, errors = errors_of(around, ids, seed)
    z = np.linalg.solve(root, ((at - at[0]) / size).T).T
    terms = coefficients(z)
    surface = np.linalg.lstsq(terms, np.stack([e.targets.mean(-1) for e in errors]), rcond=None)[0]
    # All twins share pools that differ from the true one's: shift the surface to its own mean.
    surface[0] += true.targets.mean(-1) - surface[0]
    of_numbers = np.linalg.lstsq(terms, near[0].mean(-1), rcond=None)[0]
    of_numbers[0] += numbers[0, 0].mean(-1) - of_numbers[0]

    drawn = rng.integers(0, TRUE_POOLS, (studies, n))
    printed = np.round(true.targets[:, drawn].mean(-1).T, 2)
    again = np.zeros((studies, 3))
    for _ in range(8):  # Gauss-Newton on the surface
        step = 1e-3 * np.eye(3)
        here = coefficients(again) @ surface
        slope = (coefficients(again[:, None] + step) @ surface - here[:, None]) / 1e-3
        damped = slope @ slope.swapaxes(1, 2) + 1e-9 * np.eye(3)
        move = np.linalg.solve(damped, (slope @ (printed - here)[..., None]))[..., 0]
        again = np.clip(again + np.clip(move, -1, 1), -4, 4)
    nearest = ((again[:, None] - z) ** 2).sum(-1).argmin(1)
    linear = terms[:, :4]
    of_targets = _smooth(np.stack([error.slopes for error in errors]), linear)
    errors = [
        dataclasses.replace(e, slopes=slopes) for e, slopes in zip(errors, of_targets, strict=True)
    ]
    for m, number in enumerate(NUMBERS):
        displaced = zip(near[1], near[2], errors, strict=True)
        moves = [twins.slopes(up[m], down[m], e.steps) for up, down, e in displaced]
        moves = _smooth(np.stack(moves), linear)
        printed_numbers = np.round(numbers[0, 0, m][drawn].mean(-1), 2)
        covered, widths = [], []
        for carry in (1.0, 0.0):
            low, high = np.empty((2, AROUND))
            for g, error in enumerate(errors):
                weights = error.weights_of(moves[g]) * carry
                pools = error.carried(near[0, g, m], weights)
                means = stats.bootstrap_means(pools, seed=seed, size=n, resamples=stats.REPLICATES)
                blur = rng.normal(0, CalibrationError.blur(weights), len(means))
                low[g], high[g] = np.array(stats.percentiles(means + blur)) - pools.mean()
            centre = coefficients(again) @ of_numbers[:, m]
            ends = np.array([centre + low[nearest], centre + high[nearest]])
            ends = np.clip(ends, *WITHIN.get(number, (0, 1)))
            inside = printed_numbers >= ends[0] - HALF_DIGIT
            inside &= printed_numbers <= ends[1] + HALF_DIGIT
            covered.append(int(inside.sum()))
            widths.append(ends[1] - ends[0])
        yield number, n, covered[0], widths[0], covered[1]


def _smooth(values: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Values [G, ...] as linear functions of the parameters, whose terms are [G, 4]: 160 pools
    estimate them less well than the sweep's 1,024."""
    flat = values.reshape(len(values), -1)
    return (linear @ np.linalg.lstsq(linear, flat, rcond=None)[0]).reshape(values.shape)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    for name in JUDGES:
        for number, n, covered, widths, _ in judge_cells(name, studies, seed):
            yield Cell(
                f"replicates of the {NUMBERS[number]} (`consistent`, sweeps.judges)",
                f"true twin of {name}, {n} pools",
                studies,
                studies,
                covered,
                median_width=float(np.median(widths)),
                note=BENT if n < 10 or number == "verbosity" else "",
                may_miss=n < 10 or number == "verbosity",
            )
