"""One file a `jbt` command: it parses the options, calls the library and prints."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

COMMANDS = {
    "ask": "study:ask",
    "audit": "audit",
    "completion": "completion",
    "doctor": "doctor",
    "example": "example",
    "fit": "fit",
    "gate": "gate",
    "identify": "identify",
    "import": "importing",
    "judge": "judge",
    "leaderboard": "leaderboard",
    "plan gate": ".planning.gate_plan",
    "plan labels": "plan.labels",
    "plan pairing": ".planning.pairing_plan",
    "plan prompts": "plan.prompts",
    "plan reference": ".planning.reference_plan",
    "replay": "replay",
    "status": "study:status",
    "sweep": "sweep",
    "tell": "study:tell",
}
"""Module of each command, in this package, and the function where it is not `main`."""


def function_of(command: str) -> Callable[[Sequence[str]], int]:
    """The function that runs a command with its options, and returns the exit code."""
    name, _, function = COMMANDS[command].partition(":")
    module = importlib.import_module(f".{name}", __name__)
    return getattr(module, function or "main")
