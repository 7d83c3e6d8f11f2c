"""Plans how precisely a design of comparisons would identify a bias coefficient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jbt import identifiability
from jbt.kernel import model
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import (
    Comparisons,
    Judge,
    Parameters,
    Pool,
    check_count,
    check_positive,
)

Z = NormalDist().inv_cdf(0.975)
"""Half-width of a 95 % interval, in standard errors."""


def expected_half_width(
    pool: Pool, judge: Judge, shown: Float[Array, "N N"], *, level: float = 0.95
) -> Float[Array, ""]:
    """Half-width of the interval for c from these comparisons, by the Fisher information at the
    truth: no verdict is drawn and nothing is fitted. float64, D = 1.

    Args:
      shown: [N, N] how often each ordered pair would be shown; may be a fraction.
      level: coverage of the interval.

    Returns:
      Logits per unit of the covariate; infinite where the comparisons do not identify c.
    """
    truth = Parameters(
        judge.discrimination * pool.quality,
        jnp.asarray(judge.bias),
        jnp.asarray(judge.position, shown.dtype),
    )
    comparisons = Comparisons(shown, shown * judges.verdict_probability(pool, judge))
    information = identifiability.efficient_information(truth, comparisons, pool.design)
    design = pool.design.centred()
    even = model.score_and_information(Parameters.zeros(design), design, comparisons)[1]
    index = pool.design.n_contents
    identified = information > identifiability.FLAT * even[index, index]
    z = NormalDist().inv_cdf((1 + level) / 2)
    return jnp.where(identified, z / jnp.sqrt(jnp.where(identified, information, 1)), jnp.inf)


@dataclass(frozen=True)
class PairingPlan:
    """How precisely c would be known, for each number of contents rendered twice."""

    n_twice: np.ndarray
    """[T] contents rendered twice, increasing."""
    half_width: Mapping[str, np.ndarray]
    """Choice of comparisons -> [T] mean half-width over pools, logits per unit of the covariate;
    infinite where c is not identified in some pool."""
    low: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    """Likewise, the ends of the central 90 % of pools."""
    verdicts: Mapping[str, np.ndarray]
    """Likewise, verdicts spent: below the budget where the limit of repeats binds."""

    def smallest(self, comparisons: str, half_width: float) -> int | None:
        """The smallest n_twice whose mean half-width is at most `half_width`; None if there is
        none."""
        enough = np.flatnonzero(self.half_width[comparisons] <= half_width)
        return int(self.n_twice[enough[0]]) if len(enough) else None


def pairing(
    n_contents: int,
    budget: int,
    *,
    n_twice: Sequence[int] | None = None,
    max_repeats: float = 1.0,
    bias: float = 1.0,
    position: float = 0.0,
    discrimination: float = 1.0,
    sd: float = 1.2,
    rho: float = 0.0,
    spread: float = 1.0,
    offset: float = 1.0,
    pools_simulated: int = 128,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> PairingPlan:
    """How precisely a budget of verdicts would identify c, by the number of contents rendered twice
    and the choice of comparisons.

    Args:
      n_contents: M.
      budget: verdicts.
      n_twice: numbers of contents rendered twice, 1..M, increasing; default all of them.
      max_repeats: how often an ordered pair may be shown; the second answer of a judge that repeats
        itself carries no information.
      bias, position, discrimination: the judge expected.
      sd, rho, spread, offset: the pools expected, as in `pools.paired`.
      pools_simulated: pools to average over.
      seed: seed of the pools.
      progress: see `simulate`.

    Raises:
      ValueError: an argument out of range.
    """
    check_count("n_contents", n_contents, least=2)
    check_count("pools", pools_simulated)
    numbers = np.arange(1, n_contents + 1) if n_twice is None else np.asarray(n_twice, int)
    if not numbers.size or (np.diff(np.r_[0, numbers, n_contents + 1]) <= 0).any():
        raise ValueError(f"n_twice must increase within 1..{n_contents}, got {numbers.tolist()}")
    for name, value in (("budget", budget), ("sd", sd)):
        check_positive(name, value)
    if not max_repeats >= 1:  # also refuses NaN
        raise ValueError(f"max_repeats must be at least 1, got {max_repeats}")
    check_positive("discrimination", discrimination)
    for name, value in (("bias", bias), ("position", position)):
        if not np.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value}")
    pools.check_rho(rho, "continuous")
    pools.check_renderings(spread, offset)
    names = list(pairs.WITHIN_SHARE)

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = pools.paired(
            stream(key, "pool"),
            n_contents,
            n_twice=condition["n_twice"],
            sd=sd,
            rho=rho,
            spread=spread,
            offset=offset,
        )
        judge = Judge(jnp.full(1, bias), position, discrimination)
        shown = pairs.expected(pool, budget, condition["share"], max_repeats)
        return {"half_width": expected_half_width(pool, judge, shown), "verdicts": shown.sum()}

    conditions = {
        "n_twice": np.tile(numbers, len(names)),
        "share": np.repeat([*pairs.WITHIN_SHARE.values()], len(numbers)),
    }
    ids = range(pools_simulated)
    out = simulate(experiment, conditions, ids, seed=seed, dtype="float64", progress=progress)
    half_width = out["half_width"].reshape(pools_simulated, len(names), -1)
    verdicts = out["verdicts"].reshape(pools_simulated, len(names), -1).mean(0)
    low, high = np.quantile(half_width, [0.05, 0.95], axis=0, method="nearest")

    def by_name(values: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(names, values, strict=True))

    return PairingPlan(
        numbers, by_name(half_width.mean(0)), by_name(low), by_name(high), by_name(verdicts)
    )
