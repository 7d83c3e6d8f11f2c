"""The command `jbt plan gate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jbt import planning, runtime
from jbt.border import files
from jbt.border.progress import steps
from jbt.commands.plan.options import PlanOptions
from jbt.gate import LABELS
from jbt.simulation.pools import CovariateKind


@dataclass(frozen=True, kw_only=True)
class GateOptions(PlanOptions):
    """How many trusted labels, and of which kind, does it take to switch a correction on where it
    helps, with a bound on how often that happens where it harms? The exact one-sided sign test on
    discordant labels, as `jbt gate --rule sign` decides, tried on simulated pools."""

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
    covariate: CovariateKind = "continuous"
    """continuous: Gaussian, variance 1. binary: 1 for the upper half of a latent, else 0."""
    lam: float = 1.0
    """Prior precision of quality in the fits (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa in the fits (1/logit^2)."""
    pools: int = 1024
    """Pools simulated (count)."""
    sets: int = 20
    """Label sets drawn in each pool (count)."""

    def check(self) -> None:
        if not 0 < self.power < 1:
            raise ValueError(f"power must lie between 0 and 1, got {self.power:g}")
        unknown = [name for name in self.labels if name not in LABELS]
        if unknown or not self.labels:
            got = repr(unknown[0]) if unknown else "nothing"
            raise ValueError(f"labels must list some of {', '.join(LABELS)}, got {got}")


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan gate`; returns the exit code.

    Raises:
      ValueError: a wrong option, in one line.
    """
    options = GateOptions.parse(argv, "gate")
    runtime.start()
    with steps(options.pools, name="plan gate", unit="pool") as step:
        plan = planning.gate_labels(
            **options.of_pools("labels", "power", "n_labels"),
            n_labels=options.n_labels or None,
            pools_simulated=options.pools,
            progress=step,
        )
    options.write(_record(options, plan))
    _print(options, plan)
    return 0


def _record(options: GateOptions, plan: planning.GatePlan) -> dict[str, Any]:
    def interval(ends: np.ndarray) -> dict[str, object]:
        names = ("estimate", "ci_low", "ci_high")
        return {name: files.defined(v) for name, v in zip(names, ends, strict=True)}

    return {
        "n_labels": plan.n_labels.tolist(),
        "recall_naive": plan.recall_naive,
        "recall_bias_aware": plan.recall_bias_aware,
        "pool_classes": {name: interval(v) for name, v in plan.share.items()},
        "labels": {
            labels: {
                "smallest_n_labels": plan.smallest(labels, options.power),
                "labels_used": files.defined(plan.labels_used[labels]),
                "enable_rate": {c: interval(v) for c, v in plan.rate[labels].items()},
            }
            for labels in options.labels
        },
        "census": {
            "labels_used": plan.census_used,
            "enable_rate": {c: interval(v) for c, v in plan.census_rate.items()},
        },
    }


def _print(options: GateOptions, plan: planning.GatePlan) -> None:
    share = {name: _percent(v) for name, v in plan.share.items()}
    if plan.share["helped"][0]:
        print(_answer(options, plan))
    print(
        f"Top-{options.k} recall in {options.pools} simulated pools: naive "
        f"{plan.recall_naive:.3f}, bias-aware {plan.recall_bias_aware:.3f}.\nRecall is higher "
        f"with the correction in {share['helped']} of them and not in {share['recall_harmed']};\n"
        f"on the pairs that the two rankings order differently, the correction is right on at "
        f"most\nhalf in {share['agreement_harmed']}.\n"
    )
    if not plan.share["helped"][0]:
        print("There is no simulated pool that the correction helps: nothing to enable it for.")
        return
    print(
        f"Share of the helped pools in which sign at alpha = {options.alpha:g} enables, by labels"
    )
    wrong = options.noise > 0
    print("labels " + "".join(f"{name:>24}" for name in options.labels))
    for i, n in enumerate(plan.n_labels):
        cells = [_percent(plan.rate[name]["helped"][:, i]) for name in options.labels]
        print(f"{n:6d} " + "".join(f"{cell:>24}" for cell in cells))
    print(f"\nFor a power of {options.power:g} by the lower end of the interval, of those tried")
    heads = ("enabled: helped", "recall-harmed", "agreement-harmed")
    print(f"{'labels':10}{'needed':>8}{'bought':>8}" + "".join(f"{head:>22}" for head in heads))
    missed = []
    for name in options.labels:
        smallest = plan.smallest(name, options.power)
        i = -1 if smallest is None else list(plan.n_labels).index(smallest)
        used, needed = float(plan.labels_used[name][i]), "never" if smallest is None else smallest
        rates = {c: v[:, i] for c, v in plan.rate[name].items()}
        _print_row(name, needed, used, rates)
        if smallest is None:
            missed.append(_missed(name, int(plan.n_labels[i]), used, options))
    if "members" in options.labels:
        _print_row("census", "all", plan.census_used, plan.census_rate)
    print("".join(f"\n{line}" for line in missed) + "\n" * bool(missed))
    print(
        "members: draws of two of them, with replacement. census: all members labelled, enabled if "
        "recall\nrises by their labels. recall-harmed: recall is not higher with the correction. "
        "agreement-harmed:\nit is right on at most half of the pairs in dispute. alpha bounds what "
        "sign enables of the former on\nmembers, of the latter on pairs and disputed"
        + ("; not on members some of whose labels\nare wrong, as one is used again." * wrong or ".")
    )


def _answer(options: GateOptions, plan: planning.GatePlan) -> str:
    """How many labels it takes, of each kind."""
    smallest = {name: plan.smallest(name, options.power) for name in options.labels}
    enough = [f"{n} {name}" for name, n in smallest.items() if n is not None]
    if "members" in options.labels and plan.census_rate["helped"][1] >= options.power:
        enough.append(f"all members ({plan.census_used:.1f})")
    never = [name for name, n in smallest.items() if n is None]
    text = f"Labels to enable in {100 * options.power:g} % of the pools that the correction helps: "
    text += ", or ".join(enough) or "never"
    return text + (f"; {', '.join(never)} never" if enough and never else "")


def _print_row(name: str, needed: int | str, used: float, rates: Mapping[str, np.ndarray]) -> None:
    cells = "".join(f"{_percent(v):>22}" for v in rates.values())
    print(f"{name:10}{needed:>8}{used:8.1f}{cells}")


def _missed(name: str, n: int, used: float, options: GateOptions) -> str:
    """Where the power is not reached."""
    if used < 0.99 * n or n == options.n_items * (options.n_items - 1) // 2:
        return f"{name}: not reached with all labels there are, {used:.1f} on average"
    return f"{name}: not reached with the {n} labels tried"


def _percent(shares: np.ndarray) -> str:
    if np.isnan(shares[0]):
        return "none"
    rate, low, high = 100 * shares
    return f"{rate:.1f} % [{low:.1f}, {high:.1f}]"
