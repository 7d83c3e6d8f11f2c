"""The command `jbt plan pairing`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jbt import planning, runtime
from jbt.border import files
from jbt.border.progress import steps
from jbt.commands.plan.options import PlanOptions
from jbt.types import check_positive


@dataclass(frozen=True, kw_only=True)
class PairingOptions(PlanOptions):
    """How many contents must be rendered twice to know the bias coefficient c? The expected
    half-width of its 95 % interval, from the information at the truth of simulated pools
    (float64)."""

    half_width: float = 0.2
    """The half-width wanted (logits per unit of the covariate)."""
    n_contents: int = 30
    """Contents of a pool (count)."""
    budget: int = 3480
    """Verdicts to be spent (count), evenly over the pairs that may be asked."""
    n_twice: tuple[int, ...] = ()
    """Numbers of contents rendered twice to try (count), increasing; default all up to
    n_contents."""
    max_repeats: float = 1.0
    """How often an ordered pair may be asked (count); more than 1 only for a judge whose answers to
    the same question are independent draws."""
    bias: float = 1.0
    """Bias c* of the judge expected (logits per unit of the covariate)."""
    position: float = 0.0
    """Its position bias kappa* (logits in favour of the first shown)."""
    discrimination: float = 1.0
    """Factor on quality in its logits (pure number)."""
    sd: float = 1.2
    """Standard deviation of quality (logits)."""
    rho: float = 0.0
    """Correlation of quality and covariate of the contents as they come."""
    spread: float = 1.0
    """Standard deviation of that covariate (units of the covariate)."""
    offset: float = 1.0
    """Covariate of the second rendering minus that of the first (units of the covariate)."""
    pools: int = 128
    """Pools simulated (count)."""

    def check(self) -> None:
        check_positive("half_width", self.half_width)


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan pairing`; returns the exit code.

    Raises:
      ValueError: a wrong option, in one line.
    """
    options = PairingOptions.parse(argv, "pairing")
    runtime.start()
    with steps(options.pools, name="plan pairing", unit="pool") as step:
        plan = planning.pairing(
            **options.of_pools("half_width", "n_twice"),
            n_twice=options.n_twice or None,
            pools_simulated=options.pools,
            progress=step,
        )
    options.write(_record(options, plan))
    _print(options, plan)
    return 0


def _record(options: PairingOptions, plan: planning.PairingPlan) -> dict[str, Any]:
    choices = {
        name: {
            "smallest_n_twice": plan.smallest(name, options.half_width),
            "half_width": files.defined(plan.half_width[name]),
            "half_width_5_percent": files.defined(plan.low[name]),
            "half_width_95_percent": files.defined(plan.high[name]),
            "verdicts": files.defined(plan.verdicts[name]),
        }
        for name in plan.half_width
    }
    return {"n_twice": plan.n_twice.tolist(), "comparisons": choices}


def _print(options: PairingOptions, plan: planning.PairingPlan) -> None:
    names = list(plan.half_width)
    print(
        f"Expected half-width of the 95 % interval for c: up to {options.budget} verdicts on "
        f"{options.n_contents} contents,\nmean over {options.pools} simulated pools "
        f"[central 90 % of pools], by choice of comparisons"
    )
    print("n_twice " + "".join(f"{name:>22}" for name in names))
    last = len(plan.n_twice) - 1
    shown = range(last + 1) if last < 12 else {0, 1, 2, *range(2, last, last // 10), last}
    for t in sorted(shown):
        cells = [
            f"{plan.half_width[n][t]:.3f} [{plan.low[n][t]:.3f}, {plan.high[n][t]:.3f}]"
            for n in names
        ]
        print(f"{plan.n_twice[t]:7d} " + "".join(f"{cell:>22}" for cell in cells))
    print(f"\nTo know c to +-{options.half_width:g} in the mean, render twice:")
    for name in names:
        smallest = plan.smallest(name, options.half_width)
        tried = "not with any of those tried" if options.n_twice else "not even all of them"
        answer = f"{smallest} contents" if smallest else tried
        t = last if smallest is None else list(plan.n_twice).index(smallest)
        spent = round(plan.verdicts[name][t])
        less = "" if spent >= options.budget else f" ({spent} verdicts, no pair is left to ask)"
        print(f"  {name + ':':8} {answer}{less}")
    print(
        "all: every ordered pair alike; across: different contents; within: the two renderings of\n"
        "one content, which say nothing about quality; mixed: half within, half across, as far as\n"
        f"asking a pair {options.max_repeats:g} times at most allows (where all are, mixed is all)."
    )
    if any(np.isinf(v).any() for v in plan.half_width.values()):
        print("inf: in some pool the verdicts would be certain, and say nothing more about c.")
