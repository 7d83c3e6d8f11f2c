"""The command `jbt plan`; plans on simulated pools are files of `jbt.planning`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

PLANS = {
    "gate": "jbt.planning.gate_plan",
    "labels": "jbt.commands.plan.labels",
    "pairing": "jbt.planning.pairing_plan",
    "prompts": "jbt.commands.plan.prompts",
    "reference": "jbt.planning.reference_plan",
}
"""Module of each plan."""


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
        problem = f"unknown plan {argv[0]!r}" if argv else "nothing to plan"
        raise ValueError(f"{problem}: one of {', '.join(PLANS)}")
    return importlib.import_module(PLANS[argv[0]]).main(argv[1:])
