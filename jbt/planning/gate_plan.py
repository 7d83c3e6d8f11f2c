"""Plans the number of trusted labels for the decision to switch a correction on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, gate, stats
from jbt.estimators.reference import Rankings
from jbt.gate import LABELS
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import Judge, Prior, check_count, check_positive

if TYPE_CHECKING:
    import pandas as pd

CLASSES = ("helped", "recall_harmed", "agreement_harmed")
"""Classes of pools: recall is higher with the correction; it is not; bias-aware is right on at most
half of the untied pairs that the rankings order differently. The last overlaps with both others."""

ROUND = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)
"""Numbers of labels tried by default."""

RISE = 1e-6
"""Least difference that counts as higher recall; rounding is smaller."""


@dataclass(frozen=True)
class GatePlan:
    """How often the sign test enables the correction, by number and kind of labels.

    A rate is the share of label sets on which the correction is enabled, averaged over the
    simulated pools of a class: [3] the rate and its 95 % interval, with the pool as the unit. NaN
    where no pool is of the class.
    """

    n_labels: np.ndarray
    """[K] labels, increasing; for members, draws of two."""
    rate: Mapping[str, Mapping[str, np.ndarray]]
    """Kind of label -> class of pools -> [3, K] share enabled."""
    labels_used: Mapping[str, np.ndarray]
    """Kind of label -> [K] labels bought, mean over all pools: fewer than n_labels where a pool has
    no more, or a content is drawn again."""
    census_rate: Mapping[str, np.ndarray]
    """Class of pools -> [3] share in which labels of all members say that recall rises."""
    census_used: float
    """Mean number of members in a pool (contents)."""
    share: Mapping[str, np.ndarray]
    """Class -> [3] share of the pools."""
    recall_naive: float
    """Mean top-k recall without the correction."""
    recall_bias_aware: float
    """Mean top-k recall with the correction."""

    def smallest(self, labels: str, power: float) -> int | None:
        """The smallest n_labels from which on the rate in pools that the correction helps is at
        least `power`, by the lower end of its interval; None if there is none."""
        low = self.rate[labels]["helped"][1]
        missed = np.flatnonzero(~(low >= power))
        first = missed[-1] + 1 if len(missed) else 0
        return int(self.n_labels[first]) if first < len(low) else None

    def to_frame(self) -> pd.DataFrame:
        """A row for each kind and number of labels: how many are bought, and the share of pools of
        each class in which the correction is enabled."""
        import pandas as pd

        frames = [
            pd.DataFrame(
                {"labels": kind, "n_labels": self.n_labels, "bought": self.labels_used[kind]}
                | {name: rates[0] for name, rates in self.rate[kind].items()}
            )
            for kind in self.rate
        ]
        return pd.concat(frames, ignore_index=True)


def gate_labels(
    n_items: int,
    k: int,
    *,
    alpha: float = 0.05,
    n_labels: Sequence[int] | None = None,
    bias: float = 1.0,
    position: float = 0.0,
    discrimination: float = 1.0,
    noise: float = 0.0,
    sd: float = 1.2,
    rho: float = 0.0,
    covariate: pools.CovariateKind = "continuous",
    lam: float = 1.0,
    lam_b: float = 0.1,
    sets: int = 20,
    pools_simulated: int = 1024,
    seed: int = 0,
    progress: Callable[[int], Any] | None = None,
) -> GatePlan:
    """How often the sign test (`gate.sign`) would switch the correction on, in simulated pools that
    it helps and in those that it harms, by the number and kind of trusted labels (`gate.LABELS`).

    Args:
      n_items, k: items of a pool and of its top set. The judge judges every ordered pair once.
      alpha: level of the test.
      n_labels: numbers of labels to try, increasing; default `ROUND` up to the number of pairs, and
        all pairs if these are not more than its last entry.
      bias, position, discrimination: the judge expected.
      noise: chance that a stored label is wrong.
      sd, rho, covariate: the pools expected, as in `pools.gaussian`.
      lam, lam_b: prior of the fits, 1/logit^2.
      sets: label sets drawn in each pool.
      pools_simulated: pools to average over.
      seed: seed of the pools and labels.
      progress: see `simulate`.

    Raises:
      ValueError: an argument out of range.
    """
    check_count("n_items", n_items, least=4)
    check_count("pools", pools_simulated, least=2)
    check_count("sets", sets)
    if not 1 <= k < n_items:
        raise ValueError(f"k must lie in 1..{n_items - 1}, got {k}")
    gate.check_alpha(alpha)
    n_pairs = n_items * (n_items - 1) // 2
    numbers = _by_default(n_pairs) if n_labels is None else np.asarray(n_labels, int)
    if not numbers.size or (np.diff(np.r_[0, numbers, n_pairs + 1]) <= 0).any():
        limits = f"within 1..{n_pairs}, the pairs of {n_items} items"
        raise ValueError(f"n_labels must increase {limits}, got {numbers.tolist()}")
    for name, value in (
        ("discrimination", discrimination),
        ("sd", sd),
        ("lam", lam),
        ("lam_b", lam_b),
    ):
        check_positive(name, value)
    for name, value in (("bias", bias), ("position", position)):
        if not np.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value}")
    if not 0 <= noise < 0.5:
        raise ValueError(f"noise must lie in [0, 0.5), got {noise:g}")
    pools.check_rho(rho, covariate)
    judge = Judge(jnp.full(1, bias), position, discrimination)
    rules = gate.Rules(tuple(numbers.tolist()), (alpha,), sets=sets)
    sign_rule = rules.names.index(("sign", alpha))

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = pools.gaussian(
            stream(key, "pool"), n_items, sd=sd, rho=condition["rho"], covariate=covariate
        )
        verdicts = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
        comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
        thetas = [
            estimate(comparisons, pool.design, Prior(lam, lam_b)).parameters.theta
            for estimate in (estimators.naive, estimators.bias_aware)
        ]
        r = Rankings(pool, thetas[0], thetas[1], k)
        result = gate.trial(stream(key, "labels"), r, rules, gate.Noise(stored=noise))
        return {
            "rate": result.enable_rate[:, sign_rule],
            "used": result.labels_used[:, sign_rule],
            "census_rate": result.census_rate,
            "census_used": result.census_used,
            "naive": result.naive_recall,
            "bias_aware": result.bias_aware_recall,
            "agreement_harmed": result.right <= result.wrong,
        }

    ids = range(pools_simulated)
    out = simulate(experiment, {"rho": [rho]}, ids, seed=seed, progress=progress)
    out = {name: values[:, 0] for name, values in out.items()}
    helped = out["bias_aware"] > out["naive"] + RISE
    classes = dict(zip(CLASSES, (helped, ~helped, out["agreement_harmed"]), strict=True))

    def rates(values: np.ndarray) -> dict[str, np.ndarray]:
        return {name: over_pools(values[pools]) for name, pools in classes.items()}

    return GatePlan(
        numbers,
        {labels: rates(out["rate"][:, i]) for i, labels in enumerate(LABELS)},
        dict(zip(LABELS, out["used"].mean(0, dtype=float), strict=True)),
        {name: v[:, 0] for name, v in rates(out["census_rate"][:, None]).items()},
        float(out["census_used"].mean()),
        {name: over_pools(v[:, None])[:, 0] for name, v in classes.items()},
        float(out["naive"].mean()),
        float(out["bias_aware"].mean()),
    )


def _by_default(n_pairs: int) -> np.ndarray:
    numbers = [n for n in ROUND if n < n_pairs]
    return np.array([*numbers, n_pairs] if n_pairs <= ROUND[-1] else ROUND)


def over_pools(values: np.ndarray) -> np.ndarray:
    """Mean over pools with its 95 % interval, [3, K]: `stats.bounded_interval` (none for fewer than
    five pools), or exact (Clopper and Pearson) where all values are zeros and ones.

    Args:
      values: [P, K] a share for each pool; without pools the result is NaN.
    """
    if not len(values):
        return np.full((3, values.shape[1]), np.nan)
    values = np.round(values.T.astype(np.float64), 6)  # a mean of ones is 1
    bounded = np.stack(stats.bounded_interval(values))
    exact = np.stack(stats.share_interval(np.round(values)))
    return np.where(np.isin(values, [0, 1]).all(1), exact, bounded)
