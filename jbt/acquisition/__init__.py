"""Active top-k: which comparisons to spend a budget on."""

from jbt.acquisition.loop import Loop, State, Task, Trace, init, reports, run, step
from jbt.acquisition.rules import RULES, Rule, View

__all__ = [
    "RULES",
    "Loop",
    "Rule",
    "State",
    "Task",
    "Trace",
    "View",
    "init",
    "reports",
    "run",
    "step",
]
