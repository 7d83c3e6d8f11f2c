"""Searching for twins: all judges at once, on the same pools."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Key

from jbt import estimators
from jbt.kernel import metrics
from jbt.simulation import judges, pairs
from jbt.simulation.judges import Published
from jbt.simulation.simulate import Condition, Experiment, Simulation, simulate, stream
from jbt.twins.twin import (
    DOUBT,
    ORACLES,
    PERFECT,
    TOLERANCE,
    UNCERTAIN,
    Draw,
    Twin,
    answers,
    paper_pool,
)
from jbt.types import Prior

LEAST, MOST = 1e-3, 50.0
"""Discriminations that are tried, in units of the pair noise or in logits a statement."""
STARTS = (0.05, 0.2, 0.6, 2.0)
DAMPING = (0.01, 0.3, 3.0, 30.0)
"""Of the steps that are tried at once: near Gauss-Newton's to short ones down the slope."""


def calibrate(
    targets: Sequence[Published],
    *,
    oracle: str | None = None,
    others: str = "uniform",
    draw: Draw | None = None,
    also: Mapping[str, Any] | None = None,
    k: int = 5,
    prior: Prior | None = None,
    n_pools: int = 512,
    rounds: int = 10,
    seed: int = 0,
) -> list[Twin]:
    """Twins of some judges, all searched for at once on the same pools.

    Levenberg and Marquardt's steps on the three residuals in units of `TOLERANCE`, derivatives by
    differences on common draws, each round trying the steps of four dampings and keeping the best.

    Args:
      targets: what is to be met; their c_hat, kappa_hat and naive_recall are looked at.
      oracle: one of `ORACLES`, default each judge's own.
      others: of the paper's pools, and told to the twins; not looked at if `draw` is given.
      draw: (key, condition) -> Pool, default the paper's pools.
      also: name -> a number a target, further conditions for `draw`.
      k: size of the top set.
      prior: of the fits, default the paper's.
      n_pools: pools a mean is over; the standard error of a recall is about 0.15 / sqrt(n_pools).
      rounds: of the search.
      seed: root of the draws.

    Returns:
      A twin for each target, the nearest that was found: look at its `misses`.

    Raises:
      ValueError: no target, one that is no judge's, an unknown oracle, wrong counts.
    """
    if not targets:
        raise ValueError("nothing to calibrate: no target")
    if oracle is not None and oracle not in ORACLES:
        raise ValueError(f"unknown oracle {oracle!r}: one of {', '.join(ORACLES)}")
    if n_pools < 1 or rounds < 1:
        raise ValueError(f"n_pools and rounds must be at least 1, got {n_pools} and {rounds}")
    for target in targets:
        _check_target(target)
    argmax = np.array([(oracle or target.oracle) == "argmax" for target in targets])
    aims = np.array([aim_of(target) for target in targets])
    widths = np.array(list(TOLERANCE.values()))
    draw, prior = draw or paper_pool(others), prior or Prior()
    fixed = {"argmax": argmax * 1.0, "pair_noise": argmax * 1.0, **(also or {})}
    fixed = {name: np.repeat(np.asarray(v, float), len(STARTS)) for name, v in fixed.items()}
    simulation: Simulation | None = None

    def means(at: np.ndarray) -> np.ndarray:
        """[J, 4, 3] log discrimination, bias, position -> [J, 4, 4] means of what is observed."""
        nonlocal simulation
        flat = at.reshape(-1, 3)
        moved = {"discrimination": np.exp(flat[:, 0]), "bias": flat[:, 1], "position": flat[:, 2]}
        if simulation is None:
            experiment = _observed(draw, k, prior)
            simulation = Simulation(experiment, moved | fixed, range(n_pools), seed=seed)
        chunks = [out for _, out in simulation.under(moved | fixed).chunks()]
        return np.stack(
            [np.concatenate([c[name] for c in chunks]).mean(0) for name in OBSERVED], axis=-1
        ).reshape(*at.shape[:2], len(OBSERVED))

    def cost(found: np.ndarray) -> np.ndarray:
        return (((found[..., :3] - aims[:, None]) / widths) ** 2).sum(-1)

    each = np.arange(len(targets))
    tried = np.empty((len(targets), len(STARTS), 3))
    tried[..., 0] = np.log(STARTS)
    # A probit's coefficients are some 0.6 of a logit's.
    tried[..., 1:] = (aims[:, :2] * np.where(argmax, 0.6, 1.0)[:, None])[:, None]
    found = means(tried)
    nearest = np.abs(found[..., 2] - aims[:, 2:]).argmin(1)
    at, best = tried[each, nearest], found[each, nearest]
    for _ in range(rounds):
        step = np.stack([np.full(len(at), 0.15), *(0.15 + 0.1 * np.abs(at[:, 1:].T))], axis=-1)
        around = np.repeat(at[:, None], 4, axis=1)
        around[:, 1:] += step[:, :, None] * np.eye(3)
        slopes = means(around)[..., :3]
        slopes = (slopes[:, 1:] - slopes[:, :1]) / widths / step[:, :, None]
        tried = at[:, None] + _steps(slopes, (best[:, :3] - aims) / widths, at)
        tried[..., 0] = tried[..., 0].clip(math.log(LEAST), math.log(MOST))
        found = means(tried)
        winner = cost(found).argmin(1)
        better = cost(found)[each, winner] < cost(best[:, None])[:, 0]
        at = np.where(better[:, None], tried[each, winner], at)
        best = np.where(better[:, None], found[each, winner], best)
    unit = np.ones(len(targets))
    if argmax.any():
        unit[argmax] = _units(at[argmax], draw, fixed, argmax, seed)
    return [
        Twin(
            name=target.name,
            oracle="argmax" if argmax[j] else "draws",
            others=others,
            discrimination=float(unit[j] * np.exp(at[j, 0])),
            bias=float(unit[j] * at[j, 1]),
            position=float(unit[j] * at[j, 2]),
            pair_noise=float(unit[j] * argmax[j]),
            **dict(zip(OBSERVED, best[j].tolist(), strict=True)),
        )
        for j, target in enumerate(targets)
    ]


