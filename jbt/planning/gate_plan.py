"""Plans the number of trusted labels for the decision to switch a correction on: `jbt plan gate`.

A rate is the share of label sets on which the correction is enabled, averaged over the simulated
pools of a class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Key

from jbt import gate, stats
from jbt.border.report import Report, percent
from jbt.gate import LABELS
from jbt.planning.plan import SimulatedPlan, check_judged, columns, judged, lasting, report_of
from jbt.simulation import pools
from jbt.simulation.simulate import Condition, simulate, stream
from jbt.types import check_count

CLASSES = ("helped", "recall_harmed", "agreement_harmed")
"""Classes of pools: recall is higher with the correction; it is not; bias-aware is right on at most
half of the untied pairs that the rankings order differently. The last overlaps with both others."""

ROUND = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)
"""Numbers of labels tried by default."""

RISE = 1e-6
"""Least difference that counts as higher recall; rounding is smaller."""


@dataclass(frozen=True, kw_only=True)
class GatePlan(SimulatedPlan):
    """How many trusted labels, and of which kind, does it take to switch a correction on where it
    helps, with a bound on how often that happens where it harms? The exact one-sided sign test on
    discordant labels, as `jbt gate --rule sign` decides, tried on simulated pools."""

    NAME: ClassVar[str] = "gate"

    n_items: int = 30
    """Items of a pool (count)."""
    k: int = 5
    """Size of the top set (count)."""
    bias: float = 1.0
    """Bias c* of the judge expected (logits per unit of the covariate)."""
    rho: float = 0.0
    """Correlation of quality and covariate."""
    alpha: float = 0.05
    """Level of the sign test: the bound on false enables."""
    power: float = 0.8
    """Share of the pools that the correction helps in which it is to be enabled, by the lower end
    of its 95 % interval."""
    labels: tuple[str, ...] = LABELS
    """Kinds of labels to show. pairs: any pair, which is better? disputed: pairs that the naive and
    the bias-aware ranking order differently. swaps: of those, one content of either top k alone.
    members: these contents, is it one of the truly best k?"""
    n_labels: tuple[int, ...] = ()
    """Numbers of labels to try (count), increasing; of members, draws of two contents, with
    replacement. Default some up to all pairs, 480 at most."""
    position: float = 0.0
    """Position bias kappa* of the judge (logits in favour of the first shown)."""
    discrimination: float = 1.0
    """Factor on quality in its logits (pure number)."""
    noise: float = 0.0
    """Chance that a label is wrong, for whoever uses it."""
    sd: float = 1.2
    """Standard deviation of quality (logits)."""
    covariate: pools.CovariateKind = "continuous"
    """continuous: Gaussian, variance 1. binary: 1 for the upper half of a latent, else 0."""
    lam: float = 1.0
    """Prior precision of quality in the fits (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa in the fits (1/logit^2)."""
    pools: int = 1024
    """Pools simulated (count)."""
    sets: int = 20
    """Label sets drawn in each pool (count)."""

    @property
    def n_pairs(self) -> int:
        return self.n_items * (self.n_items - 1) // 2

    @property
    def numbers(self) -> list[int]:
        """[K] labels tried; for members, draws of two."""
        if self.n_labels:
            return list(self.n_labels)
        fewer = [n for n in ROUND if n < self.n_pairs]
        return [*fewer, self.n_pairs] if self.n_pairs <= ROUND[-1] else fewer

    def check(self) -> None:
        if not 0 < self.power < 1:
            raise ValueError(f"power must lie between 0 and 1, got {self.power:g}")
        unknown = [name for name in self.labels if name not in LABELS]
        if unknown or not self.labels:
            got = repr(unknown[0]) if unknown else "nothing"
            raise ValueError(f"labels must list some of {', '.join(LABELS)}, got {got}")
        check_judged(self)
        check_count("sets", self.sets)
        gate.check_alpha(self.alpha)
        if (np.diff([0, *self.numbers, self.n_pairs + 1]) <= 0).any():
            limits = f"within 1..{self.n_pairs}, the pairs of {self.n_items} items"
            raise ValueError(f"n_labels must increase {limits}, got {self.numbers}")
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
            _, rankings = judged(self, key, condition["rho"])
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
        out = simulate(experiment, conditions, ids, seed=self.seed, progress=progress)
        out = {name: values[:, 0] for name, values in out.items()}
        helped = out["bias_aware"] > out["naive"] + RISE
        classes = dict(zip(CLASSES, (helped, ~helped, out["agreement_harmed"]), strict=True))

        def interval(values: np.ndarray) -> dict[str, Any]:
            return dict(zip(("estimate", "ci_low", "ci_high"), over_pools(values), strict=True))

        def rates(values: np.ndarray) -> dict[str, Any]:
            return {name: interval(values[pools]) for name, pools in classes.items()}

        used, labels = out["used"].mean(0, dtype=float), {}
        for kind in self.labels:
            i = LABELS.index(kind)
            rate = rates(out["rate"][:, i])
            t = lasting(rate["helped"]["ci_low"] >= self.power)
            labels[kind] = {
                "smallest_n_labels": None if t is None else self.numbers[t],
                "labels_used": used[i],
                "enable_rate": rate,
            }
        census = {
            "labels_used": float(out["census_used"].mean()),
            "enable_rate": rates(out["census_rate"]),
        }
        return {
            "n_labels": self.numbers,
            "recall_naive": float(out["naive"].mean()),
            "recall_bias_aware": float(out["bias_aware"].mean()),
            "pool_classes": {name: interval(pools) for name, pools in classes.items()},
            "labels": labels,
            "census": census,
        }

    def report(self, plan: Mapping[str, Any]) -> Report:
        share = {name: _percent(v) for name, v in plan["pool_classes"].items()}
        recalls = (
            f"Top-{self.k} recall in {self.pools} simulated pools: naive "
            f"{plan['recall_naive']:.3f}, bias-aware {plan['recall_bias_aware']:.3f}.\nRecall is "
            f"higher with the correction in {share['helped']} of them and not in "
            f"{share['recall_harmed']};\non the pairs that the two rankings order differently, the "
            f"correction is right on at most\nhalf in {share['agreement_harmed']}."
        )
        if not plan["pool_classes"]["helped"]["estimate"]:
            none = "There is no simulated pool that the correction helps: nothing to enable it for."
            return report_of(recalls, none)
        kinds, numbers, census = plan["labels"], self.numbers, plan["census"]
        cells = {
            n: [_percent(of["enable_rate"]["helped"], i) for of in kinds.values()]
            for i, n in enumerate(numbers)
        }
        table = (
            f"Share of the helped pools in which sign at alpha = {self.alpha:g} enables, by labels"
            "\n"
        ) + columns("labels", list(kinds), cells, 24)
        heads = ("needed", "bought", "enabled: helped", "recall-harmed", "agreement-harmed")
        rows: list[tuple[Any, ...]] = [("labels", *heads)]
        missed = []
        for name, of in kinds.items():
            n = of["smallest_n_labels"]
            i = -1 if n is None else numbers.index(n)
            used = float(of["labels_used"][i])
            rates = [_percent(v, i) for v in of["enable_rate"].values()]
            rows.append((name, "never" if n is None else n, f"{used:.1f}", *rates))
            if n is None:
                every = used < 0.99 * numbers[-1] or numbers[-1] == self.n_pairs
                tried = f"all labels there are, {used:.1f} on average"
                tried = tried if every else f"the {numbers[-1]} labels tried"
                missed.append(f"{name}: not reached with {tried}")
        if "members" in kinds:
            rates = [_percent(v) for v in census["enable_rate"].values()]
            rows.append(("census", "all", f"{census['labels_used']:.1f}", *rates))
        needed = [
            f"For a power of {self.power:g} by the lower end of the interval, of those tried",
            *("{:10}{:>8}{:>8}{:>22}{:>22}{:>22}".format(*row) for row in rows),
        ]
        notes = (
            "members: draws of two of them, with replacement. census: all members labelled, "
            "enabled if recall\nrises by their labels. recall-harmed: recall is not higher with "
            "the correction. agreement-harmed:\nit is right on at most half of the pairs in "
            "dispute. alpha bounds what sign enables of the former on\nmembers, of the latter on "
            "pairs and disputed"
        )
        wrong = "; not on members some of whose labels\nare wrong, as one is used again."
        paragraphs = [table, "\n".join(needed), "\n".join(missed)]
        paragraphs.append(notes + (wrong if self.noise > 0 else "."))
        return report_of(f"{self._answer(plan)}\n{recalls}", *filter(None, paragraphs))

    def _answer(self, plan: Mapping[str, Any]) -> str:
        """How many labels it takes, of each kind."""
        smallest = {name: of["smallest_n_labels"] for name, of in plan["labels"].items()}
        enough = [f"{n} {name}" for name, n in smallest.items() if n is not None]
        census = plan["census"]
        if "members" in smallest and census["enable_rate"]["helped"]["ci_low"] >= self.power:
            enough.append(f"all members ({census['labels_used']:.1f})")
        never = ", ".join(name for name, n in smallest.items() if n is None)
        share = f"{100 * self.power:g} % of the pools that the correction helps"
        text = f"Labels to enable in {share}: {', or '.join(enough) or 'never'}"
        return text + (f"; {never} never" if enough and never else "")


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
