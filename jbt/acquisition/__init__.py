"""Active top-k: which comparisons to spend a budget on."""

from jbt.acquisition.loop import Loop, State, init, step
from jbt.acquisition.rules import RULES, Rule, View
from jbt.acquisition.run import Trace, reports, run
from jbt.acquisition.task import Task

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