OBSERVED = ("c_hat", "kappa_hat", "naive_recall", "bias_aware_recall")


def _check_target(target: Published) -> None:
    for name in ("c_hat", "kappa_hat"):
        if not math.isfinite(getattr(target, name)):
            raise ValueError(f"{target.name}: {name} must be finite, got {getattr(target, name)}")
    if not 0 <= target.naive_recall <= 1:
        raise ValueError(f"{target.name}: naive_recall must lie in 0..1, got {target.naive_recall}")
    if target.oracle not in ORACLES:
        known = ", ".join(ORACLES)
        raise ValueError(f"{target.name}: unknown oracle {target.oracle!r}: one of {known}")


def aim_of(target: Published) -> tuple[float, float, float]:
    """What a twin is calibrated to: c_hat, kappa_hat, and a naive recall that can be met."""
    return target.c_hat, target.kappa_hat, min(target.naive_recall, PERFECT)


def _observed(draw: Draw, k: int, prior: Prior) -> Experiment:
    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        verdicts = judges.reveal(answers(key, pool, condition), pairs.every_pair(pool))
        naive = estimators.naive(verdicts, pool.design, prior).parameters
        aware = estimators.bias_aware(verdicts, pool.design, prior).parameters
        return {
            "c_hat": aware.c[0],
            "kappa_hat": aware.kappa,
            "naive_recall": metrics.top_k_recall(naive.theta, pool.quality, k),
            "bias_aware_recall": metrics.top_k_recall(aware.theta, pool.quality, k),
        }

    return experiment


def _steps(slopes: np.ndarray, residuals: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The step of every damping, [J, 4, 3], none too long for the differences to mean something.

    Args:
      slopes: [J, 3 parameters, 3 residuals].
      residuals: [J, 3].
      at: [J, 3].
    """
    square = slopes @ slopes.swapaxes(-1, -2)
    down = (slopes @ residuals[..., None])[..., 0]
    diagonal = np.eye(3) * np.diagonal(square, axis1=-2, axis2=-1)[..., None, :]
    damped = [square + d * diagonal + 1e-6 * np.eye(3) for d in DAMPING]
    steps = -np.linalg.solve(np.stack(damped, axis=1), down[:, None, :, None])[..., 0]
    longest = np.stack(
        [
            np.full(len(at), 0.7),
            np.maximum(1.0, 0.5 * np.abs(at[:, 1])),
            np.maximum(0.7, 0.5 * np.abs(at[:, 2])),
        ],
        axis=-1,
    )
    return np.clip(steps, -longest[:, None], longest[:, None])


def _units(
    at: np.ndarray, draw: Draw, fixed: Mapping[str, np.ndarray], argmax: np.ndarray, seed: int
) -> np.ndarray:
    """The pair noise in logits, for each argmax judge [J]: with it the share of uncertain pairs is
    `UNCERTAIN`."""
    powers = np.linspace(-3.0, 4.0, 29)

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        own = condition["pair_noise"] * judges.pair_preference(stream(key, "pair noise"), pool)
        z = judges.verdict_logits(pool, judges.of_condition(condition), own)
        p = sigmoid(jnp.exp(jnp.asarray(powers, z.dtype))[:, None, None] * z)
        asked = pairs.every_pair(pool)
        return {"share": (asked * (p > DOUBT[0]) * (p < DOUBT[1])).sum((1, 2)) / asked.sum()}

    given = {name: values[:: len(STARTS)][argmax] for name, values in fixed.items()}
    given |= {"discrimination": np.exp(at[:, 0]), "bias": at[:, 1], "position": at[:, 2]}
    share = simulate(experiment, given, range(64), seed=seed)["share"].mean(0)  # falls from 1 to 0
    # np.interp wants what increases. Between two powers the share is all but linear in the power.
    return np.exp([np.interp(-UNCERTAIN, -each, powers) for each in share])
