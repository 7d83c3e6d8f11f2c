"""A user's own verdicts: from tables to fits.

    from jbt import own

    batch = own.load("verdicts.csv", "items.csv", ["words"], transform="log")
    for fit in own.fit(batch, k=1):
        print(fit.pool, fit.judge, fit.status.name, fit.c, fit.kappa)

`jbt fit` does the same on the command line. Everything is computed in float64, whatever JAX's own
setting. Needs pandas, so `import jbt` leaves it out.
"""

from jbt.own.analysis import PoolFit, fit
from jbt.own.batch import Batch, Group, PoolTable, Position, load
from jbt.own.board import Leaderboard
from jbt.own.gate import Decision, Gate, gate
from jbt.own.joint import JudgeFit, fit_judges
from jbt.own.labelling import Labelling, labelling
from jbt.own.leaderboard import leaderboard
from jbt.own.panel_fit import PanelFit, fit_panel
from jbt.own.panels import Judges
from jbt.own.reading import TableError
from jbt.own.replay import Replay, replay
from jbt.own.rule import Rule
from jbt.own.summary import JudgeSummary, summarise
from jbt.own.tables import Tables, Ties, Transform, covariate_values, read
from jbt.own.verdicts import Columns

__all__ = [
    "Batch",
    "Columns",
    "Decision",
    "Gate",
    "Group",
    "JudgeFit",
    "JudgeSummary",
    "Judges",
    "Labelling",
    "Leaderboard",
    "PanelFit",
    "PoolFit",
    "PoolTable",
    "Position",
    "Replay",
    "Rule",
    "TableError",
    "Tables",
    "Ties",
    "Transform",
    "covariate_values",
    "fit",
    "fit_judges",
    "fit_panel",
    "gate",
    "labelling",
    "leaderboard",
    "load",
    "read",
    "replay",
    "summarise",
]
