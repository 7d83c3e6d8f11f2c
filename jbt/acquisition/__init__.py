"""Active top-k: which comparisons to spend a budget on, and whom to ask."""

from jbt.acquisition.loop import Loop, State, init, step
from jbt.acquisition.panel_rules import PANEL_RULES, PanelRule
from jbt.acquisition.rules import RULES, Rule
from jbt.acquisition.runs import Trace, reports, run
from jbt.acquisition.task import Panelists, Task
from jbt.acquisition.views import PanelView, View

__all__ = [
    "PANEL_RULES",
    "RULES",
    "Loop",
    "PanelRule",
    "PanelView",
    "Panelists",
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
