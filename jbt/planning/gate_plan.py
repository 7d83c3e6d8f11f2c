"""Plans the number of trusted labels for the decision to switch a correction on: `jbt plan gate`.

A rate is the share of label sets on which the correction is enabled, averaged over the simulated
pools of a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Key

from jbt import gate, stats
from jbt.border.report import percent
from jbt.experiments.declare import check_increasing, check_listed
from jbt.gate import LABELS
from jbt.planning.plan import JudgedPlan, lasting
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import check_count

CLASSES = {
    "helped": "the pools that it helps",
    "recall_harmed": "those whose recall it does not raise",
    "agreement_harmed": "those where it is right on at most half of the disputed pairs",
}
"""Class of pools -> what it is called. The last overlaps with both others."""

ROUND = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)
"""Numbers of labels tried by default."""

RISE = 1e-6
"""Least difference that counts as higher recall; rounding is smaller."""


@dataclass(frozen=True, kw_only=True)
class GatePlan(JudgedPlan):
    """Say how many trusted labels, and of which kind, it takes to switch a correction
    on where it helps, with a bound on how often it is switched on where it harms.

    The exact one-sided sign test on discordant labels, by which `jbt gate --rule
    sign` decides, is tried on simulated pools."""

    NAME: ClassVar[str] = "gate"
    COUNT: ClassVar[str] = "n_labels"

    alpha: float = 0.05
    """Level of the sign test, which bounds how often it wrongly enables the correction."""
    power: float = 0.8
    """Share of the pools that the correction helps in which it should be enabled, by the lower end
    of the 95 % interval."""
    labels: tuple[str, ...] = LABELS
    """Kinds of labels to show. pairs: which answer of any pair is better. disputed: the same for
    pairs that the naive and the bias-aware ranking order differently. swaps: the same for disputed
    pairs of two contents that are each in one top k only. members: whether such a content is one
    of the truly best k."""
    n_labels: tuple[int, ...] = ()
    """Numbers of labels to try, increasing; for members, draws of two contents with replacement. By
    default some numbers up to all pairs, 480 at most."""
    noise: float = 0.0
    """Chance that a label is wrong; the same wrong label is seen wherever it is used."""
    pools: int = 1024
    """Number of pools simulated."""
    sets: int = 20
    """Number of label sets drawn in each pool."""

    @property
    def n_pairs(self) -> int:
        return self.n_items * (self.n_items - 1) // 2

    @property
    def numbers(self) -> list[int]:
        """[K] labels tried; for members, draws of two."""
        last = [self.n_pairs] if self.n_pairs <= ROUND[-1] else []
        return list(self.n_labels) or [n for n in ROUND if n < self.n_pairs] + last

    def check(self) -> None:
        super().check()
        if not 0 < self.power < 1:
            raise ValueError(f"power must lie between 0 and 1, got {self.power:g}")
        check_listed("labels", self.labels, LABELS)
        check_count("sets", self.sets)
        gate.check_alpha(self.alpha)
        check_increasing("n_labels", self.numbers, least=1, most=self.n_pairs)
        if not 0 <= self.noise < 0.5:
            raise ValueError(f"noise must lie in [0, 0.5), got {self.noise:g}")

    def run(self, progress: Callable[[int], Any] | None = None) -> dict[str, Any]:
        """How often the sign test (`gate.sign`) would switch the correction on, in simulated pools
        that it helps and in those that it harms, by the number and kind of trusted labels
        (`gate.LABELS`). The judge judges every ordered pair once.

        Args:
          progress: see `simulate`.

        Returns:
          n_labels [K]; recall_naive and recall_bias_aware, the mean top-k recall; pool_classes, the
          share of each of `CLASSES`; labels: for each kind the smallest_n_labels from which on the
          rate in pools that the correction helps is at least `power` by the lower end of its
          interval, or None, labels_used, [K] labels bought, the mean over all pools: fewer than
          n_labels where a pool has no more, or a content is drawn again, and enable_rate, for each
          class; census: likewise with all members labelled. Shares and rates: estimate, ci_low and
          ci_high, a 95 % interval with the pool as the unit; NaN where no pool is of the class.

        Raises:
          ValueError: an option out of range.
        """
        self.check()
        rules = gate.Rules(tuple(self.numbers), (self.alpha,), sets=self.sets)
        sign_rule = rules.names.index(("sign", self.alpha))

        def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
            _, rankings = self.judged(key, condition["rho"])
            noise = gate.Noise(stored=self.noise)
            result = gate.trial(stream(key, "labels"), rankings, rules, noise)
            return {
                "rate": result.enable_rate[:, sign_rule],
                "used": result.labels_used[:, sign_rule],
                "census_rate": result.census_rate,
                "census_used": result.census_used,
                "naive": result.naive_recall,
                "bias_aware": result.bias_aware_recall,
                "agreement_harmed": result.right <= result.wrong,
            }

        ids, conditions = range(self.pools), {"rho": [self.rho]}
        # Fewer run in less time than optimising their program takes.
        options = {"seed": self.seed, "optimise": self.pools > 256}
        out = simulate(experiment, conditions, ids, progress=progress, **options)
        out = {name: values[:, 0] for name, values in out.items()}
        helped = out["bias_aware"] > out["naive"] + RISE
        classes = dict(zip(CLASSES, (helped, ~helped, out["agreement_harmed"]), strict=True))

        def interval(values: np.ndarray) -> dict[str, Any]:
            return dict(zip(("estimate", "ci_low", "ci_high"), over_pools(values), strict=True))

        def outcome(rate: np.ndarray, used: np.ndarray) -> dict[str, Any]:
            rates = {name: interval(rate[pools]) for name, pools in classes.items()}
            return {"labels_used": used.mean(0, dtype=float), "enable_rate": rates}

        labels = {}
        for kind in self.labels:
            i = LABELS.index(kind)
            labels[kind] = self.with_smallest(outcome(out["rate"][:, i], out["used"][:, i]))
        return {
            "n_labels": self.numbers,
            "recall_naive": out["naive"].mean(),
            "recall_bias_aware": out["bias_aware"].mean(),
            "pool_classes": {name: interval(pools) for name, pools in classes.items()},
            "labels": labels,
            "census": outcome(out["census_rate"], out["census_used"]),
        }

    def enough(self, columns: Mapping[str, Any]) -> int | None:
        return lasting(columns["enable_rate"]["helped"]["ci_low"] >= self.power)

    def parts(self, plan: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
        share = {name: _percent(v) for name, v in plan["pool_classes"].items()}
        yield (
            "Fewest labels, of the numbers tried, with which the lower end of the interval reaches "
            f"{100 * self.power:g} % of the pools that the correction helps",
            "Share of the helped pools in which the sign test at alpha = "
            f"{self.alpha:g} enables the correction. Mean recall of the top {self.k} in "
            f"{self.pools} simulated pools is {plan['recall_naive']:.3f} without and "
            f"{plan['recall_bias_aware']:.3f} with correction. The correction raises recall in "
            f"{share['helped']} of them and does not in {share['recall_harmed']}. It is right on "
            "at most half of the disputed pairs, which the two rankings order differently, in "
            f"{share['agreement_harmed']}",
            plan["labels"],
        )

    def answer(self, columns: Mapping[str, Any], t: int | None) -> str:
        number = "never" if t is None else f"{self.numbers[t]} labels"
        return f"{number}; {self._enabled(columns, -1 if t is None else t)}"

    def _enabled(self, columns: Mapping[str, Any], t: Any) -> str:
        rates = (f"{_percent(v, t)} of {CLASSES[k]}" for k, v in columns["enable_rate"].items())
        used = f"{columns['labels_used'][t]:.1f} used per pool on average"
        return f"{used}; they enable the correction in {', '.join(rates)}"

    def cell(self, columns: Mapping[str, Any], t: int) -> str:
        return _percent(columns["enable_rate"]["helped"], t)

    def notes(self, plan: Mapping[str, Any]) -> Sequence[str]:
        wrong = "; not if some labels of members are wrong, because a label may be used again"
        return (
            "members are drawn in twos, with replacement. A census labels all members instead and "
            "enables the correction if recall then rises: "
            f"{self._enabled(plan['census'], ())}",
            "never: even the largest number tried is too small; where fewer labels are used than "
            "asked for, the pool has no more",
            "where the correction does not raise recall, alpha bounds how often sign enables it by "
            "labels of members; where it is right on at most half of the disputed pairs, by labels "
            "of pairs or disputed pairs" + wrong * (self.noise > 0),
        )


main = GatePlan.main


def _percent(interval: Mapping[str, Any], i: Any = ()) -> str:
    return percent(*(v[i] for v in interval.values()), digits=1) or "none"


def over_pools(values: np.ndarray) -> np.ndarray:
    """Mean over pools with its 95 % interval, [3] or [3, K]: `stats.bounded_interval` (none for
    fewer than five pools), or exact (Clopper and Pearson) where all values are zeros and ones.

    Args:
      values: [P] or [P, K] a share for each pool; without pools the result is NaN.
    """
    if not len(values):
        return np.full((3, *values.shape[1:]), np.nan)
    values = np.round(values.T.astype(np.float64), 6)  # a mean of ones is 1
    bounded = np.stack(stats.bounded_interval(values))
    exact = np.stack(stats.share_interval(np.round(values)))
    return np.where(np.isin(values, [0, 1]).all(-1), exact, bounded)
