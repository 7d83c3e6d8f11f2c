"""The command `jbt plan reference`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jbt import planning, runtime
from jbt.border import files
from jbt.border.progress import steps
from jbt.commands.plan.options import PlanOptions
from jbt.simulation.pools import CovariateKind
from jbt.types import check_positive


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions(PlanOptions):
    """How many verdicts of a trusted reference, and about which pairs, tell the bias coefficient c
    of a cheap judge who judged every ordered pair once? The half-width of the 95 % interval of c
    that simulated verdicts of the reference give, and the recall of the fit of both judges
    in which quality may go with the covariate (float64)."""

    half_width: float | None = None
    """The half-width wanted (logits per unit of the covariate); default 0.5 unless --recall is
    given."""
    recall: float | None = None
    """The top-k recall wanted (share of k): the mean over pools, by the lower end of its 95 %
    interval, which more --pools narrow."""
    n_items: int = 30
    """Items of a pool (count)."""
    k: int = 5
    """Size of the top set (count)."""
    n_reference: tuple[int, ...] = (0, 5, 10, 20, 30, 45, 60, 90, 120)
    """Numbers of reference verdicts to try (count), increasing."""
    bias: float = 1.0
    """Bias c* of the cheap judge expected (logits per unit of the covariate)."""
    position: float = 0.0
    """Its position bias kappa* (logits in favour of the first shown)."""
    discrimination: float = 1.0
    """Factor on quality in its logits (pure number)."""
    reference_bias: float = 0.0
    """Bias of the reference in truth, which the fit takes for zero (logits per unit)."""
    reference_discrimination: float = 1.0
    """Factor on quality in its logits, known to the fit (pure number)."""
    sd: float = 1.2
    """Standard deviation of quality (logits)."""
    rho: float = 0.0
    """Correlation of quality and covariate."""
    covariate: CovariateKind = "continuous"
    """continuous: Gaussian, variance 1. binary: 1 for the upper half of a latent, else 0."""
    lam: float = 1.0
    """Prior precision of quality in the fits (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa in the fits (1/logit^2)."""
    pools: int = 512
    """Pools simulated (count)."""

    def check(self) -> None:
        if self.half_width is not None:
            check_positive("half_width", self.half_width)
        if self.recall is not None and not 0 < self.recall <= 1:
            raise ValueError(f"recall must lie in (0, 1], got {self.recall:g}")


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan reference`; returns the exit code.

    Raises:
      ValueError: a wrong option, in one line.
    """
    options = ReferenceOptions.parse(argv, "reference")
    if options.half_width is None and options.recall is None:
        options = replace(options, half_width=0.5)
    wanted = {"half_width": options.half_width, "recall": options.recall}
    runtime.start()
    with steps(options.pools, name="plan reference", unit="pool") as step:
        plan = planning.reference_verdicts(
            **options.of_pools(*wanted), pools_simulated=options.pools, progress=step
        )
    options.write(_record(plan, wanted))
    _print(options, plan, wanted)
    return 0


def _record(plan: planning.ReferencePlan, wanted: Mapping[str, float | None]) -> dict[str, Any]:
    placements = {
        name: {
            "smallest_n_reference": plan.smallest(name, **wanted),
            "half_width": files.defined(plan.half_width[name]),
            "half_width_5_percent": files.defined(plan.low[name]),
            "half_width_95_percent": files.defined(plan.high[name]),
            "asked": files.defined(plan.asked[name]),
            "recall": files.defined(plan.recall[name]),
            "recall_standard_error": files.defined(plan.recall_error[name]),
        }
        for name in plan.half_width
    }
    return {
        "n_reference": plan.n_reference.tolist(),
        "recall_naive": plan.recall_naive,
        "recall_bias_aware": plan.recall_bias_aware,
        "placements": placements,
    }


def _print(
    options: ReferenceOptions, plan: planning.ReferencePlan, wanted: Mapping[str, float | None]
) -> None:
    names, error = list(plan.half_width), 1.96 * _largest(plan.recall_error)
    goals = {
        "half_width": "c to +-{:g} in the median pool",
        "recall": "a mean recall of {:g} by the lower end of its 95 % interval",
    }
    goal = " and ".join(goals[k].format(v) for k, v in wanted.items() if v is not None)
    print(f"For {goal}, of those tried:")
    for name in names:
        smallest = plan.smallest(name, **wanted)
        answer = "more than those tried" if smallest is None else f"{smallest} verdicts"
        t = -1 if smallest is None else list(plan.n_reference).index(smallest)
        asked = plan.asked[name][t]
        fewer = f" (there are pairs for {asked:.0f} on average)"
        reached = ""
        if wanted["recall"] is not None:
            low, high = (v[t] for v in plan.recall_interval(name))
            reached = f", recall {plan.recall[name][t]:.3f} [{low:.3f}, {high:.3f}]"
            reached += f" with {plan.n_reference[t]}" * (smallest is None)
        print(
            f"  {name + ':':10} {answer}{reached}{fewer * bool(asked < 0.99 * plan.n_reference[t])}"
        )
    print()
    print(
        f"A cheap judge on every ordered pair of {options.n_items} items, and verdicts of a "
        f"reference by placement:\nhalf-width of the 95 % interval of the cheap judge's c, median "
        f"over {options.pools} simulated pools\n[central 90 % of pools], then top-{options.k} "
        f"recall of the fit of both (95 %: +-{error:.3f} at most).\nThe cheap judge alone: naive "
        f"{plan.recall_naive:.3f}, bias-aware {plan.recall_bias_aware:.3f}."
    )
    print("verdicts " + "".join(f"{name:>30}" for name in names))
    for t, n in enumerate(plan.n_reference):
        cells = [
            f"{plan.half_width[p][t]:.2f} [{plan.low[p][t]:.2f}, {plan.high[p][t]:.2f}]"
            f"  {plan.recall[p][t]:.3f}"
            for p in names
        ]
        print(f"{n:8d} " + "".join(f"{cell:>30}" for cell in cells))
    print(
        "boundary: contents within three places of the boundary by the naive or the bias-aware\n"
        "ranking; disputed: pairs that these order differently; random: any pair. inf: the\n"
        "verdicts do not identify c in half of the pools or more."
    )


def _largest(values: Mapping[str, np.ndarray]) -> float:
    return float(max(v.max() for v in values.values()))
