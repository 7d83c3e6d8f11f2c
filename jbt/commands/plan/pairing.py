"""The command `jbt plan pairing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    (float64). With --interaction also for a bias that may grow with quality."""

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
    interaction: float | None = None
    """Growth gamma* of its bias with quality (logits per unit of the covariate and of quality),
    then unknown too: the plan is for c, gamma and the mean bias of the contents rendered twice.
    Default one bias for all contents."""
    twice: str = planning.TWICE[0]
    """With --interaction, which contents are rendered twice: `any`, or those nearest to the
    `boundary` of the top k."""
    k: int = 5
    """Size of the top set that --twice boundary means (count)."""
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
        if self.twice not in planning.TWICE:
            raise ValueError(f"twice must be {' or '.join(planning.TWICE)}, got {self.twice!r}")
        if self.interaction is None and self.twice != planning.TWICE[0]:
            raise ValueError(
                f"--twice {self.twice} needs --interaction: one bias is the same everywhere"
            )


GROWTH = ("interaction", "twice", "k")
"""Options of a plan with a bias that may grow."""
WHAT = {
    "c": "c",
    "gamma": "gamma (logits per unit of the covariate and of quality)",
    "twice": "the mean bias of the contents rendered twice",
}


def main(argv: Sequence[str]) -> int:
    """Run `jbt plan pairing`; returns the exit code.

    Raises:
      ValueError: a wrong option, in one line.
    """
    options = PairingOptions.parse(argv, "pairing")
    runtime.start()
    with steps(options.pools, name="plan pairing", unit="pool") as step:
        expected = options.of_pools("half_width", "n_twice", *GROWTH)
        common = {"pools_simulated": options.pools, "progress": step}
        common |= {"n_twice": options.n_twice or None}
        if options.interaction is None:
            plans = {"c": planning.pairing(**expected, **common)}
        else:
            growth = {name: getattr(options, name) for name in GROWTH}
            plans = planning.pairing_with_interaction(**expected, **growth, **common)
    options.write(_record(options, plans))
    _print(options, plans)
    return 0


def _record(options: PairingOptions, plans: Mapping[str, planning.PairingPlan]) -> dict[str, Any]:
    choices = {
        coefficient: {
            name: {
                "smallest_n_twice": plan.smallest(name, options.half_width),
                "half_width": files.defined(plan.half_width[name]),
                "half_width_5_percent": files.defined(plan.low[name]),
                "half_width_95_percent": files.defined(plan.high[name]),
                "verdicts": files.defined(plan.verdicts[name]),
            }
            for name in plan.half_width
        }
        for coefficient, plan in plans.items()
    }
    record = {"n_twice": plans["c"].n_twice.tolist(), "comparisons": choices.pop("c")}
    return record | ({"other_coefficients": choices} if choices else {})


def _print(options: PairingOptions, plans: Mapping[str, planning.PairingPlan]) -> None:
    middle = "mean" if len(plans) == 1 else "median"
    for coefficient, plan in plans.items():
        _print_smallest(options, middle, WHAT[coefficient], plan)
    print(
        f"Expected half-width of the 95 % interval: up to {options.budget} verdicts on "
        f"{options.n_contents} contents,\n{middle} over {options.pools} simulated pools "
        f"[central 90 % of pools], by choice of comparisons"
    )
    for coefficient, plan in plans.items():
        _print_widths(WHAT[coefficient], plan)
    print(
        "\nall: every ordered pair alike; across: different contents; within: the two renderings\n"
        "of one content, which say nothing about quality; mixed: half within, half across, as far\n"
        f"as asking a pair {options.max_repeats:g} times at most allows (where all are, mixed is "
        "all)."
    )
    if any(np.isinf(v).any() for plan in plans.values() for v in plan.half_width.values()):
        why = "the verdicts would be certain, and say nothing more"
        if len(plans) > 1:
            why += ";\nor gamma is not identified, which takes two contents rendered twice, and"
            why += " comparisons across\ncontents"
        print(f"inf: in {'some' if len(plans) == 1 else 'most'} pools {why}.")


def _print_widths(what: str, plan: planning.PairingPlan) -> None:
    names = list(plan.half_width)
    print(f"\n{what}\nn_twice " + "".join(f"{name:>22}" for name in names))
    last = len(plan.n_twice) - 1
    shown = range(last + 1) if last < 12 else {0, 1, 2, *range(2, last, last // 10), last}
    for t in sorted(shown):
        cells = []
        for name in names:
            middle, low, high = (_short(v[name][t]) for v in (plan.half_width, plan.low, plan.high))
            cells.append(f"{middle} [{low}, {high}]")
        print(f"{plan.n_twice[t]:7d} " + "".join(f"{cell:>22}" for cell in cells))


def _short(width: float) -> str:
    return f"{width:.3f}" if width < 10 else f"{width:.0f}" if width < 1000 else f"{width:.0e}"


def _print_smallest(
    options: PairingOptions, middle: str, what: str, plan: planning.PairingPlan
) -> None:
    print(f"To know {what} to +-{options.half_width:g} in the {middle}, render twice:")
    last = len(plan.n_twice) - 1
    for name in plan.half_width:
        smallest = plan.smallest(name, options.half_width)
        tried = "not with any of those tried" if options.n_twice else "not even all of them"
        answer = f"{smallest} contents" if smallest else tried
        t = last if smallest is None else list(plan.n_twice).index(smallest)
        spent = round(plan.verdicts[name][t])
        less = "" if spent >= options.budget else f" ({spent} verdicts, no pair is left to ask)"
        print(f"  {name + ':':8} {answer}{less}")
    print()
