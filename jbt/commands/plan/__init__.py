"""The command `jbt plan`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from jbt import __version__, planning, runtime
from jbt.border import files
from jbt.border.parsing import parse
from jbt.border.progress import steps
from jbt.commands.plan import gate as plan_gate
from jbt.experiments.declare import check_fields
from jbt.simulation.pools import CovariateKind
from jbt.types import check_positive


@dataclass(frozen=True, kw_only=True)
class PairingOptions:
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
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    json: Path | None = None
    """Write the plan to this file, in a folder that exists."""


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions:
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
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
    json: Path | None = None
    """Write the plan to this file, in a folder that exists."""


def main(argv: Sequence[str]) -> int:
    """Run one of `PLANS`; returns the exit code.

    Raises:
      ValueError: a wrong option, in one line.
    """
    argv = list(argv)
    if argv in (["--help"], ["-h"]):
        print("plans: " + ", ".join(f"{name} (jbt plan {name} --help)" for name in PLANS))
        return 0
    if not argv or argv[0] not in PLANS:
        found = f"unknown plan {argv[0]!r}" if argv else "nothing to plan"
        raise ValueError(f"{found}: one of {', '.join(PLANS)}")
    return PLANS[argv[0]](argv[1:])


def pairing(argv: Sequence[str]) -> int:
    """Run `jbt plan pairing`; returns the exit code."""
    options = parse(PairingOptions, argv, prog="jbt plan pairing")
    check_positive("half_width", options.half_width)
    files.check_writable(options.json)
    check_fields(options)
    fields = asdict(options)
    for name in ("json", "half_width"):
        fields.pop(name)
    pools_simulated, n_twice = fields.pop("pools"), fields.pop("n_twice")
    runtime.start()
    with steps(pools_simulated, name="plan pairing", unit="pool") as step:
        found = planning.pairing(
            **fields,
            n_twice=n_twice or None,
            pools_simulated=pools_simulated,
            progress=step,
        )
    if options.json is not None:
        _write_plan(options.json, options, found)
    _print_plan(options, found)
    return 0


def _write_plan(path: Path, options: PairingOptions, found: planning.PairingPlan) -> None:
    choices = {
        name: {
            "smallest_n_twice": found.smallest(name, options.half_width),
            "half_width": files.defined(found.half_width[name]),
            "half_width_5_percent": files.defined(found.low[name]),
            "half_width_95_percent": files.defined(found.high[name]),
            "verdicts": files.defined(found.verdicts[name]),
        }
        for name in found.half_width
    }
    settings = {k: v for k, v in asdict(options).items() if k != "json"}
    content = {
        "settings": {**settings, "jbt": __version__},
        "n_twice": found.n_twice.tolist(),
        "comparisons": choices,
    }
    files.write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _print_plan(options: PairingOptions, found: planning.PairingPlan) -> None:
    names = list(found.half_width)
    print(
        f"Expected half-width of the 95 % interval for c: up to {options.budget} verdicts on "
        f"{options.n_contents} contents,\nmean over {options.pools} simulated pools "
        f"[central 90 % of pools], by choice of comparisons"
    )
    print("n_twice " + "".join(f"{name:>22}" for name in names))
    last = len(found.n_twice) - 1
    some = range(last + 1) if last < 12 else {0, 1, 2, *range(2, last, last // 10), last}
    for t in sorted(some):
        cells = [
            f"{found.half_width[n][t]:.3f} [{found.low[n][t]:.3f}, {found.high[n][t]:.3f}]"
            for n in names
        ]
        print(f"{found.n_twice[t]:7d} " + "".join(f"{cell:>22}" for cell in cells))
    print(f"\nTo know c to +-{options.half_width:g} in the mean, render twice:")
    for name in names:
        smallest = found.smallest(name, options.half_width)
        tried = "not with any of those tried" if options.n_twice else "not even all of them"
        answer = f"{smallest} contents" if smallest else tried
        t = last if smallest is None else list(found.n_twice).index(smallest)
        spent = round(found.verdicts[name][t])
        less = "" if spent >= options.budget else f" ({spent} verdicts, no pair is left to ask)"
        print(f"  {name + ':':8} {answer}{less}")
    print(
        "all: every ordered pair alike; across: different contents; within: the two renderings of\n"
        "one content, which say nothing about quality; mixed: half within, half across, as far as\n"
        f"asking a pair {options.max_repeats:g} times at most allows (where all are, mixed is all)."
    )
    if any(np.isinf(v).any() for v in found.half_width.values()):
        print("inf: in some pool the verdicts would be certain, and say nothing more about c.")


def reference(argv: Sequence[str]) -> int:
    """Run `jbt plan reference`; returns the exit code."""
    options = parse(ReferenceOptions, argv, prog="jbt plan reference")
    if options.half_width is None and options.recall is None:
        options = replace(options, half_width=0.5)
    if options.half_width is not None:
        check_positive("half_width", options.half_width)
    if options.recall is not None and not 0 < options.recall <= 1:
        raise ValueError(f"recall must lie in (0, 1], got {options.recall:g}")
    files.check_writable(options.json)
    check_fields(options)
    fields = asdict(options)
    wanted = {name: fields.pop(name) for name in ("half_width", "recall")}
    fields.pop("json")
    pools_simulated = fields.pop("pools")
    runtime.start()
    with steps(pools_simulated, name="plan reference", unit="pool") as step:
        found = planning.reference_verdicts(
            **fields, pools_simulated=pools_simulated, progress=step
        )
    if options.json is not None:
        _write_reference(options.json, options, found, wanted)
    _print_reference(options, found, wanted)
    return 0


def _write_reference(
    path: Path,
    options: ReferenceOptions,
    found: planning.ReferencePlan,
    wanted: Mapping[str, float | None],
) -> None:
    placements = {
        name: {
            "smallest_n_reference": found.smallest(name, **wanted),
            "half_width": files.defined(found.half_width[name]),
            "half_width_5_percent": files.defined(found.low[name]),
            "half_width_95_percent": files.defined(found.high[name]),
            "asked": files.defined(found.asked[name]),
            "recall": files.defined(found.recall[name]),
            "recall_standard_error": files.defined(found.recall_error[name]),
        }
        for name in found.half_width
    }
    settings = {k: v for k, v in asdict(options).items() if k != "json"}
    content = {
        "settings": {**settings, "jbt": __version__},
        "n_reference": found.n_reference.tolist(),
        "recall_naive": found.recall_naive,
        "recall_bias_aware": found.recall_bias_aware,
        "placements": placements,
    }
    files.write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _print_reference(
    options: ReferenceOptions, found: planning.ReferencePlan, wanted: Mapping[str, float | None]
) -> None:
    names, error = list(found.half_width), 1.96 * _largest(found.recall_error)
    print(
        f"A cheap judge on every ordered pair of {options.n_items} items, and verdicts of a "
        f"reference by placement:\nhalf-width of the 95 % interval of the cheap judge's c, median "
        f"over {options.pools} simulated pools\n[central 90 % of pools], then top-{options.k} "
        f"recall of the fit of both (95 %: +-{error:.3f} at most).\nThe cheap judge alone: naive "
        f"{found.recall_naive:.3f}, bias-aware {found.recall_bias_aware:.3f}."
    )
    print("verdicts " + "".join(f"{name:>30}" for name in names))
    for t, n in enumerate(found.n_reference):
        cells = [
            f"{found.half_width[p][t]:.2f} [{found.low[p][t]:.2f}, {found.high[p][t]:.2f}]"
            f"  {found.recall[p][t]:.3f}"
            for p in names
        ]
        print(f"{n:8d} " + "".join(f"{cell:>30}" for cell in cells))
    goals = {
        "half_width": "c to +-{:g} in the median pool",
        "recall": "a mean recall of {:g} by the lower end of its 95 % interval",
    }
    goal = " and ".join(goals[k].format(v) for k, v in wanted.items() if v is not None)
    print(f"\nFor {goal}, of those tried:")
    for name in names:
        smallest = found.smallest(name, **wanted)
        answer = "more than those tried" if smallest is None else f"{smallest} verdicts"
        t = -1 if smallest is None else list(found.n_reference).index(smallest)
        asked = found.asked[name][t]
        fewer = f" (there are pairs for {asked:.0f} on average)"
        reached = ""
        if wanted["recall"] is not None:
            low, high = (v[t] for v in found.recall_interval(name))
            reached = f", recall {found.recall[name][t]:.3f} [{low:.3f}, {high:.3f}]"
            reached += f" with {found.n_reference[t]}" * (smallest is None)
        print(
            f"  {name + ':':10} {answer}{reached}"
            f"{fewer * bool(asked < 0.99 * found.n_reference[t])}"
        )
    print(
        "boundary: contents within three places of the boundary by the naive or the bias-aware\n"
        "ranking; disputed: pairs that these order differently; random: any pair. inf: half of the "
        "pools\nor more are silent about c."
    )


def _largest(values: Mapping[str, np.ndarray]) -> float:
    return float(max(v.max() for v in values.values()))


def labels(argv: Sequence[str]) -> int:
    """Run `jbt plan labels`; returns the exit code."""
    from jbt.commands.plan import labels  # needs pandas, which the other plans do not

    return labels.main(argv)


PLANS = {"gate": plan_gate.main, "labels": labels, "pairing": pairing, "reference": reference}
