"""The search for twins of all judges at once, on the same pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Key

from jbt.simulation.judges import Published
from jbt.simulation.simulate import Condition, Experiment, Simulation, stream
from jbt.twins.simulated import (
    PERFECT,
    TOLERANCE,
    Draw,
    Twin,
    answers,
    numbers,
    paper_pool,
    unit,
)
from jbt.types import Prior

LEAST, MOST = 1e-3, 50.0
"""Range of discriminations tried, in units of the pair noise or in logits a statement."""
STARTS = (0.05, 0.2, 0.6, 2.0)
DAMPING = (0.01, 0.3, 3.0, 30.0)
"""Dampings of the steps tried at once: from nearly Gauss-Newton to short steps downhill."""


def calibrate(
    targets: Sequence[Published],
    *,
    oracle: str | None = None,
    others: str = "uniform",
    n_pools: int = 512,
    rounds: int = 10,
) -> list[Twin]:
    """Twins of several judges, all searched for at once on the same pools.

    The search takes Levenberg-Marquardt steps on the three residuals in units of `TOLERANCE`, with
    derivatives by differences on common draws. Each round tries four dampings and keeps the best.

    Args:
      targets: the published judges; their c_hat, kappa_hat and naive_recall are the targets.
      oracle: one of `ORACLES`, default each judge's own.
      others: that of the paper's pools.
      n_pools: pools in each mean; the standard error of a recall is about 0.15 / sqrt(n_pools).
      rounds: rounds of the search.

    Returns:
      The nearest twin found for each target; `misses` lists the targets it does not meet.
    """
    argmax = np.array([(oracle or target.oracle) == "argmax" for target in targets])
    aims = np.array([aim_of(target) for target in targets])
    widths = np.array(list(TOLERANCE.values()))
    draw = paper_pool(others)
    fixed = {"argmax": argmax * 1.0, "pair_noise": argmax * 1.0}
    fixed = {name: np.repeat(np.asarray(v, float), len(STARTS)) for name, v in fixed.items()}

    def conditions(points: np.ndarray) -> dict[str, np.ndarray]:
        flat = points.reshape(-1, 3)
        moved = {"discrimination": np.exp(flat[:, 0]), "bias": flat[:, 1], "position": flat[:, 2]}
        return moved | fixed

    def means(points: np.ndarray) -> np.ndarray:
        """[J, 4, 3] log discrimination, bias, position -> [J, 4, 4] means of `OBSERVED`."""
        chunks = [out for _, out in simulation.under(conditions(points)).chunks()]
        return np.stack(
            [np.concatenate([c[name] for c in chunks]).mean(0) for name in OBSERVED], axis=-1
        ).reshape(*points.shape[:2], len(OBSERVED))

    def cost(results: np.ndarray) -> np.ndarray:
        return (((results[..., :3] - aims[:, None]) / widths) ** 2).sum(-1)

    index = np.arange(len(targets))
    trials = np.empty((len(targets), len(STARTS), 3))
    trials[..., 0] = np.log(STARTS)
    # A probit's coefficients are some 0.6 of a logit's.
    trials[..., 1:] = (aims[:, :2] * np.where(argmax, 0.6, 1.0)[:, None])[:, None]
    simulation = Simulation(_observed(draw), conditions(trials), range(n_pools))
    results = means(trials)
    nearest = np.abs(results[..., 2] - aims[:, 2:]).argmin(1)
    point, best = trials[index, nearest], results[index, nearest]
    for _ in range(rounds):
        scale = 0.15 + 0.1 * np.abs(point[:, 1:].T)
        step = np.stack([np.full(len(point), 0.15), *scale], axis=-1)
        around = np.repeat(point[:, None], 4, axis=1)
        around[:, 1:] += step[:, :, None] * np.eye(3)
        slopes = means(around)[..., :3]
        slopes = (slopes[:, 1:] - slopes[:, :1]) / widths / step[:, :, None]
        trials = point[:, None] + _steps(slopes, (best[:, :3] - aims) / widths, point)
        trials[..., 0] = trials[..., 0].clip(math.log(LEAST), math.log(MOST))
        results = means(trials)
        winner = cost(results).argmin(1)
        better = cost(results)[index, winner] < cost(best[:, None])[:, 0]
        point = np.where(better[:, None], trials[index, winner], point)
        best = np.where(better[:, None], results[index, winner], best)
    coefficients = {
        "discrimination": np.exp(point[:, 0]),
        "bias": point[:, 1],
        "position": point[:, 2],
        "pair_noise": argmax * 1.0,
    }
    units = np.where(argmax, unit(coefficients, others), 1.0)
    scaled = {name: (units * values).tolist() for name, values in coefficients.items()}
    return [
        Twin(
            name=target.name,
            oracle="argmax" if argmax[j] else "draws",
            others=others,
            **{name: values[j] for name, values in scaled.items()},
            **dict(zip(OBSERVED, best[j].tolist(), strict=True)),
        )
        for j, target in enumerate(targets)
    ]


OBSERVED = ("c_hat", "kappa_hat", "naive_recall", "bias_aware_recall")


def aim_of(target: Published) -> tuple[float, float, float]:
    """The calibration targets: c_hat, kappa_hat, and a naive recall that can be met."""
    return target.c_hat, target.kappa_hat, min(target.naive_recall, PERFECT)


def _observed(draw: Draw) -> Experiment:
    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        found = numbers(answers(key, pool, condition), pool, 5, Prior())
        return {name: found[name] for name in OBSERVED}

    return experiment


def _steps(slopes: np.ndarray, residuals: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The step of every damping, [J, 4, 3], cut where the differences would no longer be valid.

    Args:
      slopes: [J, 3 parameters, 3 residuals].
      residuals: [J, 3].
      point: [J, 3] current parameters.
    """
    square = slopes @ slopes.swapaxes(-1, -2)
    gradient = (slopes @ residuals[..., None])[..., 0]
    diagonal = np.eye(3) * np.diagonal(square, axis1=-2, axis2=-1)[..., None, :]
    damped = [square + d * diagonal + 1e-6 * np.eye(3) for d in DAMPING]
    steps = -np.linalg.solve(np.stack(damped, axis=1), gradient[:, None, :, None])[..., 0]
    longest = np.stack(
        [
            np.full(len(point), 0.7),
            np.maximum(1.0, 0.5 * np.abs(point[:, 1])),
            np.maximum(0.7, 0.5 * np.abs(point[:, 2])),
        ],
        axis=-1,
    )
    return np.clip(steps, -longest[:, None], longest[:, None])
